"""What the matrix trains. A case with a tolerance says why it cannot be equal."""


def case(model, optimizer, *, ddp=None, hook=None, steps=20, batch=8, accumulate=1, uneven=False, whole_batch=False, averager=None, in_backward=False, leaves_after=None, zero=False, dropped_steps=0, last_step=False,
         amp=None, set_to_none=True, worlds=(1, 2, 3, 4), tolerance=0.0, why=""):
    """`whole_batch`: the Python side is one process that trains the plain module on the batches of all ranks together;
    `last_step`: the output and the gradients of the last step are compared as well; `amp`: the dtype of autocast, under a
    GradScaler whose first steps overflow in float16."""
    return {"model": model, "optimizer": optimizer, "ddp": ddp or {}, "hook": hook, "steps": steps, "batch": batch,
            "accumulate": accumulate, "uneven": uneven, "whole_batch": whole_batch,
            "set_to_none": set_to_none, "averager": averager,
            "in_backward": in_backward, "leaves_after": leaves_after, "zero": zero,
            "dropped_steps": dropped_steps, "last_step": last_step, "amp": amp, "worlds": worlds,
            "tolerance": tolerance, "why": why}


def mixed(model, optimizer, dtypes, *, ddp=None, **options):
    """With DDP's mixed_precision: param_dtype, reduce_dtype and buffer_dtype. The gradients of the first two steps are dropped
    on both sides: torch 2.11 casts the buckets after it has cut them into views, and reduces memory that nobody wrote until
    it builds them anew (with static_graph a step later)."""
    return case(model, optimizer, ddp={"mixed_precision": dtypes, **(ddp or {})}, dropped_steps=2, last_step=True, **options)


# Models whose gradients nccl cannot reduce: it has no sparse tensors.
NOT_ON_NCCL = {"embedding"}

