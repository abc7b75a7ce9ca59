"""optim_test.py PROGRAM [--device cuda]: optimizers with parameter groups, GradScaler, clipping, averaged models and autocast give
Python's bytes for random recipes, and each side goes on from what the other has saved; so does ZeroRedundancyOptimizer
on 1, 2 and 3 ranks over gloo and shared memory; with cards on 1 rank over nccl, 2 over gloo, and one for each card over nccl.

DDPRUN_SEED chooses other recipes."""

import datetime
import json
import os
import random
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.optim import swa_utils

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import cards  # noqa: E402
from patience import patient  # noqa: E402

DEVICE = sys.argv[3] if sys.argv[2:3] == ["--device"] else "cpu"
CASES = 60
STEPS = 8
SHAPES = [(7,), (3, 5), (2, 3, 4), (33,), (1,), (16, 17)]


def options_of(draw, name):
    options = {"lr": draw.choice([0.1, 0.01, draw.uniform(1e-4, 0.2)]), "maximize": draw.random() < 0.2,
               "weight_decay": draw.choice([0.0, 0.01, 1e-4])}
    if name == "SGD" and draw.random() < 0.7:
        options["momentum"] = draw.uniform(0.1, 0.95)
        options["nesterov"] = draw.random() < 0.4
    if name == "Adagrad":
        options.update(lr_decay=draw.choice([0.0, 0.01]), initial_accumulator_value=draw.choice([0.0, 0.1]), eps=draw.choice([1e-10, 1e-6]))
    if name == "RMSprop":
        options.update(momentum=draw.choice([0.0, 0.9]), alpha=draw.choice([0.99, 0.9]), centered=draw.random() < 0.5)
    if name in ("Adam", "AdamW"):
        options["amsgrad"] = draw.random() < 0.3
    return options


def a_recipe(draw, number):
    name = ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop"][number % 5]
    counts = draw.choice([[6], [2, 4], [1, 3, 2]])
    groups = [{"count": c, **options_of(draw, name)} for c in counts]
    if name == "Adagrad":
        for group in groups:
            group["initial_accumulator_value"] = groups[0]["initial_accumulator_value"]
    recipe = {"what": "train", "optimizer": name, "groups": groups,
              "decay": draw.choice([None, 0.9, 0.999] if DEVICE == "cpu" else [0.9, 0.999]), "use_buffers": draw.random() < 0.3, "save_at": draw.randrange(1, STEPS)}
    if draw.random() < 0.5:
        recipe.update(max_norm=draw.choice([1.0, 3.7, draw.uniform(0.1, 20)]), norm_type=draw.choice([2.0, 2.0, 1.0, None]))  # None: infinity, which JSON lacks
    if draw.random() < 0.3:
        recipe["clip_value"] = draw.uniform(0.1, 2)
    if draw.random() < 0.6:
        recipe["init_scale"] = draw.choice([1024.0, 65536.0, 1000.0])
    return recipe


def write_inputs(draw, recipe, path):
    """Parameters, and gradients a step: some missing, with a scaler some not finite (an empty tensor is none)."""
    gradients = []
    for step in range(STEPS):
        gradients.append([torch.randn(shape) for shape in SHAPES])
        if recipe["optimizer"] != "SGD" and draw.random() < 0.3:  # Python's fused SGD fails when first gradients come late
            gradients[step][draw.randrange(len(SHAPES))] = torch.empty(0)
        # An overflow in the first step leaves Python's fused SGD with an uninitialised momentum buffer.
        if "init_scale" in recipe and draw.random() < 0.3 and (step > 0 or recipe["optimizer"] != "SGD"):
            whole = [g for g in gradients[step] if g.numel() > 0]
            draw.choice(whole).view(-1)[0] = draw.choice([float("inf"), float("nan")])
    torch.save({"parameters": [torch.randn(shape) for shape in SHAPES], "gradients": gradients}, path)


