"""A Lightning job with two loader processes that saves when it is told to stop: lightning_worker.py FOLDER."""

import sys

import lightning
import torch
from lightning.pytorch.callbacks import Callback, OnExceptionCheckpoint
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class SayReady(Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.global_step == 1:
            print("ready", flush=True)


def main():
    loader = DataLoader(TensorDataset(torch.randn(1 << 16, 4)), batch_size=2, num_workers=2)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=-1, logger=False, enable_progress_bar=False,
        default_root_dir=sys.argv[1], enable_checkpointing=True, enable_model_summary=False,
        callbacks=[SayReady(), OnExceptionCheckpoint(sys.argv[1], "saved")])
    trainer.fit(Model(), loader)


if __name__ == "__main__":
    main()
