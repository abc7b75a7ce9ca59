"""A test that cannot run here."""

import pathlib
import sys
import unittest


def skip(reason):
    """Leaves the test, with a line that scripts/test.sh lists at its end: unittest may be in the middle of one of its own."""
    print(f"\nSKIPPED: {reason}", file=sys.stderr)
    raise unittest.SkipTest(reason)


def has_thread_sanitizer(program):
    """It does all ten times slower, and has a thread and files of its own."""
    return b"libtsan" in pathlib.Path(program).read_bytes()
