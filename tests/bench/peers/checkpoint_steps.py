#!/usr/bin/env python3
"""Python's DDP on gloo with a checkpoint after every step: what it adds to a step.

    checkpoint_steps.py MODEL HOW FOLDER     HOW: torch.save (rank 0), or dcp (torch.distributed.checkpoint.async_save)

Prints, on rank 0, the milliseconds of a step without and with it, measured in turns in this process.
"""

import itertools
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torchvision
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import nets  # noqa: E402

STEPS = {"mnist_cnn": 20, "resnet18": 6}
TURNS = 3


def model_of(name):
    if name == "resnet18":
        return torchvision.models.resnet18(num_classes=10), torch.randn(64, 3, 32, 32)
    return nets.MODELS[name]({"dropout": 0.25}), torch.randn(64, 1, 28, 28)


def main():
    name, how, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    group = dist.new_group(backend="gloo")  # its collectives run beside DDP's, on a thread
    torch.manual_seed(0)
    model, images = model_of(name)
    ddp = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=1e-3, fused=True)
    labels = torch.randint(10, (64,))
    numbers = itertools.count()
    writing = None

    def save():
        nonlocal writing
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        number = next(numbers)
        if how == "torch.save":
            if rank == 0:
                torch.save(state, folder / f"{number % 3}.pt")
            return
        if writing is not None:
            writing.result()
        writing = dcp.async_save(state, checkpoint_id=str(folder / f"dcp-{number % 3}"), process_group=group)

    def steps(count, with_checkpoints):
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(count):
            optimizer.zero_grad()
            nn.functional.cross_entropy(ddp(images), labels).backward()
            optimizer.step()
            if with_checkpoints:
                save()
        dist.barrier()
        return 1000 * (time.perf_counter() - begin) / count

    steps(3, True)
    count = STEPS[name]
    pairs = [(steps(count, False), steps(count, True)) for _ in range(TURNS)]
    if writing is not None:
        writing.result()
    if rank == 0:
        print(min(one for one, _ in pairs), min(other for _, other in pairs), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
