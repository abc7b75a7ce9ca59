"""What a job leaves in /dev/shm, however it ends, and what of others stays: shm_test.py DDPRUN PYTHON."""

import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))

from namespaces import PID_NAMESPACE, needs_pid_namespace  # noqa: E402
from owned import own  # noqa: E402
from patience import patient  # noqa: E402
from skips import skip_unless  # noqa: E402

DDPRUN, PYTHON = sys.argv[1:3]
del sys.argv[1:3]
WORKER = pathlib.Path(__file__).with_name("shm_worker.py")
SHM = pathlib.Path("/dev/shm")
SEES_ALL = os.readlink("/proc/self/ns/pid") == "pid:[4026531836]"
HAS_TORCH = subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode == 0


def held_by(pids):
    """Names in /dev/shm that these processes map or hold open."""
    names = set()
    for pid in pids:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            if " /dev/shm/" in line and not line.endswith(" (deleted)"):
                names.add(line.partition(" /dev/shm/")[2])
        for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(link)
            except FileNotFoundError:  # it closes files as it starts
                continue
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
        self.environment = os.environ | {"TMPDIR": folder.name, "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self, *command):
        job = subprocess.Popen([DDPRUN, "--no-python", *map(str, command)], env=self.environment,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        own(self, job)
        return job

    def assert_gone(self, names):
        """Soon: nothing but the launcher's guard, which waits for no time-out, takes them away."""
        limit = time.monotonic() + patient(10)
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

    @skip_unless(HAS_TORCH, "needs torch")
    def test_tensors_in_shared_memory_are_removed_when_the_launcher_is_killed(self):
        for strategy in ("file_system", "file_descriptor"):
            with self.subTest(strategy):
                self.end_python(signal.SIGKILL, "fork", strategy)

    @skip_unless(HAS_TORCH, "needs torch")
    def test_a_tensor_that_a_reaped_loader_had_sent_is_removed_when_its_rank_fails(self):
        """Only PyTorch's manager knows of it, and removes it two seconds after the last of its clients has gone."""
        job = self.start(PYTHON, WORKER, "lost")
        child = int(job.stdout.readline())
        _, said = job.communicate(timeout=30)
        self.assertEqual(job.returncode, 3, said)
        self.assertEqual(self.removed_segments(child), [])

    @skip_unless(HAS_TORCH, "needs torch")
    def test_a_tensor_that_a_reaped_loader_had_sent_is_removed_when_its_node_loses_the_lease(self):
        """The guards kill at the end of the lease, and leave the manager its time as well."""
        coordinator = subprocess.Popen([DDPRUN, "coordinator", "--bind", "127.0.0.1:0", "--nnodes", "1:2", "--rdzv-conf",
                                        "keep_alive_interval=0.2,keep_alive_max_attempt=5,last_call_timeout=0.1"],
                                       env=self.environment, stdout=subprocess.PIPE, text=True)
        own(self, coordinator)
        endpoint = f"127.0.0.1:{coordinator.stdout.readline().strip()}"
        job = self.start("--nnodes", "1:2", "--rdzv-endpoint", endpoint, "--rdzv-conf", "is_host=false", PYTHON, WORKER,
                         "kept")
        child = int(job.stdout.readline())
        self.assertTrue(list(SHM.glob(f"torch_{child}_*")))
        children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        managers = [int(pid) for pid in children if "torch_shm_manager" in pathlib.Path(f"/proc/{pid}/cmdline").read_text()]
        self.assertEqual(len(managers), 1, "one process that remembers what the loader had made")
        gone = os.pidfd_open(managers[0])
        job.send_signal(signal.SIGSTOP)
        try:
            self.assertTrue(select.select([gone], [], [], 30)[0])
            self.assertEqual(self.removed_segments(child), [])
        finally:
            os.close(gone)
            job.send_signal(signal.SIGCONT)

    def removed_segments(self, process):
        """What is still there of its segments; it is removed."""
        left = list(SHM.glob(f"torch_{process}_*"))
        for path in left:
            path.unlink()
        return left

    def file(self, name):
        """A path in /dev/shm that goes with the test."""
        path = SHM / name
        self.addCleanup(path.unlink, missing_ok=True)
        return path

    def end(self, job, how):
        """Signals the launcher, and waits for it and for all that it started, its guards included."""
        children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        pidfds = [os.pidfd_open(int(child)) for child in children]
        job.send_signal(how)
        job.wait(timeout=30)
        for pidfd in pidfds:
            self.assertTrue(select.select([pidfd], [], [], 15)[0])
            os.close(pidfd)

    def start_shell(self, script, *prefix):
        """A job of one shell, whose first line this waits for; it may be ended by closing its stdin."""
        job = subprocess.Popen([*prefix, DDPRUN, "--no-python", "/bin/sh", "-c", script.replace("$", "$$")],
                               env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        own(self, job)
        return job, job.stdout.readline().split()

    def test_a_file_that_a_worker_merely_opened_is_kept(self):
        for how in (None, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(how):
                path = self.file(f"foreign-{os.getpid()}-{how}")
                job, _ = self.start_shell(f"echo up; read go; exec 9<{path}; echo open; read end")
                path.write_text("precious")
                job.stdin.write("go\n")
                job.stdin.flush()
                job.stdout.readline()
                if how is None:
                    job.communicate(timeout=30)
                else:
                    self.end(job, how)
                self.assertEqual(path.read_text(), "precious")

    def test_a_file_that_a_worker_left_on_purpose_is_kept(self):
        cache = self.file(f"cache-{os.getpid()}")
        self.start_shell(f"exec 9>{cache}; echo up")[0].communicate(timeout=30)
        self.assertTrue(cache.exists())

    def test_a_file_with_the_pid_of_a_worker_in_its_name_is_kept(self):
        for name in ("shard_%s.bin", "%s", "torch_shard_%s_0", "torch_%s_1", "torch_%s_1_0.pt", "torch_1_%s_0"):
            with self.subTest(name):
                job, words = self.start_shell(f": >/dev/shm/{name.replace('%s', '$$')}; echo $$")
                path = self.file(name % words[0])
                job.communicate(timeout=30)
                self.assertTrue(path.exists())

    @skip_unless(SEES_ALL, "needs the machine's first pid namespace")
    def test_segments_by_the_naming_of_pytorch_are_removed(self):
        """Those of a worker, and of a process that it left behind."""
        for how in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(how):
                # Once the outer shell has closed 8, the inner one alone can write: its end ends the wait for its word.
                job, words = self.start_shell(
                    "mkfifo $TMPDIR/up; exec 8<>$TMPDIR/up 7<$TMPDIR/up; rm $TMPDIR/up; "
                    "setsid sh -c ': >/dev/shm/torch_$$_3_3; echo $$ >&8; exec sleep 1000 7<&- 8>&-' & "
                    "exec 8>&-; read child <&7 || { wait $!; child=ended:$?; }; "
                    ": >/dev/shm/torch_$$_4294967295_1; echo $$ $child; exec sleep 1000")
                self.assertEqual(len(words), 2, "the worker ended, or was ended, before it said a word")
                self.assertTrue(words[1].isdigit(), f"what the worker left behind has ended before it said a word: {words[1]}")
                paths = [self.file(f"torch_{words[0]}_4294967295_1"), self.file(f"torch_{words[1]}_3_3")]
                self.assertTrue(all(path.exists() for path in paths))
                self.end(job, how)
                self.assertFalse(any(path.exists() for path in paths))

    @skip_unless(SEES_ALL, "needs the machine's first pid namespace")
    def test_segments_of_who_was_reaped_are_removed_when_the_launcher_is_killed_before_the_generation_ends(self):
        """Those of a worker that failed, and of a process that it left behind, while another is asked to end."""
        script = ("if [ $LOCAL_RANK = 0 ]; then read go <$TMPDIR/go; "
                  "setsid sh -c ': >/dev/shm/torch_$$_3_3; echo $$ >$TMPDIR/child; read end <$TMPDIR/end' & "
                  "read child <$TMPDIR/child; : >/dev/shm/torch_$$_1_0; echo $$ $child; exit 3; fi; "
                  "trap 'echo asked' TERM; echo >$TMPDIR/go; exec 9<>$TMPDIR/never; while :; do read end <&9; done")
        folder = pathlib.Path(self.environment["TMPDIR"])
        for name in ("go", "child", "end", "never"):
            os.mkfifo(folder / name)
        job = self.start("--nproc-per-node", "2", "--shutdown-timeout", "60s", "/bin/sh", "-c", script.replace("$", "$$"))
        lines = {job.stdout.readline().split(": ")[-1].strip() for _ in range(2)}
        self.assertIn("asked", lines)  # after the failed one was reaped
        worker, child = (lines - {"asked"}).pop().split()
        paths = [self.file(f"torch_{worker}_1_0"), self.file(f"torch_{child}_3_3")]
        self.assertTrue(all(path.exists() for path in paths))
        (folder / "end").write_text("\n")
        self.assert_gone([pathlib.Path("/proc", child)])  # reaped
        self.end(job, signal.SIGKILL)
        self.assertEqual([path for path in paths if path.exists()], [])

    @skip_unless(SEES_ALL, "needs the machine's first pid namespace")
    @needs_pid_namespace
    def test_a_segment_of_the_same_pid_in_another_pid_namespace_is_kept(self):
        """Containers may share /dev/shm."""
        job, (worker,) = self.start_shell("echo $$; exec sleep 1000")
        path = self.file(f"torch_{worker}_1_0")
        other = subprocess.Popen([*PID_NAMESPACE, "/bin/sh", "-c",
                                  f"echo {int(worker) - 1} >/proc/sys/kernel/ns_last_pid; "
                                  "sh -c ': >/dev/shm/torch_$$_1_0; echo $$; read end'; true"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        own(self, other)
        self.assertEqual(other.stdout.readline().strip(), worker)
        self.end(job, signal.SIGTERM)
        self.assertTrue(path.exists())
        other.communicate(timeout=30)

    @needs_pid_namespace
    def test_inside_a_container_every_file_is_kept(self):
        """The holders and makers in other containers are invisible there."""
        job, (worker,) = self.start_shell(": >/dev/shm/torch_$$_1_0; echo $$", *PID_NAMESPACE)
        path = self.file(f"torch_{worker}_1_0")
        job.communicate(timeout=30)
        self.assertTrue(path.exists())


if __name__ == "__main__":
    unittest.main()
