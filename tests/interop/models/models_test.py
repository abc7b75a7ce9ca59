#!/usr/bin/env python3
"""models_test.py PROGRAM: the models of ddprun are Python's, to the last bit: first weights of a seed, logits, gradients.

Python's side is torchvision, and twins.py for the models that it has not. DDPRUN_LARGE_MODELS=1 takes
the models of torchvision of more than 80 M parameters instead of its others (interop_models_long)."""

import dataclasses
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Callable

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
import twins  # noqa: E402
from skips import skip_unless  # noqa: E402

HAS_TORCHVISION = importlib.util.find_spec("torchvision") is not None
if HAS_TORCHVISION:
    from torchvision import models as vision
NO_TORCHVISION = "no comparison with torchvision, which is not there: scripts/setup.sh --with-tests installs it"

# normal_ rounds otherwise in code without AVX2.
HAS_AVX2 = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
NO_AVX2 = "no comparison with golden weights, which are those of processors with AVX2"
RELEASE = ".".join(torch.__version__.split(".")[:2])
DTYPES = {torch.float32: "Float", torch.int64: "Long"}

# First weights with seed 0, 1000 classes of images of 224 × 224; by release of torch where they differ. Those with 2.11
# come from MKL's erfinv, which has other code for AVX-512, AVX2 and SSE (MKL_ENABLE_INSTRUCTIONS shows it).
GOLDEN = {
    "resnet18": "206b847474536f20",
    "resnet34": "7093af1ee68eb654",
    "resnet50": "4bf9dceaab77d563",
    "resnet101": "976c8fe9ad2caee0",
    "vgg11": "9a69dd532d30078c",
    "vgg13": "e3276535a2dd0689",
    "vgg16_bn": "d1f5a8f79ff285ab",
    "vgg19_bn": "0b5b3daf71321813",
    "mobilenet_v3_small": "71e6f8df9a628a63",
    "vit_tiny": {"2.11": ["0519be481ff30cc7", "d50c8c85f133330a", "00c6fb0afdd0641e"], "2.15": ["4b6e1510a5dafab1"]},
    "vit_small": {"2.11": ["93ec59f6bd944f94", "3a77a584960f7b08", "cc866a0cea052eb8"], "2.15": ["968c3928b651b4c4"]},
    "vit_base": {"2.11": ["97e329d7e39560a9", "e2e7c95b59dc8460", "ab9924d799d08563"], "2.15": ["393bb1497f677110"]},
}
# nanoGPT: a block of 64, 65 symbols, 4 layers, 4 heads, 128 wide; without and with biases.
GOLDEN_GPT = {False: "1e3298cc85a3cf02", True: "66712748000c58bf"}


@dataclasses.dataclass
class Case:
    """A model of both sides on a small batch. `twin` makes Python's."""
    model: str
    twin: Callable
    sizes: tuple = (3, 32, 32)
    classes: int = 10
    options: dict = dataclasses.field(default_factory=dict)
    batch: int = 2
    other_weights: bool = True  # not those of the seed: all of them, statistics of norms included, are moved


def cases_of_torchvision():
    yield Case("resnet18", lambda: vision.resnet18(num_classes=10))
    yield Case("resnet34", lambda: vision.resnet34(num_classes=10))
    yield Case("resnet101", lambda: vision.resnet101(num_classes=10), sizes=(3, 40, 33))
    yield Case("resnet50", lambda: vision.resnet50(num_classes=10), sizes=(3, 64, 48))
    yield Case("vgg11_bn", lambda: vision.vgg11_bn(num_classes=10), options={"dropout": 0.5}, other_weights=False)
    yield Case("mobilenet_v3_small", lambda: vision.mobilenet_v3_small(num_classes=7, dropout=0.3), sizes=(3, 40, 56), classes=7,
               options={"dropout": 0.3})
    yield Case("squeezenet1_1", lambda: vision.squeezenet1_1(num_classes=10), sizes=(3, 64, 48), other_weights=False)
    yield Case("vit_tiny", lambda: vision.VisionTransformer(32, 8, 12, 3, 192, 768, num_classes=10), options={"patch_size": 8, "dropout": 0}, batch=3)
    yield Case("vit_tiny", lambda: vision.VisionTransformer(16, 16, 12, 3, 192, 768, dropout=0.1, num_classes=10), sizes=(3, 16, 16),
               options={"patch_size": 16, "dropout": 0.1})
    yield Case("vit_small", lambda: vision.VisionTransformer(32, 16, 12, 6, 384, 1536, num_classes=10), options={"patch_size": 16, "dropout": 0})


