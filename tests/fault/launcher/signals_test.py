"""Signals that come while no worker is alive, and the order of what is told: signals_test.py DDPRUN PROGRAMS."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))

from owned import own  # noqa: E402
from ports import free_port  # noqa: E402

DDPRUN, PROGRAMS = sys.argv[1:3]
del sys.argv[1:3]
# Short sleeps: a signal that comes between a look at the traps and a read that blocks is not heard until the read ends.
LISTENER = "trap 'echo heard; exit 0' USR1; echo began; while :; do sleep 0.05; done"


class Signals(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-signals-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, *arguments, stdin=None, **environment):
        job = subprocess.Popen([DDPRUN, *map(str, arguments)], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=os.environ | {"TMPDIR": str(self.folder)} | environment)
        own(self, job)
        return job

    def node(self, rank, port, run_id):
        return self.start("--nnodes", 2, "--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port", port,
                          "--rdzv-id", run_id, "--no-python", "/bin/bash", "-c", LISTENER)

    def wait_for(self, job, text):
        for line in job.stderr:
            if text in line:
                return
        self.fail(f"no {text!r}")

    def test_sigusr1_between_generations_reaches_the_next_workers_once_they_listen(self):
        port = free_port()
        first = self.node(0, port, "usr1")
        self.wait_for(first, "missing: node rank 1")
        first.send_signal(signal.SIGUSR1)
        self.wait_for(first, "received SIGUSR1 while no worker is alive: the next ones will get it")
        second = self.node(1, port, "usr1")
        self.assertEqual(second.stdout.readline(), "began\n")
        second.send_signal(signal.SIGUSR1)
        for job in (first, second):
            out, err = job.communicate(timeout=30)
            self.assertIn("heard", out, err)
            self.assertEqual(job.returncode, 0, err)

    def test_drain_finds_a_job_by_its_id_while_it_has_no_worker(self):
        run_id = f"drained-{os.getpid()}"
        job = self.node(0, free_port(), run_id)
        self.wait_for(job, "missing: node rank 1")
        subprocess.run([DDPRUN, "drain", run_id], check=True, capture_output=True)
        job.communicate(timeout=30)
        self.assertIn(job.returncode, (75, 143))

    def test_a_signal_that_reaches_the_workers_before_the_launcher_is_no_failure_of_theirs(self):
        job = self.start("--nproc-per-node", 2, "--no-python", "/bin/sh", "-c", 'echo "$$$$"; exec sleep 1000')  # $$ is a $ of ddprun's words
        pids = [int(job.stdout.readline().split()[-1]) for _ in range(2)]
        job.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, job.pid, os.WSTOPPED)
        for pid in (*pids, job.pid):
            os.kill(pid, signal.SIGTERM)
        job.send_signal(signal.SIGCONT)
        said = job.communicate(timeout=30)[1]
        self.assertEqual(job.returncode, 143, said)
        self.assertRegex(said, r"(?m)^ddprun: /bin/sh was stopped by SIGTERM$")
        self.assertRegex(said, r"(?m)^  then +ranks 0-1 ended by SIGTERM$")

    def a_program_that_saves(self, name="save.py"):
        program = self.folder / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("""import signal, sys, time
heard = []
def save(number, frame):
    heard.append(signal.Signals(number).name)
    time.sleep(0.1)
    print("saved after", *heard, flush=True)
    sys.exit(0)
signal.signal(signal.SIGINT, save)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    signal.pause()
""")
        return program

    def a_starter(self, program):
        """It waits for that as long as it takes; subprocess.run kills it a quarter of a second after Ctrl-C."""
        starter = self.folder / "starter.py"
        starter.write_text(f"""import subprocess, sys
child = subprocess.Popen([sys.executable, "{program}"])
while True:
    try:
        sys.exit(child.wait())
    except KeyboardInterrupt:
        pass
