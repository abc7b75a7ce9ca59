#!/usr/bin/env python3
"""Jobs that are judged by more data than the held-out samples."""

import json
import pathlib
import subprocess
import sys
import unittest

from jobs import BOUND_S, JobTest


def rows(path, shift):
    lines = ["a,b,class"]
    for i in range(120):
        a, b = (i * 37 % 101) / 50 - 1, (i * 61 % 103) / 50 - 1
        lines.append(f"{a + shift},{b},{int(a > b)}")
    path.write_text("\n".join(lines) + "\n")


class Judging(JobTest):
    def setUp(self):
        super().setUp()
        for name, shift in (("here", 0), ("there", 0.7)):
            (self.folder / name).mkdir()
            for split in ("train", "test"):
                rows(self.folder / name / f"{split}.csv", shift)

    def job(self, changes=None):
        data = {"type": "csv", "classes": 2, "standardize": False}
        return self.job_file({"data": data | {"path": "here", "train_samples": 0, "test_samples": 0},
                              "evaluate": {"same": data | {"path": "here"}, "there": data | {"path": "there"}},
                              "optimizer": {"learning_rate": 0.2}} | (changes or {}))

    def test_metrics_of_more_data_stand_under_its_name_everywhere(self):
        done = self.run_job(self.job({"log": {"tensorboard": True}, "checkpoint": {"best": 1, "best_by": "there/accuracy"}}))
        self.assertRegex(done.stdout, r"(?m)^epoch 3/3 .*  accuracy \d+\.\d\d %  same/accuracy \d+\.\d\d %  there/accuracy \d+\.\d\d %  ")
        self.assertRegex(done.stdout, r"held-out samples, same/accuracy \d+\.\d\d %, there/accuracy")
        for record in self.metrics("epoch"):
            self.assertEqual((record["same/accuracy"], record["same/loss"]), (record["accuracy"], record["held_out_loss"]))
            self.assertNotEqual(record["there/loss"], record["held_out_loss"])
        self.assertRegex(done.stdout, r"best +out/checkpoints/best-\d{8}-there_accuracy-0\.")
        report = (self.folder / "out/report.html").read_text()
        self.assertIn('"shares":["accuracy","same/accuracy","there/accuracy"]', report)
        events = b"".join(path.read_bytes() for path in (self.folder / "out/tensorboard").iterdir())
        self.assertIn(b"there/accuracy", events)

    def test_eval_finds_what_the_training_found(self):
        job = self.job()
        self.run_job(job)
        last = self.metrics("epoch")[-1]
        words = [str(self.binaries / "ddprun"), "eval", str(job)]
        run = {"cwd": self.folder, "env": self.environment(), "text": True, "capture_output": True, "timeout": BOUND_S, "check": True}
        found = json.loads(subprocess.run([*words, "--json"], **run).stdout)["metrics"]
        self.assertEqual(list(found), ["loss", "accuracy", "same/loss", "same/accuracy", "there/loss", "there/accuracy"])
        for name, value in found.items():
            self.assertAlmostEqual(value, last["held_out_loss" if name == "loss" else name], delta=1e-6)
        text = subprocess.run(words, **run).stdout
        self.assertRegex(text, r"(?m)^loss .* on 120 held-out samples\nloss .* on 120 same samples\nloss .* on 120 there samples\n  of ")

    def test_a_resumed_job_knows_what_it_found(self):
        job = self.job({"early_stopping": {"patience": 50, "metric": "there/loss"}})
        self.run_job(job)
        again = self.run_job(job)
        self.assertIn("training is complete: 3 of 3 epochs", again.stdout)
        self.run_job(job, "/train/epochs=4", ranks=1)

    def test_what_is_not_like_the_training_data_is_refused(self):
        for key in ("/evaluate/there", "/data"):
            done = self.run_job(self.job(), f"{key}/standardize=true", expect=78)
            self.assertRegex(done.stderr, r'/evaluate/(there|same): its numbers are (standardised by column|taken as they are), and those of '
                                          r'the training data (standardised by column .*|taken as they are); give both the same "standardize"')
        (self.folder / "there/test.csv").write_text("a,class\n1,0\n")
        (self.folder / "there/train.csv").write_text("a,class\n1,0\n")
        done = self.run_job(self.job(), expect=78)
        self.assertRegex(done.stderr, r"/evaluate/there: .*there/train.csv has no column b, which the training data has; there are a, class")
        done = self.run_job(self.job(), "/evaluate/there/path=nowhere", expect=78)
        self.assertRegex(done.stderr, r"/evaluate/there: .*nowhere")

    def test_tables_are_scaled_as_the_training_data_and_their_columns_go_by_name(self):
        rows_here = [line.split(",") for line in (self.folder / "here/test.csv").read_text().split()]
        (self.folder / "there/test.csv").write_text("".join(f"{b},{label},{a}\n" for a, b, label in rows_here))
        (self.folder / "there/train.csv").write_text("b,class,a\n0,0,100\n0,1,300\n")  # not of its own numbers
        standardised = {"standardize": True}
        self.run_job(self.job({"data": {"type": "csv", "classes": 2, "path": "here", "train_samples": 0, "test_samples": 0} | standardised,
                               "evaluate": {name: {"type": "csv", "classes": 2, "path": path} | standardised
                                            for name, path in (("same", "here"), ("there", "there"))}}))
        for record in self.metrics("epoch"):
            self.assertEqual((record["same/loss"], record["there/loss"]), (record["held_out_loss"],) * 2)

    def test_a_path_counts_from_the_job_file(self):
        self.run_job(self.job(), "/train/epochs=1")
        merged = json.loads((self.folder / "out/job.json").read_text())
        self.assertEqual(merged["evaluate"]["there"]["path"], str(self.folder / "there"))


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
