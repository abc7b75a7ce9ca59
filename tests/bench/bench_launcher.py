"""The launcher on one node: start, size, what it costs while it runs, and how soon a killed job is at work again."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from bench_start import JOB, WAIT_S, WORKERS, launch_ours, launch_over_spawns_ms, launch_peer, memory_ours, memory_peer
from harness import DDPRUN, PYTHON, TORCHRUN, Limit, Versus, peer_environment, seconds_of

TITLE = "Launcher"
MANY = 1000
OBSERVED_S = 3
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
PACED_WRITER = pathlib.Path(__file__).resolve().parent / "launcher" / "paced_writer.py"


def wait_until(holds, what):
    deadline = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > deadline:
            sys.exit(f"{what} did not happen within {WAIT_S} s")
        time.sleep(0.002)


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def name(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except FileNotFoundError:
        return ""


def children_named(pid, wanted):
    return [child for child in children(pid) if name(child) == wanted]


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def stop(process):
    process.send_signal(signal.SIGTERM)
    process.wait()


def help_ours_ms():
    return 1000 * seconds_of([DDPRUN, "--help"])


def help_peer_ms():
    return 1000 * seconds_of([TORCHRUN, "--help"])


def launch_many():
    return seconds_of([DDPRUN, "--nproc-per-node", str(MANY), "/bin/true"])


def memory_of_many_mb():
    process = subprocess.Popen([DDPRUN, "--nproc-per-node", str(MANY), "/bin/sleep", "60"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: len(children_named(process.pid, "sleep")) == MANY, f"the start of {MANY} workers")
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    finally:
        stop(process)
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024


def launcher_cpu_percent():
    """CPU time of the launcher while two workers compute, in percent of one core."""
    process = subprocess.Popen([DDPRUN, "--nproc-per-node", "2", "/bin/sh", "-c", "while :; do :; done"])
    try:
        wait_until(lambda: len(children_named(process.pid, "sh")) == 2, "the start of 2 workers")
        before = cpu_seconds(process.pid)
        time.sleep(OBSERVED_S)
        return 100 * (cpu_seconds(process.pid) - before) / OBSERVED_S
    finally:
        stop(process)


def tee_cores():
    """Cores the launcher uses while a worker writes 100 MB/s through --tee, to a file and to a console that is read."""
    with tempfile.TemporaryDirectory() as folder:
        reader = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        process = subprocess.Popen([DDPRUN, "--log-dir", folder, "--tee", "1", "--no-python", PYTHON, PACED_WRITER, "100"],
                                   stdout=reader.stdin, stderr=subprocess.DEVNULL)
        reader.stdin.close()

        def written():
            return sum(file.stat().st_size for file in pathlib.Path(folder).rglob("stdout.log"))

        try:
            wait_until(lambda: written() > 0, "the first output")
            before, size, begin = cpu_seconds(process.pid), written(), time.monotonic()
            time.sleep(OBSERVED_S)
            cpu, megabytes, wall = cpu_seconds(process.pid) - before, (written() - size) / 1e6, time.monotonic() - begin
        finally:
            stop(process)
            reader.wait()
    if megabytes / wall < 90:
        print(f"only {megabytes / wall:.0f} MB/s were written; this machine is too busy for the row", file=sys.stderr)
    return cpu / wall * (100 / (megabytes / wall))


def recovery():
    """kill -9 of one of two ranks of a training job to the first step of the next generation."""
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job.json"
        job.write_text(json.dumps(JOB | {"output_dir": folder, "train": {"batch_size": 64, "epochs": 100000}}))
        metrics = pathlib.Path(folder) / "metrics.jsonl"

        def first_step(restart_count):
            is_there = False
            for line in metrics.read_text().splitlines() if metrics.exists() else []:
                if not line.endswith("}"):
                    continue
                record = json.loads(line)
                if record.get("event") == "start":
                    is_there = record["restart_count"] == restart_count
                elif is_there and record.get("event") == "step":
                    return record["time"]
            return None

        process = subprocess.Popen([DDPRUN, "--nproc-per-node", "2", "--max-restarts", "3", job],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: first_step(0), "the first step")
            victim = children_named(process.pid, "ddprun-worker")[-1]
            killed = time.time()
            os.kill(victim, signal.SIGKILL)
            wait_until(lambda: first_step(1), "the first step after the restart")
            return first_step(1) - killed
        finally:
            stop(process)


def rows():
    return [
        Versus(f"launch {WORKERS} × /bin/true, whole command", launch_ours, launch_peer, "s", goal=100),
        Limit(f"the same, over {WORKERS} bare spawns", launch_over_spawns_ms, "ms", at_most=10, rounds=20),
        Versus("--help", help_ours_ms, help_peer_ms, "ms", goal=100, rounds=3),
        Limit("the same, alone", help_ours_ms, "ms", at_most=5, rounds=20),
        Limit(f"launch {MANY} × /bin/true", launch_many, "s", at_most=2, rounds=3),
        Versus(f"peak memory, {WORKERS} workers", memory_ours, memory_peer, "MB", goal=50, rounds=1),
        Limit("the same, alone", memory_ours, "MB", at_most=12, rounds=3),
        Limit(f"peak memory, {MANY} workers", memory_of_many_mb, "MB", at_most=40, rounds=1),
        Limit("kill -9 of a rank to the first step of the next generation, 2 ranks (torchrun: 2.4 s when it recovers)",
              recovery, "s", at_most=0.6, rounds=5),
        Limit("CPU of the launcher while workers compute", launcher_cpu_percent, "%", at_most=1, rounds=1),
        Limit("CPU of the launcher at 100 MB/s through --tee", tee_cores, "cores", at_most=0.5, rounds=1),
    ]
