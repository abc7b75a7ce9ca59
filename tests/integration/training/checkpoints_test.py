#!/usr/bin/env python3
"""What a job goes on from: its own line of checkpoints, wherever they lie, read once, to the same bits.

    checkpoints_test.py <folder of the binaries>
"""

import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import unittest
import zipfile

import rollback_test
from jobs import BOUND_S, JobTest
from ports import free_port
from skips import skip

IN_OPEN, IN_CLOSE = 0x20, 0x10


class Opens:
    """Counts how often a file is opened, by anybody."""

    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert libc.inotify_add_watch(self.fd, os.fsencode(path), IN_OPEN | IN_CLOSE) >= 0, os.strerror(ctypes.get_errno())

    def count(self):
        try:
            data = os.read(self.fd, 1 << 16)
        except BlockingIOError:
            data = b""
        os.close(self.fd)
        # Events of a watched file have no name. Two equal ones in a row become one: what is closed in between counts.
        return sum(bool(mask & IN_OPEN) for _, mask, _, _ in struct.iter_unpack("iIII", data))


def tensors(path):
    archive = zipfile.ZipFile(path)
    return {name.split("/data/")[1]: archive.read(name) for name in archive.namelist() if "/data/" in name}


class Lines(JobTest):
    def test_a_checkpoint_that_is_due_after_an_epoch_s_last_step_is_written(self):
        self.run_job(self.job_file({"checkpoint": {"every_steps": 10, "every_epochs": 0}}))  # ten steps an epoch
        self.assertEqual([path.name for path in self.checkpoints()], [f"step-{step:08}.pt" for step in (10, 20, 30)])

    def stop(self, process):
        self.wait_for_line(process, "epoch")
        process.terminate()
        output = self.finish(process, expect=128 + signal.SIGTERM)
        return int(re.search(r"stopped by SIGTERM after step (\d+); the same command goes on from out", output).group(1))

    def test_the_same_command_goes_on_where_a_job_began_from_a_checkpoint(self):
        self.run_job(self.job_file({"output_dir": "base", "train": {"epochs": 1}}))
        begin = self.checkpoints("base")[-1]
        job = self.job_file({"resume": str(begin), "train": {"epochs": 100000}})
        step = self.stop(self.start(job))
        self.assertGreater(step, 10)
        done = self.run_job(job, f"/train/max_steps={step + 3}")
        self.assertIn(f"resumed from out/checkpoints/step-{step:08}.pt", done.stdout)
        self.assertIn(f"this job began from {begin} before, and goes on", done.stdout)

    def test_validate_names_the_checkpoint_that_the_start_goes_on_from(self):
        self.run_job(self.job_file({"output_dir": "base", "train": {"epochs": 1}}))
        begin = self.checkpoints("base")[-1].rename(self.folder / "begin.pt")
        job = self.job_file({"resume": str(begin)})

        def validated():
            done = subprocess.run([str(self.binaries / "ddprun"), "validate", str(job)], cwd=self.folder, env=self.environment(), text=True,
                                  capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        self.assertRegex(validated(), r"start +from .*begin\.pt")
        self.run_job(job)
        begin.unlink()
        self.assertRegex(validated(), r"start +from .*out/checkpoints/step-00000030\.pt .*: nothing is left to do")

    def test_buckets_of_another_size_begin_anew(self):
        job = self.job_file()
        self.run_job(job, "/train/max_steps=5")
        done = self.run_job(job, "/train/max_steps=8", "/ddp/bucket_cap_mb=0.0001")
        self.assertIn("not in the checkpoint, so it begins anew: buckets of this /ddp/bucket_cap_mb", done.stdout)
        self.assertNotIn("begins anew", self.run_job(job, "/train/max_steps=11", "/ddp/bucket_cap_mb=0.0001").stdout)

    def test_an_entry_that_cannot_be_looked_at_keeps_nobody_from_beginning_anew(self):
        job = self.job_file()
        self.run_job(job, "/train/max_steps=5")
        (self.folder / "out/checkpoints/step-00000099.pt").symlink_to("x" * 300)
        self.assertIn("File name too long", self.run_job(job, expect=71).stderr)
        self.assertIn("earlier checkpoints were moved", self.run_job(job, "/resume=never", "/train/max_steps=5").stdout)

    def test_a_job_that_slurm_has_queued_again_goes_on_though_it_was_to_begin_anew(self):
        job = self.job_file({"train": {"epochs": 100000}})
        self.run_job(job, "/train/max_steps=5")
        plain = self.environment
        self.environment = lambda: {**plain(), "SLURM_JOB_ID": "71", "SLURM_RESTART_COUNT": tries}
        tries = "0"
        process = self.start(job, "/resume=never")
        self.wait_for_line(process, "epoch")
        process.terminate()
        output = self.finish(process, expect=128 + signal.SIGTERM)
        step = int(re.search(r"stopped by SIGTERM after step (\d+)", output).group(1))
        tries = "1"
        done = self.run_job(job, "/resume=never", f"/train/max_steps={step + 3}")
        self.assertIn(f"resumed from out/checkpoints/step-{step:08}.pt", done.stdout)

    def test_a_restart_goes_on_though_no_launcher_of_before_is_there_any_more_where_the_coordinator_is_the_same(self):
        meeting = subprocess.Popen([str(self.binaries / "ddprun"), "coordinator", "--bind", "127.0.0.1:0", "--nnodes", "2", "--max-restarts", "9"],
                                   env=self.environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(self.end_what_runs, meeting)
        port = int(meeting.stdout.readline())
        job = self.job_file({"train": {"epochs": 100000}, "checkpoint": {"every_steps": 5, "every_epochs": 0, "keep": 2}})
        pod = ("--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{port}")

        def start(*settings):
            return [self.start(job, "/resume=never", *settings, ranks=1, flags=pod) for _ in range(2)]

        first = start()
        while not self.checkpoints():
            self.assertIsNone(first[0].poll(), self.errors())
        for launcher in first:  # as a pod ends, with all that is in it
            launcher.kill()
            launcher.wait()
        while self.workers():
            pass
        step = int(self.checkpoints()[-1].stem.split("-")[1])
        outputs = [self.finish(launcher, expect=0) for launcher in start(f"/train/max_steps={step + 3}")]
        self.assertIn(f"resumed from out/checkpoints/step-{step:08}.pt", "".join(outputs))

    def test_a_run_that_begins_anew_takes_nothing_of_an_earlier_one_of_its_id_when_a_rank_dies_at_its_start(self):
        job = self.job_file()
        flags = ("--rdzv-id", "cifar-17", "--max-restarts", "1")
        self.run_job(job, "/train/max_steps=5", flags=flags)
        process = self.start(job, "/resume=never", flags=flags)
        while 0 not in self.workers():
            self.assertIsNone(process.poll(), self.errors())
        os.kill(self.workers()[0], signal.SIGKILL)  # before it has met the other rank, let alone looked at the folder
        output = self.finish(process, expect=0)
        self.assertIn("restart 1 of 1", self.errors())
        self.assertNotIn("resumed", output)
        self.assertIn("earlier checkpoints were moved", output)


class Finite(JobTest):
    def write_data(self, scale):
        """Images of two classes; in each the first norm of a model meets numbers as large as `scale`."""
        for split, count in (("train", 16), ("test", 8)):
            rollback_test.write_npy(self.folder / f"{split}_x.npy", (count, 1, 8, 8), [scale * ((i * 37) % 101 - 50) for i in range(64 * count)])
            rollback_test.write_npy(self.folder / f"{split}_y.npy", (count,), [i % 2 for i in range(count)])

    def test_what_is_not_finite_comes_to_no_disk_and_takes_no_good_checkpoint_s_place(self):
        job = self.job_file({"model": {"type": "resnet20"}, "data": {"type": "npy", "path": ".", "classes": 2},
                             "train": {"epochs": 9, "batch_size": 4}, "checkpoint": {"every_steps": 1, "keep": 2}})
        self.write_data(1)
        self.run_job(job, "/train/max_steps=3")
        before = {path.name: path.read_bytes() for path in self.checkpoints()}
        self.write_data(1e30)  # the loss stays finite, and the running variance does not
        done = self.run_job(job, expect=78)
        self.assertIn("bn1.running_var holds something else than finite numbers after step 4, so no checkpoint is written", done.stderr)
        self.assertEqual({path.name: path.read_bytes() for path in self.checkpoints()}, before)
        self.assertEqual(list(before), ["step-00000002.pt", "step-00000003.pt"])


    def test_what_was_not_finite_in_the_weights_that_a_job_began_with_keeps_it_from_no_resume(self):
        self.write_data(1)
        job = {"model": {"type": "resnet20"}, "data": {"type": "npy", "path": ".", "classes": 2}, "train": {"epochs": 9, "batch_size": 4}}
        base = self.job_file({**job, "output_dir": "base"}, name="base.json")
        self.run_job(base, "/train/max_steps=2")
        weights = self.folder / "w.safetensors"
        subprocess.run([str(self.binaries / "ddprun"), "export", str(base), "--output", str(weights)], cwd=self.folder, check=True,
                       capture_output=True, env=self.environment())
        bytes_ = bytearray(weights.read_bytes())
        (size,) = struct.unpack("<Q", bytes_[:8])
        begin = 8 + size + json.loads(bytes_[8:8 + size])["bn1.running_var"]["data_offsets"][0]
        bytes_[begin:begin + 4] = struct.pack("<f", float("inf"))
        weights.write_bytes(bytes_)
        tuned = self.job_file({**job, "model": {"type": "resnet20", "weights": str(weights)}})
        self.run_job(tuned, "/train/max_steps=2")
        done = self.run_job(tuned, "/train/max_steps=4")
        self.assertIn("resumed from out/checkpoints/step-00000002.pt", done.stdout)
        process = self.start(tuned, "/checkpoint/memory_every_steps=1", "/checkpoint/every_epochs=0", "/train/epochs=400", "/resume=never",
                             flags=("--max-restarts", "1"))
        self.wait_for_line(process, "epoch")
        os.kill(self.workers()[1], signal.SIGKILL)
        self.assertIn("resumed from memory", self.finish(process, expect=0))


class Volumes(JobTest):
    """The folder of the checkpoints is a mount point."""

    def run_on_volume(self, tries, *settings):
        (self.folder / "out/checkpoints").mkdir(parents=True, exist_ok=True)
        (self.folder / "volume").mkdir(exist_ok=True)
        inside = ("unshare", "-m", "sh", "-c", 'mount --bind volume out/checkpoints && exec "$@"', "-")
        if shutil.which("unshare") is None or subprocess.run([*inside, "true"], cwd=self.folder, capture_output=True, check=False).returncode != 0:
            skip("needs a mount namespace (unshare -m as root)")
        job = self.job_file({"checkpoint": {"every_steps": 4, "every_epochs": 0}})
        done = subprocess.run([*inside, *self.command(job, "/resume=never", *settings, ranks=1)], cwd=self.folder, text=True, check=False,
                              env={**self.environment(), "SLURM_JOB_ID": "71", "SLURM_RESTART_COUNT": tries}, capture_output=True, timeout=BOUND_S)
        self.assertEqual(done.returncode, 0, f"stdout:\n{done.stdout}\nstderr:\n{done.stderr}")
        return done.stdout

    def files(self, below=""):
        return [path.name for path in sorted((self.folder / "volume" / below).glob("*.pt"))]

    def test_a_restart_whose_newest_checkpoint_is_damaged_goes_on_and_moves_it_to_a_folder_in_the_volume(self):
        self.run_on_volume("0", "/train/max_steps=12")
        os.truncate(self.folder / "volume/step-00000012.pt", 100)
        output = self.run_on_volume("1", "/train/max_steps=16")
        self.assertIn("later checkpoints were moved to out/checkpoints/old-1", output.replace(f"{self.folder}/", ""))
        self.assertIn("resumed from out/checkpoints/step-00000008.pt", output)
        self.assertEqual(self.files("old-1"), ["step-00000012.pt"])
        self.assertEqual(os.path.getsize(self.folder / "volume/old-1/step-00000012.pt"), 100)

    def test_a_job_that_begins_anew_moves_earlier_checkpoints_to_a_folder_in_the_volume(self):
        self.run_on_volume("0", "/train/max_steps=12")
        output = self.run_on_volume("0", "/train/max_steps=4", "/checkpoint/keep=1", "/checkpoint/best=1")
        self.assertIn("earlier checkpoints were moved to out/checkpoints/old-1", output.replace(f"{self.folder}/", ""))
        self.assertEqual(self.files("old-1"), [f"step-{step:08}.pt" for step in (4, 8, 12)])
        self.assertEqual([name for name in self.files() if name.startswith("step")], ["step-00000004.pt"])


class OtherDisks(JobTest):
    """Two nodes on one machine; each has a folder of its own for the disk that it would have."""

    def run_on_two(self, job, first, second, *settings):
        flags = ("--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--node-rank")
        one = self.start(job, f"/output_dir={first}", *settings, ranks=1, flags=(*flags, "0"))
        two = subprocess.run(self.command(job, f"/output_dir={second}", *settings, ranks=1, flags=(*flags, "1")), cwd=self.folder,
                             env=self.environment(), text=True, capture_output=True, timeout=BOUND_S, check=False)
        output = self.finish(one, expect=0)
        self.assertEqual(two.returncode, 0, two.stderr)
        return output

    def test_a_job_whose_rank_zero_has_another_disk_goes_on_from_where_the_checkpoint_is(self):
        job = self.job_file({"checkpoint": {"every_steps": 7}})
        self.run_on_two(job, "whole", "unused")
        self.run_on_two(job, "a", "b", "/train/max_steps=14")
        output = self.run_on_two(job, "b", "a")
        self.assertRegex(output, r"rank 0 on \S+ has no checkpoint in \S+/b/checkpoints; the one of rank 1 on \S+ is taken")
        self.assertIn("a/checkpoints/step-00000014.pt: 1 of 3 epochs done, step 14", output)
        self.assertEqual(tensors(self.checkpoints("whole")[-1]), tensors(self.checkpoints("b")[-1]))

    def test_the_newest_of_a_line_is_taken_whichever_host_has_it(self):
        job = self.job_file({"checkpoint": {"every_steps": 7}})
        self.run_on_two(job, "whole", "unused")
        self.run_on_two(job, "a", "b", "/train/max_steps=7")
        self.run_on_two(job, "b", "a", "/train/max_steps=14")
        output = self.run_on_two(job, "a", "b")
        self.assertRegex(output, r"rank 0 on \S+ has the checkpoint of step 7 in \S*a/checkpoints; the one of step 14 of rank 1 on \S+ is newer")
        self.assertIn("b/checkpoints/step-00000014.pt: 1 of 3 epochs done, step 14", output)
        self.assertEqual(tensors(self.checkpoints("whole")[-1]), tensors(self.checkpoints("a")[-1]))

    def test_a_damaged_checkpoint_of_another_host_is_told_with_that_host(self):
        job = self.job_file({"checkpoint": {"every_steps": 7}})
        self.run_on_two(job, "a", "b", "/train/max_steps=14")
        os.truncate(self.checkpoints("a")[-1], 100)
        output = self.run_on_two(job, "b", "a")
        self.assertRegex(self.errors(), rf"checkpoint of step 14 is passed over: on {socket.gethostname()}: ")
        self.assertIn("resumed from a/checkpoints/step-00000010.pt", output)

    def test_a_job_that_began_from_a_checkpoint_goes_on_from_the_host_that_has_its_newest(self):
        self.run_job(self.job_file(), "/output_dir=base", "/train/max_steps=5")
        job = self.job_file({"resume": str(self.checkpoints("base")[-1])})
        self.run_on_two(job, "a", "b", "/train/max_steps=9")
        output = self.run_on_two(job, "b", "a")
        self.assertIn("a/checkpoints/step-00000009.pt: 0 of 3 epochs done, step 9", output)

    def test_a_newer_checkpoint_of_another_line_on_another_host_is_told_and_left(self):
        job = self.job_file()
        self.run_on_two(job, "b", "a", "/train/max_steps=9")
        self.run_on_two(job, "a", "c", "/train/max_steps=7")
        one = self.run_on_two(job, "a", "b")
        self.assertIn("resumed from a/checkpoints/step-00000007.pt", one)
        self.assertRegex(self.errors(), r"rank 1 on \S+ has the checkpoint of step 9 of another line, \S*b/checkpoints/step-00000009.pt; it is not taken")

    def test_a_restart_of_a_job_that_began_anew_takes_no_checkpoint_of_an_earlier_one(self):
        self.run_on_two(self.job_file(), "b", "a", "/train/max_steps=9")
        job = self.job_file({"resume": "never", "train": {"epochs": 1000000}, "checkpoint": {"every_epochs": 0}})
        flags = ("--nnodes", "2", "--max-restarts", "1", "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--node-rank")
        one = self.start(job, "/output_dir=a", ranks=1, flags=(*flags, "0"))
        two = subprocess.Popen(self.command(job, "/output_dir=b", ranks=1, flags=(*flags, "1")), cwd=self.folder, env=self.environment(),
                               text=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with two:
            self.wait_for_line(one, "epoch")
            victim = self.workers()[1]
            os.kill(victim, signal.SIGKILL)
            said = []
            for line in one.stdout:
                said.append(line)
                if line.startswith("epoch") and self.workers().get(1, victim) != victim:
                    break
            one.terminate()
            one.communicate(timeout=BOUND_S)
            two.wait(timeout=BOUND_S)
        self.assertNotIn("resumed", "".join(said))

    def test_what_another_job_has_left_where_rank_zero_comes_to_is_moved_and_not_removed(self):
        self.run_job(self.job_file(), "/output_dir=base", "/train/max_steps=2")
        plain = self.environment
        for resume in ("never", str(self.checkpoints("base")[-1])):
            with self.subTest(resume=resume):
                out, other = f"a{len(resume)}", f"b{len(resume)}"
                self.environment = plain
                job = self.job_file({"checkpoint": {"every_steps": 4, "every_epochs": 0, "keep": 2}})
                self.run_job(job, f"/output_dir={other}", "/train/max_steps=8")
                left = [tensors(path) for path in self.checkpoints(other)]
                # Slurm's numbers make the second start one of the same job.
                self.environment = lambda: {**plain(), "SLURM_JOB_ID": "71", "SLURM_RESTART_COUNT": tries}
                tries = "0"
                self.run_on_two(job, out, other, f"/resume={resume}", "/train/max_steps=12")
                tries = "1"
                output = self.run_on_two(job, other, out, f"/resume={resume}", "/train/max_steps=24")
                self.assertIn(f"{out}/checkpoints/step-00000012.pt: 1 of 3 epochs done, step 12", output)
                self.assertRegex(output, rf"checkpoints that are not of this job's line were moved to \S*{other}/checkpoints.old-1")
                self.assertEqual([tensors(path) for path in sorted((self.folder / other / "checkpoints.old-1").iterdir())], left)
                self.assertEqual([path.stem for path in self.checkpoints(other)], ["step-00000020", "step-00000024"])

    def test_what_a_line_had_beyond_where_a_restart_goes_on_is_moved(self):
        plain = self.environment
        job = self.job_file({"checkpoint": {"every_steps": 4, "every_epochs": 0, "keep": 9}})
        self.run_job(job, "/output_dir=a", "/train/max_steps=12")
        (self.folder / "b/checkpoints").mkdir(parents=True)
        shutil.copy(self.folder / "a/checkpoints/step-00000008.pt", self.folder / "b/checkpoints")
        self.environment = lambda: {**plain(), "SLURM_JOB_ID": "71", "SLURM_RESTART_COUNT": tries}
        tries = "0"
        self.run_on_two(job, "b", "c", "/train/max_steps=10")
        tries = "1"
        output = self.run_on_two(job, "a", "b", "/train/max_steps=11")
        self.assertIn("b/checkpoints/step-00000010.pt: 1 of 3 epochs done, step 10", output)
        self.assertEqual([path.stem for path in self.checkpoints("a")], ["step-00000004", "step-00000008", "step-00000011"])
        self.assertEqual([path.stem for path in (self.folder / "a/checkpoints.old-1").iterdir()], ["step-00000012"])

    def test_a_restart_goes_on_with_its_own_job_and_not_with_an_older_one_that_lies_where_rank_zero_comes_to(self):
        plain = self.environment
        for older in (8, 20):
            with self.subTest(older=older):
                out, other = f"a{older}", f"b{older}"
                job = self.job_file()
                self.environment = plain
                self.run_job(job, f"/output_dir={other}", f"/train/max_steps={older}")
                self.environment = lambda: {**plain(), "SLURM_JOB_ID": "71", "SLURM_RESTART_COUNT": tries}
                tries = "0"
                self.run_on_two(job, out, "unused", "/train/max_steps=12")
                tries = "1"
                output = self.run_on_two(job, other, out, "/train/max_steps=16")
                self.assertIn(f"resumed from {out}/checkpoints/step-00000012.pt", output)
                self.assertRegex(output, rf"checkpoints that are not of this job's line were moved to \S*{other}/checkpoints.old-1")
                self.assertEqual([path.stem for path in self.checkpoints(other)], ["step-00000016"])

    def test_a_link_to_nothing_on_another_host_is_no_checkpoint_there_and_said(self):
        os.symlink("/nowhere/scratch", self.folder / "runs")
        plain = self.environment
        self.environment = lambda: {**plain(), "SLURM_JOB_ID": "71", "SLURM_RESTART_COUNT": tries}
        told = r"rank 1 on \S+: \S*runs is a link to /nowhere/scratch, where nothing is; if this job has checkpoints there"
        for tries, resume, output in (("0", "auto", "a"), ("1", "auto", "b"), ("1", "never", "c")):
            with self.subTest(tries=tries, resume=resume):
                self.run_on_two(self.job_file(), output, "runs/out", "/train/max_steps=4", f"/resume={resume}")
                self.assertRegex(self.errors(), told)

    def test_what_another_host_has_of_another_line_is_told_at_the_start_and_not_with_each_rollback(self):
        job = rollback_test.Rollback.job(self)
        self.run_on_two(job, "b", "x", "/train/epochs=2", "/checkpoint/keep=1")
        self.run_on_two(job, "a", "y", "/train/max_steps=2")
        self.run_on_two(job, "a", "b", "/train/max_steps=12")
        self.assertIn("rollback 1 of 3", self.errors())
        self.assertEqual(self.errors().count("of another line"), 1, self.errors())

    def test_a_job_for_which_no_host_has_a_checkpoint_begins(self):
        self.assertNotIn("resumed", self.run_on_two(self.job_file(), "a", "b"))


class Reads(JobTest):
    def test_a_checkpoint_is_read_once_for_all_ranks(self):
        job = self.job_file()
        self.run_job(job, "/train/max_steps=7", ranks=3)
        opens = Opens(self.checkpoints()[-1])
        self.run_job(job, "/train/max_steps=9", ranks=3)
        self.assertEqual(opens.count(), 1)


class SameBits(JobTest):
    """More than two ranks: the order in which a ring sums depends on the bucket that a gradient is in."""

    JOB = {"model": {"type": "mnist_cnn"}, "data": {"train_samples": 120}, "train": {"epochs": 4, "batch_size": 4},
           "optimizer": {"type": "adamw", "learning_rate": 0.003}, "checkpoint": {"every_steps": 1, "keep": 2}}

    def assert_same_end(self, one, other):
        first, second = tensors(self.checkpoints(one)[-1]), tensors(self.checkpoints(other)[-1])
        self.assertEqual(first.keys(), second.keys())
        self.assertEqual([name for name in first if first[name] != second[name]], [])

    def test_three_and_four_ranks_end_with_the_bits_of_an_undisturbed_run(self):
        for backend, ranks in (("gloo", 3), ("shm", 4)):
            with self.subTest(backend=backend, ranks=ranks):
                job = self.job_file(self.JOB | {"backend": backend, "ddp": {"bucket_cap_mb": 0.5}})
                whole, parts = f"{backend}-whole", f"{backend}-parts"
                self.run_job(job, f"/output_dir={whole}", ranks=ranks)
                for stop in (1, 2, 5, 13):
                    self.run_job(job, f"/output_dir={parts}", f"/train/max_steps={stop}", ranks=ranks)
                self.run_job(job, f"/output_dir={parts}", ranks=ranks)
                self.assert_same_end(whole, parts)

    def test_three_ranks_that_are_killed_end_with_the_bits_of_an_undisturbed_run(self):
        job = self.job_file(self.JOB | {"backend": "shm"})
        self.run_job(job, "/output_dir=whole", "/train/epochs=12", ranks=3)
        process = self.start(job, "/output_dir=parts", "/train/epochs=12", ranks=3, flags=("--max-restarts", "2"))
        for victim in (2, 0):
            self.wait_for_line(process, "epoch")
            os.kill(self.workers()[victim], signal.SIGKILL)
        self.finish(process, expect=0)
        self.assert_same_end("whole", "parts")


class OtherWorlds(JobTest):
    def test_an_epoch_that_another_world_began_ends(self):
        # 5 of 24 samples are seen when the world becomes larger.
        for drop_last in (False, True):
            with self.subTest(drop_last=drop_last):
                job = self.job_file({"data": {"train_samples": 24}, "output_dir": f"drop-{drop_last}",
                                     "train": {"epochs": 2, "batch_size": 1, "drop_last": drop_last}})
                self.run_job(job, "/train/max_steps=5", ranks=1)
                done = self.run_job(job, ranks=4)
                # 19 are left: 5 steps, or 4, and three samples of the epoch are left out; then a whole epoch of 6.
                self.assertIn(f"done: 2 of 2 epochs, {5 + 4 + 6 if drop_last else 5 + 5 + 6} steps", done.stdout)

    def test_the_rest_of_an_epoch_comes_once_and_counts_alike(self):
        """What is left after 8 samples is one step: of five ranks that do not divide it, and of one that has it whole."""
        for samples, on_five in ((20, "3, 3, 2, 2 and 2"), (10, "1, 1 and three that have none")):
            with self.subTest(on_five):
                ends = []
                for ranks, batch_size in ((5, 4), (1, samples - 8)):
                    job = self.job_file({"model": {"dropout": 0}, "data": {"train_samples": samples}, "output_dir": f"{samples}-{ranks}",
                                         "train": {"epochs": 1, "batch_size": 4}, "optimizer": {"learning_rate": 0.5}})
                    self.run_job(job, "/train/max_steps=1")
                    self.run_job(job, f"/train/batch_size={batch_size}", ranks=ranks)
                    epoch = self.metrics("epoch", f"{samples}-{ranks}")[-1]
                    ends.append((epoch["loss"], epoch["held_out_loss"]))
                    self.assertEqual(epoch["step"], 2)
                for of_five, of_one in zip(*ends):
                    self.assertAlmostEqual(of_five, of_one, delta=2e-6 * of_one)

    def test_a_batch_norm_gets_no_batch_of_one_sample_when_the_world_changes(self):
        job = self.job_file({"model": {"type": "resnet18"}, "data": {"train_samples": 22, "test_samples": 8},
                             "train": {"epochs": 2, "batch_size": 4}, "checkpoint": {"every_steps": 1}})
        self.run_job(job, "/train/max_steps=1", ranks=2)
        self.run_job(job, "/train/max_steps=2", ranks=3)  # of 14: 3 or 2 on each, and then 2, not 4 and then 1
        self.run_job(job, ranks=2)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
