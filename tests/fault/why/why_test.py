#!/usr/bin/env python3
"""Hangs one rank of real torch.distributed jobs (gloo, CPU), or with --cpp of one of libddprun, and asks `ddprun why`.

why_test.py DDPRUN PYTHON [--cpp PROGRAM --backend shm|gloo | --card] [--only WORD] [--few] [--table] [--pictures FOLDER]

--card: over NCCL, all ranks on the first card.

Each page has to name the right rank, with a true reason, within 5 s. --table prints what was said as Markdown. --pictures
writes the facts, without names of this machine, as tests/unit/launcher_why has them.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "support"))

from patience import patient  # noqa: E402
from skips import has_thread_sanitizer  # noqa: E402

GOAL = 95  # %
ANSWER_S = patient(5)
BOUND_S = patient(90)


@dataclasses.dataclass
class Hang:
    name: str
    words: str  # a regular expression that the page has to match
    health: str = "stuck"
    culprit: int = 1
    ranks: int = 3
    guilty: list | None = None  # by default the culprit alone
    backend: str | None = None  # the only one on which it hangs

    def title(self):
        return self.name if self.ranks == 3 else f"{self.name}, {self.ranks} ranks"

    def expected(self):
        return [self.culprit] if self.guilty is None else self.guilty


IN_DIFFERENT_ORDERS = r"different groups, which they use in different orders: ranks 0, 2-3 wait in all_reduce #6 \(float32, 1000\), "
MISSING_IN_GROUP_1 = r"rank 1 is late: it has not entered all_reduce #1 of group \"1\" \(float32, 1000\), where rank 0 has waited"

HANGS = [
    Hang("different_collectives", r"rank 1 is in barrier"),
    Hang("skips_one", r"rank 1 is in barrier"),
    Hang("opens_a_fifo", r"waits in open\(\) of .*/fifo, a FIFO.*\n.*in opens_a_fifo"),
    Hang("reads_a_fifo", r"waits in read\(\) of .*/fifo, a FIFO into which nobody writes.*\n.*in reads_a_fifo"),
    Hang("stopped", r"stopped by a signal \(SIGSTOP\)"),
    Hang("debugged", r"held by a debugger: pid \d+"),
    Hang("frozen", r"frozen by a control group"),
    Hang("in_the_kernel", r"stuck in the kernel: vfork|stuck in the kernel"),
    Hang("file_server_silent", r"stuck in the kernel: \w+\(\) of .*/mount/data \(fuse.*it waits for the file system's server"),
    Hang("file_server_works", r"waits for the file system's server: \w+\(\) of .*/mount/data \(fuse.*pid \d+ \(sh\), which serves one, does something",
         health="late"),
    Hang("loops_in_python", r"(computes \(|gets )\d+ % of a CPU.*\n.*in loops_in_python", health="late"),
    Hang("loops_in_c", r"(computes \(|gets )\d+ % of a CPU(.*\n)+?.*in loops_in_c", health="late"),
    Hang("two_locks", r"lock(.*\n)+?.*in two_locks"),
    Hang("holds_the_gil", r"holds Python's own lock \(GIL\).*\n.*in holds_the_gil"),
    Hang("loader_stuck", r"waits for a DataLoader worker: pid \d+ \(pt_data_worker\) is in read\(\) of .*/fifo(.*\n)+?.*__getitem__"),
    Hang("asks_for_input", r"waits for input on its standard input.*\n(.*\n)?.*in asks_for_input", culprit=0),
    Hang("fills_a_pipe", r"blocked in write\(\) to a pipe that is full, which pid \d+ \(sleep\) does not read(.*\n)+?.*in fills_a_pipe"),
    Hang("retries_a_full_disk", r"sleeps.*\n.*in retries_a_full_disk"),
    Hang("quota", r"the CPU quota of its control group is used up.*\n.*in quota", health="late"),
    Hang("swaps", r"waits for memory to come back from disk \(\d+ major page faults a second\)(.*\n)+?.*in swaps", health="late"),
    Hang("thread_died", r"waits for an item of a queue \(Queue.get\), and has no other thread that could put one into it(.*\n)+?.*in thread_died"),
    Hang("waits_for_a_key", r"waits for a key in the store that nobody has set.*\n.*in waits_for_a_key"),
    Hang("receives_from_nobody", r"waits in recv for another rank.*\n.*in receives_from_nobody"),
    Hang("runs_a_program", r"waits for a child process to end: pid \d+ \(sleep\)(.*\n)+?.*in runs_a_program"),
    Hang("waits_for_a_file_lock", r"waits for a lock of the file .*/lock.*\n.*in waits_for_a_file_lock"),
    Hang("saves_to_a_stuck_disk", r"is blocked in write\(\) to .*/fifo, a FIFO that is full.*\n.*in saves_to_a_stuck_disk"),
    Hang("uneven_inputs", r"rank 1 is in barrier", ranks=4),
    Hang("unused_parameters", r"rank 1 is in barrier", ranks=4),
    Hang("other_group", IN_DIFFERENT_ORDERS + r"rank 1 waits in barrier #1 of group \"1\"(.*\n)+?.*in other_group", ranks=4),
    Hang("first_use_of_a_group", r"rank 1 is late: it has not entered all_reduce #6(.*\n)+?.*in first_use_of_a_group"),
    Hang("group_used_by_one", MISSING_IN_GROUP_1 + r"(.*\n)+?.*sleeps(.*\n)+?.*in group_used_by_one", ranks=2),
    Hang("group_used_by_one", MISSING_IN_GROUP_1 + r"(.*\n)+?.*sleeps(.*\n)+?.*in group_used_by_one", ranks=4),
    Hang("group_used_by_one_is_awaited", MISSING_IN_GROUP_1 + r"(.*\n)+?.*waits in read\(\) of .*/fifo, a FIFO into which nobody writes", ranks=4),
    Hang("group_used_by_one_computes", MISSING_IN_GROUP_1 + r"(.*\n)+?.*(computes \(|gets )\d+ % of a CPU", health="late", ranks=4),
    Hang("rendezvous_incomplete", r"rank 1 is late.*\n.*sleeps.*\n.*in rendezvous_incomplete"),
    Hang("peer_exited", r"rank 1 has ended by itself with exit code 0"),
    Hang("slow", r"rank 1 is the slowest", health="slow"),
    Hang("slow_by_seconds", r"rank 1 is the slowest", health="slow"),
    Hang("fine", r": fine\n", health="fine", guilty=[]),
]
FEW = ("different_collectives", "reads_a_fifo", "stopped", "loops_in_python", "quota", "waits_for_a_key", "slow", "fine")


# Over NCCL, on one card.
BOTH = "cpu:gloo,cuda:nccl"  # as init_process_group() without a backend has it
CARD_HANGS = [
    Hang("different_collectives", r"rank 1 is in \w*barrier"),
    Hang("skips_one", r"rank 1 is in \w*barrier"),
    Hang("skips_one", r"over different backends.*: rank 1 waits in barrier #1 over gloo, ranks 0, 2 wait in all_reduce #6 .* over nccl",
         backend=BOTH),
    Hang("reads_a_fifo", r"waits in read\(\) of .*/fifo, a FIFO into which nobody writes.*\n.*in reads_a_fifo"),
    Hang("reads_a_fifo", r"waits in read\(\) of .*/fifo, a FIFO into which nobody writes.*\n.*in reads_a_fifo", backend=BOTH),
    Hang("reads_a_fifo_after_gloo", r"waits in read\(\) of .*/fifo, a FIFO into which nobody writes.*\n.*in reads_a_fifo", backend=BOTH),
    Hang("stopped", r"stopped by a signal \(SIGSTOP\)"),
    Hang("loops_in_python", r"(computes \(|gets )\d+ % of a CPU.*\n.*in loops_in_python", health="late"),
    Hang("computes_on_the_card", r"ranks 0-2 have begun all_reduce #6 .* no GPU has ended it", health="fine", guilty=[]),
    Hang("loader_stuck", r"waits for a DataLoader worker: pid \d+ \(pt_data_worker\) is in read\(\) of .*/fifo(.*\n)+?.*__getitem__"),
    Hang("waits_for_a_key", r"waits for a key in the store that nobody has set.*\n.*in waits_for_a_key"),
    Hang("receives_from_nobody", r"waits"),
    Hang("uneven_inputs", r"rank 1 is in \w*barrier"),
    Hang("unused_parameters", r"rank 1 is in \w*barrier"),
    Hang("other_group", r"rank 1 is late(.*\n)+?.*waits in barrier(.*\n)+?.*in other_group"),
    Hang("first_use_of_a_group", r"rank 1 is late(.*\n)+?.*in first_use_of_a_group"),
    Hang("fine", r": fine\n", health="fine", guilty=[]),
]


IN_ALL_REDUCE_6 = r"all_reduce #6 \(float32, 1000\)"

# Of hang_program.cc. Where ranks do other collectives, shm does not hang: it says so and ends them.
CPP_HANGS = [
    Hang("skips_one", r"rank 1 is in barrier", backend="gloo"),
    Hang("uneven_inputs", r"rank 1 is in barrier(.*\n)+?.*has done 2 steps", backend="gloo"),
    Hang("reads_a_fifo", IN_ALL_REDUCE_6 + r"(.*\n)+?.*waits in read\(\) of .*/fifo, a FIFO into which nobody writes"),
    Hang("stopped", r"stopped by a signal \(SIGSTOP\)"),
    Hang("debugged", r"held by a debugger: pid \d+"),
    Hang("loops_in_cpp", IN_ALL_REDUCE_6 + r"(.*\n)+?.*(computes \(|gets )\d+ % of a CPU(.*\n)+?.*loops_in_cpp", health="late"),
    Hang("two_locks", r"waits for a lock(.*\n)+?.*two_locks"),
    Hang("thread_died", r"waits for a lock or for another thread(.*\n)+?.*thread_died"),
    Hang("fills_a_pipe", r"blocked in write\(\) to a pipe that is full, which pid \d+ \(sleep\) does not read"),
    Hang("runs_a_program", r"waits for a child process to end: pid \d+ \(sleep\)"),
    Hang("waits_for_a_key", r"waits for a key in the store that nobody has set"),
    Hang("receives_from_nobody", r"waits in recv for (rank 0|another rank)"),
    Hang("peer_exited", r"rank 1 has ended by itself with exit code 0(?!(.*\n)+.*on host)"),
    Hang("evaluates_alone", r"it has done 1200 steps and evaluates", health="late"),
    Hang("saves_to_a_stuck_disk", r"is blocked in write\(\) to .*/fifo, a FIFO that is full(.*\n)+?.*it saves"),
    Hang("other_group", IN_DIFFERENT_ORDERS + r"rank 1 waits in barrier #1 of group \"world/groups/1/0\"", ranks=4),
    Hang("slow", r"rank 1 is the slowest", health="slow"),
    Hang("fine", r": fine\n", health="fine", guilty=[]),
]
CPP_FEW = ("reads_a_fifo", "loops_in_cpp", "receives_from_nobody", "evaluates_alone", "slow", "fine")


class Skipped(Exception):
    pass


@contextlib.contextmanager
def debugger(pid):
    """A process that has stopped `pid` as a debugger does."""
    program = ("import ctypes, os, sys\nlibc = ctypes.CDLL(None, use_errno=True)\npid = int(sys.argv[1])\n"
               "libc.ptrace.argtypes = [ctypes.c_long] * 4\n"
               "assert libc.ptrace(0x4206, pid, 0, 0) == 0 and libc.ptrace(0x4207, pid, 0, 0) == 0\n"
               "os.waitpid(pid, 0x40000000)\nprint('held', flush=True)\nsys.stdin.read()\n")
    with subprocess.Popen([sys.executable, "-c", program, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if process.stdout.readline() != b"held\n":
            raise Skipped("needs the right to trace")
        yield
        process.stdin.close()


@contextlib.contextmanager
def cgroup(controller, pid, **values):
    """A control group (version 1) of its own for `pid`."""
    root = pathlib.Path("/sys/fs/cgroup") / controller
    group = root / f"ddprun-why-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        raise Skipped(f"needs a control group of controller {controller}: {error.strerror}") from error
    try:
        for name, value in values.items():
            (group / name.replace("__", ".")).write_text(value)
        (group / "cgroup.procs").write_text(str(pid))
        yield group
    finally:
        with contextlib.suppress(OSError):
            (root / "cgroup.procs").write_text(str(pid))
        group.rmdir()


@contextlib.contextmanager
def frozen(pid):
    with cgroup("freezer", pid) as group:
        (group / "freezer.state").write_text("FROZEN")
        yield
        (group / "freezer.state").write_text("THAWED")


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    yield


@contextlib.contextmanager
def file_server(folder, works):
    """A FUSE file system of which nobody answers more than the first request; who holds it may be busy, as with an upload."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        raise Skipped("needs root and /dev/fuse")
    (folder / "mount").mkdir()
    server = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={server},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"silent", bytes(folder / "mount"), b"fuse", 0, options) != 0:
        os.close(server)
        raise Skipped(f"mount of a FUSE file system: {os.strerror(ctypes.get_errno())}")
    try:
        request = os.read(server, 1 << 20)
        unique = int.from_bytes(request[8:16], "little")
        init = request[40:48] + bytes(56)  # the same version, and nothing else
        os.write(server, (16 + len(init)).to_bytes(4, "little") + bytes(4) + unique.to_bytes(8, "little") + init)
        script = "while :; do head -c 100000 /dev/zero > /dev/null; sleep 0.1; done" if works else "exec sleep 1000"
        with subprocess.Popen(["sh", "-c", script], pass_fds=[server]) as holder:
            try:
                yield
            finally:
                holder.kill()
    finally:
        os.close(server)  # whoever waits for it gets an error
        libc.umount2(bytes(folder / "mount"), 2)