class Holder(nn.Module):
    def __init__(self, values):
        super().__init__()
        for i, value in enumerate(values):
            self.register_parameter(f"p{i}", nn.Parameter(value.to(DEVICE, copy=True)))
        self.register_buffer("mean", torch.zeros(3, device=DEVICE))
        self.register_buffer("count", torch.zeros((), dtype=torch.long, device=DEVICE))


class Training:
    """Python's side of a recipe."""

    def __init__(self, recipe):
        self.recipe, inputs = recipe, torch.load(recipe["inputs"])
        self.gradients = inputs["gradients"]
        self.model = Holder(inputs["parameters"])
        self.parameters = list(self.model.parameters())
        self.average = swa_utils.AveragedModel(
            self.model, use_buffers=recipe["use_buffers"],
            multi_avg_fn=None if recipe["decay"] is None else swa_utils.get_ema_multi_avg_fn(recipe["decay"]))
        groups, rest = [], list(self.parameters)
        for spec in recipe["groups"]:
            groups.append({"params": rest[:spec["count"]], **{k: v for k, v in spec.items() if k != "count"}})
            rest = rest[spec["count"]:]
        extra = {} if recipe["optimizer"] == "RMSprop" else {"fused": True}
        if DEVICE != "cpu" and recipe["optimizer"] == "Adagrad":
            extra = {"foreach": True}  # it has no fused kernel there
        if recipe["optimizer"] == "Adagrad":  # the sums begin with the constructor's value, whatever the groups say
            extra["initial_accumulator_value"] = recipe["groups"][0]["initial_accumulator_value"]
        for group in groups:
            group["lr"] = float(group["lr"])
        kind = getattr(torch.optim, recipe["optimizer"])
        self.optimizer = ZeroRedundancyOptimizer(groups, kind, lr=0.1, **extra) if dist.is_initialized() else kind(groups, lr=0.1, **extra)
        self.scaler = torch.amp.GradScaler(DEVICE, init_scale=recipe.get("init_scale", 1024.0), growth_interval=3, enabled="init_scale" in recipe)
        self.norms, self.scales = [], []

    def step(self, gradients):
        if self.scaler.is_enabled():
            self.scaler.scale(torch.ones((), device=DEVICE))
        for parameter, gradient in zip(self.parameters, gradients):
            parameter.grad = gradient.to(DEVICE) * self.scaler.get_scale() if gradient.numel() > 0 else None
        if "max_norm" in self.recipe or "clip_value" in self.recipe:
            self.scaler.unscale_(self.optimizer)
        if "max_norm" in self.recipe:
            self.norms.append(nn.utils.clip_grad_norm_(self.parameters, self.recipe["max_norm"], self.recipe["norm_type"] or float("inf")))
        if "clip_value" in self.recipe:
            nn.utils.clip_grad_value_(self.parameters, self.recipe["clip_value"])
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.scales.append(self.scaler.get_scale())
        self.model.mean += 0.1
        self.model.count += 1
        self.average.update_parameters(self.model)

    def run(self, first=0, save=None):
        for number in range(first, STEPS):
            self.step(self.gradients[number])
            if save and number + 1 == self.recipe["save_at"]:
                torch.save(self.state(), save)
        return {**self.state(), "norms": self.norms, "scales": self.scales}

    def state(self):
        if dist.is_initialized():
            self.optimizer.consolidate_state_dict(0)
        optimizer = {"optimizer": self.optimizer.state_dict()} if not dist.is_initialized() or dist.get_rank() == 0 else {}
        return {"model": self.model.state_dict(), **optimizer, "scaler": self.scaler.state_dict(), "average": self.average.state_dict()}

    def owners(self):
        return [self.optimizer._param_to_rank[parameter] for parameter in self.parameters]

    def load(self, path):
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.average.load_state_dict(state["average"])


