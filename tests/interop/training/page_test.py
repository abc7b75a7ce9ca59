#!/usr/bin/env python3
"""configs/README.md, "From a folder of images to a model in Python", word by word: its job file, its commands, its Python."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))

from patience import patient  # noqa: E402

BINARIES = ROOT / "build/release/bin"

try:
    import numpy
    import torchvision  # noqa: F401
    from PIL import Image
except ImportError as why:
    print(f"SKIPPED: {why}; scripts/setup.sh --with-tests installs it")
    sys.exit(77)


def write_photos(folder):
    """Dogs are light and cats are dark, and all of other sizes."""
    generator = numpy.random.default_rng(1)
    for split, count in (("train", 12), ("test", 4)):
        for name, light in (("cat", 60), ("dog", 180)):
            for i in range(count):
                file = folder / "photos" / split / name / f"{i}.jpg"
                file.parent.mkdir(parents=True, exist_ok=True)
                Image.fromarray(picture(generator, light)).save(file)
    (folder / "new").mkdir()
    for i, light in ((1, 60), (2, 180)):
        Image.fromarray(picture(generator, light)).save(folder / f"new/{i}.jpg")


def picture(generator, light):
    height, width = generator.integers(40, 64, 2)
    return generator.normal(light, 30, (height, width, 3)).clip(0, 255).astype(numpy.uint8)


class Page(unittest.TestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory(prefix="ddprun-page-")
        self.addCleanup(made.cleanup)
        self.folder = pathlib.Path(made.name)
        page = (ROOT / "configs/README.md").read_text().split("## From a folder of images to a model in Python")[1].split("\n## ")[0]
        self.blocks = {kind: re.findall(rf"```{kind}\n(.*?)```", page, re.DOTALL) for kind in ("json", "sh", "python")}

    def run_words(self, command):
        foreign = ("DDPRUN_", "PET_", "TORCHELASTIC_")
        plain = {key: value for key, value in os.environ.items() if not key.startswith(foreign)}
        environment = {**plain, "TMPDIR": str(self.folder), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
                       "PATH": f"{BINARIES}:{os.environ['PATH']}"}
        done = subprocess.run(command, cwd=self.folder, env=environment, text=True, capture_output=True, timeout=patient(300),
                              check=False)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def test_the_page_leads_to_a_model_that_python_loads(self):
        write_photos(self.folder)
        (job,), (python,) = self.blocks["json"], self.blocks["python"]
        (self.folder / "photos.json").write_text(job)
        said = {}
        for line in "".join(self.blocks["sh"]).splitlines():
            said[line.split("#")[0].strip()] = self.run_words(["bash", "-c", line])
        self.assertEqual([command.split()[1] for command in said], ["validate", "smoke", "--nproc-per-node", "eval", "predict", "export"])
        self.assertTrue((self.folder / "runs/photos/report.html").exists())
        self.assertTrue(list((self.folder / "runs/photos/checkpoints").glob("best-*-accuracy-*.pt")))
        predicted = next(output for command, output in said.items() if " predict " in command).splitlines()
        name, percent = re.fullmatch(r"new/1.jpg  (\w+)  ([0-9.]+) %", predicted[0]).groups()
        shares = list(map(float, re.findall(r"[0-9.]+(?:e-\d+)?", self.run_words([sys.executable, "-c", python]).split("]")[0])))
        self.assertEqual(["cat", "dog"][shares.index(max(shares))], name)
        self.assertAlmostEqual(100 * max(shares), float(percent), delta=0.02)


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        BINARIES = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
