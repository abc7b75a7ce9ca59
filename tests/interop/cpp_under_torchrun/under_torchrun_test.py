"""C++ workers run under torchrun as they do under ddprun: one that trains, one that fails."""

import argparse
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

import torch  # noqa: E402

from patience import patient  # noqa: E402

BOUND_S = patient(90)
JOB = {
    "backend": "auto",
    "output_dir": "out",
    "model": {"type": "mlp", "hidden": [16], "dropout": 0.25},
    "data": {"type": "synthetic", "train_samples": 320, "test_samples": 100},
    "train": {"epochs": 2, "batch_size": 16},
    "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9},
}
PROGRAMS = None


class UnderTorchrun(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-torchrun-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("DDPRUN_", "PET_", "TORCHELASTIC_"))}
        self.environment = {**plain, "OMP_NUM_THREADS": "1", "TMPDIR": str(self.folder)}

    def launch(self, *command):
        return subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True,
                              timeout=BOUND_S, check=False)

    def torchrun(self, *program):
        return self.launch(PROGRAMS.torchrun, "--standalone", "--no-python", "--nproc-per-node", "2", *program)

    def train(self, launch):
        """The newest checkpoint's name, its entries as bytes but for the line of checkpoints that it belongs to, and what
        the run said. Nothing stays for the next run to resume."""
        job = self.folder / "job.json"
        job.write_text(json.dumps(JOB))
        done = launch(str(job))
        self.assertEqual(done.returncode, 0, done.stderr)
        newest = max((self.folder / "out/checkpoints").glob("step-*.pt"))
        entries = torch.load(newest, weights_only=True)
        del entries["ddprun"]["timeline"]
        plain = io.BytesIO()
        torch.save(entries, plain)
        content = plain.getvalue()
        shutil.rmtree(self.folder / "out")
        return newest.name, content, done.stdout

    def test_a_job_file_trains_to_the_same_checkpoint(self):
        theirs = self.train(lambda job: self.torchrun(PROGRAMS.worker, job))
        ours = self.train(lambda job: self.launch(PROGRAMS.ddprun, "--nproc-per-node", "2", job))
        self.assertEqual(theirs[0], ours[0])
        self.assertIn("2 ranks of batch 16", theirs[2])
        self.assertIn("done: 2 of 2 epochs, 20 steps", theirs[2])
        self.assertEqual(theirs[1], ours[1], "the checkpoints differ")

    def test_a_mistake_in_a_job_file_is_in_torchruns_report(self):
        job = self.folder / "job.json"
        job.write_text(json.dumps({**JOB, "train": {"epochs": 0}}))
        done = self.torchrun(PROGRAMS.worker, str(job))
        self.assertEqual(done.returncode, 1)
        self.assertIn("/train/epochs: expected an integer from 1 to 1000000, found 0", done.stderr)
        self.assertIn("exitcode  : 78", done.stderr)

    def test_an_exception_is_in_torchruns_report(self):
        done = self.torchrun(PROGRAMS.record_program, "throw")
        self.assertEqual(done.returncode, 1)
        report = done.stderr[done.stderr.index("Root Cause"):]
        self.assertIn("std::out_of_range: seven is not a rank", report)
        self.assertIn("ddprun::record", report)

    def test_a_crash_is_in_torchruns_report(self):
        done = self.torchrun(PROGRAMS.record_program, "crash")
        self.assertEqual(done.returncode, 1)
        report = done.stderr[done.stderr.index("Root Cause"):]
        self.assertIn("exitcode  : -11", report)
        self.assertIn("SIGSEGV: the program touched memory it does not have", report)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for program in ("torchrun", "ddprun", "worker", "record-program"):
        parser.add_argument(f"--{program}", required=True)
    PROGRAMS, rest = parser.parse_known_args()
    unittest.main(argv=["under_torchrun_test.py", *rest])
