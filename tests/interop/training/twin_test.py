#!/usr/bin/env python3
"""A job file trained by ddprun-worker and by its Python twin ends with the same bytes of all weights."""

import json
import unittest

import numpy
import torch
import twin
from torch import nn
from twin_case import ROOT, TwinCase, binaries, merged

BASE = {
    "model": {"type": "mlp", "hidden": [32]},
    "data": {"type": "mnist", "path": str(ROOT / "configs/data/mnist-subset"), "train_samples": 650, "test_samples": 200},
    "train": {"epochs": 4, "batch_size": 32, "max_steps": 20},
    "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 1e-4},
}

CASES = {
    "sgd": {},
    "accumulation, and an epoch whose last step has fewer batches": {"train": {"accumulation_steps": 3, "batch_size": 16}},
    "whole batches only, the last step of an epoch of fewer": {
        "train": {"drop_last_batch": True, "accumulation_steps": 3, "batch_size": 16}},
    "clipped by norm, warm-up, cosine": {"train": {"clip_grad_norm": 0.5}, "schedule": {"type": "cosine", "warmup_steps": 4}},
    "clipped by value, milestones": {"train": {"clip_grad_value": 0.01},
                                     "schedule": {"type": "multi_step", "milestones": [0.5, 0.9], "gamma": 0.3}},
    "average of the weights, linear": {"train": {"ema_decay": 0.9}, "schedule": {"type": "linear", "final_factor": 0.1}},
    "AdamW without decay on biases, smoothed labels": {
        "model": {"type": "mnist_cnn"}, "task": {"label_smoothing": 0.1},
        "optimizer": {"type": "adamw", "learning_rate": 0.003, "weight_decay": 0.1, "decay": "matrices"}},
    "channels_last": {"model": {"type": "mnist_cnn"}, "train": {"channels_last": True, "ema_decay": 0.9, "clip_grad_norm": 1}},
    "bf16": {"train": {"precision": "bf16"}},
    "everything at once": {
        "model": {"type": "two_conv"}, "task": {"label_smoothing": 0.05},
        "train": {"accumulation_steps": 2, "clip_grad_norm": 1, "ema_decay": 0.99, "drop_last": True, "batch_size": 20},
        "optimizer": {"type": "adam", "learning_rate": 0.002, "weight_decay": 0.01},
        "schedule": {"type": "step", "step_epochs": 1, "gamma": 0.5, "warmup_steps": 3}},
}

# Not in MODELS: a plug-in that is Python's.
SCRIPTED = {
    "model": {"torchscript": "net.pt"}, "train": {"ema_decay": 0.9, "batch_size": 16},
    "optimizer": {"type": "adamw", "learning_rate": 0.003}}


