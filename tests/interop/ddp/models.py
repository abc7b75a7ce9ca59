"""The models of the interop matrix, one for each of models.cc: same parameters, same order, same ATen operators."""

import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(20, 32)
        self.two = nn.Linear(32, 24)
        self.three = nn.Linear(24, 10)

    def forward(self, x):
        return self.three(torch.relu(self.two(torch.relu(self.one(x)))))


class TwoDtypes(Mlp):
    def __init__(self):
        super().__init__()
        self.two.double()


class ConvBatchNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8 * 4 * 4, 10)

    def forward(self, x):
        return self.head(torch.flatten(torch.max_pool2d(torch.relu(self.norm(self.conv(x))), 2), 1))


class SparseEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 12, sparse=True)
        self.head = nn.Linear(12, 10)

    def forward(self, x):
        return self.head(self.table(x).mean(1))


class TiedWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 16)
        self.hidden = nn.Linear(16, 16)
        self.head = nn.Linear(16, 10, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x):
        return self.head(torch.tanh(self.hidden(self.table(x).mean(1))))


class UnusedParameters(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(20, 16)
        self.spare = nn.Linear(16, 16)
        self.two = nn.Linear(16, 10)

    def forward(self, x):
        return self.two(torch.relu(self.one(x)))


class FrozenLayer(nn.Module):
    """A layer that is not trained between two that are."""

    def __init__(self):
        super().__init__()
        self.one = nn.Linear(20, 16)
        self.fixed = nn.Linear(16, 16)
        self.two = nn.Linear(16, 10)
        self.fixed.requires_grad_(False)

    def forward(self, x):
        return self.two(torch.relu(self.fixed(torch.relu(self.one(x)))))


class Transformer(nn.Module):
    WIDTH, HEADS = 16, 4

    def __init__(self):
        super().__init__()
        w = self.WIDTH
        self.table = nn.Embedding(50, w)
        self.norm1 = nn.LayerNorm(w)
        self.qkv = nn.Linear(w, 3 * w)
        self.out = nn.Linear(w, w)
        self.norm2 = nn.LayerNorm(w)
        self.up = nn.Linear(w, 2 * w)
        self.down = nn.Linear(2 * w, w)
        self.head = nn.Linear(w, 10)

    def attention(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.HEADS, width // self.HEADS).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(parts[0], parts[1].transpose(-2, -1)) * 0.5
        return torch.matmul(torch.softmax(scores, -1), parts[2]).transpose(1, 2).reshape(batch, length, width)

    def forward(self, x):
        x = self.table(x)
        x = x + self.out(self.attention(self.norm1(x)))
        x = x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))
        return self.head(x.mean(1))


class Experts(nn.Module):
    """One of two experts, by the sign of the first number that this rank got."""

    def __init__(self):
        super().__init__()
        self.one = nn.Linear(20, 16)
        self.left = nn.Linear(16, 16)
        self.right = nn.Linear(16, 16)
        self.two = nn.Linear(16, 10)

    def forward(self, x):
        expert = self.left if x[0, 0].item() > 0 else self.right
        return self.two(torch.relu(expert(torch.relu(self.one(x)))))


class LayerDrop(nn.Module):
    """Leaves out each of two layers where a number of the input is positive."""

    def __init__(self):
        super().__init__()
        self.one = nn.Linear(20, 16)
        self.layer0 = nn.Linear(16, 16)
        self.layer1 = nn.Linear(16, 16)
        self.two = nn.Linear(16, 10)

    def forward(self, x):
        hidden = torch.relu(self.one(x))
        if x[0, 1].item() > 0:
            hidden = hidden + torch.relu(self.layer0(hidden))
        if x[0, 2].item() > 0:
            hidden = hidden + torch.relu(self.layer1(hidden))
        return self.two(hidden)


class ComplexWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = nn.Linear(20, 16)
        self.mix = nn.Parameter(torch.randn(16, dtype=torch.complex64))
        self.two = nn.Linear(16, 10)

    def forward(self, x):
        hidden = self.one(x)
        return self.two(torch.view_as_real(self.mix * hidden).select(-1, 1) + hidden)


MODELS = {
    "mlp": Mlp, "conv_bn": ConvBatchNorm, "sync_bn": ConvBatchNorm, "embedding": SparseEmbedding,
    "tied": TiedWeights, "unused": UnusedParameters, "transformer": Transformer,
    "frozen": FrozenLayer, "experts": Experts, "layer_drop": LayerDrop, "complex": ComplexWeight,
    "two_dtypes": TwoDtypes,
}

# Shape of one sample, and for indices the number of words.
INPUTS = {
    "mlp": ((20,), None), "conv_bn": ((3, 8, 8), None), "sync_bn": ((3, 8, 8), None),
    "embedding": ((6,), 50),
    "tied": ((6,), 10), "unused": ((20,), None), "frozen": ((20,), None), "transformer": ((6,), 50),
    "experts": ((20,), None), "layer_drop": ((20,), None), "complex": ((20,), None),
    "two_dtypes": ((20,), None),
}
