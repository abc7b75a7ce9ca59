"""sampler_test.py PROGRAM: DistributedSampler and DistributedBatchSampler give Python's orders, for 1,000 random cases.

DDPRUN_SEED chooses other cases."""

import os
import random
import subprocess
import sys

from torch.utils.data import BatchSampler, DistributedSampler

CASES = 1000
FIELDS = "n world seed epoch drop_last shuffle batch_size drop_batch start_sample start_batch".split()


def a_case(draw):
    world = draw.choice([1, 2, 3, 4, 5, 7, 8, 16, 31])
    n = draw.choice([draw.randrange(3 * world), draw.randrange(1000), draw.randrange(5000), world * draw.randrange(100)])
    seed = draw.choice([0, draw.randrange(100), draw.randrange(2**32), draw.randrange(2**63)])
    case = {"n": n, "world": world, "seed": seed, "epoch": draw.choice([0, 1, draw.randrange(1000)]),
            "drop_last": draw.randrange(2), "shuffle": draw.randrange(4) > 0, "batch_size": draw.randrange(1, 70),
            "drop_batch": draw.randrange(2)}
    samples = len(sampler_of(case, 0))
    case["start_sample"] = draw.randrange(samples + 1)
    case["start_batch"] = draw.randrange(samples // case["batch_size"] + 1)
    return case


def sampler_of(case, rank):
    sampler = DistributedSampler(range(case["n"]), case["world"], rank, shuffle=bool(case["shuffle"]), seed=case["seed"],
                                 drop_last=bool(case["drop_last"]))
    sampler.set_epoch(case["epoch"])
    return sampler


def line_of(case, rank):
    """What Python gives, in the words of print_orders.cc. Python cannot resume: it leaves out what was seen."""
    sampler = sampler_of(case, rank)
    batch_sampler = BatchSampler(sampler, case["batch_size"], bool(case["drop_batch"]))
    indices, batches = list(sampler), list(batch_sampler)

    def numbers(values):
        return "".join(f"{value} " for value in values)

    def pieces(values):
        return "".join(numbers(batch) + "/ " for batch in values)

    return (f"{len(sampler)}: {numbers(indices)}| {numbers(indices[case['start_sample']:])}| "
            f"{len(batch_sampler)}: {pieces(batches)}| {pieces(batches[case['start_batch']:])}")


def main():
    seed = int(os.environ.get("DDPRUN_SEED", "20261121"))
    draw = random.Random(seed)
    cases = [a_case(draw) for _ in range(CASES)]
    asked = "".join(" ".join(str(int(case[field])) for field in FIELDS) + "\n" for case in cases)
    answer = subprocess.run([sys.argv[1]], input=asked, capture_output=True, text=True, check=True).stdout.splitlines()
    expected = [(case, rank, line_of(case, rank)) for case in cases for rank in range(case["world"])]
    assert len(answer) == len(expected), (len(answer), len(expected))
    for (case, rank, theirs), ours in zip(expected, answer):
        assert ours == theirs, f"DDPRUN_SEED={seed} {case} rank {rank}\nPython: {theirs[:400]}\nours:   {ours[:400]}"
    print(f"{CASES} cases, {len(expected)} ranks, {sum(c['n'] for c in cases)} samples: all orders are Python's")


if __name__ == "__main__":
    main()
