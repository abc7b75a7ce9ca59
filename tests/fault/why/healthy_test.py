#!/usr/bin/env python3
"""Jobs that are well, of many kinds, are never said to hang: --hang-report far below the time for which they are silent.

healthy_test.py DDPRUN PYTHON [--only WORD] [--seconds N] [--ranks N]
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 2  # --hang-report
SILENT_S = 6
KINDS = ["steady", "evaluates_on_rank_0", "compiles_first", "saves_a_large_checkpoint", "takes_long_steps", "waits_for_a_slow_disk",
         "loads_slowly", "downloads_on_rank_0", "all_wait_for_input", "all_sleep", "one_waits_while_the_other_prepares",
         "sleeps_unevenly", "passes_messages", "passes_messages with a time-out", "gives_work_to_a_pool", "reads_from_a_slow_server",
         "first_uses_a_group_later_on_one_rank", "evaluates_on_rank_0 without a flight recorder", "all_sleep with a time-out",
         "sleeps_unevenly with a time-out"]


def said_of(options, kind):
    """What the launcher said that it should not have."""
    name, _, rest = kind.partition(" with")
    with tempfile.TemporaryDirectory(prefix="ddprun-healthy-") as folder:
        environment = os.environ | {"PYTHON_EXEC": options.python, "OMP_NUM_THREADS": "1", "HEALTHY_FOLDER": folder}
        if "flight recorder" in rest:
            environment["TORCH_FR_BUFFER_SIZE"] = "0"
        limit = ("--hang-timeout", "1s") if "time-out" in rest else ("--hang-report", f"{LIMIT_S}s")
        command = [options.ddprun, "--nproc-per-node", str(options.ranks), *limit, str(HERE / "healthy.py"), name,
                   str(SILENT_S), str(options.seconds)]
        done = subprocess.run(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    text = done.stdout + done.stderr
    if done.returncode != 0 or text.count("well") != options.ranks:
        return f"exit code {done.returncode}\n{text[-2000:]}"
    return text if "stuck" in text or "waiting for" in text else ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ddprun")
    parser.add_argument("python")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--ranks", type=int, default=2)
    options = parser.parse_args()
    if subprocess.run([options.python, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        print("SKIPPED: needs a Python with torch (./scripts/setup.sh --with-tests)", file=sys.stderr)
        return 77
    alarms = 0
    for kind in KINDS:
        if options.only not in kind:
            continue
        said = said_of(options, kind)
        alarms += bool(said)
        print(f"{'ALARM' if said else 'quiet'}  {kind}", flush=True)
        if said:
            print("\n".join("    " + line for line in said.splitlines()), flush=True)
    print(f"false alarms: {alarms}")
    return 1 if alarms else 0


if __name__ == "__main__":
    sys.exit(main())
