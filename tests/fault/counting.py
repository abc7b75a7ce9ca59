"""Counts how often a launcher names the rank that broke: what the blame tests share."""

import concurrent.futures
import dataclasses

GOAL = 99  # %


@dataclasses.dataclass
class Verdict:
    fault: object  # has a name
    is_right: bool
    said: str  # what was named, in a few words
    words: str  # all that was printed
    took: float  # s


def count(faults, judge, at_once):
    """Judges each fault, prints what was wrong with its words, and then the score; the test's exit status."""
    right = 0
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for verdict in pool.map(judge, faults):
            right += verdict.is_right
            print(f"{'right' if verdict.is_right else 'WRONG'}  {verdict.took:5.1f} s  {verdict.fault.name}", flush=True)
            if not verdict.is_right:
                print("\n".join("    " + line for line in [f"named: {verdict.said}", *verdict.words.splitlines()[-40:]]), flush=True)
    score = 100 * right / len(faults)
    print(f"named right: {right} of {len(faults)}, {score:.1f} %")
    return 0 if score >= GOAL else 1
