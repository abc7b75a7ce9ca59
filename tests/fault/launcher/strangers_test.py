"""Strangers who take every descriptor that the launcher's port can give: strangers_test.py DDPRUN."""

import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))

from owned import own  # noqa: E402
from ports import free_port  # noqa: E402

DDPRUN = sys.argv[1]
del sys.argv[1:2]
WORKERS = 4
LIMIT = 96  # of descriptors: enough for the job, and soon used up by strangers
INTRODUCTION = struct.pack("=BI", 0, 0x3C85F7CE)  # VALIDATE
MESSAGES = pathlib.Path(__file__).parents[3] / "rendezvous/membership/messages.h"
PROTOCOL = int(re.search(r"kProtocolVersion = (\d+)", MESSAGES.read_text())[1])
WORKER = '''echo "generation $TORCHELASTIC_RESTART_COUNT port $MASTER_PORT"
[ "$TORCHELASTIC_RESTART_COUNT" = 1 ] && exit 0
read -r line <"$1"
exit 3'''


class Strangers(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-strangers-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.fifo = self.folder / "fifo"
        os.mkfifo(self.fifo)

    def start(self, *flags):
        job = subprocess.Popen(
            ["/bin/bash", "-c", f'ulimit -n {LIMIT}; exec "$@"', "bash", DDPRUN, "--nproc-per-node", str(WORKERS),
             "--max-restarts", "1", "--tee", "3", "--log-dir", str(self.folder / "logs"), *flags,
             "--no-python", "/bin/bash", "-c", WORKER, "bash", str(self.fifo)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"TMPDIR": str(self.folder)})
        own(self, job)
        return job

    def besiege(self, job, greeting):
        """All workers are there; then strangers come until no more are let in."""
        ports = {re.search(r"port (\d+)", job.stdout.readline()).group(1) for _ in range(WORKERS)}
        self.assertEqual(len(ports), 1)
        port = int(ports.pop())
        for _ in range(2 * LIMIT):
            stranger = socket.create_connection(("127.0.0.1", port))
            self.addCleanup(stranger.close)
            stranger.sendall(greeting)
        for line in job.stderr:
            if "Too many open files" in line:
                return
        self.fail("the launcher took them all")

    def check_restart(self, job):
        # Read-write: with the first that reads, the others are stopped, and nobody may read any more.
        gate = os.open(self.fifo, os.O_RDWR)
        self.addCleanup(os.close, gate)
        os.write(gate, b"\n" * WORKERS)
        out, err = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0, err)
        self.assertEqual(out.count("generation 1 "), WORKERS, out)
        logs = sorted(self.folder.glob("logs/*/attempt_1/*/stdout.log"))
        self.assertEqual(["generation 1" in log.read_text() for log in logs], [True] * WORKERS, err)
        self.assertEqual(len(list(self.folder.glob("logs/*/attempt_1/*/stderr.log"))), WORKERS, err)
        self.assertNotIn("cannot write", err)

    def test_clients_of_the_store_leave_what_a_restart_needs(self):
        job = self.start()
        self.besiege(job, INTRODUCTION)
        self.check_restart(job)

    def test_half_introduced_agents_leave_what_a_restart_needs(self):
        job = self.start("--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}",
                         "--rdzv-conf", "last_call_timeout=0")
        self.besiege(job, b"DDPR")
        self.check_restart(job)


class OwnWorkers(unittest.TestCase):
    """Workers that stay connected to their store, with as few descriptors as a job is started with."""

    CLIENTS = 12
    WORKER = r"""exec 3<>"/dev/tcp/$MASTER_ADDR/$MASTER_PORT"
printf '\x00\xce\xf7\x85\x3c\x0d\x2a\x00\x00\x00' >&3
echo "reply:$(timeout 20 head -c 4 <&3 | od -An -tx1)"
read -r line <"$1"
"""

    def start(self, limit, folder, *flags):
        return own(self, subprocess.Popen(
            ["/bin/bash", "-c", f'ulimit -n {limit}; exec "$@"', "bash", DDPRUN, "--nproc-per-node", str(self.CLIENTS),
             "--tee", "3", "--log-dir", f"{folder}/logs", *flags, "--no-python", "/bin/bash", "-c", self.WORKER, "bash",
             f"{folder}/fifo"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"TMPDIR": folder}))

    def check_connects(self, *flags):
        with tempfile.TemporaryDirectory(prefix="ddprun-strangers-") as folder:
            os.mkfifo(f"{folder}/fifo")
            refused = self.start(32, folder, *flags)
            needed = re.search(r"needs up to (\d+) descriptors", refused.communicate(timeout=30)[1]).group(1)
            self.assertEqual(refused.returncode, 71)
            job = self.start(needed, folder, *flags)
            replies = [re.search("reply:.*", job.stdout.readline())[0] for _ in range(self.CLIENTS)]
            self.assertEqual(replies, ["reply: 2a 00 00 00"] * self.CLIENTS)
            gate = os.open(f"{folder}/fifo", os.O_RDWR)
            self.addCleanup(os.close, gate)
            os.write(gate, b"\n" * self.CLIENTS)
            _, err = job.communicate(timeout=60)
            self.assertEqual((job.returncode, err), (0, ""))

    def test_workers_of_one_node_reach_their_store(self):
        self.check_connects()

    def test_workers_of_several_nodes_reach_their_store(self):
        self.check_connects("--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{free_port()}",
                            "--rdzv-conf", "last_call_timeout=0")


