"""torchvision v2 with a DataLoader of one worker. Each line "JSON BATCHES" of the file COMMANDS, JSON being the /data of a
merged job file, is answered with images per second."""

import json
import pathlib
import sys
import time

import torch
from torch.utils.data import DataLoader, Sampler

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
import twin_data  # noqa: E402

BATCH = 64
PREFETCHED = 2  # DataLoader's own default


class Round(Sampler):
    """So many samples, again from the beginning where the data is smaller."""

    def __init__(self, size, count):
        self.size, self.count = size, count

    def __len__(self):
        return self.count

    def __iter__(self):
        return (i % self.size for i in range(self.count))


def images_per_second(dataset, batches):
    sampler = Round(len(dataset), (batches + PREFETCHED) * BATCH)
    loader = iter(DataLoader(dataset, BATCH, sampler=sampler, num_workers=1))
    for _ in range(PREFETCHED):
        next(loader)
    begin = time.perf_counter()
    for _ in loader:
        pass
    return batches * BATCH / (time.perf_counter() - begin)


def main():
    torch.set_num_threads(1)
    datasets = {}
    with open(sys.argv[1]) as commands:
        for line in iter(commands.readline, ""):
            data, batches = line.split()
            if data not in datasets:
                datasets[data] = twin_data.open_split(json.loads(data), is_training=True)
            print(images_per_second(datasets[data], int(batches)), flush=True)


if __name__ == "__main__":
    main()
