"""A launcher that stands still loses its lease, and its workers with it: lease_test.py DDPRUN."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

DDPRUN = sys.argv[1]
del sys.argv[1]

# Says that it lives, every few milliseconds and by a clock of the machine, in a file of its own; so does a child
# in a session of its own. Of a world of one, the generation after the loss: says when it began, and succeeds.
WORKER = """
import os, sys, time
folder = sys.argv[1]
def stamp(name):
    with open(f"{folder}/{name}", "a") as file:
        file.write(f"{time.clock_gettime_ns(time.CLOCK_BOOTTIME)}\\n")
if os.environ["WORLD_SIZE"] == "1":
    stamp("next")
    sys.exit(0)
name = "worker-" + os.environ["RANK"]
if os.fork() == 0:
    os.setsid()
    os.environ.clear()
    name += "-detached"
stamp(name)
if not name.endswith("detached"):
    print(name, flush=True)
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

    def start(self, *arguments):
        process = subprocess.Popen([DDPRUN, *arguments], env=self.environment, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        for end in (process.kill, process.wait, process.stdout.close, process.stderr.close):
            self.addCleanup(end)
        return process

    def start_node(self, port, *flags):
        return self.start("--nnodes", "1:2", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", self.id(),
                          "--rdzv-conf", "is_host=false,rejoin_timeout=1", "--log-dir", "/dev/null", *flags,
                          str(self.folder / "worker.py"), str(self.folder))

    def stamps(self, name):
        return [int(line) for line in (self.folder / name).read_text().splitlines()]

    def test_workers_of_a_stopped_launcher_are_dead_before_the_next_generation_starts(self):
        coordinator = self.start("coordinator", "--bind", "127.0.0.1:0", "--nnodes", "1:2", "--rdzv-id", self.id(),
                                 "--rdzv-conf", "keep_alive_interval=0.2,keep_alive_max_attempt=5,last_call_timeout=20")
        port = coordinator.stdout.readline().split()[-1].rpartition(":")[2]
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


if __name__ == "__main__":
    unittest.main()
