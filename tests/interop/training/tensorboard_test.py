#!/usr/bin/env python3
"""What a job writes for TensorBoard is what the tensorboard package reads."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError as missing:
    print(f"SKIPPED: the tensorboard package is not there ({missing}); scripts/setup.sh --with-tests installs it")
    sys.exit(77)

BINARIES = pathlib.Path(__file__).resolve().parents[3] / "build/release/bin"
JOB = {"model": {"type": "mlp", "hidden": [8]}, "data": {"type": "synthetic", "train_samples": 320, "test_samples": 64},
       "train": {"epochs": 2, "batch_size": 16}, "log": {"every_steps": 5, "tensorboard": True}, "output_dir": "out"}


class TensorBoard(unittest.TestCase):
    def test_the_package_reads_each_number_of_a_job_and_of_its_second_half(self):
        with tempfile.TemporaryDirectory(prefix="ddprun-tensorboard-") as folder:
            path = pathlib.Path(folder)
            (path / "job.json").write_text(json.dumps(JOB))
            for epochs in (2, 4):
                subprocess.run([str(BINARIES / "ddprun"), "--nproc-per-node", "2", "--set", f"/train/epochs={epochs}", "job.json"],
                               cwd=path, env={**os.environ, "TMPDIR": folder, "OMP_NUM_THREADS": "1"}, check=True, timeout=60,
                               capture_output=True)
            read = EventAccumulator(str(path / "out/tensorboard")).Reload()
            records = [json.loads(line) for line in (path / "out/metrics.jsonl").read_text().splitlines()]
            steps = [record for record in records if record["event"] == "step"]
            epochs = [record for record in records if record["event"] == "epoch"]
            self.assertEqual(read.Tags()["scalars"], ["train/loss", "train/learning_rate", "held_out/loss", "held_out/accuracy",
                                                      "train/images_per_second"])
            self.assert_same(read.Scalars("train/loss"), steps, "loss")
            self.assert_same(read.Scalars("train/learning_rate"), steps, "learning_rate")
            self.assert_same(read.Scalars("held_out/accuracy"), epochs, "accuracy")
            self.assert_same(read.Scalars("held_out/loss"), epochs, "held_out_loss")

    def test_steps_that_a_job_repeats_are_shown_once(self):
        with tempfile.TemporaryDirectory(prefix="ddprun-tensorboard-") as folder:
            path = pathlib.Path(folder)
            (path / "job.json").write_text(json.dumps(JOB))
            for setting in ("/train/epochs=2", "/train/epochs=3"):
                subprocess.run([str(BINARIES / "ddprun"), "--nproc-per-node", "2", "--set", setting, "job.json"], cwd=path,
                               env={**os.environ, "TMPDIR": folder, "OMP_NUM_THREADS": "1"}, check=True, timeout=60, capture_output=True)
                if setting.endswith("2"):  # as if it had been killed before its last checkpoint
                    (path / "out/checkpoints/step-00000020.pt").unlink()
            read = EventAccumulator(str(path / "out/tensorboard")).Reload()
            self.assertEqual([scalar.step for scalar in read.Scalars("train/loss")], [5, 10, 15, 20, 25, 30])

    def test_a_job_that_starts_anew_is_shown_alone(self):
        with tempfile.TemporaryDirectory(prefix="ddprun-tensorboard-") as folder:
            path = pathlib.Path(folder)
            (path / "job.json").write_text(json.dumps(JOB))
            for setting in ("/train/epochs=2", "/train/epochs=1"):
                subprocess.run([str(BINARIES / "ddprun"), "--nproc-per-node", "2", "--set", setting, "--set", "/resume=never", "job.json"],
                               cwd=path, env={**os.environ, "TMPDIR": folder, "OMP_NUM_THREADS": "1"}, check=True, timeout=60,
                               capture_output=True)
            read = EventAccumulator(str(path / "out/tensorboard")).Reload()
            self.assertEqual([scalar.step for scalar in read.Scalars("train/loss")], [5, 10])

    def assert_same(self, scalars, records, key):
        self.assertEqual([scalar.step for scalar in scalars], [record["step"] for record in records])
        for scalar, record in zip(scalars, records):
            self.assertAlmostEqual(scalar.value, record[key], places=5)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        BINARIES = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
