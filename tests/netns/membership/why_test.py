"""`ddprun why` and `ddprun ps --watch` of real torch.distributed jobs over several hosts, which are network namespaces.

why_test.py DDPRUN PYTHON [unittest arguments]
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from lab import Lab, require_namespaces, skip  # noqa: E402
from patience import patient  # noqa: E402

DDPRUN = sys.argv.pop(1)
PYTHON = sys.argv.pop(1)
PORT = 29400
# Agents that are patient: what is looked at is the ranks.
CONF = "keep_alive_interval=20,keep_alive_max_attempt=3"
JOB = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(5):
    dist.all_reduce(torch.ones(1000))
print("rank", dist.get_rank(), "is there", flush=True)
if dist.get_rank() == int(sys.argv[1]):
    open(sys.argv[2]).read()
while True:
    dist.all_reduce(torch.ones(int(sys.argv[3])))
"""
# Rank 0 gets on by itself and then waits; rank 1 computes all the time.
UNEVEN = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
alone = [dist.new_group([rank]) for rank in (0, 1)]
for _ in range(5):
    dist.all_reduce(torch.ones(1000))
print("rank", dist.get_rank(), "is there", flush=True)
begin = time.monotonic()
while time.monotonic() < begin + (11 if dist.get_rank() == 0 else 16):
    if dist.get_rank() == 0:
        dist.all_reduce(torch.ones(10), group=alone[0])
        time.sleep(1)
dist.all_reduce(torch.ones(1000))
dist.destroy_process_group()  # without it torch 2.11 aborts now and then as it ends, under torchrun as well
"""
SPINS = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
print("rank", dist.get_rank(), "is there", flush=True)
while dist.get_rank() == 1:
    pass
dist.all_reduce(torch.ones(1000))
"""


