"""ddprun in a real bash on a terminal: Ctrl-Z, fg, bg, &, and what it leaves of the terminal: terminal_test.py DDPRUN."""

import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

DDPRUN = sys.argv[1]
del sys.argv[1:2]
PROMPT = "ready> "


class Shell:
    """An interactive bash; everything it and its jobs show is in `seen`."""

    def __init__(self, folder):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            environment = {"PATH": os.environ["PATH"], "PS1": PROMPT, "TERM": "dumb", "TMPDIR": folder, "HOME": folder}
            os.execve("/bin/bash", ["bash", "--norc", "--noprofile", "-i"], environment)
        self.until(PROMPT)

    def until(self, text, limit=20):
        """What came up to and with `text`, taken from `seen`."""
        end = time.monotonic() + limit
        while text not in self.seen:
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"no {text!r} in {self.seen!r}")
            self.seen += os.read(self.fd, 4096).decode().replace("\r\n", "\n")
        before, _, self.seen = self.seen.partition(text)
        return before + text

    def type(self, text):
        os.write(self.fd, text.encode())

    def run(self, line):
        self.type(line + "\n")
        self.until(line)
        return self.until(PROMPT)

    def bring_to_front(self, pid):
        """fg, until the terminal is the job's: before that a key's signal is bash's, which ignores it."""
        self.type("fg\n")
        wait_until(lambda: os.tcgetpgrp(self.fd) == os.getpgid(pid), f"process {pid} is not in front")

    def close(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def state(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until(holds, otherwise):
    end = time.monotonic() + 20
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(otherwise)
        time.sleep(0.01)


def wait_for_state(pid, wanted):
    wait_until(lambda: state(pid) in wanted, f"process {pid} is in none of the states {wanted}")


class Terminal(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-terminal-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.shell = Shell(folder.name)
        self.addCleanup(self.shell.close)

    def start(self, flags, script):
        """Starts workers that say their pid and their launcher's, and run `script`."""
        (self.folder / "worker.sh").write_text("echo pid $$ of $PPID.\n" + script)
        self.shell.type(f"{DDPRUN} {flags} --no-python /bin/bash {self.folder}/worker.sh\n")

    def pids(self, count):
        found = []
        while len(found) < count:
            self.shell.until("pid ")
            found.append([int(n) for n in re.findall(r"\d+", self.shell.until("."))])
        return found[0][1], [pid for pid, _ in found]

    def press_ctrl_z(self):
        self.shell.type("\x1a")
        self.shell.until("Stopped")
        self.shell.until(PROMPT)

    def end_with_ctrl_c(self):
        self.shell.type("\x03")
        self.shell.until(PROMPT)
        self.assertIn("\n130\n", self.shell.run("echo $?"))

    def test_ctrl_z_stops_all_and_fg_lets_all_go_on(self):
        self.start("--nproc-per-node 2", "sleep 1000 & wait")
        launcher, workers = self.pids(2)
        self.press_ctrl_z()
        for pid in (launcher, *workers):
            wait_for_state(pid, "T")
        self.shell.run("bg")
        for pid in (launcher, *workers):
            wait_for_state(pid, "SR")
        self.shell.bring_to_front(launcher)
        self.press_ctrl_z()
        wait_for_state(workers[0], "T")
        self.shell.bring_to_front(launcher)
        wait_for_state(workers[0], "SR")
        self.end_with_ctrl_c()

    def test_a_stopped_job_can_be_ended_and_ends_its_workers(self):
        self.start("--nproc-per-node 2", "sleep 1000 & wait")
        launcher, workers = self.pids(2)
        self.press_ctrl_z()
        os.kill(launcher, signal.SIGTERM)
        self.shell.type("fg\n")
        self.shell.until(PROMPT)
        self.assertIn("\n143\n", self.shell.run("echo $?"))
        for pid in workers:
            self.assertFalse(pathlib.Path(f"/proc/{pid}").exists())

    def test_of_several_nodes_none_stands_still(self):
        self.start("--nnodes 2 --node-rank 0 --master-addr 127.0.0.1 --master-port 0", "")
        self.shell.until("missing: node rank 1")
        self.shell.type("\x1a")
        self.shell.until("`ddprun drain` ends the job")
        self.end_with_ctrl_c()

    def test_ctrl_c_on_the_terminal_of_stdin_ends_the_job_for_good(self):
        self.start("--nproc-per-node 2 --stdin 0 --max-restarts 3", "exec sleep 1000")
        self.pids(2)
        self.shell.type("\x03")
        seen = self.shell.until(PROMPT)
        self.assertIn("received SIGINT", seen)
        self.assertNotIn("starting all workers again", seen)
        self.assertIn("\n130\n", self.shell.run("echo $?"))

    def test_a_job_with_stdin_can_be_stopped_and_goes_on(self):
        self.start("--nproc-per-node 2 --stdin 0", '[ $RANK = 1 ] || { read x; echo "got ($x)"; }; exec sleep 1000')
        launcher, workers = self.pids(2)
        self.press_ctrl_z()
        for pid in (launcher, *workers):
            wait_for_state(pid, "T")
        self.assertIn("echoed", self.shell.run("echo echoed"))
        self.shell.type("fg\n")
        wait_for_state(launcher, "SR")
        self.shell.type("word\r")
        self.shell.until("got (word)")
        self.end_with_ctrl_c()

    def test_under_a_debugger_ctrl_c_is_the_workers_and_ctrl_backslash_ends_the_job(self):
        script = "[ $RANK = 1 ] && exit 0; trap 'echo caught' INT; trap exit QUIT; echo traps.; while :; do read -t 1 <>fifo; done"
        (self.folder / "debugged.sh").write_text(f"cd {self.folder}; mkfifo fifo 2>&-\n{script}")
        self.shell.type(f"{DDPRUN} --nproc-per-node 2 --debug-rank 0 /usr/bin/env --no-python /bin/bash {self.folder}/debugged.sh\n")
        self.shell.until("traps.")
        self.shell.type("\x03")
        self.shell.until("caught")
        self.shell.type("\x1c")
        self.shell.until("received SIGQUIT")
        self.shell.until(PROMPT)

    def test_a_worker_with_a_terminal_leaves_ours_blocking(self):
        flags = "import fcntl, os; print('blocking', not fcntl.fcntl(0, fcntl.F_GETFL) & os.O_NONBLOCK)"
        (self.folder / "check.sh").write_text(
            f"{DDPRUN} --nproc-per-node 1 --stdin 0 --no-python /bin/bash -c 'echo began; read x; echo got $x.'\n"
            f'{sys.executable} -c "{flags}"\n')
        self.shell.type(f"bash {self.folder}/check.sh\n")
        self.shell.until("began")
        self.shell.type("word\r")
        self.shell.until("got word.")
        self.shell.until("blocking True")

    def test_a_lone_worker_in_the_background_takes_nothing_that_is_typed(self):
        script = 'read x; echo "took ($x)"'
        (self.folder / "reader.sh").write_text(script)
        self.shell.type(f"{DDPRUN} --nproc-per-node 1 --no-python /bin/bash {self.folder}/reader.sh &\n")
        self.shell.until("took ()")
        self.shell.type("wait; echo no''ne left\n")
        self.shell.until("none left")

    def test_what_the_launcher_says_begins_on_a_line_of_its_own(self):
        script = "trap 'printf \"\\rprogress 51%%\"; exit 1' INT; echo began; printf 'progress 50%%'; while :; do read -t 1 <>fifo; done"
        (self.folder / "progress.sh").write_text(f"cd {self.folder}; mkfifo fifo\n{script}")
        self.shell.type(f"{DDPRUN} --nproc-per-node 1 --no-python /bin/bash {self.folder}/progress.sh\n")
        self.shell.until("began")
        self.shell.until("progress 50%")
        self.shell.type("\x03")
        seen = self.shell.until(PROMPT)
        for line in seen.splitlines():
            self.assertFalse("ddprun:" in line and not line.startswith("ddprun:"), seen)


if __name__ == "__main__":
    unittest.main()
