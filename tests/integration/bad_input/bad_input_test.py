#!/usr/bin/env python3
"""Types wrong things into the real ddprun: each gets its exit code and a sentence that names the thing.

Each case is one test: a command line, the exit code, and what must be said. Nothing of a refused job may be left
behind: no worker has started (a refused command line leaves no log folder), and ddprun ends within a bound.
"""

import gzip
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
DDPRUN = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else ROOT / "build/release/bin/ddprun"
DIGITS = ROOT / "configs/data/mnist-subset"
BOUND_S = 60

SMALL_JOB = {
    "model": {"type": "mlp", "hidden": [8]},
    "data": {"type": "synthetic", "train_samples": 64, "test_samples": 64},
    "train": {"max_steps": 2, "batch_size": 16},
    "log": {"progress": "never"},
}


class Case(unittest.TestCase):
    """A test with a folder of its own and ddprun at hand."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-bad-input-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_ddprun(self, *arguments, **environment):
        env = {**os.environ, "TMPDIR": str(self.folder), "OMP_NUM_THREADS": "1", **environment}
        return subprocess.run([DDPRUN, *map(str, arguments)], cwd=self.folder, env=env, capture_output=True, text=True,
                              timeout=BOUND_S, check=False)

    def job_file(self, **changes):
        path = self.folder / "job.json"
        path.write_text(json.dumps(SMALL_JOB | {"output_dir": "out"} | changes, indent=1))
        return path

    def assert_refused(self, done, code, *sentences):
        said = done.stdout + done.stderr
        for sentence in sentences:
            self.assertIn(sentence, said)
        self.assertEqual(done.returncode, code, said)


class CommandLine(Case):
    def test_no_arguments_show_help_and_exit_64(self):
        self.assert_refused(self.run_ddprun(), 64, "--nproc-per-node")

    def test_a_program_that_does_not_exist(self):
        self.assert_refused(self.run_ddprun("--no-python", "./no-such-program"), 127, "no-such-program")

    def test_no_workers(self):
        self.assert_refused(self.run_ddprun("--nproc-per-node", "0", "--no-python", "true"), 64, "nproc-per-node", "0")

    def test_a_flag_that_does_not_exist(self):
        self.assert_refused(self.run_ddprun("--nproc-per-noda", "2", "true"), 64, "--nproc-per-node")

    def test_gpu_workers_without_a_gpu(self):
        done = self.run_ddprun("--nproc-per-node", "gpu", "--no-python", "true", CUDA_VISIBLE_DEVICES="")
        self.assert_refused(done, 64, "gpu")

    def test_a_port_in_use(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            done = self.run_ddprun("--master-port", port, "--no-python", "true")
        self.assert_refused(done, 69, str(port), "in use")


class JobFile(Case):
    def test_a_missing_job_file(self):
        self.assert_refused(self.run_ddprun("no-such-job.json"), 127, "no-such-job.json", "does not exist")

    def test_all_problems_at_once_and_nothing_is_started(self):
        job = self.job_file(train={"epochs": "3", "batchsize": 2})
        self.assert_refused(self.run_ddprun(job), 78, "2 problems", "/train/epochs: expected an integer",
                            'did you mean "batch_size"?')
        self.assertFalse((self.folder / "out").exists())

    def test_a_syntax_error(self):
        job = self.folder / "job.json"
        job.write_text('{\n  "seed": 1,\n}\n')
        self.assert_refused(self.run_ddprun(job), 78, "job.json:3:1: expected a key after ','", "^ here")

    def test_an_override_of_an_unknown_key(self):
        done = self.run_ddprun("--set", "/train/epoch=3", self.job_file())
        self.assert_refused(done, 78, "--set /train/epoch=3", 'did you mean "epochs"?')

    def test_nccl_without_a_gpu(self):
        done = self.run_ddprun(self.job_file(backend="nccl"), CUDA_VISIBLE_DEVICES="")
        self.assert_refused(done, 64, "nccl", "GPU", "gloo")


class Data(Case):
    def mnist_job(self, path):
        return self.job_file(data={"type": "mnist", "path": str(path)})

    def test_a_missing_folder(self):
        self.assert_refused(self.run_ddprun(self.mnist_job(self.folder / "nowhere")), 78, "nowhere")

    def test_a_file_that_is_no_idx_file(self):
        digits = self.folder / "digits"
        shutil.copytree(DIGITS, digits)
        for images in digits.glob("train-images*"):
            images.unlink()
        (digits / "train-images-idx3-ubyte").write_bytes(b"not what it says" * 100)
        self.assert_refused(self.run_ddprun(self.mnist_job(digits)), 78, "train-images-idx3-ubyte")

    def test_a_truncated_file(self):
        digits = self.folder / "digits"
        shutil.copytree(DIGITS, digits)
        packed, = digits.glob("train-images*.gz")
        with gzip.open(packed) as whole:
            content = whole.read()
        packed.unlink()
        (digits / "train-images-idx3-ubyte").write_bytes(content[:-100])
        self.assert_refused(self.run_ddprun(self.mnist_job(digits)), 78, "train-images-idx3-ubyte")


class Checkpoints(Case):
    def trained(self, **changes):
        """A job that has run, and its checkpoints, newest last."""
        job = self.job_file(checkpoint={"every_steps": 1}, **changes)
        done = self.run_ddprun(job)
        self.assertEqual(done.returncode, 0, done.stderr)
        files = sorted((self.folder / "out/checkpoints").glob("*.pt"), key=lambda path: path.stat().st_mtime_ns)
        self.assertGreaterEqual(len(files), 2)
        return job, files

    def test_a_checkpoint_of_another_model(self):
        job, _ = self.trained()
        done = self.run_ddprun("--set", "/model/hidden=[9]", job)
        self.assert_refused(done, 78, "checkpoint")

    def test_a_truncated_checkpoint_falls_back_to_the_one_before_and_says_so(self):
        job, files = self.trained()
        newest = files[-1]
        newest.write_bytes(newest.read_bytes()[:-200])
        done = self.run_ddprun("--set", "/train/max_steps=4", job)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = done.stdout + done.stderr
        self.assertIn(newest.name, said)
        self.assertIn(files[-2].name, said)

    def test_a_named_checkpoint_that_is_not_there(self):
        done = self.run_ddprun("--set", "/resume=nowhere.pt", self.job_file())
        self.assert_refused(done, 78, "nowhere.pt")


if __name__ == "__main__":
    unittest.main()
