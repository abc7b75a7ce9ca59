"""The models of ddprun in Python, under the same names; `options` is the /model of a merged job file."""

import re

import torch
import twins
from torch import nn
from torch.nn import functional


class Mlp(nn.Module):
    def __init__(self, options):
        super().__init__()
        layers, width = [nn.Flatten()], 784
        for hidden in options["hidden"]:
            layers += [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(options["dropout"])]
            width = hidden
        self.layers = nn.Sequential(*layers, nn.Linear(width, 10))

    def forward(self, x):
        return self.layers(x)


class MnistCnn(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 5, padding=2)
        self.conv2 = nn.Conv2d(16, 32, 5, padding=2)
        self.fc1 = nn.Linear(1568, 128)
        self.dropout = nn.Dropout(options["dropout"])
        self.fc2 = nn.Linear(128, 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        return self.fc2(self.dropout(functional.relu(self.fc1(x.flatten(1)))))


class TwoConv(nn.Module):
    def __init__(self, _options):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, 3, padding=1)
        self.conv2 = nn.Conv2d(10, 10, 3, padding=1)
        self.fc = nn.Linear(490, 10)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        return self.fc(x.flatten(1))


MODELS = {"mlp": Mlp, "mnist_cnn": MnistCnn, "two_conv": TwoConv}


def resnet(kind, channels, classes):
    """torchvision's, for images of `channels`. A stem for others than 3 is what a seed draws first, as if it always had been."""
    from torchvision.models import resnet as vision

    class ResNet(vision.ResNet):
        def _make_layer(self, *args, **options):
            if self.conv1.in_channels != channels:
                torch.manual_seed(torch.initial_seed())
                self.conv1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
            return super()._make_layer(*args, **options)

    block, layers = {"resnet18": (vision.BasicBlock, [2, 2, 2, 2]), "resnet34": (vision.BasicBlock, [3, 4, 6, 3]),
                     "resnet50": (vision.Bottleneck, [3, 4, 6, 3]), "resnet101": (vision.Bottleneck, [3, 4, 23, 3])}[kind]
    return ResNet(block, layers, num_classes=classes)


def make_model(options, sample, classes):
    """`sample` is one input of the data."""
    kind = options["type"]
    if kind in MODELS:
        return MODELS[kind](options)
    if kind == "gpt":
        return twins.Gpt(len(sample), classes, options["layers"], options["heads"], options["width"], options["dropout"],
                         options["bias"])
    if found := re.fullmatch("resnet(20|32|56)", kind):
        return twins.CifarResNet(int(found[1]), options["shortcut"] == "projection", sample.shape[0], classes)
    if kind.startswith("resnet"):
        return resnet(kind, sample.shape[0], classes)
    from torchvision import models
    return getattr(models, kind)(num_classes=classes)
