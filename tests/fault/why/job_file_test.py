#!/usr/bin/env python3
"""A job file whose rank does not get on is ended by /hang_timeout_s, and its default leaves all others alone.

job_file_test.py BIN
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from tests.support.patience import patient  # noqa: E402

JOB = {"model": {"type": "mlp"}, "data": {"type": "synthetic", "train_samples": 1000, "test_samples": 100},
       "train": {"epochs": 100000, "batch_size": 50}, "optimizer": {"learning_rate": 0.01}, "device": "cpu"}


class JobFile(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-hang-job-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "job.json").write_text(json.dumps(JOB))

    def start(self, *flags):
        job = subprocess.Popen([BIN / "ddprun", "--nproc-per-node", "2", "--log-dir", self.folder / "logs", *flags, "job.json"],
                               cwd=self.folder, env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        said = ""
        while not re.search(r"(?m)^epoch 2/", said):
            line = job.stdout.readline()
            self.assertTrue(line, said)
            said += line
        return job

    def stop_rank_1(self, job):
        jobs = json.loads(subprocess.run([BIN / "ddprun", "ps", "--json"], capture_output=True, text=True, check=True).stdout)
        mine = next(one for one in jobs if one["launcher_pid"] == job.pid)
        os.kill(next(worker["pid"] for worker in mine["workers"] if worker["rank"] == 1), signal.SIGSTOP)

    def check_end(self, flags, name):
        job = self.start(*flags)
        self.stop_rank_1(job)
        said = job.communicate(timeout=patient(90))[0]
        self.assertEqual(job.returncode, 137, said)
        self.assertIn(f"no progress for 2.0 s ({name}), so ddprun ended it: rank 1 is stopped by a signal", said)
        report = json.loads(next((self.folder / "logs").rglob("report.json")).read_text())
        self.assertEqual(report["root_cause"]["rank"], 1)
        self.assertIn("rank 1 is stopped", report["hang"])

    def test_the_key_ends_a_job_whose_rank_stands_still(self):
        self.check_end(["--set", "/hang_timeout_s=2"], "/hang_timeout_s")

    def test_the_flag_goes_before_the_key(self):
        self.check_end(["--set", "/hang_timeout_s=0", "--hang-timeout", "2s"], "--hang-timeout")

    def test_a_job_that_is_suspended_and_goes_on_is_left_in_peace(self):
        job = self.start("--set", "/hang_timeout_s=0", "--hang-report", "2s")
        self.stop_rank_1(job)
        said = ""
        while "kill -CONT" not in said:
            line = job.stdout.readline()
            self.assertTrue(line, said)
            said += line
        self.assertIn("rank 1 is stopped", said)
        pid = int(re.search(r"kill -CONT (\d+)", said)[1])
        os.kill(pid, signal.SIGCONT)
        while "epoch" not in (line := job.stdout.readline()):
            self.assertTrue(line)

    def test_a_rank_that_does_not_come_to_init_is_named_by_the_others_wait(self):
        os.mkfifo(self.folder / "fifo")
        (self.folder / "late.sh").write_text(f"""#!/bin/sh
if [ "$RANK" = 1 ]; then read line < fifo; fi
exec {BIN / "ddprun-worker"} "$@"
""")
        (self.folder / "late.sh").chmod(0o755)
        done = subprocess.run([BIN / "ddprun", "--nproc-per-node", "3", "--hang-timeout", "3s", "./late.sh", "job.json"], cwd=self.folder,
                              env=os.environ | {"OMP_NUM_THREADS": "1"}, text=True, capture_output=True, timeout=patient(60))
        self.assertIn("no progress for 3.0 s (--hang-timeout), so ddprun ended it: rank 1 is late", done.stderr)
        self.assertIn("wait for the other ranks to meet (ddprun::init)", done.stderr)

    def test_ten_minutes_are_the_default_and_said(self):
        done = subprocess.run([BIN / "ddprun", "--dry-run", "job.json"], cwd=self.folder, capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"(?m)^/hang_timeout_s = 600 +default$")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    BIN = pathlib.Path(sys.argv.pop(1))
    unittest.main()
