#!/usr/bin/env python3
"""Breaks one rank of the built-in trainer and of a C++ program, and counts how often rank and exit code are right.

blame_test.py BIN INJECTOR PROGRAM [--all] [--only WORD] [--at-once N] [--sanitized] [--seed N] [--times N]
              [--device cuda --backends nccl --worlds cards | --device cuda --backends gloo --one-card --worlds 2]

BIN holds ddprun and ddprun-worker, INJECTOR is injector.cc, PROGRAM is program.cc. Right is a report that names the guilty
rank, and the exit code that this rank's failure has. The score is printed; below 99 % the test fails. `--sanitized` is for
programs of AddressSanitizer, which leave nothing preloaded in the way of read, write and memory. `--backends` names those
that the faults take turns with, in worlds of 2 to 8 ranks; on cards, where `--worlds` is the world of all, it exits with 77
without them.
"""

import argparse
import gzip
import itertools
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "support")]

from counting import Verdict, count  # noqa: E402
from patience import patient  # noqa: E402

DIGITS = HERE.parents[2] / "configs/data/mnist-subset"
BOUND_S = patient(120)  # of a machine that is busy with other things
OS, INTERNAL, CONFIG, LOST = 71, 70, 78, 75
SIGNALS = {"kill": signal.SIGKILL, "segv": signal.SIGSEGV, "fpe": signal.SIGFPE, "bus": signal.SIGBUS, "abort": signal.SIGABRT,
           "terminate": signal.SIGABRT, "joinable": signal.SIGABRT, "stuck": signal.SIGKILL}
EXITS = {"exit_3": 3, "_exit_7": 7}
LEAVES = ("exit_0", "_exit_0")  # while the others wait: the exit code is that of whoever lost it
# With which a program of AddressSanitizer ends as it would without.
SANITIZER_OPTIONS = {"ASAN_OPTIONS": "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:allocator_may_return_null=1"}
OUT_OF_REACH = ("read", "write", "compute")  # then
THROWS = ("throws", "bad_alloc", "throws_int", "system_error")


def signal_code(what):
    return 128 + SIGNALS[what]


# ---- the built-in trainer


class TrainerFault:
    """`changes` are of the job file. Without `at` it is the job file that is wrong; data that is not there each rank meets
    by itself, and whichever ends first is named, with all that failed alike."""

    def __init__(self, what, at, code, *, path="", count=1, only_rank_0=False, **changes):
        self.what, self.at, self.code, self.path, self.count, self.only_rank_0 = what, at, code, path, count, only_rank_0
        self.changes = changes

    def place(self, culprit, ranks, backend):
        self.culprit, self.ranks, self.backend = 0 if self.only_rank_0 else culprit, ranks, backend
        self.culprits = set(range(ranks)) if "data" in self.changes and not self.at else {self.culprit}
        where = " ".join(word for word in (self.at, self.path, "" if self.count == 1 else str(self.count)) if word)
        changes = "".join(f" {key}={value}" for key, value in self.changes.items())
        self.name = f"trainer: {self.what} at {where or 'all ranks'}{changes}, rank {self.culprit} of {ranks}, {backend}"
        return self

    def environment(self, options):
        return {"LD_PRELOAD": options.injector, "FAULT_RANK": str(self.culprit), "FAULT_AT": self.at, "FAULT": self.what,
                "FAULT_COUNT": str(self.count), "FAULT_PATH": self.path} if self.at else {}

    def command(self, options, folder):
        job = {
            "backend": self.backend,
            "device": options.device,
            "model": {"type": "mlp", "hidden": [32]},
            "data": {"type": "mnist", "path": str(DIGITS), "train_samples": 16 * 10 * self.ranks, "test_samples": 80},
            "train": {"epochs": 2, "batch_size": 16},
            "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9},
            "checkpoint": {"every_steps": 4},
            "output_dir": "out",
        }
        (folder / "train.json").write_text(json.dumps(job | self.changes))
        (folder / "garbage.pt").write_bytes(b"this is no checkpoint")
        broken = folder / "broken"
        broken.mkdir()
        for file in DIGITS.glob("*.gz"):
            (broken / file.name).write_bytes(gzip.compress(b"this is no image"))
        return [str(folder / "train.json")]


