#!/usr/bin/env python3
"""What ranks keep in memory (/checkpoint/memory_every_steps), beside a disk that lags behind, is damaged, or is the better one.

    memory_test.py <folder of the binaries>
"""

import os
import pathlib
import re
import shutil
import signal
import struct
import sys
import unittest

import rollback_test
from jobs import JobTest

ENDLESS = {"backend": "gloo", "train": {"epochs": 10**6}, "checkpoint": {"memory_every_steps": 1, "every_epochs": 0}}
ALIGNMENT = 64


class Memory(JobTest):
    def start_in_memory(self, log=None, **checkpoint):
        job = self.job_file({**ENDLESS, "checkpoint": {**ENDLESS["checkpoint"], **checkpoint}, "log": log or {}})
        self.job = self.start(job, flags=("--max-restarts", "1"))
        return self.job

    @staticmethod
    def names_of_memory(pid):
        """Of two states that are the rank's own, of the common one, and of the tensors."""
        environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        (names,) = [entry[len(b"DDPRUN_KEPT_MEMORY="):] for entry in environment if entry.startswith(b"DDPRUN_KEPT_MEMORY=")]
        return names.decode().split()

    def newest_kept(self, pid):
        """The newest step that a stopped rank has kept, 0 where there is none."""
        steps = [0]
        for name in self.names_of_memory(pid)[:2]:
            with open(name, "rb") as file:
                size, label = struct.unpack("2Q", file.read(16))
                file.seek(ALIGNMENT)
                step = re.search(rb" of \d+ (\d+) ", file.read(label)) if size else None
            if step:
                steps.append(int(step[1]))
        return max(steps)

    def kill_one(self, meanwhile):
        """SIGKILL of rank 1, while no rank changes anything; `meanwhile` gets the workers' pids by rank."""
        workers = self.workers()
        while True:
            for pid in workers.values():
                os.kill(pid, signal.SIGSTOP)
            on_disk = max((int(path.stem[len("step-"):]) for path in self.checkpoints()), default=0)
            if min(map(self.newest_kept, workers.values())) > on_disk:
                break
            # The disk has just caught up.
            for pid in workers.values():
                os.kill(pid, signal.SIGCONT)
            self.wait_for_line(self.job, "epoch")
        meanwhile(workers)
        os.kill(workers[1], signal.SIGKILL)
        os.kill(workers[0], signal.SIGCONT)

    def wait_for_checkpoint(self, process):
        while not self.checkpoints():
            self.wait_for_line(process, "epoch")

    def end(self, process):
        process.terminate()
        self.finish(process, expect=128 + signal.SIGTERM)
        self.assertEqual(self.processes(), [])

    def test_a_disk_that_cannot_be_read_is_no_end_while_memory_has_a_later_step(self):
        process = self.start_in_memory(every_steps=20, keep=1)
        self.wait_for_checkpoint(process)

        def damage(_):
            for path in self.checkpoints():
                os.truncate(path, 1000)

        self.kill_one(damage)
        self.wait_for_line(process, "resumed from memory")
        self.wait_for_line(process, "epoch")
        self.end(process)

    def test_memory_that_is_damaged_is_passed_over_for_the_disk(self):
        process = self.start_in_memory(every_steps=20)
        self.wait_for_checkpoint(process)

        def damage(workers):
            for name in self.names_of_memory(workers[0])[:3]:
                with open(name, "r+b") as file:
                    _, label = struct.unpack("2Q", file.read(16))
                    file.seek(ALIGNMENT + (label + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT + 10)
                    file.write(b"\xff" * 8)

        self.kill_one(damage)
        self.wait_for_line(process, "resumed from out/checkpoints")
        self.assertRegex(self.errors(), r"memory is passed over: what is kept of step \d+ is damaged \(rank 0: .*\); checkpoints on the "
                                        "disk count")
        self.end(process)

    def test_of_another_job_file_memory_is_passed_over_in_a_sentence(self):
        process = self.start_in_memory(every_steps=20)
        self.wait_for_checkpoint(process)
        job = self.folder / "job.json"
        self.kill_one(lambda _: job.write_text(job.read_text().replace('"learning_rate": 0.05', '"learning_rate": 0.04')))
        self.wait_for_line(process, "resumed from out/checkpoints")
        self.assertIn("memory is passed over: what is kept is of another job file or number of ranks; checkpoints on the disk count",
                      self.errors())
        self.end(process)

    def test_sigterm_in_the_first_long_steps_of_a_restart_leaves_what_only_memory_has_on_the_disk(self):
        job = self.job_file({**ENDLESS, "model": {"type": "mlp", "hidden": [2000, 2000]}, "train": {"epochs": 10**6, "batch_size": 1000},
                             "data": {"type": "synthetic", "train_samples": 4000, "test_samples": 10}})
        self.job = process = self.start(job, flags=("--max-restarts", "1"))
        self.wait_for_line(process, "epoch")
        self.kill_one(lambda _: None)
        self.wait_for_line(process, "resumed from memory")
        process.terminate()
        said = self.finish(process, expect=128 + signal.SIGTERM)
        self.assertEqual(len(self.checkpoints()), 1)
        self.assertRegex(said, r"stopped by SIGTERM after step \d+; the same command")

    def test_a_restart_beside_a_disk_that_takes_nothing_goes_on_from_memory(self):
        process = self.start_in_memory(log={"tensorboard": True}, on_write_error="go_on")
        self.wait_for_line(process, "epoch")

        def spoil(_):
            shutil.rmtree(self.folder / "out/tensorboard")
            (self.folder / "out/tensorboard").touch()
            for name in ("metrics.jsonl", "job.json"):
                (self.folder / "out" / name).unlink()
                (self.folder / "out" / name).mkdir()

        self.kill_one(spoil)
        self.wait_for_line(process, "resumed from memory")
        self.wait_for_line(process, "epoch")
        for name in ("tensorboard", "metrics.jsonl", "job.json"):
            self.assertRegex(self.errors(), rf"cannot .*{name}.*; the training goes on")
        self.end(process)

    def test_a_job_that_ends_because_numbers_are_not_finite_goes_on_from_the_disk(self):
        changes = {"train": {"epochs": 30, "batch_size": 4}, "checkpoint": ENDLESS["checkpoint"]}
        job = rollback_test.Rollback.job(self, changes, broken=())
        self.run_job(job, "/train/max_steps=5")
        # Each step makes the weights larger, and is kept, until a loss is not finite.
        broken = self.run_job(job, "/optimizer/learning_rate=1000", "/train/max_steps=100", flags=("--max-restarts", "1", "--no-restart-exit-codes", "93"), expect=78)
        self.assertRegex(broken.stderr, "the loss is not a finite number at step")
        self.assertIn("restart 1 of 1", broken.stderr)
        self.assertNotIn("resumed from memory", broken.stdout)
        self.assertEqual(broken.stdout.count("resumed from out/checkpoints/step-00000005.pt"), 2, broken.stdout)

    def test_a_job_of_long_steps_leaves_a_checkpoint_where_it_is_stopped(self):
        job = self.job_file({**ENDLESS, "model": {"type": "mlp", "hidden": [2000, 2000]}, "log": {"every_steps": 1},
                             "data": {"type": "synthetic", "train_samples": 100000, "test_samples": 10}, "train": {"batch_size": 1000}})
        process = self.start(job)
        while not (self.folder / "out/metrics.jsonl").exists() or len(self.metrics("step")) < 4:
            self.assertIsNone(process.poll(), self.errors())
        process.terminate()
        said = self.finish(process, expect=128 + signal.SIGTERM)
        self.assertRegex(said, r"stopped by SIGTERM after step \d+; the same command")
        self.assertEqual(len(self.checkpoints()), 1)

    def test_after_a_resume_from_memory_no_file_of_the_disk_is_held(self):
        process = self.start_in_memory(every_steps=20)
        self.wait_for_checkpoint(process)
        self.kill_one(lambda _: None)
        self.wait_for_line(process, "resumed from memory")
        self.wait_for_line(process, "epoch")
        self.assertNotIn("/checkpoints/", pathlib.Path(f"/proc/{self.workers()[0]}/maps").read_text())
        self.end(process)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
