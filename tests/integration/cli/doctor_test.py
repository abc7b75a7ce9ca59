"""ddprun doctor on this machine: what can be held against another source, and what is made wrong on purpose."""

import os
import platform
import shutil
import socket
import subprocess
import sys
import unittest

from harness import BOUND_S, DDPRUN, Case, skip


def in_mount_namespace(*commands):
    """Words in front of ddprun that change its file systems before."""
    words = ("unshare", "-m", "sh", "-c", " && ".join([*commands, 'exec "$@"']), "-")
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], capture_output=True, check=False).returncode != 0:
        skip("needs a mount namespace (unshare -m as root)")
    return words


class Doctor(Case):
    def doctor(self, before=(), **changes):
        done = self.ddprun("doctor", before=before, **changes)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 78 if "\nWRONG" in done.stdout else 0)
        return done.stdout

    def line(self, page, topic):
        return next(line for line in page.splitlines() if line[6:].startswith(topic + " "))

    def test_the_page_says_what_this_machine_says_of_itself(self):
        page = self.doctor(PYTHON_EXEC=sys.executable)
        self.assertTrue(page.startswith(f"{socket.gethostname()}, Linux {platform.release()}\n"), page)
        self.assertIn(f"{len(os.sched_getaffinity(0))} of {os.cpu_count()}", self.line(page, "CPUs"))
        self.assertIn(f"{platform.python_version()} in {sys.executable}", self.line(page, "Python"))
        self.assertRegex(page.splitlines()[-1], r"^(nothing is wrong|1 thing is wrong|\d+ things are wrong), \d+ things? to note$")

    def test_a_python_that_does_not_answer_is_wrong(self):
        page = self.doctor(PYTHON_EXEC=self.script("python", "#!/bin/sh\nexit 3\n"))
        self.assertIn("WRONG Python", page)
        self.assertIn("it cannot tell its own version; PYTHON_EXEC names another", page)

    def test_an_interface_that_is_not_there_is_wrong_and_those_that_are_there_are_named(self):
        page = self.doctor(GLOO_SOCKET_IFNAME="nosuch0")
        self.assertIn("GLOO_SOCKET_IFNAME=nosuch0", page)
        self.assertRegex(page, r"there is no such interface, only .*\blo\b.*: correct or unset it")

    def test_a_temporary_directory_that_cannot_be_written_is_wrong(self):
        (self.folder / "ro").mkdir()
        read_only = in_mount_namespace(f"mount -t tmpfs -o ro none {self.folder}/ro")
        page = self.doctor(before=read_only, TMPDIR=f"{self.folder}/ro")
        self.assertIn(f"WRONG logs           no file can be made in {self.folder}/ro: Read-only file system\n", page)
        page = self.doctor(before=read_only, TMPDIR=f"{self.folder}/ro/none/yet")
        self.assertIn(f"WRONG logs           no file can be made in {self.folder}/ro: Read-only file system\n", page)
        # A job makes it.
        self.assertIn(f" are free in {self.folder}\n", self.doctor(TMPDIR=f"{self.folder}/none/yet"))

    def test_looking_at_a_directory_leaves_nothing_in_it(self):
        self.doctor()
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def test_shared_memory_that_cannot_be_written_is_wrong(self):
        page = self.doctor(before=in_mount_namespace("mount -t tmpfs -o ro,size=2g none /dev/shm"))
        self.assertIn("WRONG /dev/shm       no file can be made in it: Read-only file system\n", page)

    def test_a_machine_without_proc_is_wrong_and_nothing_is_made_up_of_it(self):
        page = self.doctor(before=in_mount_namespace("mount -t tmpfs none /proc"))
        self.assertIn("WRONG /proc          not mounted\n", page)
        self.assertIn("note  memory         unknown without /proc\n", page)
        self.assertIn("note  job files      unknown without /proc\n", page)

    def test_an_answer_that_nobody_can_get_is_a_failure_and_said(self):
        for words in (["doctor"], ["--help"], ["--version"], ["ps"], ["completions", "bash"], ["--dry-run", "true"]):
            for to, why in ((">&-", "it is closed"), (">/dev/full", "No space left on device")):
                done = subprocess.run(["sh", "-c", f'exec "$@" {to}', "-", DDPRUN, *words], cwd=self.folder, timeout=BOUND_S,
                                      env=self.environment(), stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual((words, done.returncode, done.stderr), (words, 71, f"ddprun: cannot write to stdout: {why}\n"))

    def test_a_job_whose_stdout_is_closed_is_a_job(self):
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "-", DDPRUN, "--no-python", "sh", "-c", "echo lost; echo kept >&2"],
                              cwd=self.folder, timeout=BOUND_S, env=self.environment(), stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, "kept\n"))

    def test_it_takes_no_words(self):
        done = self.ddprun("doctor", "node-b")
        self.assertEqual((done.returncode, done.stderr), (64, 'ddprun: doctor: unexpected "node-b"; write ddprun doctor, or '
                                                              "./doctor for a program\n"))


if __name__ == "__main__":
    unittest.main()
