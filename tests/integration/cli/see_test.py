#!/usr/bin/env python3
"""`ddprun ps` and --events beside real jobs."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

from harness import Case
from ports import free_port


class Ps(Case):
    def test_a_running_job_is_listed_and_gone_afterwards(self):
        job = self.start("--nproc-per-node", 2, "--max-restarts", 3, "--rdzv-id", "cifar", "sh", "-c",
                         "echo ready; exec sleep 60")
        self.assertEqual([job.stdout.readline() for _ in range(2)], ["ready\n"] * 2)
        (listed,) = [entry for entry in json.loads(self.ddprun("ps", "--json").stdout) if entry["launcher_pid"] == job.pid]
        self.assertEqual((listed["run_id"], listed["world_size"], listed["restart_count"], listed["max_restarts"]),
                         ("cifar", 2, 0, 3))
        self.assertEqual([worker["rank"] for worker in listed["workers"]], [0, 1])
        stopped = listed["workers"][1]["pid"]
        os.kill(stopped, signal.SIGSTOP)
        while pathlib.Path(f"/proc/{stopped}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            pass
        self.assertIn("stopped", self.ddprun("ps").stdout)
        os.kill(stopped, signal.SIGCONT)
        job.send_signal(signal.SIGTERM)
        job.wait(20)
        self.assertNotIn(f" {job.pid} ", self.ddprun("ps").stdout)

    def test_what_a_worker_left_behind_is_no_worker(self):
        job = self.start("sh", "-c", "sh -c 'setsid sleep 60 & echo $!'; exec sleep 60")
        orphan = job.stdout.readline().strip()
        while pathlib.Path(f"/proc/{orphan}/stat").read_text().rpartition(")")[2].split()[1] != str(job.pid):
            pass  # then it is the launcher's child, with the environment of a worker
        (listed,) = [entry for entry in json.loads(self.ddprun("ps", "--json").stdout) if entry["launcher_pid"] == job.pid]
        self.assertNotIn(int(orphan), [worker["pid"] for worker in listed["workers"]])
        self.assertEqual(len(listed["workers"]), 1)

    def test_a_script_called_ddprun_is_no_job(self):
        script = self.folder / "ddprun"
        script.write_text("#!/bin/sh\necho ready\nread x\n")
        script.chmod(0o755)
        wrapper = subprocess.Popen([script, "--nproc-per-node", "2", "train.py"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        with wrapper:
            self.assertEqual(wrapper.stdout.readline(), "ready\n")
            self.assertNotIn(f" {wrapper.pid} ", self.ddprun("ps").stdout)
            drained = self.ddprun("drain", wrapper.pid)
            wrapper.stdin.close()
        self.assertEqual(drained.returncode, 69, drained.stderr)
        self.assertEqual(wrapper.returncode, 1)  # of `read`, and not of a signal

    def test_a_job_between_two_generations_is_restarting(self):
        gate, trapped = self.folder / "gate", self.folder / "trapped"
        os.mkfifo(gate)
        os.mkfifo(trapped)
        # Rank 1 fails once rank 0 has its trap. Rank 0 does not end on SIGTERM before it is told to: until then the job
        # stops, and has one worker.
        job = self.start("--nproc-per-node", 2, "--max-restarts", 1, "--log-dir", self.logs, "-t3", "sh", "-c",
                         f'[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; [ $RANK = 1 ] && read x <{trapped} && exit 3; '
                         f'trap "read x <{gate}; exit 0" TERM; echo ready; echo go >{trapped}; while :; do sleep 0.1; done')
        self.assertEqual(job.stdout.readline(), "[default0]:ready\n")
        while True:
            (listed,) = [entry for entry in json.loads(self.ddprun("ps", "--json").stdout) if entry["launcher_pid"] == job.pid]
            worker = listed["workers"][0]
            if listed["phase"] == "stopping" and worker["last_output_s"] is not None:  # a thread writes the log file
                break
        self.assertTrue(listed["log_dir"].startswith(str(self.logs)), listed)
        self.assertEqual(len(listed["workers"]), 1)
        self.assertEqual(worker["log_dir"], listed["log_dir"] + "/0")
        self.assertGreaterEqual(worker["last_output_s"], 0)
        self.assertIn("stopping, 1 of 2", self.ddprun("ps").stdout)
        gate.write_text("go\n")
        self.assertEqual(job.wait(60), 0)

    def test_a_node_that_is_done_waits_for_the_others(self):
        gate = self.folder / "gate"
        os.mkfifo(gate)
        port = free_port()
        nodes = [self.start("--nnodes", 2, "--node-rank", rank, "--master-addr", "127.0.0.1", "--master-port", port,
                            "sh", "-c", f"[ $RANK = 1 ] || read x <{gate}") for rank in range(2)]
        while True:
            phases = {entry["launcher_pid"]: entry["phase"] for entry in json.loads(self.ddprun("ps", "--json").stdout)}
            if phases.get(nodes[1].pid) in ("waiting", "ending"):
                break
        self.assertEqual([phases.get(node.pid) for node in nodes], ["running", "waiting"])
        gate.write_text("go\n")
        self.assertEqual([node.wait(60) for node in nodes], [0, 0])


class Events(Case):
    def events(self, *arguments):
        done = self.ddprun("--events", "events.jsonl", *arguments)
        lines = (self.folder / "events.jsonl").read_text().splitlines()
        return done, [json.loads(line) for line in lines]

    def test_a_restarted_job_tells_its_story_in_order(self):
        done, events = self.events("--max-restarts", 1, "sh", "-c", "exit $((7 * (TORCHELASTIC_RESTART_COUNT == 0)))")
        self.assertEqual(done.returncode, 0)
        told = [event["event"] for event in events if event["event"] != "stopping"]
        self.assertEqual(told, ["job_started", "generation_started", "worker_spawned", "worker_exited", "generation_ended",
                                "restarting", "generation_started", "worker_spawned", "worker_exited", "generation_ended",
                                "job_ended"])
        exits = [event["exit_code"] for event in events if event["event"] == "worker_exited"]
        self.assertEqual(exits, [7, 0])
        self.assertEqual(len({event["job"] for event in events}), 1)

    def test_a_failed_job_names_its_report(self):
        done, events = self.events("--log-dir", self.logs, "sh", "-c", "exit 3")
        self.assertEqual(done.returncode, 3)
        self.assertEqual(events[-1]["event"], "job_ended")
        self.assertEqual(json.loads(pathlib.Path(events[-1]["report"]).read_text())["exit_code"], 3)

    def test_a_place_that_cannot_be_written_is_refused(self):
        done = self.ddprun("--events", "/nowhere/events", "sh", "-c", "echo started")
        self.assertEqual((done.returncode, done.stdout), (64, ""))
        self.assertEqual(done.stderr, 'ddprun: --events "/nowhere/events": directory /nowhere does not exist\n')


if __name__ == "__main__":
    unittest.main()
