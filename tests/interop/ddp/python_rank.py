"""One Python rank of the interop matrix: `python_rank.py DEVICE FOLDER…` trains the case in each folder with torch's
DistributedDataParallel."""

import contextlib
import datetime
import json
import logging
import os
import sys
from collections import OrderedDict
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks, default_hooks, post_localSGD_hook, powerSGD_hook, quantization_hooks)
from torch.distributed.algorithms.model_averaging import averagers
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import HierarchicalModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer, _apply_optimizer_in_backward
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _MixedPrecision

from models import MODELS

DEVICE = torch.device("cpu")  # of this rank


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


def to_bytes(module, more=()):
    return b"".join(t.reshape(-1).view(torch.uint8).cpu().numpy().tobytes() for t in [*tensors(module), *more])


def make_optimizer(spec, parameters):
    options = {k: v for k, v in spec.items() if k != "kind"}
    if spec["kind"] == "stock_sgd":
        return torch.optim.SGD(parameters, **options)
    return {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[spec["kind"]](
        parameters, fused=True, **options)


def bf16_hook(group, bucket):
    # torch's own bf16_compress_hook, whose name makes DDP ask for a GPU.
    return default_hooks._compress_hook(torch.bfloat16, group, bucket)


class NcclLikeGather:
    """What the quantization hooks gather with. Their callbacks index one stacked tensor, as nccl's future holds; gloo's
    holds a list, and they fail."""

    def __init__(self, into, tensor, group, async_op):
        dist.all_gather(into, tensor, group=group)
        self.future = torch.futures.Future()
        self.future.set_result([torch.stack(into)])

    def get_future(self):
        return self.future


class NcclLikeDist:
    all_gather = NcclLikeGather
    ProcessGroup, GradBucket = dist.ProcessGroup, dist.GradBucket


def batched_power_sgd(state, bucket):
    # Torch's hook hands matrices to a function that wants batches of them, and fails in its assertion.
    original = powerSGD_hook._orthogonalize
    powerSGD_hook._orthogonalize = lambda m, epsilon=0: original(m.unsqueeze(0) if m.dim() == 2 else m, epsilon)
    future = powerSGD_hook.batched_powerSGD_hook(state, bucket)
    future.wait()  # its callbacks begin collectives: with several buckets under way, in another order on each rank
    return future


def power_sgd_state(group, rank, **options):
    return powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=rank, start_powerSGD_iter=3, **options)


def wrapped(wrapper, hook):
    # Under a name of ours: DDP asks for a GPU by that of bf16_compress_wrapper's.
    inner = {"fp16": default_hooks.fp16_compress_wrapper, "bf16": default_hooks.bf16_compress_wrapper}[wrapper](hook)

    def named_hook(state, bucket):
        return inner(state, bucket)
    return named_hook


def register_hook(ddp, name):
    """`name` may have a wrapper before it: "fp16:power_sgd"."""
    group = dist.group.WORLD
    if name is None:
        return
    wrapper, _, name = name.rpartition(":")
    if name.startswith("builtin_"):
        types = dist.BuiltinCommHookType
        ddp._register_builtin_comm_hook(types.ALLREDUCE if name.endswith("allreduce") else types.FP16_COMPRESS)
        return
    state, hook = {
        "allreduce": lambda: (group, default_hooks.allreduce_hook),
        "fp16": lambda: (group, default_hooks.fp16_compress_hook),
        "bf16": lambda: (group, bf16_hook),
        "noop": lambda: (None, debugging_hooks.noop_hook),
        "power_sgd": lambda: (power_sgd_state(group, 1), powerSGD_hook.powerSGD_hook),
        "power_sgd_4": lambda: (power_sgd_state(group, 4), powerSGD_hook.powerSGD_hook),
        "batched_power_sgd": lambda: (power_sgd_state(group, 1), batched_power_sgd),
        "batched_power_sgd_cold": lambda: (
            power_sgd_state(group, 4, use_error_feedback=False, warm_start=False), batched_power_sgd),
        "post_local_sgd": lambda: (post_local_sgd_state(group), post_localSGD_hook.post_localSGD_hook),
        "per_tensor": lambda: (group, quantization_hooks.quantization_pertensor_hook),
        "per_channel": lambda: (group, quantization_hooks.quantization_perchannel_hook),
    }[name]()
    ddp.register_comm_hook(state, wrapped(wrapper, hook) if wrapper else hook)


