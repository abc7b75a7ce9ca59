"""Whole jobs on two CPU ranks against their Python twins (tests/interop/training/twin.py) with as many loader threads as the
twin has loader workers; the loader alone against torchvision's transforms in a DataLoader; and what the observers cost.

All data is made here: a processor does not care what it is, and no figure depends on files that a machine may lack."""

import functools
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import bench_ddp
import numpy
from harness import DDPRUN, PEERS, PYTHON, ROOT, BUILD, Broken, LeftOut, Limit, Ranks, Versus, peer_environment, seconds_of

TITLE = "Training jobs, 2 ranks"
TWIN = ROOT / "tests/interop/training/twin.py"
RANKS = "2"


@functools.cache
def folder():
    made = tempfile.TemporaryDirectory(prefix="ddprun-bench-")
    folder.keeps = made
    return pathlib.Path(made.name)


def draw(*shape):
    return numpy.random.default_rng(0).integers(0, 256, shape, numpy.uint8)


@functools.cache
def mnist():
    place = folder() / "mnist"
    place.mkdir()
    for stem, count in (("train", 60000), ("t10k", 10000)):
        images = b"\0\0\x08\x03" + b"".join(n.to_bytes(4, "big") for n in (count, 28, 28)) + draw(count, 28, 28).tobytes()
        labels = b"\0\0\x08\x01" + count.to_bytes(4, "big") + (draw(count) % 10).tobytes()
        (place / f"{stem}-images-idx3-ubyte").write_bytes(images)
        (place / f"{stem}-labels-idx1-ubyte").write_bytes(labels)
    return str(place)


@functools.cache
def cifar10():
    place = folder() / "cifar10"
    place.mkdir()
    for name, count in (("data_batch_1", 10000), ("test_batch", 1000)):
        records = draw(count, 3073)
        records[:, 0] %= 10
        (place / f"{name}.bin").write_bytes(records.tobytes())
    return str(place)


@functools.cache
def jpegs():
    """Files of 500 × 375 pixels, as ImageNet's are on average, of 80 KB each: large shapes under fine noise."""
    try:
        from PIL import Image
    except ImportError as why:
        raise LeftOut(f"{why}; scripts/setup.sh --with-tests installs it") from why
    place, generator = folder() / "jpegs", numpy.random.default_rng(0)
    for split, count in (("train", 128), ("test", 8)):
        for i in range(count):
            shapes = Image.fromarray(generator.integers(0, 256, (12, 16, 3), numpy.uint8)).resize((500, 375), Image.BICUBIC)
            noise = generator.normal(0, 9, (375, 500, 3))
            file = place / split / f"class{i % 2}" / f"{i}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray((numpy.asarray(shapes) + noise).clip(0, 255).astype(numpy.uint8)).save(file, quality=85)
    return str(place)


@functools.cache
def text():
    generator, place = random.Random(0), folder() / "text.txt"
    place.write_text("".join(generator.choices("abcdefghijklmnopqrstuvwxyz ,.\n", k=1_000_000)))
    return str(place)


CIFAR_CHAIN = [{"type": "random_crop", "size": 32, "padding": 4}, {"type": "horizontal_flip"}]
JPEG_CHAIN = [{"type": "random_resized_crop", "size": 224}, {"type": "horizontal_flip"}]
JPEG_TEST_CHAIN = [{"type": "resize", "size": 232}, {"type": "center_crop", "size": 224}]

# name: job, step at which the clock starts, step at which it stops. Nothing is evaluated or saved between them.
JOBS = {
    "mnist_net": (lambda: {
        "model": {"type": "two_conv"}, "data": {"type": "mnist", "path": mnist()},
        "train": {"epochs": 2, "batch_size": 1024}, "optimizer": {"type": "sgd", "learning_rate": 0.1}}, 5, 25),
    "ResNet-18 on 32×32": (lambda: {
        "model": {"type": "resnet18"}, "data": {"type": "cifar10", "path": cifar10(), "transforms": CIFAR_CHAIN},
        "train": {"batch_size": 64}, "optimizer": {"type": "sgd", "learning_rate": 0.1, "momentum": 0.9}}, 3, 15),
    "ResNet-50 on 224×224": (lambda: {
        "model": {"type": "resnet50"},
        "data": {"type": "image_folder", "path": jpegs(), "transforms": JPEG_CHAIN, "test_transforms": JPEG_TEST_CHAIN},
        "train": {"batch_size": 8, "epochs": 2}, "optimizer": {"type": "adam", "learning_rate": 0.001}}, 2, 6),
    "char_gpt": (lambda: {
        "model": {"type": "gpt", "layers": 4, "heads": 4, "width": 128}, "data": {"type": "text", "path": text(), "block": 64},
        "train": {"batch_size": 12, "accumulation_steps": 4, "clip_grad_norm": 1},
        "optimizer": {"type": "adamw", "learning_rate": 0.001, "weight_decay": 0.1, "decay": "matrices"}}, 5, 25),
}


def write_job(name, job):
    place = pathlib.Path(tempfile.mkdtemp(prefix="job-", dir=folder()))
    whole = {"device": "cpu", "output_dir": str(place / "out"), "resume": "never", "name": name, **job}
    (place / "job.json").write_text(json.dumps(whole))
    return place


