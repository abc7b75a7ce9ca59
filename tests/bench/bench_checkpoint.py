"""A checkpoint after every step on two CPU ranks: what it adds to a step, beside torch.save on rank 0 and
torch.distributed.checkpoint's async_save, and the same kept in memory. All write to the same file system, ours and torch.save three files in turn.
And what virtual ranks, with which a job goes on in any world, add to a step of plain DDP."""

import functools
import itertools
import json
import pathlib
import subprocess
import tempfile

import bench_train
from harness import DDPRUN, PEERS, PYTHON, Broken, Limit, Versus, peer_environment

TITLE = "A checkpoint after every step, and virtual ranks"
RANKS = "2"

# model: job, first step of the clock, last step
JOBS = {
    "mnist_cnn": ({"model": {"type": "mnist_cnn"}, "data": {"type": "synthetic", "train_samples": 40000, "test_samples": 8},
                   "train": {"batch_size": 64}}, 10, 310),
    "resnet18": ({"model": {"type": "resnet18"}, "train": {"batch_size": 64}}, 3, 15),
}
numbers = itertools.count()


@functools.cache
def folder():
    made = tempfile.TemporaryDirectory(prefix="ddprun-bench-")
    folder.keeps = made
    return pathlib.Path(made.name)


def records_of_job(model, checkpoint=None, ranks=RANKS, virtual_ranks=0, backend="gloo", below=None, steps=None):
    job, _, last = JOBS[model]
    if model == "resnet18":
        job = job | {"data": {"type": "cifar10", "path": bench_train.cifar10(), "test_samples": 8}}
    place = (below or folder()) / f"job-{next(numbers)}"
    place.mkdir()
    whole = {**job, "device": "cpu", "backend": backend, "output_dir": str(place / "out"),
             "train": {**job["train"], "max_steps": steps or last, "virtual_ranks": virtual_ranks},
             "optimizer": {"type": "adamw", "learning_rate": 0.001}, "checkpoint": checkpoint or {}, "log": {"every_steps": 1}}
    (place / "job.json").write_text(json.dumps(whole))
    done = subprocess.run([DDPRUN, "--nproc-per-node", str(ranks), place / "job.json"], env=peer_environment(), text=True,
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise Broken(f"{model} exited with {done.returncode}:\n{done.stderr}")
    return [json.loads(line) for line in (place / "out/metrics.jsonl").read_text().splitlines()]


def mean_step(model, records):
    _, first, last = JOBS[model]
    at = {record["step"]: record["time"] for record in records if record["event"] == "step"}
    return 1000 * (at[last - 1] - at[first]) / (last - 1 - first)


def milliseconds_of_step(model, checkpoint=None, **options):
    return mean_step(model, records_of_job(model, checkpoint, **options))


def seconds_spent_on_checkpoints(records):
    return max(rank["checkpoint"] for rank in records[-1]["time_spent"])


def percent_spent_on_memory(model):
    """Of a step, what the rank that needs longest spends on it by its own clock: no thread helps it, so that this is all but what
    the processor's caches lose, and it does not drown in the noise of whole steps. Both jobs write one checkpoint, at the end."""
    _, first, last = JOBS[model]
    kept = {"memory_every_steps": 1, "every_epochs": 0}
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-", dir="/dev/shm") as place:
        short, whole = (records_of_job(model, kept, below=pathlib.Path(place), steps=steps) for steps in (first, last))
    spent = seconds_spent_on_checkpoints(whole) - seconds_spent_on_checkpoints(short)
    return 100 * (1000 * spent / (last - first)) / mean_step(model, whole)


def percent_of_virtual(model, virtual_ranks, ranks):
    """More time for a step than plain DDP takes, on as many processes, for as many batches: for a step of each turn."""
    plain = milliseconds_of_step(model, ranks=ranks, backend="shm") * virtual_ranks / ranks
    return 100 * (milliseconds_of_step(model, ranks=ranks, virtual_ranks=virtual_ranks, backend="shm") / plain - 1)


class Ours:
    """Without and with, in turns; both rows are of the same runs."""

    def __init__(self, model, key):
        self.model, self.key, self.pairs = model, key, []

    def turn(self):
        self.pairs.append((milliseconds_of_step(self.model), milliseconds_of_step(self.model, {self.key: 1})))
        plain, saved = self.pairs[-1]
        return saved - plain

    def percent(self):
        self.turn()
        plain = min(one for one, _ in self.pairs)
        return 100 * (min(other for _, other in self.pairs) - plain) / plain


def theirs(model, how):
    place = folder() / f"peer-{next(numbers)}"
    done = subprocess.run([DDPRUN, "--nproc-per-node", RANKS, PYTHON, PEERS / "checkpoint_steps.py", model, how, place],
                          env=peer_environment(), text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise Broken(f"{how} exited with {done.returncode}:\n{done.stderr}")
    plain, saved = map(float, done.stdout.split())
    return max(saved - plain, 1e-3)


def rows():
    for model in JOBS:
        yield Limit(f"{model}, batch 64: every step kept in memory, share of a step", functools.partial(percent_spent_on_memory, model),
                    "%", at_most=1, rounds=5)
        yield Limit(f"{model}, batch 64: every step kept in memory, more time for a step", Ours(model, "memory_every_steps").percent, "%",
                    at_most=1, rounds=5)
        ours = Ours(model, "every_steps")
        yield Limit(f"{model}, batch 64: every step checkpointed, more time for a step", ours.percent, "%", at_most=1, rounds=3)
        for how in ("torch.save", "dcp"):
            name = "async_save" if how == "dcp" else how
            yield Versus(f"{model}: added to a step, against {name}", ours.turn, functools.partial(theirs, model, how), "ms", 1, rounds=3)
    for virtual_ranks, ranks in ((2, 2), (4, 2), (4, 1)):
        where = f"{ranks} process{'' if ranks == 1 else 'es'}"
        yield Limit(f"mnist_cnn, batch 64: {virtual_ranks} virtual ranks in {where}, more time than plain DDP there for as many batches",
                    functools.partial(percent_of_virtual, "mnist_cnn", virtual_ranks, ranks), "%", at_most=5, rounds=5)
