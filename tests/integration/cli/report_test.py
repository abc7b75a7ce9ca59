#!/usr/bin/env python3
"""Lets real workers end in real ways, and reads what the report makes of it."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

from harness import PROGRAMS, Case
from skips import skip

BROKEN = PROGRAMS / "cli_broken"


class Diagnosis(Case):
    def check(self, code, words, *arguments, before=()):
        done = self.ddprun("--log-dir", self.logs, *arguments, before=before)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(words, done.stderr)
        self.assertIn(words, self.report()["root_cause"]["diagnosis"])

    def test_a_segmentation_fault(self):
        self.check(139, "segmentation fault: it touched memory that is not its own", BROKEN, "segv")

    def test_an_uncaught_cpp_exception(self):
        self.check(134, "uncaught C++ exception std::runtime_error: no such layer: conv9", BROKEN, "throw")

    def test_an_abort(self):
        self.check(134, "aborted: it called abort()", BROKEN, "abort")

    def test_a_bus_error(self):
        self.check(135, "bus error: a mapped file was cut short or its disk failed", BROKEN, "bus")

    def test_ranks_that_were_killed_at_once_are_named_together(self):
        # The first that is killed has more to free, so that the other one is gone before it.
        script = self.script("t.py", "import os, time\nheld = b'1' * ((256 << 20) if os.environ['RANK'] == '1' else 1)\n"
                             "print(os.environ['RANK'], os.getpid(), flush=True)\ntime.sleep(99)\n")
        job = self.start("--nproc-per-node", "3", script)
        pids = dict(job.stdout.readline().split()[-2:] for _ in range(3))
        for rank in "12":
            os.kill(int(pids[rank]), signal.SIGKILL)
        said = job.communicate(timeout=60)[1]
        self.assertEqual(job.returncode, 137, said)
        if "was killed by SIGKILL after SIGTERM" not in said:  # it may have been seen before the other one was killed
            self.assertRegex(said, r"(?m)^  ranks 1-2 were killed by SIGKILL\n  rank [12]: killed from outside")
        self.assertRegex(said, r"(?m)^  then +rank 0 ended by SIGTERM, because rank [12] failed$")

    def test_a_missing_shared_library(self):
        self.check(127, "missing shared library libddprun_gone.so: install it, or add its folder to LD_LIBRARY_PATH",
                   PROGRAMS / "cli_needs_gone")

    def test_a_missing_interpreter_behind_env(self):
        self.check(127, "missing interpreter: the script's first line asks for a program that is not in PATH",
                   self.script("t", "#!/usr/bin/env nopython9\n"))

    def test_a_python_exception_without_record(self):
        self.check(1, "uncaught Python exception ValueError: bad batch",
                   self.script("t.py", "def f():\n    raise ValueError('bad batch')\nf()\n"))

    def test_an_exception_that_was_caught_long_before_the_end_is_only_mentioned(self):
        script = self.script("t.py", "import os, sys, traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n"
                             "    traceback.print_exc()\nprint('step 1\\nstep 2', file=sys.stderr, flush=True)\n"
                             "os._exit(3) if sys.argv[1] == 'leave' else os.kill(os.getpid(), 9)\n")
        for streams in ("0", "3"):
            with self.subTest(redirects=streams):
                self.logs = self.folder / streams
                self.check(3, "the last Python exception it printed, 2 lines before its end, was ZeroDivisionError",
                           "-r", streams, script, "leave")
                done = self.ddprun("--log-dir", self.folder, "-r", streams, script, "kill")
                self.assertIn("killed from outside", done.stderr)
                self.assertNotIn("Python exception", done.stderr)

    def test_a_traceback_in_a_log_file_is_found_wherever_it_stands_and_whole(self):
        """Also a chain of two, between which the part of the file begins that is searched first."""
        script = self.script("t.py", "import sys, time, traceback\ndef say(text, size):\n    sys.stderr.write(text)\n"
                             "    sys.stderr.write('step 1 of many, and more to come\\n' * (size // 33))\n"
                             "say('', 2 << 20)\ntry:\n    raise ValueError('first' + 'x' * 6000)\nexcept ValueError:\n"
                             "    try:\n        raise KeyError('second')\n    except KeyError:\n        traceback.print_exc()\n"
                             "say('', int(sys.argv[1]))\nsys.exit(3)\n")
        for size in (0, 64 * 1024 - 6000, 64 * 1024 - 200, 64 * 1024, 900 * 1024):
            said = {}
            for streams in ("0", "3"):
                self.logs = self.folder / f"{size}-{streams}"
                self.ddprun("--log-dir", self.logs, "-r", streams, script, size)
                root = self.report()["root_cause"]
                said[streams] = [root["diagnosis"], root["traceback"]]
            self.assertEqual(said["3"], said["0"], size)
            self.assertIn("KeyError", said["3"][0], size)

    def test_a_text_that_disguises_itself_is_written_out_wherever_it_is_quoted(self):
        text = "pay\u202egpj\x00\x9b31m\u200b\x1b]0;title\x07"
        script = self.script("t.py", f"raise ValueError({text!r})\n")
        done = self.ddprun("--log-dir", self.logs, "--max-restarts", "1", "-r", "3", script)
        self.assertIn(r"ValueError: pay\u202egpj\x00\x9b31m\u200b\x1b]0;title\x07", done.stderr)
        self.assertIn("starting all workers again", done.stderr)
        self.assertEqual([c for c in text if c in done.stderr.replace("\n", "") and not c.isprintable()], [])
        self.assertIn(r"pay\u202egpj", self.report()["root_cause"]["exception"])

    def test_a_module_that_is_not_there(self):
        self.check(1, "Python finds no module named nowhere9; is the right environment active?", "-m", "nowhere9")

    def test_a_kill_from_outside(self):
        self.check(137, "killed from outside", "sh", "-c", "kill -9 $$$$")

    def test_a_full_shared_memory(self):
        self.need_mounts()
        self.check(135, "bus error with a full /dev/shm: 1 MiB of 1 MiB are used", "--nproc-per-node", 2, "sh", "-c",
                   f"[ $RANK = 0 ] && exec {BROKEN} hold-shm; until [ $(stat -f -c %a /dev/shm) = 0 ]; do :; done; "
                   f"exec {BROKEN} shm", before=self.small("/dev/shm"))

    def test_a_small_shared_memory_that_is_free_again_when_the_worker_is_gone(self):
        self.need_mounts()
        self.check(135, "bus error: /dev/shm is only 1 MiB here", BROKEN, "shm", before=self.small("/dev/shm"))

    def test_a_full_disk(self):
        self.need_mounts()
        (self.folder / "disk").mkdir()
        fill = self.script("t.py", "with open('disk/f', 'wb') as file:\n    file.write(bytes(2 << 20))\n")
        done = self.ddprun("--log-dir", self.logs, fill, before=self.small("disk"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("disk full", done.stderr)

    def test_out_of_memory(self):
        group = pathlib.Path(f"/sys/fs/cgroup/memory/ddprun-test-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            skip("needs a memory cgroup (version 1) that may be written, to run out of memory in")
        self.addCleanup(group.rmdir)
        (group / "memory.limit_in_bytes").write_text(str(256 << 20))  # a launcher with a sanitizer has some 100
        enter = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        self.check(137, "out of memory: the kernel killed", BROKEN, "eat", before=("sh", "-c", enter, "-"))

    @staticmethod
    def small(directory):
        """What to put before a command so that it finds a file system of 1 MiB there."""
        return ("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=1m none {directory} && exec "$@"', "-")

    def need_mounts(self):
        probe = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /dev/shm"]
        if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode != 0:
            skip("needs a mount namespace (unshare -m as root) for a small file system")


class CannotStart(Case):
    def test_a_program_in_a_format_the_kernel_does_not_know(self):
        program = self.script("t", "\x7fELF but nothing else")
        done = self.ddprun(program)
        self.assertEqual(done.returncode, 126, done.stderr)
        self.assertIn("could not be started", done.stderr)
        self.assertIn("format", done.stderr)

    def test_a_missing_interpreter(self):
        done = self.ddprun(self.script("t", "#!/nowhere/python9\n"))
        self.assertIn(done.returncode, (126, 127), done.stderr)
        self.assertIn("/nowhere/python9", done.stderr)


class Report(Case):
    def test_the_root_cause_comes_first_and_the_rest_is_folded(self):
        done = self.ddprun("--log-dir", self.logs, "--nproc-per-node", 4, "sh", "-c",
                           "[ $RANK = 2 ] || exec sleep 60; echo 'last words' >&2; exit 3")
        self.assertEqual(done.returncode, 3)
        lines = done.stderr.splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("ddprun: sh failed: rank 2 (local rank 2, pid "))
        self.assertIn("exited with code 3 after", lines[first])
        self.assertIn("    | last words", lines[first:])
        folded = [line for line in lines if "because rank 2 failed" in line]
        self.assertEqual(folded, ["  then      ranks 0-1, 3 ended by SIGTERM, because rank 2 failed"])
        self.assertLess(len(lines), 25)

    def test_the_json_form_lies_in_the_log_directory(self):
        self.ddprun("--log-dir", self.logs, "--nproc-per-node", 2, "sh", "-c", "[ $RANK = 1 ] && exit 5; sleep 60")
        report = self.report()
        self.assertEqual((report["exit_code"], report["reason"]), (5, "worker failed"))
        self.assertEqual((report["root_cause"]["rank"], report["root_cause"]["exit_code"]), (1, 5))
        verdicts = [worker["verdict"] for worker in report["generations"][0]["workers"]]
        self.assertEqual(verdicts, ["consequence", "root cause"])

    def test_the_error_file_is_read_and_handed_on(self):
        outer = self.folder / "outer.json"
        body = {"message": {"message": "RuntimeError: boom", "extraInfo": {"py_callstack": "Traceback\n  frame", "timestamp": "1"}}}
        worker = self.script("t.sh", f"#!/bin/sh\nprintf %s '{json.dumps(body)}' > \"$TORCHELASTIC_ERROR_FILE\"\nexit 6\n")
        done = self.ddprun(worker, TORCHELASTIC_ERROR_FILE=str(outer))
        self.assertEqual(done.returncode, 6)
        self.assertIn("    RuntimeError: boom\n    | Traceback\n    |   frame\n", done.stderr)
        body["message"]["errorCode"] = 6
        self.assertEqual(json.loads(outer.read_text()), body)

    def test_without_an_error_file_the_launcher_above_gets_the_headline(self):
        outer = self.folder / "outer.json"
        self.ddprun("sh", "-c", "exit 6", TORCHELASTIC_ERROR_FILE=str(outer))
        message = json.loads(outer.read_text())["message"]
        self.assertEqual(message["errorCode"], 6)
        self.assertRegex(message["message"], r"^rank 0 \(local rank 0, pid \d+, host .*\) exited with code 6 after ")

    def test_a_broken_error_file_is_no_reason_to_fail(self):
        worker = self.script("t.sh", '#!/bin/sh\nprintf "{" > "$TORCHELASTIC_ERROR_FILE"\nexit 6\n')
        done = self.ddprun(worker)
        self.assertEqual(done.returncode, 6)
        self.assertRegex(done.stderr, r"\n  its error file \(.*/error.json\) cannot be read: its 1 bytes are no whole JSON")

    def test_what_a_rank_said_before_it_was_asked_to_end_is_a_cause_and_what_it_says_then_is_none(self):
        gate = self.folder / "gate"
        os.mkfifo(gate)
        script = self.script("t.py", f"""import os, signal, sys, time, traceback