""")
        return starter

    def saves(self, signal_number, *command, workers=1, **options):
        with self.subTest(command=command, signal=signal_number):
            job = self.start("--nproc-per-node", workers, "--shutdown-timeout", "20s", "--no-python", *command, **options)
            for _ in range(workers):
                self.assertIn("ready", job.stdout.readline())
            job.send_signal(signal_number)
            out, err = job.communicate(timeout=60)
            name = signal.Signals(signal_number).name
            heard = re.findall("saved after (.*)", out)
            if "timeout" in str(command):
                heard = [words.removesuffix(f" {name}") for words in heard]  # timeout tells its child and then its group, with the child
            self.assertEqual(heard, [name] * workers, out + err)
            self.assertEqual(job.returncode, 128 + signal_number, err)
            self.assertNotIn("SIGKILL", err)

    def test_ctrl_c_reaches_what_a_shell_or_make_has_started(self):
        program = self.a_program_that_saves()
        (self.folder / "Makefile").write_text(f"train:\n\t{sys.executable} {program}\n\t@echo after\n")
        run = f"(cd / && {sys.executable} {program}; true)\necho ended with $?\n"
        starter = self.a_starter(program)
        all_starts = [("/bin/sh", "-c", run), ("/bin/bash", "-c", run), (sys.executable, starter)]
        if shutil.which("make"):
            all_starts += [("make", "-s", "-C", self.folder, "train"), ("/bin/sh", "-c", f"make -s -C {self.folder} train; true")]
        for starts in all_starts:
            self.saves(signal.SIGINT, *starts, workers=2)

    def test_ctrl_c_reaches_what_only_looks_like_a_helper(self):
        self.saves(signal.SIGINT, sys.executable, self.a_starter(self.a_program_that_saves("multiprocessing/train.py")))
        again = self.folder / "again.py"
        again.write_text(f"""import os, sys
name = "{self.a_program_that_saves()}" if "AGAIN" in os.environ else "{self.a_starter(again)}"
os.environ["AGAIN"] = "1"
exec(open(name).read())
""")
        self.saves(signal.SIGINT, sys.executable, again)

    def test_ctrl_c_reaches_the_processes_that_a_program_only_waits_for(self):
        program = self.folder / "spawn.py"
        program.write_text("""import multiprocessing, signal, sys, time
def train():
    def save(number, frame):
        print("saved after", signal.Signals(number).name, flush=True)
        sys.exit(0)
    signal.signal(signal.SIGINT, save)
    print("ready", flush=True)
    while True:
        time.sleep(60)
if __name__ == "__main__":
    process = multiprocessing.get_context(sys.argv[1]).Process(target=train)
    process.start()
    if sys.argv[2] == "joins":
        process.join()
    multiprocessing.connection.wait([process.sentinel], 60)  # as a data loader's queue; Ctrl-C leads to join() at exit
""")
        for method in ("fork", "spawn", "forkserver"):
            for waits in ("joins", "goes on"):
                self.saves(signal.SIGINT, sys.executable, program, method, waits)

    def test_who_was_asked_is_left_alone_at_its_save_when_its_shell_has_died(self):
        """Whether it ignores a second signal, or would end of it."""
        program = self.folder / "shields.py"
        program.write_text("""import signal, sys, time
asked = int(sys.argv[1])
def save(number, frame):
    signal.signal(asked, signal.SIG_IGN if sys.argv[2] == "ignores" else signal.SIG_DFL)
    time.sleep(0.5)
    print("saved", flush=True)
    raise SystemExit
signal.signal(signal.SIGTERM, lambda *_: print("broken", flush=True))
signal.signal(asked, save)
print("ready", flush=True)
while True:
    signal.pause()
""")
        for asked in (signal.SIGINT, signal.SIGTERM):
            for then in ("ignores", "ends"):
                run = f"{sys.executable} {program} {int(asked)} {then}"
                for command in (f"{run} & wait", f"timeout --foreground 100 {run}; true"):
                    self.saves_once(asked, command)
                # timeout itself tells its program twice, which would end it.
                if then == "ignores":
                    self.saves_once(asked, f"timeout 100 {run} & wait")
                    self.saves_once(asked, f"{run} & wait", "timeout", "100")
                    self.saves_once(asked, f"timeout 100 {run}; true", "timeout", "100")
                    self.saves_once(asked, f"{run}; true", "timeout", "--foreground", "100")

    def saves_once(self, asked, command, *before):
        with self.subTest(asked=asked, command=command, before=before):
            job = self.start("--shutdown-timeout", "20s", "--no-python", *before, "/bin/bash", "-c", command)
            self.assertIn("ready", job.stdout.readline())
            job.send_signal(asked)
            out, err = job.communicate(timeout=60)
            self.assertEqual((out, job.returncode), ("saved\n", 128 + asked), err)

    def test_who_does_not_hear_ctrl_c_is_asked_by_sigterm_when_its_shell_has_died(self):
        program = self.folder / "deaf.py"
        program.write_text("""import signal
