"""Nothing of a job stays in /dev/shm, however it ends: shm_test.py DDPRUN PYTHON."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DDPRUN, PYTHON = sys.argv[1:3]
del sys.argv[1:3]
WORKER = pathlib.Path(__file__).with_name("shm_worker.py")
CLOCK_REALTIME_COARSE = 5  # of Linux; files are stamped with it
SHM = pathlib.Path("/dev/shm")
HAS_TORCH = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0


def held_by(pids):
    """Names in /dev/shm that these processes map or hold open."""
    names = set()
    for pid in pids:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            if " /dev/shm/" in line and not line.endswith(" (deleted)"):
                names.add(line.partition(" /dev/shm/")[2])
        for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(link)
            if target.startswith("/dev/shm/") and not target.endswith(" (deleted)"):
                names.add(target.removeprefix("/dev/shm/"))
    return names


def family(session):
    """The processes of a session."""
    stats = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            stats.append(path.read_text())
        except OSError:
            continue
    return [int(stat.split()[0]) for stat in stats if stat.rpartition(")")[2].split()[3] == str(session)]


class Shm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-shm-")
        self.addCleanup(folder.cleanup)
        self.environment = os.environ | {"TMPDIR": folder.name, "PYTHONDONTWRITEBYTECODE": "1", "LOGLEVEL": "DEBUG"}

    def start(self, *command):
        job = subprocess.Popen([DDPRUN, "--no-python", *map(str, command)], env=self.environment,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for end in (job.kill, job.wait, job.stdout.close, job.stderr.close):
            self.addCleanup(end)
        return job

    def assert_gone(self, names):
        """Within two seconds."""
        limit = time.monotonic() + 2
        while left := [name for name in names if (SHM / name).exists()]:
            self.assertLess(time.monotonic(), limit, f"still there: {left}")
            time.sleep(0.01)

    def end_python(self, how, *words):
        job = self.start(PYTHON, WORKER, *words)
        names = held_by(family(int(job.stdout.readline())))
        self.assertTrue(names)
        job.send_signal(how)
        job.wait(timeout=30)
        self.assert_gone(names)

    def test_shared_memory_of_a_worker_is_removed_when_the_launcher_is_killed(self):
        for method in ("fork", "spawn"):
            with self.subTest(method):
                self.end_python(signal.SIGKILL, method)

    def test_shared_memory_of_a_worker_is_removed_when_the_launcher_is_told_to_stop(self):
        for method in ("fork", "spawn"):
            with self.subTest(method):
                self.end_python(signal.SIGTERM, method)

    @unittest.skipUnless(HAS_TORCH, "needs torch")
    def test_tensors_in_shared_memory_are_removed_when_the_launcher_is_killed(self):
        for strategy in ("file_system", "file_descriptor"):
            with self.subTest(strategy):
                self.end_python(signal.SIGKILL, "fork", strategy)

    def test_a_file_that_a_worker_holds_is_removed_whatever_it_is_called(self):
        for how in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(how):
                name = f"anyname-{os.getpid()}-{how}"
                self.addCleanup((SHM / name).unlink, missing_ok=True)
                job = self.start("/bin/sh", "-c", f"exec 9> /dev/shm/{name}; exec sleep 1000")
                for line in job.stderr:
                    if "hold files in /dev/shm" in line:
                        break
                job.send_signal(how)
                job.wait(timeout=30)
                self.assert_gone([name])

    def test_a_file_of_somebody_else_is_kept(self):
        """Older than the job, or not known to be the job's: even if a worker has it open, or nobody does."""
        older = SHM / f"older-{os.getpid()}"
        foreign = SHM / f"foreign-{os.getpid()}"
        for path in (older, foreign):
            self.addCleanup(path.unlink, missing_ok=True)
        older.write_text("a")
        written = time.clock_gettime(CLOCK_REALTIME_COARSE)
        while time.clock_gettime(CLOCK_REALTIME_COARSE) == written:
            pass
        job = self.start("/bin/sh", "-c", f"exec 9< {older}; echo up; exec sleep 1000")
        job.stdout.readline()
        foreign.write_text("b")
        job.send_signal(signal.SIGTERM)
        job.wait(timeout=30)
        self.assertTrue(older.exists())
        self.assertTrue(foreign.exists())


if __name__ == "__main__":
    unittest.main()
