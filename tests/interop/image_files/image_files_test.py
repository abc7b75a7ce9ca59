"""image_files_test.py PROGRAM: JPEG and PNG files have the bytes that Pillow gives them by convert("RGB"), and a folder
is listed as torchvision's ImageFolder lists it."""

import os
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    import numpy
    from PIL import Image
    from torchvision.datasets import ImageFolder
except ImportError as error:
    print(f"SKIPPED: {error}; scripts/setup.sh --with-tests brings torchvision and Pillow, the peers of the image files")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[3]
SEED = int(os.environ.get("DDPRUN_SEED", "20261123"))


def a_picture(draw, channels):
    height, width = draw.randrange(1, 90), draw.randrange(1, 90)
    rows, columns, _ = numpy.mgrid[0:height, 0:width, 0:channels]
    noise = numpy.random.default_rng(draw.randrange(1 << 30)).integers(0, 60, (height, width, channels))
    return ((rows * 3 + columns * 5 + noise) % 256).astype(numpy.uint8)


def make_files(folder, draw):
    for i in range(80):
        mode = draw.choice(["RGB", "RGB", "L", "CMYK"])
        pixels = a_picture(draw, len(mode))
        image = Image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode)
        options = {} if mode == "CMYK" else {"subsampling": draw.choice([0, 1, 2])}
        image.save(folder / f"{i}.jpg", quality=draw.randrange(20, 96), progressive=draw.random() < 0.3, **options)
        yield folder / f"{i}.jpg"
    for i in range(80):
        mode = draw.choice(["RGB", "L", "LA", "RGBA", "P", "1"])
        pixels = a_picture(draw, {"LA": 2, "RGBA": 4, "RGB": 3}.get(mode, 1))
        if mode in ("RGB", "RGBA", "LA"):
            image = Image.fromarray(pixels, mode)
        elif mode == "P":
            image = Image.fromarray(a_picture(draw, 3), "RGB").quantize(draw.choice([2, 3, 16, 256]))
        else:
            image = Image.fromarray(pixels[..., 0], "L").convert(mode)
        options = {"transparency": 0} if mode == "P" and draw.random() < 0.5 else {}
        image.save(folder / f"{i}.png", **options)
        yield folder / f"{i}.png"


def check_bytes(program, files):
    stdin = "".join(f"{file}\n" for file in files).encode()
    stdout = subprocess.run([program], input=stdin, capture_output=True, check=True).stdout
    place = 0
    for file in files:
        end = stdout.index(b"\n", place) + 1
        height, width = map(int, stdout[place:end].split())
        place = end + height * width * 3
        with Image.open(file) as image:
            words = f"{image.format} {image.mode} {image.size}"
            theirs = numpy.asarray(image.convert("RGB"))
        ours = numpy.frombuffer(stdout[end:place], numpy.uint8).reshape(height, width, 3)
        assert ours.shape == theirs.shape, (SEED, file, ours.shape, theirs.shape)
        different = int((ours != theirs).sum())
        assert different == 0, f"DDPRUN_SEED={SEED} {file} ({words}): {different} of {theirs.size} bytes differ"
    print(f"{len(files)} files: all bytes are Pillow's")


def check_listing(program, folder):
    for name in ("b/2.jpg", "b/10.JPG", "B/x.jpeg", "ä/1.png", "a/z/1.png", "a/y.png", "a/z-/2.png", "a/notes.txt", "b/.jpg"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    os.symlink(folder / "a", folder / "link")
    theirs = [f"{label} {path}" for path, label in ImageFolder(folder, allow_empty=True).samples]
    ours = subprocess.run([program, str(folder)], capture_output=True, text=True, check=True).stdout.splitlines()
    assert ours == theirs, f"ours {ours}\ntheirs {theirs}"
    print(f"{len(ours)} files are listed in torchvision's order")


def main():
    program, draw = sys.argv[1], random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        check_bytes(program, list(make_files(pathlib.Path(folder), draw)))
    with tempfile.TemporaryDirectory() as folder:
        check_listing(program, pathlib.Path(folder))
    real = sorted((ROOT.parent / "shared/data/cifar10-folder").glob("*/*/*.jpg"))
    if real:
        check_bytes(program, real)
    else:
        print("SKIPPED: real JPEG files: ../shared/data/cifar10-folder is not there")


if __name__ == "__main__":
    main()
