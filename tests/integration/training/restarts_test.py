#!/usr/bin/env python3
"""kill -9 of a random rank, again and again: every time the job goes on from its newest whole checkpoint.

    restarts_test.py <folder of the binaries> [kills]
"""

import os
import pathlib
import random
import signal
import sys
import unittest

from jobs import JobTest

KILLS = 4


class Restarts(JobTest):
    def test_every_kill_is_survived_at_the_first_restart(self):
        for backend in ("gloo", "shm"):
            with self.subTest(backend=backend):
                self.survive(backend)

    def survive(self, backend):
        job = self.job_file({"backend": backend, "output_dir": backend, "train": {"epochs": 10**6}, "checkpoint": {"every_steps": 3}})
        process = self.start(job, flags=("--max-restarts", str(KILLS)))
        choice = random.Random(backend)
        for _ in range(KILLS):
            self.wait_for_line(process, "epoch")
            os.kill(choice.choice(list(self.workers().values())), signal.SIGKILL)
            self.wait_for_line(process, "resumed from")
        self.wait_for_line(process, "epoch")
        process.terminate()
        self.finish(process, expect=128 + signal.SIGTERM)
        starts = self.metrics("start", backend)
        self.assertEqual([record["restart_count"] for record in starts], list(range(KILLS + 1)))
        steps = [record["step"] for record in starts]
        self.assertEqual(steps, sorted(steps))
        self.assertEqual(self.processes(), [])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        KILLS = int(sys.argv.pop(1))
    unittest.main(verbosity=2)
