"""The trainer's random numbers in Python; MixUp and CutMix for the twin: torchvision mixes, with these numbers."""

import math


class Draws:
    """The trainer's random numbers: Philox4x32-10 by seed, epoch, index (of a batch its first sample's) and stream."""

    def __init__(self, seed, epoch, index, stream=1):
        self.key = [seed & 0xffffffff, seed >> 32]
        self.counter, self.block = [0, epoch, index & 0xffffffff, index >> 32 ^ stream << 24], []

    def bits(self):
        if not self.block:
            (a, b, c, d), (k0, k1) = self.counter, self.key
            for _ in range(10):
                first, second = 0xD2511F53 * a, 0xCD9E8D57 * c
                a, b, c, d = second >> 32 ^ b ^ k0, second & 0xffffffff, first >> 32 ^ d ^ k1, first & 0xffffffff
                k0, k1 = k0 + 0x9E3779B9 & 0xffffffff, k1 + 0xBB67AE85 & 0xffffffff
            self.block = [a, b, c, d]
            self.counter[0] += 1
        return self.block.pop(0)

    def long(self):
        high = self.bits()
        return high << 32 | self.bits()

    def below(self, bound):
        while True:
            value = self.long()
            if value >= 2**64 % bound:
                return value % bound

    def unit(self):
        return ((self.long() >> 11) + 0.5) * 2.0**-53

    def normal(self):
        radius = math.sqrt(-2 * math.log(self.unit()))
        return radius * math.cos(2 * math.pi * self.unit())

    def gamma(self, shape):
        if shape < 1:
            above = self.gamma(shape + 1)
            return above * self.unit() ** (1 / shape)
        d = shape - 1.0 / 3
        c = 1 / math.sqrt(9 * d)
        while True:
            x = self.normal()
            v = (1 + c * x) ** 3
            if v > 0 and math.log(self.unit()) < 0.5 * x * x + d - d * v + d * math.log(v):
                return d * v

    def beta(self, alpha):
        one, other = self.gamma(alpha), self.gamma(alpha)
        return one / (one + other)


def mixed(batches, job, epoch, indices):
    """The batches of an epoch, mixed as the job file says; `indices` are those of this rank."""
    options = job["train"]
    if not options["mixup_alpha"] and not options["cutmix_alpha"]:
        yield from batches
        return
    for i, batch in enumerate(batches):
        yield mix(options, Draws(job["seed"], epoch, indices[i * options["batch_size"]]), *batch)


def mix(options, draws, images, labels):
    """torchvision's MixUp or CutMix, with the numbers of `draws`."""
    from torchvision.transforms import v2
    mixup, cutmix = options["mixup_alpha"], options["cutmix_alpha"]
    params = {"labels": labels, "batch_size": len(labels)}
    if cutmix and not (mixup and (draws.bits() & 0xffffff) * 2.0**-24 >= 0.5):
        height, width = images.shape[-2:]
        half = 0.5 * math.sqrt(1.0 - draws.beta(cutmix))
        x, y, half_w, half_h = draws.below(width), draws.below(height), int(half * width), int(half * height)
        box = max(x - half_w, 0), max(y - half_h, 0), min(x + half_w, width), min(y + half_h, height)
        params |= {"box": box, "lam_adjusted": 1.0 - (box[2] - box[0]) * (box[3] - box[1]) / (width * height)}
        transform = v2.CutMix(num_classes=10)
    else:
        params["lam"] = draws.beta(mixup)
        transform = v2.MixUp(num_classes=10)
    return transform.transform(images, params), transform.transform(labels, params)
