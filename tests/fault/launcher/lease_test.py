"""A launcher that stands still loses its lease, and its workers with it: lease_test.py DDPRUN PROGRAMS."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))

from owned import own  # noqa: E402
from skips import skip_unless  # noqa: E402

DDPRUN, PROGRAMS = sys.argv[1:3]
del sys.argv[1:3]

SEES_ALL = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"

# Says that it lives, every few milliseconds and by a clock of the machine, in a file of its own; so does a child
# in a session of its own. Each has a segment of shared memory, as PyTorch would name it. Of a world of one, the
# generation after the loss: says when it began, and succeeds.
WORKER = """
import os, sys, time, zlib
folder = sys.argv[1]
def make_segment():
    open(f"/dev/shm/torch_{os.getpid()}_{zlib.crc32(folder.encode())}_{os.environ['RANK']}", "w").close()
def stamp(name):
    with open(f"{folder}/{name}", "a") as file:
        file.write(f"{time.clock_gettime_ns(time.CLOCK_BOOTTIME)}\\n")
if os.environ["WORLD_SIZE"] == "1":
    stamp("next")
    sys.exit(0)
name = "worker-" + os.environ["RANK"]
make_segment()
stamp(name)
if os.fork() == 0:
    os.setsid()
    make_segment()
    os.environ.clear()
    stamp(name + "-detached")
    print(name, flush=True)
    name += "-detached"
while True:
    stamp(name)
    time.sleep(0.005)
"""


class Lease(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-lease-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "worker.py").write_text(WORKER)
        self.environment = os.environ | {"TMPDIR": folder.name}
        self.addCleanup(lambda: [path.unlink(missing_ok=True) for path in self.segments("*")])

    def start(self, *arguments, **environment):
        process = subprocess.Popen([DDPRUN, *arguments], env=self.environment | environment, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        own(self, process)
        return process

    def start_coordinator(self):
        process = self.start("coordinator", "--bind", "127.0.0.1:0", "--nnodes", "1:2", "--rdzv-id", self.id(),
                             "--rdzv-conf", "keep_alive_interval=0.2,keep_alive_max_attempt=5,last_call_timeout=20")
        return process.stdout.readline().split()[-1].rpartition(":")[2]

    def start_node(self, port, *flags, **environment):
        return self.start("--nnodes", "1:2", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", self.id(),
                          "--rdzv-conf", "is_host=false,rejoin_timeout=1", "--log-dir", "/dev/null", *flags,
                          str(self.folder / "worker.py"), str(self.folder), **environment)

    def stamps(self, name):
        return [int(line) for line in (self.folder / name).read_text().splitlines()]

    def segments(self, rank):
        return list(pathlib.Path("/dev/shm").glob(f"torch_*_{zlib.crc32(str(self.folder).encode())}_{rank}"))

    @skip_unless(SEES_ALL, "needs the machine's first pid namespace")
    def test_segments_of_what_a_guard_has_killed_are_removed_while_the_launcher_is_stopped(self):
        port = self.start_coordinator()
        nodes = [self.start_node(port), self.start_node(port)]
        rank = [node.stdout.readline().strip() for node in nodes][1].removeprefix("worker-")
        self.assertEqual(len(self.segments(rank)), 2)
        nodes[1].send_signal(signal.SIGSTOP)
        limit = time.monotonic() + 20
        while left := self.segments(rank):
            self.assertLess(time.monotonic(), limit, f"still there: {left}")
            time.sleep(0.01)

    def test_workers_of_a_stopped_launcher_are_dead_before_the_next_generation_starts(self):
        port = self.start_coordinator()
        nodes = [self.start_node(port), self.start_node(port)]
        name = [node.stdout.readline().strip() for node in nodes][1]
        lost = nodes[1]
        lost.send_signal(signal.SIGSTOP)
        self.addCleanup(lost.send_signal, signal.SIGCONT)
        self.assertEqual(nodes[0].wait(timeout=60), 0)
        began = self.stamps("next")[0]
        self.assertLess(self.stamps(name)[-1], began)
        self.assertLess(self.stamps(name + "-detached")[-1], began)
        lost.send_signal(signal.SIGCONT)
        _, said = lost.communicate(timeout=60)
        self.assertRegex(said, "stood still until its lease was over|has not answered for")
        self.assertNotIn("was killed by SIGKILL", said)

    def test_a_worker_whose_log_file_opens_when_the_lease_is_over_is_not_started(self):
        port = self.start_coordinator()
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        flags = ("--log-dir", str(self.folder / "logs"), "--redirects", "3", "--events", str(self.folder / "events"))
        lost = self.start_node(port, *flags, LD_PRELOAD=f"{PROGRAMS}/libhanging_open.so", HANGING_OPEN="/stdout.log",
                               HANGING_OPEN_UNTIL=str(fifo))
        other = self.start_node(port)
        name = other.stdout.readline().strip()
        with open(fifo, "w", encoding="ascii"):  # the launcher hangs from here on
            self.assertEqual(other.wait(timeout=60), 0)
        _, said = lost.communicate(timeout=60)
        workers = {path.name for path in self.folder.glob("worker-*")}
        self.assertEqual(workers, {name, name + "-detached"}, said)
        self.assertNotIn("worker_spawned", (self.folder / "events").read_text())  # a guard ends it at once


if __name__ == "__main__":
    unittest.main()
