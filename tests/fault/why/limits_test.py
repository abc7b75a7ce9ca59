#!/usr/bin/env python3
"""--hang-report and --hang-timeout, of a real job in which rank 1 reads what nobody writes.

limits_test.py DDPRUN PYTHON EPOLL_PROGRAM
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from tests.support.patience import patient  # noqa: E402
from tests.support.ports import free_port  # noqa: E402
from tests.support.skips import has_thread_sanitizer, skip  # noqa: E402

JOB = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(5):
    dist.all_reduce(torch.ones(1000))
if dist.get_rank() == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    open(sys.argv[1]).read()
dist.all_reduce(torch.ones(1000))
print("rank", dist.get_rank(), "is through", flush=True)
dist.destroy_process_group()
"""


SPLIT = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
for _ in range(5):
    dist.all_reduce(torch.ones(1000))
if dist.get_rank() == 0:
    dist.all_reduce(torch.ones(1000))
else:
    dist.broadcast(torch.ones(1000), 0)
"""


LEAVES = """
import os, torch.distributed as dist
dist.init_process_group("gloo")
if dist.get_rank() == 1:
    os._exit(0)
dist.distributed_c10d._get_default_store().get("nobody")
"""


HEALTHY = """
import pathlib, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
stop = torch.zeros(1)
print("rank", dist.get_rank(), "is up", flush=True)
while not stop:
    stop.fill_(float(pathlib.Path("stop").exists()))
    dist.all_reduce(stop, op=dist.ReduceOp.MIN)
dist.destroy_process_group()
"""
HALF = """
import pathlib, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
half = dist.get_rank() // 2
for _ in range(5):
    dist.all_reduce(torch.ones(1000), group=halves[half])
if half == 0:
    if dist.get_rank() == 1:
        open(sys.argv[1]).read()
    dist.all_reduce(torch.ones(1000), group=halves[0])
    pathlib.Path("stop").touch()
stop = torch.zeros(1)
while half == 1 and not stop:
    time.sleep(0.01)
    stop.fill_(float(pathlib.Path("stop").exists()))
    dist.all_reduce(stop, op=dist.ReduceOp.MIN, group=halves[1])
