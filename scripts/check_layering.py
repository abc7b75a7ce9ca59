#!/usr/bin/env python3
"""Holds every #include of the project against the arrows of ARCHITECTURE.md, and prints each that is not one of them.

A folder may include itself and what its row names; the row of the longest matching folder counts. System and
third-party headers are free, but for libtorch's, which stay in worker/. No way along the rows leads back to where it
began: there are no circles of folders.
"""

import re
import sys

from listed_files import ROOT, listed_files

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<((?:ddprun|torch|ATen|c10)/[^>]+)>)', re.MULTILINE)

ALLOWED = {
    "configs": [],
    "rendezvous/base": [],
    "rendezvous/config": ["rendezvous/base", "configs"],
    "rendezvous/store": ["rendezvous/base"],
    "rendezvous/membership": ["rendezvous/base", "rendezvous/store"],
    "launcher": ["rendezvous", "configs"],
    "launcher/text": ["rendezvous/base"],
    "launcher/cli": ["rendezvous", "launcher/text"],
    "launcher/plan": ["rendezvous", "launcher/cli", "launcher/text"],
    "launcher/process": ["rendezvous/base", "launcher/text"],
    "launcher/output": ["rendezvous/base", "launcher/process", "launcher/plan", "launcher/text"],
    "launcher/cleanup": ["rendezvous/base", "launcher/output", "launcher/process", "launcher/plan", "launcher/text"],
    "launcher/report": ["rendezvous/base", "rendezvous/membership", "launcher/output", "launcher/process", "launcher/plan", "launcher/text"],
    "launcher/agent": ["rendezvous", "launcher/report", "launcher/cleanup", "launcher/output", "launcher/process", "launcher/plan",
                       "launcher/text"],
    "launcher/why/facts": ["rendezvous/base", "launcher/text"],
    "launcher/why/look": ["rendezvous/base", "launcher/why/facts", "launcher/report", "launcher/process", "launcher/text"],
    "launcher/why/verdict": ["rendezvous/base", "launcher/why/facts", "launcher/why/look", "launcher/report", "launcher/text"],
    "launcher/why/desk": ["rendezvous/base", "launcher/why/facts", "launcher/why/look", "launcher/report", "launcher/process",
                          "launcher/text"],
    "launcher/why/hang": ["rendezvous/base", "launcher/why/facts", "launcher/why/look", "launcher/why/verdict", "launcher/why/desk",
                          "launcher/report", "launcher/process", "launcher/plan"],
    "launcher/watch": ["rendezvous/base", "launcher/why", "launcher/process", "launcher/text", "launcher/report", "launcher/output/pty.h"],
    "launcher/doctor": ["rendezvous", "launcher/plan", "launcher/process", "launcher/cli", "launcher/text"],
    "launcher/commands": ["rendezvous", "launcher/agent", "launcher/watch", "launcher/why", "launcher/report", "launcher/output",
                          "launcher/process",
                          "launcher/plan", "launcher/cli", "launcher/text"],
    "worker/include": ["rendezvous/base/error_code.h"],  # installed together; beyond that they stand on their own
    "worker/runtime": ["worker/include", "rendezvous/base"],
    "worker/runtime/libtorch": [],
    "worker/runtime/comm/roll_call": ["worker/include", "rendezvous/base"],
    "worker/runtime/comm/backend": ["worker/include", "rendezvous/base"],
    "worker/runtime/comm/shm": ["worker/include", "worker/runtime/comm/roll_call", "worker/runtime/comm/backend", "rendezvous/base"],
    "worker/runtime/comm/gpu": ["worker/include", "worker/runtime/comm/backend", "rendezvous/base"],
    "worker/runtime/comm": ["worker/include", "worker/runtime/libtorch", "worker/runtime/throw_error.h", "rendezvous/base"],
    "worker/runtime/checkpoint": ["worker/include", "worker/runtime/throw_error.h", "rendezvous/base"],
    "worker/runtime/ddp": ["worker/include", "worker/runtime/comm/backend", "worker/runtime/libtorch", "rendezvous/base"],
    "worker/runtime/data_parallel": ["worker/include", "worker/runtime/comm/gpu", "worker/runtime/libtorch", "rendezvous/base"],
    "worker/runtime/process": ["worker/include", "worker/runtime/comm", "worker/runtime/throw_error.h", "worker/runtime/checkpoint/unfinished.h", "rendezvous/base"],
    "worker/runtime/rpc": ["worker/include", "worker/runtime/comm", "worker/runtime/throw_error.h", "rendezvous/base"],
    "worker/runtime/trainer": ["worker/include", "rendezvous/base"],
    "worker/transforms": ["worker/include"],
    "worker/data": ["worker/include", "worker/runtime", "worker/transforms", "rendezvous/base"],
    "worker/models": ["worker/include", "worker/runtime", "rendezvous/base"],
    "worker/tasks": ["worker/include", "worker/runtime", "rendezvous/base"],
    "worker/training/state": ["worker/include", "rendezvous/base"],
    "worker/training/ranks": ["worker/include", "worker/runtime", "worker/training/state"],
    "worker/training/parts": ["worker/include", "worker/data", "worker/models", "worker/tasks", "worker/training/state", "rendezvous/base"],
    "worker/training/batches": ["worker/include", "worker/data", "worker/tasks", "worker/training/ranks"],
    "worker/training/observers": ["worker/include", "worker/training/state", "rendezvous/base"],
    "worker/training/step": ["worker/include", "worker/runtime", "worker/models", "worker/tasks", "worker/training/state",
                             "worker/training/ranks", "worker/training/parts", "rendezvous/base"],
    "worker/training/resume": ["worker/include", "worker/runtime", "worker/training/state", "worker/training/parts",
                               "worker/training/observers/console.h", "rendezvous/base"],
    "worker/training": ["worker/include", "worker/runtime", "worker/data", "worker/models", "worker/tasks", "rendezvous/base",
                        "rendezvous/config"],
    "worker/commands": ["worker/include", "worker/runtime", "worker/data", "worker/models", "worker/tasks", "worker/training",
                        "worker/transforms", "rendezvous/base", "rendezvous/config", "configs"],
    "worker": ["worker", "rendezvous/base", "rendezvous/config"],
}


