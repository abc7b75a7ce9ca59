"""python -m ddprun: the program ddprun, whose workers run under this very Python.

`--example` alone prints the path of a script to try it with, `--cmake-dir` alone says where the C++ library is to be had.
"""

import os
import sys

from ddprun import find_binary


def main():
    if sys.argv[1:] == ["--example"]:
        print(os.path.join(os.path.dirname(os.path.abspath(__file__)), "example.py"))
        return
    if sys.argv[1:] == ["--cmake-dir"]:
        sys.exit("ddprun: this package has the launcher alone; build and install the C++ library from a clone of ddprun: "
                 "./scripts/setup.sh, cmake --preset release, cmake --build --preset release, cmake --install build/release")
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    program = find_binary()
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
