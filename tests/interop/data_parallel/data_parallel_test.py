"""data_parallel_test.py PROGRAM [--device cuda]: ddprun::DataParallel trains to the bytes that Python gets.

Where there are two cards the judge is torch.nn.DataParallel. It has one replica a card and knows no CPU, so for replicas on the
CPU, and for two on one card, Python does here what it would do: the module on the first piece of torch.chunk, copies of
it (whose buffers are thrown away) on the others, cat, loss, one backward."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "ddp"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))
import cards  # noqa: E402
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


def outputs_of_replicas(model, inputs, devices):
    """What each replica gives, on its device."""
    pieces = inputs.chunk(len(devices))
    if len(set(devices)) > 1:
        replicas = torch.nn.parallel.replicate(model, devices[:len(pieces)])
        return [replica(piece.to(device)) for replica, piece, device in zip(replicas, pieces, devices)]
    first, *others = pieces
    outputs = [model(first)]
    for piece in others:
        own_buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        outputs.append(torch.func.functional_call(model, own_buffers, (piece,)))
    return outputs


def balanced_loss(outputs, targets):
    shares = zip(outputs, targets.chunk(len(outputs)))
    losses = [cross_entropy(output, target.to(output.device)) * (len(target) / len(targets)) for output, target in shares]
    return sum(loss.to(losses[0].device) for loss in losses)


def train(folder, devices):
    recipe = json.loads((folder / "case.json").read_text())
    model = MODELS[recipe["model"]]()
    load(model, folder / "init.bin")
    model.to(devices[0])
    parallel = torch.nn.DataParallel(model, devices) if len(set(devices)) > 1 else None
    optimizer = make_optimizer(recipe["optimizer"], list(model.parameters()))
    dtype = torch.float32 if recipe["words"] is None else torch.int64
    inputs = torch.frombuffer(bytearray((folder / "inputs.bin").read_bytes()), dtype=dtype)
    # Cloned to memory that is aligned as C++'s is: products of matrices round by alignment.
    inputs = inputs.view(recipe["rows"], *recipe["shape"]).clone().to(devices[0])
    targets = torch.frombuffer(bytearray((folder / "targets.bin").read_bytes()), dtype=torch.int64).to(devices[0])
    for step in range(recipe["steps"]):
        rows = slice(step * recipe["batch"], (step + 1) * recipe["batch"])
        if recipe["balanced"]:
            loss = balanced_loss(outputs_of_replicas(model, inputs[rows], devices), targets[rows])
        elif parallel:
            loss = cross_entropy(parallel(inputs[rows]), targets[rows])
        else:
            loss = cross_entropy(torch.cat(outputs_of_replicas(model, inputs[rows], devices)), targets[rows])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return to_bytes(model)


def places(device):
    """The lists of devices to train on."""
    if device == "cpu":
        return [["cpu"] * count for count in (1, 2, 3, 4)]
    cards.require(1)
    return [["cuda:0"], ["cuda:0", "cuda:0"], *([["cuda:0", "cuda:1"]] if cards.count() > 1 else [])]


def main():
    torch.set_num_threads(1)
    device = sys.argv[3] if sys.argv[2:3] == ["--device"] else "cpu"
    if device != "cpu":
        os.environ.update(CUBLAS_WORKSPACE_CONFIG=":4096:8", NVIDIA_TF32_OVERRIDE="0")
        torch.use_deterministic_algorithms(True, warn_only=True)
    failures = 0
    for devices in places(device):
        with tempfile.TemporaryDirectory(prefix="ddprun-data-parallel-") as root:
            folders = [Path(root) / str(i) for i in range(len(CASES))]
            for seed, (folder, what) in enumerate(zip(folders, CASES.values())):
                write_case(folder, {"balanced": False, **what}, 1, seed)
            subprocess.run([sys.argv[1], ",".join(devices), *map(str, folders)], check=True)
            for folder, name in zip(folders, CASES):
                ours = torch.frombuffer(bytearray((folder / "cpp.bin").read_bytes()), dtype=torch.uint8)
                theirs = torch.frombuffer(bytearray(train(folder, devices)), dtype=torch.uint8)
                same = torch.equal(ours, theirs)
                failures += not same
                print(f"| {name:<32} | {','.join(devices):<15} | {'equal' if same else 'DIFFERENT'} |", flush=True)
    if device != "cpu" and cards.count() < 2:
        print("SKIPPED: two replicas on two cards, beside torch.nn.DataParallel: torch sees one card", file=sys.stderr)
    sys.exit(f"{failures} cases differ" if failures else 0)


if __name__ == "__main__":
    main()
