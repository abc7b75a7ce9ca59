"""What is not of the job lives on, and what the job may leave does: others_test.py DDPRUN."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))

from namespaces import PID_NAMESPACE, needs_pid_namespace  # noqa: E402
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

    @needs_pid_namespace
    def test_orphans_of_others_live_on_where_the_launcher_is_the_first_process_of_a_container(self):
        """Somebody's exec into the container leaves an orphan; then a generation fails, and the next one looks."""
        up, go = self.folder / "up", self.folder / "go"
        os.mkfifo(up)
        os.mkfifo(go)
        worker = f"""[ $TORCHELASTIC_RESTART_COUNT = 0 ] || {{
                       kill -0 $(cat orphan) && echo alive; exit 0; }}
                     echo up >{up}; read x <{go}; exit 3""".replace("$", "$$")
        job = subprocess.Popen([*PID_NAMESPACE, DDPRUN, "--max-restarts", "1", "--no-python",
                                "/bin/sh", "-c", worker], env=self.environment, cwd=self.folder,
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

    def submit_from_a_worker(self, left):
        """A spooler that is older than the job runs what a worker submits, with the worker's environment and in a
        session of its own, and leaves. The pid of that, and the launcher."""
        for name in ("queue", "spooled", "never"):
            os.mkfifo(self.folder / name)
        spooler = """import json, os, subprocess
environment = json.loads(open("queue").read())
program = subprocess.Popen(["sleep", "1000"], env=environment, start_new_session=True, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
open("spooled", "w").write(str(program.pid))"""
        worker = f"""$PYTHON -c 'import json, os; open("queue", "w").write(json.dumps(dict(os.environ)))'
read pid <spooled; echo $$pid; {left}"""
        job = subprocess.Popen(["/bin/sh", "-c", '$PYTHON -c "$SPOOLER" & exec $DDPRUN --no-python /bin/sh -c "$WORKER"'],
                               env=self.environment | {"PYTHON": sys.executable, "SPOOLER": spooler, "WORKER": worker},
                               cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        own(self, job)
        spooled = int(job.stdout.readline())
        self.addCleanup(os.kill, spooled, signal.SIGKILL)
        return spooled, job

    def test_what_a_worker_has_submitted_to_a_spooler_outlives_a_killed_launcher(self):
        spooled, job = self.submit_from_a_worker("read x <never")
        children = pathlib.Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        guards = [pid for pid in children if pathlib.Path(f"/proc/{pid}/comm").read_text() == "job-guard\n"]
        self.assertEqual(len(guards), 2)
        job.kill()
        # When the guards have ended, their sweep is over.
        while any(is_alive(guard) for guard in guards):
            time.sleep(0.01)
        self.assertTrue(is_alive(spooled))

    def test_what_a_worker_has_submitted_to_a_spooler_outlives_a_failure_and_a_success(self):
        """Also where it has become a child of the launcher, because the spooler was one."""
        for code in (0, 3):
            with self.subTest(code):
                spooled, job = self.submit_from_a_worker(f"exit {code}")
                _, said = job.communicate(timeout=60)
                self.assertEqual(job.returncode, code, said)
                self.assertNotIn("left behind", said)
                self.assertTrue(is_alive(spooled), said)
                for name in ("queue", "spooled", "never"):
                    (self.folder / name).unlink()

    @needs_pid_namespace
    def test_a_stranger_with_the_number_of_an_ended_worker_lives_on(self):
        """A helper that is older than the job gets the number of a worker that has ended, and leaves children to us."""
        os.mkfifo(self.folder / "number")
        os.mkfifo(self.folder / "go")
        self.environment |= {"PYTHON": sys.executable, "HELPER": """import os
number = int(open("number").read())
while os.path.exists(f"/proc/{number}"):
    pass
child = 0
while child != number:
    open("/proc/sys/kernel/ns_last_pid", "w").write(str(number - 1))
    child = os.fork()
    if child == 0 and os.getpid() == number:
        os.setsid()
        os.closerange(0, 3)
        os.fork()
        os.execvp("sleep", ["sleep", "1000"])
    if child == 0:
        os._exit(0)
    if child != number:
        os.waitpid(child, 0)
open("go", "w").write("go")""", "WORKER": """[ $RANK = 1 ] || { echo $$$$ >number; exit 0; }
read x <go; until [ ! -e /proc/$OLDER ]; do :; done; echo all there"""}
        code, words, said = self.run_shell(
            '$PYTHON -S -c "$HELPER" & export OLDER=$!; exec $DDPRUN --nproc-per-node 2 --no-python /bin/sh -c "$WORKER"',
            *PID_NAMESPACE)
        self.assertEqual((code, words), (0, ["all", "there"]), said)
        self.assertNotIn("left behind", said)

    def test_what_is_killed_last_is_waited_for_as_long_as_what_is_killed_first(self):
        """Eight that look like cleaners are killed when the time of the first one killed is over."""
        (self.folder / "worker").write_text("""[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0
setsid sleep 1000 &
for i in 1 2 3 4 5 6 7 8; do
  mkfifo up$i
  setsid bash -c 'trap "" TERM; echo >"$0"; exec -a torch_shm_manager sleep 1000' up$i &
done
for i in 1 2 3 4 5 6 7 8; do read line <up$i; done
exit 7
""")
        code, _, said = self.run_shell("exec $DDPRUN --max-restarts 1 --no-python /bin/sh worker")
        self.assertEqual(code, 0, said)
        self.assertNotIn("does not end", said)

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
