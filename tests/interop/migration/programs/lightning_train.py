"""A Lightning job as its documentation has it: nothing of it knows who starts it."""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main():
    lightning.seed_everything(7, verbose=False)
    model = Model()
    loader = DataLoader(TensorDataset(torch.rand(64, 4)), batch_size=8)
    trainer = lightning.Trainer(accelerator="cpu", devices=2, num_nodes=1, strategy="ddp", max_epochs=2,
                                logger=False, enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False)
    trainer.fit(model, loader)
    print(f"rank {trainer.global_rank} of {trainer.world_size}, local rank {trainer.local_rank}: "
          f"weight {model.layer.weight.sum().item():.6f}", flush=True)


if __name__ == "__main__":
    main()
