"""The trainer ddprun-worker and the C++ library of ddprun, for the torch beside this package."""

import os

__all__ = ["cmake_dir", "example"]

_HERE = os.path.dirname(os.path.abspath(__file__))


def cmake_dir():
    """What find_package(ddprun) wants as ddprun_DIR."""
    return os.path.join(_HERE, "lib", "cmake", "ddprun")


def example():
    """A job file that trains on digits, which lie beside it; it writes below the working directory."""
    return os.path.join(_HERE, "example", "digits.json")
