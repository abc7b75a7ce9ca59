#!/usr/bin/env python3
"""The Python twin of a job: trains what the merged job file says with torch, DistributedSampler, DataLoader and Python's
DDP, and saves the weights, the average of them, and the metrics of an evaluation. Beside TARGET it leaves TARGET.json: the
accuracy, the loss of the same evaluation, and the time of each step that the job file has logged. With "device": "cuda" it
trains on a card, over NCCL.

    ddprun --nproc-per-node 2 twin.py out/job.json twin.pt
"""

import contextlib
import fnmatch
import itertools
import json
import math
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import mixing  # noqa: E402
import nets  # noqa: E402
import twin_data  # noqa: E402


def make_optimizer(options, parameters):
    rate, decay = options["learning_rate"], options["weight_decay"]
    groups = [{"params": parameters, "weight_decay": decay}]
    if options["decay"] == "matrices":
        groups = [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": decay},
                  {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}]
    if options["type"] == "sgd":
        return torch.optim.SGD(groups, lr=rate, momentum=options["momentum"], dampening=options["dampening"],
                               nesterov=options["nesterov"], fused=True)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[options["type"]]
    return kind(groups, lr=rate, betas=tuple(options["betas"]), eps=options["eps"], amsgrad=options["amsgrad"], fused=True)


class Rate:
    """The factor on the learning rate by progress, as the job file describes it."""

    def __init__(self, options, epochs, max_steps, epoch_samples):
        self.options, self.epochs, self.max_steps, self.epoch_samples = options, epochs, max_steps, epoch_samples
        self.warmup_end = None

    def __call__(self, step, epoch, seen):
        done = epoch + min(1.0, seen / self.epoch_samples)
        share = done / self.epochs
        if self.max_steps:
            share = max(share, min(1.0, step / self.max_steps))
        warmup = self.options["warmup_steps"]
        if step < warmup:
            return (step + 1) / (warmup + 1)
        if self.warmup_end is None:
            self.warmup_end = share if warmup else 0.0
        part = (share - self.warmup_end) / (1 - self.warmup_end)
        kind = self.options["type"]
        if kind == "cosine":
            last = self.options["final_factor"]
            return last + (1 - last) * 0.5 * (1 + math.cos(math.pi * part))
        if kind == "linear":
            last = self.options["final_factor"]
            return last + (1 - last) * (1 - part)
        if kind == "step":
            return self.options["gamma"] ** float(done // self.options["step_epochs"])
        if kind == "multi_step":
            return self.options["gamma"] ** float(sum(done >= milestone for milestone in self.options["milestones"]))
        return 1.0


def device_of(job):
    return torch.device("cuda", dist.get_node_local_rank()) if job["device"] == "cuda" else torch.device("cpu")


DTYPES = {"fp32": None, "bf16": torch.bfloat16}  # of autocast


def precision_of(job):
    precision = job["train"]["precision"]
    if precision not in DTYPES:
        sys.exit(f"/train/precision: the twin trains in {' and '.join(DTYPES)}, and not in {precision}; set one of these")
    dtype = DTYPES[precision]
    return torch.autocast(device_of(job).type, dtype=dtype) if dtype else contextlib.nullcontext()


def make_model(job, sample):
    options, outputs = job["model"], twin_data.outputs_of(job["data"])
    if options["weights"] is None:
        model = nets.make_model(options, sample, outputs)
    else:
        model = nets.make_finetuned(options, sample, outputs, torch.load(options["weights"]))
    if job["train"]["channels_last"]:
        model = model.to(memory_format=torch.channels_last)
    for name, parameter in model.named_parameters():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in options["freeze"]):
            parameter.requires_grad_(False)
    return model


def make_loss(job):
    if job["data"]["type"] == "npy" and not job["data"]["classes"]:
        return nn.MSELoss()
    if job["data"]["type"] != "text":
        return nn.CrossEntropyLoss(label_smoothing=job["task"]["label_smoothing"])
    return lambda output, tokens: functional.cross_entropy(output.flatten(0, 1), tokens.flatten())


def loader_options(data):
    workers = data["loader_threads"]
    return {"num_workers": workers, "persistent_workers": workers > 0}


