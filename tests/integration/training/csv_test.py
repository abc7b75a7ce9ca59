#!/usr/bin/env python3
"""metrics.csv, and what a resumed job says of its data."""

import csv
import pathlib
import subprocess
import sys
import unittest

from jobs import BOUND_S, JobTest


class Csv(JobTest):
    JOB = {"log": {"csv": True, "every_steps": 5}}

    def rows(self):
        with open(self.folder / "out/metrics.csv", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def test_the_table_says_what_the_json_lines_say_over_a_resume(self):
        job = self.job_file(self.JOB)
        self.run_job(job, "/train/epochs=1")
        self.run_job(job, "/train/epochs=2")
        rows = self.rows()
        self.assertEqual([(row["event"], row["step"]) for row in rows],
                         [("step", "5"), ("step", "10"), ("epoch", "10"), ("step", "15"), ("step", "20"), ("epoch", "20")])
        for kind in ("step", "epoch"):
            for row, record in zip((row for row in rows if row["event"] == kind), self.metrics(kind), strict=True):
                self.assertEqual({key: float(value) for key, value in row.items() if value and key not in ("event", "time")},
                                 {key: value for key, value in record.items() if key not in ("event", "time")})

    def test_a_table_with_other_columns_is_put_aside_and_a_line_without_an_end_spoils_none(self):
        job = self.job_file(self.JOB)
        self.run_job(job, "/train/epochs=1")
        with open(self.folder / "out/metrics.csv", "a", encoding="utf-8") as file:
            file.write("step,17")
        self.run_job(job, "/train/epochs=2")
        self.assertEqual([row["step"] for row in self.rows()][-3:], ["15", "20", "20"])
        done = self.run_job(job, "/train/epochs=3", '/evaluate={"more": {"type": "synthetic", "test_samples": 50}}')
        self.assertIn("more/accuracy", self.rows()[-1])
        self.assertTrue((self.folder / "out/metrics.csv.old-1").exists())
        self.assertRegex(done.stderr, r"out/metrics.csv has other columns than this job writes, and is now metrics.csv.old-1")

    def test_an_event_file_that_cannot_be_made_is_said_and_stops_no_training(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/tensorboard").touch()
        done = self.run_job(self.job_file({"log": {"tensorboard": True}}))
        self.assertRegex(done.stderr, r"cannot create \S*out/tensorboard: .*; the training goes on, and TensorBoard shows nothing of it")
        self.assertIn("done: 3 of 3 epochs", done.stdout)

    def test_a_full_disk_under_the_table_is_said_and_stops_no_training(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/metrics.csv").symlink_to("/dev/full")
        done = self.run_job(self.job_file(self.JOB))
        self.assertEqual(done.stderr.count("cannot write to "), 1, done.stderr)
        self.assertIn("out/metrics.csv: No space left on device", done.stderr)


class Data(JobTest):
    def test_a_resumed_job_says_that_its_data_has_another_size(self):
        job = self.job_file()
        self.run_job(job, "/train/epochs=1")
        done = self.run_job(job, "/data/train_samples=640")
        self.assertIn("the training data has changed: 320 samples before, 640 now", done.stdout)
        self.assertNotIn("has changed", self.run_job(job, "/data/train_samples=640", "/train/epochs=4").stdout)

    def test_a_new_head_that_is_frozen_is_warned_of(self):
        for name, size in (("data_batch_1.bin", 16 * 3073), ("test_batch.bin", 8 * 3073), ("train.bin", 16 * 3074), ("test.bin", 8 * 3074)):
            (self.folder / name).write_bytes(b"\1" * size)
        base = {"model": {"type": "resnet20"}, "train": {"epochs": 1, "batch_size": 4}}
        data = {"path": ".", "train_samples": 0, "test_samples": 0}
        self.run_job(self.job_file(base | {"output_dir": "base", "data": data | {"type": "cifar10"}}))
        tuned = base | {"model": {"type": "resnet20", "weights": str(self.checkpoints("base")[-1]), "freeze": ["linear*"]}}
        for kind, warned in (("cifar10", False), ("cifar100", True)):
            done = subprocess.run(self.command(self.job_file(tuned | {"data": data | {"type": kind}, "output_dir": kind}), ranks=1),
                                  cwd=self.folder, env=self.environment(), text=True, capture_output=True, timeout=BOUND_S, check=False)
            self.assertEqual("is new, with random weights, and frozen, so it never learns" in done.stderr, warned, done.stderr)

    def test_what_is_frozen_without_weights_is_warned_of(self):
        job = self.job_file({"model": {"type": "mlp", "hidden": [4, 4], "freeze": ["layers.1.*", "*.bias"]}, "train": {"epochs": 1}})
        done = self.run_job(job)
        self.assertRegex(done.stderr, r"/model/freeze: \d parameters keep the random values that they begin with, since /model/weights "
                                      "is null; name a file of weights there")
        self.assertNotIn("/model/freeze", self.run_job(job, "/train/epochs=2").stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
