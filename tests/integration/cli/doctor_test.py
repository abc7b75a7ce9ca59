"""ddprun doctor on this machine: what can be held against another source, and what is made wrong on purpose."""

import os
import platform
import socket
import sys
import unittest

from harness import Case


class Doctor(Case):
    def doctor(self, **changes):
        done = self.ddprun("doctor", **changes)
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

    def test_it_takes_no_words(self):
        done = self.ddprun("doctor", "node-b")
        self.assertEqual((done.returncode, done.stderr), (64, 'ddprun: doctor: unexpected "node-b"; write ddprun doctor alone, or '
                                                              "./doctor for a program\n"))


if __name__ == "__main__":
    unittest.main()
