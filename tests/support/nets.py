"""The models of ddprun in Python, under the same names; `options` is the /model of a merged job file."""

import re
from unittest import mock

import torch
import twins
from torch import nn
from torch.nn import functional


class Mlp(nn.Module):
    def __init__(self, options, inputs=784, outputs=10):
        super().__init__()
        layers, width = [nn.Flatten()], inputs
        for hidden in options["hidden"]:
            layers += [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(options["dropout"])]
            width = hidden
        self.layers = nn.Sequential(*layers, nn.Linear(width, outputs))

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


def from_torchvision(kind, options, channels, classes):
    """For images of other channels than 3 the first convolution is one for these, as if torchvision had it."""
    from torchvision import models

    class Stem(nn.Conv2d):
        def __init__(self, inputs, *args, **named):
            super().__init__(channels if inputs == 3 else inputs, *args, **named)

    more = {"dropout": options["dropout"]} if kind.startswith("vgg") else {}
    with mock.patch.object(nn, "Conv2d", Stem):
        return getattr(models, kind)(num_classes=classes, **more)


def make_model(options, sample, outputs):
    """`sample` is one input of the data, `outputs` its classes, or the numbers of a target."""
    kind = options["type"]
    if kind == "torchscript":
        return torch.jit.load(options["torchscript"])
    if kind == "mlp":
        return Mlp(options, sample.numel(), outputs)
    if kind in MODELS:
        return MODELS[kind](options)
    if kind == "gpt":
        return twins.Gpt(len(sample), outputs, options["layers"], options["heads"], options["width"], options["dropout"],
                         options["bias"])
    if found := re.fullmatch("resnet(20|32|56)", kind):
        return twins.CifarResNet(int(found[1]), options["shortcut"] == "projection", sample.shape[0], outputs)
    return from_torchvision(kind, options, sample.shape[0], outputs)


def with_new_head(model, outputs):
    """As one fine-tunes: the features stay, and the last layer is new."""
    name = next(name for name in ("fc", "classifier", "head", "heads") if hasattr(model, name))
    last = getattr(model, name)
    if isinstance(last, nn.Linear):
        setattr(model, name, nn.Linear(last.in_features, outputs))
    else:
        last[-1] = nn.Linear(last[-1].in_features, outputs)
    return model


def make_finetuned(options, sample, outputs, state):
    """The model that learns from the weights of `state`, which may be for other classes."""
    head = [value for name, value in state.items() if value.dim() >= 1][-1]
    model = make_model(options, sample, len(head))
    model.load_state_dict(state)
    return model if len(head) == outputs else with_new_head(model, outputs)