def difference(path, theirs, ours):
    """Where two values differ, or None. The order of state entries counts; None is no entry."""
    if isinstance(theirs, torch.Tensor):
        same = isinstance(ours, torch.Tensor) and theirs.dtype == ours.dtype and theirs.shape == ours.shape
        same = same and theirs.detach().cpu().contiguous().numpy().tobytes() == ours.detach().contiguous().numpy().tobytes()
        return None if same else f"{path}: Python {theirs}, ours {ours}"
    if isinstance(theirs, dict):
        theirs = {k: v for k, v in theirs.items() if k != "momentum_buffer" or v is not None}
        if path.endswith("/state"):
            theirs = {k: v for k, v in sorted(theirs.items()) if v}
        if "/param_groups/" in path and DEVICE != "cpu":  # by which of its kernels Python did it there
            theirs, ours = ({k: v for k, v in group.items() if k not in ("foreach", "fused")} for group in (theirs, ours))
        if path.endswith("/state") or "/param_groups/" in path:
            theirs, ours = dict(sorted(theirs.items())), dict(sorted(ours.items()))
        if not isinstance(ours, dict) or list(theirs) != list(ours):
            return f"{path}: Python {list(theirs)}, ours {list(ours)}"
        return next(filter(None, (difference(f"{path}/{k}", v, ours[k]) for k, v in theirs.items())), None)
    if isinstance(theirs, (list, tuple)):
        if len(theirs) != len(ours):
            return f"{path}: Python has {len(theirs)}, ours {len(ours)}"
        return next(filter(None, (difference(f"{path}/{i}", a, b) for i, (a, b) in enumerate(zip(theirs, ours)))), None)
    return None if theirs == ours else f"{path}: Python {theirs!r}, ours {ours!r}"


def run_ours(program, recipes):
    asked = "".join(json.dumps(recipe) + "\n" for recipe in recipes)
    subprocess.run([program, DEVICE], input=asked, text=True, check=True)


def check(what, recipe, theirs, ours):
    found = difference("", theirs, ours)
    if found:
        sys.exit(f"{what}: {json.dumps(recipe)}\n{found[:1500]}")


def check_autocast(program, folder):
    inputs = [torch.randn(size).to(DEVICE) for size in ((4, 6), (5, 6), (4, 5))]
    recipe = {"what": "autocast", "inputs": f"{folder}/autocast.pt", "outputs": f"{folder}/autocast_out.pt"}
    torch.save({"parameters": inputs, "gradients": []}, recipe["inputs"])
    x, w, y = inputs
    results = []

    def compute():
        hidden = nn.functional.linear(x, w)
        results.extend([hidden, torch.softmax(hidden, -1), nn.functional.mse_loss(hidden, y), hidden + y])

    with torch.autocast(DEVICE):
        compute()
        with torch.autocast(DEVICE, enabled=False):
            compute()
            with torch.autocast(DEVICE, dtype=torch.float16):
                compute()
        compute()
    compute()
    run_ours(program, [recipe])
    ours = torch.load(recipe["outputs"])["results"]
    assert [t.dtype for t in results] == [t.dtype for t in ours], ours
    for a, b in zip(results, ours):
        a = a.cpu()
        assert torch.equal(a.view(torch.uint8) if a.dim() else a, b.view(torch.uint8) if b.dim() else b), (a, b)


def one_rank():
    """A rank of Python's, with the recipes on stdin."""
    if DEVICE != "cpu":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % cards.count())
    dist.init_process_group("nccl" if os.environ["DDPRUN_BACKEND"] == "nccl" else "gloo", timeout=datetime.timedelta(seconds=120))
    for line in sys.stdin:
        recipe = json.loads(line)
        training = Training(recipe)
        result = training.run()
        torch.save({**result, "owners": training.owners()}, f"{recipe['outputs']}.{dist.get_rank()}")
    dist.barrier()
    dist.destroy_process_group()


def run_ranks(command, recipes, world, backend):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=datetime.timedelta(seconds=120))
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world),
           "TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": "1", "DDPRUN_BACKEND": backend, "GLOO_SOCKET_IFNAME": "lo"}
    asked = "".join(json.dumps(recipe) + "\n" for recipe in recipes)
    ranks = [subprocess.Popen(command, env={**env, "RANK": str(r), "LOCAL_RANK": str(r)}, stdin=subprocess.PIPE, text=True) for r in range(world)]
    for rank in ranks:
        rank.stdin.write(asked)
        rank.stdin.close()
    codes = [rank.wait(timeout=patient(300)) for rank in ranks]
    assert not any(codes), f"{command[0]}: ranks ended with {codes}"


