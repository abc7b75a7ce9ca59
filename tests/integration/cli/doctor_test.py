"""ddprun doctor on this machine: what can be held against another source, and what is made wrong on purpose."""

import json
import os
import pathlib
import platform
import re
import shutil
import socket
import subprocess
import sys
import unittest

from harness import BOUND_S, DDPRUN, Case
from skips import skip


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

    def test_json_says_what_the_page_says(self):
        page = self.doctor(PYTHON_EXEC=self.script("python", "#!/bin/sh\nexit 3\n"))
        done = self.ddprun("doctor", "--json", PYTHON_EXEC=str(self.folder / "python"))
        self.assertEqual((done.returncode, done.stderr), (78, ""))
        told = json.loads(done.stdout)
        self.assertEqual([told["host"], told["kernel"]], [socket.gethostname(), platform.release()])
        self.assertEqual([(finding["kind"], finding["topic"]) for finding in told["findings"]],
                         [(kind.lower(), topic) for kind, topic in re.findall(r"^(ok|note|WRONG) +(\S.*?)  ", page, re.MULTILINE)])
        python = next(finding for finding in told["findings"] if finding["topic"] == "Python")
        self.assertEqual(python["kind"], "wrong")
        self.assertIn("PYTHON_EXEC names another", python["mend"])
        self.assertEqual(told["wrong"], sum(finding["kind"] == "wrong" for finding in told["findings"]))

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
        if re.search(rb"__[at]san_init", pathlib.Path(DDPRUN).read_bytes()):
            skip("a sanitizer's runtime needs /proc")
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
        self.assertEqual((done.returncode, done.stdout), (64, ""))
        self.assertRegex(done.stderr, r'^ddprun: doctor: unexpected "node-b"; write ddprun doctor \[--json\], or .*, or \./doctor for a program\n$')


class Together(Case):
    """Several of them on this host alone; tests/netns/doctor has hosts with a network between."""

    def port(self):
        with socket.create_server(("127.0.0.1", 0)) as held:
            return held.getsockname()[1]

    def together(self, *flags, port, **changes):
        return self.start("doctor", "--nnodes", 3, "--rdzv-endpoint", f"127.0.0.1:{port}", *flags, **changes)

    def test_three_on_one_host_find_each_other_and_print_one_page(self):
        port = self.port()
        started = [self.together(port=port) for _ in range(3)]
        said = [process.communicate(timeout=BOUND_S)[0] for process in started]
        self.assertEqual(said, [said[0]] * 3)
        self.assertTrue(said[0].startswith(f"3 of 3 hosts at 127.0.0.1:{port}\n\nok    hosts "), said[0])
        self.assertIn(f"ok    reach          all reach 127.0.0.1:{port} (from here), ", said[0])
        self.assertEqual([process.returncode for process in started], [78 if "\nWRONG" in said[0] else 0] * 3)

    def test_a_port_that_is_taken_is_told(self):
        with socket.create_server(("127.0.0.1", 0)) as held:
            done = self.ddprun("doctor", "--nnodes", 2, "--rdzv-endpoint", f"127.0.0.1:{held.getsockname()[1]}", "--node-rank", 0)
        self.assertEqual(done.returncode, 78)
        self.assertRegex(done.stdout, r"WRONG meeting .*: address already in use|WRONG meeting .*Address already in use")
        self.assertIn("take another port\n", done.stdout)

    def test_what_is_there_and_is_no_doctor_is_told(self):
        store = self.start("store", "--host", "127.0.0.1", "--port", 0)
        done = self.ddprun("doctor", "--nnodes", 2, "--rdzv-endpoint", f"127.0.0.1:{store.stdout.readline().strip()}", "--timeout", "5s")
        self.assertEqual(done.returncode, 78)
        self.assertIn("was lost before the page was made", done.stdout)

    def test_a_coordinator_of_a_job_is_told_from_a_doctor(self):
        job = self.start("coordinator", "--bind", "127.0.0.1:0", "--nnodes", 2, "--rdzv-id", "train")
        done = self.ddprun("doctor", "--nnodes", 2, "--rdzv-endpoint", f"127.0.0.1:{job.stdout.readline().strip()}")
        self.assertEqual(done.returncode, 78)
        self.assertIn('belongs to job "ddprun doctor", but job "train" is served here', done.stdout)

    def test_where_they_meet_has_to_be_said(self):
        done = self.ddprun("doctor", "--nnodes", 2)
        self.assertEqual((done.returncode, done.stderr), (64, "ddprun: doctor: where do the hosts meet? give all of them one "
                                                              "--rdzv-endpoint HOST:PORT\n"))
        done = self.ddprun("doctor", "--nnodes", 2, "--rdzv-endpoint", "127.0.0.1:0")
        self.assertEqual((done.returncode, done.stderr), (64, "ddprun: doctor: --rdzv-endpoint: the others cannot know which port 0 "
                                                              "becomes; name one\n"))


if __name__ == "__main__":
    unittest.main()
