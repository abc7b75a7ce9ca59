#!/usr/bin/env python3
"""Breaks one rank of real torch.distributed jobs (gloo, CPU) and counts how often the launcher names it.

blame_test.py DDPRUN PYTHON [--all] [--torchrun TORCHRUN] [--only WORD] [--at-once N]

The score is printed; below 99 % the test fails, and each wrong name is printed with what the launcher said.
DDPRUN_BLAME_PYTHON names another Python for the cases that need rich, loguru, accelerate or lightning.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from counting import Verdict, count  # noqa: E402

BOUND_S = 600  # of a machine that is busy with other things
SYMPTOMS = ("all_reduce", "barrier", "broadcast", "gather_objects", "ring", "big_all_reduce", "ddp")
NEEDS = {"with_rich": "rich", "with_loguru": "loguru", "with_accelerate": "accelerate", "with_lightning": "lightning"}
# What ends at once, and what ends after the others have died of it.
AT_ONCE = ("raises", "raises_without_message", "raises_many_lines", "raises_chained", "raises_while_handling",
           "raises_group", "syntax_error", "torch_shapes", "torch_index", "asserts", "in_the_middle", "out_of_memory",
           "sys_exit", "sys_exit_words", "os_exit", "kills_itself", "segfault", "segfault_with_faulthandler", "abort",
           "terminated", "interrupted", "leaves_early", "loader_worker_killed", "loader_worker_raises", "thread_raises",
           "waits_for_a_key", "loses_its_data_server")
CLEANS_UP = ("cleans_up", "cleans_up_at_exit", "logs_and_exits", "noise_at_exit", "leaves_early_and_cleans_up",
             "waits_for_a_key", "thread_raises")
AROUND = ("recorded", "recorded_inside", "peers_exit_quietly", "peers_wrap", "with_rich", "with_loguru",
          "with_accelerate", "with_lightning")


# What starts the program and waits for it, as people's scripts do.
STARTERS = {"perl": ["perl", "-e", "exit(system(@ARGV) >> 8)"], "timeout": ["bash", "-c", 'timeout 600 "$@"; exit $?', "bash"],
            "python": [sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"]}


class Fault:
    def __init__(self, fault, culprit=1, symptom="all_reduce", around="plain", ranks=3, nap=1.0, started_by="", **environment):
        self.started_by = started_by
        self.fault, self.culprit, self.symptom, self.around, self.ranks = fault, culprit, symptom, around, ranks
        self.environment = {"BLAME_NAP": str(nap)} | environment
        self.name = f"{fault} of {culprit} in {ranks}, {symptom}, {around}, nap {nap}" + (f", started by {started_by}" if started_by else "")


def all_faults():
    """240, every kind of end with every kind of symptom, and each rank guilty in turn."""
    faults = []
    for turn, fault in enumerate(AT_ONCE):
        for offset in range(4):
            number = turn + 2 * offset
            ranks = 2 + number % 3
            faults.append(Fault(fault, number % ranks, SYMPTOMS[number % len(SYMPTOMS)], ranks=ranks))
    for turn, fault in enumerate(CLEANS_UP):
        for offset, nap in enumerate((0, 0.5, 1, 1.5, 2, 2.5)):
            number = turn + offset
            ranks = 2 + number % 3
            faults.append(Fault(fault, number % ranks, SYMPTOMS[number % len(SYMPTOMS)], ranks=ranks, nap=nap))
    for turn, around in enumerate(AROUND):
        for offset, fault in enumerate(("raises", "cleans_up_at_exit", "kills_itself", "sys_exit", "torch_shapes", "os_exit")):
            faults.append(Fault(fault, (turn + offset) % 3, around=around))
    for culprit in range(3):
        for fault in ("loses_its_data_server", "logs_a_lost_data_server", "asks_for_another_time"):
            faults.append(Fault(fault, culprit, around="one_has_left"))
        faults.append(Fault("loses_its_data_server", culprit, around="peers_fail_to_save"))
        faults.append(Fault("loses_its_data_server", culprit, around="peers_abort"))
        faults.append(Fault("loader_worker_killed", culprit, around="peers_fail_to_save"))
        faults.append(Fault("thread_raises_and_hangs", culprit, BLAME_GLOO_TIMEOUT="6"))
        faults.append(Fault("cleans_up_at_exit", culprit, around="recorded_inside", nap=5))
        for symptom in ("all_reduce", "barrier", "ddp"):
            faults.append(Fault("stands_still", culprit, symptom, BLAME_GLOO_TIMEOUT="6"))
        for starter in STARTERS:
            faults.append(Fault("stands_still", culprit, started_by=starter, BLAME_GLOO_TIMEOUT="6"))
    return faults


def few_faults():
    return [Fault("raises", 1), Fault("cleans_up", 0, nap=1), Fault("kills_itself", 1, "barrier", ranks=2),
            Fault("leaves_early_and_cleans_up", 1, nap=0.3), Fault("loader_worker_killed", 1),
            Fault("raises", 1, around="recorded_inside"), Fault("loses_its_data_server", 1, around="one_has_left", ranks=2),
            Fault("loader_worker_killed", 1, around="peers_fail_to_save", ranks=2),
            Fault("stands_still", 0, BLAME_GLOO_TIMEOUT="6"),
            Fault("stands_still", 1, started_by="perl", BLAME_GLOO_TIMEOUT="6")]


def environment_of(fault, folder):
    names = ("PATH", "LD_LIBRARY_PATH", "HOME")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return kept | {"TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"} | fault.environment


def program_of(fault):
    return [str(HERE / "faults.py"), fault.fault, str(fault.culprit), fault.symptom, fault.around]


def blame_of_ddprun(options, fault, folder, python):
    """The rank that ddprun names, its words, and how long it took."""
    program = ["--no-python", *STARTERS[fault.started_by], python, *program_of(fault)] if fault.started_by else program_of(fault)
    command = [options.ddprun, "--nproc-per-node", str(fault.ranks), "--log-dir", str(folder), "-r", "3", *program]
    began = time.monotonic()
    done = subprocess.run(command, env=environment_of(fault, folder) | {"PYTHON_EXEC": python}, capture_output=True, text=True,
                          timeout=BOUND_S, check=False)
    took = time.monotonic() - began
    (path,) = folder.glob("*/report.json")
    root = json.loads(path.read_text())["root_cause"]
    return (root["rank"] if root else None), done.stderr, took


def blame_of_torchrun(options, fault, folder, python):
    command = [options.torchrun, "--standalone", "--nproc-per-node", str(fault.ranks), "--log-dir", str(folder), "-r", "3",
               *program_of(fault)]
    began = time.monotonic()
    done = subprocess.run(command, env=environment_of(fault, folder) | {"PYTHON_EXEC": python}, capture_output=True, text=True,
                          timeout=BOUND_S, check=False)
    took = time.monotonic() - began
    found = re.search(r"Root Cause.*?rank\s*:\s*(\d+)", done.stderr, re.DOTALL)
    return (int(found.group(1)) if found else None), done.stderr, took


def imports(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def judge(options, fault, pythons):
    python = pythons[fault.around]
    with tempfile.TemporaryDirectory(prefix="ddprun-blame-") as folder:
        blame = blame_of_torchrun if options.torchrun else blame_of_ddprun
        try:
            rank, words, took = blame(options, fault, pathlib.Path(folder), python)
        except subprocess.TimeoutExpired as error:
            rank, words, took = None, f"did not end within {BOUND_S} s\n{error.stderr}", BOUND_S
        return Verdict(fault, rank == fault.culprit, f"{rank}", words, took)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ddprun")
    parser.add_argument("python")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--torchrun")
    parser.add_argument("--only", default="")
    parser.add_argument("--at-once", type=int, default=2)
    options = parser.parse_args()
    if not imports(options.python, "torch"):
        print("SKIPPED: needs a Python with torch (./scripts/setup.sh --with-tests)", file=sys.stderr)
        return 77

    other = os.environ.get("DDPRUN_BLAME_PYTHON", options.python)
    pythons = {around: options.python for around in ("plain", "one_has_left", "peers_fail_to_save", "peers_abort", *AROUND)}
    for around, module in NEEDS.items():
        pythons[around] = other if imports(other, module) else None
        if options.all and pythons[around] is None:
            print(f"left out: {around}, because {other} has no {module} (see DDPRUN_BLAME_PYTHON)", flush=True)
    faults = [f for f in (all_faults() if options.all else few_faults()) if options.only in f.name and pythons[f.around]]

    return count(faults, lambda fault: judge(options, fault, pythons), options.at_once)


if __name__ == "__main__":
    sys.exit(main())
