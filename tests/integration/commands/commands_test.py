#!/usr/bin/env python3
"""`ddprun list`, `validate`, `summary` and `eval`: what they say of real jobs, and how they refuse."""

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import unittest

import harness
from harness import CommandTest


class Lists(CommandTest):
    def test_a_pipe_gets_a_line_for_each_name(self):
        lines = self.ddprun("list", "optimizers").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["adam", "adamw", "sgd"])

    def test_every_kind_is_listed_under_its_name(self):
        text = self.ddprun("list").stdout
        for kind in ("models", "data", "tasks", "transforms", "optimizers", "schedules"):
            self.assertRegex(text, f"(?m)^{kind}$")
        self.assertRegex(text, "(?m)^  mnist_cnn  .*convolutions")

    def test_no_line_is_wider_than_the_terminal(self):
        for columns in (30, 60):
            ours, theirs = pty.openpty()
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 20, columns, 0, 0))
            process = subprocess.Popen([str(harness.BINARIES / "ddprun"), "list"], stdout=theirs, env=self.environment())
            os.close(theirs)
            text = b""
            while chunk := read(ours):
                text += chunk
            os.close(ours)
            self.assertEqual(process.wait(), 0)
            self.assertLessEqual(max(map(len, text.decode().splitlines())), columns)
            self.assertIn("mnist_cnn", text.decode())

    def test_a_reader_that_leaves_ends_it_without_a_word(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        done = subprocess.run([str(harness.BINARIES / "ddprun"), "list"], stdout=write_end, stderr=subprocess.PIPE, text=True,
                              check=False)
        os.close(write_end)
        self.assertEqual((done.returncode, done.stderr), (71, ""))

    def test_a_full_disk_is_told(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([str(harness.BINARIES / "ddprun"), "list"], stdout=full, stderr=subprocess.PIPE, text=True,
                                  check=False)
        self.assertEqual((done.returncode, done.stderr), (71, "ddprun list: cannot write to stdout: No space left on device\n"))

    def test_an_unknown_kind_is_refused_with_the_nearest(self):
        self.assertEqual(self.ddprun("list", "modles", expect=64).stderr,
                         'ddprun list: there is no kind "modles"; did you mean "models"?\n')

    def test_a_plugin_is_listed_with_what_it_brings(self):
        text = self.ddprun("list", "models", "--plugin", harness.PLUGINS / "libplugin_example.so").stdout
        self.assertRegex(text, "(?m)^one_layer +of plug-in .*libplugin_example.so$")
        (self.folder / "mine.so").symlink_to(harness.PLUGINS / "libplugin_example.so")
        self.assertIn("one_layer", self.ddprun("list", "models", "--plugin", "mine.so").stdout)

    def test_a_program_of_a_commands_name_is_run_behind_two_dashes(self):
        program = self.folder / "list"
        program.write_text("#!/bin/sh\necho the program list\n")
        program.chmod(0o755)
        self.assertEqual(self.ddprun("--standalone", "--", "./list").stdout, "the program list\n")
        self.assertEqual(self.ddprun("./list").stdout, "the program list\n")


class Validations(CommandTest):
    def problems(self, job, expect=78):
        self.write_job(job)
        return self.ddprun("validate", "job.json", expect=expect).stderr

    def test_a_job_that_can_start_is_told_in_a_few_lines(self):
        self.write_job(train={"batch_size": 16, "epochs": 3})
        text = self.ddprun("validate", "job.json", "--ranks", "2").stdout
        self.assertIn("job.json is valid\n", text)
        self.assertIn("synthetic: 64 training and 50 held-out images, image [1, 28, 28], label, 10 classes", text)
        self.assertIn("3 epochs of 2 steps, 6 steps in all, with 2 ranks of batch 16", text)
        self.assertIn("mlp: 12,730 parameters", text)
        self.assertIn("from the beginning: there is no checkpoint", text)
        self.assertFalse((self.folder / "out").exists())

    def test_what_a_job_goes_on_from_is_found_and_left_as_it_is(self):
        self.write_job()
        self.train()
        before = sorted((self.folder / "out").rglob("*"))
        self.assertIn("step-00000004.pt (step 4), epoch 1: nothing is left to do", self.ddprun("validate", "job.json").stdout)
        self.assertIn("from the beginning", self.ddprun("validate", "job.json", "--set", "/resume=never").stdout)
        self.assertEqual(sorted((self.folder / "out").rglob("*")), before)

    def test_a_job_that_goes_on_needs_its_first_weights_no_more(self):
        self.write_job()
        self.train()
        self.ddprun("export", "job.json", "-o", "first.pt")
        self.write_job(model={**harness.JOB["model"], "weights": "first.pt"}, output_dir="fine")
        self.assertIn("beginning with the weights of", self.ddprun("validate", "job.json").stdout)
        self.train()
        (self.folder / "first.pt").unlink()
        text = self.ddprun("validate", "job.json").stdout
        self.assertIn("step-00000004.pt (step 4), epoch 1", text)
        self.assertNotIn("beginning with the weights of", text)

    def test_a_last_batch_that_a_batch_norm_cannot_learn_from_is_found_for_the_ranks_that_are_meant(self):
        self.write_job(model={"type": "resnet18"}, data={**harness.JOB["data"], "train_samples": 34})
        self.ddprun("validate", "job.json")
        self.assertIn("each epoch ends with a batch of 1 sample on each of 2 ranks (34 samples in batches of 16)",
                      self.ddprun("validate", "job.json", "--ranks", "2", expect=78).stderr)

    def test_problems_of_several_parts_are_told_at_once(self):
        job = {**harness.JOB, "model": {"type": "gpt"}, "device": "cuda", "resume": "nowhere.pt"}
        said = self.problems(job)
        self.assertIn("job.json: 3 problems\n", said)
        self.assertRegex(said, "(?m)^  .*gpt")
        self.assertRegex(said, "(?m)^  .*nowhere.pt")
        self.assertRegex(said, "(?mi)^  .*(cuda|GPU)")

    def test_a_schedule_that_does_not_fit_the_length_is_found_for_the_ranks_that_are_meant(self):
        self.write_job(schedule={"type": "constant", "warmup_steps": 3})
        self.ddprun("validate", "job.json")
        self.assertIn("/schedule/warmup_steps: the warm-up of 3 steps is not over when the job ends after 2",
                      self.ddprun("validate", "job.json", "--ranks", "2", expect=78).stderr)

    def test_a_strategy_for_one_process_is_refused_for_two(self):
        self.write_job(strategy="data_parallel")
        self.ddprun("validate", "job.json")
        self.assertIn("data_parallel works in one process, and this job has 2 ranks",
                      self.ddprun("validate", "job.json", "--ranks", "2", expect=78).stderr)

    def test_virtual_ranks_are_told_and_refused_for_the_processes_that_are_meant(self):
        self.write_job(train={"batch_size": 8, "virtual_ranks": 4})
        self.assertIn("with 4 virtual ranks of batch 8", self.ddprun("validate", "job.json", "--ranks", "2").stdout)
        self.assertIn("4 virtual ranks cannot be dealt out evenly to 3 processes; start the job with 1, 2 or 4 of them",
                      self.ddprun("validate", "job.json", "--ranks", "3", expect=78).stderr)

    def test_a_folder_is_no_checkpoint_to_resume_from(self):
        self.write_job(train={"batch_size": 16})
        self.train()
        self.assertIn("out/checkpoints", self.ddprun("validate", "job.json", "--set", "/resume=out/checkpoints", expect=78).stderr)

    def test_a_frozen_head_of_the_files_own_is_looked_at_while_it_lives(self):
        """Its memory had been given back: with freed memory overwritten that was a crash."""
        self.write_job(model={"type": "lenet"}, train={"batch_size": 16})
        self.train()
        done = subprocess.run(
            [str(harness.BINARIES / "ddprun"), "--standalone", "--set", "/model/weights=out/checkpoints/step-00000004.pt", "--set",
             '/model/freeze=["fc3.*"]', "--set", "/output_dir=other", "job.json"],
            cwd=self.folder, env={**self.environment(), "MALLOC_PERTURB_": "165"}, text=True, capture_output=True,
            timeout=harness.patient(90), check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_data_that_is_not_there_is_named(self):
        said = self.problems({**harness.JOB, "data": {"type": "mnist", "path": "nowhere"}})
        self.assertRegex(said, "1 problem\n  data folder .*/nowhere is not there")

    def test_mistakes_of_the_file_itself_have_their_places(self):
        self.assertRegex(self.problems({**harness.JOB, "modle": {}}), r'job.json:1:\d+: /modle: unknown key; did you mean "model"')

    def test_weights_that_do_not_fit_are_found(self):
        self.write_job()
        self.train()
        self.ddprun("export", "job.json", "-o", "other.pt")
        said = self.problems({**harness.JOB, "model": {"type": "mlp", "hidden": [8], "weights": "other.pt"}, "resume": "never"})
        self.assertIn("the weights do not fit the model", said)

    def test_a_checkpoint_of_another_model_is_found(self):
        self.write_job()
        self.train()
        self.assertRegex(self.problems({**harness.JOB, "model": {"type": "lenet"}}), "cannot resume from out/checkpoints/step-")

    def test_an_output_folder_that_cannot_be_is_found(self):
        (self.folder / "out").write_text("no folder")
        self.assertRegex(self.problems(harness.JOB), "/output_dir: .*/out cannot be written: .* is no folder")

    def test_plugins_are_opened(self):
        library = str(harness.PLUGINS / "libplugin_example.so")
        job = {"model": {"plugin": library, "type": "one_layer"},
               "data": {"plugin": library, "type": "sums", "options": {"width": 8}},
               "task": {"plugin": library, "type": "absolute_error"}, "output_dir": "out"}
        self.write_job(job)
        self.assertIn("one_layer: ", self.ddprun("validate", "job.json").stdout)
        self.assertIn("sums has no option witdh", self.problems({**job, "data": {**job["data"], "options": {"witdh": 8}}}))


class Evaluations(CommandTest):
    def test_the_numbers_are_those_of_the_training(self):
        self.write_job(train={"batch_size": 16, "epochs": 2})
        self.train()
        found = json.loads(self.ddprun("eval", "job.json", "--json").stdout)
        last = self.metrics()[-1]
        self.assertEqual(found["metrics"], {"loss": last["held_out_loss"], "accuracy": last["accuracy"]})
        self.assertEqual((found["step"], found["weights"], found["samples"]), (8, "model", 50))

    def test_the_numbers_are_those_of_the_training_in_its_layout_and_precision(self):
        self.write_job(model={"type": "resnet20"}, train={"batch_size": 16, "channels_last": True, "precision": "bf16"})
        self.train()
        self.assertEqual(json.loads(self.ddprun("eval", "job.json", "--json").stdout)["metrics"]["loss"],
                         self.metrics()[-1]["held_out_loss"])

    def test_the_average_is_judged_where_the_job_keeps_one(self):
        self.write_job(train={"batch_size": 16, "epochs": 2, "ema_decay": 0.5})
        self.train()
        found = json.loads(self.ddprun("eval", "job.json", "--json").stdout)
        self.assertEqual(found["metrics"]["loss"], self.metrics()[-1]["held_out_loss"])
        self.assertEqual(found["weights"], "average")
        self.assertIn("the average of the weights", self.ddprun("eval", "job.json").stdout)
        # What the file has counts, and not what the job file says by now.
        self.assertEqual(json.loads(self.ddprun("eval", "job.json", "--json", "--set", "/train/ema_decay=0").stdout), found)
        self.assertEqual(json.loads(self.ddprun("eval", "job.json", "--json", "--weights-of", "average").stdout), found)
        own = json.loads(self.ddprun("eval", "job.json", "--json", "--weights-of", "model").stdout)
        self.assertEqual(own["weights"], "model")
        self.assertNotEqual(own["metrics"]["loss"], found["metrics"]["loss"])

    def test_an_average_that_is_not_there_and_another_word_are_refused(self):
        self.write_job(train={"batch_size": 16, "epochs": 1})
        self.train()
        for command in (("eval", "job.json"), ("export", "job.json", "-o", "a.pt")):
            self.assertIn("has no average of the weights", self.ddprun(*command, "--weights-of", "average", expect=78).stderr)
            self.assertIn('--weights-of: expected average, model or auto, got "ema"',
                          self.ddprun(*command, "--weights-of", "ema", expect=64).stderr)

    def test_any_checkpoint_and_an_export_can_be_named(self):
        self.write_job(train={"batch_size": 16, "epochs": 2})
        self.train()
        epochs = self.metrics()
        for name, epoch in (("out/checkpoints/step-00000004.pt", 0), ("out/checkpoints", 1)):
            found = json.loads(self.ddprun("eval", "job.json", "--json", "--checkpoint", name).stdout)
            self.assertEqual(found["metrics"]["loss"], epochs[epoch]["held_out_loss"])
        self.ddprun("export", "job.json", "-o", "weights.pt")
        found = json.loads(self.ddprun("eval", "job.json", "--json", "--checkpoint", "weights.pt").stdout)
        self.assertEqual((found["metrics"]["loss"], found["step"]), (epochs[1]["held_out_loss"], None))

    def test_a_damaged_newest_checkpoint_is_passed_over(self):
        self.write_job(train={"batch_size": 16, "epochs": 2})
        self.train()
        (self.folder / "out/checkpoints/step-00000008.pt").write_bytes(b"damaged")
        done = self.ddprun("eval", "job.json", "--json")
        self.assertEqual(json.loads(done.stdout)["step"], 4)
        self.assertIn("checkpoint of step 8 is passed over", done.stderr)

    def test_the_newest_one_is_the_one_that_a_training_would_go_on_from(self):
        self.write_job(train={"batch_size": 16, "epochs": 2}, checkpoint={"best": 2, "best_by": "loss"})
        self.train()
        for file in (self.folder / "out/checkpoints").glob("step-*"):
            file.unlink()
        self.assertEqual(json.loads(self.ddprun("eval", "job.json", "--json").stdout)["step"], 8)
        self.assertIn("best-00000008-loss-", self.ddprun("validate", "job.json", "--set", "/train/epochs=3").stdout)

    def test_a_file_of_a_person_beside_the_checkpoints_is_none_of_them(self):
        self.write_job(train={"batch_size": 16, "epochs": 1})
        self.train()
        (self.folder / "out/checkpoints/best-99-mine.pt").write_bytes(b"mine")
        self.assertEqual(json.loads(self.ddprun("eval", "job.json", "--json").stdout)["step"], 4)
        self.train("/train/epochs=2")

    def test_what_cannot_be_evaluated_is_refused(self):
        self.write_job()
        self.assertIn("there is no checkpoint in out/checkpoints; train the job first",
                      self.ddprun("eval", "job.json", expect=78).stderr)
        self.ddprun("eval", "job.json", "--checkpoint", "nowhere.pt", expect=78)
        self.ddprun("eval", "job.json", "--checkpoint", "job.json", expect=78)

    def test_a_command_inside_of_a_job_is_a_world_of_its_own(self):
        self.write_job()
        self.train()
        done = self.ddprun("--standalone", "--nproc-per-node", "2", "--no-python", harness.BINARIES / "ddprun", "eval", "job.json")
        self.assertEqual(done.stdout.count("on 50 held-out images"), 2)


class Summaries(CommandTest):
    def test_layers_and_totals_are_shown(self):
        self.write_job()
        self.assertRegex(self.ddprun("summary", "job.json").stdout, r"(?s)layers\.1 +Linear.*total: 12,730 parameters")


class CommandLines(CommandTest):
    def test_what_is_wrong_is_said_in_a_sentence(self):
        self.write_job()
        for words, code, said in (
                (("eval",), 64, "ddprun eval: the job file is missing; write ddprun eval JOB.json\n"),
                (("eval", ""), 64, "ddprun eval: a name is empty; is a shell variable unset? write ddprun eval JOB.json\n"),
                (("eval", "a.json", "b.json"), 64, 'ddprun eval: unexpected "b.json"; write ddprun eval JOB.json\n'),
                (("eval", "job.json", "--chekpoint", "x"), 64,
                 'ddprun eval: unknown flag --chekpoint; did you mean "--checkpoint"?\n'),
                (("eval", "job.json", "--checkpoint"), 64,
                 "ddprun eval: --checkpoint needs a value: --checkpoint FILE\n"),
                (("validate", "job.json", "--ranks", "none"), 64,
                 'ddprun validate: --ranks: expected a number of ranks from 1 to 1000000, got "none"\n'),
                (("validate", "nowhere.json"), 78,
                 "ddprun validate: cannot read the job file nowhere.json: No such file or directory\n"),
                (("validate", "."), 78, "ddprun validate: cannot read the job file .: Is a directory\n"),
                (("summary", "job.json", "--set", "/seed=x"), 78,
                 'ddprun summary: job.json: 1 problem\n  --set /seed=x: /seed: expected an integer from 0 to 4294967295, '
                 'found "x" (a string)\n')):
            with self.subTest(words=words):
                done = self.ddprun(*words, expect=code)
                self.assertEqual((done.stdout, done.stderr), ("", said))

    def test_each_command_has_its_help(self):
        for command in ("validate", "list", "summary", "eval", "export"):
            self.assertTrue(self.ddprun(command, "--help").stdout.startswith(f"usage: ddprun {command} "))


def read(descriptor):
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""


if __name__ == "__main__":
    harness.main()
