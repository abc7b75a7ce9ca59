#!/usr/bin/env python3
"""`ddprun export`: Python's torch opens what is written, and computes with it what the model computes, bit for bit."""

import json
import resource
import struct
import unittest

import numpy
import torch

import harness
from harness import CommandTest

import nets

# Images of 28 × 28 pixels, one channel, ten classes.
MODELS = {
    "mlp": {"type": "mlp", "hidden": [16]},
    "mnist_cnn": {"type": "mnist_cnn"},
    "two_conv": {"type": "two_conv"},
    "lenet": {"type": "lenet"},
    "resnet18": {"type": "resnet18"},
    "resnet20": {"type": "resnet20"},
    "resnet20 with projections": {"type": "resnet20", "shortcut": "projection"},
    "mobilenet_v3_small": {"type": "mobilenet_v3_small"},
    "vit_tiny": {"type": "vit_tiny", "patch_size": 14},
}
DTYPES = {"F32": numpy.float32, "I64": numpy.int64}


def read_safetensors(path):
    """By the format's public description."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8:8 + length]), content[8 + length:]
    assert content[8:9] == b"{" and length % 8 == 0
    assert header.pop("__metadata__") == {"format": "pt"}
    tensors, end = {}, 0
    for name, about in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, after = about["data_offsets"]
        assert begin == end, "no gaps"
        end = after
        array = numpy.frombuffer(data[begin:after], DTYPES[about["dtype"]]).reshape(about["shape"])
        tensors[name] = torch.from_numpy(array.copy())
    assert end == len(data)
    return tensors


class Exports(CommandTest):
    def setUp(self):
        super().setUp()
        torch.set_num_threads(1)

    def export(self, *names, job="job.json"):
        for name in names:
            self.ddprun("export", job, "-o", name)

    def train_small(self, **changes):
        self.write_job(**changes)
        self.train("/train/max_steps=2")

    def test_all_models_give_their_own_bits_for_any_batch(self):
        for name, model in MODELS.items():
            with self.subTest(name):
                self.write_job(model=model, output_dir=f"out-{len(name)}-{name.split()[0]}")
                self.train("/train/max_steps=2", "/train/batch_size=4", "/data/test_samples=4")
                files = ["a.pt", "a.safetensors", "a.torchscript"]
                for file in files:
                    self.ddprun("export", "job.json", "--force", "-o", file)
                state = torch.load(self.folder / "a.pt", weights_only=True)
                tensors = read_safetensors(self.folder / "a.safetensors")
                script = torch.jit.load(self.folder / "a.torchscript")
                self.assertEqual(set(state), set(tensors))
                self.assertEqual(set(state), set(script.state_dict()))
                for key, tensor in state.items():
                    self.assertTrue(torch.equal(tensor, tensors[key]), key)
                    self.assertTrue(torch.equal(tensor, script.state_dict()[key]), key)
                torch.manual_seed(1)
                images = torch.randn(7, 1, 28, 28)
                self.assertEqual(script(images).shape, (7, 10))
                self.assertEqual(script(images[:1]).shape, (1, 10))
                if name not in nets.MODELS:
                    continue
                merged = json.loads(next(self.folder.glob(f"out-*-{name}/job.json")).read_text())
                twin = nets.MODELS[name](merged["model"])
                twin.load_state_dict(state)
                twin.eval()
                for count in (1, 2):
                    self.assertTrue(torch.equal(twin(images[:count]), script(images[:count])), f"{name}, {count} images")
                # On an AMD EPYC the last bit of a product of seven rows differs between Python and TorchScript's interpreter,
                # with the same operation on the same tensors.
                torch.testing.assert_close(twin(images), script(images), rtol=1e-5, atol=1e-6)

    def test_a_text_model_is_traced_for_any_batch_and_length(self):
        (self.folder / "text.txt").write_text("a small text, read again and again. " * 40)
        self.train_small(model={"type": "gpt", "layers": 2, "heads": 2, "width": 16},
                         data={"type": "text", "path": "text.txt", "block": 8})
        self.export("a.torchscript", "a.pt", "a.safetensors")
        script = torch.jit.load(self.folder / "a.torchscript")
        state = torch.load(self.folder / "a.pt", weights_only=True)
        self.assertEqual(state["lm_head.weight"].data_ptr(), state["transformer.wte.weight"].data_ptr())
        self.assertTrue(torch.equal(state["lm_head.weight"], read_safetensors(self.folder / "a.safetensors")["lm_head.weight"]))
        tokens = torch.randint(0, 10, (5, 8))
        whole = script(tokens)
        self.assertEqual(whole.shape[:2], (5, 8))
        # What comes later changes nothing before it.
        torch.testing.assert_close(script(tokens[:, :3]), whole[:, :3])

    def test_the_average_is_exported_where_the_job_keeps_one(self):
        self.train_small(train={"batch_size": 16, "ema_decay": 0.5})
        self.export("a.pt")
        checkpoint = torch.load(self.folder / "out/checkpoints/step-00000002.pt", weights_only=True)
        state = torch.load(self.folder / "a.pt", weights_only=True)
        for name, tensor in state.items():
            self.assertTrue(torch.equal(tensor, checkpoint["ema"]["module." + name]), name)
        self.assertFalse(torch.equal(state["layers.1.weight"], checkpoint["model"]["layers.1.weight"]))
        self.ddprun("export", "job.json", "-o", "own.pt", "--weights-of", "model")
        own = torch.load(self.folder / "own.pt", weights_only=True)
        self.assertTrue(all(torch.equal(tensor, checkpoint["model"][name]) for name, tensor in own.items()))

    def test_a_plugins_model_is_exported(self):
        library = str(harness.PLUGINS / "libplugin_example.so")
        self.write_job({"model": {"plugin": library, "type": "one_layer"},
                        "data": {"plugin": library, "type": "sums", "options": {"width": 8}},
                        "task": {"plugin": library, "type": "absolute_error"}, "output_dir": "out"})
        self.train("/train/max_steps=2")
        self.export("a.torchscript", "a.pt", "a.safetensors")
        self.assertEqual(torch.jit.load(self.folder / "a.torchscript")(torch.zeros(3, 8)).shape[0], 3)

    def test_what_cannot_be_written_is_refused_before_anything_is_read(self):
        self.write_job()
        (self.folder / "there.pt").write_text("mine")
        for words, code, said in (
                ((), 64, "where to? add --output FILE"),
                (("-o", "there.pt"), 64, "there.pt is there already; --force replaces it"),
                (("-o", "."), 64, ". is a folder; name a file in it"),
                (("-o", "/dev/null"), 64, "/dev/null is no regular file"),
                (("-o", "nowhere/a.pt"), 64, "the folder of nowhere/a.pt is not there"),
                (("-o", "a.onnx"), 64, "a.onnx does not end like one of the formats; add --format pt, safetensors or torchscript"),
                (("-o", "a.pt", "--format", "onnx"), 64, '--format: expected pt, safetensors or torchscript, got "onnx"'),
                (("-o", "a.pt"), 78, "there is no checkpoint in out/checkpoints; train the job first, or name a file with "
                                     "--checkpoint")):
            with self.subTest(words=words):
                self.assertEqual(self.ddprun("export", "job.json", *words, expect=code).stderr, f"ddprun export: {said}\n")
        self.assertEqual((self.folder / "there.pt").read_text(), "mine")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["job.json", "there.pt"])


    def test_what_does_not_fit_on_the_disk_leaves_nothing(self):
        self.train_small()
        for name in ("a.pt", "a.safetensors", "a.torchscript"):
            done = self.ddprun("export", "job.json", "-o", name, expect=71,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
            self.assertIn("File too large", done.stderr)
        left = {path.name for path in self.folder.iterdir() if not path.name.startswith("ddprun_")}  # logs of the training
        self.assertEqual(left, {"job.json", "out"})


if __name__ == "__main__":
    harness.main()
