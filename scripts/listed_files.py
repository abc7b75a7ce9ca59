#!/usr/bin/env python3
"""The files of the tree, for what checks them; run, it prints those that fit, each with a NUL behind it:
scripts/listed_files.py [PATTERN…]."""

import fnmatch
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What .gitignore leaves out, for a tree that came as an archive.
LEFT_OUT = {ROOT / name for name in (".cache", ".git", ".venv", "build", "out", "runs")}


def listed_by_git():
    """None: this is no checkout, or git cannot read it."""
    if not (ROOT / ".git").exists():
        return None
    git = ["git", "-c", "safe.directory=*", "ls-files", "-zco", "--exclude-standard"]
    try:
        done = subprocess.run(git, cwd=ROOT, check=False, capture_output=True)
    except FileNotFoundError:
        return None
    return os.fsdecode(done.stdout).split("\0")[:-1] if done.returncode == 0 else None


def walked():
    for folder, below, files in os.walk(ROOT):
        for names in (below, files):  # a .git is a file in a worktree
            names[:] = [name for name in names if name != "__pycache__" and pathlib.Path(folder, name) not in LEFT_OUT]
        yield from (str(pathlib.Path(folder, name).relative_to(ROOT)) for name in files)


def all_files():
    listed = listed_by_git()
    return [name for name in (walked() if listed is None else listed) if (ROOT / name).is_file()]


def listed_files(*patterns):
    """Their paths from ROOT, sorted; a * stands for folders, too."""
    return sorted(name for name in all_files() if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))


if __name__ == "__main__":
    for listed in listed_files(*sys.argv[1:]):
        sys.stdout.buffer.write(os.fsencode(listed) + b"\0")
