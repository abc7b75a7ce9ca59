"""The interop matrix: Python's DistributedDataParallel and ddprun's train from the same weights and batches, and every
rank's parameters and buffers are compared byte by byte at the end.

    matrix.py --worker build/release/tests/interop_ddp_worker [--worlds 1,2,3,4] [--only WORD] [--keep]
              [--device cuda [--one-card]]

Prints one row per case and world; exits 1 if a row that claims equality is not equal, 77 without the cards it needs.
DDPRUN_BACKEND is ddprun's backend, and Python's where it has the same. `--worlds cards` is one rank for each card, at
most 4.
"""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import cards  # noqa: E402
from cases import CASES, NOT_ON_NCCL, PYTHON_SYNC_BATCH_NORM  # noqa: E402
from models import INPUTS, MODELS  # noqa: E402
from patience import patient  # noqa: E402
from python_rank import to_bytes  # noqa: E402

HERE = Path(__file__).resolve().parent
os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
os.environ.setdefault("DDPRUN_BACKEND", "gloo")


def write_case(folder, case, world, seed):
    """Weights, batches and the recipe, as both sides read them."""
    torch.manual_seed(seed)
    shape, words = INPUTS[case["model"]]
    rows = case["steps"] * case["accumulate"] * world * case["batch"]
    inputs = torch.randn(rows, *shape) if words is None else torch.randint(words, (rows, *shape))
    folder.mkdir(parents=True)
    (folder / "init.bin").write_bytes(to_bytes(MODELS[case["model"]]()))
    (folder / "inputs.bin").write_bytes(inputs.numpy().tobytes())
    (folder / "targets.bin").write_bytes(torch.randint(10, (rows,)).numpy().tobytes())
    (folder / "case.json").write_text(json.dumps({**case, "rows": rows, "shape": shape, "words": words}))


def run_ranks(command, world, one_card):
    """All ranks of one side, joined over a store of ours on a port of the kernel's choice."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                          timeout=datetime.timedelta(seconds=60))
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": str(world),
           "TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen(command, env={**env, **cards.seat(r, world, one_card, env["DDPRUN_BACKEND"])}) for r in range(world)]
    codes = [rank.wait(timeout=patient(300)) for rank in ranks]
    if any(codes):
        sys.exit(f"{command[0]}: ranks ended with {codes}")


def compare(folder, case, world):
    """(equal bytes?, largest difference) between the sides and over the ranks."""
    python = [(folder / f"python_{r}.bin").read_bytes() for r in range(world)]
    cpp = [(folder / f"cpp_{r}.bin").read_bytes() for r in range(world)]
    model = MODELS[case["model"]]()
    buffer_dtype = case["ddp"].get("mixed_precision", [None])[-1]
    buffers = [b.to(getattr(torch, buffer_dtype)) if buffer_dtype else b for b in model.buffers()]
    difference = 0.0
    for a, b in zip(python, cpp):
        offset = 0
        for tensor in [*model.parameters(), *buffers]:
            size = tensor.numel() * tensor.element_size()
            pair = [torch.frombuffer(bytearray(x[offset:offset + size]), dtype=tensor.dtype) for x in (a, b)]
            pair = [x.to(torch.complex128) if x.is_complex() else x.double() for x in pair]
            difference = max(difference, (pair[0] - pair[1]).abs().max().item())
            offset += size
    return python == cpp, difference


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", required=True)
    parser.add_argument("--worlds", default="1,2,3,4")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--one-card", action="store_true", help="all ranks share the first card")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--keep", action="store_true", help="leave the files of every case behind")
    arguments = parser.parse_args()
    worlds = cards.worlds(arguments)
    root = Path(tempfile.mkdtemp(prefix="ddprun-interop-"))
    cases = {name: case for name, case in CASES.items() if arguments.only in name}
    if os.environ["DDPRUN_BACKEND"] == "nccl":
        cases = {name: case for name, case in cases.items() if case["model"] not in NOT_ON_NCCL}
    if arguments.device == "cpu":
        cases = {name: case for name, case in cases.items() if name not in PYTHON_SYNC_BATCH_NORM}
    failures = 0
    print(f"| {'case':<44} | world | bytes | largest difference | allowed |")
    print("|---|---|---|---|---|")
    try:
        for world in worlds:
            todo = {n: c for n, c in cases.items() if world in c["worlds"]}
            folders = [root / f"{world}_{i}" for i in range(len(todo))]
            for seed, (folder, case) in enumerate(zip(folders, todo.values())):
                write_case(folder, case, world, seed)
            names = [str(f) for f in folders]
            run_ranks([sys.executable, str(HERE / "python_rank.py"), arguments.device, *names], world, arguments.one_card)
            run_ranks([arguments.worker, arguments.device, *names], world, arguments.one_card)
            for folder, (name, case) in zip(folders, todo.items()):
                equal, difference = compare(folder, case, world)
                fine = equal or difference <= case["tolerance"]
                failures += not fine
                allowed = "equal bytes" if case["tolerance"] == 0 else f"{case['tolerance']:g}: {case['why']}"
                print(f"| {name:<44} | {world} | {'equal' if equal else 'DIFFERENT' if not fine else 'close'} "
                      f"| {difference:.3g} | {allowed} |", flush=True)
    finally:
        if arguments.keep:
            print(root)
        else:
            shutil.rmtree(root)
    sys.exit(f"{failures} rows differ" if failures else 0)


if __name__ == "__main__":
    main()
