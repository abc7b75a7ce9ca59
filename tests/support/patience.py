"""How long a test may wait."""

import os

FACTOR = int(os.environ.get("DDPRUN_PATIENCE", "1"))


def patient(seconds):
    """So many, or, of programs with sanitizers, some times as many: tests/CMakeLists.txt says how many times."""
    return seconds * FACTOR