def trainer_faults():
    faults = [TrainerFault(what, "step", INTERNAL, count=3) for what in ("throws", "throws_int", "system_error")]
    faults += [TrainerFault("bad_alloc", "step", OS, count=count) for count in (1, 6)]
    faults += [TrainerFault("thread_throws", "step", 1, count=2)]
    faults += [TrainerFault(what, "step", signal_code(what), count=count) for count, what in enumerate(SIGNALS, 1)]
    faults += [TrainerFault(what, "step", code, count=5) for what, code in EXITS.items()]
    faults += [TrainerFault(what, "step", LOST, count=5) for what in LEAVES]
    for at in ("start", "connect"):
        faults += [TrainerFault(what, at, signal_code(what)) for what in ("kill", "segv", "stuck")]
        faults += [TrainerFault("_exit_7", at, 7)]
    for count in (3, 40, 90, 200):
        faults += [TrainerFault("bad_alloc", "compute", OS, count=count)]
        faults += [TrainerFault(what, "compute", signal_code(what), count=count + 7) for what in ("kill", "abort")]
        faults += [TrainerFault("_exit_7", "compute", 7, count=count + 11)]
    faults += [TrainerFault("throws", "shutdown", INTERNAL), TrainerFault("kill", "shutdown", signal_code("kill")),
               TrainerFault("stuck", "shutdown", signal_code("stuck")), TrainerFault("_exit_0", "shutdown", LOST)]
    # The disk, where only rank 0 writes.
    for count in (1, 30):
        faults += [TrainerFault("28", "write", OS, path="/checkpoints/", count=count, only_rank_0=True)]
    faults += [TrainerFault("28", "write", OS, path="/checkpoints/", only_rank_0=True, checkpoint={"every_epochs": 1})]
    for number, call in ((13, "open"), (5, "fsync"), (5, "rename")):
        faults += [TrainerFault(str(number), call, OS, path="/checkpoints/", only_rank_0=True)]
    faults += [TrainerFault("13", "mkdir", OS, path="out", only_rank_0=True),
               TrainerFault("30", "mkdir", OS, path="checkpoints", only_rank_0=True),
               TrainerFault("13", "open", OS, path="metrics.jsonl", only_rank_0=True)]
    for what in ("kill", "bus", "stuck"):
        faults += [TrainerFault(what, "write", signal_code(what), path="/checkpoints/", only_rank_0=True)]
    # Data, which each rank reads, and its job file.
    for path in ("train-images", "t10k-labels"):
        faults += [TrainerFault("2", "open", CONFIG, path=path), TrainerFault("5", "read", OS, path=path),
                   TrainerFault("garbage", "read", CONFIG, path=path), TrainerFault("bad_alloc", "read", OS, path=path),
                   TrainerFault("kill", "read", signal_code("kill"), path=path)]
    faults += [TrainerFault("13", "open", CONFIG, path="train.json"), TrainerFault("garbage", "read", CONFIG, path="train.json")]
    # What all ranks find broken.
    for path in ("nowhere", "broken"):
        faults += [TrainerFault(f"{path} data", "", CONFIG, only_rank_0=True, data={"type": "mnist", "path": path})]
    for path in ("nowhere.pt", "garbage.pt"):
        faults += [TrainerFault("bad checkpoint", "", CONFIG, only_rank_0=True, resume=path)]
    return faults


# ---- a program in C++


class ProgramFault:
    def __init__(self, what, at, around, code):
        self.what, self.at, self.around, self.code = what, at, around, code

    def place(self, culprit, ranks, backend):
        self.culprit, self.ranks, self.backend = culprit, ranks, backend
        self.culprits = {culprit}
        self.name = f"program: {self.what} at {self.at}, {self.around}, rank {culprit} of {ranks}, {backend}"
        return self

    def environment(self, _):
        return {}

    def command(self, options, _):
        return [options.program, self.backend, self.around, self.what, self.at, str(self.culprit), options.device]


def program_code(what, at, around):
    """What ends the guilty rank; of one that leaves with 0, what ends the others."""
    if what in SIGNALS:
        return signal_code(what)
    if what in EXITS:
        return EXITS[what]
    is_recorded = around.startswith("recorded")
    uncaught = 1 if is_recorded else signal_code("terminate")
    if what == "thread_throws" or at == "thread":
        return uncaught
    if around.endswith(("caught", "threads")):
        return uncaught if what == "throws_int" else 5
    if what in LEAVES and is_recorded:
        return LOST
    return CONFIG if what == "config" and is_recorded else uncaught


def program_faults():
    arounds = ("recorded", "plain", "caught", "recorded_caught")
    whats = (*THROWS, "config", "shapes", "torch_memory")
    faults = []
    for number, (what, around) in enumerate(itertools.product(whats, arounds)):
        places = ("made", "wrapped", "before", "forward", "backward", "after", "stepped")
        for offset in (0, 3):
            faults.append((what, places[(number + offset) % len(places)], around))
    for number, what in enumerate(("throws", "config", "throws_int", "bad_alloc")):
        faults += [(what, place, arounds[number]) for place in ("start", "thread", "shutdown", "destroyed")]
        faults += [(what, "together", around) for around in arounds]
    places = ("before", "forward", "after", "stepped")
    faults += [(what, places[number % len(places)], f"{around}threads") for number, what in enumerate(("throws", "shapes", "config"))
               for around in ("", "recorded_")]
    for number, what in enumerate((*SIGNALS, *EXITS, "thread_throws")):
        places = ("before", "backward", "start", "forward", "made", "after", "shutdown", "wrapped", "stepped")
        for offset in range(3):
            faults.append((what, places[(number + 2 * offset) % len(places)], arounds[(number + offset) % len(arounds)]))
    for number, what in enumerate(LEAVES):
        for offset, place in enumerate(("wrapped", "before", "after", "shutdown")):
            faults.append((what, place, arounds[(number + offset) % len(arounds)]))
    return [ProgramFault(what, at, around, program_code(what, at, around)) for what, at, around in faults]


