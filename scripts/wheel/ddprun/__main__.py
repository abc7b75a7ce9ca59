"""python -m ddprun: the program ddprun, whose workers run under this very Python.

`--example` alone prints the path of something to try it with: a job file where ddprun[worker] is installed, else a script.
`--launch-dir` alone prints the folder of ssh.sh, slurm.sbatch and kubernetes.yaml, which start jobs on several machines.
`--cmake-dir` alone prints where find_package(ddprun) finds the C++ library of ddprun[worker], or says where else it is to be had.
"""

import os
import sys

from ddprun import find_binary


def main():
    try:
        import ddprun_worker as worker
    except ImportError:
        worker = None
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.argv[1:] == ["--example"]:
        print(worker.example() if worker else os.path.join(here, "example.py"))
        return
    if sys.argv[1:] == ["--launch-dir"]:
        print(os.path.join(here, "launch"))
        return
    if sys.argv[1:] == ["--cmake-dir"]:
        if worker is None:
            sys.exit("ddprun: this package has the launcher alone; install ddprun[worker], or build and install the C++ library from "
                     "a clone of ddprun: ./scripts/setup.sh, cmake --preset release -DDDPRUN_BUILD_TESTS=OFF, cmake --build --preset release, "
                     "cmake --install build/release")
        print(worker.cmake_dir())
        return
    os.environ.setdefault("PYTHON_EXEC", sys.executable)
    try:
        program = find_binary()
    except FileNotFoundError as error:
        print(f"ddprun: {error}", file=sys.stderr)
        sys.exit(127)
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
