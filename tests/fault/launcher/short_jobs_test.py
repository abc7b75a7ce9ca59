#!/usr/bin/env python3
"""Runs many jobs that end while some timer of the agent is about to ring: none may hang, none may end with another code.

usage: short_jobs_test.py DDPRUN COUNT [SEED]
"""

import concurrent.futures
import os
import random
import subprocess
import sys

PARALLEL = 4
LONGEST_MS = 300
# When something of the agent may ring during a job this short: held lines, and whatever looks around 0.1 s after the
# start. Of ten durations eight are near one of them, where the order of "ended" and "rang" is open.
TIMERS_MS = [0, 20, 50, 100, 200]
DEADLINE_S = 30


def draw_ms(dice):
    if dice.random() < 0.2:
        return dice.uniform(0, LONGEST_MS)
    timer = 100 if dice.random() < 0.5 else dice.choice(TIMERS_MS)
    return max(0.0, timer + dice.gauss(-8, 10))  # the workers begin some milliseconds after the launcher


def run(ddprun, milliseconds):
    command = [ddprun, "--nproc-per-node", "2", "--no-python", "/bin/sleep", f"{milliseconds / 1000:.4f}"]
    job = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = job.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        links = [os.path.join(f"/proc/{job.pid}/fd", fd) for fd in os.listdir(f"/proc/{job.pid}/fd")]
        held = ", ".join(sorted(os.readlink(link) for link in links))
        job.kill()
        job.communicate()
        return f"{milliseconds:.1f} ms: hung; it held {held}"
    return f"{milliseconds:.1f} ms: code {job.returncode}: {output.decode()}" if job.returncode else None


def main():
    ddprun, count = sys.argv[1], int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 32)
    dice = random.Random(seed)
    durations = [draw_ms(dice) for _ in range(count)]
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        wrong = [problem for problem in pool.map(lambda each: run(ddprun, each), durations) if problem]
    if wrong:
        sys.exit(f"seed {seed}: of {count} jobs {len(wrong)} went wrong:\n" + "\n".join(wrong))
    print(f"seed {seed}: {count} jobs ended as they should")


if __name__ == "__main__":
    main()
