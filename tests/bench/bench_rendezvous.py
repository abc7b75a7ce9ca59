"""Nodes that meet, and that are lost: ddprun's agents beside torchrun's c10d rendezvous, and thousands on real sockets.

DDPRUN_BENCH_ALARM_SECONDS is how long false alarms are waited for (10; 600 is the goal's time).
"""

import collections
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from bench_launcher import children_named, wait_until
from bench_start import JOB
from harness import BUILD, DDPRUN, PEERS, PYTHON, Limit, Versus

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))

from ports import free_port  # noqa: E402

TITLE = ("Rendezvous (ddprun's time includes the exec of the last agent and the spawn of its worker; torchrun's is that of "
         "its rendezvous alone, in processes that are warm)")
ALARM_SECONDS = int(os.environ.get("DDPRUN_BENCH_ALARM_SECONDS", "10"))
HEARTBEAT_MS = 200
MISSED = 4
NO_HEARTBEATS_MS = 60000


def ours(nodes):
    """Seconds from the exec of the last agent to the first line of the last worker, of all nodes."""
    command = [DDPRUN, "--nnodes", str(nodes), "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--rdzv-id", "bench",
               "--log-dir", "/dev/null", "--no-python", "/bin/date", "+%s.%N"]

    def start():
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    agents = [start() for _ in range(nodes - 1)]
    time.sleep(0.5)
    began = time.time()
    agents.append(start())
    said = [float(agent.communicate()[0]) for agent in agents]
    if any(agent.returncode for agent in agents):
        sys.exit(f"{command} failed")
    return max(said) - began


class Peer:
    """torchrun's rendezvous: all rounds in one set of processes, because their imports take seconds."""

    def __init__(self, nodes, rounds):
        self.command = [PYTHON, PEERS / "rendezvous.py", str(nodes), str(rounds)]
        self.seconds = collections.deque()

    def measure(self):
        if not self.seconds:
            done = subprocess.run(self.command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(done.stderr)
            self.seconds.extend(map(float, done.stdout.split()))
        return self.seconds.popleft()


def membership(*words):
    command = [BUILD / "tests" / "membership_bench", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


@functools.cache
def crowd(agents, heartbeat_ms=1000):
    """One measurement gives several rows."""
    return membership("round", agents, heartbeat_ms)


class Cluster:
    """Three hosts on loopback that train with one C++ worker each."""

    HOSTS = 3

    def __init__(self, folder):
        job = pathlib.Path(folder) / "job.json"
        job.write_text(json.dumps(JOB | {"output_dir": folder, "train": {"batch_size": 64, "epochs": 100000}}))
        self.metrics = pathlib.Path(folder) / "metrics.jsonl"
        command = [DDPRUN, "--nnodes", f"{self.HOSTS - 1}:{self.HOSTS}", "--rdzv-endpoint", f"127.0.0.1:{free_port()}",
                   "--rdzv-id", "bench", "--rdzv-conf",
                   f"keep_alive_interval={HEARTBEAT_MS / 1000},keep_alive_max_attempt={MISSED}", "--max-restarts", "3",
                   "--nproc-per-node", "1", job]
        self.read_up_to, self.generation, self.first_steps = 0, None, {}
        self.agents = []
        for _ in range(self.HOSTS):
            self.agents.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            time.sleep(0.1)  # the first one is rank 0 and has the coordinator

    def first_step(self, restart_count):
        """When the first step after so many restarts was made; reads on where it left off."""
        if not self.metrics.exists():
            return None
        with self.metrics.open() as file:
            file.seek(self.read_up_to)
            text = file.read()
        lines = text[:text.rfind("\n") + 1]
        self.read_up_to += len(lines)
        for record in map(json.loads, lines.splitlines()):
            if record.get("event") == "start":
                self.generation = record["restart_count"]
            elif record.get("event") == "step":
                self.first_steps.setdefault(self.generation, record["time"])
        return self.first_steps.get(restart_count)

    def lose_a_host(self, how):
        """Seconds from the loss of the last host to the first step of the others in the next generation."""
        wait_until(lambda: self.first_step(0), "the first step")
        victim = self.agents[-1].pid
        doomed = [*children_named(victim, "ddprun-worker"), victim]
        lost = time.time()
        for pid in doomed:
            os.kill(pid, how)
        wait_until(lambda: self.first_step(1), "the first step after the loss of a host")
        return self.first_step(1) - lost

    def stop(self):
        for agent in reversed(self.agents):
            agent.send_signal(signal.SIGKILL if agent is self.agents[-1] else signal.SIGTERM)
        for agent in self.agents:
            agent.wait()


def recovery(how):
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(folder)
        try:
            return cluster.lose_a_host(how)
        finally:
            cluster.stop()


def growth(figure):
    return crowd(4000, NO_HEARTBEATS_MS)[figure] / crowd(1000, NO_HEARTBEATS_MS)[figure]


def rows():
    for nodes in (2, 8):
        yield Versus(f"{nodes} nodes: last join to workers spawned", functools.partial(ours, nodes), Peer(nodes, 3).measure,
                     "s", goal=20, rounds=3)
    for agents, seconds in ((1000, 1), (4000, 4)):
        yield Limit(f"{agents:,} agents: last join to the last seat", lambda n=agents: crowd(n)["seats_ms"] / 1000, "s",
                    at_most=seconds, rounds=1)
    yield Limit("coordinator's memory an agent (1,000)", lambda: crowd(1000)["memory_bytes_per_agent"], "bytes",
                at_most=10240, rounds=1)
    yield Limit("memory an agent, 4,000 agents over 1,000", lambda: growth("memory_bytes_per_agent"), "×", at_most=1.1,
                rounds=1)
    yield Limit("bytes on the wire an agent, 4,000 agents over 1,000 (their numbers are longer)",
                lambda: growth("wire_bytes_per_agent"), "×", at_most=1.2, rounds=1)
    yield Limit("8 agents: a closed connection to all informed", lambda: membership("round", 8, 1000)["loss_ms"], "ms",
                at_most=20, rounds=3)
    yield Limit("1,000 agents: a closed connection to all informed, an agent",
                lambda: membership("round", 1000, 1000)["loss_ms"], "µs", at_most=30, rounds=5)
    silent = f"heartbeat {HEARTBEAT_MS} ms, {MISSED} missed"
    yield Limit(f"8 agents: one falls silent ({silent}) to all informed",
                lambda: membership("silence", 8, HEARTBEAT_MS, MISSED)["silence_ms"] / 1000, "s", at_most=1, rounds=3)
    yield Limit(f"8 agents: false alarms in {ALARM_SECONDS} s while every core is busy ({silent})",
                lambda: membership("alarms", 8, HEARTBEAT_MS, MISSED, ALARM_SECONDS)["alarms"], "", at_most=0, rounds=1)
    yield Limit("3 hosts, C++ workers: one is killed, to the first step of the next generation",
                lambda: recovery(signal.SIGKILL), "s", at_most=1.5, rounds=3)
    yield Limit(f"the same, one falls silent ({silent}; torchrun's keep-alive alone: 15 s)",
                lambda: recovery(signal.SIGSTOP), "s", at_most=1.5, rounds=3)
