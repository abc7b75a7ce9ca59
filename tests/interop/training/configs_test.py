#!/usr/bin/env python3
"""Every job of configs/ as it lies there, cut to a few steps on small data, trains; and where nothing is random per sample,
its Python twin ends with the same bytes of all weights.

DDPRUN_CONFIG_STEPS=20 (interop_configs_long) makes all of them as long as the shortest ones are, on 1 and 2 ranks; those of the
large nets then take minutes."""

import json
import os
import random
import sys
import unittest

import numpy
import torch
from twin_case import ROOT, TwinCase, binaries

sys.path.insert(0, str(ROOT / "tests/support"))
from skips import skip_unless  # noqa: E402

MNIST = str(ROOT / "configs/data/mnist-subset")
RESIZED = [{"type": "resize", "size": 32}]

try:
    import torchvision
    from PIL import Image
except ImportError:
    torchvision = None


def write_cifar10(folder):
    generator = numpy.random.default_rng(1)
    for name, count in (("data_batch_1", 128), ("test_batch", 16)):
        records = generator.integers(0, 256, (count, 3073), numpy.uint8)
        records[:, 0] %= 10
        (folder / f"{name}.bin").write_bytes(records.tobytes())


def write_images(folder):
    generator = numpy.random.default_rng(1)
    for i in range(48):
        file = folder / ("train" if i < 40 else "test") / f"class{i % 2}" / f"{i}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (80, 96, 3), numpy.uint8)).save(file)


def write_text(folder):
    (folder / "text.txt").write_text("".join(random.Random(1).choices("abcdefgh ,.\n", k=20000)))


def write_weights(folder):
    torch.manual_seed(7)
    torch.save(torchvision.models.resnet50().state_dict(), folder / "resnet50.pth")