class Servers(unittest.TestCase):
    """`ddprun coordinator` and `ddprun store`, which have no workers to keep descriptors for."""

    def start(self, limits, *words, stderr=subprocess.PIPE):
        server = subprocess.Popen(["/bin/bash", "-c", f'{limits}; exec "$@"', "bash", DDPRUN, *words], text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr)
        return own(self, server), int(server.stdout.readline())

    def connect(self, port):
        client = socket.create_connection(("127.0.0.1", port))
        self.addCleanup(client.close)
        client.settimeout(30)
        client.sendall(INTRODUCTION)
        return client

    def check_serves(self, *words):
        """More clients than the soft limit allows; each is answered, that is, it was let in."""
        _, port = self.start("ulimit -Sn 64; ulimit -Hn 256", *words)
        for nonce in range(128):
            client = self.connect(port)
            client.sendall(struct.pack("=BI", 13, nonce))
            self.assertEqual(client.recv(4), struct.pack("=I", nonce))

    def test_the_store_takes_what_the_hard_limit_allows(self):
        self.check_serves("store", "--host", "127.0.0.1", "--port", "0")

    def test_the_coordinator_takes_what_the_hard_limit_allows(self):
        self.check_serves("coordinator", "--bind", "127.0.0.1:0", "--nnodes", "2")

    def test_a_full_coordinator_says_so_also_in_a_file(self):
        with tempfile.NamedTemporaryFile("r+") as said:
            _, port = self.start("ulimit -n 64", "coordinator", "--bind", "127.0.0.1:0", "--nnodes", "2", stderr=said)
            clients = [self.connect(port) for _ in range(64)]
            end = time.monotonic() + 20
            while "Too many open files" not in pathlib.Path(said.name).read_text():
                self.assertLess(time.monotonic(), end, "nothing is said")
                time.sleep(0.05)
            self.assertEqual(len(clients), 64)


class LastMember(unittest.TestCase):
    """`ddprun coordinator` and a member that does not do what it is told."""

    def setUp(self):
        self.coordinator = own(self, subprocess.Popen(
            [DDPRUN, "coordinator", "--bind", "127.0.0.1:0", "--nnodes", "1:2", "--rdzv-conf",
             "keep_alive_interval=60,last_call_timeout=0"],
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        self.socket = socket.create_connection(("127.0.0.1", int(self.coordinator.stdout.readline())))
        self.addCleanup(self.socket.close)
        self.socket.settimeout(60)
        self.sequence = 0
        self.socket.sendall(b"DDPR")
        self.say(type="hello", version=PROTOCOL, run_id="none", min=1, max=2, member=7, host="x", nproc=1, node_rank=None,
                 role="default", replaces=None, generation=0, restarts=0, secret=False, nonce="00", control=False)
        self.assertEqual(self.hear()["type"], "welcome")
        self.tell("idle", 0, "run")
        self.tell("running", 1, "run")

    def say(self, **message):
        body = json.dumps(message).encode()
        self.socket.sendall(struct.pack(">I", len(body)) + body)

    def hear(self):
        (size,) = struct.unpack(">I", self.socket.recv(4, socket.MSG_WAITALL))
        return json.loads(self.socket.recv(size, socket.MSG_WAITALL))

    def tell(self, phase, generation, awaited):
        """Tells a status, and waits for an order of that kind."""
        self.sequence += 1
        self.say(type="status", seq=self.sequence, gen=generation, phase=phase)
        self.await_order(awaited)

    def await_order(self, kind):
        while self.hear().get("kind") != kind:
            pass

    def test_a_signal_ends_the_wait_for_one_that_ignores_the_end(self):
        self.tell("succeeded", 1, "end")
        self.coordinator.send_signal(signal.SIGTERM)
        self.assertEqual(self.coordinator.wait(timeout=30), 0)

    def test_a_second_signal_ends_the_job_with_its_code(self):
        self.coordinator.send_signal(signal.SIGTERM)
        self.await_order("stop")
        self.coordinator.send_signal(signal.SIGTERM)
        _, err = self.coordinator.communicate(timeout=30)
        self.assertEqual(self.coordinator.returncode, 143, err)
        self.assertIn("the coordinator was told to stop by SIGTERM", err)


if __name__ == "__main__":
    unittest.main()