dist.destroy_process_group()
"""
LIMIT_S = 2


class Limits(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ddprun-hang-")
        self.addCleanup(self.folder.cleanup)
        self.fifo = pathlib.Path(self.folder.name, "fifo")
        os.mkfifo(self.fifo)
        pathlib.Path(self.folder.name, "train.py").write_text(JOB)

    def start(self, *flags):
        environment = {**os.environ, "PYTHON_EXEC": PYTHON, "OMP_NUM_THREADS": "1"}
        command = [DDPRUN, "--nproc-per-node", "2", "--log-dir", self.folder.name + "/logs", *flags, "train.py", str(self.fifo)]
        return subprocess.Popen(command, cwd=self.folder.name, env=environment, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def report(self):
        return json.loads(next(pathlib.Path(self.folder.name, "logs").rglob("report.json")).read_text())

    def test_a_report_ends_nothing_and_comes_once(self):
        job = self.start("--hang-report", "2s")
        said = ""
        while "rank 1 is late" not in said:
            line = job.stdout.readline()
            self.assertTrue(line, said)
            said += line
        with open(self.fifo, "w", encoding="utf-8") as writer:
            writer.write("data")
        said += job.communicate(timeout=patient(60))[0]
        self.assertEqual(job.returncode, 0, said)
        self.assertEqual(said.count("rank 1 is late"), 1, said)
        self.assertIn("rank 0 is through", said)

    def test_a_hang_of_one_half_is_reported_once_and_not_ended_while_the_other_half_gets_on(self):
        if has_thread_sanitizer(DDPRUN):
            skip("ThreadSanitizer is too slow beside ranks that compute")
        pathlib.Path(self.folder.name, "train.py").write_text(HALF)
        job = self.start("--hang-report", "2s", "--hang-timeout", "3s", "--nproc-per-node", "4")
        self.addCleanup(job.kill)
        said = ""
        while "rank 1 is late" not in said:
            line = job.stdout.readline()
            self.assertTrue(line, said)
            said += line
        asked = subprocess.run([DDPRUN, "why", str(job.pid)], capture_output=True, text=True, check=True)
        self.assertIn("rank 1 is late", asked.stdout)
        time.sleep(4)  # longer than the time-out
        with open(self.fifo, "w", encoding="utf-8") as writer:
            writer.write("data")
        said += job.communicate(timeout=patient(60))[0]
        self.assertEqual(job.returncode, 0, said)
        self.assertEqual(said.count("rank 1 is late"), 1, said)

    def test_a_time_out_kills_the_guilty_rank_which_is_the_root_cause(self):
        job = self.start("--hang-timeout", "2s")
        said = job.communicate(timeout=patient(90))[0]
        self.assertEqual(job.returncode, 137, said)
        self.assertIn("train.py failed: rank 1 ", said)
        self.assertIn("fifo", said)
        report = self.report()
        self.assertEqual(report["root_cause"]["rank"], 1)
        self.assertIn("rank 1 is late", report["hang"])

    def test_two_ranks_in_two_collectives_are_reported_and_ended(self):
        pathlib.Path(self.folder.name, "train.py").write_text(SPLIT)
        job = self.start("--hang-report", "2s", "--hang-timeout", "6s")
        said = job.communicate(timeout=patient(90))[0]
        self.assertEqual(job.returncode, 137, said)
        self.assertIn("different collectives", said)
        self.assertIn("different collectives", self.report()["hang"])
        self.assert_nobody_is_told_apart(said, "ranks 0-1")

    def assert_nobody_is_told_apart(self, said, ranks):
        """All that were ended for the hang are named together, and none of them has failed."""
        self.assertRegex(said, rf"(?m)^  {ranks}: no progress for .* \(--hang-timeout\), so ddprun ended them: ")
        self.assertNotIn("failed as well", said)
        self.assertNotIn("kill -CONT", said[said.index("ended them"):])
        self.assertNotRegex(said, rf"(?m)^  then .*{ranks[-1]}.* because ")

    def test_a_rank_that_left_with_0_is_to_blame_for_the_hang_of_the_others(self):
        pathlib.Path(self.folder.name, "train.py").write_text(LEAVES)
        job = self.start("--hang-timeout", "4s")
        said = job.communicate(timeout=patient(90))[0]
        self.assertEqual(job.returncode, 137, said)
        self.assertRegex(said, r"(?m)^ddprun: train.py failed: rank 1 .* left with exit code 0 after .*, while others waited for it$")
        self.assertRegex(said, r"(?m)^  rank 0: no progress for 4.0 s \(--hang-timeout\), so ddprun ended it: rank 1 has ended")
        self.assertEqual(self.report()["root_cause"]["rank"], 1)

    def test_ranks_that_are_stopped_are_ended_and_named_together(self):
        self.stop_and_wait("1", "2", ranks="1-2")

    def test_a_job_of_which_all_ranks_are_stopped_is_ended(self):
        self.stop_and_wait("0", "1", "2", ranks="0-2")

    def stop_and_wait(self, *which, ranks):
        pathlib.Path(self.folder.name, "train.py").write_text(HEALTHY.replace('"is up"', '"has pid", os.getpid()').replace("import ", "import os, ", 1))
        job = self.start("--hang-timeout", "3s", "--nproc-per-node", "3")
        self.addCleanup(job.kill)
        for _ in range(3):
            words = job.stdout.readline().split()
            if words[-4] in which:
                os.kill(int(words[-1]), signal.SIGSTOP)
        said = job.communicate(timeout=patient(90))[0]
        self.assertEqual(job.returncode, 137, said)
        self.assert_nobody_is_told_apart(said, f"ranks {ranks}")

    def test_a_job_that_was_ended_for_a_hang_is_restarted(self):
        job = self.start("--hang-timeout", "2s", "--max-restarts", "1")
        said = job.communicate(timeout=patient(90))[0]
        self.assertEqual(job.returncode, 0, said)
        self.assertIn("rank 1 is through", said)

    def test_a_job_that_was_suspended_goes_on(self):
        pathlib.Path(self.folder.name, "train.py").write_text(HEALTHY)
        job = self.start("--hang-timeout", f"{LIMIT_S}s")
        self.addCleanup(job.kill)
        for _ in range(2):
            self.assertIn("is up", job.stdout.readline())
        time.sleep(LIMIT_S)  # so that the watch has begun, and looks while all are stopped
        os.kill(job.pid, signal.SIGTSTP)
        time.sleep(3 * LIMIT_S)
        os.kill(job.pid, signal.SIGCONT)
        pathlib.Path(self.folder.name, "stop").touch()
        said = job.communicate(timeout=patient(60))[0]
        self.assertEqual(job.returncode, 0, said)

    def test_a_program_in_a_call_that_a_stop_would_end_is_not_stopped(self):
        for call in [], ["socket"]:
            job = subprocess.Popen([DDPRUN, "--hang-report", "1s", EPOLL_PROGRAM, *call], stdin=subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            said = job.communicate(timeout=patient(60))[0]
            self.assertEqual(job.returncode, 0, said)

    def test_a_job_to_which_a_node_does_not_come_says_so(self):
        job = subprocess.Popen([DDPRUN, "--nnodes", "2", "--rdzv-endpoint", f"127.0.0.1:{free_port()}", "--no-python", "true"], text=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(lambda: (job.kill(), job.communicate()))
        while "1 of 2 nodes are here" not in (line := job.stdout.readline()):
            self.assertTrue(line)
        asked = subprocess.run([DDPRUN, "why", str(job.pid)], text=True, capture_output=True, check=True).stdout
        self.assertRegex(asked, rf"^job ddprun .* \(pid {job.pid}\): waiting\n  1 of 2 nodes are here: node \S+ \(127.0.0.1\)\n$")

    def test_a_job_that_gets_on_is_left_in_peace(self):
        pathlib.Path(self.folder.name, "train.py").write_text(JOB.replace(
            "open(sys.argv[1]).read()", "import time\n    end = time.monotonic() + 6\n    while time.monotonic() < end: pass"))
        job = self.start("--hang-report", "2s")
        said = job.communicate(timeout=patient(90))[0]
        self.assertEqual(job.returncode, 0, said)
        self.assertNotIn("is late", said)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    DDPRUN, PYTHON, EPOLL_PROGRAM = sys.argv[1:4]
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        print("SKIPPED: needs a Python with torch (./scripts/setup.sh --with-tests)", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
