"""lr_scheduler_test.py PROGRAM: our schedulers give Python's rates and momenta to the last bit, for 600 random schedules,
and each side goes on from what the other has saved.

DDPRUN_SEED chooses other schedules."""

import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from torch.optim import lr_scheduler as python

CASES = 600
LAMBDAS = {"LambdaLR": lambda e: 1.0 / (1.0 + 0.3 * e), "MultiplicativeLR": lambda e: 0.9 if e % 3 == 0 else 1.01}


def gamma(draw):
    return draw.choice([0.1, 0.5, 0.97, draw.uniform(0.05, 1.0)])


PARTS = {
    "LambdaLR": lambda draw, groups: {},
    "MultiplicativeLR": lambda draw, groups: {},
    "StepLR": lambda draw, groups: {"step_size": draw.randrange(1, 12), "gamma": gamma(draw)},
    "MultiStepLR": lambda draw, groups: {"milestones": [draw.randrange(-1, 40) for _ in range(draw.randrange(5))], "gamma": gamma(draw)},
    "ConstantLR": lambda draw, groups: {"factor": draw.choice([1 / 3, draw.uniform(0.01, 1)]), "total_iters": draw.randrange(0, 20)},
    "LinearLR": lambda draw, groups: {"start_factor": draw.choice([1 / 3, 0.01, draw.uniform(0.001, 1)]),
                                      "end_factor": draw.choice([1.0, 0.0, draw.random()]), "total_iters": draw.randrange(1, 30)},
    "ExponentialLR": lambda draw, groups: {"gamma": gamma(draw)},
    "PolynomialLR": lambda draw, groups: {"total_iters": draw.randrange(1, 40), "power": draw.choice([1.0, 0.9, 2.0, draw.uniform(0.2, 3)])},
    "CosineAnnealingLR": lambda draw, groups: {"T_max": draw.randrange(1, 45), "eta_min": draw.choice([0.0, 1e-5, draw.random() * 0.01])},
    "CosineAnnealingWarmRestarts": lambda draw, groups: {"T_0": draw.randrange(1, 15), "T_mult": draw.randrange(1, 4),
                                                         "eta_min": draw.choice([0.0, 1e-4])},
}
WHOLE = {
    "OneCycleLR": lambda draw, groups: {
        "max_lr": draw.choice([[0.1], [draw.uniform(0.01, 1) for _ in range(groups)]]), "total_steps": draw.randrange(60, 90),
        "pct_start": draw.choice([0.3, draw.uniform(0.05, 0.45)]), "anneal_strategy": draw.choice(["cos", "linear"]),
        "cycle_momentum": draw.random() < 0.8, "div_factor": draw.choice([25.0, 10.0]), "final_div_factor": draw.choice([1e4, 100.0]),
        "three_phase": draw.random() < 0.5},
    "ReduceLROnPlateau": lambda draw, groups: {
        "mode": draw.choice(["min", "max"]), "factor": gamma(draw) * 0.99, "patience": draw.randrange(4), "threshold": draw.choice([1e-4, 0.05]),
        "threshold_mode": draw.choice(["rel", "abs"]), "cooldown": draw.randrange(4),
        "min_lr": draw.choice([[0.0], [draw.uniform(0, 0.05) for _ in range(groups)]])},
    "SequentialLR": lambda draw, groups: sequence(draw, groups, draw.random() < 0.2),
    "ChainedScheduler": lambda draw, groups: {"schedulers": [a_part(draw, groups) for _ in range(draw.randrange(1, 4))]},
}


def a_part(draw, groups):
    name = draw.choice(list(PARTS))
    return {"class": name, **PARTS[name](draw, groups)}


def sequence(draw, groups, nested):
    parts = [a_part(draw, groups) for _ in range(draw.randrange(2, 5))]
    if draw.random() < 0.5:  # the usual one: warm-up, then something
        parts[0] = {"class": "LinearLR", **PARTS["LinearLR"](draw, groups)}
    if nested:
        kind = draw.choice(["SequentialLR", "ChainedScheduler"])
        parts[0] = {"class": kind, **(sequence(draw, groups, False) if kind == "SequentialLR" else WHOLE[kind](draw, groups))}
    return {"schedulers": parts, "milestones": sorted(draw.sample(range(1, 45), len(parts) - 1))}


