"""Programs that save their work when they are told to stop, with loader processes: save_test.py DDPRUN PYTHON."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))

from owned import own  # noqa: E402
from skips import skip_unless  # noqa: E402

DDPRUN, PYTHON = sys.argv[1:3]
del sys.argv[1:3]
HERE = pathlib.Path(__file__).resolve().parent
GRACE = ["--shutdown-timeout", "60"]


def has(module):
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)"
    return subprocess.run([PYTHON, "-c", code], check=False).returncode == 0


class Save(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-save-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *command, ready=2):
        """A job of two workers, each of which has said that it is ready."""
        environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        job = subprocess.Popen([DDPRUN, "--nproc-per-node", "2", *GRACE, "--no-python", *map(str, command)],
                               env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        own(self, job)
        while ready > 0:
            line = job.stdout.readline()
            if not line:
                self.fail(job.stderr.read())
            ready -= "ready" in line
        return job

    def assert_saved(self, job, code):
        out, err = job.communicate(timeout=90)
        self.assertEqual(sorted(path.name for path in self.folder.glob("[01].pt")), ["0.pt", "1.pt"], out + err)
        self.assertNotIn("DataLoader worker", out + err)
        self.assertEqual(job.returncode, code, err)

    def test_sigterm_reaches_the_worker_and_not_its_loaders(self):
        job = self.start(PYTHON, HERE / "save_worker.py", self.folder)
        job.send_signal(signal.SIGTERM)
        self.assert_saved(job, 128 + signal.SIGTERM)

    def test_drain_reaches_the_worker_and_not_its_loaders(self):
        job = self.start(PYTHON, HERE / "save_worker.py", self.folder)
        subprocess.run([DDPRUN, "drain", str(job.pid)], check=True, capture_output=True)
        self.assert_saved(job, 75)

    def test_sigusr1_reaches_the_worker_and_not_its_loaders(self):
        job = self.start(PYTHON, HERE / "save_worker.py", self.folder)
        job.send_signal(signal.SIGUSR1)
        self.assert_saved(job, 0)

    def test_a_shell_around_the_program_dies_and_the_program_still_saves(self):
        script = f'{PYTHON} {HERE}/save_worker.py "$1"; echo the shell goes on'
        job = self.start("/bin/bash", "-c", script, "bash", self.folder)
        job.send_signal(signal.SIGTERM)
        self.assert_saved(job, 128 + signal.SIGTERM)

    def test_a_child_that_is_asked_while_its_shell_gives_birth_to_it_ends_soon(self):
        script = "trap 'kill $!; exit 0' TERM; echo ready; sleep 100 & wait"
        for turn in range(40):
            job = self.start("/bin/sh", "-c", script)
            time.sleep(turn % 10 / 3000)
            job.send_signal(signal.SIGTERM)
            _, err = job.communicate(timeout=30)  # the grace is 60 s
            self.assertEqual(job.returncode, 128 + signal.SIGTERM, err)

    def test_what_a_dead_shell_left_is_killed_with_its_group(self):
        script = '(trap "" TERM; echo ready; exec sleep 1000); exit 3'
        job = self.start("/bin/bash", "-c", script, "bash", "--token", self.folder.name)
        job.send_signal(signal.SIGTERM)
        self.assertIn("sending SIGTERM to 2 workers", job.stderr.readline())
        job.send_signal(signal.SIGINT)  # while stopping, that kills
        out, err = job.communicate(timeout=30)
        self.assertEqual(job.returncode, 128 + signal.SIGTERM, err)
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                self.assertNotIn(self.folder.name, path.read_text())
            except OSError:
                pass

    @skip_unless(has("lightning"), "no lightning")
    def test_a_lightning_job_saves(self):
        for how, code in (("SIGTERM", 128 + signal.SIGTERM), ("drain", 75)):
            with self.subTest(how):
                folder = self.folder / how
                folder.mkdir()
                job = self.start(PYTHON, HERE / "lightning_worker.py", folder, ready=2)
                if how == "drain":
                    subprocess.run([DDPRUN, "drain", str(job.pid)], check=True, capture_output=True)
                else:
                    job.send_signal(getattr(signal, how))
                out, err = job.communicate(timeout=90)
                self.assertTrue((folder / "saved.ckpt").exists(), out + err)
                self.assertNotIn("DataLoader worker", out + err)
                self.assertEqual(job.returncode, code, err)


if __name__ == "__main__":
    if not has("torch"):
        print("SKIPPED: needs torch for Python in .venv, to save with loader processes", file=sys.stderr)
        sys.exit(77)
    if not has("lightning"):
        print("SKIPPED: needs Lightning in .venv, to save from a Lightning job", file=sys.stderr)
    unittest.main()
