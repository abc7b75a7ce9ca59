#!/usr/bin/env python3
"""`ddprun smoke`: passes with jobs that are well, names what is broken in others, and leaves nothing behind."""

import os
import pathlib
import signal
import struct
import subprocess
import unittest

import harness
from harness import CommandTest, patient

SHARED_MEMORY = pathlib.Path("/dev/shm")


class SmokeTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()
        self.segments = set(SHARED_MEMORY.iterdir())

    def environment(self):
        return {**super().environment(), "TMPDIR": str(self.temporary), "CUDA_VISIBLE_DEVICES": "", "SMOKE_TEST": str(self.folder)}

    def smoke(self, *words, expect=0):
        done = self.ddprun("smoke", "job.json", *words, expect=expect)
        self.check_nothing_is_left()
        return done.stdout.splitlines()

    def check_nothing_is_left(self):
        self.assertEqual(list(self.temporary.iterdir()), [])
        self.assertEqual(self.processes(), [])
        new = {path for path in SHARED_MEMORY.iterdir() if path.name.startswith("torch_")} - self.segments
        # Of another job's, one may go between the two looks.
        left = {path for path in new if not pathlib.Path(f"/proc/{path.name.split('_')[1]}").exists() and path.exists()}
        self.assertEqual(left, set())
        self.assertFalse((self.folder / "out").exists())

    def processes(self):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if f"SMOKE_TEST={self.folder}".encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes())
            except OSError:
                continue
        return found

    @staticmethod
    def verdicts(lines):
        return [tuple(line.split()[:2]) for line in lines[:-1]]


class WellJobs(SmokeTest):
    CHECKS = ("validate", "train", "eval", "resume", "export", "export", "export", "kill", "train", "clean")

    def check_well(self, lines, made_up=False):
        wanted = (("data",) if made_up else ()) + self.CHECKS
        self.assertEqual(self.verdicts(lines), [("ok", check) for check in wanted], "\n".join(lines))
        self.assertEqual(lines[-1], f"job.json: all is well ({len(wanted)} checks)")

    def test_each_check_has_its_line(self):
        self.write_job(train={"batch_size": 256, "ema_decay": 0.9, "epochs": 90, "accumulation_steps": 4},
                       schedule={"type": "cosine", "warmup_steps": 1000}, divergence_check=100, resume="nowhere.pt",
                       log={"tensorboard": True, "trace": {"first_step": 100, "steps": 3}})
        lines = self.smoke()
        self.check_well(lines)
        for words in ("gloo, 2 ranks, 6 steps", "shm, 2 ranks, 6 steps", "SIGKILL of rank 1: exit code 137, then on from step",
                      "from step 3 to 6: the same bytes as without the interruption"):
            self.assertTrue(any(words in line for line in lines), words)

    def test_a_job_for_recorded_steps_is_tried_without_a_gpu(self):
        self.write_job(train={"batch_size": 16, "cuda_graph": True})
        self.check_well(self.smoke())

    def test_virtual_ranks_are_two_in_each_process(self):
        self.write_job(train={"batch_size": 16, "virtual_ranks": 15})
        self.check_well(self.smoke())

    def test_replicas_in_one_process_are_one_rank(self):
        self.write_job(strategy="data_parallel", replicas=2)
        lines = self.smoke()
        self.assertEqual({verdict for verdict, _ in self.verdicts(lines)}, {"ok"}, "\n".join(lines))
        self.assertIn("gloo, 1 rank, 6 steps", "\n".join(lines))
        self.assertIn("SIGKILL of rank 0", "\n".join(lines))

    def test_data_that_is_not_there_is_made_up(self):
        mlp = {"type": "mlp", "hidden": [4]}
        cases = {"csv": ({"classes": 3, "target": "kind"}, mlp), "npy": ({}, mlp),
                 "cifar100": ({}, {"type": "lenet"}), "fashion_mnist": ({}, mlp),
                 "tokens": ({"block": 8}, {"type": "gpt", "layers": 1, "heads": 1, "width": 8}),
                 "text": ({"block": 8}, {"type": "gpt", "layers": 1, "heads": 1, "width": 8})}
        for kind, (options, model) in cases.items():
            with self.subTest(kind):
                self.write_job(model=model, data={"type": kind, "path": "nowhere", **options})
                lines = self.smoke()
                self.check_well(lines, made_up=True)
                self.assertRegex(lines[0], f"nowhere is not there: (20|32) samples of {kind} are made up")

    def test_nothing_is_written_beside_a_text(self):
        (self.folder / "text.txt").write_text("to be or not to be\n" * 40)
        self.write_job(model={"type": "gpt", "layers": 1, "heads": 1, "width": 8}, data={"type": "text", "path": "text.txt", "block": 8})
        self.check_well(self.smoke())
        self.assertFalse((self.folder / "text.txt.tokens").exists())

    def test_a_folder_of_images_is_made_up_for_its_transforms(self):
        small = [{"type": "resize", "size": 16}, {"type": "center_crop", "size": 16}]
        self.write_job(model={"type": "lenet"}, data={"type": "image_folder", "path": "nowhere", "transforms": small,
                                                      "test_transforms": small})
        self.check_well(self.smoke(), made_up=True)


    def test_jobs_that_keep_the_best_have_milestones_and_more_data_to_be_judged_by(self):
        """The best file may be newer than the checkpoint gone on from; milestones may lie behind the end of a short run."""
        self.write_job(checkpoint={"best": 2, "best_by": "more/loss"}, train={"epochs": 100},
                       schedule={"type": "multi_step", "milestones": [50, 80]},
                       evaluate={"more": {"type": "synthetic"}})
        self.check_well(self.smoke())
        self.write_job(model={"type": "mlp", "hidden": [4]}, data={"type": "npy", "path": "nowhere"},
                       train={"epochs": 100}, schedule={"type": "step", "step_epochs": 40, "gamma": 0.5},
                       evaluate={"more": {"type": "npy", "path": "nowhere, either"}})
        lines = self.smoke()
        self.assertEqual([verdict for verdict, _ in self.verdicts(lines)], ["ok"] * 12, "\n".join(lines))


