"""Two ranks and more fit a line together: ddprun --nproc-per-node 2 "$(python -m ddprun --example)"."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    inputs = torch.rand(256, 1)
    targets = 3 * inputs - 1
    model = DistributedDataParallel(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(1, 201):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 50 == 0:
            print(f"step {step}  loss {loss.item():.6f}", flush=True)
    if rank == 0:
        slope, offset = model.module.weight.item(), model.module.bias.item()
        print(f"{world} ranks found y = {slope:.2f} x {offset:+.2f}; the data are y = 3 x - 1", flush=True)
    dist.destroy_process_group()


main()
