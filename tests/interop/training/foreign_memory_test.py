#!/usr/bin/env python3
"""What ranks keep in place (/checkpoint/memory_every_steps) of a model from elsewhere, a part of which is not trained but changed
by its own forward: a rank is killed, and the job ends with the bits of one that was not disturbed.

    foreign_memory_test.py <folder of the binaries>
"""

import json
import os
import pathlib
import signal
import sys
import unittest

import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration/training"))

from jobs import JobTest  # noqa: E402

STEPS = 1000


class Follower(nn.Module):
    """`slow` follows `fast`, which alone is trained, and counts."""

    def __init__(self):
        super().__init__()
        self.fast = nn.Linear(784, 64)
        self.slow = nn.Linear(784, 64)
        self.head = nn.Linear(64, 10)
        for parameter in self.slow.parameters():
            parameter.requires_grad = False
        self.register_buffer("forwards", torch.zeros([], dtype=torch.long))

    def forward(self, x):
        x = x.flatten(1)
        if self.training:
            self.slow.weight.mul_(0.9).add_(0.1 * self.fast.weight.detach())
            self.forwards += 1
        return self.head(torch.relu(self.fast(x)) + self.slow(x))


class ForeignMemory(JobTest):
    def setUp(self):
        super().setUp()
        torch.manual_seed(5)
        torch.jit.script(Follower()).save(str(self.folder / "net.pt"))

    def steps(self, output):
        path = self.folder / output / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [record["step"] for record in map(json.loads, lines) if record["event"] == "step"]

    def last(self, output):
        checkpoint = torch.load(self.checkpoints(output)[-1], weights_only=False)
        return {**checkpoint["model"], **{f"state {place} {name}": value for place, state in checkpoint["optimizer"]["state"].items()
                                          for name, value in state.items() if torch.is_tensor(value)}}

    def test_a_killed_rank_costs_no_bit_of_what_a_forward_changes(self):
        job = self.job_file({"model": {"type": "torchscript", "torchscript": "net.pt"}, "train": {"epochs": 100, "max_steps": STEPS},
                             "log": {"every_steps": 1}, "checkpoint": {"memory_every_steps": 1, "every_epochs": 0}})
        self.run_job(job, "/output_dir=whole")
        process = self.start(job, flags=("--max-restarts", "1"))
        while max(self.steps("out"), default=0) < 5:
            self.assertIsNone(process.poll(), self.errors())
        os.kill(self.workers()[1], signal.SIGKILL)
        self.assertRegex(self.finish(process, expect=0), r"resumed from memory: .* step \d+")
        disturbed, whole = self.last("out"), self.last("whole")
        self.assertEqual(int(whole["forwards"]), STEPS)
        self.assertEqual(disturbed.keys(), whole.keys())
        self.assertEqual([name for name in whole if not torch.equal(disturbed[name], whole[name])], [])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
