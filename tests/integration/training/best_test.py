#!/usr/bin/env python3
"""Best checkpoints and early stopping of real jobs."""

import os
import pathlib
import re
import signal
import sys
import unittest

from jobs import JobTest


class Best(JobTest):
    def best(self, output="out"):
        return sorted(path.name for path in (self.folder / output / "checkpoints").glob("best-*"))

    def expected(self, count, metric, higher, output="out"):
        """The names that the metrics file asks for."""
        found = {}
        for record in self.metrics("epoch", output):
            found[record["step"]] = record["held_out_loss" if metric == "loss" else metric]
        order = sorted(found, key=lambda step: (-found[step] if higher else found[step], step))
        return sorted((step, found[step]) for step in order[:count])

    def assert_best(self, count, metric, higher, output="out"):
        names = [re.fullmatch(rf"best-(\d{{8}})-{metric}-(.+)\.pt", name) for name in self.best(output)]
        self.assertEqual([(int(name[1]), float(name[2])) for name in names], self.expected(count, metric, higher, output))

    def test_the_best_checkpoints_stay_beside_the_newest(self):
        for by, higher in (("accuracy", True), ("loss", False)):
            with self.subTest(by=by):
                done = self.run_job(self.job_file({"output_dir": by, "train": {"epochs": 8}, "optimizer": {"learning_rate": 0.4},
                                                   "checkpoint": {"keep": 1, "best": 2, "best_by": by, "every_epochs": 3}}))
                self.assertEqual([path.name for path in self.checkpoints(by)], ["step-00000080.pt"])
                self.assert_best(2, by, higher, by)
                self.assertRegex(done.stdout, rf"(?m)^  best        {by}/checkpoints/best-\d{{8}}-{by}-")

    def test_what_is_best_survives_kills_and_a_change_of_the_world(self):
        job = self.job_file({"train": {"epochs": 60}, "checkpoint": {"best": 3, "best_by": "accuracy", "keep": 1}})
        process = self.start(job, flags=("--max-restarts", "2"))
        for line in ("epoch 8/", "epoch 20/"):
            self.wait_for_line(process, line)
            os.kill(self.workers()[0], signal.SIGKILL)
        self.wait_for_line(process, "epoch 30/")
        process.terminate()
        self.finish(process, expect=128 + signal.SIGTERM)
        self.run_job(job, "/train/epochs=40", ranks=1)
        self.assert_best(3, "accuracy", True)

    def test_a_best_checkpoint_is_resumed_from_and_what_came_after_it_is_put_aside(self):
        job = self.job_file({"train": {"epochs": 6}, "checkpoint": {"best": 6, "best_by": "loss", "keep": 1}})
        self.run_job(job)
        name = next(name for name in self.best() if name.startswith("best-00000020"))
        done = self.run_job(job, f"/resume=out/checkpoints/{name}", "/train/epochs=3")
        self.assertIn(f"resumed from out/checkpoints/{name}: 2 of 6 epochs done, step 20".replace("of 6", "of 3"), done.stdout)
        aside = sorted(path.name for path in (self.folder / "out/checkpoints.old-1").iterdir())
        self.assertEqual([name[:13] for name in aside], ["best-00000030", "best-00000040", "best-00000050", "best-00000060",
                                                         "step-00000060"])

    def test_without_newest_checkpoints_a_job_goes_on_from_a_best_one(self):
        job = self.job_file({"checkpoint": {"best": 1, "keep": 1, "best_by": "loss"}})
        self.run_job(job)
        for path in self.checkpoints():
            path.unlink()
        done = self.run_job(job, "/train/epochs=5")
        self.assertIn("resumed from out/checkpoints/best-", done.stdout)

    def test_a_metric_that_there_is_not_is_refused_with_those_there_are(self):
        for setting, key in (({"checkpoint": {"best": 1, "best_by": "acuracy"}}, "/checkpoint/best_by"),
                             ({"early_stopping": {"patience": 1, "metric": "acuracy"}}, "/early_stopping/metric")):
            done = self.run_job(self.job_file(setting), expect=78)
            self.assertIn(f'{key}: an evaluation finds no "acuracy"; it finds loss, accuracy', done.stderr)


class EarlyStopping(JobTest):
    # Nothing is learned, so nothing gets better after the first evaluation.
    STUCK = {"train": {"epochs": 50}, "optimizer": {"learning_rate": 1e-30, "momentum": 0},
             "early_stopping": {"patience": 4, "metric": "accuracy"}, "checkpoint": {"every_epochs": 0}}

    def test_a_job_that_gets_no_better_ends_well_and_says_why(self):
        done = self.run_job(self.job_file(self.STUCK))
        self.assertRegex(done.stdout, r"(?m)^done: 5 of 50 epochs, 50 steps")
        self.assertRegex(done.stdout, r"(?m)^stopped early: accuracy was best after epoch 1, at \d+\.\d\d %, and 4 evaluations since "
                                      r"brought nothing better \(/early_stopping\)$")
        self.assertTrue((self.folder / "out/checkpoints/step-00000050.pt").exists())
        end, = self.metrics("end")
        self.assertEqual((end["ending"], end["stopped_early"]["evaluations"]), ("complete", 4))
        self.assertIn("stopped_early", (self.folder / "out/report.html").read_text())

    def test_a_job_whose_patience_is_over_with_its_last_epoch_was_not_stopped_early(self):
        done = self.run_job(self.job_file(self.STUCK), "/train/epochs=5")
        self.assertRegex(done.stdout, r"(?m)^done: 5 of 5 epochs, 50 steps")
        self.assertNotIn("stopped early", done.stdout)
        self.assertNotIn("stopped_early", self.metrics("end")[0])

    def test_a_job_that_was_stopped_early_says_so_when_it_is_started_again_and_goes_on_with_more_patience(self):
        job = self.job_file(self.STUCK)
        self.run_job(job)
        again = self.run_job(job)
        self.assertIn("stopped early: accuracy was best", again.stdout)
        self.assertIn("to train on    --set /early_stopping/patience=8", again.stdout)
        more = self.run_job(job, "/early_stopping/patience=8")
        self.assertRegex(more.stdout, r"(?m)^done: 9 of 50 epochs")

    def test_patience_is_counted_over_a_resume(self):
        job = self.job_file(self.STUCK | {"checkpoint": {"every_epochs": 1}})
        self.run_job(job, "/train/epochs=3")
        done = self.run_job(job, ranks=1)
        self.assertRegex(done.stdout, r"(?m)^done: 5 of 50 epochs")


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
