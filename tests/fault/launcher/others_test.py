"""What is not of the job lives on, and what the job may leave does: others_test.py DDPRUN."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))

from owned import own  # noqa: E402

DDPRUN = sys.argv[1]
del sys.argv[1]


def is_alive(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


class Others(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-others-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = os.environ | {"TMPDIR": folder.name, "DDPRUN": DDPRUN}

    def run_shell(self, script, *prefix):
        """The lines that a shell printed; its last command is exec'ed, so that it becomes the launcher."""
        done = subprocess.run([*prefix, "/bin/sh", "-c", script], env=self.environment, cwd=self.folder,
                              capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout.split(), done.stderr

    def end(self, pid):
        """It was started for the test, and nobody else ends it."""
        os.kill(pid, signal.SIGKILL)

    def test_children_that_the_launcher_has_inherited_live_on(self):
        """Also when a generation fails, and when a worker's leftovers are ended beside them."""
        for worker in ("true", "exit 3", "setsid sleep 1000 & sleep 0.1; exit 3"):
            with self.subTest(worker):
                code, words, said = self.run_shell(
                    f"sleep 1000 >/dev/null 2>&1 & echo $!; exec $DDPRUN --no-python /bin/sh -c '{worker}'")
                self.assertEqual(code, 0 if worker == "true" else 3, said)
                self.assertTrue(is_alive(int(words[0])), said)
                self.end(int(words[0]))

    def test_an_inherited_child_that_ends_is_reaped(self):
        worker = "kill $CHILD; until [ ! -e /proc/$CHILD ]; do :; done; echo gone".replace("$", "$$")
        code, words, said = self.run_shell(
            f"sleep 1000 >/dev/null 2>&1 & export CHILD=$!; exec timeout 20 $DDPRUN --no-python /bin/sh -c '{worker}'"
            .replace("exec timeout 20 ", "exec "))
        self.assertEqual((code, words), (0, ["gone"]), said)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to make a pid namespace")
    def test_orphans_of_others_live_on_where_the_launcher_is_the_first_process_of_a_container(self):
        """Somebody's exec into the container leaves an orphan; then a generation fails, and the next one looks."""
        up, go = self.folder / "up", self.folder / "go"
        os.mkfifo(up)
        os.mkfifo(go)
        worker = f"""[ $TORCHELASTIC_RESTART_COUNT = 0 ] || {{
                       kill -0 $(cat orphan) && echo alive; exit 0; }}
                     echo up >{up}; read x <{go}; exit 3""".replace("$", "$$")
        job = subprocess.Popen(["unshare", "--pid", "--fork", "--mount-proc", DDPRUN, "--max-restarts", "1",
                                "--no-python", "/bin/sh", "-c", worker], env=self.environment, cwd=self.folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        own(self, job)
        up.read_text()
        children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        subprocess.run(["nsenter", "-t", children[0], "-p", "-m", "/bin/sh", "-c",
                        f"cd {self.folder}; setsid sleep 1000 >/dev/null 2>&1 & echo $! >{self.folder}/orphan"],
                       check=True, timeout=20)
        go.write_text("go\n")
        out, said = job.communicate(timeout=60)
        self.assertEqual(out.split(), ["alive"], said)

    def test_what_a_succeeded_job_left_running_is_ended_or_kept(self):
        """A helper in a session of its own, and one that has only been put into the background."""
        for flags, lives in (("", False), ("--keep-detached", True)):
            for start in ("setsid", ""):
                with self.subTest(flags=flags, start=start):
                    script = f"{start} sleep 1000 >/dev/null 2>&1 & echo $$!"
                    code, words, said = self.run_shell(f"exec $DDPRUN {flags} --no-python /bin/sh -c '{script}'")
                    self.assertEqual(code, 0, said)
                    pid = int(words[0])
                    self.assertEqual(is_alive(pid), lives, said)
                    if lives:
                        self.end(pid)

    def test_a_helper_that_is_kept_and_prints_elsewhere_goes_on_printing(self):
        for name in ("gate", "done"):
            os.mkfifo(self.folder / name)
        helper = 'read -r line <gate; echo uploading; echo done >done'
        script = f'setsid /bin/sh -c "{helper}" >upload.log 2>&1 &'
        code, _, said = self.run_shell(f"exec $DDPRUN --keep-detached --no-python /bin/sh -c '{script}'")
        self.assertEqual(code, 0, said)
        (self.folder / "gate").write_text("\n")
        self.assertEqual((self.folder / "done").read_text(), "done\n")
        self.assertEqual((self.folder / "upload.log").read_text(), "uploading\n")

    def test_what_a_failed_job_left_running_is_ended_in_any_case(self):
        script = "setsid sleep 1000 >/dev/null 2>&1 & echo $$!; exit 3"
        code, words, said = self.run_shell(f"exec $DDPRUN --keep-detached --no-python /bin/sh -c '{script}'")
        self.assertEqual(code, 3, said)
        self.assertFalse(is_alive(int(words[0])), said)


if __name__ == "__main__":
    unittest.main()
