"""One Python rank of the interop matrix: trains the case in each folder with torch's DistributedDataParallel."""

import contextlib
import datetime
import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from models import MODELS


def tensors(module):
    return [p.detach() for p in module.parameters()] + list(module.buffers())


def load(module, path):
    data = path.read_bytes()
    offset = 0
    for tensor in tensors(module):
        size = tensor.numel() * tensor.element_size()
        tensor.copy_(torch.frombuffer(bytearray(data[offset:offset + size]), dtype=tensor.dtype).view(tensor.shape))
        offset += size
    assert offset == len(data)


def to_bytes(module):
    return b"".join(t.contiguous().numpy().tobytes() for t in tensors(module))


def make_optimizer(spec, parameters):
    options = {k: v for k, v in spec.items() if k != "kind"}
    if spec["kind"] == "stock_sgd":
        return torch.optim.SGD(parameters, **options)
    return {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[spec["kind"]](
        parameters, fused=True, **options)


def bf16_hook(group, bucket):
    # torch's own bf16_compress_hook, whose name makes DDP ask for a GPU.
    return default_hooks._compress_hook(torch.bfloat16, group, bucket)


def register_hook(ddp, name):
    group = dist.group.WORLD
    if name == "allreduce":
        ddp.register_comm_hook(group, default_hooks.allreduce_hook)
    elif name == "fp16":
        ddp.register_comm_hook(group, default_hooks.fp16_compress_hook)
    elif name == "bf16":
        ddp.register_comm_hook(group, bf16_hook)
    elif name is not None:
        state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=4 if name.endswith("4") else 1,
                                            start_powerSGD_iter=3)
        ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


def run_case(folder):
    rank, world = dist.get_rank(), dist.get_world_size()
    case = json.loads((folder / "case.json").read_text())
    if case["whole_batch"]:
        if rank != 0:
            return
        rank, world, case["batch"] = 0, 1, case["batch"] * world
    model = MODELS[case["model"]]()
    load(model, folder / "init.bin")
    ddp = model if case["whole_batch"] else DistributedDataParallel(model, **case["ddp"])
    register_hook(ddp, case["hook"])
    optimizer = make_optimizer(case["optimizer"], [p for p in model.parameters() if p.requires_grad])
    dtype = torch.float32 if case["words"] is None else torch.int64
    inputs = torch.frombuffer(bytearray((folder / "inputs.bin").read_bytes()), dtype=dtype)
    inputs = inputs.view(case["rows"], *case["shape"])
    targets = torch.frombuffer(bytearray((folder / "targets.bin").read_bytes()), dtype=torch.int64)
    batch, accumulate = case["batch"], case["accumulate"]
    with ddp.join() if case["uneven"] else contextlib.nullcontext():
        for step in range(case["steps"] - (rank if case["uneven"] else 0)):
            for micro in range(accumulate):
                first = ((step * accumulate + micro) * world + rank) * batch
                with ddp.no_sync() if micro + 1 < accumulate else contextlib.nullcontext():
                    loss = torch.nn.functional.cross_entropy(ddp(inputs[first:first + batch]), targets[first:first + batch])
                    (loss / accumulate).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=case["set_to_none"])
    for r in range(dist.get_world_size()) if case["whole_batch"] else [rank]:
        (folder / f"python_{r}.bin").write_bytes(to_bytes(model))


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    for name in sys.argv[1:]:
        run_case(Path(name))
    dist.barrier()
    dist.destroy_process_group()
