#!/usr/bin/env python3
"""Makes configs/data/mnist-subset from a folder with the four MNIST files, plain or gzipped.

    scripts/make_mnist_subset.py path/to/mnist configs/data/mnist-subset

The first 10,000 training images and the first 1,000 test images in file order. The same input gives the same bytes:
the gzip headers carry neither a time nor a name.
"""

import gzip
import pathlib
import struct
import sys

COUNTS = {"train": 10_000, "t10k": 1_000}


def read(folder: pathlib.Path, name: str) -> bytes:
    packed = folder / f"{name}.gz"
    return gzip.decompress(packed.read_bytes()) if packed.exists() else (folder / name).read_bytes()


def write(folder: pathlib.Path, name: str, content: bytes) -> None:
    (folder / f"{name}.gz").write_bytes(gzip.compress(content, compresslevel=9, mtime=0))


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    target.mkdir(parents=True, exist_ok=True)
    for split, count in COUNTS.items():
        images = read(source, f"{split}-images-idx3-ubyte")
        labels = read(source, f"{split}-labels-idx1-ubyte")
        write(target, f"{split}-images-idx3-ubyte", struct.pack(">IIII", 0x803, count, 28, 28) + images[16 : 16 + count * 784])
        write(target, f"{split}-labels-idx1-ubyte", struct.pack(">II", 0x801, count) + labels[8 : 8 + count])


main()
