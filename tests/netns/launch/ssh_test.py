"""scripts/launch/ssh.sh against a real sshd on each host. Usage: ssh_test.py DDPRUN PYTHON [unittest arguments]"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

from hosts import ROOT, Process, processes, readme, require_namespaces, require_programs, trained
from ssh_hosts import SshSite

DDPRUN, PYTHON = sys.argv.pop(1), sys.argv.pop(1)
SCRIPT = str(ROOT / "scripts/launch/ssh.sh")
WAIT = "trap 'echo saved $RANK; exit 0' INT TERM; echo up $RANK; while :; do sleep 0.1; done"
DEAF = "trap '' INT TERM; echo up $RANK; while :; do sleep 0.1; done"


class Ssh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = SshSite(["node-a", "node-b"], DDPRUN, PYTHON)
        cls.addClassCleanup(cls.site.__exit__)

    def setUp(self):
        self.before = {pid for pid, _ in processes(self.site.folder)}
        (self.site.shared / "hosts.txt").write_text("node-a  # the coordinator's\n\nnode-b\n")

    def tearDown(self):
        for pid, _ in processes(self.site.folder):
            if pid not in self.before:
                os.kill(pid, signal.SIGKILL)  # of a test that failed

    def start(self, command, **environment):
        """As Site.shell, but the process is the command itself, at the head of its own process group."""
        words = ["ip", "netns", "exec", self.site["client"].space, "bash", "-c", f"cd {self.site.shared} && exec {command}"]
        job = Process(words, self.site.environment | environment)
        self.addCleanup(job.kill)
        return job

    def start_shell(self, work, *flags, **environment):
        (self.site.shared / "work.sh").write_text(work)
        return self.start(" ".join(["scripts/launch/ssh.sh hosts.txt", *flags, "--no-python /bin/sh work.sh"]), **environment)

    def expect_nothing_left(self, within):
        end = time.monotonic() + within
        while left := [entry for entry in processes(self.site.folder) if entry[0] not in self.before]:
            self.assertLess(time.monotonic(), end, f"still there: {left}")
            time.sleep(0.05)

    def refusal(self, *words):
        done = subprocess.run([SCRIPT, *words], capture_output=True, text=True, cwd=self.site.shared)
        return done.returncode, done.stderr

    def test_the_readmes_command_trains_and_every_line_has_its_host(self):
        job = self.start(f"bash -c {repr(readme('printf') + '; ' + readme('scripts/launch/ssh.sh'))}")
        self.assertEqual(job.wait(60), 0, job.text)
        self.assertEqual(trained(job.text), ["node-a", "node-a", "node-b", "node-b"])
        for line in job.text.splitlines():
            self.assertRegex(line, "^node-[ab]: ")
        self.expect_nothing_left(2)

    def test_a_job_file_trains_across_the_hosts(self):
        job = self.start("scripts/launch/ssh.sh hosts.txt train.json")
        self.assertEqual(job.wait(60), 0, job.text)
        self.assertIn("2 ranks of batch 32", job.text)
        self.assertIn("node-a: done: 1 of 1 epochs", job.text)

    def test_the_workers_code_is_the_exit_code_and_streams_stay_apart(self):
        # Rank 1 fails when rank 0 has spoken: else that may be stopped before.
        os.mkfifo(self.site.shared / "spoken")
        (self.site.shared / "work.sh").write_text(
            "echo out $RANK; echo err $RANK >&2; [ $RANK = 1 ] && read -r x <spoken && exit 7; echo >spoken; exec sleep 60")
        job = self.start("bash -c 'scripts/launch/ssh.sh hosts.txt --no-python /bin/sh work.sh 2>errors'")
        self.assertEqual(job.wait(), 7, job.text)
        errors = (self.site.shared / "errors").read_text()
        self.assertIn("node-a: out 0", job.text)
        self.assertIn("node-b: err 1", errors)
        self.assertNotIn("err", job.text)
        self.assertIn("rank 1 exited with code 7", re.sub(r" \(.*?\)", "", errors))
        self.expect_nothing_left(2)

    def test_the_secret_is_the_same_on_all_hosts_and_no_process_of_the_job_shows_it(self):
        job = self.start_shell(WAIT)
        job.expect("up 0"), job.expect("up 1")  # so both have proven it
        self.assertNotIn("no job secret", job.text)
        shown = [line for pid, line in processes(self.site.folder)
                 if re.search(rb"DDPRUN_SECRET=[0-9a-f]", pathlib.Path(f"/proc/{pid}/environ").read_bytes())
                 and line.startswith(("ddprun ", "job-guard", "/bin/sh"))]
        self.assertEqual(shown, [])
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                self.assertNotRegex(entry.read_bytes(), rb"DDPRUN_SECRET=[0-9a-f]{64}")
            except OSError:
                pass  # it has ended meanwhile
        job.child.send_signal(signal.SIGTERM)
        job.wait()

    def test_variables_and_arguments_arrive_as_they_are(self):
        odd = "it's \"$HOME\" & `x` \\ *"
        job = self.start("scripts/launch/ssh.sh hosts.txt --no-python /bin/sh -c 'echo \"<$ODD> <$1>\"' sh \"$ODD\"",
                         ODD=odd, DDPRUN_EXPORT="ODD")
        self.assertEqual(job.wait(), 0, job.text)
        self.assertEqual(job.text.count(f"<{odd}> <{odd}>"), 2, job.text)

    def test_ctrl_c_lets_the_workers_save_on_all_hosts(self):
        job = self.start_shell(WAIT)
        job.expect("up 0"), job.expect("up 1")
        os.killpg(job.child.pid, signal.SIGINT)  # as a terminal does: to all of its foreground
        job.expect("node-a: saved 0"), job.expect("node-b: saved 1")
        self.assertEqual(job.wait(), 130, job.text)
        self.expect_nothing_left(2)

    def test_ctrl_c_twice_kills_at_once(self):
        job = self.start_shell(DEAF)
        job.expect("up 0"), job.expect("up 1")
        os.killpg(job.child.pid, signal.SIGINT)
        job.expect("SIGINT")
        os.killpg(job.child.pid, signal.SIGINT)
        self.assertEqual(job.wait(5), 130, job.text)
        self.expect_nothing_left(2)

    def test_a_killed_client_leaves_nothing_behind(self):
        job = self.start_shell(WAIT)
        job.expect("up 0"), job.expect("up 1")
        job.child.kill()
        self.expect_nothing_left(10)
        self.assertIn("node-a: saved 0", job.text)
        self.assertIn("node-b: saved 1", job.text)

    def test_a_closed_connection_ends_the_job_everywhere(self):
        job = self.start_shell(WAIT)
        job.expect("up 0"), job.expect("up 1")
        client = [pid for pid, line in processes(self.site.folder) if line.startswith("ssh -F") and "node-b" in line]
        self.assertEqual(len(client), 1)
        os.kill(client[0], signal.SIGKILL)
        self.assertNotEqual(job.wait(), 0, job.text)
        self.assertIn("node-a: saved 0", job.text)
        self.expect_nothing_left(5)

    def test_a_client_that_is_cut_off_leaves_nothing_behind(self):
        job = self.start_shell(WAIT, DDPRUN_SSH_SILENCE="2")
        job.expect("up 0"), job.expect("up 1")
        self.site["client"].pull_plug()
        self.addCleanup(self.site["client"].replug)
        self.assertEqual(job.wait(), 255, job.text)
        self.assertIn("ssh.sh: node-b: ssh could not reach it, or lost it", job.text)
        self.site["client"].replug()
        self.expect_nothing_left(10)

    def test_a_host_that_cannot_be_reached_ends_the_job(self):
        (self.site.shared / "hosts.txt").write_text("node-a\nnode-x\n")
        job = self.start_shell(WAIT)
        self.assertEqual(job.wait(), 255, job.text)
        self.assertIn("node-x: ssh: Could not resolve hostname node-x", job.text)
        self.assertIn("ssh.sh: one host ended with 255; stopping the other 1", job.text)
        self.expect_nothing_left(2)

    def test_a_program_or_folder_that_is_missing_on_a_host_is_said(self):
        job = self.start("scripts/launch/ssh.sh hosts.txt train.py", DDPRUN="no-such-ddprun")
        self.assertEqual(job.wait(), 127, job.text)
        self.assertIn("no-such-ddprun: not found", job.text)

    def test_what_is_wrong_is_refused_before_any_host_is_asked(self):
        (self.site.shared / "bad.txt").write_text("-oProxyCommand=x\n")
        (self.site.shared / "empty.txt").write_text("# nobody\n")
        self.assertEqual(self.refusal("empty.txt", "x"), (64, "ssh.sh: no host in empty.txt; write one a line\n"))
        self.assertEqual(self.refusal("hosts.txt"),
                         (64, "ssh.sh: nothing to run: name a job.json, script.py or program after the hosts\n"))
        code, said = self.refusal("bad.txt", "x")
        self.assertEqual((code, said), (64, 'ssh.sh: bad.txt: "-oProxyCommand=x" is no host; write one a line, as ssh knows it\n'))
        help_text = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True)
        self.assertEqual(help_text.returncode, 0)
        self.assertIn("scripts/launch/ssh.sh HOSTS [ddprun's flags] PROGRAM [ARGUMENTS]", help_text.stdout)


class Elastic(unittest.TestCase):
    def test_an_elastic_job_goes_on_without_a_host_that_loses_power(self):
        with SshSite(["node-a", "node-b"], DDPRUN, PYTHON) as site:
            (site.shared / "hosts.txt").write_text("node-a\nnode-b\n")
            (site.shared / "work.sh").write_text("echo up $RANK of $WORLD_SIZE; [ $WORLD_SIZE = 1 ] || exec sleep 60")
            command = "scripts/launch/ssh.sh hosts.txt --nnodes 1:2 --rdzv-conf keep_alive_interval=0.2 --no-python /bin/sh work.sh"
            job = site.shell(site["client"], command, DDPRUN_SSH_SILENCE="4")
            job.expect("up 0 of 2"), job.expect("up 1 of 2")
            site["node-b"].cut_power()
            job.expect("node-a: up 0 of 1")
            self.assertEqual(job.wait(), 0, job.text)


if __name__ == "__main__":
    require_namespaces()
    require_programs("openssh-server", "/usr/sbin/sshd", "ssh-keygen")
    require_programs("openssh-client", "ssh")
    unittest.main(verbosity=2)
