"""transforms_test.py PROGRAM: transforms give torchvision's bytes for given parameters, and its distributions.

DDPRUN_SEED chooses other images and parameters."""

import collections
import json
import math
import os
import random
import subprocess
import sys

try:
    import torch
    import torchvision
    from torchvision.transforms import v2
    from torchvision.transforms.v2 import functional as F
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup.sh --with-tests brings torchvision, the peer of the transforms")
    sys.exit(77)

torch.set_num_threads(1)  # as in the workers of a DataLoader
SEED = int(os.environ.get("DDPRUN_SEED", "20261123"))
DRAWS = 8000


def an_image(draw):
    channels = draw.choice([1, 3, 3, 3])
    height, width = draw.choice([(32, 32), (28, 28), (37, 53), (draw.randrange(3, 90), draw.randrange(3, 90)), (224, 160)])
    kind = draw.randrange(5)
    noise = torch.randint(0, 256, (channels, height, width), dtype=torch.uint8)
    if kind == 0:
        return noise
    if kind == 1:  # few levels
        return noise // 64 * 50
    if kind == 2:  # one colour
        return noise[:, :1, :1].expand(channels, height, width).contiguous()
    smooth = torch.nn.functional.interpolate(noise[None, :, :4, :4].float(), (height, width), mode="bicubic")[0]
    return (smooth * draw.choice([0.3, 1.0])).clamp(0, 255).to(torch.uint8)


def cases(draw):
    """(what is asked, torchvision's answer as a function of the image)"""
    size = lambda: [draw.randrange(4, 100), draw.randrange(4, 100)]  # ATen fails on some smaller ones
    factor = lambda: draw.choice([0.0, 0.5, 1.0, 2.0, draw.uniform(0, 2), draw.uniform(0, 2)])
    yield {"op": "resize", "to": (to := size())}, lambda x: F.resize(x, to, antialias=True)
    yield {"op": "resize", "to": (square := [224, 224])}, lambda x: F.resize(x, square, antialias=True)
    side = draw.randrange(4, 80)
    yield {"op": "resize_short_side", "size": side}, lambda x: F.resize(x, [side], antialias=True)
    yield {"op": "center_crop", "to": (middle := size())}, lambda x: F.center_crop(x, middle)
    top, left, to_crop = draw.randrange(-20, 3), draw.randrange(-20, 3), [draw.randrange(21, 100), draw.randrange(21, 100)]
    yield ({"op": "crop", "top": top, "left": left, "to": to_crop},
           lambda x: F.crop(x, top, left, to_crop[0], to_crop[1]))
    target = size()
    yield ({"op": "resized_crop", "top": 1, "left": 0, "to": [2, 3], "size": target},
           lambda x: F.resized_crop(x, 1, 0, 2, 3, target, antialias=True))
    yield {"op": "horizontal_flip"}, F.horizontal_flip
    yield {"op": "vertical_flip"}, F.vertical_flip
    for name in ("brightness", "contrast", "saturation"):
        value, change = factor(), getattr(F, f"adjust_{name}")
        yield {"op": f"adjust_{name}", "value": value}, lambda x, value=value, change=change: change(x, value)
    hue = draw.choice([0.0, 0.5, -0.5, draw.uniform(-0.5, 0.5), draw.uniform(-0.5, 0.5)])
    yield {"op": "adjust_hue", "value": hue}, lambda x: F.adjust_hue(x, hue)
    angle = draw.choice([0.0, 90.0, 180.0, 270.0, -90.0, draw.uniform(-400, 400)])
    yield {"op": "rotate", "value": angle}, lambda x: F.rotate(x, angle)
    augment = v2.RandAugment(magnitude=draw.randrange(31))
    for name, (magnitudes, signed) in augment._AUGMENTATION_SPACE.items():
        steps = magnitudes(31, 48, 64)
        value = 0.0 if steps is None else float(steps[augment.magnitude])
        if signed and draw.randrange(2):
            value = -value
        yield ({"op": name, "value": value}, lambda x, name=name, value=value: augment._apply_image_or_video_transform(
            x, name, value, augment.interpolation, augment._fill))


