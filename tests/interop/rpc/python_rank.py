"""A rank in Python among ranks in C++ (rpc_interop): its own functions, and calls to those of the others."""

import os
import sys

import torch
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc


def in_module(name):
    """TorchScript of a function as if of this module: that is the namespace in which C++ ranks know it."""

    def script(function):
        function.__module__ = name
        return torch.jit.script(function)

    return script


# The C++ rank has functions of these names, and runs its own: only the signatures count here.
@in_module("test")
def add(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left


@in_module("test")
def throw(kind: str) -> None:
    return


@in_module("test")
def nothing() -> None:
    return


# What C++ ranks call here.
@in_module("snake")
def scaled(values: torch.Tensor, factor: float) -> torch.Tensor:
    return values * factor


@in_module("snake")
def refuse(value: int) -> int:
    assert value > 7, "too small for a snake"
    return value


def ok(holds, promise):
    if not holds:
        raise AssertionError(f"broken: {promise}")
    print(f"ok: {promise}", flush=True)


def message_of(call):
    try:
        call()
    except Exception as error:  # pylint: disable=broad-except
        return str(error)
    return "nothing was thrown"


def main():
    own, other = sys.argv[1], sys.argv[2]
    rpc.init_rpc(own, rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    values = torch.arange(4.0)
    ok(torch.equal(rpc.rpc_sync(other, add, args=(values, values)), values + values), "Python calls a C++ function")
    ok(torch.equal(rpc.rpc_sync(other, torch.add, args=(values, 1)), values + 1), "Python calls an operator there")
    rpc.rpc_sync(other, nothing)
    future = rpc.rpc_async(other, add, args=(values, values))
    ok(torch.equal(future.wait(), values + values), "Python waits for a future")
    reference = rpc.remote(other, add, args=(values, values))
    ok(torch.equal(reference.to_here(), values + values) and reference.owner_name() == other, "Python refers to a value in C++")
    ok(message_of(lambda: rpc.rpc_sync(other, throw, args=("out_of_range",))) == f"worker '{other}': std::out_of_range: row 7 of 3",
       "Python reads what a C++ function throws")
    ok("runs no Python functions" in message_of(lambda: rpc.rpc_sync(other, min, args=(1, 2))),
       "Python is told that a C++ rank runs no Python functions")
    refused = rpc.remote(other, min, args=(1, 2))
    ok("runs no Python functions" in message_of(refused.to_here), "so it is through a reference")
    weight = torch.ones(4, requires_grad=True)
    with dist_autograd.context() as context:
        dist_autograd.backward(context, [(rpc.rpc_sync(other, add, args=(weight * 3, values)) * values).sum()])
        ok(torch.equal(dist_autograd.get_gradients(context)[weight], 3 * values), "a backward of Python's goes through C++")
    rpc.shutdown()
    print("ok: Python leaves", flush=True)


if __name__ == "__main__":
    main()
