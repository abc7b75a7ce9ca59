"""Training steps on one GPU against Python's, and NCCL through ddprun's process group against NCCL alone. All programs
start once and take turns."""

import functools
import math

from harness import BUILD, PEERS, PYTHON, Broken, LeftOut, Limit, Ranks, Versus

TITLE = "One GPU"

# (row, model, how); "ddp" is how the trainer has its model.
CASES = [
    ("MLP 784-256-128-10", "mlp", "eager"),
    ("MLP, bf16", "mlp", "bf16"),
    ("two_conv", "two_conv", "eager"),
    ("mnist_cnn", "mnist_cnn", "eager"),
    ("mnist_cnn, bf16, channels_last", "mnist_cnn", "bf16+channels_last"),
    ("mnist_cnn in DDP", "mnist_cnn", "ddp"),
    ("ResNet-18 on 32×32", "resnet18", "eager"),
    ("ResNet-18, bf16, channels_last", "resnet18", "bf16+channels_last"),
    ("ResNet-18, bf16, channels_last, in DDP", "resnet18", "bf16+channels_last+ddp"),
    ("ResNet-50 on 224×224, bf16, channels_last", "resnet50", "bf16+channels_last"),
    ("VGG-16 on 224×224, bf16, channels_last", "vgg16", "bf16+channels_last"),
    ("MobileNetV3-small on 224×224, bf16, channels_last", "mobilenet_v3_small", "bf16+channels_last"),
    ("ViT-small on 224×224, bf16", "vit_small", "bf16"),
    ("GPT of 10 million parameters, 256 tokens, bf16", "gpt", "bf16"),
]
COMPILED = ("MLP 784-256-128-10", "mnist_cnn, bf16, channels_last", "ResNet-18, bf16, channels_last")  # minutes, all of them

# device: {model: (batch, steps in a turn)}
TURNS = {
    "cuda": {"mlp": (512, 200), "two_conv": (512, 200), "mnist_cnn": (512, 200), "resnet18": (256, 20),
             "resnet50": (128, 20), "vgg16": (64, 20), "mobilenet_v3_small": (256, 20), "vit_small": (128, 20), "gpt": (64, 20)},
    "cpu": {"mlp": (8, 3), "two_conv": (4, 2), "mnist_cnn": (4, 2), "resnet18": (2, 1),
            "mobilenet_v3_small": (2, 1), "vit_small": (2, 1), "gpt": (2, 1)},
}
# device: {bytes: calls in a turn}
MESSAGES = {
    "cuda": {4096: 1000, 1 << 20: 500, 64 << 20: 100, 512 << 20: 20},
    "cpu": {4096: 20, 1 << 20: 5},
}
ROUNDS = {"cuda": 5, "cpu": 3}
NAMES = {4096: "4 KiB", 1 << 20: "1 MiB", 64 << 20: "64 MiB", 512 << 20: "512 MiB"}


@functools.cache
def ours(device, ranks):
    return Ranks(BUILD / "tests" / "gpu_bench", device, ranks=ranks)


@functools.cache
def peer(device):
    return Ranks(PYTHON, PEERS / "gpu_step.py", device, ranks=1)


@functools.cache
def losses(*_training):
    """Of every turn of one training so far."""
    return []


def milliseconds(ranks, what, size, times, how):
    """Of one step or call. What trains nothing is broken."""
    try:
        answer = ranks.answer(what, size, times, how)
    except Broken:
        ours.cache_clear()  # the next row begins with new programs
        peer.cache_clear()
        raise
    if answer.startswith("left out: "):
        raise LeftOut(answer.removeprefix("left out: "))
    elapsed, loss = map(float, answer.split())
    before = losses(ranks, what, how)
    before.append(loss)
    if not math.isfinite(loss) or (what != "all_reduce" and loss in before[:-1][:1]):
        raise Broken(f"{' '.join(ranks.command)}: {what} {how} trains nothing: the losses of its turns are {before}")
    return elapsed


def steps(device, name, model, how, peers_how, goal):
    """images/s of both sides."""
    batch, times = TURNS[device][model]
    return Versus(name,
                  lambda: 1000 * batch / milliseconds(ours(device, 1), model, batch, times, how),
                  lambda: 1000 * batch / milliseconds(peer(device), model, batch, times, peers_how),
                  "texts/s" if model == "gpt" else "images/s", goal, higher_is_better=True, rounds=ROUNDS[device])


def training_rows(device):
    goal = 1 if device == "cuda" else None
    for name, model, how in CASES:
        if model not in TURNS[device]:
            continue  # without a card only small ones are tried
        yield steps(device, f"{name}, against Python", model, how, how, goal)
        if "ddp" in how:
            continue
        yield steps(device, f"{name}: the step in a CUDA graph, against Python", model, f"{how}+graph", how, goal)
        if name in COMPILED:
            yield steps(device, f"{name}: the step in a CUDA graph, against torch.compile", model, f"{how}+graph",
                        f"{how}+compile", goal)
    if device == "cpu":
        yield steps(device, "MLP, against torch.compile without a compiler", "mlp", "eager", "compile", goal)


def all_reduce_rows(device, ranks):
    """A call in µs on one card, where NCCL has nothing to send; on several the bandwidth of the bus."""
    where = f"{ranks} {'card' if device == 'cuda' else 'CPU rank'}{'s' if ranks > 1 else ''}"
    for size, times in MESSAGES[device].items():
        def microseconds(how, size=size, times=times):
            return 1000 * milliseconds(ours(device, ranks), "all_reduce", size, times, how)

        def gigabytes(how, size=size, measure=microseconds):
            # All-reduce moves each byte 2(n-1)/n times over each rank's link, whatever the algorithm.
            return size * 2 * (ranks - 1) / ranks / measure(how) / 1000

        pick, unit = (gigabytes, "GB/s on the bus") if ranks > 1 else (microseconds, "µs")
        name = f"all-reduce of {NAMES[size]} through the process group, {where}"
        if device == "cpu":
            yield Limit(name, lambda pick=pick: pick("group"), unit, at_least=0, rounds=ROUNDS[device])
        yield Versus(f"{name}, against ncclAllReduce alone", lambda pick=pick: pick("group"),
                     lambda pick=pick: pick("bare"), unit, None, higher_is_better=ranks > 1, rounds=ROUNDS[device])


def rows(device="cuda"):
    import torch  # pylint: disable=import-outside-toplevel; the other parts need not wait for it

    cards = torch.cuda.device_count() if device == "cuda" else 2
    if cards == 0:
        raise LeftOut(f"needs a GPU, and torch {torch.__version__} sees none; --device cpu tries the program without one")
    return [*training_rows(device), *all_reduce_rows(device, cards)]