def floats_case(draw, image):
    channels = image.shape[0]
    mean, std = [draw.random() for _ in range(channels)], [draw.uniform(0.1, 1) for _ in range(channels)]
    scaling = draw.choice(["divide", "multiply"])
    ask = {"op": "normalize", "mean": mean, "std": std, "scaling": scaling}
    unit = image.float().div(255) if scaling == "divide" else F.to_dtype(image, torch.float32, scale=True)
    return ask, [F.normalize(unit, mean, std)]


def mix_case(draw, image):
    batch = torch.stack([image.float().roll(rows, 1) for rows in range(3)])
    labels = torch.tensor([0, 2, 1])
    transform = draw.choice([v2.MixUp, v2.CutMix])(alpha=0.7, num_classes=4)
    params = transform.make_params([batch])
    params.update(labels=labels, batch_size=3)
    answer = [transform.transform(batch, params), transform.transform(labels, params)]
    if "lam" in params:
        return {"op": "mixup", "share": params["lam"]}, answer
    x1, y1, x2, y2 = params["box"]
    return {"op": "cutmix", "share": params["lam_adjusted"], "window": [y1, x1, y2 - y1, x2 - x1]}, answer


def run(program, questions):
    """The program's whole answer to [(ask, image)]."""
    stdin = []
    for ask, image in questions:
        shape = {} if image is None else dict(zip(("channels", "height", "width"), image.shape))
        stdin.append(json.dumps({"interleaved": False, **ask, **shape}).encode() + b"\n")
        stdin.append(b"" if image is None else image.numpy().tobytes())
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([program], input=b"".join(stdin), capture_output=True, check=True, env=environment).stdout


def check_pixels(program, draw):
    asked, expected = [], []
    for _ in range(60):
        for ask, answer in cases(draw):
            image = an_image(draw)
            asked.append(({**ask, "interleaved": bool(draw.randrange(2))}, image))
            expected.append(answer(image))
    stdout, place, counts = run(program, asked), 0, collections.Counter()
    for (ask, image), theirs in zip(asked, expected):
        end = stdout.index(b"\n", place) + 1
        height, width = map(int, stdout[place:end].split())
        assert list(theirs.shape[1:]) == [height, width], (SEED, ask, image.shape, theirs.shape, height, width)
        place = end + theirs.numel()
        ours = torch.frombuffer(bytearray(stdout[end:place]), dtype=torch.uint8).view(theirs.shape)
        different = (ours != theirs).sum().item()
        assert different == 0, f"DDPRUN_SEED={SEED} {ask} {tuple(image.shape)}: {different} of {theirs.numel()} bytes differ"
        counts[ask["op"]] += 1
    assert place == len(stdout)
    print(f"{sum(counts.values())} images through {len(counts)} transforms: all bytes are torchvision {torchvision.__version__}'s")


def check_floats(program, draw, make, name):
    for _ in range(60):
        image = an_image(draw)
        ask, theirs = make(draw, image)
        stdout = run(program, [({**ask, "interleaved": bool(draw.randrange(2))}, image)])
        ours = torch.frombuffer(bytearray(stdout), dtype=torch.float32)
        flat = torch.cat([tensor.flatten() for tensor in theirs])
        assert torch.equal(ours, flat), (SEED, ask, tuple(image.shape), (ours - flat).abs().max())
    print(f"60 images through {name}: all floats are torchvision's")


def same_distribution(name, ours, theirs):
    """Kolmogorov and Smirnov's distance of two samples, at a level of about 1e-5."""
    ours, theirs = (sorted(round(value, 4) for value in sample) for sample in (ours, theirs))
    distance, i, j = 0.0, 0, 0
    while i < len(ours) and j < len(theirs):
        value = min(ours[i], theirs[j])
        while i < len(ours) and ours[i] == value:
            i += 1
        while j < len(theirs) and theirs[j] == value:
            j += 1
        distance = max(distance, abs(i / len(ours) - j / len(theirs)))
    limit = 2.5 * math.sqrt((len(ours) + len(theirs)) / (len(ours) * len(theirs)))
    assert distance < limit, f"DDPRUN_SEED={SEED} {name}: distributions are {distance:.4f} apart, at most {limit:.4f}"


def rows(program, ask):
    lines = run(program, [({"times": DRAWS, "seed": SEED, **ask}, None)]).decode().splitlines()
    assert len(lines) == DRAWS
    return [line.split() for line in lines]


