"""One ddprun on each host by Open MPI's mpirun, which reaches the other host through ssh.

Usage: mpirun_test.py DDPRUN PYTHON [unittest arguments]
"""

import os
import signal
import sys
import time
import unittest

from hosts import processes, readme, require_namespaces, require_programs, trained
from ssh_hosts import SshSite

DDPRUN, PYTHON = sys.argv.pop(1), sys.argv.pop(1)
WORK = "echo up $RANK of $WORLD_SIZE; exec sleep 60"


class Mpirun(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.site = SshSite(["node-a", "node-b"], DDPRUN, PYTHON)
        cls.addClassCleanup(cls.site.__exit__)
        # What the reader has in other ways: no root, keys in place.
        cls.site.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                                 "OMPI_MCA_btl": "self,tcp",
                                 "OMPI_MCA_plm_rsh_agent": cls.site.environment["DDPRUN_SSH"]}

    def start(self, command):
        job = self.site.shell(self.site["node-a"], command)
        self.addCleanup(job.kill)
        return job

    def start_work(self, script):
        (self.site.shared / "work.sh").write_text(script)
        program = "ddprun --master-addr node-a --no-python /bin/sh work.sh"
        return self.start(f"exec mpirun --host node-a,node-b --map-by ppr:1:node {program}")

    def expect_nothing_left(self):
        end = time.monotonic() + 15
        ours = ("ddprun", "/bin/sh work", "sleep", "mpirun", "orted")
        while left := [line for _, line in processes(self.site.folder) if line.startswith(ours)]:
            self.assertLess(time.monotonic(), end, left)
            time.sleep(0.05)

    def test_the_pages_command_on_one_machine_trains(self):
        job = self.start(readme("mpirun --oversubscribe"))
        self.assertEqual(job.wait(60), 0, job.text)
        self.assertIn("3 ranks of batch 32", job.text)
        self.assertIn("done: 1 of 1 epochs", job.text)

    def test_the_readmes_command_on_two_machines_trains(self):
        job = self.start(readme("mpirun --host"))
        self.assertEqual(job.wait(60), 0, job.text)
        self.assertEqual(trained(job.text), ["node-a", "node-a", "node-b", "node-b"])

    def test_without_an_address_two_machines_are_told_what_is_missing(self):
        job = self.start("mpirun --host node-a,node-b --map-by ppr:1:node ddprun /bin/true")
        self.assertEqual(job.wait(30), 64, job.text)
        self.assertIn("Open MPI started ddprun on 2 nodes but does not tell the first one's name; add --master-addr", job.text)

    def test_a_workers_exit_code_is_mpiruns_and_nothing_is_left(self):
        job = self.start_work("[ $RANK = 1 ] && exit 7; exec sleep 60")
        self.assertEqual(job.wait(30), 7, job.text)
        self.assertIn("exited with code 7", job.text)
        self.expect_nothing_left()

    def test_ctrl_c_ends_all_and_leaves_nothing(self):
        job = self.start_work(WORK)
        job.expect("up 0 of 2"), job.expect("up 1 of 2")
        self.signal_mpirun(signal.SIGINT)
        self.assertNotEqual(job.wait(30), 0, job.text)
        self.expect_nothing_left()

    def test_a_killed_mpirun_leaves_nothing(self):
        job = self.start_work(WORK)
        job.expect("up 0 of 2"), job.expect("up 1 of 2")
        self.signal_mpirun(signal.SIGKILL)
        job.wait(30)
        self.expect_nothing_left()

    def signal_mpirun(self, number):
        pid, = (pid for pid, line in processes(self.site.folder) if line.startswith("mpirun "))
        os.kill(pid, number)


if __name__ == "__main__":
    require_namespaces()
    require_programs("openmpi-bin", "mpirun")
    require_programs("openssh-server openssh-client", "/usr/sbin/sshd", "ssh-keygen", "ssh")
    unittest.main(verbosity=2)
