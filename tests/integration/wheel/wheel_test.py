"""The launcher's wheel in a fresh environment: what pip puts there, what it starts, and that it leaves no trace.

    wheel_test.py DDPRUN TORCH_PYTHON      packs that program into a wheel first; DDPRUN_WHEEL=FILE tests that wheel instead
"""

import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))

from owned import own  # noqa: E402
from patience import patient  # noqa: E402
from project import project_version  # noqa: E402
from skips import skip  # noqa: E402

PROGRAM, TORCH_PYTHON = pathlib.Path(sys.argv[1]), sys.argv[2]
del sys.argv[1:3]

SAY_WHO = """
import os, sys
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], "under", sys.prefix, *sys.argv[1:])
"""


def run(*words, **changes):
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "ASAN_OPTIONS", "LD_LIBRARY_PATH") if name in os.environ}
    own_places = {"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(Wheel.folder)}
    return subprocess.run([str(word) for word in words], env=kept | own_places | changes,
                          capture_output=True, text=True, timeout=patient(120), check=False)


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.suffix != ".pyc")


def make_wheel(folder):
    if "DDPRUN_WHEEL" in os.environ:
        return os.environ["DDPRUN_WHEEL"]
    packed = run(sys.executable, ROOT / "scripts/wheel/pack.py", PROGRAM, project_version(), platform.libc_ver()[1], folder)
    assert packed.returncode == 0, packed.stderr
    return packed.stdout.strip()


class Wheel(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-wheel-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.venv = cls.folder / "env"
        made = run(sys.executable, "-m", "venv", cls.venv)
        if made.returncode != 0:
            print(f"SKIPPED: {sys.executable} -m venv makes no environment with pip: {made.stdout}{made.stderr}")
            sys.exit(77)
        cls.python = cls.venv / "bin/python"
        cls.ddprun = cls.venv / "bin/ddprun"
        cls.before = files_below(cls.venv)
        cls.pip("install", "--no-index", "--no-deps", make_wheel(cls.folder))
        # A python3 that is first in PATH and must not be taken.
        (cls.folder / "first").mkdir()
        wrong = cls.folder / "first/python3"
        wrong.write_text("#!/bin/sh\nexit 9\n")
        wrong.chmod(0o755)
        cls.path = f"{cls.folder}/first:{os.environ['PATH']}"
        cls.script = cls.folder / "who.py"
        cls.script.write_text(SAY_WHO)

    @classmethod
    def tearDownClass(cls):
        cls.pip("uninstall", "--yes", "ddprun")
        # pip leaves the folders above those of man pages, empty.
        left = set(files_below(cls.venv)) ^ set(cls.before)
        assert left <= {"share", "share/man"}, left

    @classmethod
    def pip(cls, *words):
        done = run(cls.python, "-m", "pip", "--disable-pip-version-check", *words)
        assert done.returncode == 0, done.stdout + done.stderr

    def who(self, done):
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return sorted(done.stdout.splitlines())

    def test_a_script_runs_under_the_environment_and_not_under_the_first_python_of_PATH(self):
        done = run(self.ddprun, "--nproc-per-node", 2, self.script, "a b", PATH=self.path)
        self.assertEqual(self.who(done), [f"rank {rank} of 2 under {self.venv} a b" for rank in (0, 1)])

    def test_the_package_runs_the_program_and_its_workers_under_the_python_that_runs_it(self):
        done = run(self.python, "-m", "ddprun", self.script, PATH=self.path)
        self.assertEqual(self.who(done), [f"rank 0 of 1 under {self.venv}"])
        failed = run(self.python, "-m", "ddprun", "--no-python", "sh", "-c", "exit 7")
        self.assertEqual(failed.returncode, 7)

    def test_the_package_knows_where_the_program_is(self):
        found = run(self.python, "-c", "from ddprun import find_binary; print(find_binary())")
        self.assertEqual((found.stdout, found.stderr), (f"{self.ddprun}\n", ""))

    def test_find_binary_says_where_it_looked(self):
        self.ddprun.rename(self.folder / "away")
        found = run(self.python, "-c", "from ddprun import find_binary; find_binary()")
        (self.folder / "away").rename(self.ddprun)
        self.assertIn(f"FileNotFoundError: the program ddprun is in none of {self.venv}/bin, ", found.stderr)

    def test_the_package_says_in_one_sentence_that_the_program_is_not_there(self):
        self.ddprun.rename(self.folder / "away")
        done = run(self.python, "-m", "ddprun", self.script)
        (self.folder / "away").rename(self.ddprun)
        self.assertEqual((done.returncode, done.stdout), (127, ""))
        self.assertRegex(done.stderr, rf"^ddprun: the program ddprun is in none of {self.venv}/bin, .* brings it back\n$")

    def test_a_job_file_is_refused_with_where_its_worker_is_to_be_had(self):
        job = self.folder / "job.json"
        job.write_text("{}")
        for words in ([job], ["validate", job]):
            done = run(self.ddprun, *words)
            self.assertEqual((done.returncode, done.stdout), (127, ""))
            self.assertEqual(done.stderr, "ddprun: ddprun-worker, which runs .json jobs, is not beside ddprun in "
                                          f"{self.venv}/bin, which has the launcher alone; install ddprun[worker], the wheel of "
                                          "ddprun-worker, into a virtual environment, or build both into build/quick/bin with "
                                          "scripts/quickstart.sh in a clone of ddprun\n")

    def test_a_store_serves_until_SIGTERM(self):
        store = own(self, subprocess.Popen([self.ddprun, "store", "--host", "127.0.0.1", "--port", "0"],
                                           stdout=subprocess.PIPE, text=True))
        self.assertGreater(int(store.stdout.readline()), 0)
        store.send_signal(signal.SIGTERM)
        self.assertEqual(store.wait(timeout=patient(20)), 0)

    def test_the_man_pages_are_beside_the_program(self):
        for page in ("man1/ddprun.1", "man5/ddprun-job.5"):
            self.assertIn(".SH NAME", (self.venv / "share/man" / page).read_text())

    def test_what_starts_jobs_on_several_machines_is_in_the_package(self):
        folder = pathlib.Path(run(self.python, "-m", "ddprun", "--launch-dir").stdout.strip())
        self.assertEqual({file.name for file in folder.iterdir()}, {file.name for file in (ROOT / "scripts/launch").iterdir()})
        self.assertIn("scripts/launch/ssh.sh HOSTS", run("bash", folder / "ssh.sh", "--help").stdout)

    def test_completions_are_there_for_each_shell(self):
        for shell in ("bash", "zsh", "tcsh", "fish"):
            self.assertIn("nproc-per-node", run(self.ddprun, "completions", shell).stdout)

    def test_the_cpp_library_is_elsewhere_and_said_so(self):
        done = run(self.python, "-m", "ddprun", "--cmake-dir")
        self.assertEqual(done.returncode, 1)
        self.assertIn("this package has the launcher alone; install ddprun[worker], or build and install", done.stderr)

    def test_the_example_trains_where_torch_is(self):
        example = run(self.python, "-m", "ddprun", "--example").stdout.strip()
        self.assertTrue(pathlib.Path(example).is_file())
        if run(TORCH_PYTHON, "-c", "import torch.distributed").returncode != 0:
            skip(f"{TORCH_PYTHON} has no torch")
        done = run(self.ddprun, "--nproc-per-node", 2, example, PYTHON_EXEC=TORCH_PYTHON)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"2 ranks found y = (3\.0|2\.9)\d x -(1\.0|0\.9)\d; the data are y = 3 x - 1")


if __name__ == "__main__":
    unittest.main()