if os.environ["RANK"] == "0":
    open("{gate}").read()
    raise ConnectionResetError(104, "Connection reset by peer")
def save(*_):
    open("/nonexistent/checkpoint.pt", "wb")
if sys.argv[1] == "saves":
    signal.signal(signal.SIGTERM, save)
else:
    try:
        raise ValueError("bad batch")
    except ValueError:
        traceback.print_exc()
open("{gate}", "w").close()
time.sleep(60)
""")
        for streams in ("0", "3"):
            for does, guilty in (("saves", 0), ("failed", 1)):
                with self.subTest(redirects=streams, rank_1=does):
                    self.logs = self.folder / streams / does
                    self.ddprun("--nproc-per-node", 2, "--blame-window", 0.2, "--log-dir", self.logs, "-r", streams, script, does)
                    self.assertEqual(self.report()["root_cause"]["rank"], guilty)

    def test_an_error_file_that_is_written_again_at_the_end_is_no_consequence(self):
        # Rank 0 writes its error down, closes longer than the blame window, and writes it once more.
        script = self.script("t.py", """import json, os, signal, sys, time
def write(message):
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        extra = {"timestamp": str(int(time.time())), "py_callstack": message}
        json.dump({"message": {"message": message, "extraInfo": extra}}, file)
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
if os.environ["RANK"] == "0":
    write("disk full")
    open(sys.argv[1], "w").close()
    while not stopped:
        time.sleep(0.02)
    write("disk full")
    os._exit(71)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.02)
