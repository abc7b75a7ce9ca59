#!/usr/bin/env python3
"""What the launcher says and does by itself of jobs of libddprun over shared memory.

cpp_limits_test.py DDPRUN HANG_PROGRAM
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from tests.support.patience import patient  # noqa: E402


class Limits(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-hang-cpp-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *words):
        """The FIFO by which the program says where it is has a reader that never reads."""
        os.mkfifo(self.folder / "ready")
        guard = os.open(self.folder / "ready", os.O_RDWR)
        self.addCleanup(os.close, guard)
        environment = os.environ | {"WHY_READY": str(self.folder / "ready"), "WHY_FOLDER": str(self.folder), "OMP_NUM_THREADS": "1"}
        job = subprocess.Popen([DDPRUN, "--nproc-per-node", "2", "--backend", "shm", "--log-dir", self.folder / "logs",
                                "--shutdown-timeout", "1s", "--events", self.folder / "events", *words],
                               env=environment, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.terminate)
        return job

    def events(self, kind):
        file = self.folder / "events"
        lines = file.read_text().splitlines() if file.exists() else []
        return [event for event in map(json.loads, lines) if event["event"] == kind]

    def report(self):
        return json.loads(next((self.folder / "logs").rglob("report.json")).read_text())

    def test_a_rank_that_computes_for_ever_is_ended_and_named(self):
        job = self.start("--hang-timeout", "3s", PROGRAM, "loops_in_cpp", "1")
        said = job.communicate(timeout=patient(60))[0]
        self.assertEqual(job.returncode, 137, said)
        self.assertIn("no progress for 3.0 s (--hang-timeout), so ddprun ended it: rank 1 is late: it has not entered all_reduce #6", said)
        hang, = self.events("hang")
        self.assertEqual((hang["guilty"], hang["ends"]), ([1], True))
        self.assertEqual(self.report()["root_cause"]["rank"], 1)

    def test_a_rank_that_is_late_again_and_again_is_told_once(self):
        job = self.start("--hang-report", "2s", PROGRAM, "slow", "1")
        end = time.monotonic() + patient(60)
        while not self.events("straggler"):
            self.assertIsNone(job.poll())
            self.assertLess(time.monotonic(), end)
            time.sleep(0.2)
        time.sleep(2)  # some more looks
        straggler, = self.events("straggler")
        self.assertEqual(straggler["rank"], 1)
        self.assertGreater(straggler["late_ns"], 200_000_000)
        self.assertGreater(straggler["share"], 0.5)
        self.assertEqual(self.events("hang"), [])
        job.terminate()
        job.communicate(timeout=patient(30))
        self.assertEqual(self.report()["straggler"]["rank"], 1)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    PROGRAM, DDPRUN = sys.argv.pop(2), sys.argv.pop(1)
    unittest.main()
