#!/usr/bin/env python3
"""Checkpoints between ddprun and Python: each opens what the other wrote, and computes the same with it."""

import collections
import contextlib
import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import torch
from torch import nn
from torch.nn import functional

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "tests/interop/training")]
import twin  # noqa: E402
import twin_data  # noqa: E402
from nets import MODELS  # noqa: E402
from patience import patient  # noqa: E402
from skips import skip  # noqa: E402

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


class JobTest(unittest.TestCase):
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


class InteropTest(JobTest):
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


class SafetensorsTest(JobTest):
    """Python's own package reads what ddprun writes, and ddprun what it writes."""

    def setUp(self):
        super().setUp()
        try:
            import safetensors.torch
        except ImportError:
            skip("safetensors is not in this Python; scripts/setup.sh --with-tests installs it")
        self.format = safetensors.torch

    def worker(self, *words):
        done = subprocess.run([BUILD / "bin/ddprun-worker", *words], cwd=self.folder, capture_output=True, text=True, timeout=BOUND_S,
                              env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def assert_same(self, one, other):
        self.assertEqual(set(one), set(other))
        for name in one:
            self.assertTrue(torch.equal(one[name], other[name]), name)

    def test_python_reads_what_is_exported_and_ddprun_reads_that_back(self):
        self.train("two_conv", "sgd")
        self.worker("export", "job.json", "-o", "a.safetensors")
        mine = torch.load(self.folder / "out/checkpoints/step-00000020.pt")["model"]
        self.assert_same(self.format.load_file(self.folder / "a.safetensors"), mine)
        whole = self.worker("eval", "job.json")
        again = self.worker("eval", "job.json", "--checkpoint", "a.safetensors")
        self.assertEqual(re.findall(r"accuracy\s+\S+", whole), re.findall(r"accuracy\s+\S+", again))

    def test_a_job_begins_with_the_weights_that_python_has_saved(self):
        torch.manual_seed(3)
        theirs = MODELS["two_conv"]({}).state_dict()
        self.format.save_file(theirs, self.folder / "theirs.safetensors", metadata={"format": "pt"})
        self.train("two_conv", "sgd", {"model": {"type": "two_conv", "weights": str(self.folder / "theirs.safetensors")},
                                       "optimizer": {"type": "sgd", "learning_rate": 1e-30}})
        self.assert_same(torch.load(self.folder / "out/checkpoints/step-00000020.pt")["model"], theirs)

    def test_every_type_and_shape_is_read(self):
        state = {f"{number}": torch.arange(6).view(2, 3).to(dtype) for number, dtype in enumerate(DTYPES)}
        state |= {"scalar": torch.tensor(2.5), "empty": torch.empty(0, 2), "odd": torch.tensor([True])}
        self.format.save_file(state, self.folder / "a.safetensors")
        done = subprocess.run([BUILD / "tests/describe_pt", self.folder / "a.safetensors"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = describe("", collections.OrderedDict(state))
        self.assertEqual(sorted(done.stdout.splitlines()), sorted(expected))

    def test_a_damaged_file_is_refused_in_a_sentence(self):
        self.format.save_file({"a": torch.ones(4)}, self.folder / "a.safetensors")
        content = (self.folder / "a.safetensors").read_bytes()
        (self.folder / "a.safetensors").write_bytes(content[:-1])
        done = subprocess.run([BUILD / "tests/describe_pt", self.folder / "a.safetensors"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a.safetensors: a begins at byte 0 and ends at 16, after 0 of 15 bytes", done.stderr)


class Goes:
    """Python goes on from a checkpoint of ddprun, step by step, as the job file says."""

    def __init__(self, job, checkpoint):
        self.job, self.checkpoint, self.position = job, checkpoint, dict(checkpoint["position"])
        torch.manual_seed(0)
        self.model = MODELS[job["model"]["type"]](job["model"])
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer = twin.make_optimizer(job["optimizer"], list(self.model.parameters()))
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.has_scaler = job["train"]["precision"] == "fp16"
        self.scaler = torch.amp.GradScaler("cpu", enabled=self.has_scaler)
        if self.has_scaler:
            self.scaler.load_state_dict(checkpoint["scaler"])
        self.data = twin_data.open_split(job["data"], is_training=True)
        self.rate = twin.Rate(job["schedule"], job["train"]["epochs"], job["train"]["max_steps"], len(self.data))
        self.schedule = checkpoint["schedule"]
        if "warmup_end_step" in self.schedule:
            end = self.schedule
            self.rate.warmup_end = max(end["warmup_end_epochs"] / job["train"]["epochs"], end["warmup_end_step"] / job["train"]["max_steps"])

    def step(self):
        """Within an epoch."""
        position, count = self.position, self.job["train"]["batch_size"]
        sampler = torch.utils.data.DistributedSampler(self.data, num_replicas=1, rank=0, seed=self.job["seed"])
        sampler.set_epoch(position["epoch"])
        indices = list(sampler)[position["samples_seen"]:position["samples_seen"] + count]
        images, labels = zip(*(self.data[i] for i in indices))
        was_in_warmup = self.rate.warmup_end is None
        rate = self.job["optimizer"]["learning_rate"] * self.rate(position["step"], position["epoch"], position["samples_seen"])
        if was_in_warmup and self.rate.warmup_end:
            self.schedule = {"warmup_end_step": position["step"],
                             "warmup_end_epochs": position["epoch"] + position["samples_seen"] / len(self.data)}
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16) if self.has_scaler else contextlib.nullcontext():
            loss = functional.cross_entropy(self.model(torch.stack(images)), torch.as_tensor(labels))
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        position["step"] += 1
        position["samples_seen"] += count

    def saved(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "position": self.position, "schedule": self.schedule}
        if self.has_scaler:
            state["scaler"] = self.scaler.state_dict()
        return {**self.checkpoint, **state}


ROWS = {
    "sgd": {"optimizer": {"type": "sgd", "learning_rate": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.001}},
    "adam": {"optimizer": {"type": "adam", "learning_rate": 0.003, "amsgrad": True}},
    "adamw": {"optimizer": {"type": "adamw", "learning_rate": 0.003, "weight_decay": 0.1, "decay": "matrices"}},
}
WAYS = {
    "plain": {},
    "schedule": {"schedule": {"type": "cosine", "warmup_steps": 2, "final_factor": 0.1}},
    "in the warm-up": {"schedule": {"type": "linear", "warmup_steps": 6}},
    "scaler and schedule": {"train": {"precision": "fp16"},
                            "schedule": {"type": "multi_step", "milestones": [0.27], "gamma": 0.5, "warmup_steps": 2}},
}


class NextStepTest(JobTest):
    """A checkpoint of ddprun's, three steps of Python's, and three of ddprun's from what Python saved."""

    BEGIN, MIDDLE, END = 4, 7, 10

    def job_of(self, row, way):
        return {
            "model": {"type": "two_conv"}, "data": {"type": "mnist", "path": str(DIGITS), "train_samples": 640, "test_samples": 10},
            "checkpoint": {"every_steps": 1, "keep": 20}, **ROWS[row], **WAYS[way],
            "train": {"epochs": 2, "batch_size": 32, "max_steps": self.END, **WAYS[way].get("train", {})}}

    def at(self, step, out):
        return torch.load(self.folder / out / f"checkpoints/step-{step:08}.pt")

    def assert_same(self, one, other):
        self.assertEqual(list(one["model"]), list(other["model"]))
        for name in one["model"]:
            self.assertTrue(torch.equal(one["model"][name], other["model"][name]), name)
        states = [checkpoint["optimizer"]["state"] for checkpoint in (one, other)]
        self.assertEqual([{i: list(entry) for i, entry in state.items()} for state in states][0],
                         [{i: list(entry) for i, entry in state.items()} for state in states][1])
        for i, entry in states[0].items():
            for key, value in entry.items():
                self.assertTrue(torch.equal(torch.as_tensor(value), torch.as_tensor(states[1][i][key])), f"{i} {key}")
        rates = [[group["lr"] for group in checkpoint["optimizer"]["param_groups"]] for checkpoint in (one, other)]
        self.assertEqual(*rates)
        self.assertEqual(one.get("scaler"), other.get("scaler"))

    def test_each_goes_on_from_the_others_checkpoint_to_the_same_bits(self):
        torch.set_num_threads(1)
        for row in ROWS:
            for way in WAYS:
                with self.subTest(optimizer=row, way=way):
                    out = f"{row}-{way.replace(' ', '-')}"
                    job = self.job_of(row, way)
                    self.train("two_conv", row, {**job, "output_dir": out})
                    python = Goes(json.loads((self.folder / out / "job.json").read_text()), self.at(self.BEGIN, out))
                    for _ in range(self.BEGIN, self.MIDDLE):
                        python.step()
                    self.assert_same(python.saved(), self.at(self.MIDDLE, out))
                    torch.save(python.saved(), self.folder / f"{out}.pt")
                    self.train("two_conv", row, {**job, "output_dir": out + "-on", "resume": str(self.folder / f"{out}.pt")})
                    self.assert_same(self.at(self.END, out + "-on"), self.at(self.END, out))


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
