"""Nodes that meet: ddprun's agents beside torchrun's c10d rendezvous, and many agents on real sockets."""

import json
import socket
import subprocess
import sys
import time

from harness import BUILD, DDPRUN, Limit, PEERS, PYTHON, Versus

TITLE = "Rendezvous (the row for ddprun includes exec of the last agent and the spawn of its worker; torchrun's has neither)"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ours(nodes):
    """Seconds from the exec of the last agent to the first line of the last worker, of all nodes."""
    port = free_port()
    command = [DDPRUN, "--nnodes", str(nodes), "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "bench", "--log-dir",
               "/dev/null", "--no-python", "/bin/date", "+%s.%N"]

    def start():
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    agents = [start() for _ in range(nodes - 1)]
    time.sleep(1)
    began = time.time()
    agents.append(start())
    said = [float(agent.communicate()[0]) for agent in agents]
    if any(agent.returncode for agent in agents):
        sys.exit(f"{command} failed")
    return max(said) - began


def peer(nodes):
    done = subprocess.run([PYTHON, PEERS / "rendezvous.py", str(nodes)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return float(done.stdout)


def agents(count, figure):
    done = subprocess.run([BUILD / "tests" / "membership_bench", str(count)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return json.loads(done.stdout)[figure]


def rows():
    for nodes in (2, 8):
        yield Versus(f"{nodes} nodes: last join to workers", lambda n=nodes: ours(n), lambda n=nodes: peer(n), "s", goal=20,
                     rounds=3)
    yield Limit("1,000 agents: last join to the last seat", lambda: agents(1000, "seats_ms"), "ms", at_most=1000, rounds=1)
    yield Limit("4,000 agents: last join to the last seat", lambda: agents(4000, "seats_ms"), "ms", at_most=4000, rounds=1)
    yield Limit("8 agents: a closed connection to all informed", lambda: agents(8, "loss_ms"), "ms", at_most=20, rounds=3)
    yield Limit("coordinator's memory an agent (1,000)", lambda: agents(1000, "bytes_per_agent"), "bytes", at_most=10240,
                rounds=1)
