"""data_parallel_test.py PROGRAM: ddprun::DataParallel trains to the bytes that Python gets.

torch.nn.DataParallel knows GPUs only, so Python does here what it would do there, on the CPU: the module on the first
piece of torch.chunk, copies of it (whose buffers are thrown away) on the others, cat, loss, one backward."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ddp"))
from cases import ADAMW, MOMENTUM, case  # noqa: E402
from matrix import write_case  # noqa: E402
from models import MODELS  # noqa: E402
from python_rank import load, make_optimizer, to_bytes  # noqa: E402

CASES = {
    "mlp": case("mlp", MOMENTUM),
    "mlp, balanced": {**case("mlp", MOMENTUM, batch=11), "balanced": True},
    "mlp, batch of 5": case("mlp", ADAMW, batch=5),
    "conv + batch-norm": case("conv_bn", MOMENTUM, batch=12),
    "embedding with sparse gradients": case("embedding", {"kind": "stock_sgd", "lr": 0.1}),
    "transformer": case("transformer", ADAMW),
    "transformer, balanced": {**case("transformer", MOMENTUM, batch=10), "balanced": True},
}


def pieces_of_the_module(model, inputs, devices):
    """What each replica gives."""
    first, *others = inputs.chunk(devices)
    outputs = [model(first)]
    for piece in others:
        own_buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        outputs.append(torch.func.functional_call(model, own_buffers, (piece,)))
    return outputs


def train(folder, devices):
    recipe = json.loads((folder / "case.json").read_text())
    model = MODELS[recipe["model"]]()
    load(model, folder / "init.bin")
    optimizer = make_optimizer(recipe["optimizer"], list(model.parameters()))
    dtype = torch.float32 if recipe["words"] is None else torch.int64
    inputs = torch.frombuffer(bytearray((folder / "inputs.bin").read_bytes()), dtype=dtype)
    # Cloned to memory that is aligned as C++'s is: products of matrices round by alignment.
    inputs = inputs.view(recipe["rows"], *recipe["shape"]).clone()
    targets = torch.frombuffer(bytearray((folder / "targets.bin").read_bytes()), dtype=torch.int64)
    for step in range(recipe["steps"]):
        rows = slice(step * recipe["batch"], (step + 1) * recipe["batch"])
        outputs = pieces_of_the_module(model, inputs[rows], devices)
        if recipe["balanced"]:
            shares = zip(outputs, targets[rows].chunk(devices))
            loss = sum(cross_entropy(output, target) * (len(target) / recipe["batch"]) for output, target in shares)
        else:
            loss = cross_entropy(torch.cat(outputs), targets[rows])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return to_bytes(model)


def main():
    torch.set_num_threads(1)
    failures = 0
    for devices in (1, 2, 3, 4):
        with tempfile.TemporaryDirectory(prefix="ddprun-data-parallel-") as root:
            folders = [Path(root) / str(i) for i in range(len(CASES))]
            for seed, (folder, what) in enumerate(zip(folders, CASES.values())):
                write_case(folder, {"balanced": False, **what}, 1, seed)
            subprocess.run([sys.argv[1], str(devices), *map(str, folders)], check=True)
            for folder, name in zip(folders, CASES):
                ours = torch.frombuffer(bytearray((folder / "cpp.bin").read_bytes()), dtype=torch.uint8)
                theirs = torch.frombuffer(bytearray(train(folder, devices)), dtype=torch.uint8)
                same = torch.equal(ours, theirs)
                failures += not same
                print(f"| {name:<32} | {devices} devices | {'equal' if same else 'DIFFERENT'} |", flush=True)
    sys.exit(f"{failures} cases differ" if failures else 0)


if __name__ == "__main__":
    main()
