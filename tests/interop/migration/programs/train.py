"""Plain DistributedDataParallel, which reads what torchrun gives it; old launchers' --local-rank is taken and told."""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local-rank", "--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", 0)))
    parser.add_argument("--lr", type=float, default=0.1)
    arguments = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr)
    torch.manual_seed(dist.get_rank())
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.rand(8, 4)).square().mean().backward()
        optimizer.step()
    weight = model.module.weight.sum().item()
    print(f"rank {dist.get_rank()} of {dist.get_world_size()}, local rank {arguments.local_rank}: weight {weight:.6f}", flush=True)
    dist.destroy_process_group()


main()
