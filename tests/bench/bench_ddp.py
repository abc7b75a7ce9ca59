"""A training step with DistributedDataParallel on two ranks: against Python's, against one rank alone, and against
c10d::Reducer without a wrapper. All programs start once and take turns at a few steps of each workload."""

import atexit
import functools
import subprocess

from harness import BUILD, DDPRUN, PEERS, PYTHON, Limit, Ranks, Versus, busy_neighbour

TITLE = "DDP step, 2 ranks"

# workload, batch: (steps in a turn, rounds)
TURNS = {
    ("mlp", 64): (200, 9),
    ("mlp", 1): (300, 7),
    ("mnist_cnn", 64): (5, 7),
    ("resnet18", 64): (1, 5),
}


class Trainers(Ranks):
    def milliseconds_per_step(self, *words):
        return float(self.answer(*words))


@functools.cache
def ours():
    return Trainers(BUILD / "tests" / "ddp_bench", ranks=2)


@functools.cache
def alone():
    return Trainers(BUILD / "tests" / "ddp_bench", ranks=1)


@functools.cache
def peer():
    return Trainers(PYTHON, PEERS / "ddp_step.py", ranks=2)


@functools.cache
def figures(workload, batch, nice):
    """A dictionary of milliseconds per round; within a round each program has its turn."""
    steps, rounds = TURNS[workload, batch]
    sides = {"peer": peer(), "ours": ours(), "alone": alone()}

    def take_turns():
        return {name: ranks.milliseconds_per_step(workload, batch, steps) for name, ranks in sides.items()}

    take_turns()  # what is named for the first time is made
    with busy_neighbour(nice):
        return [take_turns() for _ in range(rounds)]


def each_round(workload, batch, nice, pick):
    """A function that answers with the figure of the next round at each call."""
    rounds = iter(range(TURNS[workload, batch][1]))
    return lambda: pick(figures(workload, batch, nice)[next(rounds)])


def versus(label, workload, batch, goal, nice=None):
    return Versus(f"{label}, against Python DDP with gloo",
                  each_round(workload, batch, nice, lambda row: row["ours"]),
                  each_round(workload, batch, nice, lambda row: row["peer"]),
                  "ms", goal, rounds=TURNS[workload, batch][1])


def scaling(label, workload, batch, goal, nice=None):
    return Limit(f"{label}: images/s of 2 ranks over 1",
                 each_round(workload, batch, nice, lambda row: 2 * row["alone"] / row["ours"]),
                 "×", at_least=goal, rounds=TURNS[workload, batch][1])


def both(label, how, workload, batch, times, rounds=9):
    """Both sides do the same thing, named by `how`."""
    return Versus(label,
                  lambda: ours().milliseconds_per_step(workload, batch, times, how),
                  lambda: peer().milliseconds_per_step(workload, batch, times, how), "ms", 1, rounds=rounds)


def zero_memory():
    """Percent of the whole optimizer's state that the rank with the greatest share keeps."""
    return float(ours().answer("resnet18", 64, 1, "zero_share"))


def wrapper_overhead():
    """Percent by which the wrapper is slower than the bare reducer."""
    wrapped = ours().milliseconds_per_step("mlp", 64, 100)
    return 100 * (wrapped / ours().milliseconds_per_step("mlp", 64, 100, "bare") - 1)


def with_divergence_check():
    """A step with a comparison of the replicas at every 100 steps, in turns with one without."""
    return Versus("MLP, batch 64: with a divergence check at every 100 steps, against without",
                  lambda: ours().milliseconds_per_step("mlp", 64, 100, "checked"),
                  lambda: ours().milliseconds_per_step("mlp", 64, 100), "ms", 0.99, rounds=101)


def divergence_check_share():
    """Percent of 100 steps that one comparison of the replicas takes."""
    step = ours().milliseconds_per_step("mlp", 64, 100)
    return 100 * ours().milliseconds_per_step("mlp", 64, 20, "check") / (100 * step)


@functools.cache
def watched():
    """With all that looks at a job: the watch for hangs four times a second, --metrics, and an open ps --watch."""
    ranks = Trainers("--hang-report", "1s", "--metrics", "0", BUILD / "tests" / "ddp_bench", ranks=2)
    watch = subprocess.Popen([DDPRUN, "ps", "--watch"], stdout=subprocess.DEVNULL)
    atexit.register(lambda: (watch.kill(), watch.wait()))
    return ranks


@functools.cache
def unwatched():
    return Trainers("--hang-report", "0", BUILD / "tests" / "ddp_bench", ranks=2)


def under_watch(label, workload, batch, steps, rounds):
    return Versus(f"{label}: with the watch for hangs each 250 ms, --metrics and an open ps --watch, against with none",
                  lambda: watched().milliseconds_per_step(workload, batch, steps),
                  lambda: unwatched().milliseconds_per_step(workload, batch, steps), "ms", 0.98, rounds=rounds)


def rows():
    return [
        versus("MLP 784-256-128-10, batch 64 a rank", "mlp", 64, 4),
        scaling("MLP, batch 64", "mlp", 64, 1.9),
        versus("MLP, batch 64, beside a busy loop at nice 19", "mlp", 64, 3, nice=19),
        scaling("MLP, batch 64, beside a busy loop at nice 19", "mlp", 64, 1.7, nice=19),
        versus("MLP, batch 64, beside a busy loop at nice 0", "mlp", 64, 2.5, nice=0),
        scaling("MLP, batch 64, beside a busy loop at nice 0", "mlp", 64, 1.3, nice=0),
        versus("MLP, batch 1", "mlp", 1, 6),
        versus("mnist_cnn, batch 64 a rank", "mnist_cnn", 64, 1),
        scaling("mnist_cnn, batch 64", "mnist_cnn", 64, 1.8),
        versus("ResNet-18 on 32×32, batch 64 a rank", "resnet18", 64, 1),
        scaling("ResNet-18, batch 64", "resnet18", 64, 1.8),
        Limit("MLP, batch 64: wrapper over a bare Reducer", wrapper_overhead, "%", at_most=2, rounds=31),
        with_divergence_check(),
        Limit("the same: the check alone, of the time of 100 steps", divergence_check_share, "%", at_most=1, rounds=31),
        under_watch("MLP, batch 64", "mlp", 64, 500, 31),
        under_watch("mnist_cnn, batch 64", "mnist_cnn", 64, 10, 15),
        both("MLP: clip_grad_norm_ alone, nothing to clip", "clip_nothing", "mlp", 64, 500),
        both("MLP: clip_grad_norm_ alone, every gradient is scaled", "clip", "mlp", 64, 500),
        both("ResNet-18: clip_grad_norm_ alone, nothing to clip", "clip_nothing", "resnet18", 64, 10),
        both("ResNet-18: clip_grad_norm_ alone, every gradient is scaled", "clip", "resnet18", 64, 10),
        both("MLP, batch 64: a step with ZeRO over Adam", "zero", "mlp", 64, 100),
        both("ResNet-18: ZeRO's step alone", "zero_alone", "resnet18", 64, 3),
        Limit("ResNet-18: state of Adam that the fullest rank keeps under ZeRO, of the whole", zero_memory, "%", at_most=55,
              rounds=1),
    ]
