"""How long until something runs: launching, the first training step, and what the launcher itself needs."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from harness import DDPRUN, PEERS, PYTHON, TORCHRUN, Limit, Versus, peer_environment, seconds_of

TITLE = "Start"
WORKERS = 8
WAIT_S = 60

JOB = {
    "model": {"type": "mlp", "hidden": [256, 128]},
    "data": {"type": "synthetic"},
    "train": {"batch_size": 64, "max_steps": 1},
    "log": {"every_steps": 1, "progress": "never"},
    "resume": "never",
}


def launch_ours():
    return seconds_of([DDPRUN, "--nproc-per-node", str(WORKERS), "/bin/true"])


def launch_peer():
    return seconds_of([TORCHRUN, "--nproc-per-node", str(WORKERS), "--no-python", "/bin/true"], env=peer_environment())


def bare_spawns():
    begin = time.perf_counter()
    pids = [os.posix_spawn("/bin/true", ["/bin/true"], os.environ) for _ in range(WORKERS)]
    for pid in pids:
        os.waitpid(pid, 0)
    return time.perf_counter() - begin


def launch_over_spawns_ms():
    floor = bare_spawns()
    return 1000 * (launch_ours() - floor)


def first_step_ours():
    """From exec of the launcher to the time stamp of the first step in metrics.jsonl."""
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job.json"
        job.write_text(json.dumps(JOB | {"output_dir": folder}))
        begin = time.time()
        seconds_of([DDPRUN, "--nproc-per-node", "2", job])
        metrics = (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()
    step = next(record for record in map(json.loads, metrics) if record.get("step") == 1)
    return step["time"] - begin


def first_step_peer():
    begin = time.time()
    done = subprocess.run([TORCHRUN, "--nproc-per-node", "2", PEERS / "first_step.py"], env=peer_environment(),
                          capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1]) - begin


def peak_memory_mb(command):
    """VmHWM of the launcher while all its workers run."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=peer_environment())
    deadline = time.monotonic() + WAIT_S
    try:
        while sleepers_below(process.pid) < WORKERS:
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{command[0]} did not start {WORKERS} workers")
            time.sleep(0.01)
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak.split()[1]) / 1024


def sleepers_below(pid):
    """How many descendants of `pid` have become /bin/sleep."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    count = 0
    try:
        for child in children.read_text().split():
            is_sleep = pathlib.Path(f"/proc/{child}/comm").read_text().strip() == "sleep"
            count += 1 if is_sleep else sleepers_below(int(child))
    except FileNotFoundError:
        pass
    return count


def memory_ours():
    return peak_memory_mb([DDPRUN, "--nproc-per-node", str(WORKERS), "/bin/sleep", "60"])


def memory_peer():
    return peak_memory_mb([PYTHON, TORCHRUN, "--nproc-per-node", str(WORKERS), "--no-python", "/bin/sleep", "60"])


def rows():
    return [
        Versus(f"launch {WORKERS} × /bin/true, whole command", launch_ours, launch_peer, "s", goal=100),
        Limit(f"the same, over {WORKERS} bare spawns", launch_over_spawns_ms, "ms", at_most=15, rounds=20),
        Versus("exec to the end of the first DDP step, 2 ranks, MLP 784-256-128-10", first_step_ours, first_step_peer,
               "s", goal=6),
        Versus(f"peak memory of the launcher, {WORKERS} workers", memory_ours, memory_peer, "MB", goal=50, rounds=3),
        Limit("the same, alone", memory_ours, "MB", at_most=12, rounds=3),
    ]