print("RuntimeError: Connection closed by peer [127.0.0.1]:5", file=sys.stderr, flush=True)
os._exit(75)
""")
        done = self.ddprun("--nproc-per-node", 2, "--blame-window", 0.3, "--log-dir", self.logs, script, self.folder / "there")
        self.assertEqual((done.returncode, self.report()["root_cause"]["rank"]), (71, 0), done.stderr)

    def test_the_victim_whose_code_the_job_ends_with_is_the_one_that_is_quoted(self):
        # Rank 1 failed first, and says so in its error file; rank 2 ends first.
        lost = "RuntimeError: [gloo/transport/tcp/pair.cc:5] Connection closed by peer [127.0.0.1]:5"
        script = self.script("t.py", f"""import json, os, sys, time
rank, folder = os.environ["RANK"], sys.argv[1]
def wait_for(name):
    while not os.path.exists(f"{{folder}}/{{name}}"):
        time.sleep(0.02)
if rank == "0":
    os._exit(0)
time.sleep(1)
if rank == "1":
    with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
        extra = {{"timestamp": str(int(time.time()) - 1), "py_callstack": "x"}}
        json.dump({{"message": {{"message": "{lost}", "extraInfo": extra}}}}, file)
    open(f"{{folder}}/written", "w").close()
    wait_for("ending")
    pid = open(f"{{folder}}/ending").read()
    while os.path.exists(f"/proc/{{pid}}"):
        time.sleep(0.02)
