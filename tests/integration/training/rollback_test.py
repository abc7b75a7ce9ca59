#!/usr/bin/env python3
"""A loss that is no finite number sends a job back to its newest checkpoint."""

import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

import struct

from jobs import BOUND_S, JobTest


def write_npy(path, shape, values):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values))


class Rollback(JobTest):
    def job(self, changes=None, broken=(7,)):
        """Regression whose samples `broken` have targets whose squares no float32 holds: each epoch meets them once."""
        for split, count in (("train", 64), ("test", 16)):
            x = [((i * 37) % 101) / 50 - 1 for i in range(2 * count)]
            y = [x[2 * i] - x[2 * i + 1] for i in range(count)]
            if split == "train":
                for index in broken:
                    y[index] = 1e30
            write_npy(self.folder / f"{split}_x.npy", (count, 2), x)
            write_npy(self.folder / f"{split}_y.npy", (count,), y)
        return self.job_file({"data": {"type": "npy", "path": "."}, "train": {"epochs": 3, "batch_size": 4, "non_finite": "rollback"},
                              "checkpoint": {"every_steps": 1}, "log": {"every_steps": 1}} | (changes or {}))

    ROLLBACK = (r"(?m)^ddprun-worker: the loss is not a finite number at step (\d+) of epoch (\d), on rank (\d) with the "
                r"training samples ([\d, ]+); rollback (\d) of 3: weights of out/checkpoints/step-(\d+)\.pt \(step (\d+)\), and on after "
                r"that step's samples$")

    def test_the_step_that_broke_is_undone_and_its_samples_are_left_out(self):
        done = self.run_job(self.job())
        told = re.findall(self.ROLLBACK, done.stderr)
        self.assertEqual([row[4] for row in told], ["1", "2", "3"], done.stderr)
        for step, _, _, samples, _, _, back in told:
            self.assertEqual(int(back), int(step) - 1)
            self.assertIn("7", samples.split(", "))
        # 8 steps an epoch, of which one is left out.
        self.assertIn("done: 3 of 3 epochs, 21 steps", done.stdout)
        self.assertEqual(len(self.metrics("rollback")), 3)

    def test_a_step_whose_loss_overflows_is_left_out_also_where_its_gradients_do_not(self):
        for accumulation in (1, 2):
            with self.subTest(accumulation=accumulation):
                self.run_job(self.job(), "/train/non_finite=skip", f"/train/accumulation_steps={accumulation}", "/resume=never")
                self.assertLess(self.metrics("epoch")[-1]["absolute_error"], 10)

    def test_it_goes_back_so_often_and_no_more(self):
        done = self.run_job(self.job(), "/train/epochs=9", expect=78)
        self.assertEqual(len(re.findall(self.ROLLBACK, done.stderr)), 3)
        self.assertRegex(done.stderr, r"at step \d+ of epoch 4, on rank \d with the training samples .*, and the job has gone back 3 times "
                                      r"before \(/train/max_rollbacks\)")

    def test_what_came_after_the_checkpoint_is_undone_over_epochs_and_starts(self):
        job = self.job({"checkpoint": {"every_steps": 0, "every_epochs": 1}}, broken=())
        self.run_job(job, "/train/epochs=1")
        job = self.job({"checkpoint": {"every_steps": 0, "every_epochs": 1}})
        done = self.run_job(job, "/train/epochs=2", "/log/every_steps=1000")
        told, = re.findall(self.ROLLBACK, done.stderr)
        self.assertEqual((told[1], told[6]), ("2", "8"))
        left = 16 - int(told[0])
        self.assertIn(f"done: 2 of 2 epochs, {8 + left} steps", done.stdout)
        self.run_job(job, "/train/epochs=3", ranks=1)  # its rollback is counted on from 1
        self.assertEqual(self.metrics("end")[-1]["ending"], "complete")

    def test_without_a_checkpoint_there_is_nothing_to_go_back_to(self):
        job = self.job({"checkpoint": {"every_steps": 0, "every_epochs": 0}}, broken=range(64))
        done = self.run_job(job, expect=78)
        self.assertRegex(done.stderr, r"at step 1 of epoch 1, on rank 0 with the training samples .*, and there is no checkpoint yet to go "
                                      r"back to; /checkpoint/every_steps writes one earlier")

    def test_a_job_all_of_whose_checkpoints_are_damaged_says_so_when_it_goes_back(self):
        changes = {"checkpoint": {"every_steps": 0, "every_epochs": 1}}
        self.run_job(self.job(changes, broken=()), "/train/epochs=1", ranks=1)
        job = self.job(changes, broken=range(64))
        # A pipe that is full holds the worker up at its first line, when it has read its checkpoint.
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, bytes(4096))
        except BlockingIOError:
            os.set_blocking(writer, True)
        worker = subprocess.Popen([self.binaries / "ddprun-worker", job], cwd=self.folder, env=self.environment(), text=True, stdout=writer,
                                  stderr=subprocess.PIPE)
        self.addCleanup(worker.kill)
        os.close(writer)
        waits_in, deadline = pathlib.Path(f"/proc/{worker.pid}/wchan"), time.monotonic() + BOUND_S
        while "pipe" not in waits_in.read_text(encoding="utf-8"):
            self.assertLess(time.monotonic(), deadline, "the worker does not write to its stdout")
            os.sched_yield()
        os.truncate(self.checkpoints()[-1], 100)
        with open(reader, "rb") as rest:
            rest.read()
        _, errors = worker.communicate(timeout=BOUND_S)
        self.assertEqual(worker.returncode, 78, errors)
        self.assertRegex(errors, r"at step 17 of epoch 2, on rank 0 with the training samples .*, and no checkpoint in \S+ to go back to can be "
                                 r"read \(1 tried\); put a whole one there, or start the job anew")

    def test_a_job_without_such_losses_learns_the_same(self):
        self.run_job(self.job({"output_dir": "stop"}, broken=()), "/train/non_finite=stop")
        self.run_job(self.job({"output_dir": "rollback"}, broken=()))
        self.assertEqual([record["loss"] for record in self.metrics("step", "stop")],
                         [record["loss"] for record in self.metrics("step", "rollback")])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
