#!/usr/bin/env python3
"""All of MNIST: mnist_cnn on two ranks reaches 98.5 % on the 10,000 held-out digits in two epochs.

The digits are looked for in $DDPRUN_MNIST_DIR, then in ../shared/data/mnist beside the repository.
"""

import os
import pathlib
import sys
import unittest

from jobs import ROOT, JobTest


def mnist_folder():
    for place in (os.environ.get("DDPRUN_MNIST_DIR"), ROOT.parent / "shared/data/mnist"):
        if place and (pathlib.Path(place) / "train-images-idx3-ubyte.gz").exists():
            return pathlib.Path(place).resolve()
    return None


class FullMnist(JobTest):
    def test_two_epochs_reach_98_5_percent(self):
        job = self.job_file({
            "backend": "auto",
            "model": {"type": "mnist_cnn"},
            "data": {"type": "mnist", "path": str(MNIST)},
            "train": {"epochs": 2, "batch_size": 64},
            "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9},
            "schedule": {"type": "cosine"},
        })
        print(self.run_job(job).stdout)
        self.assertGreaterEqual(self.metrics("epoch")[-1]["accuracy"], 0.985)


MNIST = mnist_folder()

if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    if MNIST is None:
        print("SKIPPED: no full MNIST; set DDPRUN_MNIST_DIR to the folder of its four files", file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=2)
