#!/usr/bin/env python3
"""The commands of README's "Use" and of docs/job-files.md, as they stand there and one after the other."""

import os
import re
import shutil
import subprocess
import sys
import unittest

import harness
import numpy
from harness import ROOT, CommandTest
from patience import patient
from predict_test import write_png


def commands(page, heading=""):
    """The lines of the first sh block behind the heading, without their comments."""
    text = (ROOT / page).read_text().split(heading, 1)[1] if heading else (ROOT / page).read_text()
    return [re.sub(r"\s+#.*", "", line) for line in re.search(r"```sh\n(.*?)```", text, re.DOTALL)[1].splitlines()]


class Pages(CommandTest):
    def setUp(self):
        super().setUp()
        (self.folder / "bin").mkdir()
        (self.folder / "bin/ddprun").symlink_to(harness.BINARIES / "ddprun")

    def type(self, command, codes=(0,)):
        environment = self.environment() | {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "PYTHON_EXEC": sys.executable}
        done = subprocess.run(["bash", "-c", command], cwd=self.folder, env=environment, text=True, capture_output=True,
                              timeout=patient(180), check=False)
        self.assertIn(done.returncode, codes, f"{command}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_readmes_use(self):
        (self.folder / "configs").mkdir()
        shutil.copy(ROOT / "configs/quickstart.json", self.folder / "configs")
        (self.folder / "configs/data").symlink_to(ROOT / "configs/data")
        shutil.copy(ROOT / "tests/interop/migration/programs/train.py", self.folder)
        (self.folder / "my_trainer").write_text("#!/bin/sh\necho mine is rank $RANK of $WORLD_SIZE\n")
        (self.folder / "my_trainer").chmod(0o755)
        job, script, program, dry, listed, doctor = [
            self.type(line, codes=(0, 78) if line == "ddprun doctor" else (0,)) for line in commands("README.md", "## Use\n")]
        self.assertIn("done: 6 of 6 epochs", job)
        self.assertEqual(len(re.findall(r"rank \d of 4", script)), 4)
        self.assertEqual(sorted(program.splitlines()), [f"mine is rank {rank} of 4" for rank in range(4)])
        self.assertIn("train.py", dry)
        self.assertTrue(listed)
        self.assertIn("to note", doctor)

    def test_the_commands_of_the_page_of_job_files(self):
        for name in ("a.png", "b.png"):
            write_png(self.folder / name, numpy.random.default_rng(1).integers(0, 256, (28, 28), numpy.uint8))
        said = {line.split()[1]: self.type(line) for line in commands("docs/job-files.md")}
        self.assertEqual(sorted(said), ["--nproc-per-node", "eval", "export", "init", "list", "predict", "smoke", "summary", "validate"])
        self.assertIn("done: ", said["--nproc-per-node"])
        self.assertIn("resnet", said["list"])
        self.assertRegex(said["predict"], r"a\.png  \d  \d+\.\d\d %\nb\.png  \d  \d+\.\d\d %\n")
        self.assertIn("all is well", said["smoke"])
        self.assertTrue((self.folder / "weights.safetensors").exists())


if __name__ == "__main__":
    harness.main()
