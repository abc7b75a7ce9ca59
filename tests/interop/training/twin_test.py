#!/usr/bin/env python3
"""A job file trained by ddprun-worker and by its Python twin ends with the same bytes of all weights."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[3]
TWIN = pathlib.Path(__file__).with_name("twin.py")
BINARIES = ROOT / "build/release/bin"
BOUND_S = 120

BASE = {
    "model": {"type": "mlp", "hidden": [32]},
    "data": {"type": "mnist", "path": str(ROOT / "configs/data/mnist-subset"), "train_samples": 650, "test_samples": 200},
    "train": {"epochs": 4, "batch_size": 32, "max_steps": 20},
    "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 1e-4},
}

CASES = {
    "sgd": {},
    "accumulation, and an epoch whose last step has fewer batches": {"train": {"accumulation_steps": 3, "batch_size": 16}},
    "clipped by norm, warm-up, cosine": {"train": {"clip_grad_norm": 0.5}, "schedule": {"type": "cosine", "warmup_steps": 4}},
    "clipped by value, milestones": {"train": {"clip_grad_value": 0.01},
                                     "schedule": {"type": "multi_step", "milestones": [0.5, 1], "gamma": 0.3}},
    "average of the weights, linear": {"train": {"ema_decay": 0.9}, "schedule": {"type": "linear", "final_factor": 0.1}},
    "AdamW without decay on biases, smoothed labels": {
        "model": {"type": "mnist_cnn"}, "task": {"label_smoothing": 0.1},
        "optimizer": {"type": "adamw", "learning_rate": 0.003, "weight_decay": 0.1, "decay": "matrices"}},
    "bf16": {"train": {"precision": "bf16"}},
    "everything at once": {
        "model": {"type": "two_conv"}, "task": {"label_smoothing": 0.05},
        "train": {"accumulation_steps": 2, "clip_grad_norm": 1, "ema_decay": 0.99, "drop_last": True, "batch_size": 20},
        "optimizer": {"type": "adam", "learning_rate": 0.002, "weight_decay": 0.01},
        "schedule": {"type": "step", "step_epochs": 1, "gamma": 0.5, "warmup_steps": 3}},
}


def merged(base, changes):
    result = dict(base)
    for key, value in changes.items():
        deeper = isinstance(value, dict) and "type" not in value
        result[key] = merged(base.get(key, {}), value) if deeper else value
    return result


class Twins(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-twin-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_ranks(self, ranks, *words):
        environment = {**os.environ, "TMPDIR": str(self.folder), "OMP_NUM_THREADS": "1"}
        done = subprocess.run([str(BINARIES / "ddprun"), "--nproc-per-node", str(ranks), *map(str, words)], cwd=self.folder,
                              env=environment, text=True, capture_output=True, timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def assert_equal_weights(self, ours, theirs):
        self.assertEqual(list(ours), list(theirs))
        for name, tensor in theirs.items():
            self.assertTrue(torch.equal(ours[name], tensor),
                            f"{name}: differs by up to {(ours[name].double() - tensor.double()).abs().max().item()}")

    def test_the_twins_end_with_the_same_weights_average_and_accuracy(self):
        for case, changes in CASES.items():
            for ranks in (1, 2) if case in ("sgd", "everything at once") else (2,):
                with self.subTest(case=case, ranks=ranks):
                    out = self.folder / f"{len(list(self.folder.iterdir()))}"
                    job = self.folder / "job.json"
                    job.write_text(json.dumps(merged(BASE, changes) | {"output_dir": str(out), "device": "cpu"}))
                    self.run_ranks(ranks, job)
                    self.run_ranks(ranks, sys.executable, TWIN, out / "job.json", out / "twin.pt")
                    ours = torch.load(out / "checkpoints/step-00000020.pt")
                    theirs = torch.load(out / "twin.pt")
                    self.assert_equal_weights(ours["model"], theirs["model"])
                    if theirs["ema"] is not None:
                        self.assert_equal_weights(ours["ema"], theirs["ema"])
                    accuracy = ours["position"]["evaluation"]["sums"]["accuracy"] / ours["position"]["evaluation"]["items"]
                    self.assertEqual(accuracy, theirs["accuracy"])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        BINARIES = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