class Configs(TwinCase):
    binaries = binaries()

    def train(self, name, ranks, steps, overrides):
        out = self.fresh_folder()
        settings = {"/output_dir": str(out), "/device": "cpu", "/train/max_steps": steps, "/train/epochs": 1000, **overrides}
        flags = [f"--set={key}={json.dumps(value)}" for key, value in settings.items()]
        said = self.run_ranks(ranks, *flags, ROOT / f"configs/{name}.json")
        self.assertIn(f" {steps} steps in ", said)
        return out

    def assert_config_equals_twin(self, name, overrides, steps=20, ranks=(1, 2)):
        if "DDPRUN_CONFIG_STEPS" in os.environ:
            steps, ranks = int(os.environ["DDPRUN_CONFIG_STEPS"]), (1, 2)
        for count in ranks:
            with self.subTest(ranks=count):
                self.assert_equal_to_twin(self.train(name, count, steps, overrides), count, steps)

    def test_no_job_is_left_out(self):
        tested = {name.removeprefix("test_") for name in dir(self) if name.startswith("test_")}
        jobs = {path.stem for path in (ROOT / "configs").glob("*.json")} - {"train.schema", "events.schema"}
        self.assertEqual(jobs - tested, set())

    def test_quickstart(self):
        self.assert_config_equals_twin("quickstart", {"/model/dropout": 0, "/schedule/warmup_steps": 5})

    def test_mnist(self):
        self.assert_config_equals_twin("mnist", {"/data/path": MNIST, "/model/dropout": 0, "/schedule/warmup_steps": 5})

    def test_mnist_net(self):
        self.assert_config_equals_twin("mnist_net", {"/data/path": MNIST, "/train/batch_size": 64})

    def test_strategies_in_one_process_learn_the_same(self):
        """nn.DataParallel of Python has no replicas on a CPU: one rank of DDP with the whole batch is the judge."""
        jobs = {"mnist_net": {"/train/batch_size": 30},
                "mnist_resnet18": {"/train/batch_size": 6, "/data/transforms": RESIZED, "/data/test_transforms": RESIZED,
                                   "/data/test_samples": 8}}
        for name, more in jobs.items():
            small, weights = {"/data/path": MNIST, **more}, {}
            for strategy in ("ddp", "data_parallel", "balanced_data_parallel"):
                replicas = {} if strategy == "ddp" else {"/replicas": 3 if name == "mnist_net" else 1}
                out = self.train(name, 1, 10, {**small, "/strategy": strategy, **replicas})
                weights[strategy] = torch.load(out / "checkpoints/step-00000010.pt")["model"]
            for strategy in ("data_parallel", "balanced_data_parallel"):
                for key, tensor in weights["ddp"].items():
                    torch.testing.assert_close(weights[strategy][key], tensor, rtol=1e-4, atol=1e-6,
                                               msg=f"{name}, {strategy}: {key}")

    def test_a_strategy_in_one_process_refuses_two(self):
        self.assert_refused("data_parallel works in one process, and this job has 2 ranks; start it with --nproc-per-node 1", 2,
                            "--set=/strategy=data_parallel", "--set=/device=cpu", f"--set=/output_dir={self.folder}/out",
                            ROOT / "configs/toy_ddp.json")

    @skip_unless(torchvision, "torchvision is not there; scripts/setup.sh --with-tests installs it")
    def test_mnist_vgg16(self):
        self.assert_config_equals_twin("mnist_vgg16", {"/data/path": MNIST, "/model/dropout": 0, "/train/batch_size": 2,
                                                  "/data/test_samples": 4}, steps=2, ranks=(2,))

    @skip_unless(torchvision, "torchvision is not there; scripts/setup.sh --with-tests installs it")
    def test_mnist_resnet18(self):
        self.train("mnist_resnet18", 2, 3, {"/data/path": MNIST, "/train/batch_size": 8, "/data/test_samples": 8})
        self.assert_config_equals_twin("mnist_resnet18", {"/data/path": MNIST, "/train/batch_size": 4, "/data/test_samples": 8,
                                                     "/data/transforms": RESIZED, "/data/test_transforms": RESIZED})

    @skip_unless(torchvision, "torchvision is not there; scripts/setup.sh --with-tests installs it")
    def test_cifar10_resnet50(self):
        write_cifar10(self.folder)
        write_weights(self.folder)
        self.assert_config_equals_twin("cifar10_resnet50", {
            "/data/path": str(self.folder), "/model/weights": str(self.folder / "resnet50.pth"), "/train/batch_size": 4,
            "/data/test_samples": 4, "/data/loader_threads": 1}, steps=3, ranks=(2,))

    def test_toy_ddp(self):
        self.assert_config_equals_twin("toy_ddp", {})

    def test_amp_mnist(self):
        self.assert_config_equals_twin("amp_mnist", {"/data/path": MNIST, "/train/batch_size": 32})

    def test_cifar10_resnet20(self):
        write_cifar10(self.folder)
        small = {"/data/path": str(self.folder), "/train/batch_size": 8, "/schedule/warmup_steps": 2}
        self.train("cifar10_resnet20", 2, 3, small)
        if torchvision:
            self.assert_config_equals_twin("cifar10_resnet20", {**small, "/data/transforms": []}, steps=10)

    def test_char_gpt(self):
        write_text(self.folder)
        # Two epochs: the windows of the second one begin elsewhere.
        self.assert_config_equals_twin("char_gpt", {"/data/path": str(self.folder / "text.txt"), "/data/block": 16,
                                                    "/train/batch_size": 12, "/schedule/warmup_steps": 5})
        self.assertTrue((self.folder / "text.txt.tokens").exists())

    def test_char_gpt_reads_ends_of_lines_as_python_does(self):
        write_text(self.folder)
        text = (self.folder / "text.txt").read_bytes()
        (self.folder / "text.txt").write_bytes(text[:9000].replace(b"\n", b"\r\n") + text[9000:15000].replace(b"\n", b"\r") + text[15000:])
        self.assert_config_equals_twin("char_gpt", {"/data/path": str(self.folder / "text.txt"), "/data/block": 16,
                                                    "/train/batch_size": 12, "/schedule/warmup_steps": 5}, ranks=(1,))

    @skip_unless(torchvision, "torchvision is not there; scripts/setup.sh --with-tests installs it")
    def test_image_folder(self):
        write_images(self.folder)
        small = {"/data/path": str(self.folder), "/train/batch_size": 4, "/schedule/warmup_steps": 1}
        self.train("image_folder", 2, 3, small)
        if torchvision:
            resized = json.loads((ROOT / "configs/image_folder.json").read_text().split("\n", 1)[1])["data"]["test_transforms"]
            self.assert_config_equals_twin("image_folder", {**small, "/data/transforms": resized}, steps=10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
