#!/usr/bin/env python3
"""Kills a job anywhere, starts the same command again, and compares the end with that of an undisturbed one, byte by byte.

    kill_test.py BINARIES INJECTOR [TIMES [SEED]]

Each time another rank, the launcher, or the writer of checkpoints in one of its phases is killed, the disk is full, or the
power fails and takes what was not synced, at a random moment of a short job with shuffling, dropout, mixing, EMA and a schedule.
"""

import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration/training"))

from jobs import BOUND_S, JobTest  # noqa: E402

INJECTOR = None
TIMES = 20
SEED = random.randrange(10**6)
ENOSPC = 28

JOB = {
    "model": {"type": "mlp", "hidden": [32], "dropout": 0.25},
    "data": {"train_samples": 90, "test_samples": 20},
    "train": {"epochs": 3, "batch_size": 5, "ema_decay": 0.9, "mixup_alpha": 0.4},
    "optimizer": {"type": "adamw", "learning_rate": 0.003},
    "schedule": {"type": "cosine", "warmup_steps": 3},
    "checkpoint": {"every_steps": 1},
}


def tensors(path):
    archive = zipfile.ZipFile(path)
    return {name.split("/data/")[1]: archive.read(name) for name in archive.namelist() if "/data/" in name}


class Kills(JobTest):
    def setUp(self):
        super().setUp()
        self.ends = {}
        self.faults = {}

    def environment(self):
        return {**super().environment(), **self.faults}

    def job(self, backend, keep=3):
        return self.job_file({**JOB, "backend": backend, "checkpoint": {**JOB["checkpoint"], "keep": keep}})

    def undisturbed(self, backend, ranks):
        if (backend, ranks) not in self.ends:
            output = f"whole-{backend}-{ranks}"
            self.run_job(self.job(backend), f"/output_dir={output}", ranks=ranks)
            self.ends[backend, ranks] = tensors(self.checkpoints(output)[-1])
        return self.ends[backend, ranks]

    def draw(self, dice, ranks):
        """What happens, in words, and the variables that make it happen in one of the generations."""
        how = dice.choice(["rank", "rank", "create", "write", "sync", "rename", "sync folder", "full disk", "power", "launcher"])
        fault = {"FAULT_RANK": "0", "FAULT": "kill", "FAULT_PATH": "/checkpoints/.step"}
        count = dice.randint(1, 14)
        if how == "rank":
            fault |= {"FAULT_RANK": str(dice.randrange(ranks)), "FAULT_AT": "step"}
        elif how == "create":
            fault |= {"FAULT_AT": "open"}
        elif how == "write":
            fault |= {"FAULT_AT": "write"}
            count = dice.randint(1, 900)
        elif how == "sync":
            fault |= {"FAULT_AT": "fsync"}
        elif how == "rename":
            fault |= {"FAULT_AT": "rename", "FAULT_PATH": "/checkpoints/step"}
        elif how == "sync folder":
            fault |= {"FAULT_AT": "fsync", "FAULT_PATH": "/checkpoints"}
            count = 2 * count
        elif how == "full disk":
            fault |= {"FAULT_AT": "write", "FAULT": str(ENOSPC)}
            count = dice.randint(1, 900)
        elif how == "power":
            at, path = dice.choice([("write", "/checkpoints/.step"), ("fsync", "/checkpoints"), ("rename", "/checkpoints/step"),
                                    ("open", "/checkpoints")])
            fault |= {"FAULT_AT": at, "FAULT_PATH": path, "FAULT": "power"}
            count = dice.randint(1, 900 if at == "write" else 28)
        else:
            fault = {}
        return f"{how} {count}", fault | ({"FAULT_COUNT": str(count), "LD_PRELOAD": str(INJECTOR)} if fault else {})

    def disturb(self, dice, job, output, how, ranks):
        command = self.command(job, f"/output_dir={output}", ranks=ranks, flags=("--max-restarts", str(dice.randrange(2))))
        with subprocess.Popen(command, cwd=self.folder, env=self.environment(), text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as process:
            if how.startswith("launcher"):
                for _ in range(dice.randint(1, 6)):
                    process.stdout.readline()
                process.kill()
            said, _ = process.communicate(timeout=BOUND_S)
        if how.startswith("full disk") and process.returncode != 0:
            self.assertIn("No space left on device", said)
        return process.returncode

    def test_whatever_is_killed_the_same_command_ends_with_the_bits_of_an_undisturbed_job(self):
        print(f"seed {SEED}", flush=True)
        for number in range(TIMES):
            dice = random.Random(f"{SEED} {number}")
            backend, ranks = dice.choice([("gloo", 2), ("shm", 3), ("gloo", 3)])
            self.faults = {}
            end = self.undisturbed(backend, ranks)
            job, output = self.job(backend, keep=dice.choice([2, 3, 3])), f"run-{number}"
            how, self.faults = self.draw(dice, ranks)
            with self.subTest(number=number, how=how, backend=backend, ranks=ranks):
                code = self.disturb(dice, job, output, how, ranks)
                self.faults = {}
                self.wait_until_alone()
                done = self.run_job(job, f"/output_dir={output}", ranks=ranks)
                from_step = re.search(r"resumed from \S+step-0*(\d+)\.pt", done.stdout)
                print(f"{number}: {how}, {backend}, {ranks} ranks: {code}, then from step "
                      f"{from_step.group(1) if from_step else 0}", flush=True)
                self.assertEqual(tensors(self.checkpoints(output)[-1]), end)
                self.assertEqual(list((self.folder / output / "checkpoints").glob(".*.tmp")), [])

    def wait_until_alone(self):
        """Workers end after their launcher was killed: the output folder is held as long as rank 0 lives."""
        while any(self.workers()):
            pass


class Stops(JobTest):
    """SIGTERM while a checkpoint is being written."""

    def environment(self):
        fault = {"FAULT_RANK": "0", "FAULT_AT": "fsync", "FAULT": "hold", "FAULT_PATH": "/checkpoints/.step", "LD_PRELOAD": str(INJECTOR),
                 "FAULT_FIFO": str(self.folder / "fifo")}
        return {**super().environment(), **fault}

    def test_ranks_that_are_told_to_stop_during_the_first_write_wait_for_it_and_leave_a_checkpoint(self):
        os.mkfifo(self.folder / "fifo")
        for settings in ((), ("/checkpoint/every_steps=0", "/data/train_samples=15")):  # between steps, and after an epoch
            with self.subTest(settings=settings):
                process = self.start(self.job_file({**JOB, "backend": "gloo"}), "/train/epochs=1000000", *settings,
                                     f"/output_dir=out{len(settings)}", ranks=3)
                self.wait_for_line(process, "holding")
                process.terminate()
                # Ranks that wait for one that is gone end after a tenth of a second; these wait for the disk.
                with self.assertRaises(subprocess.TimeoutExpired):
                    process.wait(timeout=1.5)
                with open(self.folder / "fifo", "wb"):
                    output = self.finish(process, expect=128 + signal.SIGTERM)
                self.assertRegex(output, r"stopped by SIGTERM after step \d+; the same command goes on from out")

    def test_what_is_being_written_when_a_rank_dies_comes_to_the_disk(self):
        os.mkfifo(self.folder / "fifo")
        process = self.start(self.job_file({**JOB, "backend": "gloo"}), "/train/epochs=1000000", ranks=3)
        self.wait_for_line(process, "holding")
        os.kill(self.workers()[1], signal.SIGKILL)
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(timeout=1.5)
        with open(self.folder / "fifo", "wb"):
            self.finish(process, expect=128 + signal.SIGKILL)
        self.assertIn("step-00000001.pt", [path.name for path in self.checkpoints()])


if __name__ == "__main__":
    JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    INJECTOR = pathlib.Path(sys.argv.pop(1)).resolve()
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        TIMES = int(sys.argv.pop(1))
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        SEED = int(sys.argv.pop(1))
    unittest.main(verbosity=2)
