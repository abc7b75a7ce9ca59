"""Processes that a test starts in Python: each ends with its test, and none keeps it waiting for ever."""

import os
import pathlib
import subprocess
import sys
import threading

from patience import patient

# Less than what ctest gives a test, so that the test itself says what it waited for.
LIMIT_S = patient(90)


def own(test, process, limit_s=LIMIT_S):
    """Ends `process` with `test`: killed first, then waited for, then its streams are closed. When it has lived for
    `limit_s` it is described on stderr and killed, and whoever reads a stream of it reads its end."""
    limit = threading.Timer(limit_s, lambda: (describe(process), process.kill()))
    limit.daemon = True
    limit.start()
    # Cleanups run last first.
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream:
            test.addCleanup(stream.close)
    test.addCleanup(process.wait)
    test.addCleanup(process.kill)
    test.addCleanup(limit.cancel)
    return process


def describe(process):
    """Writes to stderr what a process is doing, and who else is there."""
    folder = pathlib.Path(f"/proc/{process.pid}")
    print(f"\npid {process.pid} lives too long: {process.args}", file=sys.stderr)
    for task in sorted(folder.glob("task/*")):
        print(task.name, read(task / "comm").strip(), read(task / "wchan"), read(task / "stack"), sep="\n  ", file=sys.stderr)
    for link in sorted(folder.glob("fd/*"), key=lambda path: int(path.name)):
        print("  fd", link.name, follow(link), file=sys.stderr)
    table = subprocess.run(["ps", "-eo", "pid,ppid,sid,stat,wchan:24,etimes,args", "--forest"], capture_output=True, text=True,
                           check=False).stdout
    print("\n".join(line[:200] for line in table.splitlines() if " [" not in line), file=sys.stderr, flush=True)


def read(path):
    try:
        return path.read_text()
    except OSError as error:
        return error.strerror


def follow(link):
    try:
        return os.readlink(link)
    except OSError as error:
        return error.strerror
