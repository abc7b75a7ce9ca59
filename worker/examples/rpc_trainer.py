"""A trainer in Python for the server in C++ (rpc_parameter_server.cc), with which it shares a world. ddprun starts both:

    ddprun --nproc-per-node 2 sh -c 'if [ $RANK = 0 ]; then exec ./rpc_parameter_server FOLDER; else exec python rpc_trainer.py FOLDER; fi'
"""

import os
import pathlib
import sys

import torch
import torch.distributed.rpc as rpc
from torch import nn


def of_server(function):
    """What the server has as ps::NAME, by its signature: the body is the server's."""
    function.__module__ = "ps"
    return torch.jit.script(function)


@of_server
def pull() -> list[torch.Tensor]:
    return []


@of_server
def push(gradients: list[torch.Tensor]) -> list[torch.Tensor]:
    return gradients


def read_idx(path, header):
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)[header:]


def assign(model, values):
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), values):
            parameter.copy_(value)


def main():
    torch.set_num_threads(1)
    folder = pathlib.Path(sys.argv[1])
    images = read_idx(folder / "train-images-idx3-ubyte", 16).reshape(-1, 784).float() / 255
    labels = read_idx(folder / "train-labels-idx1-ubyte", 8).long()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    rpc.init_rpc(f"trainer{rank}", rank=rank, world_size=world)
    model = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    assign(model, rpc.rpc_sync("server", pull))
    torch.manual_seed(rank)
    for _ in range(300):
        chosen = torch.randint(len(labels), (64,))
        model.zero_grad()
        nn.functional.cross_entropy(model(images[chosen]), labels[chosen]).backward()
        assign(model, rpc.rpc_sync("server", push, args=([parameter.grad for parameter in model.parameters()],)))
    rpc.shutdown()


if __name__ == "__main__":
    main()