class NoStream:
    """A stream or an event of an accelerator, which the optimizer in the backward and mixed precision want also on the
    CPU."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def wait_stream(self, _):
        pass

    def record(self):
        pass

    def wait(self, stream):
        pass


def do_without_streams():
    if DEVICE.type != "cpu":
        return
    torch.Stream = torch.Event = NoStream
    torch.accelerator.current_stream = NoStream


def wrap(model, options):
    if "mixed_precision" in options:
        do_without_streams()
        logging.getLogger("torch.nn.parallel.distributed").setLevel(logging.ERROR)  # it warns of the option
        dtypes = [getattr(torch, name) if name else None for name in options["mixed_precision"]]
        options = {**options, "mixed_precision": _MixedPrecision(*dtypes)}
    return DistributedDataParallel(model, **options)


def put_in_backward(optimizer, spec, parameters):
    do_without_streams()
    options = {k: v for k, v in spec.items() if k != "kind"}
    _apply_optimizer_in_backward(type(optimizer), parameters, {**options, "fused": True})


def with_averager(optimizer, spec):
    if spec is None:
        return optimizer
    if "period" in spec:
        averager = averagers.PeriodicModelAverager(period=spec["period"], warmup_steps=spec["warmup"])
    else:
        sizes = OrderedDict((period, dist.get_world_size() // parts) for period, parts in spec["levels"])
        averager = HierarchicalModelAverager(period_group_size_dict=sizes, warmup_steps=spec["warmup"])
    return PostLocalSGDOptimizer(optim=optimizer, averager=averager)


def post_local_sgd_state(group):
    world = dist.get_world_size()
    subgroup, _ = dist.new_subgroups(group_size=world // 2 if world % 2 == 0 else world)
    return post_localSGD_hook.PostLocalSGDState(group, subgroup, start_localSGD_iter=4)


def run_case(folder):
    rank, world = dist.get_rank(), dist.get_world_size()
    case = json.loads((folder / "case.json").read_text())
    if case["whole_batch"]:
        if rank != 0:
            return
        rank, world, case["batch"] = 0, 1, case["batch"] * world
    model = MODELS[case["model"]]()
    load(model, folder / "init.bin")
    model.to(DEVICE)
    if case["model"] == "sync_bn" and not case["whole_batch"]:
        model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    ddp = model if case["whole_batch"] else wrap(model, case["ddp"])
    register_hook(ddp, case["hook"])
    optimizer = make_optimizer(case["optimizer"], [p for p in model.parameters() if p.requires_grad])
    if case["in_backward"]:
        put_in_backward(optimizer, case["optimizer"], model.parameters())
    optimizer = with_averager(optimizer, case["averager"])
    dtype = torch.float32 if case["words"] is None else torch.int64
    inputs = torch.frombuffer(bytearray((folder / "inputs.bin").read_bytes()), dtype=dtype)
    inputs = inputs.view(case["rows"], *case["shape"]).to(DEVICE)
    targets = torch.frombuffer(bytearray((folder / "targets.bin").read_bytes()), dtype=torch.int64).to(DEVICE)
    batch, accumulate = case["batch"], case["accumulate"]
    if case["zero"]:
        options = {k: v for k, v in case["optimizer"].items() if k != "kind"}
        optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=type(optimizer), fused=True, **options)
    amp = {"dtype": getattr(torch, case["amp"] or "bfloat16"), "enabled": case["amp"] is not None}
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0**20, growth_interval=4, enabled=amp["enabled"])
    joinables = [ddp, optimizer] if case["zero"] else [ddp]
    last_step = []
    remaining = dist.new_group(list(range(world - 1))) if case["leaves_after"] else None
    with Join(joinables) if case["uneven"] else contextlib.nullcontext():
        for step in range(case["steps"] - (rank if case["uneven"] else 0)):
            if step == case["leaves_after"]:
                ddp._update_process_group(remaining)
                if rank == world - 1:
                    break
            for micro in range(accumulate):
                first = ((step * accumulate + micro) * world + rank) * batch
                if DEVICE.type == "cuda" and "mixed_precision" in case["ddp"]:
                    # torch 2.11 copies the parameters for this forward on a stream that waits neither for the optimizer
                    # nor for the backward before: without this, its weights are others in every run.
                    torch.cuda.synchronize()
                with ddp.no_sync() if micro + 1 < accumulate else contextlib.nullcontext():
                    with torch.autocast(DEVICE.type, **amp):
                        output = ddp(inputs[first:first + batch])
                        loss = torch.nn.functional.cross_entropy(output, targets[first:first + batch]) / accumulate
                    scaler.scale(loss).backward()
            if case["last_step"]:
                last_step = [output.detach(), *(p.grad.clone() for p in model.parameters() if p.requires_grad)]
            if not case["in_backward"]:
                if step >= case["dropped_steps"]:
                    scaler.step(optimizer)
                    scaler.update()
                optimizer.zero_grad(set_to_none=case["set_to_none"])
    for r in range(dist.get_world_size()) if case["whole_batch"] else [rank]:
        (folder / f"python_{r}.bin").write_bytes(to_bytes(model, last_step))


def begin(device):
    """Joins the job over what DDPRUN_BACKEND names (gloo in shm's place), on the card that ddprun's rank gets."""
    global DEVICE
    torch.set_num_threads(1)
    if device == "cuda":
        DEVICE = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(DEVICE)
        torch.use_deterministic_algorithms(True, warn_only=True)
    backend = "nccl" if os.environ["DDPRUN_BACKEND"] == "nccl" else "gloo"
    if backend == "gloo":
        quantization_hooks.dist = NcclLikeDist
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=60))


if __name__ == "__main__":
    begin(sys.argv[1])
    for name in sys.argv[2:]:
        run_case(Path(name))
    dist.barrier()
    dist.destroy_process_group()
