#!/usr/bin/env python3
"""Trains with the real ddprun and real workers: what a job prints, keeps, resumes from, and how it ends."""

import fcntl
import json
import os
import pathlib
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
import unittest
import zipfile
import zlib

from jobs import BOUND_S, DIGITS, SMALL_JOB, JobTest
from patience import patient
from ports import free_port

class Output(JobTest):
    def test_a_job_says_one_line_per_epoch_and_where_everything_lies(self):
        done = self.run_job(self.job_file())
        epochs = re.findall(r"^epoch (\d)/3  loss \d\.\d{4}  accuracy \d+\.\d\d %  [\d,]+ images/s  \d+\.\d s$", done.stdout, re.M)
        self.assertEqual(epochs, ["1", "2", "3"])
        self.assertRegex(done.stdout, r"(?m)^done: 3 of 3 epochs, 30 steps in \d+\.\d s, accuracy \d+\.\d\d % on 100 held-out images$")
        for path in ["out/checkpoints/step-00000030.pt", "out/metrics.jsonl", "out/job.json"]:
            self.assertIn(path, done.stdout)
            self.assertTrue((self.folder / path).exists(), path)

    def test_a_pipe_gets_no_live_line(self):
        done = self.run_job(self.job_file())
        self.assertNotIn("\r", done.stdout + done.stderr)
        self.assertNotIn("\x1b", done.stdout + done.stderr)

    def test_metrics_are_json_lines(self):
        self.run_job(self.job_file({"log": {"every_steps": 5}}))
        epochs = self.metrics("epoch")
        self.assertEqual([record["epoch"] for record in epochs], [1, 2, 3])
        self.assertLess(epochs[2]["loss"], epochs[0]["loss"])
        self.assertEqual([record["step"] for record in self.metrics("step")], [5, 10, 15, 20, 25, 30])

    def test_where_the_time_went_adds_up_on_each_rank(self):
        self.run_job(self.job_file())
        end = self.metrics("end")[-1]
        self.assertEqual(len(end["time_spent"]), 2)
        for parts in end["time_spent"]:
            self.assertEqual(set(parts), {"loader", "forward", "backward", "exposed_communication", "optimizer", "evaluation",
                                          "checkpoint", "other"})
            self.assertTrue(all(seconds > 0 for seconds in parts.values()), parts)
            self.assertAlmostEqual(sum(parts.values()), end["seconds"], delta=0.05 * end["seconds"])

    def test_a_full_disk_under_the_metrics_is_said_and_stops_no_training(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/metrics.jsonl").symlink_to("/dev/full")
        done = self.run_job(self.job_file({"log": {"every_steps": 10}}))
        said = re.findall(r"(?m)^ddprun-worker: cannot write to metrics file .*$", done.stderr)
        self.assertEqual(len(said), 1, done.stderr)
        self.assertRegex(said[0], r"out/metrics.jsonl: No space left on device.*; the training goes on$")
        # start, 3 steps, 3 epochs, 3 checkpoints
        self.assertRegex(done.stdout, r"(?m)^  metrics +out/metrics.jsonl \(10 records could not be written\)$")

    def test_a_folder_in_the_place_of_the_report_is_said_and_the_report_not_claimed(self):
        (self.folder / "out/report.html").mkdir(parents=True)
        done = self.run_job(self.job_file())
        self.assertRegex(done.stderr, r"cannot write \S+/out/report.html: Is a directory; the training goes on")
        self.assertRegex(done.stdout, r"(?m)^  report +not written: out/report.html is a folder$")

    def test_a_stdout_that_nobody_reads_any_more_is_said_and_stops_no_training(self):
        process = self.start(self.job_file())
        self.wait_for_line(process, "backend")
        process.stdout.close()
        self.assertEqual(process.wait(timeout=BOUND_S), 0, self.errors())
        self.assertEqual(len(self.checkpoints()), 3)
        self.assertEqual(self.errors().count("ddprun-worker: nobody reads stdout any more; the training goes on"), 1)

    def shown_on_a_terminal(self, command, columns, stdout=None):
        """What a program that ends with 0 draws on a terminal; stdout=PIPE leaves its stdout out."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        environment = {**self.environment(), "TERM": "xterm"}
        with subprocess.Popen(command, cwd=self.folder, env=environment, stdin=slave, stdout=stdout or slave, stderr=slave) as process:
            os.close(slave)
            shown = b""
            while True:
                try:
                    part = os.read(master, 4096)
                except OSError:
                    break
                if not part:
                    break
                shown += part
            if process.stdout:
                process.stdout.read()
        os.close(master)
        self.assertEqual(process.returncode, 0, shown)
        return shown.decode()

    def test_a_narrow_terminal_gets_a_live_line_that_fits(self):
        job = self.job_file({"train": {"epochs": 20}, "log": {"progress": "auto"}})
        shown = self.shown_on_a_terminal([self.binaries / "ddprun-worker", job], 30, subprocess.PIPE)
        lines = re.split(r"\r\x1b\[K|\r\n", shown)
        drawn = [text for text in lines if text.startswith("ep ")]
        self.assertTrue(drawn)
        self.assertTrue(all(len(text) <= 29 for text in drawn), drawn)
        self.assertEqual(lines[-1], "", "the last thing is to take it away")

    def test_under_ddprun_a_line_takes_the_place_of_the_live_line(self):
        job = self.job_file({"data": {"train_samples": 8000}, "log": {"progress": "auto"}})
        shown = self.shown_on_a_terminal([self.binaries / "ddprun", "--nproc-per-node", "2", job], 100)
        self.assertIn("\r\x1b[Kepoch", shown)
        lines = [line.split("\r\x1b[K")[-1] for line in shown.split("\r\n")]
        self.assertEqual([line for line in lines if " left" in line], [])
        self.assertEqual([line[:9] for line in lines if line.startswith("epoch")], ["epoch 1/3", "epoch 2/3", "epoch 3/3"])

    def test_the_number_of_ranks_does_not_change_what_an_evaluation_counts(self):
        # 103 samples do not divide by 2 or 3: padded duplicates would show.
        accuracy = {}
        self.run_job(self.job_file({"output_dir": "first", "data": {"test_samples": 103}}), ranks=1)
        checkpoint = self.checkpoints("first")[-1]
        for ranks in (1, 2, 3):
            output = f"ranks-{ranks}"
            self.run_job(self.job_file({"output_dir": output, "data": {"test_samples": 103}, "resume": str(checkpoint),
                                        "train": {"max_steps": 0, "epochs": 4}, "optimizer": {"learning_rate": 1e-30, "momentum": 0}}),
                         ranks=ranks)
            record = self.metrics("epoch", output)[-1]
            accuracy[ranks] = (record["accuracy"], round(record["held_out_loss"], 9))
        self.assertEqual(accuracy[1], accuracy[2])
        self.assertEqual(accuracy[1], accuracy[3])


class Alone(JobTest):
    def test_a_worker_started_by_hand_is_a_world_of_one(self):
        job = self.job_file({"backend": "auto"})
        done = subprocess.run([self.binaries / "ddprun-worker", job, "--set", "/train/epochs=1"], cwd=self.folder, text=True,
                              env=self.environment(), capture_output=True, timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("epoch 1/1", done.stdout)


class Resume(JobTest):
    def test_a_resumed_job_ends_with_the_same_bytes_as_an_uninterrupted_one(self):
        for backend in ("gloo", "shm"):
            for stop in (10, 13):  # at the end of an epoch, and inside one
                with self.subTest(backend=backend, stop=stop):
                    whole, parts = f"{backend}-{stop}-whole", f"{backend}-{stop}-parts"
                    base = self.job_file({"backend": backend, "checkpoint": {"every_steps": 13},
                                          "train": {"mixup_alpha": 0.4, "cutmix_alpha": 1}, "model": {"type": "mnist_cnn"},
                                          "optimizer": {"type": "adamw", "learning_rate": 0.003}})
                    self.run_job(base, f"/output_dir={whole}")
                    self.run_job(base, f"/output_dir={parts}", f"/train/max_steps={stop}")
                    done = self.run_job(base, f"/output_dir={parts}", "/train/max_steps=30")
                    self.assertIn(f"resumed from {parts}/checkpoints/step-{stop:08}.pt: {stop // 10} of 3 epochs done, step {stop}", done.stdout)
                    self.assert_same_training_state(self.checkpoints(whole)[-1], self.checkpoints(parts)[-1])

    def assert_same_training_state(self, one, other):
        # The job file inside differs (output_dir, max_steps); tensors do not. They are compared as records of the archive.
        first, second = zipfile.ZipFile(one), zipfile.ZipFile(other)
        names = [name for name in first.namelist() if "/data/" in name]
        self.assertGreater(len(names), 8)
        for name in names:
            self.assertEqual(first.read(name), second.read(name), name)

    def test_a_finished_job_says_that_it_is_complete_and_how_to_go_on(self):
        job = self.job_file()
        self.run_job(job)
        done = self.run_job(job)
        self.assertRegex(done.stdout, r"training is complete: 3 of 3 epochs, step 30, accuracy \d+\.\d\d %")
        self.assertIn("to train on    --set /train/epochs=6", done.stdout)
        more = self.run_job(job, "/train/epochs=4")
        self.assertIn("epoch 4/4", more.stdout)
        self.assertNotIn("epoch 3/4", more.stdout)

    def test_resume_never_starts_anew_and_keeps_what_was_there(self):
        job = self.job_file({"train": {"epochs": 1}})
        self.run_job(job)
        done = self.run_job(job, "/resume=never")
        self.assertIn("epoch 1/1", done.stdout)
        self.assertTrue((self.folder / "out/checkpoints.old-1/step-00000010.pt").exists())

    def test_a_truncated_newest_checkpoint_is_passed_over_aloud(self):
        job = self.job_file()
        self.run_job(job)
        newest = self.checkpoints()[-1]
        os.truncate(newest, newest.stat().st_size // 2)
        done = self.run_job(job)
        self.assertIn("checkpoint of step 30 is passed over: cannot read", done.stderr)
        self.assertIn("resumed from out/checkpoints/step-00000020.pt: 2 of 3 epochs done, step 20", done.stdout)
        self.assertIn("epoch 3/3", done.stdout)

    def test_only_damaged_checkpoints_stop_the_job(self):
        job = self.job_file({"train": {"epochs": 1}})
        self.run_job(job)
        for checkpoint in self.checkpoints():
            os.truncate(checkpoint, 100)
        done = self.run_job(job, expect=78)
        self.assertRegex(done.stderr, r"no checkpoint in \S+ can be read \(1 tried\)")
        self.assertIn("start anew with --set /resume=never", done.stderr)

    def test_a_checkpoint_of_another_model_is_refused_with_its_shapes(self):
        job = self.job_file({"train": {"epochs": 1}})
        self.run_job(job)
        done = self.run_job(job, "/model/hidden=[32]", expect=78)
        self.assertIn("cannot resume from out/checkpoints/step-00000010.pt: the weights are of another model: "
                      "layers.1.weight is Float [16, 784], this model has Float [32, 784]", done.stderr)

    def test_another_world_size_goes_on_from_the_same_sample(self):
        job = self.job_file({"checkpoint": {"every_steps": 5}, "train": {"max_steps": 5}})
        self.run_job(job, ranks=2)
        done = self.run_job(job, "/train/max_steps=0", "/train/epochs=1", ranks=1)
        # 5 steps of 2 × 16 samples are done; 160 of 320 are left: 10 steps of 16.
        self.assertEqual(self.checkpoints()[-1].name, "step-00000015.pt", done.stdout)


class OtherWorlds(JobTest):
    def test_a_cosine_goes_on_with_its_rate_in_another_world(self):
        job = self.job_file({"train": {"epochs": 4, "batch_size": 10}, "log": {"every_steps": 1},
                             "schedule": {"type": "cosine"}, "checkpoint": {"every_steps": 32}})
        self.run_job(job, ranks=2)
        rates = self.rates("out")  # 16 steps an epoch, 64 in all
        half = self.checkpoints()[1]
        self.assertEqual(half.name, "step-00000032.pt")
        for ranks, rest in ((4, 16), (1, 64)):
            with self.subTest(ranks=ranks):
                done = self.run_job(job, f"/resume={half}", f"/output_dir=to_{ranks}", ranks=ranks)
                self.assertIn(f"the world has changed: 2 ranks and a global batch of 20 before, {ranks} and {10 * ranks} now",
                              done.stdout)
                changed = self.rates(f"to_{ranks}")
                self.assertEqual(changed[33], rates[33])
                self.assertEqual(max(changed), 32 + rest)
                self.assertLess(changed[32 + rest], 0.1 * changed[33])

    def rates(self, output):
        return {record["step"]: record["learning_rate"] for record in self.metrics("step", output)}

    def test_a_job_drained_at_the_end_of_an_epoch_goes_on_in_any_world(self):
        # One step is an epoch: whenever the signal comes, an epoch ends with the last step. Three ranks repeat two of
        # the ten samples.
        for before, after in ((3, 2), (3, 1), (2, 3)):
            with self.subTest(before=before, after=after):
                out = f"{before}_{after}"
                job = self.job_file({"data": {"train_samples": 10}, "train": {"epochs": 1000000, "batch_size": 10},
                                     "checkpoint": {"every_epochs": 0}, "output_dir": out})
                process = self.start(job, "/train/eval_every_epochs=0", ranks=before)
                self.wait_for_line(process, "epoch")
                process.terminate()
                output = self.finish(process, expect=128 + signal.SIGTERM)
                step = int(re.search(r"stopped by SIGTERM after step (\d+)", output).group(1))
                done = self.run_job(job, f"/train/epochs={step + 2}", ranks=after)
                self.assertIn(f"done: {step + 2} of {step + 2} epochs, {step + 2} steps", done.stdout)


class Weights(JobTest):
    CNN = {"model": {"type": "mnist_cnn"}, "data": {"train_samples": 64}, "train": {"epochs": 1}}

    def tensors(self, path):
        archive = zipfile.ZipFile(path)
        return {name.split("/data/")[1]: archive.read(name) for name in archive.namelist() if "/data/" in name}

    def test_a_model_begins_with_the_weights_of_a_file_and_what_is_frozen_stays(self):
        self.run_job(self.job_file(self.CNN))
        weights = self.checkpoints()[-1]
        changes = self.CNN | {"model": {"type": "mnist_cnn", "weights": str(weights), "freeze": ["conv*"]},
                              "output_dir": "fine", "log": {"summary": True}}
        done = self.run_job(self.job_file(changes))
        self.assertRegex(done.stdout, r"conv1 +Conv2d")
        before, after = self.tensors(weights), self.tensors(self.checkpoints("fine")[-1])
        # conv1 and conv2, weight and bias, are the first four tensors; fc1 and fc2 follow.
        self.assertEqual([before[str(i)] == after[str(i)] for i in range(8)], [True] * 4 + [False] * 4)

    def test_a_model_begins_with_the_average_of_a_checkpoint_that_has_one_or_with_the_weights_beside_it(self):
        self.run_job(self.job_file(self.CNN | {"train": {"epochs": 1, "ema_decay": 0.5}}))
        weights = self.checkpoints()[-1]
        found = {}
        for which in ("auto", "average", "model"):
            model = {"type": "mnist_cnn", "weights": str(weights), "weights_of": which}
            frozen = self.CNN | {"model": model, "output_dir": which, "optimizer": {"learning_rate": 1e-30, "momentum": 0}}
            done = self.run_job(self.job_file(frozen), "/train/epochs=1")
            self.assertEqual("the model begins with the average of the weights in out/checkpoints/" in done.stdout, which != "model")
            found[which] = [self.tensors(self.checkpoints(which)[-1])[str(i)] for i in range(8)]
        before = self.tensors(weights)
        self.assertEqual(found["model"], [before[str(i)] for i in range(8)])
        self.assertEqual(found["auto"], found["average"])
        self.assertTrue(all(tensor in before.values() for tensor in found["average"]))
        self.assertFalse(any(ours == theirs for ours, theirs in zip(found["average"], found["model"])))

    def test_weights_that_do_not_fit_are_refused_once_with_their_names(self):
        self.run_job(self.job_file(self.CNN))
        for model, reason in (({"type": "two_conv", "weights": str(self.checkpoints()[-1])}, "fc1.weight"),
                              ({"type": "mnist_cnn", "weights": "nowhere.pt"}, "/model/weights: .*nowhere.pt"),
                              ({"type": "mnist_cnn", "freeze": ["layer*"]}, r"layer\*")):
            with self.subTest(model=model):
                done = self.run_job(self.job_file(self.CNN | {"model": model, "output_dir": "no"}), expect=78)
                self.assertRegex(done.stderr, reason)


class Branches(JobTest):
    def test_a_job_that_goes_on_from_an_earlier_checkpoint_leaves_the_later_ones(self):
        job = self.job_file()
        self.run_job(job)
        first = self.checkpoints()[0]
        (self.folder / "link").symlink_to(first.parent)
        process = self.start(job, f"/resume=link/{first.name}", "/train/epochs=100000", flags=("--max-restarts", "1"))
        self.wait_for_line(process, "epoch 20/")
        os.kill(self.workers()[1], signal.SIGKILL)
        self.wait_for_line(process, "epoch 40/")
        process.terminate()
        self.finish(process, expect=128 + signal.SIGTERM)
        self.assertEqual([path.name for path in self.checkpoints(".")], [])
        later = sorted(path.name for path in (self.folder / "out/checkpoints.old-1").iterdir())
        self.assertEqual(later, ["step-00000020.pt", "step-00000030.pt"])
        self.assertGreater(self.metrics("start")[-1]["step"], 30)

    def test_a_job_that_began_with_weights_is_resumed_without_them(self):
        self.run_job(self.job_file({"output_dir": "base", "train": {"epochs": 1}}))
        weights = self.folder / "base/checkpoints/step-00000010.pt"
        job = self.job_file({"model": SMALL_JOB["model"] | {"weights": str(weights)}, "train": {"epochs": 1}})
        self.run_job(job)
        weights.unlink()
        self.run_job(job, "/train/epochs=2")


class Guards(JobTest):
    def test_replicas_with_running_statistics_pass_the_divergence_check(self):
        for settings in ((), ("/ddp/broadcast_buffers=false",), ("/train/accumulation_steps=2",)):
            with self.subTest(settings=settings):
                job = self.job_file({"model": {"type": "resnet20"}, "data": {"train_samples": 24, "test_samples": 8},
                                     "train": {"batch_size": 4, "epochs": 1}, "divergence_check": 1})
                self.run_job(job, *settings, "/resume=never", ranks=2)


    def test_an_average_is_judged_with_the_running_statistics_that_are_saved(self):
        job = self.job_file({"model": {"type": "resnet20"}, "data": {"train_samples": 24, "test_samples": 8},
                             "train": {"batch_size": 4, "epochs": 2, "ema_decay": 0.5}})
        self.run_job(job)
        done = subprocess.run([str(self.binaries / "ddprun"), "eval", "--json", str(job)], cwd=self.folder, env=self.environment(),
                              text=True, capture_output=True, timeout=BOUND_S, check=True)
        found, last = json.loads(done.stdout), self.metrics("epoch")[-1]
        self.assertEqual(found["weights"], "average")
        self.assertAlmostEqual(found["metrics"]["loss"], last["held_out_loss"], delta=1e-6 * last["held_out_loss"])

    def test_a_last_batch_of_one_sample_is_refused_where_a_batch_norm_would_have_one_value(self):
        changes = {"data": {"train_samples": 17, "test_samples": 8}, "train": {"batch_size": 16, "epochs": 1}}
        done = self.run_job(self.job_file(changes | {"model": {"type": "resnet18"}}), ranks=1, expect=78)
        self.assertIn("/train/batch_size: each epoch ends with a batch of 1 sample on each of 1 ranks (17 samples in batches of 16), and "
                      "the model does not learn from one alone: SyncBatchNorm: expected more than 1 value per channel when training, "
                      "got input size [1, 512, 1, 1]; ", done.stderr)
        self.run_job(self.job_file(changes | {"model": {"type": "resnet20"}}), ranks=1)  # its last image has several pixels


class Differences(JobTest):
    def test_nodes_may_have_their_scripts_anywhere_but_not_others(self):
        self.run_job(self.job_file({"train": {"epochs": 1}}), ranks=1)
        for name, seed in (("a", 0), ("b", 0), ("c", 1)):
            (self.folder / name).mkdir()
            subprocess.run([str(self.binaries / "ddprun"), "export", "--format", "torchscript", "-o", f"{name}/net.pt", "job.json"],
                           cwd=self.folder, env=self.environment(), capture_output=True, timeout=BOUND_S, check=True)
        (self.folder / "c/net.pt").write_bytes((self.folder / "c/net.pt").read_bytes() + b"more")
        job = self.job_file({"train": {"epochs": 1}, "output_dir": "script", "model": {"type": "torchscript", "torchscript": "a/net.pt"}})
        for path, difference in (("b/net.pt", None), ("c/net.pt", r"/model/torchscript is \"\d+ bytes with the CRC-32 \w+\", and ")):
            with self.subTest(path=path):
                self.run_two_nodes(job, f"/model/torchscript={self.folder / path}", difference)

    def run_two_nodes(self, job, setting, difference):
        flags = ("--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--node-rank")
        first = self.start(job, ranks=1, flags=(*flags, "0"))
        second = subprocess.run(self.command(job, setting, ranks=1, flags=(*flags, "1")), cwd=self.folder,
                                env=self.environment(), text=True, capture_output=True, timeout=BOUND_S, check=False)
        self.finish(first, expect=78 if difference else 0)
        self.assertEqual(second.returncode, 78 if difference else 0, second.stderr)
        if difference:
            self.assertRegex(second.stderr, f"the job is not the same on all ranks: on rank 1 {difference}")

    def test_nodes_whose_jobs_differ_are_refused_with_the_difference(self):
        for setting, difference in (("/optimizer/learning_rate=0.1", "/optimizer/learning_rate is 0.1, and 0.05 on rank 0"),
                                    ("/data/train_samples=319", "/data/train_samples is 319, and 320 on rank 0"),
                                    ("/output_dir=elsewhere", None)):
            with self.subTest(setting=setting):
                self.run_two_nodes(self.job_file({"train": {"epochs": 1}}), setting, difference and re.escape(difference))


class OutputFolders(JobTest):
    def test_a_job_file_in_its_own_output_folder_stays_as_it_was_written(self):
        (self.folder / "out").mkdir()
        job = self.job_file({"output_dir": "."}, name="out/job.json")
        before = job.read_text()
        self.run_job(job, "/train/epochs=1")
        self.assertEqual(job.read_text(), before)

    def test_a_job_file_of_a_person_in_the_output_folder_of_another_one_stays_as_well(self):
        (self.folder / "out").mkdir()
        mine = self.folder / "out/job.json"
        mine.write_text("// my own\n" + self.job_file().read_text())
        before = mine.read_text()
        done = self.run_job(self.job_file({"output_dir": "out"}, name="other.json"), "/train/epochs=1")
        self.assertEqual(mine.read_text(), before)
        self.assertIn("out/job.json cannot be read as one of ddprun's, and stays; the merged job file is not written", done.stderr)

    def test_a_merged_job_file_is_that_of_the_last_start(self):
        job = self.job_file({"output_dir": "out"}, name="other.json")
        for epochs in (1, 2):
            self.run_job(job, f"/train/epochs={epochs}")
            self.assertEqual(json.loads((self.folder / "out/job.json").read_text())["train"]["epochs"], epochs)
        merged = self.folder / "out/job.json"
        mine = merged.read_text().replace('"seed": ', '"seed": 1')
        merged.write_text(mine)
        for _ in range(2):  # the second finds its own
            self.run_job(job, "/train/epochs=2")
        self.assertEqual([json.loads((self.folder / f"out/job.json.old-{n}").read_text())["train"]["epochs"] for n in (1, 2)], [1, 2])
        self.assertEqual((self.folder / "out/job.json.old-2").read_text(), mine)
        self.assertFalse((self.folder / "out/job.json.old-3").exists())

    def endless_job(self):
        """One that holds its output folder until it is told to stop, and the words of whoever waits for it."""
        job = self.job_file({"train": {"epochs": 100000}, "checkpoint": {"every_epochs": 0}})
        process = self.start(job)
        self.wait_for_line(process, "epoch")
        return job, process, f"waiting for output folder {self.folder}/out, which process {self.workers()[0]} on {socket.gethostname()} holds"

    def test_the_second_job_in_an_output_folder_waits_for_the_end_of_the_first(self):
        job, first, waits = self.endless_job()
        second = self.start(job, "/train/max_steps=1")
        self.wait_for_line(second, waits)
        first.terminate()
        self.finish(first, expect=128 + signal.SIGTERM)
        self.assertIn("resumed from out/checkpoints", self.finish(second, expect=0))

    def test_jobs_whose_checkpoints_are_links_to_one_folder_write_there_one_after_the_other(self):
        for output in ("one", "other"):
            (self.folder / output).mkdir()
            (self.folder / output / "checkpoints").symlink_to(self.folder / "shared")
        (self.folder / "shared").mkdir()
        self.run_job(self.job_file(), "/output_dir=one", "/train/max_steps=5")
        # Which moves what is there aside, and has the folder that is then in its place.
        first = self.start(self.job_file({"train": {"epochs": 100000}}), "/output_dir=one", "/resume=never")
        self.wait_for_line(first, "epoch")
        pid = self.workers()[0]
        second = self.start(self.job_file(), "/output_dir=other", "/train/max_steps=1")
        self.wait_for_line(second, f"waiting for checkpoint folder {self.folder}/shared, which process {pid} on ")
        first.terminate()
        self.finish(first, expect=128 + signal.SIGTERM)
        self.assertIn("resumed from other/checkpoints", self.finish(second, expect=0))
        self.assertEqual([path.name for path in (self.folder / "shared.old-1").glob("*.pt")], ["step-00000005.pt"])

    def test_a_job_that_waits_for_another_one_ends_at_a_signal(self):
        job, first, waits = self.endless_job()
        second = self.start(job)
        self.wait_for_line(second, waits)
        second.terminate()
        self.finish(second, expect=128 + signal.SIGTERM)
        first.terminate()
        self.finish(first, expect=128 + signal.SIGTERM)


class Steps(JobTest):
    def test_a_warm_up_that_outlives_the_job_is_refused(self):
        job = self.job_file({"schedule": {"type": "cosine", "warmup_steps": 30}})
        done = self.run_job(job, expect=78)
        self.assertIn("/schedule/warmup_steps: the warm-up of 30 steps is not over when the job ends after 30 (3 epochs in "
                      "this world of 2 ranks); shorten it, or train longer", done.stderr)

    def test_a_warm_up_that_is_over_keeps_no_larger_world_from_going_on(self):
        job = self.job_file({"schedule": {"type": "cosine", "warmup_steps": 35}, "checkpoint": {"every_steps": 40}})
        self.run_job(job, "/train/epochs=3", ranks=1)  # 20 steps an epoch
        half = next(path for path in self.checkpoints() if path.name == "step-00000040.pt")
        self.run_job(job, f"/resume={half}", "/output_dir=more", ranks=4)

    def test_a_job_whose_steps_are_all_left_out_ends(self):
        job = self.job_file({"model": {"type": "mlp", "hidden": [64] * 6}, "optimizer": {"type": "sgd", "learning_rate": 3},
                             "train": {"non_finite": "skip", "epochs": 20}})
        self.assertRegex(self.run_job(job, expect=78).stderr,
                         r"the last \d+ steps, up to step \d+ of epoch \d+, were all left out")

    def test_a_loss_that_is_no_number_ends_the_job_with_its_step_rank_and_samples(self):
        job = self.job_file({"optimizer": {"type": "sgd", "learning_rate": 1000, "momentum": 0.99}})
        done = self.run_job(job, expect=78)
        self.assertRegex(done.stderr, r"the loss is not a finite number at step \d+ of epoch \d+, on rank \d with the "
                                      r"training samples (\d+, ){7}\d+ and 8 more")
        self.assertEqual(self.processes(), [])

    def test_metrics_and_report_of_a_job_that_failed_say_so_with_the_cause(self):
        job = self.job_file({"optimizer": {"type": "sgd", "learning_rate": 1000, "momentum": 0.99}})
        self.run_job(job, expect=78)
        end, = self.metrics("end")
        self.assertEqual(end["ending"], "failed")
        self.assertGreater(end["step"], 0)
        self.assertRegex(end["what"], r"^the loss is not a finite number at step \d+ of epoch \d+, on rank \d ")
        self.assertIn('"ending":"failed"', (self.folder / "out/report.html").read_text(encoding="utf-8"))
        self.run_job(job, "/optimizer/learning_rate=0.01", "/resume=never")
        self.assertEqual([record["ending"] for record in self.metrics("end")], ["failed", "complete"])
        self.assertNotIn('"ending":"failed"', (self.folder / "out/report.html").read_text(encoding="utf-8"))

    def test_a_job_whose_worker_is_killed_has_an_end_in_metrics_and_report(self):
        job = self.job_file({"train": {"epochs": 100000}, "checkpoint": {"every_epochs": 0}})
        process = self.start(job)
        self.wait_for_line(process, "epoch")
        os.kill(self.workers()[1], signal.SIGKILL)
        self.finish(process, expect=137)
        end, = self.metrics("end")
        self.assertEqual(end["ending"], "failed")
        self.assertIn("the ranks lost each other", end["what"])
        self.assertIn('"ending":"failed"', (self.folder / "out/report.html").read_text(encoding="utf-8"))
        again = self.start(job)
        self.wait_for_line(again, "epoch")
        self.assertNotIn('"ending":"failed"', (self.folder / "out/report.html").read_text(encoding="utf-8"))
        again.terminate()
        again.communicate(timeout=BOUND_S)

    def test_a_report_of_a_job_of_any_name_is_a_page(self):
        self.run_job(self.job_file({"name": "<!--<script>", "train": {"epochs": 1}}))
        page = (self.folder / "out/report.html").read_text(encoding="utf-8")
        self.assertEqual(page.count("<!--"), 0)
        self.assertIn(r'"name":"\u003c!--\u003cscript>"', page)


class Ends(JobTest):
    LONG_JOB = {"train": {"epochs": 100000}, "checkpoint": {"every_epochs": 0}}

    def test_a_killed_worker_ends_the_job_within_two_seconds_with_its_code_and_nothing_is_left(self):
        for backend in ("gloo", "shm"):
            with self.subTest(backend=backend):
                fastest = float("inf")
                for _ in range(3):  # the machine may be busy: the best of them counts
                    process = self.start(self.job_file(self.LONG_JOB), f"/backend={backend}")
                    self.wait_for_line(process, "epoch")
                    os.kill(self.workers()[1], signal.SIGKILL)
                    killed = time.monotonic()
                    self.finish(process, expect=128 + signal.SIGKILL)
                    fastest = min(fastest, time.monotonic() - killed)
                    self.assertEqual(self.processes(), [])
                    if fastest < patient(2):
                        break
                self.assertLess(fastest, patient(2))

    def test_a_killed_rank_of_a_restarting_job_costs_no_finished_epoch(self):
        job = self.job_file({"train": {"epochs": 200}, "checkpoint": {"keep": 3}})
        process = self.start(job, flags=("--max-restarts", "1"))
        self.wait_for_line(process, "epoch")
        os.kill(self.workers()[1], signal.SIGKILL)
        output = self.finish(process, expect=0)
        self.assertRegex(output, r"resumed from out/checkpoints/step-\d+.pt: \d+ of 200 epochs done")
        self.assertEqual(self.metrics("start")[-1]["restart_count"], 1)
        self.assertGreaterEqual(self.metrics("start")[-1]["step"], 10)
        self.assertNotIn("restart_cause", self.metrics("start")[0])
        cause = self.metrics("start")[-1]["restart_cause"]
        self.assertRegex(cause, r"^rank 1 \(pid \d+\) was killed by SIGKILL after [0-9.]+ m?s")
        self.assertIn(cause, (self.folder / "out/report.html").read_text(encoding="utf-8"))

    def test_sigterm_ends_a_job_with_a_checkpoint_that_the_same_command_goes_on_from(self):
        for backend in ("gloo", "shm"):
            with self.subTest(backend=backend):
                job = self.job_file(self.LONG_JOB | {"backend": backend, "output_dir": backend})
                process = self.start(job)
                self.wait_for_line(process, "epoch")
                process.terminate()
                output = self.finish(process, expect=128 + signal.SIGTERM)
                stopped = re.search(r"stopped by SIGTERM after step (\d+); the same command goes on from (\S+)", output)
                self.assertIsNotNone(stopped, output)
                step = int(stopped.group(1))
                done = self.run_job(job, f"/train/max_steps={step + 3}")
                self.assertIn(f"resumed from {stopped.group(2)}", done.stdout)
                self.assertEqual(self.processes(), [])


class Data(JobTest):
    def test_whichever_rank_ends_first_the_report_says_what_is_wrong(self):
        job = self.job_file({"data": {"type": "mnist", "path": "nowhere"}})
        for _ in range(3):
            done = self.run_job(job, expect=78, flags=("--log-dir", "logs"))
            report = done.stderr.split("job.json failed:")[1]
            self.assertIn(f"data folder {self.folder}/nowhere is not there", report)
        errors = [json.loads(path.read_text()) for path in self.folder.glob("logs/*/attempt_0/*/error.json")]
        self.assertEqual(len(errors), 6)
        for error in errors:
            self.assertIn(f"data folder {self.folder}/nowhere is not there", error["message"]["message"])

    def write_image(self, path, grey):
        def chunk(kind, content):
            return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

        path.parent.mkdir(parents=True, exist_ok=True)
        rows = zlib.compress((b"\0" + bytes([grey] * 24)) * 8)
        path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)) + chunk(b"IDAT", rows) +
                         chunk(b"IEND", b""))

    def images(self, damaged):
        for split, count in (("train", 16), ("val", 4)):
            for number in range(count):
                self.write_image(self.folder / f"images/{split}/{'cat' if number % 2 else 'dog'}/{number:02}.png", 10 * number)
        transforms = [{"type": "center_crop", "size": 8}, {"type": "normalize", "mean": [0], "std": [1]}]
        return self.job_file({"data": {"type": "image_folder", "path": "images", "damaged": damaged, "transforms": transforms,
                                       "test_transforms": transforms}, "train": {"batch_size": 4}})

    def test_images_that_are_left_out_are_counted_at_the_end_of_an_epoch(self):
        job = self.images("skip")
        for number in (2, 5, 8):
            (self.folder / f"images/train/{'cat' if number % 2 else 'dog'}/{number:02}.png").write_bytes(b"no image")
        done = self.run_job(job, ranks=1)
        said = re.findall(r"(?m)data: .*up to step \d+$", done.stderr)
        self.assertEqual(len(said), 1, done.stderr)
        self.assertIn("data: 3 damaged images skipped on rank 0 up to step 4", said[0])

    def test_a_file_that_vanishes_ends_the_job_with_78_also_where_damaged_ones_are_skipped(self):
        for damaged in ("stop", "skip"):
            with self.subTest(damaged=damaged):
                process = self.start(self.images(damaged), "/train/epochs=100000", "/checkpoint/every_epochs=0", "/resume=never", ranks=1)
                self.wait_for_line(process, "epoch")
                (self.folder / "images/train/cat/03.png").unlink()
                self.finish(process, expect=78)
                self.assertIn("images/train/cat/03.png: No such file or directory", self.errors())

    def test_data_without_a_sample_or_with_too_few_for_the_ranks_is_refused_on_each_of_them(self):
        for split, count in (("train", 0), ("test", 2)):
            numbers = [f"{i},{i % 2}" for i in range(count)]
            (self.folder / f"{split}.csv").write_text("\n".join(["x,y", *numbers, ""]))
        job = self.job_file({"data": {"type": "csv", "path": ".", "classes": 2}})
        self.assertIn("train.csv has no rows: expected a line of names, and numbers below", self.run_job(job, expect=78).stderr)
        (self.folder / "train.csv").write_text("x,y\n1,0\n2,1\n")
        for drop_last in ("false", "true"):
            done = self.run_job(job, f"/train/drop_last={drop_last}", ranks=3, expect=78)
            self.assertIn("the training data has 2 samples, and 3 ranks need one each; use fewer ranks, or more data", done.stderr)
        self.run_job(job, "/train/batch_size=64", ranks=2)  # fewer than a batch

    def test_all_ranks_map_the_tokens_beside_a_text_if_they_may_be_kept(self):
        (self.folder / "text.txt").write_text("to be or not to be\n" * 200)
        job = self.job_file({"model": {"type": "gpt", "layers": 1, "heads": 1, "width": 8},
                             "data": {"type": "text", "path": "text.txt", "block": 8},
                             "train": {"epochs": 100000}, "checkpoint": {"every_epochs": 0}})
        kept = self.folder / "text.txt.tokens"
        self.run_job(job, "/data/keep_tokens=false", "/train/max_steps=1")
        self.assertFalse(kept.exists())
        process = self.start(job)
        self.wait_for_line(process, "epoch")
        maps = [pathlib.Path(f"/proc/{pid}/maps").read_text() for pid in self.workers().values()]
        process.terminate()
        self.finish(process, expect=128 + signal.SIGTERM)
        self.assertEqual([str(kept) in mapped for mapped in maps], [True, True])

    def test_a_missing_data_file_is_named_once_and_ends_with_78(self):
        job = self.job_file({"data": {"type": "mnist", "path": "nowhere"}})
        done = self.run_job(job, expect=78)
        self.assertIn(f"data folder {self.folder}/nowhere is not there; set /data/path", done.stderr)

    def test_a_truncated_data_file_is_named(self):
        broken = self.folder / "digits"
        broken.mkdir()
        for file in DIGITS.glob("*.gz"):
            (broken / file.name).write_bytes(file.read_bytes())
        labels = broken / "train-labels-idx1-ubyte.gz"
        labels.write_bytes(labels.read_bytes()[:1000])
        job = self.job_file({"data": {"type": "mnist", "path": "digits"}})
        done = self.run_job(job, expect=78)
        self.assertIn(f"{labels} is a truncated gzip file: it ends after 1000 bytes", done.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
