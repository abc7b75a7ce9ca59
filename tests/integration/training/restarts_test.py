#!/usr/bin/env python3
"""kill -9 of a random rank, job after job: each goes on from its newest whole checkpoint at the first restart.

    restarts_test.py <folder of the binaries> [jobs per backend]
"""

import os
import pathlib
import random
import signal
import sys
import unittest

from jobs import JobTest

JOBS = 3


class Restarts(JobTest):
    def test_every_kill_is_survived_at_the_first_restart(self):
        for backend in ("gloo", "shm"):
            for number in range(JOBS):
                with self.subTest(backend=backend, number=number):
                    self.survive(backend, number)

    def survive(self, backend, number):
        output = f"{backend}-{number}"
        job = self.job_file({"backend": backend, "output_dir": output, "train": {"epochs": 10**6}, "checkpoint": {"every_steps": 3}})
        process = self.start(job, flags=("--max-restarts", "1"))
        self.wait_for_line(process, "epoch")
        os.kill(random.Random(output).choice(list(self.workers().values())), signal.SIGKILL)
        self.wait_for_line(process, "resumed from")
        self.wait_for_line(process, "epoch")
        process.terminate()
        self.finish(process, expect=128 + signal.SIGTERM)
        starts = self.metrics("start", output)
        self.assertEqual([record["restart_count"] for record in starts], [0, 1])
        self.assertGreaterEqual(starts[1]["step"], 10)
        self.assertEqual(self.processes(), [])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        JOBS = int(sys.argv.pop(1))
    unittest.main(verbosity=2)
