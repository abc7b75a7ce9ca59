#!/usr/bin/env python3
"""Checkpoints between ddprun and Python: each opens what the other wrote, and computes the same with it."""

import collections
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
from torch import nn
from torch.nn import functional

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))
from nets import MODELS  # noqa: E402

sys.path.insert(0, str(ROOT / "tests/support"))

from patience import patient  # noqa: E402

DIGITS = ROOT / "configs/data/mnist-subset"
BUILD = ROOT / "build/release"
BOUND_S = patient(120)

OPTIMIZERS = {
    "sgd": ({"momentum": 0.9, "weight_decay": 0.001}, lambda p: torch.optim.SGD(p, momentum=0.9, fused=True)),
    "adam": ({"amsgrad": True}, lambda p: torch.optim.Adam(p, amsgrad=True, fused=True)),
    "adamw": ({"weight_decay": 0.01}, lambda p: torch.optim.AdamW(p, fused=True)),
}


def held_out():
    images = gzip.decompress((DIGITS / "t10k-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((DIGITS / "t10k-labels-idx1-ubyte.gz").read_bytes())[8:]
    pixels = torch.frombuffer(bytearray(images), dtype=torch.uint8).view(-1, 1, 28, 28).float()
    return (pixels / 255 - 0.1307) / 0.3081, torch.frombuffer(bytearray(labels), dtype=torch.uint8).long()


class InteropTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-interop-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def train(self, model, optimizer, changes=None):
        job = {
            "output_dir": "out",
            "model": {"type": model, **({"hidden": [32]} if model == "mlp" else {})},
            "data": {"type": "mnist", "path": str(DIGITS), "train_samples": 640},
            "train": {"epochs": 1, "batch_size": 32},
            "optimizer": {"type": optimizer, "learning_rate": 0.01, **OPTIMIZERS[optimizer][0]},
            **(changes or {}),
        }
        (self.folder / "job.json").write_text(json.dumps(job))
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run([BUILD / "bin/ddprun-worker", self.folder / "job.json"], cwd=self.folder, env=environment,
                              capture_output=True, text=True, timeout=BOUND_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def last_epoch(self):
        records = [json.loads(line) for line in (self.folder / "out/metrics.jsonl").read_text().splitlines()]
        return [record for record in records if record["event"] == "epoch"][-1]

    def test_torch_load_opens_a_checkpoint_and_the_python_model_computes_the_same(self):
        for model in MODELS:
            for optimizer in OPTIMIZERS:
                with self.subTest(model=model, optimizer=optimizer), tempfile.TemporaryDirectory(dir=self.folder):
                    self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
                    self.check_same(model, optimizer)

    def check_same(self, model, optimizer):
        self.train(model, optimizer)
        checkpoint = torch.load(self.folder / "out/checkpoints/step-00000020.pt")
        self.assertIsInstance(checkpoint["model"], collections.OrderedDict)
        twin = MODELS[model]({"hidden": [32], "dropout": 0})
        self.assertEqual(list(checkpoint["model"]), list(twin.state_dict()))
        twin.load_state_dict(checkpoint["model"])
        images, labels = held_out()
        with torch.no_grad():
            logits = twin(images)
        record = self.last_epoch()
        self.assertEqual((logits.argmax(1) == labels).float().mean().item(), torch.tensor(record["accuracy"]).item())
        self.assertAlmostEqual(functional.cross_entropy(logits, labels).item(), record["held_out_loss"], places=4)
        self.check_optimizer(twin, OPTIMIZERS[optimizer][1](twin.parameters()), checkpoint["optimizer"])

    def check_optimizer(self, twin, optimizer, state):
        expected = optimizer.state_dict()["param_groups"][0]
        self.assertEqual(list(state["param_groups"][0]), list(expected))
        images, labels = held_out()
        optimizer.load_state_dict(state)
        functional.cross_entropy(twin(images), labels).backward()
        optimizer.step()
        again = optimizer.state_dict()["state"]
        self.assertEqual({i: set(entry) for i, entry in again.items()}, {i: set(entry) for i, entry in state["state"].items()})

    def test_ddprun_goes_on_from_a_checkpoint_that_python_saved(self):
        self.train("two_conv", "adamw")
        checkpoint = torch.load(self.folder / "out/checkpoints/step-00000020.pt")
        with torch.no_grad():
            for tensor in checkpoint["model"].values():
                tensor.zero_()
        torch.save(checkpoint, self.folder / "from_python.pt")
        stdout = self.train("two_conv", "adamw", {"resume": str(self.folder / "from_python.pt"), "train": {"epochs": 2, "batch_size": 32},
                                                  "optimizer": {"type": "adamw", "learning_rate": 1e-30}})
        self.assertIn("resumed from from_python.pt: 1 of 2 epochs done, step 20", stdout)
        self.assertAlmostEqual(self.last_epoch()["held_out_loss"], torch.tensor(10.0).log().item(), places=5)

    def test_checkpoints_open_memory_mapped(self):
        self.train("mlp", "sgd")
        path = self.folder / "out/checkpoints/step-00000020.pt"
        mapped, plain = torch.load(path, mmap=True), torch.load(path)
        for name, tensor in plain["model"].items():
            self.assertTrue(torch.equal(mapped["model"][name], tensor), name)

    def test_ddprun_reads_what_torch_save_writes(self):
        base = torch.arange(24.0).view(4, 6)
        shared = (0.9, 0.999)
        value = {
            "none": None, "yes": True, "no": False, "small": 7, "two_bytes": 300, "negative": -70000, "huge": 2**40,
            "minus": -(2**40), "float": 0.1, "text": "hé", "list": [1, [2, (3,)], ()], "tuple": shared, "again": shared,
            "ordered": collections.OrderedDict(a=1), 5: "integer key", "view": base[1:, ::2], "transposed": base.t(),
            "scalar": torch.tensor(3), "empty": torch.empty(0, 2), "half": torch.ones(3, dtype=torch.float16),
            "bfloat": torch.ones(3, dtype=torch.bfloat16), "bool": torch.tensor([True, False]), "int8": torch.tensor([-1], dtype=torch.int8),
            "parameter": nn.Parameter(torch.ones(2, 2)), "long_text": "x" * 300,
        }
        torch.save(value, self.folder / "value.pt")
        done = subprocess.run([BUILD / "tests/describe_pt", self.folder / "value.pt"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), list(describe("", value)))

    def test_a_pickled_object_is_refused_with_its_class(self):
        torch.save({"path": pathlib.PurePosixPath("x")}, self.folder / "object.pt")
        done = subprocess.run([BUILD / "tests/describe_pt", self.folder / "object.pt"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("it holds an object of Python's pathlib.PurePosixPath, which is more than weights", done.stderr)


DTYPES = {torch.float32: "Float", torch.int64: "Long", torch.float16: "Half", torch.bfloat16: "BFloat16", torch.bool: "Bool",
          torch.int8: "Char"}


def c_hex(value):
    """C's %a, which leaves trailing zeros out where Python's float.hex() has them."""
    mantissa, exponent = value.hex().split("p")
    return f"{mantissa.rstrip('0').rstrip('.')}p{exponent}"


def describe(path, value):
    """What describe_pt prints of it."""
    if isinstance(value, torch.Tensor):
        sizes = "".join(f"{size}," for size in value.shape)
        yield f"{path} {DTYPES[value.dtype]} [{sizes}] sum {value.detach().double().sum().item():.9g}"
    elif isinstance(value, dict):
        yield f"{path} {'OrderedDict' if isinstance(value, collections.OrderedDict) else 'dict'} {len(value)}"
        for key, item in value.items():
            yield from describe(f"{path}/{key}", item)
    elif isinstance(value, (list, tuple)):
        yield f"{path} {type(value).__name__} {len(value)}"
        for i, item in enumerate(value):
            yield from describe(f"{path}/{i}", item)
    elif isinstance(value, float):
        yield f"{path} {c_hex(value)}"
    else:
        yield f"{path} {value!r}"


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
