"""A training step with DistributedDataParallel on two ranks: against Python's, against one rank alone, and against
c10d::Reducer without a wrapper."""

import functools
import subprocess
import sys

from harness import BUILD, DDPRUN, PEERS, PYTHON, Limit, Versus, peer_environment

TITLE = "DDP step, 2 ranks"
PROGRAM = BUILD / "tests" / "ddp_bench"


def last_number(command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stderr}")
    return float(done.stdout.split()[-1])


def ours(model, batch, steps, *more, ranks=2):
    # Redirected output, so that the launcher's prefixes do not stand before the number.
    return last_number([DDPRUN, "--nproc-per-node", ranks, PROGRAM, model, batch, steps, *more], env=peer_environment())


def peer(model, batch, steps):
    """Python's DDP under ddprun as well: the launcher is not what is measured here."""
    return last_number([DDPRUN, "--nproc-per-node", 2, PYTHON, PEERS / "ddp_step.py", model, batch, steps],
                       env=peer_environment())


def scaling(model, batch, steps):
    """Images a second of two ranks over those of one."""
    return 2 * ours(model, batch, steps, ranks=1) / ours(model, batch, steps)


def wrapper_overhead(model, batch, steps):
    """Percent by which the wrapper is slower than the bare reducer, each the best of three."""
    wrapped = min(ours(model, batch, steps) for _ in range(3))
    bare = min(ours(model, batch, steps, "bare") for _ in range(3))
    return 100 * (wrapped / bare - 1)


def versus(label, model, batch, steps, goal):
    run = (model, batch, steps)
    return Versus(f"{label}, against Python DDP with gloo", functools.partial(ours, *run), functools.partial(peer, *run),
                  "ms", goal, rounds=3)


def rows():
    return [
        versus("MLP 784-256-128-10, batch 64 a rank", "mlp", 64, 1000, 4),
        versus("MLP, batch 1", "mlp", 1, 2000, 6),
        versus("mnist_cnn, batch 64 a rank", "mnist_cnn", 64, 20, 1),
        versus("ResNet-18 on 32×32, batch 64 a rank", "resnet18", 64, 10, 1),
        Limit("MLP, batch 64: images/s of 2 ranks over 1", lambda: scaling("mlp", 64, 1000), "×", at_least=1.9, rounds=3),
        Limit("mnist_cnn: images/s of 2 ranks over 1", lambda: scaling("mnist_cnn", 64, 20), "×", at_least=1.8, rounds=3),
        Limit("ResNet-18: images/s of 2 ranks over 1", lambda: scaling("resnet18", 64, 10), "×", at_least=1.8, rounds=1),
        Limit("MLP, batch 64: wrapper over a bare Reducer", lambda: wrapper_overhead("mlp", 64, 1000), "%", at_most=2,
              rounds=1),
    ]