else:
    wait_for("written")
    with open(f"{{folder}}/part", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{{folder}}/part", f"{{folder}}/ending")
print(f"rank {{rank}}: {lost}", file=sys.stderr, flush=True)
os._exit(4 + int(rank))
""")
        done = self.ddprun("--nproc-per-node", 3, "--blame-window", 2, "--log-dir", self.logs, script, self.folder)
        root = self.report()["root_cause"]
        self.assertEqual((done.returncode, root["rank"], root["victim_rank"]), (5, 0, 1), done.stderr)
        self.assertIn("what rank 1, which lost it, wrote", done.stderr)

    def test_a_rank_whose_program_stands_still_is_to_blame_for_what_the_others_wait_for_in_vain(self):
        lost = "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to complete"
        self.script("still.py", """import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))  # as who saves then
with open(sys.argv[1] + ".part", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".part", sys.argv[1])
os.kill(os.getpid(), signal.SIGSTOP)
while True:
    signal.pause()
""")
        for start in ("", "exec "):  # behind the shell, and in its place
            still = self.script("still.sh", f"""pid=$1/pid.$TORCHELASTIC_RESTART_COUNT
if [ $RANK = 1 ]; then
    {start}{sys.executable} $1/still.py $pid
    exit 3
fi
until grep -qs '^State:.T' /proc/$(cat $pid 2>&1)/status; do sleep 0.02; done
echo '{lost}' >&2
exit 5
""")
            done = self.ddprun("--nproc-per-node", 3, "--max-restarts", 1, "--blame-window", 0.3, "--log-dir", self.logs,
                               "--no-python", "sh", still, self.folder)
            report = self.report()
            root = report["root_cause"]
            self.assertEqual((done.returncode, root["rank"], root["was_suspended"]), (5, 1, True), done.stderr)
            self.assertIn(root["victim_rank"], (0, 2))
            self.assertIn(lost, root["stderr_tail"])
            self.assertEqual([each["root_cause_rank"] for each in report["generations"]], [1, 1])
            self.assertRegex(done.stderr, r"rank 1 was stopped by a signal \(SIGSTOP\) while others waited for it \(rank [02]: ")
            self.assertRegex(done.stderr, r"failed: rank 1 \(.*\) was stopped by a signal \(SIGSTOP\), while others waited for it\n")
            self.assertRegex(done.stderr, r"(?m)^  then +(ranks 0, 2|rank 0) .*waited in vain")
            for left in (*self.folder.glob("pid.*"), *self.logs.glob("*/report.json")):
                left.unlink()

    def test_a_time_out_in_the_back_off_is_the_end_and_the_failure_came_before(self):
        outer = self.folder / "error.json"
        done = self.ddprun("--max-restarts", 9, "--job-timeout", "2s", "sh", "-c", "exit 3", TORCHELASTIC_ERROR_FILE=str(outer))
        self.assertEqual(done.returncode, 75)
        self.assertRegex(done.stderr, r"\nddprun: sh was stopped by --job-timeout\n  before +rank 0 .* exited with code 3 after")
        self.assertFalse(outer.exists())

    def test_after_a_signal_in_the_back_off_the_report_has_who_failed_before(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                process = self.start("--max-restarts", 9, "sh", "-c", "echo boom >&2; exit 3")
                lines = []
                for line in process.stderr:
                    lines.append(line)
                    if "in 1.0 s: restart 3 " in line:
                        break
                process.send_signal(number)
                rest = process.communicate(timeout=60)[1]
                self.assertRegex("".join(lines) + rest, r"(?s)was stopped by SIG.*\n  before +rank 0 .* exited with code 3 .*\n    \| boom\n")

    def test_a_restart_says_why_in_one_line(self):
        done = self.ddprun("--max-restarts", 1, "sh", "-c", "exit $((TORCHELASTIC_RESTART_COUNT == 0))")
        self.assertEqual(done.returncode, 0)
        self.assertIn("ddprun: rank 0 exited with code 1; starting all workers again: restart 1 of 1\n", done.stderr)

    def test_control_characters_of_a_worker_do_not_reach_the_terminal_through_the_report(self):
        done = self.ddprun("--log-dir", self.logs, "-r", "2", "sh", "-c", r"printf '\033[2J\377\n' >&2; exit 1")
        self.assertIn("    | \\x1b[2J?\n", done.stderr)

    def test_control_characters_of_a_name_are_written_as_a_shell_would_read_them(self):
        self.script("a\nb", "#!/bin/sh\nexit 1\n")
        done = self.ddprun("--log-dir", self.logs, "-v", "./a\nb", "c\x1bd")
        self.assertIn("ddprun: $'./a\\nb' failed: rank 0 ", done.stderr)
        self.assertNotRegex(done.stderr, "\x1b|^b")
        done = self.ddprun("--log-dir", self.logs, "--dry-run", "./a\nb", "c\x1bd")
        self.assertIn("job        $'./a\\nb': 1 worker", done.stdout)
        self.assertIn("  command  $'./a\\nb' $'c\\x1bd'\n", done.stdout)
        self.script("a\nb", "#!/no/such\nexit 1\n")
        done = self.ddprun("--log-dir", self.logs, "./a\nb")
        self.assertIn("ddprun: $'./a\\nb' failed: rank 0 (local rank 0, host ", done.stderr)
        self.assertIn("could not be started: cannot run ./a\\x0ab: its interpreter /no/such does not exist", done.stderr)


if __name__ == "__main__":
    unittest.main()