def worlds_of_zero():
    """How many ranks, the backend of Python's, and those of ours."""
    if DEVICE == "cpu":
        return [(world, "gloo", ("gloo", "shm")) for world in (1, 2, 3)]
    on_every_card = [(min(cards.count(), 4), "nccl", ("nccl",))] if cards.count() > 1 else []
    return [(1, "nccl", ("nccl",)), (2, "gloo", ("gloo",)), *on_every_card]


def check_zero(program, recipes, folder):
    for world, peer, backends in worlds_of_zero():
        theirs = [{**r, "outputs": f"{folder}/python_{peer}_{world}_{i}.pt"} for i, r in enumerate(recipes)]
        run_ranks([sys.executable, __file__, "--rank", "--device", DEVICE], theirs, world, peer)
        for backend in backends:
            ours = [{**r, "outputs": f"{folder}/{backend}_{world}_{i}.pt"} for i, r in enumerate(recipes)]
            run_ranks([program, DEVICE], ours, world, backend)
            for a, b in zip(theirs, ours):
                for rank in range(world):
                    check(f"zero, {backend}, rank {rank} of {world}", a, torch.load(f"{a['outputs']}.{rank}"), torch.load(f"{b['outputs']}.{rank}"))


def main():
    if DEVICE != "cpu":
        cards.require(1)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    seed = int(os.environ.get("DDPRUN_SEED", "20261121"))
    draw = random.Random(seed)
    torch.manual_seed(seed)
    recipes = [a_recipe(draw, number) for number in range(CASES)]
    with tempfile.TemporaryDirectory(prefix="ddprun-interop-") as folder:
        for i, recipe in enumerate(recipes):
            recipe["inputs"] = str(Path(folder) / f"inputs_{i}.pt")
            write_inputs(draw, recipe, recipe["inputs"])
        names = lambda word: [str(Path(folder) / f"{word}_{i}.pt") for i in range(CASES)]
        theirs_mid, ours_mid, outputs = names("python"), names("cpp"), names("outputs")
        theirs = [Training(recipe).run(save=path) for recipe, path in zip(recipes, theirs_mid)]
        run_ours(sys.argv[1], [{**r, "save": m, "outputs": o} for r, m, o in zip(recipes, ours_mid, outputs)])
        for recipe, expected, path in zip(recipes, theirs, outputs):
            check("from the start", recipe, expected, torch.load(path))
        run_ours(sys.argv[1], [{**r, "load": m, "first": r["save_at"], "outputs": o} for r, m, o in zip(recipes, theirs_mid, outputs)])
        for recipe, expected, path, middle in zip(recipes, theirs, outputs, ours_mid):
            rest = {**expected, "norms": expected["norms"][recipe["save_at"]:], "scales": expected["scales"][recipe["save_at"]:]}
            if "max_norm" not in recipe:
                rest["norms"] = []
            check("from Python's checkpoint", recipe, rest, torch.load(path))
            other = Training(recipe)
            other.load(middle)
            check("Python from our checkpoint", recipe, rest, other.run(recipe["save_at"]))
        check_autocast(sys.argv[1], folder)
        plain = [recipe for recipe in recipes if "init_scale" not in recipe and recipe["optimizer"] != "Adagrad"][:8]
        check_zero(sys.argv[1], plain, folder)
    skipped = sum(1 for expected in theirs for a, b in zip(expected["scales"], expected["scales"][1:]) if b < a)
    print(f"{CASES} recipes of {STEPS} steps on {DEVICE}, {skipped} of them left out by the scaler: all bytes are Python's; "
          f"autocast and {len(plain)} recipes with ZeroRedundancyOptimizer, too")


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        torch.set_num_threads(1)
        one_rank()
    else:
        main()
