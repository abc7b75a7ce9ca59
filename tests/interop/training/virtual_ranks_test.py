#!/usr/bin/env python3
"""/train/virtual_ranks: a job trains as N ranks would on any number of processes, and across a change between them, to the
last bit of everything that a checkpoint holds; also as N processes without it, and as Python's DDP on N."""

import json
import math
import re
import unittest

import numpy
import torch
from torch import nn
from twin_case import ROOT, TwinCase, binaries, merged

STEPS = 12
BRIGHT = 0.1

# Shuffled, augmented and mixed samples, dropout and running statistics: all that is each rank's own; 162 samples, so that
# ranks repeat some, and the last step of an epoch is smaller.
BASE = {
    "backend": "shm", "device": "cpu", "model": {"torchscript": "net.pt"},
    "data": {"type": "mnist", "path": str(ROOT / "configs/data/mnist-subset"), "train_samples": 162, "test_samples": 50,
             "transforms": [{"type": "random_crop", "size": 28, "padding": 3}]},
    "train": {"epochs": 9, "batch_size": 6, "max_steps": STEPS, "mixup_alpha": 0.3, "clip_grad_norm": 0.5, "ema_decay": 0.9},
    "optimizer": {"type": "adamw", "learning_rate": 0.003, "weight_decay": 0.1},
    "schedule": {"type": "multi_step", "milestones": [0.2, 0.29], "gamma": 0.5, "warmup_steps": 2},
    "checkpoint": {"every_steps": 3, "keep": 10}, "log": {"every_steps": 1}, "divergence_check": 5,
}
VIRTUAL = {"train": {"virtual_ranks": 4}}

CASES = {
    "shm": {},
    "gloo": {"backend": "gloo"},
    "statistics of their own": {"ddp": {"broadcast_buffers": False}},
    "accumulation, bf16": {"train": {"accumulation_steps": 2, "precision": "bf16", "ema_decay": 0}},
    "many buckets": {"ddp": {"bucket_cap_mb": 0.02}, "train": {"clip_grad_norm": 0}},
    "unused parameters": {"model": {"torchscript": "branching.pt"}, "ddp": {"find_unused_parameters": True}},
    "a model that draws when it is judged": {"model": {"torchscript": "drawing.pt"}, "train": {"ema_decay": 0}},
    "an average that draws when it is judged": {"model": {"torchscript": "drawing.pt"}},
    "steps that are left out": {"model": {"torchscript": "fragile.pt"}, "train": {"non_finite": "skip", "ema_decay": 0},
                                "ddp": {"broadcast_buffers": False}},
}


class Net(nn.Module):
    """With running statistics and dropout; batches that are brighter than `limit` give no number."""

    def __init__(self, dropout: float, limit: float = math.inf):
        super().__init__()
        self.limit = limit
        self.conv = nn.Conv2d(1, 6, 3, stride=2)
        self.norm = nn.BatchNorm2d(6)
        self.middle = nn.Linear(1014, 48)
        self.norm1 = nn.BatchNorm1d(48)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(48, 10)

    def forward(self, x):
        is_broken = self.training and bool(x.mean() > self.limit)
        x = torch.relu(self.norm(self.conv(x))).flatten(1)
        y = self.fc(self.dropout(torch.relu(self.norm1(self.middle(x)))))
        return y * math.inf if is_broken else y


class Branching(nn.Module):
    """Which branch a batch takes is its own matter; nobody takes the last one."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10)
        self.bright = nn.Linear(784, 10)
        self.dark = nn.Linear(784, 10)
        self.never = nn.Linear(784, 10)

    def forward(self, x):
        x = x.flatten(1)
        y = self.fc(x)
        if bool(x.mean() > 0.0):
            return y + self.bright(x)
        return y + self.dark(x)


class Drawing(nn.Module):
    """Draws in each forward, and counts those that judge it."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10)
        self.register_buffer("judged", torch.zeros([]))

    def forward(self, x):
        y = self.fc(x.flatten(1))
        if not self.training:
            self.judged += 1
        return y + 0.1 * torch.rand_like(y) + 0.01 * self.judged


class Fading(nn.Module):
    """Of two forwards in a row, only the first one takes `extra`."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10)
        self.extra = nn.Linear(784, 10)
        self.register_buffer("forwards", torch.zeros([], dtype=torch.long))

    def forward(self, x):
        x = x.flatten(1)
        y = self.fc(x)
        if self.training:
            self.forwards += 1
            if int(self.forwards) % 2 == 0:
                return y
        return y + self.extra(x)


class Centring(nn.Module):
    """Takes from each batch the mean of those that it has seen, as a rank has seen them, into which it puts that of this one."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(784, 10)
        self.register_buffer("mean", torch.zeros([784]))

    def forward(self, x):
        x = x.flatten(1)
        if self.training:
            self.mean.mul_(0.5).add_(0.5 * x.detach().mean(0))
        return self.fc(x - self.mean)


