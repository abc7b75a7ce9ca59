"""The built-in nets for MNIST in Python, under the same names; `options` is the /model of a merged job file."""

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
