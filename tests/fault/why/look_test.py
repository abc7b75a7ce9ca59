#!/usr/bin/env python3
"""What `ddprun why` looks at: the process that does the work of a rank, how that ended, and what it started.

look_test.py DDPRUN PYTHON
"""

import contextlib
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from tests.support.patience import patient  # noqa: E402
from tests.support.ports import free_port  # noqa: E402

BOUND_S = patient(90)

READS = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(5):
    dist.all_reduce(torch.ones(1000))
if dist.get_rank() == 1:
    with open("ready", "w") as ready:
        print(os.getpid(), file=ready)
    open("fifo").read()
dist.all_reduce(torch.ones(1000))
"""

# A worker that has loaded torch, and leaves the training to a child.
RUNS_A_CHILD = """
import subprocess, sys, torch
subprocess.run([sys.executable, "child.py"], check=True)
"""
SPAWNS = """
import torch.multiprocessing
def train(index):
    exec(open("child.py").read())
if __name__ == "__main__":
    torch.multiprocessing.spawn(train, nprocs=1)
"""

# Of three children of a worker the last reads what nobody writes, and the others wait for it.
SPAWNS_THREE = """
import os, torch, torch.distributed as dist, torch.multiprocessing
def train(index):
    os.environ |= {"RANK": str(index), "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "A FREE ONE",
                   "TORCHELASTIC_USE_AGENT_STORE": "False"}
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1000))
    if index == 2:
        with open("ready", "w") as ready:
            print(os.getpid(), file=ready)
        open("fifo").read()
    dist.all_reduce(torch.ones(1000))
if __name__ == "__main__":
    torch.multiprocessing.spawn(train, nprocs=3)
"""

# Rank 1 ends with 3 when it is told to, and nobody notices: the other waits for a key, and no signal ends it.
ENDS = """
import os, signal, torch.distributed as dist
signal.signal(signal.SIGTERM, signal.SIG_IGN)
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    with open("ready", "w") as ready:
        print(os.getpid(), file=ready)
    open("fifo").read()
    os._exit(3)
dist.distributed_c10d._get_default_store().get("what rank 1 would have set")
"""

# A worker of the loader that gets 40 KB a second from somewhere slow.
LOADS = """
import os, time, torch, torch.distributed as dist
class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 100
    def __getitem__(self, index):
        with open("/dev/zero", "rb", buffering=0) as data:
            for _ in range(10000):
                data.read(4096)
                time.sleep(0.1)
        return index
dist.init_process_group("gloo")
for _ in range(5):
    dist.all_reduce(torch.ones(1000))
if dist.get_rank() == 1:
    loader = iter(torch.utils.data.DataLoader(Slow(), batch_size=1, num_workers=1))
    with open("ready", "w") as ready:
        print(os.getpid(), file=ready)
    next(loader)
dist.all_reduce(torch.ones(1000))
"""

# A program of Python with three children of Python.
FAMILY = """
import os, time
for _ in range(3):
    if os.fork() == 0:
        time.sleep(1000)
