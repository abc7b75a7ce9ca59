"""The peer of exec-to-first-step: PyTorch's DDP over gloo, the same MLP, batch and optimizer; prints when it stepped."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    images, labels = torch.randn(64, 784), torch.randint(10, (64,))
    torch.nn.functional.cross_entropy(ddp(images), labels).backward()
    optimizer.step()
    if dist.get_rank() == 0:
        print(time.time())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