class BrokenJobs(SmokeTest):
    def test_data_that_cannot_be_read_fails_with_its_reason(self):
        (self.folder / "digits").mkdir()
        for stem, count in (("train", 4), ("t10k", 4)):
            images = struct.pack(">IIII", 0x803, count, 28, 28) + bytes(count * 784)
            (self.folder / f"digits/{stem}-images-idx3-ubyte").write_bytes(images[:-1])
            (self.folder / f"digits/{stem}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, count) + bytes(count))
        self.write_job(data={"type": "mnist", "path": "digits"})
        lines = self.smoke(expect=78)
        self.assertEqual(self.verdicts(lines), [("FAIL", "validate"), ("ok", "clean")])
        self.assertRegex(lines[0], r"digits/t10k-images-idx3-ubyte.*\(exit code 78\)")

    def plugin_job(self, kind):
        self.write_job(model={"plugin": str(harness.PLUGINS / "libplugin_forgetful.so"), "type": kind})

    def test_a_job_that_cannot_resume_fails_with_that(self):
        self.plugin_job("forgetful")
        lines = self.smoke(expect=70)
        self.assertEqual([check for verdict, check in self.verdicts(lines) if verdict == "FAIL"], ["resume"])
        self.assertIn("ends with another checkpoint than the run without an interruption", "\n".join(lines))
        self.assertEqual(lines[-1], "job.json: 1 of 10 checks failed")

    def test_a_model_that_cannot_be_traced_fails_with_that(self):
        self.plugin_job("rigid")
        lines = self.smoke(expect=78)
        self.assertEqual([check for verdict, check in self.verdicts(lines) if verdict == "FAIL"], ["export"])
        self.assertIn("torchscript: the model cannot be traced", "\n".join(lines))

    def test_mistakes_in_the_file_are_those_of_a_start(self):
        self.write_job(modle={})
        self.assertIn("/modle: unknown key", self.ddprun("smoke", "job.json", expect=78).stderr)
        self.check_nothing_is_left()

    def test_without_a_place_for_files_it_says_so(self):
        self.write_job()
        environment = {**self.environment(), "TMPDIR": "/nowhere"}
        done = subprocess.run([str(harness.BINARIES / "ddprun"), "smoke", "job.json"], cwd=self.folder, env=environment, text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 71)
        self.assertRegex(done.stderr, "ddprun smoke: cannot make a folder /nowhere/.*; set TMPDIR to a place")


class Interruptions(SmokeTest):
    def start(self, **options):
        self.write_job()
        return subprocess.Popen([str(harness.BINARIES / "ddprun"), "smoke", "job.json"], cwd=self.folder, env=self.environment(),
                                text=True, stdout=subprocess.PIPE, **options)

    def test_a_signal_ends_all_of_it(self):
        for number, after in ((signal.SIGINT, "validate"), (signal.SIGTERM, "train"), (signal.SIGHUP, "export")):
            with self.subTest(number.name), self.start(stderr=subprocess.PIPE) as process:
                for line in process.stdout:
                    if f" {after} " in line:
                        break
                process.send_signal(number)
                _, errors = process.communicate(timeout=patient(60))
                self.assertEqual(process.returncode, 128 + number, errors)
                self.assertIn(f"ended by signal {int(number)}", errors)
                self.check_nothing_is_left()

    def test_a_reader_that_leaves_ends_all_of_it(self):
        with self.start(stderr=subprocess.PIPE) as process:
            process.stdout.readline()
            process.stdout.close()
            errors = process.stderr.read()
            self.assertEqual((process.wait(timeout=patient(60)), errors), (71, ""))
        self.check_nothing_is_left()


if __name__ == "__main__":
    harness.main()
