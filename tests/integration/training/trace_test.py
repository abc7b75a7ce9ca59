#!/usr/bin/env python3
"""/log/trace: what the files have, where they go, and that a training does not notice."""

import json
import os
import pathlib
import subprocess
import sys
import unittest
import zipfile

from jobs import BOUND_S, JobTest

from skips import skip

PHASES = {"loader", "forward", "backward", "exposed communication", "optimizer"}


def steps_of(events):
    return [event["name"] for event in events if event["name"].startswith("ProfilerStep#")]


def tensors_of(checkpoint):
    """The bytes of its tensors, in their order."""
    with zipfile.ZipFile(checkpoint) as file:
        return [file.read(name) for name in sorted(file.namelist()) if "/data/" in name]


class Trace(JobTest):
    def events(self, rank, folder="trace"):
        trace = json.loads((self.folder / f"out/{folder}/rank{rank}.json").read_text())
        self.assertEqual(trace["distributedInfo"]["rank"], rank)
        return sorted((event for event in trace["traceEvents"] if event["ph"] == "X"), key=lambda event: event["ts"])

    def files(self, folder="trace"):
        return sorted(path.name for path in (self.folder / "out" / folder).iterdir())

    def test_each_rank_has_the_chosen_steps_and_in_each_of_them_the_phases(self):
        done = self.run_job(self.job_file(), "/log/trace/first_step=4", "/log/trace/steps=3")
        self.assertIn("traced steps 4 to 6: out/trace (a file for each rank, for ui.perfetto.dev)", done.stdout)
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.files(), ["rank0.json", "rank1.json"])
        for rank in range(2):
            events = self.events(rank)
            self.assertEqual(steps_of(events), ["ProfilerStep#4", "ProfilerStep#5", "ProfilerStep#6"])
            for step in (event for event in events if event["name"].startswith("ProfilerStep#")):
                inside = [event["name"] for event in events
                          if step["ts"] <= event["ts"] and event["ts"] + event["dur"] <= step["ts"] + step["dur"]]
                self.assertEqual({name: inside.count(name) for name in PHASES}, dict.fromkeys(PHASES, 1))
                self.assertIn("aten::addmm", inside)

    def test_the_wait_for_other_ranks_lies_at_the_end_of_the_last_backward_of_a_step(self):
        self.run_job(self.job_file(), "/log/trace/steps=1", "/log/trace/first_step=1", "/train/accumulation_steps=2")
        events = self.events(1)
        backwards = [event for event in events if event["name"] == "backward"]
        wait, = (event for event in events if event["name"] == "exposed communication")
        self.assertEqual(len(backwards), 2)
        self.assertLess(backwards[1]["ts"], wait["ts"])
        self.assertLessEqual(wait["ts"] + wait["dur"], backwards[1]["ts"] + backwards[1]["dur"])

    def test_what_lies_between_traced_steps_is_in_the_trace(self):
        self.run_job(self.job_file(), "/log/trace/first_step=10", "/log/trace/steps=2")
        names = [event["name"] for event in self.events(0)]
        # A checkpoint is copied, and at an epoch's end waited for.
        self.assertEqual((names.count("evaluation"), names.count("checkpoint")), (1, 2))

    def test_weights_are_equal_with_and_without_a_trace(self):
        for name, settings in (("plain", ()), ("traced", ("/log/trace/steps=5",))):
            self.run_job(self.job_file({"output_dir": name}), *settings)
        plain, traced = (tensors_of(self.checkpoints(name)[-1]) for name in ("plain", "traced"))
        self.assertGreater(len(plain), 4)
        self.assertEqual(plain, traced)

    def test_a_trace_beyond_the_last_step_is_said_to_be_none_and_one_over_it_to_lack_steps(self):
        done = self.run_job(self.job_file(), "/log/trace/first_step=31", "/log/trace/steps=3")
        self.assertIn("no trace: /log/trace is of steps 31 to 33, and this run ended after step 30", done.stdout)
        self.assertFalse((self.folder / "out/trace").exists())
        done = self.run_job(self.job_file(), "/resume=never", "/log/trace/first_step=29", "/log/trace/steps=3")
        self.assertIn("the trace has 2 of 3 steps: /log/trace is of steps 29 to 31, and this run ended after step 30", done.stdout)
        self.assertEqual(steps_of(self.events(1)), ["ProfilerStep#29", "ProfilerStep#30"])

    def test_an_earlier_trace_is_put_aside_and_one_of_a_run_that_goes_on_beyond_it_stays(self):
        settings = ("/log/trace/first_step=2", "/log/trace/steps=1")
        self.run_job(self.job_file(), "/train/epochs=1", *settings)
        done = self.run_job(self.job_file(), "/train/epochs=2", *settings)
        self.assertIn("no trace of this run: /log/trace is of step 2, and it went on after step 10", done.stdout)
        self.assertEqual(steps_of(self.events(1)), ["ProfilerStep#2"])
        done = self.run_job(self.job_file(), "/resume=never", "/train/epochs=1", *settings, ranks=1)
        self.assertIn("the trace of an earlier run is now out/trace.old-1", done.stdout)
        self.assertEqual((self.files("trace.old-1"), self.files()), (["rank0.json", "rank1.json"], ["rank0.json"]))

    def test_a_place_that_takes_no_trace_is_said_by_each_rank_and_stops_no_training(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/trace").write_text("in the way")
        done = self.run_job(self.job_file(), "/log/trace/steps=1")
        self.assertRegex(done.stderr, r"ddprun-worker: cannot create \S+/out/trace: [^\n]*; the training goes on\n")
        self.assertRegex(done.stderr, r"ddprun-worker: rank 1: cannot create \S+/out/trace: [^\n]*; the training goes on\n")
        self.assertNotIn("traced", done.stdout)
        self.assertIn("done: 3 of 3 epochs", done.stdout)

    def test_a_full_disk_is_said_and_leaves_nothing(self):
        job = self.job_file({"log": {"trace": {"first_step": 2, "steps": 1}}})
        inside = 'mkdir -p out/trace && mount -t tmpfs -o size=4k none out/trace && { "$@"; code=$?; ls out/trace; exit $code; }'
        probe = subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt"], capture_output=True, check=False)
        if probe.returncode != 0:
            skip("needs root for a small tmpfs")
        done = subprocess.run(["unshare", "-m", "sh", "-c", inside, "-", *self.command(job)], cwd=self.folder,
                              env=self.environment(), text=True, capture_output=True, timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"cannot write \S+/out/trace/rank0.json: No space left on device; the training goes on")
        self.assertNotIn("rank0.json\n", done.stdout)

    def test_keys_that_make_no_sense_are_refused(self):
        for setting, words in (("/log/trace/first_step=0", "expected an integer from 1 to"),
                               ("/log/trace/steps=-1", "expected an integer from 0 to 1000, found -1"),
                               ("/log/trace/first_step=5", 'no use without "steps"'),
                               ("/log/trace/wait=5", "unknown key")):
            done = subprocess.run(self.command(self.job_file(), setting), cwd=self.folder, env=self.environment(), text=True,
                                  capture_output=True, timeout=BOUND_S, check=False)
            self.assertEqual(done.returncode, 78, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    os.environ.pop("KINETO_LOG_LEVEL", None)
    unittest.main(verbosity=2)
