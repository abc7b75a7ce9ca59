#!/usr/bin/env python3
"""What it costs to look at a job of eight ranks that is well: CPU seconds, of one core, of everything that looks.

cost_test.py DDPRUN PYTHON [--seconds N]
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

RANKS = 8
MOST_PERCENT = 0.5
JOB = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(10))
print("rank", dist.get_rank(), "is up", flush=True)
while True:
    time.sleep(1)
    dist.all_reduce(torch.ones(10))
"""
TICKS = os.sysconf("SC_CLK_TCK")


def stat_of(pid):
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    name = text[text.index("(") + 1:text.rindex(")")]
    return name, text[text.rindex(")") + 2:].split()


def cpu_of(pid):
    """Its own, and of the children that it has waited for."""
    return sum(int(ticks) for ticks in stat_of(pid)[1][11:15]) / TICKS


def children_of(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def lookers_of(job):
    """The launcher, and what it has started beside the workers."""
    named = {"launcher": [job.pid]}
    for child in children_of(job.pid):
        name = stat_of(child)[0]
        if name in ("hang-watch", "job-guard") or "metrics" in name:
            named.setdefault(name, []).append(child)
    return named


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ddprun")
    parser.add_argument("python")
    parser.add_argument("--seconds", type=int, default=300)
    options = parser.parse_args()
    if subprocess.run([options.python, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        print("SKIPPED: needs a Python with torch (./scripts/setup.sh --with-tests)", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory(prefix="ddprun-cost-") as folder:
        script = pathlib.Path(folder, "train.py")
        script.write_text(JOB)
        job = subprocess.Popen([options.ddprun, "--nproc-per-node", str(RANKS), "--metrics", "0", str(script)], cwd=folder,
                               env=os.environ | {"PYTHON_EXEC": options.python, "OMP_NUM_THREADS": "1"}, text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        watch = None
        try:
            up, address = 0, ""
            while up < RANKS:
                line = job.stdout.readline()
                if not line:
                    sys.exit("the job has ended")
                up += "is up" in line
                if "metrics at " in line:
                    address = line.split("metrics at ")[1].split()[0]
            # The watch for hangs begins after half of its first limit, a minute.
            while "hang-watch" not in lookers_of(job):
                time.sleep(1)
            watch = subprocess.Popen([options.ddprun, "ps", "--watch"], stdout=subprocess.DEVNULL)
            time.sleep(5)
            before = {name: sum(map(cpu_of, pids)) for name, pids in lookers_of(job).items()}
            watch_before, began = cpu_of(watch.pid), time.monotonic()
            while time.monotonic() - began < options.seconds:
                urllib.request.urlopen(address, timeout=10).read()
                time.sleep(15)  # as Prometheus does
            after = {name: sum(map(cpu_of, pids)) for name, pids in lookers_of(job).items()}
            spent = {name: after[name] - before.get(name, 0) for name in after}
            spent["ps --watch"] = cpu_of(watch.pid) - watch_before
            took = time.monotonic() - began
        finally:
            if watch is not None:
                watch.kill()
                watch.wait()
            job.kill()
            job.stdout.close()
            job.wait()
    bad = 0
    for name, seconds in sorted(spent.items()):
        percent = seconds / took * 100
        bad += percent >= MOST_PERCENT
        print(f"{name:<12} {seconds:6.2f} s of CPU in {took:.0f} s: {percent:.3f} % of a core", flush=True)
    print(f"all of the job's own: {sum(v for k, v in spent.items() if k != 'ps --watch') / took * 100:.3f} %")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
