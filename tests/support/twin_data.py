"""The data of a merged job file as Python reads it: what DataLoader and DistributedSampler are given, of both splits.

Random changes of images are torchvision's own, so they are alike in distribution only; all else is equal."""

import gzip
import pathlib

import numpy
import torch
from torch.utils.data import Dataset, Subset, TensorDataset

MNIST = [0.1307], [0.3081]
CIFAR10 = [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]
IMAGENET = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def read_idx(path):
    content = gzip.open(str(path) + ".gz").read() if not path.exists() else path.read_bytes()
    dimensions = content[3]
    sizes = [int.from_bytes(content[4 + 4 * i: 8 + 4 * i], "big") for i in range(dimensions)]
    return torch.from_numpy(numpy.frombuffer(content, numpy.uint8, offset=4 + 4 * dimensions).reshape(sizes).copy())


def to_floats(image):
    """As ToTensor divides; v2's ToDtype multiplies by the inverse, and the last bit is another one."""
    return image.float().div(255)


def chain(entries, mean, deviation):
    """torchvision's v2 transforms as a job file lists them."""
    from torchvision.transforms import v2
    makers = {
        "resize": lambda e: v2.Resize(e["size"], antialias=True),
        "center_crop": lambda e: v2.CenterCrop(e["size"]),
        "random_crop": lambda e: v2.RandomCrop(e["size"], padding=e.get("padding", 0)),
        "random_resized_crop": lambda e: v2.RandomResizedCrop(e["size"], antialias=True),
        "horizontal_flip": lambda e: v2.RandomHorizontalFlip(),
    }
    changes = [makers[entry["type"]](entry) for entry in entries if entry["type"] != "normalize"]
    for entry in entries:
        if entry["type"] == "normalize":
            mean, deviation = entry["mean"], entry["std"]
    return v2.Compose([v2.ToImage(), *changes, to_floats, v2.Normalize(mean, deviation)])


class Images(Dataset):
    """Images in memory, changed at each access."""

    def __init__(self, images, labels, transform):
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.transform(self.images[i]), self.labels[i]


def first(dataset, limit):
    return Subset(dataset, range(min(limit, len(dataset)))) if limit else dataset


def mnist(data, is_training):
    stem, limit = ("train", data["train_samples"]) if is_training else ("t10k", data["test_samples"])
    folder = pathlib.Path(data["path"])
    images = read_idx(folder / f"{stem}-images-idx3-ubyte")[:limit or None].unsqueeze(1)
    labels = read_idx(folder / f"{stem}-labels-idx1-ubyte")[:limit or None].long()
    entries = data["transforms" if is_training else "test_transforms"]
    if entries:
        return Images(images, labels, chain(entries, *MNIST))
    (mean,), (deviation,) = MNIST
    return TensorDataset(images.float().div(255).sub(mean).div(deviation), labels)


def cifar10(data, is_training):
    limit = data["train_samples" if is_training else "test_samples"]
    folder = pathlib.Path(data["path"])
    files = sorted(folder.glob("data_batch_*.bin")) if is_training else [folder / "test_batch.bin"]
    records = numpy.concatenate([numpy.fromfile(file, numpy.uint8).reshape(-1, 3073) for file in files])[:limit or None]
    images = torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy())
    return Images(images, torch.from_numpy(records[:, 0]).long(),
                  chain(data["transforms" if is_training else "test_transforms"], *CIFAR10))


def image_folder(data, is_training):
    from torchvision.datasets import ImageFolder
    folder = pathlib.Path(data["path"])
    names = ("train",) if is_training else ("val", "test")
    split = next(folder / name for name in names if (folder / name).is_dir())
    return ImageFolder(split, chain(data["transforms" if is_training else "test_transforms"], *IMAGENET))


class Windows(Dataset):
    def __init__(self, tokens, block, spare):
        self.tokens, self.block, self.count = tokens, block, (len(tokens) - spare) // block
        self.shift = torch.zeros(1, dtype=torch.long).share_memory_()  # a DataLoader's processes see it change

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        start = i * self.block + int(self.shift)
        window = self.tokens[start: start + self.block + 1]
        return window[:-1], window[1:]


def text(data, is_training):
    characters = pathlib.Path(data["path"]).read_text(encoding="utf-8")
    numbers = {character: i for i, character in enumerate(sorted(set(characters)))}
    tokens = torch.tensor([numbers[character] for character in characters])
    cut = int((1.0 - data["held_out_share"]) * len(tokens))
    block = data["block"]
    return Windows(tokens[:cut], block, block) if is_training else Windows(tokens[cut:], block, 1)


def npy(data, is_training):
    folder, stem = pathlib.Path(data["path"]), "train" if is_training else "test"
    features = torch.from_numpy(numpy.load(folder / f"{stem}_x.npy")).float()
    targets = torch.from_numpy(numpy.load(folder / f"{stem}_y.npy"))
    return TensorDataset(features, targets.long() if data["classes"] else targets.float())


KINDS = {"mnist": mnist, "cifar10": cifar10, "image_folder": image_folder, "npy": npy, "text": text}


def open_split(data, is_training):
    dataset = KINDS[data["type"]](data, is_training)
    return first(dataset, data["train_samples" if is_training else "test_samples"])


def outputs_of(data):
    """Classes, symbols, or the numbers of a target."""
    if data["type"] == "text":
        return len(set(pathlib.Path(data["path"]).read_text(encoding="utf-8")))
    if data["type"] == "image_folder":
        return sum(entry.is_dir() for entry in (pathlib.Path(data["path"]) / "train").iterdir())
    if data["type"] == "npy":
        return data["classes"] or numpy.load(pathlib.Path(data["path"]) / "train_y.npy", mmap_mode="r").shape[1]
    return 10
