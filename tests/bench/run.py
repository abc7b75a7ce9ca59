#!/usr/bin/env python3
"""Runs the benchmarks named on the command line, or all of them, and prints one Markdown table for each."""

import importlib
import pathlib
import sys

import harness


def known_parts():
    return sorted(path.stem.removeprefix("bench_") for path in pathlib.Path(__file__).parent.glob("bench_*.py"))


def main():
    parts = known_parts()
    chosen = sys.argv[1:] or parts
    for name in chosen:
        if name not in parts:
            sys.exit(f"there is no benchmark {name}; there are {', '.join(parts)}")
    print(f"Machine: {harness.machine()}")
    for name in chosen:
        part = importlib.import_module(f"bench_{name}")
        harness.run_part(part.TITLE, part.rows())


if __name__ == "__main__":
    main()
