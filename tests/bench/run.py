#!/usr/bin/env python3
"""Runs the benchmarks named on the command line, or all of them but build, which takes half an hour to an hour, and prints one Markdown
table for each. Exits with 1 if a row failed, and with 77 where no part could run."""

import argparse
import importlib
import pathlib
import sys

import harness

FAILED = 1
SKIPPED = 77
ONLY_BY_NAME = ("build",)


def known_parts():
    return sorted(path.stem.removeprefix("bench_") for path in pathlib.Path(__file__).parent.glob("bench_*.py"))


def run(name, options):
    """The exit code of this part."""
    part = importlib.import_module(f"bench_{name}")
    try:
        rows = part.rows(options.device) if name == "gpu" else part.rows()
        return 0 if harness.run_part(part.TITLE, rows) else FAILED
    except harness.LeftOut as why:
        print(f"\nSKIPPED: benchmark {name}: {why}", flush=True)
        return SKIPPED
    finally:
        harness.Ranks.end_all()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(known_parts()))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"),
                        help="of gpu; cpu: tiny sizes, which try the program and say nothing of its speed")
    options = parser.parse_args()
    parts = known_parts()
    for name in options.parts:
        if name not in parts:
            sys.exit(f"there is no benchmark {name}; there are {', '.join(parts)}")
    print(f"Machine: {harness.machine()}", flush=True)
    usual = [name for name in parts if name not in ONLY_BY_NAME]
    codes = {run(name, options) for name in options.parts or usual}
    sys.exit(FAILED if FAILED in codes else min(codes))


if __name__ == "__main__":
    main()
