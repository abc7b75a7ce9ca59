"""What the tests of ddprun's commands for job files share: a folder, a job in it, and the real programs."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARIES, PLUGINS = ROOT / "build/release/bin", ROOT / "build/release/tests/plugins"
sys.path.insert(0, str(ROOT / "tests/support"))

from patience import patient  # noqa: E402

JOB = {"model": {"type": "mlp", "hidden": [16]}, "data": {"type": "synthetic", "train_samples": 64, "test_samples": 50},
       "train": {"batch_size": 16}, "output_dir": "out"}


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-commands-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self):
        foreign = ("DDPRUN_", "PET_", "TORCHELASTIC_")
        plain = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        return {**plain, "TMPDIR": str(self.folder), "OMP_NUM_THREADS": "1"}

    def write_job(self, job=None, name="job.json", **changes):
        path = self.folder / name
        path.write_text(json.dumps({**(job or JOB), **changes}))
        return path

    def ddprun(self, *words, expect=0, **options):
        done = subprocess.run([str(BINARIES / "ddprun"), *map(str, words)], cwd=self.folder, env=self.environment(), text=True,
                              capture_output=True, timeout=patient(90), check=False, **options)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def train(self, *settings, job="job.json"):
        words = [word for setting in settings for word in ("--set", setting)]
        return self.ddprun("--standalone", "--nproc-per-node", "1", *words, job)

    def metrics(self, event="epoch"):
        records = [json.loads(line) for line in (self.folder / "out/metrics.jsonl").read_text().splitlines()]
        return [record for record in records if record["event"] == event]


def main():
    global BINARIES, PLUGINS
    if len(sys.argv) > 2 and not sys.argv[1].startswith("-"):
        BINARIES, PLUGINS = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
    unittest.main(module="__main__", verbosity=2)