class Net(nn.Module):
    """A norm, a branch that a trace would lose, and a parameter that several places share."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(4))
        self.middle = nn.Linear(216, 216)
        self.fc = nn.Linear(216, 10)

    def forward(self, x):
        x = self.features(x).flatten(1)
        x = torch.relu(self.middle(x))
        if self.training:
            x = torch.relu(self.middle(x))
        return self.fc(x)


class Twins(TwinCase):
    binaries = binaries()

    def assert_job_equals_twin(self, job, ranks):
        out, file = self.fresh_folder(), self.folder / "job.json"
        file.write_text(json.dumps(job | {"output_dir": str(out), "device": "cpu"}))
        self.run_ranks(ranks, file)
        self.assert_equal_to_twin(out, ranks, 20)

    def test_what_python_has_scripted(self):
        torch.manual_seed(3)
        torch.jit.script(Net()).save(str(self.folder / "net.pt"))
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.assert_job_equals_twin(merged({**BASE, "model": {}}, SCRIPTED), ranks)

    def test_a_script_that_is_interrupted_ends_with_the_same_bytes_in_bf16(self):
        """The optimizer of TorchScript's graphs rounds otherwise from the second backward of a process on."""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = nn.Conv2d(1, 8, 3, padding=1, stride=2)
                self.norm = nn.BatchNorm2d(8)
                self.fc = nn.Linear(1568, 10)
                self.dropout = nn.Dropout(0.1)

            def forward(self, x):
                return self.fc(self.dropout(torch.relu(self.norm(self.conv(x))).flatten(1)))

        torch.manual_seed(3)
        torch.jit.script(Net()).save(str(self.folder / "net.pt"))
        bf16 = {"train": {"precision": "bf16", "batch_size": 16}, "device": "cpu"}
        job = merged({**BASE, "model": {"torchscript": "net.pt"}}, bf16)
        (self.folder / "job.json").write_text(json.dumps(job))
        for out, steps in (("whole", (12,)), ("interrupted", (5, 12))):
            for last in steps:
                self.run_ranks(1, f"--set=/output_dir={self.folder / out}", f"--set=/train/max_steps={last}", "job.json")
        self.assert_equal_weights(*(torch.load(self.folder / out / "checkpoints/step-00000012.pt")["model"]
                                    for out in ("whole", "interrupted")))

    def test_a_mask_of_infinities_keeps_no_model_from_its_checkpoints(self):
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(784, 10)
                self.register_buffer("mask", torch.full((10, 10), float("-inf")).triu(1))

            def forward(self, x):
                y = self.fc(x.flatten(1))
                scores = y.unsqueeze(2) * y.unsqueeze(1) + self.mask
                return (torch.softmax(scores, -1) @ y.unsqueeze(2)).squeeze(2)

        torch.jit.script(Attention()).save(str(self.folder / "net.pt"))
        job = merged({**BASE, "model": {"torchscript": "net.pt"}}, {"train": {"ema_decay": 0.5}, "device": "cpu"})
        (self.folder / "job.json").write_text(json.dumps(job))
        for steps in (2, 4):  # resumed, too
            self.run_ranks(2, f"--set=/output_dir={self.folder / 'out'}", f"--set=/train/max_steps={steps}", "job.json")
        state = torch.load(self.folder / "out/checkpoints/step-00000004.pt")["model"]
        self.assertTrue(torch.isinf(state["mask"]).any())

    def test_buffers_in_whose_place_a_forward_puts_others_are_trained_saved_and_resumed(self):
        class Tail(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(784, 10)
                self.register_buffer("mean", torch.zeros(10))
                self.register_buffer("forwards", torch.zeros((), dtype=torch.long))

            def forward(self, x):
                y = self.fc(x.flatten(1)) * (1 + self.mean)
                if self.training:
                    self.mean = 0.9 * self.mean + 0.1 * y.detach().mean(0)
                    self.forwards = self.forwards + 1
                return y - self.mean

        torch.manual_seed(3)
        torch.jit.script(nn.Sequential(nn.Identity(), Tail())).save(str(self.folder / "net.pt"))
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.assert_job_equals_twin(merged({**BASE, "model": {}}, SCRIPTED), ranks)
        (self.folder / "job.json").write_text(json.dumps(merged({**BASE, "model": {"torchscript": "net.pt"}}, {"device": "cpu"})))
        for out, steps in (("whole", (12,)), ("interrupted", (5, 12))):
            for last in steps:
                self.run_ranks(2, f"--set=/output_dir={self.folder / out}", f"--set=/train/max_steps={last}", "job.json")
        whole, interrupted = (torch.load(self.folder / out / "checkpoints/step-00000012.pt")["model"] for out in ("whole", "interrupted"))
        self.assertEqual(whole["1.forwards"].item(), 12)
        self.assert_equal_weights(whole, interrupted)

    def test_a_buffer_whose_shape_a_forward_changes_is_a_cache(self):
        class Caches(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(784, 10)
                self.register_buffer("ones", torch.ones(1))
                self.register_buffer("last", torch.zeros(10))

            def forward(self, x):
                y = self.fc(x.flatten(1))
                if self.ones.size(0) < y.size(0):
                    self.ones = torch.ones(y.size(0))
                self.last = y.detach().mean(0)  # of half precision, under autocast
                return y * self.ones[:y.size(0)].unsqueeze(1)

        torch.jit.script(Caches()).save(str(self.folder / "net.pt"))
        job = merged({**BASE, "model": {"torchscript": "net.pt"}}, {"train": {"precision": "bf16"}, "device": "cpu"})
        (self.folder / "job.json").write_text(json.dumps(job))
        for steps in (2, 4):  # resumed, too
            self.run_ranks(2, f"--set=/output_dir={self.folder / 'out'}", f"--set=/train/max_steps={steps}", "job.json")
        self.assertTrue(torch.load(self.folder / "out/checkpoints/step-00000004.pt")["model"]["last"].any())

    def test_buffers_that_share_memory_until_one_is_assigned_to_have_values_of_their_own(self):
        class Previous(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(784, 10)
                zeros = torch.zeros(10)
                self.register_buffer("mean", zeros)
                self.register_buffer("previous", zeros)

            def forward(self, x):
                y = self.fc(x.flatten(1)) + self.previous
                if self.training:
                    self.previous = self.mean
                    self.mean = y.detach().mean(0)
                return y

        torch.manual_seed(3)
        torch.jit.script(Previous()).save(str(self.folder / "net.pt"))
        # Without an average, over which Python's own stumbles here.
        self.assert_job_equals_twin(merged({**BASE, "model": {}}, {"model": {"torchscript": "net.pt"}, "train": {"batch_size": 16}}), 2)

    def test_a_step_that_is_left_out_keeps_no_running_statistics_from_the_checkpoints(self):
        class Overflowing(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(2)
                self.fc = nn.Linear(2, 1)

            def forward(self, x):
                return self.fc(self.norm(x * 1e10))

        torch.jit.script(Overflowing()).save(str(self.folder / "net.pt"))
        for split, count in (("train", 64), ("test", 16)):
            x = numpy.linspace(-1, 1, 2 * count, dtype="float32").reshape(count, 2)
            numpy.save(self.folder / f"{split}_y.npy", x[:, :1])
            if split == "train":
                x[7] = 3e38
            numpy.save(self.folder / f"{split}_x.npy", x)
        job = {"model": {"torchscript": "net.pt"}, "data": {"type": "npy", "path": "."}, "device": "cpu", "output_dir": "out",
               "train": {"epochs": 2, "batch_size": 4, "non_finite": "skip", "ema_decay": 0.5},
               "checkpoint": {"every_steps": 1, "keep": 100}, "optimizer": {"type": "sgd", "learning_rate": 0.01}}
        (self.folder / "job.json").write_text(json.dumps(job))
        self.run_ranks(2, "job.json")
        for path in (self.folder / "out/checkpoints").glob("step-*.pt"):
            for name, tensor in torch.load(path)["model"].items():
                self.assertTrue(tensor.isfinite().all(), f"{path.name}: {name}")

    def test_what_python_has_saved_and_no_job_can_train_is_refused(self):
        class Pair(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(784, 10)

            def forward(self, x):
                return self.fc(x.flatten(1)), x

        class InTraining(nn.Module):
            """What is wrong only while it learns."""
            def __init__(self, how: str):
                super().__init__()
                self.fc = nn.Linear(784, 10)
                self.how = how

            def forward(self, x):
                y = self.fc(x.flatten(1))
                if self.training and self.how == "narrow":
                    return y[:, :7]
                return y.detach() if self.training else y

        def linear(inputs, outputs):
            return nn.Sequential(nn.Flatten(), nn.Linear(inputs, outputs))

        file, job = self.folder / "net.pt", self.folder / "job.json"
        job.write_text(json.dumps(merged({**BASE, "model": {"torchscript": "net.pt"}}, {"output_dir": "out", "device": "cpu"})))
        cases = {
            "net.pt is not there": lambda: None,
            "cannot be read as TorchScript": lambda: torch.save(linear(784, 10).state_dict(), file),
            "has no parameters": lambda: torch.jit.script(nn.Flatten()).save(str(file)),
            "its forward gives a Tuple": lambda: torch.jit.script(Pair()).save(str(file)),
            "the model gives Float [2, 7] for 2 samples, and the data has 10 classes":
                lambda: torch.jit.script(linear(784, 7)).save(str(file)),
            "the model gives Float [2, 7] for 2 samples in training mode, and the data has 10 classes":
                lambda: torch.jit.script(InTraining("narrow")).save(str(file)),
            "no gradient comes from its output in training mode": lambda: torch.jit.script(InTraining("detached")).save(str(file)),
            'it does not take "image", Float [2, 1, 28, 28]: RuntimeError: ':
                lambda: torch.jit.script(linear(100, 10)).save(str(file)),
        }
        for words, make in cases.items():
            with self.subTest(words):
                make()
                self.assert_refused(words, 2, job)

    def test_a_precision_that_the_twin_does_not_have_is_refused(self):
        for precision in ("fp16", "tf32"):
            with self.assertRaises(SystemExit) as refused:
                twin.precision_of({"train": {"precision": precision}, "device": "cpu"})
            self.assertEqual(refused.exception.code, f"/train/precision: the twin trains in fp32 and bf16, and not in {precision}; "
                                                     "set one of these")

    def test_the_twins_end_with_the_same_weights_average_and_accuracy(self):
        for case, changes in CASES.items():
            for ranks in (1, 2) if case in ("sgd", "everything at once") else (2,):
                with self.subTest(case=case, ranks=ranks):
                    self.assert_job_equals_twin(merged(BASE, changes), ranks)


if __name__ == "__main__":
    unittest.main(verbosity=2)
