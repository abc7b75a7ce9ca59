"""What the training tests share: a folder, job files, runs of the real ddprun, and what is left of them."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))

from patience import patient  # noqa: E402

DIGITS = ROOT / "configs/data/mnist-subset"
BOUND_S = patient(120)

SMALL_JOB = {
    "backend": "gloo",
    "model": {"type": "mlp", "hidden": [16], "dropout": 0.25},
    "data": {"type": "synthetic", "train_samples": 320, "test_samples": 100},
    "train": {"epochs": 3, "batch_size": 16},
    "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9},
    "checkpoint": {"keep": 10},
}


def merged(base, changes):
    """`base` with `changes`, object by object; an object that names its type replaces the other."""
    result = dict(base)
    for key, value in changes.items():
        goes_deeper = isinstance(value, dict) and isinstance(base.get(key), dict) and "type" not in value
        result[key] = merged(base[key], value) if goes_deeper else value
    return result


class JobTest(unittest.TestCase):
    """A test with a folder of its own; `binaries` is where ddprun and ddprun-worker lie."""

    binaries = ROOT / "build/release/bin"

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-training-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self):
        # A tag of this test in the environment of everything it starts finds what is left of it.
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("DDPRUN_", "PET_", "TORCHELASTIC_"))}
        return {**plain, "TMPDIR": str(self.folder), "OMP_NUM_THREADS": "1", "DDPRUN_TEST_TAG": str(self.folder)}

    def job_file(self, changes=None, name="job.json"):
        path = self.folder / name
        path.write_text(json.dumps(merged(merged(SMALL_JOB, {"output_dir": "out"}), changes or {}), indent=1))
        return path

    def command(self, job, *settings, ranks=2, flags=()):
        overrides = [word for setting in settings for word in ("--set", setting)]
        return [str(self.binaries / "ddprun"), "--nproc-per-node", str(ranks), *flags, *overrides, str(job)]

    def start(self, *arguments, **options):
        # stderr goes to a file: a pipe that nobody reads until the end would fill up.
        with open(self.folder / "stderr.txt", "w", encoding="utf-8") as errors:
            process = subprocess.Popen(self.command(*arguments, **options), cwd=self.folder, env=self.environment(), text=True,
                                       stdout=subprocess.PIPE, stderr=errors)
        self.addCleanup(self.end_what_runs, process)
        return process

    @staticmethod
    def end_what_runs(process):
        """Of a test that failed: its job may be one without end."""
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()

    def finish(self, process, expect):
        """Waits for the end of a started job; its remaining stdout."""
        output, _ = process.communicate(timeout=BOUND_S)
        self.assertEqual(process.returncode, expect, f"stdout:\n{output}\nstderr:\n{self.errors()}")
        return output

    def errors(self):
        return (self.folder / "stderr.txt").read_text(encoding="utf-8")

    def wait_for_line(self, process, beginning):
        for line in process.stdout:
            if line.startswith(beginning):
                return
        self.fail(self.errors())

    def run_job(self, *arguments, expect=0, **options):
        done = subprocess.run(self.command(*arguments, **options), cwd=self.folder, env=self.environment(), text=True,
                              capture_output=True, timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, expect, f"stdout:\n{done.stdout}\nstderr:\n{done.stderr}")
        return done

    def checkpoints(self, output="out"):
        return sorted((self.folder / output / "checkpoints").glob("step-*.pt"))

    def metrics(self, event, output="out"):
        lines = (self.folder / output / "metrics.jsonl").read_text().splitlines()
        return [record for record in map(json.loads, lines) if record["event"] == event]

    def processes(self):
        """Process ids that carry this test's tag."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if f"DDPRUN_TEST_TAG={self.folder}".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def workers(self):
        """Process id by rank of the running workers."""
        by_rank = {}
        for pid in self.processes():
            try:
                if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() != "ddprun-worker":
                    continue
                rank = re.search(rb"(?:^|\0)RANK=(\d+)\0", pathlib.Path(f"/proc/{pid}/environ").read_bytes())
                by_rank[int(rank.group(1))] = pid
            except (OSError, AttributeError):
                continue
        return by_rank
