"""What the benchmarks share: ddprun and its peer side by side, in turns, in one run, and a table of the ratios.

A part is a file bench_<part>.py with a function rows() that returns Versus and Limit objects. Machines are noisy and
differ: the ratio within one run is what is compared, the figures themselves are for orientation.
"""

import dataclasses
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "release"
DDPRUN = BUILD / "bin" / "ddprun"
PYTHON = ROOT / ".venv" / "bin" / "python"
TORCHRUN = ROOT / ".venv" / "bin" / "torchrun"
PEERS = pathlib.Path(__file__).resolve().parent / "peers"


@dataclasses.dataclass
class Versus:
    """One thing measured on both sides. Each function returns one figure in `unit`."""

    name: str
    ours: Callable[[], float]
    peer: Callable[[], float]
    unit: str
    goal: float  # the ratio that is wanted: how many times better
    higher_is_better: bool = False
    rounds: int = 5


@dataclasses.dataclass
class Limit:
    """One figure of ours with a bound of its own."""

    name: str
    measure: Callable[[], float]
    unit: str
    at_most: float | None = None
    at_least: float | None = None
    rounds: int = 5


def seconds_of(command, **options):
    """Wall time of a command that must succeed."""
    begin = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False, **options)
    elapsed = time.perf_counter() - begin
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stderr}")
    return elapsed


def peer_environment():
    """The peer with one thread a rank, as torchrun sets it, and without its banner."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def figure(value):
    """Three significant digits, never in scientific notation."""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.6f}"


def run_versus(row):
    ours, peer = [], []
    for _ in range(row.rounds):
        peer.append(row.peer())
        ours.append(row.ours())
    pairs = zip(ours, peer)
    ratios = sorted(mine / theirs if row.higher_is_better else theirs / mine for mine, theirs in pairs)
    middle = statistics.median(ratios)
    verdict = "met" if middle >= row.goal else "MISSED"
    return (f"| {row.name} | {figure(statistics.median(ours))} {row.unit} | {figure(statistics.median(peer))} {row.unit} "
            f"| **{figure(middle)}×** ({figure(ratios[0])}–{figure(ratios[-1])}) | ≥ {figure(row.goal)}×, {verdict} |")


def run_limit(row):
    values = sorted(row.measure() for _ in range(row.rounds))
    middle = statistics.median(values)
    below = row.at_most is None or middle <= row.at_most
    above = row.at_least is None or middle >= row.at_least
    bound = f"≤ {figure(row.at_most)}" if row.at_most is not None else f"≥ {figure(row.at_least)}"
    verdict = "met" if below and above else "MISSED"
    return (f"| {row.name} | {figure(middle)} {row.unit} ({figure(values[0])}–{figure(values[-1])}) | | "
            f"| {bound} {row.unit}, {verdict} |")


def machine():
    """One line that names the machine, and how busy it was."""
    model = "unknown CPU"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0))
    return (f"{model}, {cores} cores, {memory:.0f} GiB, Linux {platform.release()}, load {os.getloadavg()[0]:.1f}, "
            f"{time.strftime('%Y-%m-%d')}")


def run_part(title, rows):
    print(f"\n### {title}\n")
    print("| what | ddprun | peer | ratio: median (min–max) | goal |")
    print("|---|---|---|---|---|")
    for row in rows:
        print(run_versus(row) if isinstance(row, Versus) else run_limit(row), flush=True)
