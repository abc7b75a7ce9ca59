"""All-reduce over shared memory against gloo, two ranks, alternating in the same processes."""

import functools
import json
import subprocess

from harness import BUILD, Limit, Versus, busy_neighbour, peer_environment

TITLE = "All-reduce on one host, 2 ranks, float32"
RANKS = 2
ROUNDS = 5

# bytes: (name, goal for any tensor, goal for a gradient bucket, which lies in the segment)
SIZES = {
    4: ("4 B", 100, 100),
    4096: ("4 KiB", 300, 300),
    262144: ("256 KiB", 30, 200),
    1048576: ("1 MiB", 20, 80),
    4194304: ("4 MiB", 8, 40),
    33554432: ("32 MiB", 5, 15),
}


# Beside a busy loop at this nice value; the goals are those of the rows above.
NEIGHBOURS = (19, 0)
BESIDE_NEIGHBOURS = (4096, 1048576)


@functools.cache
def figures(nice=None):
    """One dictionary of microseconds per size and round, all from one run of the program."""
    command = [BUILD / "tests" / "bench_collectives", str(RANKS), str(ROUNDS)]
    with busy_neighbour(nice):
        done = subprocess.run(command, env=peer_environment(), capture_output=True, text=True, check=True)
    by_size = {size: [] for size in SIZES}
    for line in done.stdout.splitlines():
        row = json.loads(line)
        by_size[row["bytes"]].append(row)
    return by_size


def each_round(size, pick, nice=None):
    """A function that answers with the figure of the next round at each call."""
    rounds = iter(range(ROUNDS))
    return lambda: pick(figures(nice)[size][next(rounds)])


def against_gloo(size, nice=None):
    """A row for any tensor, and one for a gradient bucket."""
    name, any_goal, bucket_goal = SIZES[size]
    where = "" if nice is None else f", beside a busy loop at nice {nice}"
    for kind, goal, what in (("shm", any_goal, "any tensor"), ("bucket", bucket_goal, "gradient bucket")):
        yield Versus(
            name=f"{name}, {what}{where}",
            ours=each_round(size, lambda row, kind=kind: row[kind], nice),
            peer=each_round(size, lambda row: row["gloo"], nice),
            unit="µs",
            goal=goal,
            rounds=ROUNDS,
        )


def rows():
    result = [row for size in SIZES for row in against_gloo(size)]
    for kind, bound, what in (("shm", 20, "any tensor"), ("bucket", 50, "gradient bucket")):
        result.append(
            Limit(
                name=f"32 MiB, {what}: bytes a second, of a memcpy's on both ranks at once",
                measure=each_round(33554432, lambda row, kind=kind: 100 * row["memcpy"] / row[kind]),
                unit="%",
                at_least=bound,
                rounds=ROUNDS,
            )
        )
    result.append(
        Limit(
            name="32 MiB, gradient bucket: the time of its sums alone, with no meeting of the ranks, of the all-reduce's",
            measure=each_round(33554432, lambda row: 100 * row["sums"] / row["bucket"]),
            unit="%",
            at_least=90,
            rounds=ROUNDS,
        )
    )
    result.append(
        Limit(
            name="a rank tells `ddprun why` that a collective begins, or ends",
            measure=lambda: float(subprocess.run([BUILD / "tests" / "bench_progress"], capture_output=True, text=True, check=True).stdout),
            unit="ns",
            at_most=20,
            rounds=ROUNDS,
        )
    )
    result += [row for nice in NEIGHBOURS for size in BESIDE_NEIGHBOURS for row in against_gloo(size, nice)]
    return result