class Why(unittest.TestCase):
    def start(self, lab, guilty, size=1000, flags=("--hang-report", "0"), job=JOB):
        """A rank on each host; that one waits for the writer of a FIFO."""
        self.fifo = pathlib.Path(lab.folder, "fifo")
        os.mkfifo(self.fifo)
        script = pathlib.Path(lab.folder, "train.py")
        script.write_text(job)
        jobs = [host.run(DDPRUN, "--nnodes", len(lab.hosts), "--rdzv-endpoint", f"a:{PORT}", "--rdzv-id", "job", "--rdzv-conf",
                         CONF, *flags, script, guilty, self.fifo, size, PYTHON_EXEC=PYTHON, OMP_NUM_THREADS="1",
                         GLOO_SOCKET_IFNAME="e0")
                for host in lab.hosts.values()]
        for job in jobs:
            job.expect("is there", within=60)
        return jobs

    def inside(self, host):
        """The first process of the pid namespace in which the job of that host runs."""
        outer = host.processes[0].child.pid
        return pathlib.Path(f"/proc/{outer}/task/{outer}/children").read_text().split()[0]

    def on(self, host, *words):
        return ["nsenter", "--target", self.inside(host), "--net", "--pid", "--mount", "--uts", DDPRUN, *words]

    def why(self, host):
        command = self.on(host, "why")
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=patient(30), check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, time.monotonic() - began

    def expect(self, host, *sentences):
        """The page says all of them, perhaps not the first time: ranks need a moment to be where they hang."""
        end = time.monotonic() + patient(40)
        while True:
            page, took = self.why(host)
            if all(sentence in page for sentence in sentences):
                return page, took
            if time.monotonic() > end:
                self.fail(f"not {sentences} on {host.name}, but after {took:.1f} s:\n{page}")

    def test_a_job_of_three_nodes_is_explained_from_any_of_them(self):
        with Lab(["a", "b", "c"]) as lab:
            self.start(lab, guilty=1)
            for host in lab.hosts.values():
                page, took = self.expect(host, "rank 1 is late: it has not entered all_reduce #6", "ranks 0, 2 have waited",
                                         "it is on host b (pid", f"open() of {self.fifo}, a FIFO", "train.py:")
                self.assertNotIn("ranks were seen", page)
                print(f"asked on {host.name}, {took:.1f} s:\n{page}", flush=True)

    def test_a_time_out_ends_the_guilty_rank_on_whatever_node_it_is(self):
        with Lab(["a", "b", "c"]) as lab:
            jobs = self.start(lab, guilty=1, flags=("--hang-timeout", "3s", "--hang-report", "0"))
            said = "no progress for 3.0 s (--hang-timeout), so ddprun ended it: rank 1 is late"
            for job in jobs:
                job.expect(said, within=60)
                self.assertEqual(job.wait(30), 137)

    def test_a_rank_that_others_have_waited_for_for_less_than_the_time_out_is_left_in_peace(self):
        """It is silent for longer than that, and so is nobody else for as long."""
        with Lab(["a", "b"]) as lab:
            jobs = self.start(lab, guilty=-1, flags=("--hang-timeout", "8s", "--hang-report", "0"), job=UNEVEN)
            for job in jobs:
                self.assertEqual(job.wait(90), 0, job.text)
                self.assertNotIn("no progress", job.text)

    def test_a_rank_that_computes_before_its_first_collective_is_told_and_the_job_ended(self):
        with Lab(["a", "b"]) as lab:
            jobs = self.start(lab, guilty=-1, flags=("--hang-timeout", "3s", "--hang-report", "0"), job=SPINS)
            jobs[0].expect("rank 1 is late", within=60)
            for job in jobs:
                self.assertNotEqual(job.wait(60), 0, job.text)
            self.assertIn("no progress for 3.0 s (--hang-timeout), so ddprun ended it: rank 1 is late", jobs[0].text)

    def test_the_report_names_a_rank_of_another_node(self):
        with Lab(["a", "b", "c"]) as lab:
            jobs = self.start(lab, guilty=2, flags=("--hang-report", "3s"))
            for job in (jobs[2], jobs[0]):
                job.expect("rank 2 is late: it has not entered all_reduce #6", within=60)
                job.expect("it is on host c (pid", within=60)

    def test_a_node_that_does_not_answer_is_named(self):
        with Lab(["a", "b", "c"]) as lab:
            self.start(lab, guilty=1)
            launcher = self.launcher_on(lab["b"])
            os.kill(launcher, signal.SIGSTOP)
            page, took = self.expect(lab["c"], "2 of 3 ranks were seen: node b (10.213.0.2) has not answered within 4.7 s",
                                     "who is late was not seen")
            self.assertLess(took, patient(9))  # two waits, one after the other, take longer
            with subprocess.Popen(self.on(lab["c"], "why"), stdout=subprocess.DEVNULL):
                time.sleep(0.3)  # so that it is the second one: in the first's time nobody can answer it
                second, _ = self.why(lab["c"])
            self.assertIn("2 of 3 ranks were seen: node b (10.213.0.2) has not answered", second)
            os.kill(launcher, signal.SIGCONT)
            self.expect(lab["c"], "rank 1 is late", "it is on host b (pid")
            print(page, flush=True)

    def page(self, host, *patterns, without=None):
        """The first of `ddprun ps --watch` there that has all of them, and not the words `without`."""
        watching = subprocess.Popen(self.on(host, "ps", "--watch"), stdout=subprocess.PIPE, text=True)
        end, page = time.monotonic() + patient(40), ""
        with watching:
            try:
                while not all(re.search(pattern, page, re.MULTILINE) for pattern in patterns) or (without and without in page):
                    self.assertLess(time.monotonic(), end, f"not {patterns} on {host.name}, but\n{page}")
                    page = ""
                    while (line := watching.stdout.readline()) != "\n":
                        self.assertTrue(line, page)
                        page += line
            finally:
                watching.kill()
        return page

    def test_the_ranks_of_all_nodes_are_on_the_page_of_any_of_them(self):
        with Lab(["a", "b", "c"]) as lab:
            self.start(lab, guilty=-1)
            rows = [rf"^  {rank} +{name} +\d+ .* [1-9]\d* +[0-9.]+/s " for rank, name in enumerate("abc")]
            for host in lab.hosts.values():
                page = self.page(host, *rows, without="answered")
                print(f"on {host.name}:\n{page}", flush=True)
            lab["c"].pull_plug()
            print(self.page(lab["a"], *rows[:2], r"^  node c \(10\.213\.0\.3\) has not answered within 1\.5 s"), flush=True)
            lab["c"].replug()

    def launcher_on(self, host):
        """Outside its pid namespace."""
        space = os.readlink(f"/proc/{self.inside(host)}/ns/pid")
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if words[0] == DDPRUN.encode() and os.readlink(folder / "ns/pid") == space:
                    return int(folder.name)
            except OSError:
                continue
        self.fail(f"no launcher on {host.name}")

    def test_a_partition_between_two_nodes_is_the_networks_fault(self):
        with Lab(["a", "b", "c"]) as lab:
            self.start(lab, guilty=-1, size=300_000)
            lab["c"].pull_plug()
            page, took = self.expect(lab["a"], "node c (10.213.0.3) has not answered", "get packets through", "10.213.0.3")
            print(f"{took:.1f} s\n{page}", flush=True)
            lab["c"].replug()

    def test_a_node_that_is_cut_off_while_nothing_is_on_its_way_between_the_ranks(self):
        """Rank 2 owes the others everything, they owe it nothing: no packet of theirs is lost, only the launcher's."""
        with Lab(["a", "b", "c"]) as lab:
            self.start(lab, guilty=2)
            self.expect(lab["a"], "rank 2 is late")
            lab["c"].pull_plug()
            for host in (lab["a"], lab["b"]):
                page, took = self.expect(host, "the network to 10.213.0.3, where rank 2 must be, does not get packets through",
                                         "node c (10.213.0.3) has not answered")
                print(f"asked on {host.name}, {took:.1f} s:\n{page}", flush=True)
            lab["c"].replug()

    def test_packets_that_are_lost_in_one_direction_are_the_networks_fault(self):
        with Lab(["a", "b", "c"]) as lab:
            self.start(lab, guilty=-1, size=300_000)
            lab["c"].firewall("ip daddr 10.213.0.0/24 drop")
            page, took = self.expect(lab["a"], "get packets through", "10.213.0.3")
            print(f"{took:.1f} s\n{page}", flush=True)
            lab["c"].no_firewall()

    def test_a_slow_link_is_slow_and_no_hang(self):
        with Lab(["a", "b", "c"]) as lab:
            self.start(lab, guilty=-1, size=300_000)
            lab["c"].inside("tc", "qdisc", "add", "dev", "e0", "root", "tbf", "rate", "20mbit", "burst", "32kb", "latency", "400ms")
            for _ in range(3):
                page, took = self.why(lab["a"])
                self.assertNotIn("stuck", page)
                self.assertNotIn("is late", page)
            print(f"{took:.1f} s\n{page}", flush=True)


if __name__ == "__main__":
    require_namespaces()
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        skip("needs a Python with torch (./scripts/setup.sh --with-tests)")
    unittest.main()