def a_case(draw, number):
    groups = draw.randrange(1, 4)
    names = [*PARTS, *WHOLE, "SequentialLR", "SequentialLR"]
    name = names[number % len(names)]
    return {"optimizer": draw.choice(["sgd", "adam"]), "lrs": [draw.choice([0.1, 1e-3, draw.uniform(1e-4, 1)]) for _ in range(groups)],
            "scheduler": {"class": name, **{**PARTS, **WHOLE}[name](draw, groups)}, "steps": 55, "save_at": draw.randrange(1, 50),
            "metrics": [draw.choice([1.0, draw.random()]) for _ in range(55)]}


def make_scheduler(optimizer, spec, groups):
    options = {k: v for k, v in spec.items() if k != "class"}
    name = spec["class"]
    if name in LAMBDAS:
        options["lr_lambda"] = LAMBDAS[name]
    if "schedulers" in options:
        options["schedulers"] = [make_scheduler(optimizer, part, groups) for part in options["schedulers"]]
    if name == "ChainedScheduler":
        return python.ChainedScheduler(options["schedulers"], optimizer)
    for key in ("max_lr", "min_lr"):
        if key in options:
            options[key] = options[key] * groups if len(options[key]) == 1 else options[key]
    return getattr(python, name)(optimizer, **options)


class Side:
    """Python's optimizer and scheduler of a case."""

    def __init__(self, case):
        groups = [{"params": [torch.nn.Parameter(torch.zeros(2))], "lr": lr} for lr in case["lrs"]]
        self.case = case
        self.optimizer = torch.optim.SGD(groups, momentum=0.9, fused=True) if case["optimizer"] == "sgd" else torch.optim.Adam(groups, fused=True)
        self.scheduler = make_scheduler(self.optimizer, case["scheduler"], len(groups))

    def line(self):
        values = []
        for group in self.optimizer.param_groups:
            values += [group["lr"], group["betas"][0] if "betas" in group else group["momentum"]]
        return "".join(struct.pack(">d", value).hex() + " " for value in values) + "/ "

    def run(self, first, steps, save=None):
        line = self.line()
        for step in range(first, steps):
            if self.case["scheduler"]["class"] == "ReduceLROnPlateau":
                self.scheduler.step(self.case["metrics"][step])
            else:
                self.scheduler.step()
            line += self.line()
            if save and step + 1 == self.case["save_at"]:
                torch.save({"optimizer": self.optimizer.state_dict(), "scheduler": self.scheduler.state_dict()}, save)
        return line

    def load(self, path):
        state = torch.load(path)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])


def ours(program, cases):
    asked = "".join(json.dumps(case) + "\n" for case in cases)
    return subprocess.run([program], input=asked, capture_output=True, text=True, check=True).stdout.splitlines()


def check(what, cases, theirs, answer):
    assert len(answer) == len(cases)
    for case, expected, got in zip(cases, theirs, answer):
        if expected.strip() == got.strip():
            continue
        steps = zip(expected.split("/"), got.split("/"))
        step = next(i for i, (a, b) in enumerate(steps) if a.split() != b.split())
        unpack = lambda text: [struct.unpack(">d", bytes.fromhex(word))[0] for word in text.split("/")[step].split()]
        sys.exit(f"{what}: step {step} of {case}\nPython {unpack(expected)}\nours   {unpack(got)}")


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    draw = random.Random(int(os.environ.get("DDPRUN_SEED", "20261121")))
    cases = [a_case(draw, number) for number in range(CASES)]
    with tempfile.TemporaryDirectory(prefix="ddprun-interop-") as folder:
        files = {side: [str(Path(folder) / f"{side}_{i}.pt") for i in range(CASES)] for side in ("python", "cpp")}
        theirs = [Side(case).run(0, case["steps"], path) for case, path in zip(cases, files["python"])]
        check("from the start", cases, theirs, ours(sys.argv[1], [{**c, "save": p} for c, p in zip(cases, files["cpp"])]))

        later = [{**c, "first": c["save_at"], "save_at": -1, "load": p} for c, p in zip(cases, files["python"])]
        tails = ["/ ".join(line.split("/ ")[case["save_at"]:]) for case, line in zip(cases, theirs)]
        check("from Python's checkpoint", later, tails, ours(sys.argv[1], later))
        for case, path, tail in zip(cases, files["cpp"], tails):
            side = Side(case)
            side.load(path)
            check("Python from our checkpoint", [case], [tail], [side.run(case["save_at"], case["steps"])])
    values = sum(line.count("/") for line in theirs)
    print(f"{CASES} schedules, {values} steps: rates and momenta are Python's to the last bit, also after a change of sides")


if __name__ == "__main__":
    main()
