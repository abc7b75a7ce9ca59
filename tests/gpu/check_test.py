"""scripts/gpu_check.sh and the GPU benchmark, as far as they go without a card.

    check_test.py BUILD"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts/gpu_check.sh"
SKIPPED = 77
BUILT = ".".join(torch.__version__.split(".")[:2])  # this Python is that of the build


def run(*words, **environment):
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "PYTHON": sys.executable, **environment}
    return subprocess.run(list(map(str, words)), env=hidden, capture_output=True, text=True, timeout=250, check=False)


class GpuCheck(unittest.TestCase):
    build = None

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(prefix="ddprun-gpu-check-")
        cls.addClassCleanup(temporary.cleanup)
        cls.root = pathlib.Path(temporary.name)
        cls.folder = cls.root / "folder"
        cls.packed = run(SCRIPT, "pack", cls.folder, cls.build)

    def setUp(self):
        self.assertEqual(self.packed.returncode, 0, self.packed.stderr)

    def refusal(self, *words, **environment):
        """The one line that it says on stderr."""
        done = run(*words, **environment)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        return done.stderr.strip()

    def page(self, folder, *names, expect):
        done = run(folder / "gpu_check.sh", *names)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return (folder / "gpu_check.md").read_text(encoding="utf-8")

    def python(self, says):
        """A Python whose torch is what `says` says."""
        path = self.root / "python"
        path.write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def test_the_folder_has_every_test_of_label_gpu_and_nothing_of_where_it_was_made(self):
        # From a folder of its own: in the build's, ctest would empty the log of the run that this is part of.
        (self.root / "CTestTestfile.cmake").write_text(f'subdirs("{self.build}")', encoding="utf-8")
        listed = run("ctest", "--test-dir", self.root, "-N", "-L", "^gpu$").stdout
        names = re.findall(r"^ *Test +#\d+: (\S+)", listed, re.MULTILINE)
        checks = (self.folder / "checks.sh").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r"^check (\S+) \d+ env ", checks, re.MULTILINE), names)
        self.assertGreater(len(names), 0)
        self.assertNotIn(" /", checks)
        for path in re.findall(r" ((?:build|tests)/\S+)", checks):
            self.assertTrue((self.folder / path).exists(), path)

    def test_the_folder_is_below_60_mb_and_says_how_large_it_is(self):
        size = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink())
        self.assertLess(size, 60e6)
        self.assertRegex(self.packed.stdout, r"\d+ tests and the benchmark, \d+ MB, in ")

    def test_a_folder_that_is_not_empty_and_a_build_that_is_none_are_refused(self):
        self.assertEqual(self.refusal(SCRIPT, "pack", self.folder, self.build),
                         f"gpu_check.sh: {self.folder} is not empty: name a new folder")
        self.assertEqual(self.refusal(SCRIPT, "pack", self.root / "new", self.root),
                         f"gpu_check.sh: no build with libtorch and tests at {self.root}: run scripts/test.sh --all, or name its folder")

    def test_a_missing_or_other_torch_is_refused_with_what_to_do(self):
        python = self.python("exit 1")
        self.assertEqual(self.refusal(self.folder / "gpu_check.sh", PYTHON=python),
                         f"gpu_check.sh: {python} has no torch: name one that has torch {BUILT}, PYTHON=/path/to/python ./gpu_check.sh")
        self.python("echo 2.6.0+cu124 /usr/lib/torch")
        self.assertEqual(self.refusal(self.folder / "gpu_check.sh", PYTHON=python),
                         f"gpu_check.sh: {python} has torch 2.6.0+cu124, and these programs are built with {BUILT}: "
                         "name another, PYTHON=/path/to/python ./gpu_check.sh")

    def test_a_script_that_lies_outside_such_a_folder_says_how_one_is_made(self):
        self.assertIn("make a folder with scripts/gpu_check.sh pack FOLDER", self.refusal(SCRIPT))

    def test_without_a_card_everything_is_skipped_and_the_page_says_so(self):
        page = self.page(self.folder, "jobs_on_one", "bench", expect=SKIPPED)
        self.assertIn("| card | **no card**: torch sees none |", page)
        self.assertRegex(page, rf"\| gpu_jobs_on_one_card \| skipped \| \d+ s \| needs a GPU, and torch {re.escape(BUILT)}\S+ sees none \|")
        self.assertRegex(page, rf"\| bench_gpu \| skipped \| \d+ s \| benchmark gpu: needs a GPU, and torch {re.escape(BUILT)}\S+ sees none; ")

    def test_the_page_tells_what_passed_failed_and_was_not_over_in_time(self):
        other = self.root / "other"
        other.mkdir()
        for name in ("gpu_check.sh", "torch_version", "version"):
            shutil.copy(self.folder / name, other)
        (other / "build").symlink_to(self.folder / "build")
        (other / "checks.sh").write_text("check works 9 true\ncheck breaks 9 sh -c 'echo sorry; exit 3'\n"
                                         "check waits 1 sleep 60\n", encoding="utf-8")
        page = self.page(other, "works", "breaks", "waits", expect=1)
        self.assertRegex(page, r"\| works \| passed \| \d+ s \|  \|\n\| breaks \| FAILED \| \d+ s \| exit code 3 \|\n")
        self.assertRegex(page, r"\| waits \| FAILED \| \d+ s \| not over after 1 s, or killed \|")
        self.assertIn("## The end of breaks\n\n```\nsorry\n```\n", page)

    def test_the_benchmark_tries_itself_on_the_cpu(self):
        done = run(sys.executable, self.folder / "tests/bench/run.py", "gpu", "--device", "cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        for model in ("MLP 784-256-128-10", "two_conv", "mnist_cnn, bf16, channels_last", "mnist_cnn in DDP", "ResNet-18 on 32×32",
                      "MobileNetV3-small on 224×224, bf16, channels_last", "ViT-small on 224×224, bf16", "GPT of 10 million parameters, 256 tokens, bf16"):
            self.assertRegex(done.stdout, rf"\| {model}, against Python \| \S+ (images|texts)/s \| \S+ (images|texts)/s \| \*\*\S+×\*\* \(.+–.+\) \|")
        self.assertRegex(done.stdout, r"MLP, against torch.compile without a compiler \| \S+ images/s \| \S+ images/s \|")
        self.assertIn("| mnist_cnn: the step in a CUDA graph, against Python | left out: CUDA graphs need a GPU |", done.stdout)
        self.assertRegex(done.stdout, r"all-reduce of 1 MiB through the process group, 2 CPU ranks \| \S+ GB/s on the bus")

    def test_a_program_that_breaks_costs_its_rows_and_not_the_table(self):
        other = self.root / "broken"
        shutil.copytree(self.folder / "tests/bench", other / "tests/bench")
        programs = other / "build/release"
        (programs / "tests").mkdir(parents=True)
        (programs / "bin").symlink_to(self.folder / "build/release/bin")
        (programs / "tests/gpu_bench").write_text("#!/bin/sh\necho no memory >&2\nexit 3\n", encoding="utf-8")
        (programs / "tests/gpu_bench").chmod(0o755)
        done = run(sys.executable, other / "tests/bench/run.py", "gpu", "--device", "cpu")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stdout, r"\| MLP, bf16, against Python \| FAILED: \S+ .*gpu_bench cpu \S+ ended with 3 at mlp 8 3 bf16: \|")
        self.assertRegex(done.stdout, r"all-reduce of 1 MiB through the process group, 2 CPU ranks \| FAILED: ")
        self.assertIn("no memory", done.stderr)


def main():
    GpuCheck.build = pathlib.Path(sys.argv[1]).resolve()
    if not (GpuCheck.build / "lib/libddprun_nccl.so").exists():
        print("SKIPPED: needs a build with GPU support, for which libtorch came without headers", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)


if __name__ == "__main__":
    main()
