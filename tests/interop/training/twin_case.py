"""A job trained by ddprun-worker and by its Python twin, side by side, in a folder of its own."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
TWIN = pathlib.Path(__file__).with_name("twin.py")
BOUND_S = 1800 if "DDPRUN_CONFIG_STEPS" in os.environ else 300


def binaries():
    """The folder with ddprun: the first argument, if it is none of unittest's."""
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        return pathlib.Path(sys.argv.pop(1)).resolve()
    return ROOT / "build/release/bin"


def merged(base, changes):
    """`base` with `changes`, object by object; one that names its type replaces the other."""
    result = dict(base)
    for key, value in changes.items():
        deeper = isinstance(value, dict) and "type" not in value
        result[key] = merged(base.get(key, {}), value) if deeper else value
    return result


class TwinCase(unittest.TestCase):
    binaries = None  # given by the program
    variables = {"OMP_NUM_THREADS": "1"}

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-twin-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def fresh_folder(self):
        return self.folder / f"out-{len(list(self.folder.iterdir()))}"

    def launch(self, ranks, *words):
        inherited = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        environment = {**inherited, "TMPDIR": str(self.folder), **self.variables}
        return subprocess.run([str(self.binaries / "ddprun"), "--nproc-per-node", str(ranks), *map(str, words)], cwd=self.folder,
                              env=environment, text=True, capture_output=True, timeout=BOUND_S, check=False)

    def run_ranks(self, ranks, *words):
        done = self.launch(ranks, *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def assert_refused(self, words, ranks, *command):
        done = self.launch(ranks, *command)
        self.assertEqual(done.returncode, 78, done.stdout + done.stderr)
        self.assertIn(words, done.stderr)

    def assert_equal_weights(self, ours, theirs):
        self.assertEqual(list(ours), list(theirs))
        for name, tensor in theirs.items():
            self.assertTrue(torch.equal(ours[name], tensor),
                            f"{name}: differs by up to {(ours[name].double() - tensor.double()).abs().max().item()}")

    def assert_equal_to_twin(self, out, ranks, steps):
        """What a job left in `out` after `steps`, against what its twin makes of the same job file."""
        self.run_ranks(ranks, sys.executable, TWIN, out / "job.json", out / "twin.pt")
        ours = torch.load(out / f"checkpoints/step-{steps:08}.pt")
        theirs = torch.load(out / "twin.pt")
        self.assert_equal_weights(ours["model"], theirs["model"])
        if theirs["ema"] is not None:
            self.assert_equal_weights(ours["ema"], theirs["ema"])
        evaluation = ours["position"]["evaluation"]
        if "accuracy" in evaluation["sums"]:
            self.assertEqual(evaluation["sums"]["accuracy"] / evaluation["items"], theirs["accuracy"])
