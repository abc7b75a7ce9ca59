"""One Python rank of the DDP benchmark: `ddp_step.py MODEL BATCH STEPS` trains as ddp_bench.cc does, with torch's
DistributedDataParallel over gloo, and prints on rank 0 the milliseconds of a step (median over ten slices)."""

import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

SLICES = 10


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


def main():
    name, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    model, data = make_workload(name, batch)
    target = torch.randint(10, (batch,))
    ddp = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    # The best that Python has for this: the fused step, and gradients zeroed in place as bucket views want it.
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    per_slice = max(1, steps // SLICES)
    times = []
    for part in range(SLICES + 1):
        begin = time.perf_counter()
        for _ in range(per_slice):
            nn.functional.cross_entropy(ddp(data), target).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
        if part > 0:
            times.append(1000 * (time.perf_counter() - begin) / per_slice)
    if dist.get_rank() == 0:
        print(statistics.median(times))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
