"""The Python side of the GPU benchmark: `gpu_step.py DEVICE COMMANDS` does the steps of gpu_bench.cc with torch alone.
"compile" in HOW: through torch.compile, which uses CUDA graphs of its own on a GPU."""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from ddp_step import ResNet18
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
import twins  # noqa: E402

DIGITS = ("mlp", "two_conv", "mnist_cnn")


class LeftOut(Exception):
    pass


def conv(inside, out, side):
    return [nn.Conv2d(inside, out, side, padding=side // 2), nn.ReLU(), nn.MaxPool2d(2)]


def make_model(name, side):
    """worker/models and tests/bench/ddp/models.cc"""
    if name == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))
    if name == "two_conv":
        return nn.Sequential(*conv(1, 10, 3), *conv(10, 10, 3), nn.Flatten(), nn.Linear(490, 10))
    if name == "mnist_cnn":
        return nn.Sequential(*conv(1, 16, 5), *conv(16, 32, 5), nn.Flatten(), nn.Linear(1568, 128), nn.ReLU(),
                             nn.Linear(128, 10))
    if name == "gpt":
        return twins.Gpt(side, 65, layers=6, heads=6, width=384)
    if name == "resnet18":
        return ResNet18()
    try:
        from torchvision import models as vision
    except ImportError:
        raise LeftOut("the model is torchvision's, which this Python has not") from None
    if name == "vit_small":
        return vision.VisionTransformer(side, 16, 12, 6, 384, 1536, num_classes=10)
    options = {} if name == "resnet50" else {"dropout": 0.0}
    return getattr(vision, name)(num_classes=10, **options)


def batch_for(name, batch, is_small):
    """And the side of an image, or how long a text is: training.cc has the same."""
    if name == "gpt":
        side = 32 if is_small else 256
        return torch.randint(65, (batch, side)), torch.randint(65, (batch, side)), side
    side = 28 if name in DIGITS else 32 if is_small or name == "resnet18" else 224
    return torch.randn(batch, 1 if name in DIGITS else 3, side, side), torch.randint(10, (batch,)), side


class Training:
    def __init__(self, name, batch, how, device):
        torch.manual_seed(1)
        layout = torch.channels_last if "channels_last" in how else torch.contiguous_format
        data, target, side = batch_for(name, batch, is_small=device == "cpu")
        self.model = make_model(name, side).to(device, memory_format=layout)
        self.data = data.to(device, memory_format=layout) if data.dim() == 4 else data.to(device)
        self.target = target.to(device)
        self.device, self.bf16, self.compiled = device, "bf16" in how, "compile" in how
        if "ddp" in how:
            self.model = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, fused=True)
        # On the CPU, where only this program is tried, nothing is compiled: that would take a minute.
        options = {"mode": "reduce-overhead"} if device == "cuda" else {"backend": "aot_eager"}
        self.loss_of_batch = torch.compile(self.forward, **options) if self.compiled else self.forward

    def forward(self):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.bf16):
            return nn.functional.cross_entropy(self.model(self.data).flatten(0, -2), self.target.flatten())

    def step(self):
        if self.compiled:
            torch.compiler.cudagraph_mark_step_begin()
        loss = self.loss_of_batch()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


def wait_for(device):
    if device == "cuda":
        torch.cuda.synchronize()


def milliseconds_each(device, step, times):
    """And the last loss."""
    wait_for(device)
    begin = time.perf_counter()
    for _ in range(times):
        loss = step()
    wait_for(device)
    return 1000 * (time.perf_counter() - begin) / times, loss.item()


def answer(prepared, device, line):
    name, batch, times, how = line.split()
    key = name, batch, how
    if key not in prepared:
        try:
            prepared[key] = Training(name, int(batch), how.split("+"), device)
        except LeftOut as why:
            prepared[key] = f"left out: {why}"
            return prepared[key]
        try:
            milliseconds_each(device, prepared[key].step, max(2, int(times)))  # compiled, caches are warm
        except Exception as error:  # pylint: disable=broad-exception-caught; what a compiler can lack has many names
            if "compile" not in how:
                raise
            why = (str(error).strip().splitlines() or ["no word of it"])[0].replace("|", "/")
            prepared[key] = f"left out: torch.compile fails here: {type(error).__name__}: {why}"
    if isinstance(prepared[key], str):
        return prepared[key]
    return "{} {}".format(*milliseconds_each(device, prepared[key].step, int(times)))


def main():
    device, commands = sys.argv[1:]
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
    prepared = {}
    with open(commands, encoding="utf-8") as lines:
        while line := lines.readline().strip():
            print(answer(prepared, device, line), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