def act(hang, pid):
    """What somebody else does to the culprit."""
    if hang.name == "stopped":
        return stopped(pid)
    if hang.name == "debugged":
        return debugger(pid)
    if hang.name == "frozen":
        return frozen(pid)
    if hang.name == "quota":
        return cgroup("cpu", pid, cpu__cfs_quota_us="2000", cpu__cfs_period_us="100000")
    if hang.name == "swaps":
        return cgroup("memory", pid, memory__limit_in_bytes=str(24 << 20))
    return contextlib.nullcontext()


def is_right(hang, answer):
    return (answer["health"] == hang.health and answer["guilty"] == hang.expected() and
            re.search(hang.words, answer["page"]) is not None)


def ask(options, pid, environment):
    began = time.monotonic()
    done = subprocess.run([options.ddprun, "why", str(pid), "--json"], capture_output=True, text=True, check=False,
                          timeout=BOUND_S, env=environment)
    return (json.loads(done.stdout) if done.returncode == 0 else {"health": "none", "guilty": [], "page": done.stderr},
            time.monotonic() - began)


# While they keep all processors busy, ThreadSanitizer's ddprun reads too little in the time that it takes itself.
BUSY = ("loops_in_python", "loops_in_cpp", "fine")


def judge(options, hang):
    """What was said in the end, how long after the hang began, and how long the answer took."""
    if hang.name in BUSY and has_thread_sanitizer(options.ddprun):
        raise Skipped("ThreadSanitizer is too slow beside ranks that compute")
    with tempfile.TemporaryDirectory(prefix="ddprun-why-") as name:
        folder = pathlib.Path(name)
        os.mkfifo(folder / "ready")
        environment = os.environ | {"WHY_READY": str(folder / "ready"), "WHY_FOLDER": name, "TMPDIR": name, "OMP_NUM_THREADS": "1",
                                    "PYTHON_EXEC": options.python, "PYTHONDONTWRITEBYTECODE": "1"}
        if options.card:
            environment["WHY_BACKEND"] = hang.backend or "nccl"
        serves = hang.name.startswith("file_server_")
        around = file_server(folder, works=hang.name == "file_server_works") if serves else contextlib.nullcontext()
        program = options.cpp or str(HERE / "hangs.py")
        command = [options.ddprun, "--nproc-per-node", str(hang.ranks), "--shutdown-timeout", "1s", *options.flags,
                   program, hang.name, str(hang.culprit)]
        with around, open(folder / "out", "w") as out, \
                subprocess.Popen(command, env=environment, stdout=out, stderr=out) as job:
            try:
                # So that a job which fails before does not leave the test waiting for a line.
                guard = os.open(folder / "ready", os.O_RDWR)
                pid = int(wait_for_line(guard, job, folder / "out"))
                with act(hang, pid):
                    began = time.monotonic()
                    while True:
                        answer, took = ask(options, job.pid, environment)
                        is_good = is_right(hang, answer) and took <= ANSWER_S
                        if is_good or time.monotonic() - began > patient(60) or job.poll() is not None:
                            break
                    return answer, time.monotonic() - began, took
            finally:
                if job.poll() is None:
                    job.terminate()
                    job.wait(BOUND_S)

