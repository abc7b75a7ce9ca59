"""The store beside PyTorch's own (libuv) server: the same stock c10d::TCPStore clients, one server after the other.

A get of that client is two requests, each a round trip through the kernel's TCP. On a machine that server and clients
share, most of its time is the clients' and the kernel's: the rows on CPU time say what is left to a server.
"""

import collections
import functools
import json
import os
import subprocess
import sys

from harness import BUILD, Limit, Versus

TITLE = "Store"
PROGRAM = BUILD / "tests" / "store_bench"
CORES = len(os.sched_getaffinity(0))


def measure(what, server, clients, seconds):
    command = [PROGRAM, what, "--server", server, "--clients", str(clients), "--seconds", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


class Gets:
    """All rows of one number of clients come from the same measurements; the later rows take what the first one left."""

    def __init__(self, clients, seconds):
        self.clients = clients
        self.seconds = seconds
        self.results = {"ddprun": collections.deque(), "pytorch": collections.deque()}

    def rate(self, server):
        result = measure("gets", server, self.clients, self.seconds)
        self.results[server].append(result)
        return result["gets_per_second"]

    def next(self, server, figure):
        """The figure of each round in turn."""
        self.results[server].rotate(-1)
        return self.results[server][-1][figure]

    def most_gain(self):
        """How many times faster gets could be, for both servers alike, with a server that costs nothing."""
        return CORES / (CORES - self.next("ddprun", "server_cores"))

    def rows(self, rounds):
        name = f"store get, {self.clients:,} client{'s' if self.clients > 1 else ''}"
        yield Versus(name, lambda: self.rate("ddprun"), lambda: self.rate("pytorch"), "/s", goal=2, higher_is_better=True,
                     rounds=rounds)
        for what, figure, goal in (("p99", "p99_us", 2), ("CPU of the server a get", "server_cpu_us", 1)):
            yield Versus(f"{name}: {what}", functools.partial(self.next, "ddprun", figure),
                         functools.partial(self.next, "pytorch", figure), "µs", goal=goal, rounds=rounds)


def barrier(server):
    return measure("barrier", server, 4096, 1)


def rows():
    for clients, seconds in ((1, 1), (64, 2), (512, 2), (4096, 5)):
        gets = Gets(clients, seconds)
        yield from gets.rows(rounds=3)
        if clients == 64:
            yield Versus("the same: outside the kernel", lambda g=gets: g.next("ddprun", "own_code_us"),
                         lambda g=gets: g.next("pytorch", "own_code_us"), "µs", goal=2, rounds=3)
            yield Limit("the same: what a server that costs nothing would gain", gets.most_gain, "×", at_least=2, rounds=3)
    passed = [barrier("ddprun") for _ in range(2)]
    figures = iter(passed)
    yield Versus("4,096 clients through a barrier", lambda: next(figures)["seconds"], lambda: barrier("pytorch")["seconds"],
                 "s", goal=1, rounds=2)
    yield Limit("the same, alone", lambda: passed[0]["seconds"], "s", at_most=2, rounds=1)
    yield Limit("store memory a connection", lambda: passed[0]["bytes_per_connection"], "bytes", at_most=10240, rounds=1)
