"""An Accelerate job as its documentation has it."""

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(7)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.rand(64, 4)), batch_size=8)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(2):
        for (batch,) in loader:
            optimizer.zero_grad()
            accelerator.backward(model(batch).square().mean())
            optimizer.step()
    weight = accelerator.unwrap_model(model).weight.sum().item()
    print(f"rank {accelerator.process_index} of {accelerator.num_processes}, local rank {accelerator.local_process_index}: "
          f"weight {weight:.6f}, {accelerator.mixed_precision}", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
