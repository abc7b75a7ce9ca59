"""One Python rank of the DDP benchmark: `ddp_step.py COMMANDS` does what ddp_bench.cc does, with torch's
DistributedDataParallel over gloo."""

import itertools
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer


class BasicBlock(nn.Module):
    def __init__(self, inside, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, out, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Identity()
        if stride != 1 or inside != out:
            self.shortcut = nn.Sequential(nn.Conv2d(inside, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        return torch.relu(self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x))))) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(64)
        blocks, inside = [], 64
        for out in (64, 128, 256, 512):
            blocks += [BasicBlock(inside, out, 1 if out == 64 else 2), BasicBlock(out, out, 1)]
            inside = out
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, 10)

    def forward(self, x):
        return self.head(self.blocks(torch.relu(self.norm(self.conv(x)))).mean((2, 3)))


def make_workload(name, batch):
    if name == "mlp":
        model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
        return model, torch.randn(batch, 784)
    if name == "mnist_cnn":
        model = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))
        return model, torch.randn(batch, 1, 28, 28)
    return ResNet18(), torch.randn(batch, 3, 32, 32)


def make_optimizer(model, how):
    """The same as ours: the fused step."""
    if how.startswith("zero"):
        return ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.001, fused=True)
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)


def make_step(name, batch, how):
    torch.manual_seed(1)
    model, data = make_workload(name, batch)
    target = torch.randint(10, (batch,))
    ddp = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = make_optimizer(model, how)

    def step():
        nn.functional.cross_entropy(ddp(data), target).backward()
        optimizer.step()
        optimizer.zero_grad()  # resets gradients, as ours does

    if how not in ("clip", "clip_nothing", "zero_alone"):
        return step
    nn.functional.cross_entropy(ddp(data), target).backward()
    if how == "zero_alone":
        return optimizer.step
    parameters = list(model.parameters())
    # A bound that falls is below the norm at every call.
    bounds = itertools.repeat(1e9) if how == "clip_nothing" else (1 / call for call in itertools.count(1))
    return lambda: nn.utils.clip_grad_norm_(parameters, next(bounds))


def milliseconds_per_step(step, steps):
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    return 1000 * (time.perf_counter() - begin) / steps


def next_command(commands):
    """The next line of rank 0's file, on every rank; empty at its end."""
    text = torch.zeros(64, dtype=torch.uint8)
    if commands:
        line = commands.readline().encode()
        text[: len(line)] = torch.tensor(list(line), dtype=torch.uint8)
    dist.broadcast(text, 0)
    return bytes(text.tolist()).rstrip(b"\0").decode()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    commands = open(sys.argv[1]) if dist.get_rank() == 0 else None
    prepared = {}
    while line := next_command(commands):
        name, batch, steps, how = (line.split() + [""])[:4]
        if (name, batch, how) not in prepared:
            prepared[name, batch, how] = make_step(name, int(batch), how)
            milliseconds_per_step(prepared[name, batch, how], max(2, int(steps)))  # buckets are rebuilt, caches are warm
        milliseconds = milliseconds_per_step(prepared[name, batch, how], int(steps))
        if dist.get_rank() == 0:
            print(milliseconds, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
