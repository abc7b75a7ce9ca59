"""Signals while a name is looked up and no name server answers: lookup_test.py DDPRUN. Skipped (77) where there are no
namespaces for a name server of our own."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))

from owned import own  # noqa: E402

DDPRUN = sys.argv[1]
INSIDE = "DDPRUN_TEST_INSIDE"
HOST = "node-a.example"
# A look-up lasts a minute at least.
RESOLVER = "nameserver 127.0.0.1\noptions timeout:30 attempts:2\n"
SOON = 25


def enter_namespaces():
    words = ["unshare", "-rnm"]
    probe = subprocess.run([*words, "sh", "-c", "mount -t tmpfs none /mnt && ip link set lo up"], capture_output=True,
                           text=True, check=False)
    if probe.returncode != 0:
        print(f"SKIPPED: no namespaces here: {probe.stderr.strip()}", file=sys.stderr)
        sys.exit(77)
    os.execvpe(words[0], [*words, sys.executable, *sys.argv], os.environ | {INSIDE: "1"})


class SilentNameServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        cls.server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        cls.server.bind(("127.0.0.1", 53))
        cls.server.settimeout(60)
        cls.addClassCleanup(cls.server.close)
        folder = tempfile.TemporaryDirectory(prefix="ddprun-lookup-")
        cls.addClassCleanup(folder.cleanup)
        for name, text in (("resolv.conf", RESOLVER), ("nsswitch.conf", "hosts: files dns\n")):
            file = pathlib.Path(folder.name) / name
            file.write_text(text)
            subprocess.run(["mount", "--bind", file, f"/etc/{name}"], check=True)
            cls.addClassCleanup(subprocess.run, ["umount", f"/etc/{name}"], check=True)

    def end_in_lookup(self, number, *words):
        """Starts ddprun, sends it the signal once it has asked, and returns how it ended and what it said."""
        self.forget_questions()
        job = own(self, subprocess.Popen([DDPRUN, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, text=True))
        while HOST.split(".")[0].encode() not in self.server.recvfrom(512)[0]:
            pass
        job.send_signal(number)
        _, err = job.communicate(timeout=SOON)
        return job.returncode, err

    def forget_questions(self):
        self.server.setblocking(False)
        try:
            while self.server.recvfrom(512):
                pass
        except BlockingIOError:
            self.server.settimeout(60)

    def check_ends(self, *words, codes=(-signal.SIGTERM, -signal.SIGINT)):
        for number, wanted in zip((signal.SIGTERM, signal.SIGINT), codes):
            code, err = self.end_in_lookup(number, *words)
            self.assertEqual(code, wanted, err)

    def test_a_node_that_looks_for_another_ends_at_once(self):
        self.check_ends("--nnodes", "2", "--node-rank", "1", "--master-addr", HOST, "--no-python", "/bin/true",
                        codes=(75, 130))  # a node of several that was told to leave

    def test_a_node_that_asks_whether_the_endpoint_is_its_own_ends_at_once(self):
        self.check_ends("--nnodes", "1:2", "--rdzv-endpoint", f"{HOST}:29400", "--no-python", "/bin/true")

    def test_a_node_that_is_alone_ends_at_once(self):
        self.check_ends("--nnodes", "1", "--master-addr", HOST, "--no-python", "/bin/true")

    def test_coordinator_store_and_drain_end_at_once(self):
        self.check_ends("coordinator", "--bind", f"{HOST}:0", "--nnodes", "2", "--rdzv-id", "lookup")
        self.check_ends("store", "--host", HOST, "--port", "0")
        self.check_ends("drain", "--rdzv-endpoint", f"{HOST}:29400", "--rdzv-id", "lookup")


if __name__ == "__main__":
    if INSIDE not in os.environ:
        enter_namespaces()
    unittest.main(argv=[sys.argv[0]])
