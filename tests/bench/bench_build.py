"""What a build costs, in copies of the tree and without ccache: from nothing, as scripts/quickstart.sh does it, and after a change of
one line, without units of many files, as CONTRIBUTING.md says to work. There is no peer. It takes as long as three builds from
nothing, and runs only where it is asked for."""

import functools
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

from harness import ROOT, Broken, LeftOut, Limit, peer_environment

sys.path.insert(0, str(ROOT / "scripts"))
from listed_files import listed_files  # noqa: E402

TITLE = "Build"
TARGETS = ("ddprun", "ddprun-worker")
# What is changed, and the program that has to be made anew.
CHANGED = {"launcher": ("launcher/agent/supervisor.cc", "ddprun"), "worker/training": ("worker/training/step/step.cc", "ddprun-worker")}


def minutes_of(*words):
    """(wall, processors) of a command that must succeed, in minutes."""
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([str(word) for word in words], env=peer_environment() | {"CCACHE_DISABLE": "1"}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{words} exited with {done.returncode}:\n{done.stdout[-2000:]}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (time.perf_counter() - begin) / 60, used / 60


class Copy:
    """The tree in a folder of its own, with a build folder that is configured as scripts/quickstart.sh does it, or not in units."""

    def __init__(self, *flags):
        self.folder = tempfile.TemporaryDirectory(prefix="ddprun-bench-build-")
        self.root = pathlib.Path(self.folder.name)
        for name in listed_files():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        self.configure = ["cmake", "--preset", "quick", "-S", self.root, "-B", self.root / "build/quick",
                          f"-DDDPRUN_TORCH={torch_folder()}", *flags]

    def build(self):
        return minutes_of("cmake", "--build", self.root / "build/quick", "--parallel", len(os.sched_getaffinity(0)), "--target", *TARGETS)

    @functools.cached_property
    def from_nothing(self):
        configured, built = minutes_of(*self.configure), self.build()
        return configured[0] + built[0], configured[1] + built[1]

    def after_a_change(self, name, program):
        """Seconds until the programs are there again."""
        self.from_nothing
        program = self.root / "build/quick/bin" / program
        before = program.stat().st_mtime_ns
        with (self.root / name).open("a") as file:
            file.write(f"// {time.time()}\n")
        seconds = 60 * self.build()[0]
        if program.stat().st_mtime_ns == before:
            raise Broken(f"a change of {name} did not lead to another {program}")
        return seconds


def torch_folder():
    own = os.environ.get("DDPRUN_TORCH")
    found = [pathlib.Path(own)] if own else sorted(ROOT.glob(".venv/lib/python3*/site-packages/torch"))
    if not found:
        raise LeftOut("there is no libtorch: scripts/setup.sh brings it")
    return found[-1]


def rows():
    missing = [name for name in ("cmake", "ninja", "clang++", "git") if shutil.which(name) is None]
    if missing:
        raise LeftOut(f"a build needs {' and '.join(missing)}")
    copy, work = Copy(), Copy("-DDDPRUN_UNITY_BUILD=OFF")
    return [
        Limit("ddprun and ddprun-worker from nothing, without ccache", lambda: copy.from_nothing[0], "min", at_most=5, rounds=1),
        Limit("the same, time of processors", lambda: copy.from_nothing[1], "min", at_most=10, rounds=1),
        *(Limit(f"one line changed in {part}, until both are there", lambda names=names: work.after_a_change(*names), "s", at_most=seconds, rounds=3)
          for (part, names), seconds in zip(CHANGED.items(), (8, 15))),
    ]
