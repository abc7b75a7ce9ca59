"""The models of ddprun that torchvision has not, in Python, from the papers and under the names that others gave them."""

import math

import torch
from torch import nn
from torch.nn import functional


class LeNet(nn.Module):
    """LeCun et al. (1998) with ReLU and max-pooling; `margin` 2 for images of 28 pixels, and `features` what is left."""

    def __init__(self, channels, classes, margin, features):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=margin)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(features, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = functional.max_pool2d(functional.relu(self.conv1(x)), 2)
        x = functional.max_pool2d(functional.relu(self.conv2(x)), 2)
        x = functional.relu(self.fc2(functional.relu(self.fc1(x.flatten(1)))))
        return self.fc3(x)


class CifarBlock(nn.Module):
    def __init__(self, inner, width, projects):
        super().__init__()
        self.stride = width // inner
        self.margin = (width - inner) // 2
        self.conv1 = nn.Conv2d(inner, width, 3, self.stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        if projects and self.stride > 1:
            self.downsample = nn.Sequential(nn.Conv2d(inner, width, 1, self.stride, bias=False), nn.BatchNorm2d(width))

    def shortcut(self, x):
        if self.stride == 1:
            return x
        if hasattr(self, "downsample"):
            return self.downsample(x)
        return functional.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.margin, self.margin))

    def forward(self, x):
        out = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        out += self.shortcut(x)
        return functional.relu(out)


class CifarResNet(nn.Module):
    """He et al. (2015), section 4.2: option A (padding) or B (projection)."""

    def __init__(self, layers, projects, channels=3, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        inner = 16
        for stage, width in enumerate((16, 32, 64), 1):
            blocks = []
            for _ in range((layers - 2) // 6):
                blocks.append(CifarBlock(inner, width, projects))
                inner = width
            setattr(self, f"layer{stage}", nn.Sequential(*blocks))
        self.projects = projects
        if projects:
            self.fc = nn.Linear(64, classes)
        else:
            self.linear = nn.Linear(64, classes)
        for module in self.modules():
            if projects and isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if not projects and isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight)

    def forward(self, x):
        x = self.layer3(self.layer2(self.layer1(functional.relu(self.bn1(self.conv1(x))))))
        if self.projects:
            return self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))
        return self.linear(functional.avg_pool2d(x, x.shape[2:]).flatten(1))


class GptNorm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return functional.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class GptAttention(nn.Module):
    def __init__(self, width, heads, dropout, bias):
        super().__init__()
        self.heads = heads
        self.share = dropout
        self.c_attn = nn.Linear(width, 3 * width, bias=bias)
        self.c_proj = nn.Linear(width, width, bias=bias)
        self.resid_dropout = nn.Dropout(dropout)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.c_attn(x).split(x.shape[2], dim=2))
        mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.share if self.training else 0, is_causal=True)
        return self.resid_dropout(self.c_proj(mixed.transpose(1, 2).flatten(2)))


class GptBlock(nn.Module):
    def __init__(self, width, heads, dropout, bias):
        super().__init__()
        self.ln_1 = GptNorm(width, bias)
        self.attn = GptAttention(width, heads, dropout, bias)
        self.ln_2 = GptNorm(width, bias)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(width, 4 * width, bias=bias), "c_proj": nn.Linear(4 * width, width, bias=bias),
                                  "dropout": nn.Dropout(dropout)})

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        mlp = self.mlp
        return x + mlp["dropout"](mlp["c_proj"](functional.gelu(mlp["c_fc"](self.ln_2(x)))))


class Gpt(nn.Module):
    """nanoGPT's names, sizes and first weights."""

    def __init__(self, tokens, vocabulary, layers, heads, width, dropout=0.0, bias=False):
        super().__init__()
        self.transformer = nn.ModuleDict({
            "wte": nn.Embedding(vocabulary, width), "wpe": nn.Embedding(tokens, width), "drop": nn.Dropout(dropout),
            "h": nn.ModuleList(GptBlock(width, heads, dropout, bias) for _ in range(layers)), "ln_f": GptNorm(width, bias)})
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.transformer["wte"].weight = self.lm_head.weight
        self.apply(self.draw)
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers))

    @staticmethod
    def draw(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens):
        parts = self.transformer
        x = parts["drop"](parts["wte"](tokens) + parts["wpe"](torch.arange(tokens.shape[1], device=tokens.device)))
        for block in parts["h"]:
            x = block(x)
        return self.lm_head(parts["ln_f"](x))