def check_windows(program):
    image = torch.zeros(3, 60, 90, dtype=torch.uint8)
    peers = {
        "draw_crop": (v2.RandomCrop((50, 70), padding=4), {"to": [50, 70], "padding": 4},
                      lambda p: (p["top"] - 4, p["left"] - 4, p["height"], p["width"])),
        "draw_resized_crop": (v2.RandomResizedCrop(10), {}, lambda p: (p["top"], p["left"], p["height"], p["width"])),
    }
    for op, (peer, ask, columns) in peers.items():
        ours = [[int(word) for word in row] for row in rows(program, {"op": op, "height": 60, "width": 90, **ask})]
        theirs = [columns(peer.make_params([image])) for _ in range(DRAWS)]
        for column in range(4):
            same_distribution(f"{op} column {column}", [row[column] for row in ours], [row[column] for row in theirs])
    erasing = v2.RandomErasing(p=1.0)
    theirs = [(p["i"], p["j"], p["h"], p["w"]) for p in (erasing.make_params([image]) for _ in range(DRAWS))]
    ours = [[int(word) for word in row] for row in rows(program, {"op": "draw_erasing", "height": 60, "width": 90})]
    erased = [row for row in ours if row[2] > 0]
    assert abs(len(erased) / DRAWS - 0.5) < 0.03, len(erased)
    for column in range(4):
        same_distribution(f"draw_erasing column {column}", [row[column] for row in erased], [row[column] for row in theirs])


def check_changes(program):
    jitter = rows(program, {"op": "draw_color_jitter", "height": 60, "width": 90})
    orders = collections.Counter(tuple(row[0::2]) for row in jitter)
    assert len(orders) == 24 and min(orders.values()) > DRAWS / 24 * 0.7, orders
    peer = v2.ColorJitter(0.4, 0.4, 0.4, 0.1)
    params = [peer.make_params([]) for _ in range(DRAWS)]
    for kind, key in enumerate(("brightness", "contrast", "saturation", "hue")):
        ours = [float(row[row[0::2].index(str(kind)) * 2 + 1]) for row in jitter]
        same_distribution(f"jitter of {key}", ours, [p[f"{key}_factor"] for p in params])
    augment, space = v2.RandAugment(), v2.RandAugment._AUGMENTATION_SPACE
    seen = collections.Counter()
    for row in rows(program, {"op": "draw_rand_augment", "height": 60, "width": 90}):
        for name, magnitude in zip(row[0::2], row[1::2]):
            seen[name, float(magnitude)] += 1
    assert {name for name, _ in seen} == set(space), seen
    for (name, magnitude), count in seen.items():
        steps, signed = space[name][0](31, 60, 90), space[name][1]
        theirs = 0.0 if steps is None else float(steps[augment.magnitude])
        assert abs(magnitude) == theirs, (name, magnitude, theirs)
        share = 1 / 14 / (2 if signed else 1)
        assert abs(count / (2 * DRAWS) - share) < 0.009, (name, magnitude, count)


def check_mixes(program):
    image = torch.zeros(2, 3, 60, 90)
    for alpha in (0.2, 1.0, 4.0):
        ours = [float(row[0]) for row in rows(program, {"op": "draw_mixup", "height": 60, "width": 90, "alpha": alpha})]
        theirs = torch.distributions.Beta(alpha, alpha).sample((DRAWS,)).tolist()
        same_distribution(f"mixup, alpha {alpha}", ours, theirs)
        peer = v2.CutMix(alpha=alpha, num_classes=4)
        theirs = [peer.make_params([image])["lam_adjusted"] for _ in range(DRAWS)]
        ours = [float(row[4]) for row in rows(program, {"op": "draw_cutmix", "height": 60, "width": 90, "alpha": alpha})]
        same_distribution(f"cutmix, alpha {alpha}", ours, theirs)


def main():
    program, draw = sys.argv[1], random.Random(SEED)
    torch.manual_seed(SEED)
    check_pixels(program, draw)
    check_floats(program, draw, floats_case, "conversion and normalisation")
    check_floats(program, draw, mix_case, "MixUp and CutMix")
    check_windows(program)
    check_changes(program)
    check_mixes(program)
    print(f"{DRAWS} draws each of crops, erasing, colour jitter, RandAugment, MixUp and CutMix: torchvision's distributions")


if __name__ == "__main__":
    main()