def train(job):
    train_options, world = job["train"], dist.get_world_size()
    data = twin_data.open_split(job["data"], is_training=True)
    torch.manual_seed(job["seed"])
    device = device_of(job)
    model = make_model(job, data[0][0]).to(device)
    ddp = DistributedDataParallel(model, bucket_cap_mb=job["ddp"]["bucket_cap_mb"], gradient_as_bucket_view=True)
    average = None
    if train_options["ema_decay"]:
        average = torch.optim.swa_utils.AveragedModel(
            model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(train_options["ema_decay"]))
    optimizer = make_optimizer(job["optimizer"], [p for p in model.parameters() if p.requires_grad])
    sampler = DistributedSampler(data, seed=job["seed"], drop_last=train_options["drop_last"])
    rate = Rate(job["schedule"], train_options["epochs"], train_options["max_steps"],
                min(len(data), sampler.num_samples * world))
    loss_of = make_loss(job)
    step, times, accumulation = 0, [], train_options["accumulation_steps"]
    loader = DataLoader(data, train_options["batch_size"], sampler=sampler, drop_last=train_options["drop_last_batch"],
                        **loader_options(job["data"]))
    for epoch in range(train_options["epochs"]):
        sampler.set_epoch(epoch)
        windows = getattr(data, "dataset", data)
        if hasattr(windows, "shift"):  # all of an epoch alike
            windows.shift.fill_(mixing.Draws(job["seed"], epoch, 0, stream=3).below(windows.block))
        batches, seen = mixing.mixed(loader, job, epoch, list(sampler)), 0
        while group := list(itertools.islice(batches, accumulation)):
            for parameters in optimizer.param_groups:
                parameters["lr"] = job["optimizer"]["learning_rate"] * rate(step, epoch, seen)
            optimizer.zero_grad()
            for i, (images, labels) in enumerate(group):
                images, labels = images.to(device), labels.to(device)
                with contextlib.nullcontext() if i + 1 == len(group) else ddp.no_sync():
                    with precision_of(job):
                        loss = loss_of(ddp(images), labels)
                    (loss / len(group) if len(group) > 1 else loss).backward()
                seen += len(labels) * world
            if train_options["clip_grad_norm"]:
                nn.utils.clip_grad_norm_(model.parameters(), train_options["clip_grad_norm"])
            if train_options["clip_grad_value"]:
                nn.utils.clip_grad_value_(model.parameters(), train_options["clip_grad_value"])
            optimizer.step()
            if average:
                average.update_parameters(model)
            step += 1
            if step % job["log"]["every_steps"] == 0:
                times.append({"step": step, "time": time.time()})
            if step == train_options["max_steps"]:
                return model, average, times
    return model, average, times


def evaluate(model, job):
    """The share of right answers, or of numbers the mean absolute error; and the mean loss."""
    held_out = twin_data.open_split(job["data"], is_training=False)
    model.eval()
    found = count = loss = 0
    with torch.no_grad(), precision_of(job):
        for inputs, targets in DataLoader(held_out, job["train"]["eval_batch_size"]):
            inputs, targets = inputs.to(device_of(job)), targets.to(device_of(job))
            output = model(inputs)
            if targets.is_floating_point():
                found += (output - targets).abs().sum().item()
                loss += functional.mse_loss(output, targets, reduction="sum").item()
            else:
                found += output.argmax(-1).eq(targets).sum().item()
                loss += functional.cross_entropy(output.flatten(0, -2), targets.flatten(), reduction="sum").item()
            count += targets.numel()
    return found / count, loss / count


def main():
    job, target = json.loads(pathlib.Path(sys.argv[1]).read_text()), sys.argv[2]
    torch.set_num_threads(1)
    if job["device"] == "cuda":
        torch.cuda.set_device(device_of(job))
    dist.init_process_group("nccl" if job["device"] == "cuda" else "gloo")
    model, average, times = train(job)
    if dist.get_rank() == 0:
        accuracy, loss = evaluate(average.module if average else model, job)
        torch.save({"model": model.state_dict(), "ema": average.state_dict() if average else None, "accuracy": accuracy}, target)
        pathlib.Path(target + ".json").write_text(json.dumps({"accuracy": accuracy, "loss": loss, "times": times}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