def save(number, frame):
    print("saved", flush=True)
    raise SystemExit
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
while True:
    signal.pause()
""")
        for before in ((), ("timeout", "100")):
            self.saves_once(signal.SIGINT, f"{sys.executable} {program} & wait", *before)  # bash has it ignore Ctrl-C

    def test_helpers_hear_ctrl_c_after_the_shell_that_started_their_program_has_died(self):
        program = self.folder / "helpers.py"
        program.write_text("""import multiprocessing, signal, sys
def train():
    def save(number, frame):
        print("saved", flush=True)
        sys.exit(0)
    signal.signal(signal.SIGINT, save)
    print("ready", flush=True)
    while True:
        signal.pause()
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    multiprocessing.get_context("fork").Process(target=train).start()
    signal.pause()
""")
        self.saves_once(signal.SIGINT, f"{sys.executable} {program} & wait")

    def test_ctrl_c_spares_helpers_while_the_save_runs_a_program_and_what_was_put_into_another_group(self):
        program = self.folder / "uploads.py"
        program.write_text("""import multiprocessing, os, signal, subprocess, sys
def answer(pipe):
    pipe.send(pipe.recv() + 1)
if __name__ == "__main__":
    ours, theirs = multiprocessing.Pipe()
    multiprocessing.Process(target=answer, args=[theirs]).start()
    upload = subprocess.Popen([sys.executable, "-c", "input(); print('uploaded')"], stdin=subprocess.PIPE, preexec_fn=os.setpgrp)
    def save(number, frame):
        subprocess.run(["sleep", "0.5"])
        ours.send(41)
        upload.communicate(b"end\\n")
        print("saved", ours.recv(), flush=True)
        sys.exit(0)
    signal.signal(signal.SIGINT, save)
    print("ready", flush=True)
    while True:
        signal.pause()
""")
        job = self.start("--shutdown-timeout", "20s", "--no-python", sys.executable, program)
        self.assertIn("ready", job.stdout.readline())
        job.send_signal(signal.SIGINT)
        out, err = job.communicate(timeout=60)
        self.assertEqual(out, "uploaded\nsaved 42\n", err)

    def test_a_second_ctrl_c_ends_what_is_in_a_group_of_its_own(self):
        program = self.folder / "deaf.py"
        program.write_text("""import signal
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: print("heard", flush=True))
print("ready", flush=True)
while True:
    signal.pause()
""")
        job = self.start("--shutdown-timeout", "500s", "--no-python", "/bin/bash", "-c", f"set -m; {sys.executable} {program}; true")
        for word in ("ready", "heard"):
            self.assertIn(word, job.stdout.readline())
            job.send_signal(signal.SIGINT)
        began = time.monotonic()
        err = job.communicate(timeout=60)[1]
        self.assertRegex(err, "a second time; sending SIGKILL to rank 0")
        self.assertLess(time.monotonic() - began, 4, err)  # 5 s are the launcher's own patience with who does not die

    def test_what_is_in_a_group_of_its_own_has_its_grace(self):
        program = self.a_program_that_saves()
        for asked in (signal.SIGINT, signal.SIGTERM):
            self.saves(asked, "/bin/bash", "-c", f"set -m; {sys.executable} {program}; true")
            self.saves(asked, "/bin/bash", "-c", f"timeout 100 {sys.executable} {program}; true")
            # The shell dies of what timeout tells its group, and leaves the program behind.
            self.saves(asked, "timeout", "100", "/bin/sh", "-c", f"echo {program} | xargs {sys.executable}; true")

    def test_ctrl_c_is_heard_once_under_uv_whether_that_has_a_terminal_or_not(self):
        # A stand-in: like uv, it tells its child of Ctrl-C where standard input is no terminal, and has the name.
        shutil.copy(pathlib.Path(sys.executable).resolve(), self.folder / "uv")
        stand_in = self.folder / "stand_in.py"
        stand_in.write_text("""import signal, subprocess, sys