def run(*command):
    """Peak memory, in MiB, of the largest of its processes."""
    # A process of its own, because the kernel keeps the peak over all children that one has ever had.
    program = ("import resource, subprocess, sys\n"
               "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode\n"
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
               "sys.exit(code)")
    done = subprocess.run([sys.executable, "-c", program, *map(str, command)], env=peer_environment(), text=True,
                          capture_output=True, check=False)
    if done.returncode != 0:
        raise Broken(f"{' '.join(map(str, command))} exited with {done.returncode}:\n{done.stderr}")
    return int(done.stdout) / 1024


def milliseconds_between(times, first, last):
    at = {record["step"]: record["time"] for record in times}
    return 1000 * (at[last] - at[first]) / (last - first)


def run_ours(place):
    return run(DDPRUN, "--nproc-per-node", RANKS, place / "job.json")


def run_twin(place):
    """The job file that ddprun leaves in the output folder names every default."""
    return run(DDPRUN, "--nproc-per-node", RANKS, PYTHON, TWIN, place / "out/job.json", place / "twin.pt")


def steps_of_ours(name):
    job, first, last = JOBS[name]
    place = write_job(name, stepped(job(), first, last))
    memory = run_ours(place)
    records = [json.loads(line) for line in (place / "out/metrics.jsonl").read_text().splitlines()]
    return place, memory, milliseconds_between([r for r in records if r["event"] == "step"], first, last)


def stepped(job, first, last):
    """Only what is timed: the file of the last step is written and the evaluation done behind the clock."""
    every = next(n for n in range(first, 0, -1) if first % n == 0 and last % n == 0)
    data = {**job["data"], "test_samples": 8}
    return {**job, "data": data, "train": {**job["train"], "max_steps": last}, "log": {"every_steps": every}}


class Workload:
    """Steps of a job and of its twin, in turns. Each run starts anew; both rows are of the same runs."""

    def __init__(self, name):
        self.name, self.ours, self.twin = name, [], []

    def turn(self):
        place, memory, milliseconds = steps_of_ours(self.name)
        self.ours.append((milliseconds, memory))
        _, first, last = JOBS[self.name]
        memory = run_twin(place)
        times = json.loads((place / "twin.pt.json").read_text())["times"]
        self.twin.append((milliseconds_between(times, first, last), memory))
        return milliseconds

    def rows(self, rounds):
        ours, twin = (memory for _, memory in self.ours), (memory for _, memory in self.twin)
        return [Versus(f"{self.name}: a step", self.turn, lambda: self.twin[-1][0], "ms", 1, rounds=rounds),
                Versus(f"{self.name}: peak memory of a worker", lambda: next(ours), lambda: next(twin), "MiB", 1, rounds=rounds)]


def whole_jobs(name, job, rounds):
    """From exec to the last checkpoint."""
    place = write_job(name, job)

    def ours():
        return seconds_of([DDPRUN, "--nproc-per-node", RANKS, place / "job.json"], env=peer_environment())

    def twin():
        return seconds_of([DDPRUN, "--nproc-per-node", RANKS, PYTHON, TWIN, place / "out/job.json", place / "twin.pt"],
                          env=peer_environment())

    return Versus(f"{name}: the whole job, from exec to its end", ours, twin, "s", 2, rounds=rounds)


def loader_row(label, data, batches):
    @functools.cache
    def side(*program):
        return Ranks(*program, ranks=1)

    words = json.dumps({"train_samples": 0, "test_samples": 0, "held_out_share": 0.1, "damaged": "stop", **data},
                       separators=(",", ":"))
    return Versus(f"loader alone, one thread: {label}",
                  lambda: float(side(BUILD / "tests/loader_bench").answer(words, batches)),
                  lambda: float(side(PYTHON, PEERS / "loader.py").answer(words, batches)),
                  "images/s", 3, higher_is_better=True)


@functools.cache
def watched():
    place = folder() / "watched"
    place.mkdir()
    return Ranks(BUILD / "tests/observers_bench", place, ranks=1)


def observers():
    """Percent of a step of the MLP that all observers cost together."""
    step = bench_ddp.ours().milliseconds_per_step("mlp", 64, 200)
    return 100 * float(watched().answer(step, 20000)) / 1000 / step


def rows():
    steps = [Workload(name).rows(rounds) for name, rounds in
             (("mnist_net", 5), ("ResNet-18 on 32×32", 3), ("ResNet-50 on 224×224", 3), ("char_gpt", 5))]
    subset = {"type": "mnist", "path": str(ROOT / "configs/data/mnist-subset")}
    quick = {"model": {"type": "mnist_cnn"}, "data": subset, "train": {"epochs": 2, "batch_size": 64},
             "optimizer": {"type": "adamw", "learning_rate": 0.002}}
    yield from (row for pair in steps for row in pair)
    yield whole_jobs("mnist_net on 60,000 images", JOBS["mnist_net"][0](), 3)
    yield whole_jobs("mnist_cnn on the shipped subset", quick, 5)
    yield loader_row("CIFAR-10, crop, flip, normalise", {"type": "cifar10", "path": cifar10(), "transforms": CIFAR_CHAIN,
                                                         "test_transforms": []}, 60)
    yield loader_row("JPEG of 500 × 375, random resized crop to 224, flip, normalise",
                     {"type": "image_folder", "path": jpegs(), "transforms": JPEG_CHAIN, "test_transforms": JPEG_TEST_CHAIN}, 6)
    yield Limit("MLP, batch 64: console with live line, metrics, TensorBoard and report, of a step's time", observers, "%",
                at_most=1)