# ---- all of them, and a dozen


def placed(faults, options):
    """Each with a guilty rank, a world of 2 to 8 (or the one there is) and a backend, the same for the same seed."""
    draw = random.Random(options.seed)
    for number, fault in enumerate(faults):
        ranks = options.world or 2 + number % 7
        fault.place(draw.randrange(ranks), ranks, options.backends[(number + number // 7) % len(options.backends)])
    return faults


def few_faults():
    return [TrainerFault("28", "write", OS, path="/checkpoints/", only_rank_0=True).place(0, 2, "shm"),
            TrainerFault("28", "write", OS, path="/checkpoints/", only_rank_0=True).place(0, 4, "gloo"),
            TrainerFault("garbage", "read", CONFIG, path="train-images").place(1, 3, "shm"),
            TrainerFault("broken data", "", CONFIG, only_rank_0=True, data={"type": "mnist", "path": "broken"}).place(0, 4, "gloo"),
            TrainerFault("bad_alloc", "step", OS, count=3).place(2, 3, "gloo"),
            TrainerFault("stuck", "step", signal_code("stuck"), count=3).place(1, 2, "shm"),
            TrainerFault("_exit_0", "step", LOST, count=3).place(0, 3, "gloo"),
            ProgramFault("throws", "forward", "recorded", 1).place(1, 2, "gloo"),
            ProgramFault("shapes", "backward", "caught", 5).place(2, 3, "shm"),
            ProgramFault("config", "together", "recorded", CONFIG).place(0, 4, "shm"),
            ProgramFault("segv", "stepped", "plain", signal_code("segv")).place(1, 3, "gloo"),
            ProgramFault("throws", "shutdown", "recorded_caught", 5).place(1, 2, "shm")]


def end_who_is_stuck(lines, said):
    for line in lines:
        said.append(line)
        if line.startswith("stuck "):
            os.kill(int(line.split()[1]), signal.SIGKILL)


def judge(options, fault):
    with tempfile.TemporaryDirectory(prefix="ddprun-blame-") as name:
        folder = pathlib.Path(name)
        names = ("PATH", "LD_LIBRARY_PATH", "HOME", "CUDA_VISIBLE_DEVICES")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        environment = kept | {"TMPDIR": name, "OMP_NUM_THREADS": "1"} | fault.environment(options)
        if options.sanitized:
            environment |= SANITIZER_OPTIONS
        command = [f"{options.binaries}/ddprun", "--nproc-per-node", str(fault.ranks), "--log-dir", f"{name}/logs",
                   *fault.command(options, folder)]
        began = time.monotonic()
        said = []
        with open(folder / "stderr.txt", "w+", encoding="utf-8", errors="replace") as errors, \
             subprocess.Popen(command, cwd=name, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            limit = threading.Timer(BOUND_S, process.kill)
            limit.start()
            end_who_is_stuck(process.stdout, said)
            code = process.wait()
            limit.cancel()
            took = time.monotonic() - began
            errors.seek(0)
            words = "".join(said[-5:]) + errors.read()
        reports = list(folder.glob("logs/*/report.json"))
        root = json.loads(reports[0].read_text())["root_cause"] if reports else None
        rank = root["rank"] if root else None
        is_right = rank in fault.culprits and code == fault.code
        return Verdict(fault, is_right, f"rank {rank} with {code}, expected {sorted(fault.culprits)} with {fault.code}", words, took)


def world_of(options):
    import cards  # noqa: PLC0415: it needs Python's torch, which the CPU's ranks do without

    (world,) = cards.worlds(options)
    return world


def main():
    parser = argparse.ArgumentParser()
    for name in ("binaries", "injector", "program"):
        parser.add_argument(name, type=os.path.abspath)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--backends", type=lambda text: text.split(","), default=["gloo", "shm"])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--one-card", action="store_true")
    parser.add_argument("--worlds")
    options = parser.parse_args()
    options.world = world_of(options) if options.worlds else None
    faults = placed(trainer_faults(), options) + placed(program_faults(), options) if options.all else few_faults()
    if options.world and not options.all:
        placed(faults, options)
    if options.all:
        print(f"seed {options.seed}")
    if options.sanitized:
        faults = [fault for fault in faults if fault.at not in OUT_OF_REACH]
    faults = [fault for fault in faults if options.only in fault.name] * options.times
    return count(faults, lambda fault: judge(options, fault), options.at_once)


if __name__ == "__main__":
    sys.exit(main())
