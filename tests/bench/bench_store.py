"""The store beside PyTorch's own (libuv) server: the same stock c10d::TCPStore clients, one server after the other."""

import collections
import json
import subprocess
import sys

from harness import BUILD, Limit, Versus

TITLE = "Store"
PROGRAM = BUILD / "tests" / "store_bench"
SECONDS = 1


def measure(what, server, clients):
    command = [PROGRAM, what, "--server", server, "--clients", str(clients), "--seconds", str(SECONDS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


class Gets:
    """Rate and p99 come from one measurement and are two rows: the second row takes what the first one left."""

    def __init__(self, clients, goal):
        self.clients = clients
        self.goal = goal
        self.p99 = {"ddprun": collections.deque(), "pytorch": collections.deque()}

    def rate(self, server):
        result = measure("gets", server, self.clients)
        self.p99[server].append(result["p99_us"])
        return result["gets_per_second"]

    def rows(self, rounds):
        name = f"store get, {self.clients} client{'s' if self.clients > 1 else ''}"
        yield Versus(name, lambda: self.rate("ddprun"), lambda: self.rate("pytorch"), "/s", goal=self.goal,
                     higher_is_better=True, rounds=rounds)
        yield Versus(name + ": p99", self.p99["ddprun"].popleft, self.p99["pytorch"].popleft, "µs", goal=1,
                     rounds=rounds)


def barrier(server, figure, clients=4096):
    return measure("barrier", server, clients)[figure]


def rows():
    for clients, rounds in ((1, 5), (16, 5), (64, 5), (512, 3), (4096, 3)):
        yield from Gets(clients, goal=1).rows(rounds)
    yield Versus("4,096 clients through a barrier", lambda: barrier("ddprun", "seconds"),
                 lambda: barrier("pytorch", "seconds"), "s", goal=1, rounds=3)
    yield Limit("4,096 clients through a barrier", lambda: barrier("ddprun", "seconds"), "s", at_most=2, rounds=1)
    yield Limit("store memory a connection", lambda: barrier("ddprun", "bytes_per_connection"), "bytes", at_most=10240,
                rounds=1)
