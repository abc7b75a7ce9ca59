"""What the benchmarks share: ddprun and its peer side by side, in turns, in one run, and a table of the ratios.

A part is a file bench_<part>.py with a function rows() that returns Versus and Limit objects. Machines are noisy and
differ: the ratio within one run is what is compared, the figures themselves are for orientation.

What cannot be measured here raises LeftOut with the reason: a row says it in its place, a part that raises it in rows()
is skipped. A program that ends too early is Broken: its row says so, and the others go on.
"""

import atexit
import contextlib
import dataclasses
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "release"
DDPRUN = BUILD / "bin" / "ddprun"
PYTHON = pathlib.Path(sys.executable)  # scripts/bench.sh takes the one of .venv
TORCHRUN = PYTHON.parent / "torchrun"
PEERS = pathlib.Path(__file__).resolve().parent / "peers"


class LeftOut(Exception):
    """Cannot be measured here; the message says why."""


class Broken(Exception):
    """A program that is measured has failed; the message's first line says which."""


@dataclasses.dataclass
class Versus:
    """One thing measured on both sides. Each function returns one figure in `unit`."""

    name: str
    ours: Callable[[], float]
    peer: Callable[[], float]
    unit: str
    goal: float | None  # the ratio that is wanted: how many times better; None: for orientation
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


@contextlib.contextmanager
def busy_neighbour(nice):
    """Beside processes that never sleep, as on a machine with other users: as many as leave two ranks one processor to
    themselves. None: beside none."""
    program = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: sum(range(100000))"
    loops = 0 if nice is None else len(os.sched_getaffinity(0)) - 1
    neighbours = [subprocess.Popen([sys.executable, "-c", program], preexec_fn=lambda: os.setpriority(os.PRIO_PROCESS, 0, nice))
                  for _ in range(loops)]
    try:
        yield
    finally:
        for neighbour in neighbours:
            neighbour.kill()
            neighbour.wait()


class Ranks:
    """A program that works at command, as `ranks` ranks under ddprun (the launcher is not what is measured): each line
    that it reads from the pipe, which is its last argument, it answers with a line on stdout."""

    running = []

    def __init__(self, *program, ranks):
        self.folder = tempfile.TemporaryDirectory(prefix="ddprun-bench-")
        pipe = pathlib.Path(self.folder.name) / "commands"
        os.mkfifo(pipe)
        self.command = list(map(str, [DDPRUN, "--nproc-per-node", ranks, *program, pipe]))
        # Its output is a pipe, so that the launcher's prefixes do not stand before the answers.
        self.process = subprocess.Popen(self.command, env=peer_environment(), stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        # Both ways, because a program that fails before it opens the pipe would leave a writer waiting for ever.
        self.is_aside = False
        self.commands = os.fdopen(os.open(pipe, os.O_RDWR), "w", buffering=1)
        Ranks.running.append(self)

    def end(self):
        if self.is_aside:
            self.process.send_signal(signal.SIGCONT)
        self.commands.close()
        self.process.wait()
        self.folder.cleanup()

    @staticmethod
    def end_all():
        """The next part measures beside none of them."""
        while Ranks.running:
            Ranks.running.pop().end()

    def set_aside(self):
        """Stops its ranks until the next answer is wanted, as Ctrl-Z does: threads that wait by asking again and again, as
        TensorPipe's do, would take processors from what is measured meanwhile."""
        if self.is_aside:
            return
        self.process.send_signal(signal.SIGTSTP)
        stat = pathlib.Path(f"/proc/{self.process.pid}/stat")
        while stat.read_text().rpartition(")")[2].split()[0] != "T":  # the launcher stops last
            time.sleep(0.001)
        self.is_aside = True

    def answer(self, *words):
        if self.is_aside:
            self.process.send_signal(signal.SIGCONT)
            self.is_aside = False
        print(*words, file=self.commands)
        answer = self.process.stdout.readline()
        if not answer:
            raise Broken(f"{' '.join(self.command)} ended with {self.process.wait()} at {' '.join(map(str, words))}:\n"
                         f"{self.process.stderr.read()}")
        return answer.strip()


atexit.register(Ranks.end_all)


def figure(value):
    """Three significant digits, never in scientific notation."""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 else f"{value:.6f}"


def run_versus(row):
    ours, peer = [], []
    for _ in range(row.rounds):
        ours.append(row.ours())
        peer.append(row.peer())
    pairs = zip(ours, peer)
    ratios = sorted(mine / theirs if row.higher_is_better else theirs / mine for mine, theirs in pairs)
    middle = statistics.median(ratios)
    goal = "" if row.goal is None else f"≥ {figure(row.goal)}×, {'met' if middle >= row.goal else 'MISSED'}"
    return (f"| {row.name} | {figure(statistics.median(ours))} {row.unit} | {figure(statistics.median(peer))} {row.unit} "
            f"| **{figure(middle)}×** ({figure(ratios[0])}–{figure(ratios[-1])}) | {goal} |")


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
    """Whether nothing broke."""
    print(f"\n### {title}\n")
    print("| what | ddprun | peer | ratio: median (min–max) | goal |")
    print("|---|---|---|---|---|")
    whole = True
    for row in rows:
        try:
            print(run_versus(row) if isinstance(row, Versus) else run_limit(row), flush=True)
        except LeftOut as why:
            print(f"| {row.name} | left out: {why} | | | |", flush=True)
        except Broken as why:
            whole = False
            print(f"| {row.name} | FAILED: {str(why).splitlines()[0]} | | | |", flush=True)
            print(why, file=sys.stderr, flush=True)
    return whole