time.sleep(1000)
"""
SILENT_PY_SPY = "#!/bin/sh\necho $$ > calls\nexec sleep 1000\n"


def processes():
    """pid → (parent, state, name)."""
    found = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = stat.read_text(errors="replace")
            name, rest = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2:].split()
            found[int(stat.parent.name)] = (int(rest[1]), rest[0], name)
    return found


def children(pid):
    return {child: facts for child, facts in processes().items() if facts[0] == pid}


def until(condition, what):
    end = time.monotonic() + BOUND_S
    while not (result := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        select.select([], [], [], 0.02)
    return result


def end(job):
    if job.poll() is None:
        job.terminate()
    if not job.stdout.closed:
        job.communicate(timeout=BOUND_S)


class Looks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-look-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("ready", "fifo", "calls"):
            os.mkfifo(self.folder / name)
        # Held open, so that nobody waits for a writer of "ready", and one of "calls" is never told that nobody reads.
        self.ready, self.calls = (os.open(self.folder / name, os.O_RDWR) for name in ("ready", "calls"))
        self.addCleanup(os.close, self.ready)
        self.addCleanup(os.close, self.calls)

    def line_of(self, fd):
        self.assertTrue(select.select([fd], [], [], BOUND_S)[0], "nobody wrote a line")
        return os.read(fd, 100).decode().split()[0]

    def start(self, text, *flags, command=("train.py",), python=None):
        (self.folder / "train.py").write_text(text)
        environment = os.environ | {"PYTHON_EXEC": python or PYTHON, "OMP_NUM_THREADS": "1"}
        nproc = () if "--nproc-per-node" in flags else ("--nproc-per-node", "2")
        job = subprocess.Popen([DDPRUN, *nproc, "--shutdown-timeout", "1s", "--log-dir", "logs", *flags, *command],
                               cwd=self.folder, env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)

        self.addCleanup(end, job)
        return job

    def why(self, job):
        done = subprocess.run([DDPRUN, "why", str(job.pid), "--json"], capture_output=True, text=True, check=False, timeout=BOUND_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def write_wrapper(self):
        wrapper = self.folder / "run.sh"
        wrapper.write_text(f"#!/bin/sh\n{PYTHON} train.py\necho the program is through\n")
        wrapper.chmod(0o755)

    def test_of_a_script_that_starts_the_program_the_program_is_looked_at(self):
        self.write_wrapper()
        job = self.start(READS, command=("./run.sh",))
        pid = int(self.line_of(self.ready))

        def answer():
            said = self.why(job)
            return said if said["health"] == "stuck" else None
        said = until(answer, "a verdict")
        self.assertEqual(said["guilty"], [1], said["page"])
        self.assertIn("rank 1 is late: it has not entered all_reduce #6", said["page"])
        self.assertRegex(said["page"], r"waits in open\(\) of .*/fifo")
        self.assertEqual(said["facts"]["ranks"][1]["pid"], pid)

    def test_a_hang_of_such_a_program_is_reported(self):
        self.write_wrapper()
        job = self.start(READS, "--hang-report", "2s", command=("./run.sh",))
        self.line_of(self.ready)
        self.assertTrue(select.select([job.stdout], [], [], BOUND_S)[0], "nothing was said")
        self.assertIn("2 ranks, generation 0: stuck", job.stdout.readline())
        self.assertIn("rank 1 is late", job.stdout.readline())

    def test_of_a_worker_with_torch_whose_child_trains_the_child_is_looked_at(self):
        (self.folder / "child.py").write_text(READS)
        for worker in RUNS_A_CHILD, SPAWNS:
            with self.subTest(worker):
                job = self.start(worker)
                pid = int(self.line_of(self.ready))
                said = until(lambda: (said := self.why(job))["health"] == "stuck" and said, "a verdict")
                self.assertEqual(said["guilty"], [1], said["page"])
                self.assertIn("rank 1 is late: it has not entered all_reduce #6", said["page"])
                self.assertRegex(said["page"], r"waits in open\(\) of .*/fifo")
                self.assertEqual(said["facts"]["ranks"][1]["pid"], pid)
                self.assertNotIn(pid, children(job.pid))
                end(job)

    def test_a_hang_of_such_a_child_is_reported(self):
        (self.folder / "child.py").write_text(READS)
        job = self.start(RUNS_A_CHILD, "--hang-report", "2s")
        self.line_of(self.ready)
        self.assertTrue(select.select([job.stdout], [], [], BOUND_S)[0], "nothing was said")
        self.assertIn("2 ranks, generation 0: stuck", job.stdout.readline())
        self.assertIn("rank 1 is late", job.stdout.readline())

    def test_of_several_children_that_train_the_oldest_is_looked_at_and_nobody_is_accused(self):
        job = self.start(SPAWNS_THREE.replace("A FREE ONE", str(free_port())), "--nproc-per-node", "1")
        self.line_of(self.ready)
        said = until(lambda: (said := self.why(job))["health"] == "stuck" and said, "a verdict")
        self.assertEqual(said["guilty"], [], said["page"])
        self.assertIn("who is late was not seen", said["page"])
        self.assertRegex(said["page"], r"of rank 0 pid \d+ was seen, the oldest of 3 processes that train")

    def test_a_worker_that_trains_itself_is_looked_at_whatever_it_has_started(self):
        job = self.start(LOADS)
        pid = int(self.line_of(self.ready))
        until(lambda: children(pid), "the worker of the loader")
        self.assertEqual(self.why(job)["facts"]["ranks"][1]["pid"], pid)
        self.assertIn(pid, children(job.pid))

    def test_no_exit_code_is_told_that_is_not_known(self):
        job = self.start(ENDS)
        self.line_of(self.ready)
        asking = subprocess.Popen([DDPRUN, "why", str(job.pid), "--json"], stdout=subprocess.PIPE, text=True)
        until(lambda: len(children(asking.pid)) == 2, "the processes that look")
        (self.folder / "fifo").write_text("go on")
        said = json.loads(asking.communicate(timeout=BOUND_S)[0])
        self.assertNotIn("exit code 0", said["page"])
        self.assertEqual(said["health"], "ending", said["page"])

    def test_a_process_of_a_rank_that_reads_gets_on(self):
        job = self.start(LOADS)
        self.line_of(self.ready)

        def answer():
            said = self.why(job)
            return said if said["guilty"] else None
        said = until(answer, "a verdict")
        self.assertEqual((said["guilty"], said["health"]), ([1], "late"), said["page"])
        self.assertRegex(said["page"], r"waits for pid \d+ \(pt_data_worker\), which reads or writes \(")

    def start_with_silent_py_spy(self, *flags):
        (self.folder / "python").symlink_to(PYTHON)
        (self.folder / "py-spy").write_text(SILENT_PY_SPY)
        (self.folder / "py-spy").chmod(0o755)
        return self.start(FAMILY, *flags, python=str(self.folder / "python"))

    def test_py_spy_does_not_outlive_why(self):
        job = self.start_with_silent_py_spy()
        workers = until(lambda: [pid for pid in children(job.pid) if len(children(pid)) == 3] or None, "the workers")
        asking = subprocess.Popen([DDPRUN, "why", str(job.pid)], cwd=self.folder, stdout=subprocess.DEVNULL)
        spy = os.pidfd_open(int(self.line_of(self.calls)))
        self.addCleanup(os.close, spy)
        asking.kill()
        asking.wait()
        self.assertTrue(select.select([spy], [], [], patient(10))[0], "py-spy is still there")
        self.assertTrue(workers)

    def test_the_watch_for_hangs_leaves_no_zombies(self):
        job = self.start_with_silent_py_spy("--hang-report", "1s")
        watch = until(lambda: [pid for pid, facts in children(job.pid).items() if facts[2] == "hang-watch"], "the watch")[0]
        # Through two whole looks: one begins when a process that looks is there that was not there before.
        seen = set()

        def looked_twice():
            seen.update(pid for pid, facts in children(watch).items() if facts[1] != "Z")
            return len(seen) > 4
        until(looked_twice, "the third look")
        self.assertEqual([pid for pid, facts in children(watch).items() if facts[1] == "Z"], [])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    DDPRUN, PYTHON = sys.argv[1:3]
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        print("SKIPPED: needs a Python with torch (./scripts/setup.sh --with-tests)", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