def row_of(path):
    folders = [folder for folder in ALLOWED if path.startswith(folder + "/")]
    return max(folders, key=len, default=None)


def target_of(quoted, angled):
    return quoted or ("worker/include/" + angled if angled.startswith("ddprun/") else angled)


def is_allowed(path, row, target):
    if target.startswith(("torch/", "ATen/", "c10/")):
        return path.startswith("worker/")
    if not (ROOT / target).exists():
        return True  # made by the build, or not ours
    return any(target == place or target.startswith(place + "/") for place in [row, *ALLOWED[row]])


def rows_behind(row, place):
    """Where the arrow from `row` to `place` leads: to a folder and the folders in it, or to that of a file."""
    if not place.endswith(".h"):
        return [other for other in ALLOWED if other == place or other.startswith(place + "/")]
    above = row_of(place)
    return [] if row.startswith(above + "/") else [above]  # a file beside the row's folder knows none of its rooms


def circle_from(row, way=()):
    """The way along the arrows from `row` to a row that is on it already; none: there is none."""
    if row in way:
        return [*way[way.index(row):], row]
    for place in [row, *ALLOWED[row]]:
        for other in rows_behind(row, place):
            if other != row and (circle := circle_from(other, (*way, row))):
                return circle
    return None


def main():
    wrong = ["a circle of folders: " + " -> ".join(circle) for row in ALLOWED if (circle := circle_from(row))][:1]
    for path in listed_files("*.h", "*.cc", "*.cc.in"):
        row = row_of(path)
        if row is None:
            continue
        for quoted, angled in INCLUDE.findall((ROOT / path).read_text()):
            target = target_of(quoted, angled)
            if not is_allowed(path, row, target):
                allowed = ", ".join(ALLOWED[row]) or "nothing but itself"
                wrong.append(f"{path} includes {target}: {row} may include {allowed}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