def cases_of_large_models():
    for layers in (11, 13, 16, 19):
        for norms in ("", "_bn"):
            name = f"vgg{layers}{norms}"
            if name != "vgg11_bn":
                yield Case(name, lambda name=name: getattr(vision, name)(num_classes=10), options={"dropout": 0.5}, other_weights=False)
    yield Case("vit_base", lambda: vision.VisionTransformer(32, 16, 12, 12, 768, 3072, dropout=0.1, num_classes=10),
               options={"patch_size": 16, "dropout": 0.1})


# Models without a case, and why.
COMPARED_ELSEWHERE = {
    "mlp": "a job of interop_training", "mnist_cnn": "a job of interop_training", "two_conv": "a job of interop_training",
    "torchscript": "it is Python's own: a job of interop_training"}


def cases_of_twins():
    yield Case("lenet", lambda: twins.LeNet(1, 10, margin=2, features=400), sizes=(1, 28, 28))
    yield Case("lenet", lambda: twins.LeNet(3, 100, margin=0, features=400), classes=100)
    for layers in (20, 32, 56):
        yield Case(f"resnet{layers}", lambda: twins.CifarResNet(layers, projects=False), options={"shortcut": "pad"})
    yield Case("resnet20", lambda: twins.CifarResNet(20, projects=True, channels=1), sizes=(1, 28, 28),
               options={"shortcut": "projection"})
    small = {"layers": 2, "heads": 2, "width": 32, "dropout": 0, "bias": False}
    yield Case("gpt", lambda: twins.Gpt(16, 65, **small), sizes=(16,), classes=65, options=small, batch=3)
    other = {"layers": 3, "heads": 4, "width": 64, "dropout": 0.2, "bias": True}
    yield Case("gpt", lambda: twins.Gpt(24, 33, **other), sizes=(24,), classes=33, options=other)


def digest(tensor):
    return hashlib.sha256(tensor.detach().contiguous().numpy().tobytes()).hexdigest()[:16]


def digest_of_all(model):
    whole = hashlib.sha256()
    for tensor in model.state_dict().values():
        whole.update(tensor.contiguous().numpy().tobytes())
    return whole.hexdigest()[:16]


def describe(tensors):
    return [[name, DTYPES[tensor.dtype], digest(tensor)] for name, tensor in tensors.items()]


def move_weights(model):
    """Zeros (a head, a bias) and ones (a norm) hide mistakes."""
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                noise = torch.randn(tensor.shape) * 0.02
                tensor.add_(noise.abs() if name.endswith("running_var") else noise)


