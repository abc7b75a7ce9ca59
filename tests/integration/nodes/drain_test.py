"""Jobs of several agents on this machine are told to go: C++ workers and Python scripts save at one step.
Usage: drain_test.py BINARIES DRAIN_PROGRAM [unittest arguments]"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "training"))
from jobs import BOUND_S, JobTest, patient  # noqa: E402
from owned import own  # noqa: E402
from ports import free_port  # noqa: E402

REQUEUE = 75
LONG_JOB = {"data": {"train_samples": 20000}, "train": {"epochs": 1000, "batch_size": 8}, "checkpoint": {"keep": 3}}

SCRIPT = """
import os, signal, sys, time
stop = False
def on_term(*_):
    global stop
    stop = True
signal.signal(signal.SIGTERM, on_term)
print("up", flush=True)
while not stop:
    time.sleep(0.01)
print("rank", os.environ["RANK"], "saved", flush=True)
"""


class DrainTest(JobTest):
    def start_node(self, number, nodes, program, *flags):
        errors = open(self.folder / f"node{number}.txt", "w", encoding="utf-8")
        self.addCleanup(errors.close)
        command = [str(self.binaries / "ddprun"), "--nnodes", nodes, "--rdzv-endpoint", f"127.0.0.1:{self.port}",
                   "--rdzv-id", self.id(), "--rdzv-conf", "last_call_timeout=60", *flags, *map(str, program)]
        node = subprocess.Popen(command, cwd=self.folder, env=self.environment(), text=True, stdout=subprocess.PIPE,
                                stderr=errors)
        return own(self, node)

    def start_nodes(self, count, nodes, program, *flags):
        self.port = free_port()
        return [self.start_node(number, nodes, program, *flags) for number in range(count)]

    def said(self, number):
        return (self.folder / f"node{number}.txt").read_text(encoding="utf-8")

    def finish_node(self, number, node, *expect):
        output, _ = node.communicate(timeout=BOUND_S)
        self.assertIn(node.returncode, expect, f"node {number}:\n{output}\n{self.said(number)}")
        return output

    def steps_in_checkpoints(self):
        names = (self.folder / "out/checkpoints").glob("step-*.pt")
        return sorted(int(re.search(r"step-(\d+)", name.name).group(1)) for name in names)

    def wait_for_training(self, earlier_starts=0):
        """Until rank 0 has written a step into the metrics, after so many starts."""
        metrics = self.folder / "out/metrics.jsonl"
        for _ in range(patient(1200)):
            starts = metrics.read_text(encoding="utf-8").split('"event":"start"') if metrics.exists() else []
            if len(starts) > earlier_starts + 1 and '"event":"step"' in starts[-1]:
                return
            signal.sigtimedwait([], 0.05)
        self.fail(self.said(0))


class CppWorkers(DrainTest):
    def job(self):
        return self.job_file({**LONG_JOB, "log": {"every_steps": 5}})

    def assert_all_stopped_after_one_step(self, output):
        stopped = re.search(r"stopped by SIG\w+ after step (\d+); the same command goes on from", output)
        self.assertIsNotNone(stopped, output)
        self.assertEqual(self.steps_in_checkpoints()[-1], int(stopped.group(1)))

    def test_preemption_of_one_of_three_nodes_saves_one_step_of_all_ranks_and_says_requeue(self):
        nodes = self.start_nodes(3, "3", [self.job()])
        self.wait_for_training()
        nodes[1].send_signal(signal.SIGTERM)
        outputs = [self.finish_node(number, node, REQUEUE) for number, node in enumerate(nodes)]
        self.assert_all_stopped_after_one_step("".join(outputs))
        again = self.start_nodes(3, "3", [self.job()])
        self.wait_for_training(earlier_starts=1)
        again[0].send_signal(signal.SIGTERM)
        outputs = [self.finish_node(number, node, REQUEUE) for number, node in enumerate(again)]
        self.assertIn("resumed from", "".join(outputs))

    def test_ddprun_drain_saves_one_step_of_all_ranks(self):
        nodes = self.start_nodes(2, "2", [self.job()])
        self.wait_for_training()
        subprocess.run([str(self.binaries / "ddprun"), "drain", str(nodes[0].pid)], check=True, capture_output=True,
                       timeout=patient(10))
        outputs = [self.finish_node(number, node, REQUEUE) for number, node in enumerate(nodes)]
        self.assert_all_stopped_after_one_step("".join(outputs))

    def test_a_node_leaves_an_elastic_job_and_the_rest_resume_from_the_step_of_the_drain(self):
        job = self.job_file({**LONG_JOB, "train": {"epochs": 4, "batch_size": 8}, "log": {"every_steps": 5}})
        nodes = self.start_nodes(3, "2:3", [job])
        self.wait_for_training()
        leaving = next(node for node in nodes if self.is_not_coordinator(node))
        leaving.send_signal(signal.SIGTERM)
        outputs = [self.finish_node(number, node, REQUEUE if node is leaving else 0) for number, node in enumerate(nodes)]
        text = "".join(outputs)
        stopped = re.search(r"stopped by SIGTERM after step (\d+)", text)
        self.assertIsNotNone(stopped, text)
        self.assertRegex(text, rf"resumed from \S+step-0*{stopped.group(1)}\.pt")

    def test_ctrl_c_leaves_a_checkpoint_of_one_step(self):
        job = self.job()
        node = self.start(job, ranks=2)
        self.wait_for_training()
        node.send_signal(signal.SIGINT)
        self.assert_all_stopped_after_one_step(self.finish(node, expect=128 + signal.SIGINT))

    @staticmethod
    def is_not_coordinator(node):
        """The coordinator's process listens; the others do not."""
        inodes = set()
        for link in pathlib.Path(f"/proc/{node.pid}/fd").iterdir():
            match = re.match(r"socket:\[(\d+)\]", str(link.readlink()))
            if match:
                inodes.add(match.group(1))
        lines = [line.split() for name in ("tcp", "tcp6") for line in pathlib.Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
        return not any(fields[3] == "0A" and fields[9] in inodes for fields in lines)


class OwnPrograms(DrainTest):
    program = None  # drain_program.cc

    def pids_in_training(self, nodes):
        lines = [node.stdout.readline() for node in nodes]
        found = [re.fullmatch(r"rank (\d+) trains in pid (\d+)\n", line) for line in lines]
        self.assertNotIn(None, found, "".join(lines) + self.said(0))
        return {int(match.group(1)): int(match.group(2)) for match in found}

    def test_on_drain_is_called_on_every_rank_after_the_same_step(self):
        nodes = self.start_nodes(3, "3", [self.program])
        self.pids_in_training(nodes)
        nodes[2].send_signal(signal.SIGTERM)
        text = "".join(self.finish_node(number, node, REQUEUE) for number, node in enumerate(nodes))
        saved = dict(re.findall(r"rank (\d+) saved step (\d+)", text))
        self.assertEqual(sorted(saved), ["0", "1", "2"], text)
        self.assertEqual(len(set(saved.values())), 1, text)

    def test_what_came_too_late_for_one_part_of_the_work_stops_the_next(self):
        text = self.finish_node(0, *self.start_nodes(1, "1", [self.program, "parts"]), 0)
        self.assertIn(f"rank 0 stopped in its second part for signal {int(signal.SIGTERM)}", text)
        self.finish_node(0, *self.start_nodes(1, "1", [self.program, "parts", "still"]), 128 + signal.SIGTERM)

    def test_a_rank_that_alone_was_signalled_says_so_and_does_not_wait_for_ever(self):
        nodes = self.start_nodes(2, "2", [self.program], "--shutdown-timeout", "1s")
        os.kill(self.pids_in_training(nodes)[0], signal.SIGTERM)
        # Its own code, or that of the other rank, which sees its connection close a moment earlier.
        text = "".join(self.finish_node(number, node, 3, 1) for number, node in enumerate(nodes))
        self.assertRegex(text, r"rank 0 stopped alone after step \d+")
        self.assertNotIn("saved", text)


class PythonScripts(DrainTest):
    def test_a_script_gets_sigterm_on_every_node_and_its_last_words_are_heard(self):
        script = self.folder / "script.py"
        script.write_text(SCRIPT)
        nodes = self.start_nodes(2, "2", [script], "--nproc-per-node", "2")
        for node in nodes:
            for _ in range(2):
                self.wait_for_line(node, "up")
        nodes[1].send_signal(signal.SIGTERM)
        text = "".join(self.finish_node(number, node, REQUEUE) for number, node in enumerate(nodes))
        self.assertEqual(sorted(line for line in text.splitlines() if "saved" in line),
                         [f"rank {rank} saved" for rank in range(4)])


if __name__ == "__main__":
    JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    OwnPrograms.program = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