def without_names(options, text):
    """Without those of this machine."""
    for folder, name in ((str(HERE), "/job"), (str(pathlib.Path(options.python).parent.parent), "/venv"),
                         (str(pathlib.Path(options.ddprun).resolve().parent), "/usr/bin"), (os.uname().nodename, "node-a")):
        text = text.replace(folder, name)
    text = re.sub(r"/tmp/ddprun-why-\w+", "/scratch", text)
    return re.sub(r"/[/\w.-]*/lib/python3", "/usr/lib/python3", text)

def write_picture(options, answer, path):
    path.write_text(without_names(options, json.dumps(answer["facts"], separators=(",", ":"))) + "\n")

def wait_for_line(fd, job, out):
    deadline = time.monotonic() + BOUND_S
    text = b""
    while not text.endswith(b"\n"):
        if time.monotonic() > deadline or job.poll() is not None:
            raise RuntimeError(f"the job did not get to its hang:\n{out.read_text()[-2000:]}")
        if select.select([fd], [], [], 0.5)[0]:
            text += os.read(fd, 100)
    return text.decode()

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ddprun")
    parser.add_argument("python")
    parser.add_argument("--cpp")
    parser.add_argument("--backend", default="shm")
    parser.add_argument("--card", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--few", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--pictures", type=pathlib.Path)
    options = parser.parse_args()
    options.python = shutil.which(options.python)
    options.flags = ["--backend", options.backend] if options.cpp else []
    if options.card:
        import cards  # pylint: disable=import-outside-toplevel; it needs torch

        cards.require(1)
    if not options.cpp and subprocess.run([options.python, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        print("SKIPPED: needs a Python with torch (./scripts/setup.sh --with-tests)", file=sys.stderr)
        return 77
    all_hangs, few = (CPP_HANGS, CPP_FEW) if options.cpp else (CARD_HANGS if options.card else HANGS, FEW)
    hangs = [hang for hang in all_hangs if options.only in hang.name and (not options.few or hang.name in few) and
             (options.card or hang.backend in (None, options.backend))]
    right = counted = 0
    if options.table:
        print("| hang | said | after | answer took |\n|---|---|---|---|")
    for hang in hangs:
        try:
            answer, after, took = judge(options, hang)
        except Skipped as reason:
            print(f"SKIPPED: {hang.name} {reason}", file=sys.stderr)
            continue
        if options.pictures:
            write_picture(options, answer, options.pictures / f"{hang.name}.json")
        counted += 1
        good = is_right(hang, answer) and took <= ANSWER_S
        right += good
        if options.table:
            lines = [" ".join(line.split()) for line in without_names(options, answer["page"]).splitlines()[1:4]]
            said = "; ".join(lines).replace("|", "\\|")
            print(f"| `{hang.title()}` | {'' if good else 'WRONG: '}{said} | {after:.1f} s | {took:.1f} s |", flush=True)
            continue
        print(f"{'right' if good else 'WRONG'}  {after:5.1f} s  {took:4.1f} s  {hang.title()}", flush=True)
        if not good:
            print("\n".join("    " + line for line in answer["page"].splitlines()), flush=True)
    print(f"named right: {right} of {counted}", file=sys.stderr if options.table else sys.stdout)
    return 0 if counted and 100 * right / counted >= GOAL else 1

if __name__ == "__main__":
    sys.exit(main())