def leaves(value, place=""):
    """Everything in a checkpoint by its place, but for what says which job wrote it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if place or key != "ddprun":
                yield from leaves(inner, f"{place}/{key}")
    elif isinstance(value, (list, tuple)):
        for number, inner in enumerate(value):
            yield from leaves(inner, f"{place}/{number}")
    else:
        yield place, value


class VirtualRanks(TwinCase):
    binaries = binaries()
    variables = {}  # a process that is alone may take all processors

    def setUp(self):
        super().setUp()
        torch.manual_seed(3)
        torch.jit.script(Net(0.25)).save(str(self.folder / "net.pt"))
        torch.jit.script(Net(0.25, BRIGHT)).save(str(self.folder / "fragile.pt"))
        torch.jit.script(Branching()).save(str(self.folder / "branching.pt"))
        torch.jit.script(Centring()).save(str(self.folder / "centring.pt"))
        torch.jit.script(Drawing()).save(str(self.folder / "drawing.pt"))
        torch.jit.script(Fading()).save(str(self.folder / "fading.pt"))

    def train(self, job, out, ranks, *settings):
        (self.folder / "job.json").write_text(json.dumps(job))
        return self.run_ranks(ranks, f"--set=/output_dir={self.folder / out}", *[f"--set={one}" for one in settings], "job.json")

    def checkpoint(self, out, steps=STEPS):
        return torch.load(self.folder / out / f"checkpoints/step-{steps:08}.pt", weights_only=False)

    def assert_equal_checkpoints(self, one, other, steps=STEPS):
        ours, theirs = (dict(leaves(self.checkpoint(out, steps))) for out in (one, other))
        differing = [place for place in ours.keys() | theirs.keys()
                     if not self.is_equal(ours.get(place), theirs.get(place))]
        self.assertEqual(sorted(differing), [])
        self.assertGreater(len(ours), 30)

    @staticmethod
    def is_equal(one, other):
        if isinstance(one, torch.Tensor):
            return isinstance(other, torch.Tensor) and torch.equal(one, other)
        return one == other

    def losses(self, out):
        records = map(json.loads, (self.folder / out / "metrics.jsonl").read_text().splitlines())
        return [(record["step"], record["loss"], record.get("held_out_loss")) for record in records
                if record["event"] in ("step", "epoch")]

    def test_any_number_of_processes_ends_with_the_bits_of_four_ranks(self):
        for case, changes in CASES.items():
            job = merged(merged(BASE, VIRTUAL), changes)
            with self.subTest(case=case):
                self.train(merged(BASE, changes), f"{case}-plain", 4)
                self.train(job, f"{case}-1", 1)
                self.assert_equal_checkpoints(f"{case}-1", f"{case}-plain")
                self.assertEqual(self.losses(f"{case}-1"), self.losses(f"{case}-plain"))
                for ranks in (2, 4):
                    self.train(job, f"{case}-{ranks}", ranks)
                    for steps in (6, STEPS):  # within an epoch each rank still has its own running statistics
                        self.assert_equal_checkpoints(f"{case}-{ranks}", f"{case}-1", steps=steps)
                    self.assertEqual(self.losses(f"{case}-{ranks}"), self.losses(f"{case}-1"))
        steps = self.checkpoint("steps that are left out-1")["optimizer"]["state"][0]["step"]
        self.assertIn(int(steps), range(3, STEPS), "some steps are left out, and not all")

    def test_statistics_of_their_own_are_gone_on_with(self):
        """At the end of a run an evaluation gives rank 0's to all, so it goes on from within."""
        job = merged(merged(BASE, VIRTUAL), CASES["statistics of their own"])
        self.train(job, "whole", 1)
        self.assertEqual(len({bytes(row.numpy()) for row in self.checkpoint("whole", 3)["rank_buffers"]}), 4)
        self.train(job, "moved", 2, f"/resume={self.folder / 'whole/checkpoints/step-00000003.pt'}")
        for steps in (6, STEPS):
            self.assert_equal_checkpoints("moved", "whole", steps=steps)

    def test_plain_ranks_go_on_with_what_each_of_them_alone_has_seen(self):
        job = merged(BASE, {"model": {"torchscript": "centring.pt"}, "ddp": {"broadcast_buffers": False}})
        self.train(job, "whole", 3)
        self.train(job, "moved", 3, f"/resume={self.folder / 'whole/checkpoints/step-00000003.pt'}")
        for steps in (6, STEPS):
            self.assert_equal_checkpoints("moved", "whole", steps=steps)

    def test_a_job_goes_on_with_its_bits_on_another_number_of_processes(self):
        for case in ("shm", "gloo", "statistics of their own"):
            job = merged(merged(BASE, VIRTUAL), CASES[case])
            with self.subTest(case=case):
                self.train(job, f"{case}-whole", 1)
                for steps, ranks in zip((3, 5, 8, STEPS), (4, 2, 1, 4)):
                    said = self.train(job, f"{case}-moved", ranks, f"/train/max_steps={steps}")
                    self.assertIn(f"4 virtual ranks in {ranks} process{'' if ranks == 1 else 'es'} of batch 6", said)
                    self.assertNotIn("the world has changed", said)
                self.assert_equal_checkpoints(f"{case}-moved", f"{case}-whole")

    def test_a_job_of_four_ranks_goes_on_with_its_bits_as_four_virtual_ones_and_back(self):
        self.train(BASE, "whole", 4)
        self.train(BASE, "changed", 4, "/train/max_steps=4")
        self.train(merged(BASE, VIRTUAL), "changed", 2, "/train/max_steps=8")
        self.train(BASE, "changed", 4)
        self.assert_equal_checkpoints("changed", "whole")

    def test_python_has_the_same_bits_on_as_many_ranks(self):
        torch.jit.script(Net(0.0)).save(str(self.folder / "net.pt"))
        plain = merged({key: value for key, value in BASE.items() if key != "data"},
                       {"data": {key: value for key, value in BASE["data"].items() if key != "transforms"},
                        "train": {"mixup_alpha": 0}})
        for ranks, cap in ((2, 25), (3, 25), (4, 25), (4, 0.02)):
            with self.subTest(ranks=ranks, bucket_cap_mb=cap):
                out = self.folder / f"python-{ranks}-{cap}"
                self.train(merged(plain, {"train": {"virtual_ranks": ranks}, "ddp": {"bucket_cap_mb": cap}}), out.name, 1)
                self.assert_equal_to_twin(out, ranks, STEPS)

    def test_another_number_of_virtual_ranks_goes_on_as_a_changed_world_does(self):
        self.train(merged(BASE, VIRTUAL), "out", 1, "/train/max_steps=3")
        said = self.train(merged(BASE, {"train": {"virtual_ranks": 2}}), "out", 1, "/train/max_steps=4")
        self.assertIn("the world has changed: 4 ranks and a global batch of 24 before, 2 and 12 now", said)

    def test_a_parameter_that_takes_no_part_is_refused_with_its_name(self):
        (self.folder / "job.json").write_text(json.dumps(merged(merged(BASE, VIRTUAL), {"model": {"torchscript": "branching.pt"}})))
        self.assert_refused("the last backward gave no gradient to 4 of 8 parameters on virtual rank", 2, "job.json")

    def test_a_parameter_that_only_an_earlier_micro_batch_uses_is_refused_as_plain_ddp_does(self):
        for virtual in (VIRTUAL, {}):
            job = merged(merged(BASE, virtual), {"model": {"torchscript": "fading.pt"}, "train": {"accumulation_steps": 2}})
            (self.folder / "job.json").write_text(json.dumps(job))
            self.assert_refused("gave no gradient to 2 of 4 parameters", 2, "job.json")

    def test_what_cannot_be_dealt_out_is_refused(self):
        (self.folder / "job.json").write_text(json.dumps(merged(BASE, VIRTUAL)))
        self.assert_refused("/train/virtual_ranks: 4 virtual ranks cannot be dealt out evenly to 3 processes; start the job with "
                            "1, 2 or 4 of them, or set this to a multiple of 3", 3, "job.json")

    def test_a_loss_that_is_no_number_names_its_virtual_rank(self):
        torch.jit.script(nn.Linear(2, 1)).save(str(self.folder / "net.pt"))
        for split, count in (("train", 64), ("test", 16)):
            x = numpy.linspace(-1, 1, 2 * count, dtype="float32").reshape(count, 2)
            numpy.save(self.folder / f"{split}_y.npy", x[:, :1])
            x[7] = 3e38
            numpy.save(self.folder / f"{split}_x.npy", x)
        for how in ("stop", "rollback"):
            job = {"model": {"torchscript": "net.pt"}, "data": {"type": "npy", "path": "."}, "device": "cpu",
                   "train": {"batch_size": 4, "virtual_ranks": 4, "non_finite": how}}
            said = set()
            for ranks in (1, 2, 4):
                (self.folder / "job.json").write_text(json.dumps({**job, "output_dir": f"{how}-{ranks}"}))
                done = self.launch(ranks, "job.json")
                self.assertEqual(done.returncode, 78, done.stdout + done.stderr)
                said.add(re.search(r"the loss is not a finite number at step \d of epoch 1, on rank \d with the training samples "
                                   r"[\d, ]*\b7\b[\d, ]*", done.stderr).group())
            self.assertEqual(len(said), 1, said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
