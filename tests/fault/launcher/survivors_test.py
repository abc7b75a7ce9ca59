"""What SIGKILL does not end, because it runs as another user, has no next generation beside it: survivors_test.py DDPRUN."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))

from owned import own  # noqa: E402
from ports import free_port  # noqa: E402
from skips import skip_unless  # noqa: E402

DDPRUN = sys.argv[1]
del sys.argv[1]
NOBODY = 65534


@skip_unless(os.geteuid() == 0 and shutil.which("setpriv"), "needs root and setpriv")
class Survivors(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-survivors-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o777)
        self.become_root = self.folder / "become_root"
        shutil.copy(shutil.which("setpriv"), self.become_root)
        self.become_root.chmod(0o4755)
        self.ddprun = self.folder / "ddprun"
        shutil.copy(DDPRUN, self.ddprun)  # the tree may lie where only root can read
        self.ddprun.chmod(0o755)

    def start(self, *words):
        environment = os.environ | {"TMPDIR": str(self.folder), "HOME": str(self.folder), "ROOT": f"{self.become_root} --reuid 0"}
        return own(self, subprocess.Popen([self.ddprun, "--shutdown-timeout", "1", *words], env=environment, cwd=self.folder, user=NOBODY,
                                          group=NOBODY, extra_groups=[], text=True, stdin=subprocess.DEVNULL,
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def end(self, pid):
        """It is ours to end, and nobody else can."""
        os.kill(pid, signal.SIGKILL)

    def read_survivor(self, job):
        pid = int(job.stdout.readline())
        self.addCleanup(self.end, pid)
        return pid

    def test_a_process_of_another_user_that_a_worker_left_behind_forbids_a_restart(self):
        job = self.start("--max-restarts", "1", "--no-python", "/bin/sh", "-c",
                         'mkfifo up; $ROOT sh -c "echo \\$\\$ >up; exec sleep 1000" & read pid <up; echo $$pid; exit 5')
        pid = self.read_survivor(job)
        _, said = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 5, said)
        self.assertNotIn("restart 1 of 1", said)
        self.assertNotIn("was ended: pid", said)
        self.assertRegex(said, rf"does not end on SIGKILL: pid {pid} \(sleep\), in state S .*, as user root")

    def test_a_node_with_a_survivor_does_not_say_that_none_is_alive(self):
        """The others wait for its lease, as for that of a lost node, and not for its word."""
        port = free_port()
        flags = ["--nnodes", "1:2", "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", self.id(), "--max-restarts", "1",
                 "--rdzv-conf", "last_call_timeout=20,keep_alive_interval=0.5,keep_alive_max_attempt=4", "--no-python"]
        os.mkfifo(self.folder / "fail")
        (self.folder / "fail").chmod(0o666)
        first = self.start(*flags, "/bin/sh", "-c", 'echo up; [ $WORLD_SIZE = 1 ] && exit 0; read x <fail; exit 3')
        second = self.start(*flags, "--rdzv-conf", "is_host=false", "/bin/sh", "-c",
                            'exec $ROOT sh -c "echo \\$\\$; exec sleep 1000"')
        pid = self.read_survivor(second)
        self.assertEqual(first.stdout.readline(), "up\n")
        (self.folder / "fail").write_text("x\n")
        _, said = second.communicate(timeout=60)
        self.assertNotEqual(second.returncode, 0, said)
        self.assertRegex(said, rf"rank \d \(pid {pid}\) is in state S .*, as user root, whose processes ddprun may not end")
        self.assertNotIn("stuck in the kernel", said)
        _, said = first.communicate(timeout=60)
        self.assertEqual(first.returncode, 0, said)
        self.assertIn("was lost: its connection was closed", said)


if __name__ == "__main__":
    unittest.main()