child = subprocess.Popen(sys.argv[1:])
signal.signal(signal.SIGINT, lambda *_: None if sys.stdin.isatty() else child.send_signal(signal.SIGINT))
sys.exit(child.wait())
""")
        program = self.a_program_that_saves()
        home = f"{sys.base_prefix}:{sys.base_exec_prefix}"
        for below in (program, self.a_starter(program)):
            self.saves(signal.SIGINT, self.folder / "uv", stand_in, sys.executable, below, PYTHONHOME=home)
            ours, theirs = os.openpty()
            with open(ours, "rb"), open(theirs, "rb") as terminal:
                self.saves(signal.SIGINT, self.folder / "uv", stand_in, sys.executable, below, PYTHONHOME=home, stdin=terminal)

    def test_ctrl_c_spares_the_helpers_of_a_program_whose_save_may_need_them(self):
        program = self.folder / "pool.py"
        program.write_text("""import multiprocessing, os, signal, sys
def work(number):
    return number + 1
if __name__ == "__main__":
    pool = multiprocessing.get_context(sys.argv[1]).Pool(2)
    def save(number, frame):
        print("saved", pool.map(work, [1, 2]), flush=True)
        pool.terminate()
        sys.exit(0)
    pool.map(work, [0])
    signal.signal(signal.SIGINT, save)
    print("ready", flush=True)
    while True:
        signal.pause()
""")
        for method in ("fork", "spawn", "forkserver"):
            job = self.start("--shutdown-timeout", "20s", "--no-python", "/bin/sh", "-c",
                             f"{sys.executable} {program} {method}; true")
            self.assertIn("ready", job.stdout.readline())
            job.send_signal(signal.SIGINT)
            out, err = job.communicate(timeout=60)
            self.assertIn("saved [2, 3]", out, err)

    def test_a_signal_that_was_passed_on_is_told_where_nobody_handles_it(self):
        job = self.start("--nproc-per-node", 2, "--no-python", "/bin/sh", "-c", "echo ready; exec sleep 1000")
        for _ in range(2):
            self.assertIn("ready", job.stdout.readline())
        job.send_signal(signal.SIGUSR1)
        said = job.communicate(timeout=30)[1]
        self.assertEqual(job.returncode, 128 + signal.SIGUSR1, said)
        self.assertIn("ddprun received SIGUSR1 and passed it on to its workers, and this program does not handle it", said)

    def test_drain_says_that_a_launcher_is_stopped(self):
        run_id = f"stopped-{os.getpid()}"
        job = self.node(0, free_port(), run_id)
        self.wait_for(job, "missing: node rank 1")
        job.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, job.pid, os.WSTOPPED)
        said = subprocess.run([DDPRUN, "drain", run_id], check=True, capture_output=True, text=True).stderr
        self.assertIn(f"when its workers have. It is stopped, as by Ctrl-Z, and hears that when it goes on: kill -CONT {job.pid}\n", said)
        job.send_signal(signal.SIGCONT)
        job.communicate(timeout=30)
        self.assertIn(job.returncode, (75, 143))

    def test_events_tell_the_exit_before_the_stop_that_follows_from_it(self):
        events = self.folder / "events"
        job = self.start("--nproc-per-node", 2, "--events", events, "--no-python", "/bin/bash", "-c",
                         '[ $RANK = 1 ] && exit 3; exec sleep 1000')
        job.communicate(timeout=30)
        self.assertEqual(job.returncode, 3)
        told = [json.loads(line) for line in events.read_text().splitlines()]
        names = [each.get("event") or each.get("type") for each in told]
        self.assertLess(names.index("worker_exited"), names.index("stopping"), names)

    def test_a_signal_in_the_last_moment_does_not_take_the_place_of_the_result(self):
        for code in (0, 3):
            job = self.start("--no-python", "/bin/sh", "-c", f"exit {code}",
                             LD_PRELOAD=f"{PROGRAMS}/liblate_signal.so")
            _, err = job.communicate(timeout=30)
            self.assertEqual(job.returncode, code, err)


if __name__ == "__main__":
    unittest.main()