SGD = {"kind": "sgd", "lr": 0.1}
MOMENTUM = {"kind": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4}
NESTEROV = {"kind": "sgd", "lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}
ADAM = {"kind": "adam", "lr": 1e-3, "weight_decay": 1e-2}
ADAMW = {"kind": "adamw", "lr": 1e-3, "weight_decay": 1e-2}

# Python's takes no CPU tensors.
PYTHON_SYNC_BATCH_NORM = {
    "SyncBatchNorm against Python's": case("sync_bn", MOMENTUM),
}

CASES = {
    "mlp, sgd with momentum": case("mlp", MOMENTUM),
    "mlp, sgd with nesterov": case("mlp", NESTEROV),
    "mlp, adam": case("mlp", ADAM),
    "mlp, adamw": case("mlp", ADAMW),
    "conv + batch-norm, sgd with momentum": case("conv_bn", MOMENTUM),
    "conv + batch-norm, adamw": case("conv_bn", ADAMW),
    "conv + batch-norm, own buffers": case("conv_bn", MOMENTUM, ddp={"broadcast_buffers": False}),
    "embedding with sparse gradients, stock sgd": case("embedding", {"kind": "stock_sgd", "lr": 0.1}),
    "tied weights, sgd with momentum": case("tied", MOMENTUM),
    "tied weights, adam": case("tied", ADAM),
    "unused parameters, find_unused": case("unused", MOMENTUM, ddp={"find_unused_parameters": True}),
    # Without momentum: Python's fused SGD fails where some parameters get their first gradient later than others.
    "two experts, one used, find_unused": case("experts", SGD, ddp={"find_unused_parameters": True}),
    "two experts, small buckets": case("experts", ADAMW, ddp={"find_unused_parameters": True, "bucket_cap_mb": 0.001}),
    "two experts, accumulation of 2": case("experts", SGD, accumulate=2, ddp={"find_unused_parameters": True}),
    "layer drop, find_unused": case("layer_drop", ADAMW, ddp={"find_unused_parameters": True}),
    "complex weights, stock sgd": case("complex", {"kind": "stock_sgd", "lr": 0.1}),
    "unused parameters, static graph": case("unused", ADAMW, ddp={"static_graph": True}),
    "unused parameters, their reductions skipped": case(
        "unused", MOMENTUM,
        ddp={"find_unused_parameters": True, "skip_all_reduce_unused_params": True, "bucket_cap_mb": 0.001}),
    "transformer, adamw": case("transformer", ADAMW),
    "transformer, sgd with momentum": case("transformer", MOMENTUM),
    "accumulation of 4 under no_sync": case("mlp", MOMENTUM, accumulate=4),
    "many buckets (1 KiB)": case("transformer", MOMENTUM, ddp={"bucket_cap_mb": 0.001}),
    "buckets of listed sizes": case("transformer", MOMENTUM, ddp={"bucket_cap_mb_list": [0.001, 0.004, 0.002]}),
    "buckets of listed sizes, find_unused": case(
        "unused", MOMENTUM, ddp={"bucket_cap_mb_list": [0.0005, 0.001], "find_unused_parameters": True}),
    # As one square matrix each, so that the bytes depend on what is in which bucket.
    "buckets of listed sizes, batched PowerSGD hook": case(
        "transformer", MOMENTUM, hook="batched_power_sgd", ddp={"bucket_cap_mb_list": [0.001, 0.004, 0.002]}),
    "gradients as bucket views": case("transformer", ADAMW, ddp={"gradient_as_bucket_view": True}),
    "gradients as bucket views, zeroed in place": case(
        "transformer", ADAMW, ddp={"gradient_as_bucket_view": True}, set_to_none=False),
    "gradients as bucket views, accumulation of 2": case(
        "mlp", MOMENTUM, ddp={"gradient_as_bucket_view": True}, accumulate=2),
    "find_unused, gradients zeroed in place": case(
        "unused", MOMENTUM, ddp={"find_unused_parameters": True}, set_to_none=False),
    "static graph": case("transformer", MOMENTUM, ddp={"static_graph": True}),
    "allreduce hook": case("mlp", MOMENTUM, hook="allreduce"),
    "fp16 hook": case("transformer", MOMENTUM, hook="fp16"),
    "bf16 hook": case("transformer", MOMENTUM, hook="bf16"),
    "PowerSGD hook, rank 1": case("mlp", MOMENTUM, hook="power_sgd"),
    "PowerSGD hook, rank 4 (QR)": case("transformer", MOMENTUM, hook="power_sgd_4"),
    "builtin all-reduce hook": case("mlp", MOMENTUM, hook="builtin_allreduce"),
    "builtin fp16 hook": case("transformer", MOMENTUM, hook="builtin_fp16"),
    "noop hook": case("mlp", MOMENTUM, hook="noop"),
    "quantization hook, per tensor": case("transformer", ADAMW, hook="per_tensor"),
    "quantization hook, per tensor, small buckets": case(
        "mlp", MOMENTUM, hook="per_tensor", ddp={"bucket_cap_mb": 0.001}),
    "quantization hook, per channel": case("transformer", ADAMW, hook="per_channel"),
    "quantization hook, per channel, bucket views": case(
        "mlp", MOMENTUM, hook="per_channel", ddp={"gradient_as_bucket_view": True}),
    "batched PowerSGD hook": case("mlp", MOMENTUM, hook="batched_power_sgd"),
    "batched PowerSGD hook, small buckets": case(
        "transformer", MOMENTUM, hook="batched_power_sgd", ddp={"bucket_cap_mb": 0.01}),
    "batched PowerSGD hook, rank 4 (QR), cold": case("transformer", MOMENTUM, hook="batched_power_sgd_cold"),
    "fp16 wrapper, all-reduce hook": case("transformer", MOMENTUM, hook="fp16:allreduce"),
    "bf16 wrapper, all-reduce hook, bucket views": case(
        "transformer", ADAMW, hook="bf16:allreduce", ddp={"gradient_as_bucket_view": True}),
    "fp16 wrapper, PowerSGD hook, rank 1": case("mlp", MOMENTUM, hook="fp16:power_sgd"),
    "bf16 wrapper, PowerSGD hook, rank 4": case("transformer", MOMENTUM, hook="bf16:power_sgd_4"),
    "fp16 wrapper, batched PowerSGD hook": case("transformer", MOMENTUM, hook="fp16:batched_power_sgd"),
    "bf16 wrapper, batched PowerSGD hook": case("mlp", MOMENTUM, hook="bf16:batched_power_sgd"),
    "fp16 wrapper, post-local SGD": case("mlp", MOMENTUM, hook="fp16:post_local_sgd"),
    "bf16 wrapper, fp16 hook": case("transformer", MOMENTUM, hook="bf16:fp16"),
    "fp16 wrapper, quantization hook, per tensor": case("transformer", ADAMW, hook="fp16:per_tensor"),
    "bf16 wrapper, quantization hook, per channel": case("mlp", MOMENTUM, hook="bf16:per_channel"),
    "post-local SGD, averaged every third step": case(
        "transformer", ADAMW, hook="post_local_sgd", averager={"period": 3, "warmup": 4}),
    # A period, and of how many groups of that level the world is made.
    "post-local SGD, hierarchical": case(
        "mlp", MOMENTUM, hook="post_local_sgd", averager={"levels": [[2, 2], [3, 1]], "warmup": 5}, worlds=(2, 4)),
    "optimizer in backward, sgd with momentum": case("transformer", MOMENTUM, in_backward=True),
    "optimizer in backward, adamw, small buckets": case(
        "transformer", ADAMW, in_backward=True, ddp={"bucket_cap_mb": 0.001}),
    "optimizer in backward, bucket views, accumulation of 2": case(
        "mlp", ADAM, in_backward=True, accumulate=2, ddp={"gradient_as_bucket_view": True}),
    "optimizer in backward, find_unused": case(
        "layer_drop", ADAMW, in_backward=True, ddp={"find_unused_parameters": True}),
    "optimizer in backward, update_process_group": case(
        "mlp", MOMENTUM, in_backward=True, leaves_after=10, worlds=(2, 3, 4)),
    "join, uneven inputs": case("conv_bn", MOMENTUM, uneven=True),
    "join, uneven inputs, find_unused": case("unused", MOMENTUM, uneven=True, ddp={"find_unused_parameters": True}),
    # Each rank updates its share; a joined one with the gradients it was left with.
    "join of DDP and ZeRO, uneven inputs": case("conv_bn", ADAMW, uneven=True, zero=True),
    "join of DDP and ZeRO, gradients zeroed in place": case("mlp", ADAMW, uneven=True, zero=True, set_to_none=False),
    # The last rank leaves, and the others go on.
    "update_process_group": case("conv_bn", ADAMW, leaves_after=10, worlds=(2, 3, 4)),
    "update_process_group, find_unused": case(
        "layer_drop", ADAMW, leaves_after=10, worlds=(2, 3, 4), ddp={"find_unused_parameters": True}),
    "mixed precision, bf16, reduced in fp32": mixed("mlp", MOMENTUM, ["bfloat16", "float32", None]),
    "mixed precision, bf16": mixed("transformer", ADAMW, ["bfloat16", "bfloat16", None]),
    "mixed precision, fp16, reduced as computed": mixed("mlp", ADAM, ["float16", None, None]),
    "mixed precision, fp16, reduced in bf16": mixed("transformer", MOMENTUM, ["float16", "bfloat16", None]),
    "mixed precision, bf16, batch-norm": mixed("conv_bn", MOMENTUM, ["bfloat16", "bfloat16", "bfloat16"]),
    "mixed precision, fp16, batch-norm, own buffers": mixed(
        "conv_bn", ADAMW, ["float16", "float32", "float16"], ddp={"broadcast_buffers": False}),
    "mixed precision, small buckets": mixed(
        "transformer", MOMENTUM, ["bfloat16", "float32", None], ddp={"bucket_cap_mb": 0.001}),
    "mixed precision, static graph": mixed(
        "transformer", ADAMW, ["bfloat16", "float32", None], ddp={"static_graph": True}),
    "mixed precision, gradients zeroed in place": mixed(
        "transformer", MOMENTUM, ["bfloat16", "float32", None], set_to_none=False),
    "mixed precision, layers of two dtypes": mixed("two_dtypes", MOMENTUM, ["bfloat16", "float32", None]),
    "mixed precision, frozen layer": mixed("frozen", MOMENTUM, ["bfloat16", "float32", None]),
    # An overflow in the first step leaves Python's fused SGD with an uninitialised momentum buffer.
    "autocast to fp16, GradScaler, sgd": case("transformer", SGD, amp="float16", last_step=True),
    "autocast to fp16, GradScaler, adamw": case("transformer", ADAMW, amp="float16", last_step=True),
    "autocast to fp16, GradScaler, accumulation of 2": case("transformer", ADAM, amp="float16", accumulate=2, last_step=True),
    "autocast to bf16, GradScaler, sgd with momentum": case("transformer", MOMENTUM, amp="bfloat16", last_step=True),
    # In C++ nn::Linear is an addmm, for which autocast casts in another order; with three ranks last bits differed.
    "autocast to bf16, GradScaler, batch-norm": case(
        "conv_bn", MOMENTUM, amp="bfloat16", last_step=True, worlds=(1, 2)),
    "halves of a batch against the whole": case(
        "mlp", MOMENTUM, whole_batch=True, tolerance=2e-6, why="sums over half batches round differently"),
    "SyncBatchNorm against the whole batch": case(
        "sync_bn", MOMENTUM, whole_batch=True, tolerance=2e-5, why="sums over half batches round differently"),
    **PYTHON_SYNC_BATCH_NORM,
}
