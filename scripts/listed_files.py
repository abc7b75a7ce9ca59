#!/usr/bin/env python3
"""The files of the tree, for what checks them; run, it prints those that fit: scripts/listed_files.py [PATTERN…]."""

import fnmatch
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What .gitignore leaves out, for a tree that came as an archive.
LEFT_OUT = {".cache", ".git", ".venv", "__pycache__", "build", "out", "runs"}


def all_files():
    git = ["git", "-c", "safe.directory=*", "ls-files", "-zco", "--exclude-standard"]
    if (ROOT / ".git").exists():
        listed = subprocess.run(git, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        return [name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    names = []
    for folder, below, files in os.walk(ROOT):
        below[:] = [name for name in below if name not in LEFT_OUT]
        names += [str((pathlib.Path(folder) / name).relative_to(ROOT)) for name in files]
    return names


def listed_files(*patterns):
    """Their paths from ROOT, sorted; a * stands for folders, too."""
    return sorted(name for name in all_files() if not patterns or any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns))


if __name__ == "__main__":
    print(*listed_files(*sys.argv[1:]), sep="\n")
