#!/usr/bin/env python3
"""Kills a job anywhere, starts the same command again, and compares the end with that of an undisturbed one, byte by byte.

    kill_test.py BINARIES INJECTOR [TIMES [SEED]]

Each time another rank, the launcher, or the writer of checkpoints in one of its phases is killed, the disk is full, or the
power fails and takes what was not synced, at a random moment of a short job with shuffling, augmentation, mixing, dropout, EMA,
a schedule and, in fp16, a scaler.
"""

import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import time
import unittest
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration/training"))

from jobs import BOUND_S, JobTest, merged  # noqa: E402
from ports import free_port  # noqa: E402

INJECTOR = None
TIMES = 20
SEED = random.randrange(10**6)
ENOENT = 2
EIO = 5
ENOSPC = 28

JOB = {
    "model": {"type": "mlp", "hidden": [32], "dropout": 0.25},
    "data": {"train_samples": 90, "test_samples": 20, "transforms": [{"type": "random_crop", "size": 28, "padding": 3}]},
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

    def job(self, backend, precision, checkpoint=None, virtual_ranks=0):
        return self.job_file(merged(JOB, {"backend": backend, "checkpoint": checkpoint or {},
                                          "train": {"precision": precision, "virtual_ranks": virtual_ranks}}))

    def undisturbed(self, backend, precision, ranks):
        key = f"{backend}-{precision}-{ranks}"
        if key not in self.ends:
            self.run_job(self.job(backend, precision), f"/output_dir=whole-{key}", ranks=ranks)
            self.ends[key] = tensors(self.checkpoints(f"whole-{key}")[-1])
        return self.ends[key]

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
            precision = dice.choice(["fp32", "fp16"])
            self.faults = {}
            end = self.undisturbed(backend, precision, ranks)
            job, output = self.job(backend, precision, {"keep": dice.choice([2, 3, 3])}), f"run-{number}"
            how, self.faults = self.draw(dice, ranks)
            with self.subTest(number=number, how=how, backend=backend, precision=precision, ranks=ranks):
                code = self.disturb(dice, job, output, how, ranks)
                self.faults = {}
                done = self.run_job(job, f"/output_dir={output}", ranks=ranks)
                from_step = re.search(r"resumed from \S+step-0*(\d+)\.pt", done.stdout)
                print(f"{number}: {how}, {backend}, {precision}, {ranks} ranks: {code}, then from step "
                      f"{from_step.group(1) if from_step else 0}", flush=True)
                self.assertEqual(tensors(self.checkpoints(output)[-1]), end)
                self.assertEqual(list((self.folder / output / "checkpoints").glob(".*.tmp")), [])

    def test_ranks_that_are_killed_again_and_again_go_on_from_their_last_step_in_memory(self):
        in_memory = {"memory_every_steps": 1, "every_steps": 0}
        for number in range(max(2, TIMES // 5)):
            dice = random.Random(f"{SEED} memory {number}")
            backend, ranks, virtual = dice.choice([("gloo", 2, 0), ("shm", 3, 0), ("gloo", 3, 0), ("shm", 2, 4)])
            precision = dice.choice(["fp32", "fp16"])
            self.faults = {}
            end = self.undisturbed(backend, precision, virtual or ranks)
            job = self.job(backend, precision, in_memory, virtual)
            # After a step, or wherever memory is allocated within one.
            rank, how = dice.randrange(ranks), dice.choice(["step", "compute"])
            count = dice.randint(6, 15) if how == "step" else dice.randint(5000, 16000)
            self.faults = {"LD_PRELOAD": str(INJECTOR), "FAULT_RANK": str(rank), "FAULT": "kill", "FAULT_AT": how, "FAULT_COUNT": str(count)}
            with self.subTest(number=number, how=how, count=count, rank=rank, backend=backend, ranks=ranks, virtual=virtual):
                done = self.run_job(job, f"/output_dir=memory-{number}", ranks=ranks, flags=("--max-restarts", "40"))
                steps = [0, *map(int, re.findall(r"resumed from \S+: .* step (\d+)", done.stdout))]
                print(f"{number}: {how} {count}, {backend}, {ranks} ranks ({virtual} virtual), {precision}: steps {steps}", flush=True)
                self.assertEqual(tensors(self.checkpoints(f"memory-{number}")[-1]), end)
                self.assertGreater(len(steps), 1)
                if how == "step":  # another rank may be killed before it has kept the step, too
                    self.assertLessEqual({after - before for before, after in zip(steps, steps[1:])}, {count - 1, count})

    def test_a_job_whose_ranks_all_die_at_once_ends_with_the_same_bits_whether_memory_was_whole_or_not(self):
        # With an update that takes its time.
        large = {"model": {"hidden": [1200, 1200]}, "data": {"train_samples": 120}, "train": {"epochs": 8},
                 "checkpoint": {"memory_every_steps": 1, "every_steps": 7}}
        for number in range(max(2, TIMES // 10)):
            dice = random.Random(f"{SEED} all {number}")
            backend, ranks = dice.choice([("gloo", 2), ("shm", 2), ("shm", 3)])
            self.faults = {}
            job = self.job_file(merged(JOB, {"backend": backend, **large}))
            self.run_job(job, "/output_dir=whole", "/resume=never", ranks=ranks)
            with self.subTest(number=number, backend=backend, ranks=ranks):
                process = self.start(job, f"/output_dir=all-{number}", ranks=ranks, flags=("--max-restarts", "40"))
                said = ""
                for _ in range(3):
                    said += self.read_until(process, "epoch")
                    time.sleep(dice.random() / 20)  # wherever that is
                    for pid in self.workers().values():
                        os.kill(pid, signal.SIGKILL)
                said += self.finish(process, expect=0)
                resumed = re.findall(r"resumed from (\S+): .* step (\d+)", said)
                lost = self.errors().count("memory is passed over: all ranks ended")
                print(f"{number}: {backend}, {ranks} ranks: {resumed}, {lost} times in the middle of an update", flush=True)
                self.assertEqual(tensors(self.checkpoints(f"all-{number}")[-1]), tensors(self.checkpoints("whole")[-1]))

    def test_what_follows_the_last_step_is_done_by_the_ranks_that_are_started_again(self):
        # Evaluated for so long that rank 1 is killed within it.
        job = self.job_file(merged(JOB, {"backend": "gloo", "data": {"test_samples": 200000}, "log": {"every_steps": 1},
                                         "checkpoint": {"memory_every_steps": 1, "every_steps": 0}}))
        self.run_job(job, "/output_dir=whole", "/train/max_steps=11")
        process = self.start(job, "/train/max_steps=11", flags=("--max-restarts", "1"))
        while not (self.folder / "out/metrics.jsonl").exists() or not any(record["step"] == 11 for record in self.metrics("step")):
            self.assertIsNone(process.poll(), self.errors())
        os.kill(self.workers()[1], signal.SIGKILL)
        said = self.finish(process, expect=0)
        self.assertRegex(said, "resumed from memory: .* step 11")
        self.assertEqual(tensors(self.checkpoints()[-1]), tensors(self.checkpoints("whole")[-1]))
        once, undisturbed = self.metrics("epoch")[-1], self.metrics("epoch", "whole")[-1]
        of_time = {"time", "elapsed", "seconds", *(key for key in once if key.endswith("per_second"))}
        self.assertEqual({key: once[key] for key in once.keys() - of_time}, {key: undisturbed[key] for key in undisturbed.keys() - of_time})

    def test_a_job_that_goes_on_with_the_memory_of_another_rank_stays_on_its_line(self):
        self.run_job(self.job_file({"train": {"max_steps": 3}}), "/output_dir=before")
        began = f"/resume={self.checkpoints('before')[-1]}"
        job = self.job_file({"train": {"max_steps": 20}, "checkpoint": {"memory_every_steps": 1, "every_steps": 0, "every_epochs": 0, "keep": 1}})
        for count in range(8, 13):
            # Rank 0 is killed before its update; where the other one ends its own, all go on with that.
            self.faults = {"LD_PRELOAD": str(INJECTOR), "FAULT_RANK": "0", "FAULT": "kill", "FAULT_AT": "update", "FAULT_COUNT": str(count)}
            output = f"/output_dir=out-{count}"
            said = self.run_job(job, began, output, flags=("--max-restarts", "9")).stdout
            self.faults = {}
            steps = [int(step) for step in re.findall(r"resumed from memory: .* step (\d+)", said)]
            if 3 + count not in steps:
                continue
            self.assertIn("this job began from", self.run_job(job, began, output).stdout)
            self.assertFalse((self.folder / f"out-{count}/checkpoints.old-1").exists())
            return
        self.fail("no other rank has ever ended the update")

    @staticmethod
    def read_until(process, beginning):
        said = ""
        for line in process.stdout:
            said += line
            if line.startswith(beginning):
                break
        return said


class OtherDisks(JobTest):
    """Two nodes on one machine; each has a folder of its own for the disk that it would have."""

    def test_a_checkpoint_that_is_removed_on_another_disk_before_it_is_read_is_none(self):
        job = self.job_file({"checkpoint": {"every_steps": 4, "every_epochs": 0}})
        self.run_job(job, "/output_dir=b", "/train/max_steps=8")
        # Opened on rank 1 alone, whose newest is not there any more when it is.
        fault = {"LD_PRELOAD": str(INJECTOR), "FAULT_RANK": "1", "FAULT": str(ENOENT), "FAULT_AT": "open", "FAULT_PATH": "step-00000008.pt"}
        plain = self.environment
        self.environment = lambda: {**plain(), **fault}
        flags = ("--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--node-rank")
        one = self.start(job, "/output_dir=a", "/train/max_steps=10", ranks=1, flags=(*flags, "0"))
        two = subprocess.run(self.command(job, "/output_dir=b", "/train/max_steps=10", ranks=1, flags=(*flags, "1")), cwd=self.folder,
                             env=self.environment(), text=True, capture_output=True, timeout=BOUND_S, check=False)
        output = self.finish(one, expect=0)
        self.assertEqual(two.returncode, 0, two.stderr)
        self.assertIn("resumed from b/checkpoints/step-00000004.pt", output)


class Power(JobTest):
    """The power fails before the third checkpoint has its name; the first two were on the disk."""

    def run_until_power_fails(self, *settings, unsynced=""):
        fault = {"LD_PRELOAD": str(INJECTOR), "FAULT_RANK": "0", "FAULT_AT": "rename", "FAULT": "power", "FAULT_COUNT": "3",
                 "FAULT_PATH": "/checkpoints/step", "FAULT_UNSYNCED": str(unsynced)}
        plain = self.environment
        self.environment = lambda: {**plain(), **fault}
        job = self.job_file({"backend": "gloo", "checkpoint": {"every_steps": 1}})
        self.run_job(job, *settings, ranks=1, expect=128 + signal.SIGKILL)
        self.environment = plain
        return job

    def test_a_job_that_begins_anew_keeps_what_it_has_written_and_what_it_has_moved(self):
        self.run_job(self.job_file({"backend": "gloo"}), "/train/max_steps=5", ranks=1)
        self.run_until_power_fails("/resume=never")
        self.assertEqual([path.name for path in self.checkpoints()], ["step-00000001.pt", "step-00000002.pt"])
        self.assertEqual([path.name for path in (self.folder / "out/checkpoints.old-1").glob("*.pt")], ["step-00000005.pt"])

    def test_a_job_that_has_made_the_folders_above_its_own_keeps_what_it_has_written(self):
        job = self.run_until_power_fails("/output_dir=runs/mine")
        self.assertEqual([path.name for path in self.checkpoints("runs/mine")], ["step-00000001.pt", "step-00000002.pt"])
        self.assertIn("step-00000002.pt", self.run_job(job, "/output_dir=runs/mine", ranks=1).stdout)


    def test_a_job_keeps_what_it_has_written_in_folders_whose_maker_died_before_it_had_synced_them(self):
        (self.folder / "runs/mine/checkpoints").mkdir(parents=True)
        for unsynced in ("runs/mine/checkpoints", "runs"):
            with self.subTest(unsynced=unsynced):
                self.run_until_power_fails("/output_dir=runs/mine", "/resume=never", unsynced=self.folder / unsynced)
                self.assertEqual([path.name for path in self.checkpoints("runs/mine")], ["step-00000001.pt", "step-00000002.pt"])


class BadBlocks(JobTest):
    def test_a_checkpoint_that_the_disk_cannot_give_is_passed_over(self):
        job = self.job_file({"checkpoint": {"every_steps": 10}})
        self.run_job(job)
        fault = {"LD_PRELOAD": str(INJECTOR), "FAULT_RANK": "0", "FAULT_AT": "read", "FAULT": str(EIO), "FAULT_PATH": "/step-00000030"}
        plain = self.environment
        self.environment = lambda: {**plain(), **fault}
        done = self.run_job(job)
        self.assertIn("resumed from out/checkpoints/step-00000020.pt", done.stdout)
        self.assertRegex(done.stderr, "checkpoint of step 30 is passed over: cannot read .*/step-00000030.pt after 0 bytes: Input/output error")


class FullDisk(JobTest):
    """/checkpoint/on_write_error=go_on, on a disk that is full while the checkpoints of some steps are written."""

    def run_full(self, steps, expect):
        fault = {"LD_PRELOAD": str(INJECTOR), "FAULT_RANK": "0", "FAULT_AT": "write", "FAULT": str(ENOSPC), "FAULT_PATH": f"/.step-{steps}"}
        plain = self.environment
        self.environment = lambda: {**plain(), **fault}
        job = self.job_file({"backend": "gloo", "checkpoint": {"every_steps": 1, "every_epochs": 0, "keep": 30, "on_write_error": "go_on"}})
        done = self.run_job(job, expect=expect)
        self.environment = plain
        return job, done

    def test_a_job_goes_on_while_the_disk_is_full_says_each_that_is_not_written_and_is_resumed_from_later_ones(self):
        job, done = self.run_full("0000000", expect=0)
        self.assertEqual(re.findall(r"(?m)no checkpoint of step (\d+): .*No space left on device", done.stderr), [str(step) for step in range(1, 10)])
        self.assertEqual([path.stem for path in self.checkpoints()], [f"step-{step:08}" for step in range(10, 31)])
        self.assertEqual(list((self.folder / "out/checkpoints").glob(".*.tmp")), [])
        self.assertIn("resumed from out/checkpoints/step-00000030.pt", self.run_job(job, "/train/epochs=4").stdout)

    def test_a_job_whose_last_checkpoint_is_not_written_does_not_end_well_though_it_was_to_go_on(self):
        _, done = self.run_full("00000030", expect=71)
        self.assertIn("No space left on device", done.stderr)
        self.assertEqual(self.checkpoints()[-1].stem, "step-00000029")


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

    def test_what_its_writer_did_not_live_to_write_is_made_up_for_after_a_resume_from_memory(self):
        os.mkfifo(self.folder / "fifo")
        job = merged(JOB, {"backend": "gloo", "checkpoint": {"memory_every_steps": 1, "every_steps": 1000, "every_epochs": 5, "keep": 10**6}})
        process = self.start(self.job_file(job), "/train/epochs=1000000", flags=("--max-restarts", "1"), ranks=3)
        self.wait_for_line(process, "holding")
        os.kill(self.workers()[0], signal.SIGKILL)
        for line in process.stdout:
            if found := re.search(r"resumed from memory: .* step (\d+)", line):
                break
        else:
            self.fail(self.errors())
        self.wait_for_line(process, "holding")
        with open(self.folder / "fifo", "wb"):
            self.wait_for_line(process, "epoch")
            process.terminate()
            self.finish(process, expect=128 + signal.SIGTERM)
        self.assertIn(f"step-{int(found.group(1)):08}.pt", [path.name for path in self.checkpoints()])

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