def make_inputs(case):
    torch.manual_seed(2)
    if len(case.sizes) == 3:
        return torch.randn(case.batch, *case.sizes), torch.randint(case.classes, (case.batch,))
    tokens = torch.randint(case.classes, (case.batch, case.sizes[0] + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def step(model, data, target):
    """What interop_models does after it has made the model."""
    answer = {}
    model.eval()
    with torch.no_grad():
        answer["evaluated"] = digest(model(data))
    model.train()
    torch.manual_seed(1)
    output = model(data)
    answer["trained"] = digest(output)
    functional.cross_entropy(output.flatten(0, -2), target.flatten()).backward()
    answer["gradients"] = describe({name: parameter.grad for name, parameter in model.named_parameters()})
    answer["after"] = describe(model.state_dict())
    return answer


class Program:
    """The C++ side."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, case, **more):
        question = {"model": case.model, "options": case.options, "sizes": case.sizes, "classes": case.classes, **more}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("interop_models has ended; its words stand above")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


class ModelsTest(unittest.TestCase):
    maxDiff = None
    path = ""

    def setUp(self):
        self.program = Program(self.path)
        self.addCleanup(self.program.close)
        folder = tempfile.TemporaryDirectory(prefix="ddprun-models-")
        self.addCleanup(folder.cleanup)
        self.inputs = Path(folder.name) / "inputs.pt"
        # In evaluation PyTorch's attention has a fast path that rounds otherwise than its own training.
        torch.backends.mha.set_fastpath_enabled(False)
        torch.set_num_threads(1)

    def check(self, case):
        torch.manual_seed(0)
        model = case.twin()
        expected = {"initial": describe(model.state_dict())}
        data, target = make_inputs(case)
        inputs = {"input": data, "target": target}
        if case.other_weights:
            move_weights(model)
            inputs["weights"] = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        torch.save(inputs, self.inputs)
        expected.update(step(model, data, target))
        found = self.program.ask(case, inputs=str(self.inputs))
        for what, value in expected.items():
            self.assertEqual(found[what], value, f"{case.model} {case.options}: {what}")

    def check_all(self, cases):
        for case in cases:
            with self.subTest(model=case.model, options=case.options):
                self.check(case)

    @skip_unless(HAS_TORCHVISION, NO_TORCHVISION)
    def test_weights_logits_and_gradients_are_those_of_torchvision(self):
        self.check_all(cases_of_large_models() if "DDPRUN_LARGE_MODELS" in os.environ else cases_of_torchvision())

    def test_weights_logits_and_gradients_are_those_of_the_twins(self):
        self.check_all(cases_of_twins())

    @skip_unless(HAS_TORCHVISION, NO_TORCHVISION)
    def test_every_model_has_a_case_or_is_compared_elsewhere(self):
        cases = [*cases_of_torchvision(), *cases_of_large_models(), *cases_of_twins()]
        self.program.process.stdin.write('{"names": true}\n')
        self.program.process.stdin.flush()
        names = json.loads(self.program.process.stdout.readline())
        self.assertEqual(sorted({case.model for case in cases} | set(COMPARED_ELSEWHERE)), sorted(names))

    @skip_unless(HAS_TORCHVISION, NO_TORCHVISION)
    def test_a_model_with_weights_of_other_classes_gets_the_new_head_that_python_draws(self):
        torch.manual_seed(3)
        torch.save(vision.resnet18().state_dict(), self.inputs)
        torch.manual_seed(0)
        model = vision.resnet18()
        model.load_state_dict(torch.load(self.inputs))
        model.fc = torch.nn.Linear(512, 10)
        found = self.program.ask(Case("resnet18", None, sizes=(3, 64, 64)), weights=str(self.inputs))
        self.assertEqual(found["sha256"], digest_of_all(model))

    @skip_unless(HAS_AVX2, NO_AVX2)
    def test_first_weights_of_gpt_are_the_golden_ones(self):
        for bias, golden in GOLDEN_GPT.items():
            with self.subTest(bias=bias):
                options = {"layers": 4, "heads": 4, "width": 128, "dropout": 0, "bias": bias}
                self.assertEqual(self.program.ask(Case("gpt", None, sizes=(64,), classes=65, options=options))["sha256"], golden)

    @skip_unless(HAS_AVX2, NO_AVX2)
    def test_first_weights_of_the_full_size_are_the_golden_ones(self):
        for model, golden in GOLDEN.items():
            with self.subTest(model=model):
                case = Case(model, None, sizes=(3, 224, 224), classes=1000, options={"patch_size": 16, "dropout": 0})
                self.assertIn(self.program.ask(case)["sha256"], golden[RELEASE] if isinstance(golden, dict) else golden)


def main():
    ModelsTest.path = sys.argv.pop(1)
    done = unittest.main(verbosity=2, exit=False).result
    for _, why in done.skipped:
        print(f"SKIPPED: {why}", file=sys.stderr)
    sys.exit(not done.wasSuccessful())


if __name__ == "__main__":
    main()
