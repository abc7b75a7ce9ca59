"""A test that cannot run here."""

import functools
import pathlib
import sys
import unittest


def skip(reason):
    """Leaves the test, with a line that scripts/test.sh lists at its end: unittest may be in the middle of one of its own."""
    print(f"\nSKIPPED: {reason}", file=sys.stderr)
    raise unittest.SkipTest(reason)


def skip_unless(possible, reason):
    """For a test or a class of tests: unittest's own decorator says nothing of the reason."""
    def leave(_):
        skip(reason)

    def decorate(item):
        if possible:
            return item
        if not isinstance(item, type):
            return functools.wraps(item)(leave)
        item.setUpClass, item.setUp = classmethod(lambda _: None), leave
        return item
    return decorate


def has_thread_sanitizer(program):
    """It does all ten times slower, and has a thread and files of its own."""
    return b"libtsan" in pathlib.Path(program).read_bytes()
