"""Remote calls of a function that does nothing, from one rank to another on one host: against torch.distributed.rpc. Both
programs start once and take turns; the one that does not measure is stopped."""

import functools

from harness import BUILD, PEERS, PYTHON, Ranks, Versus

TITLE = "Remote calls, 2 ranks on one host"

# bytes of a tensor that goes along: (name, calls in a turn, goal)
SIZES = {
    0: ("empty", 2000, 3),
    4096: ("4 KiB", 2000, 1),
    1 << 20: ("1 MiB", 300, 1),
    64 << 20: ("64 MiB", 16, 1),
}
FLIGHTS = (1, 8)


@functools.cache
def ours():
    return Ranks(BUILD / "tests" / "rpc_bench", ranks=2)


@functools.cache
def peer():
    return Ranks(PYTHON, PEERS / "rpc_calls.py", ranks=2)


def calls_a_second(measured, other, *words):
    other.set_aside()
    return float(measured.answer(*words))


def rows():
    return [
        Versus(
            name=f"{name}, {flight} in flight",
            ours=lambda size=size, flight=flight, calls=calls: calls_a_second(ours(), peer(), size, flight, calls),
            peer=lambda size=size, flight=flight, calls=calls: calls_a_second(peer(), ours(), size, flight, calls),
            unit="calls/s",
            goal=goal,
            higher_is_better=True,
            rounds=7,
        )
        for size, (name, calls, goal) in SIZES.items()
        for flight in FLIGHTS
    ]
