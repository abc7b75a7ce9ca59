#!/usr/bin/env python3
"""Lets jobs of two nodes fail, and reads what the report of each node makes of it."""

import json
import pathlib
import re
import signal
import sys
import time
import unittest

from harness import Case

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))

from ports import free_port  # noqa: E402

PEER_SILENT = "echo 'RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to complete' >&2; exit 1"
PEER_LOST = "echo 'RuntimeError: [gloo/transport/tcp/pair.cc:5] Connection closed by peer [127.0.0.1]:5' >&2; exit 1"


class NodesReport(Case):
    def setUp(self):
        super().setUp()
        self.port = free_port()

    def node(self, rank, script, *flags, **environment):
        """One node of two, whose only worker runs `script`."""
        return self.start("--nnodes", 2, "--master-addr", "127.0.0.1", "--master-port", self.port, "--node-rank", rank,
                          "--log-dir", self.logs / str(rank), *flags, "--no-python", "/bin/sh", "-c", script,
                          **environment)

    def end(self, *nodes):
        """What each node said, and its exit code."""
        said = [node.communicate()[1] for node in nodes]
        return said, [node.returncode for node in nodes]

    def reports(self):
        return [json.loads(next((self.logs / str(rank)).glob("*/report.json")).read_text()) for rank in (0, 1)]

    def await_line(self, node, words):
        said = ""
        while words not in said:
            line = node.stderr.readline()
            self.assertTrue(line, f"no {words!r} in {said!r}")
            said += line
        return said

    def test_whom_the_coordinator_blames_for_a_restart_is_the_root_cause_on_every_node(self):
        # Node 0 sees a symptom end; the cause, which another node knows, ends seconds later.
        flags = ("--max-restarts", 1, "--blame-window", 0.2)
        once = "[ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0; "
        cause = self.script("cause.py", """import atexit, os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
atexit.register(time.sleep, 2)
atexit.register(open, sys.argv[1], "w")  # runs first, and the traceback is printed by then
raise ValueError("mine")
""")
        printed = self.folder / "printed"
        nodes = (self.node(0, f"{once} until [ -e {printed} ]; do sleep 0.02; done; {PEER_LOST}", *flags),
                 self.node(1, f"{once} exec {sys.executable} {cause} {printed}", *flags))
        said, codes = self.end(*nodes)
        self.assertEqual(codes, [0, 0], said)
        for report in self.reports():
            self.assertEqual(report["root_cause"]["rank"], 1)
            self.assertIn("ValueError: mine", report["root_cause"]["diagnosis"])
            self.assertEqual(report["generations"][0]["root_cause_rank"], 1)

    def test_each_node_says_a_failure_when_it_comes_and_in_its_report(self):
        flags = ("--nproc-per-node", 2)
        script = "[ $RANK != 2 ] || exit 7; exec sleep 100"
        nodes = self.node(0, script, *flags), self.node(1, script, *flags)
        said, codes = self.end(*nodes)
        self.assertEqual(codes, [7, 7], said)
        for words in said:
            self.assertRegex(words, r"^ddprun: rank 2 .* exited with code 7 .*\n"
                                    r"ddprun: /bin/sh failed: rank 2 .* exited with code 7")
            self.assertEqual(words.count("exited with code 7"), 2, words)

    def test_the_restarts_that_the_coordinator_allows_count_and_another_node_says_so(self):
        nodes = self.node(0, "exec sleep 100"), self.node(1, "exit 7", "--max-restarts", 3)
        said, codes = self.end(*nodes)
        self.assertEqual(codes, [7, 7], said)
        self.assertNotIn("restarts", said[0])
        self.assertIn("restarts  0 of 0 used (--max-restarts counts where the coordinator runs; here it is 3)\n", said[1])

    def test_no_worker_is_to_blame_for_a_time_out_of_one_node(self):
        nodes = self.node(0, "exec sleep 100"), self.node(1, "exec sleep 100", "--job-timeout", 1)
        said, codes = self.end(*nodes)
        self.assertEqual(codes, [75, 75], said)
        for words, report in zip(said, self.reports()):
            self.assertIsNone(report["root_cause"])
            self.assertIn("--job-timeout", words)

    def test_a_rank_that_stands_still_on_another_node_is_the_root_cause_on_each(self):
        pid = self.folder / "pid"
        is_still = f"until grep -qs '^State:.T' /proc/$(cat {pid} 2>&1)/status; do sleep 0.02; done"
        # In a file: of a worker's arguments ddprun makes $ of $$, as torchrun does.
        still = self.script("still.sh", f"echo $$ > {pid}.part; mv {pid}.part {pid}; kill -STOP $$; exec sleep 100")
        for culprit in (0, 1):
            with self.subTest(culprit=culprit):
                self.port, self.logs = free_port(), self.folder / f"logs.{culprit}"
                pid.unlink(missing_ok=True)
                scripts = {culprit: f"exec sh {still}", 1 - culprit: f"{is_still}; {PEER_SILENT}"}
                said, codes = self.end(self.node(0, scripts[0]), self.node(1, scripts[1]))
                self.assertEqual(codes, [1, 1], said)
                for words, report in zip(said, self.reports()):
                    self.assertEqual((report["root_cause"]["rank"], report["root_cause"]["victim_rank"]), (culprit, 1 - culprit), words)
                    self.assertRegex(words, rf"failed: rank {culprit} .*was stopped by a signal \(SIGSTOP\).*, while others waited for it")

    def test_a_node_that_ends_the_job_in_the_back_off_is_what_ended_it_and_the_failure_came_before(self):
        flags = ("--max-restarts", 5)
        # Where the failed worker ran, and where it did not.
        outer = self.folder / "error.json"
        for told in (0, 1):
            with self.subTest(told=told):
                self.port = free_port()
                nodes = (self.node(0, "echo CUDA error >&2; exit 4", *flags, TORCHELASTIC_ERROR_FILE=str(outer)),
                         self.node(1, "exec sleep 100", *flags))
                self.await_line(nodes[told], "starting all workers again in 2")  # seconds, in which SIGTERM comes in time
                nodes[told].send_signal(signal.SIGTERM)
                said, codes = self.end(*nodes)
                self.assertEqual(codes, [75, 75], said)
                self.assertRegex(said[1 - told], r"ddprun: /bin/sh failed: node (1 .* was told to stop by SIGTERM|.*, which runs the coordinator, stopped)\n")
                self.assertIn("ddprun: /bin/sh was stopped by SIGTERM\n", said[told])
                self.assertFalse(outer.exists())
                for words in said:
                    self.assertRegex(words, r"\n  before +rank 0 .* exited with code 4 after .*")
                    self.assertRegex(words, r"\n  the last line of its stderr.*:\n    \| CUDA error\n")

    def test_a_rank_that_left_with_0_on_another_node_comes_before_with_the_words_of_its_victim(self):
        flags = ("--max-restarts", 5, "--blame-window", 0.1)
        for told in (0, 1):
            with self.subTest(told=told):
                self.port = free_port()
                left = self.folder / f"left.{told}"
                is_gone = f"[ -s {left} ] && [ ! -e /proc/$(cat {left}) ]"
                nodes = (self.node(0, f"echo $$$$ >{left}", *flags),
                         self.node(1, f"until {is_gone}; do sleep 0.02; done; {PEER_LOST}", *flags))
                self.await_line(nodes[told], "starting all workers again in 2")  # seconds, in which SIGTERM comes in time
                nodes[told].send_signal(signal.SIGTERM)
                said, codes = self.end(*nodes)
                self.assertEqual(codes, [75, 75], said)
                for words in said:
                    self.assertRegex(words, r"\n  before +rank 0 .*left with exit code 0")
                    self.assertNotRegex(words, "pid 0|after 0.0 s")
                    self.assertRegex(words, r"what rank 1, which lost it, wrote to stderr.*:\n    \| RuntimeError")

    def test_the_node_that_left_with_0_writes_its_error_file_and_calls_its_rank_the_root_cause(self):
        outer, left = self.folder / "error.json", self.folder / "left"
        is_gone = f"[ -s {left} ] && [ ! -e /proc/$(cat {left}) ]"
        nodes = (self.node(0, f"echo $$$$ >{left}", TORCHELASTIC_ERROR_FILE=str(outer)),
                 self.node(1, f"until {is_gone}; do sleep 0.02; done; {PEER_LOST}", "--blame-window", 0.1))
        said, codes = self.end(*nodes)
        self.assertEqual(codes, [1, 1], said)
        self.assertIn("rank 0 (local rank 0, pid ", outer.read_text())
        self.assertNotIn("failed as well", said[0])
        (worker,) = self.reports()[0]["generations"][0]["workers"]
        self.assertEqual(worker["verdict"], "root cause")

    def test_a_lost_node_is_what_came_before_where_a_rank_here_only_lost_its_peer(self):
        flags = ("--max-restarts", 5, "--blame-window", 0.1, "--rdzv-conf", "keep_alive_interval=0.2")
        gate, up = self.folder / "gate", self.folder / "up"
        nodes = (self.node(0, f"until [ -e {gate} ]; do sleep 0.02; done; {PEER_LOST}", *flags),
                 self.node(1, f"touch {up}; exec sleep 100", *flags))
        while not up.exists():
            time.sleep(0.02)
        nodes[1].send_signal(signal.SIGSTOP)
        gate.touch()
        self.await_line(nodes[0], "starting all workers again")
        nodes[0].send_signal(signal.SIGTERM)
        said = nodes[0].communicate()[1]
        nodes[1].kill()
        self.assertRegex(said, r"ddprun: /bin/sh was stopped by SIGTERM\n  before +node 1 .* was lost: it was silent for ")
        (report,) = (self.logs / "0").glob("*/report.json")
        (generation,) = json.loads(report.read_text())["generations"]
        self.assertRegex(generation["restart_why"], "node 1 .* was lost: .*; meanwhile rank 0 ")

    def test_a_time_out_in_the_back_off_ends_the_job_of_all_nodes_in_its_own_words(self):
        flags = ("--max-restarts", 9)
        for hasty in (0, 1):
            with self.subTest(hasty=hasty):
                self.port = free_port()
                limits = [(), ()]
                # In the back-off of 8 s, which begins after back-offs of 7.5 s together and as many starts.
                limits[hasty] = ("--job-timeout", 12)
                nodes = self.node(0, "exit 4", *flags, *limits[0]), self.node(1, "exec sleep 100", *flags, *limits[1])
                said, codes = self.end(*nodes)
                self.assertEqual(codes, [75, 75], said)
                self.assertIn("ddprun: /bin/sh failed: the job is not done after 12.0 s (--job-timeout) on node ", said[1 - hasty])
                self.assertIn("ddprun: /bin/sh was stopped by --job-timeout\n", said[hasty])
                for words in said:
                    self.assertRegex(words, r"\n  before +rank 0 .*exited with code 4")
                    granted = re.findall(r": restart (\d) of 9\n", words)[-1]
                    self.assertIn(f"\n  restarts  {granted} of 9 used\n", words)

    def test_a_time_out_while_another_node_stops_for_its_failure_ends_the_job_with_that_failure(self):
        ready = self.folder / "ready"
        lasts = f"trap 'sleep 8; exit 0' TERM; touch {ready}; while :; do sleep 0.05; done"
        fails = f"until [ -e {ready} ]; do sleep 0.02; done; exit 7"
        flags = ("--nproc-per-node", 2, "--max-restarts", 3)
        nodes = (self.node(0, f"[ $LOCAL_RANK = 0 ] && {{ {fails}; }}; {lasts}", *flags),
                 self.node(1, "exec sleep 100", *flags, "--job-timeout", 4))
        said, codes = self.end(*nodes)
        self.assertEqual(codes, [7, 75], said)
        self.assertRegex(said[0], r"\nddprun: /bin/sh failed: rank 0 .* exited with code 7")

    def test_a_time_out_while_its_own_workers_are_stopped_ends_the_job_with_what_they_are_stopped_for(self):
        for hasty in (0, 1):
            with self.subTest(hasty=hasty):
                self.port = free_port()
                ready, gate = self.folder / f"ready.{hasty}", self.folder / f"gate.{hasty}"
                lasts = (f"trap 'until [ -e {gate} ]; do sleep 0.02; done; exit 0' TERM; touch {ready}; "
                         "while :; do sleep 0.05; done")
                fails = f"until [ -e {ready} ]; do sleep 0.02; done; exit 7"
                flags = ("--max-restarts", 3, "--rdzv-conf", "join_timeout=20")
                scripts, limits = [fails, fails], [(), ()]
                scripts[hasty], limits[hasty] = lasts, ("--job-timeout", 6)
                nodes = [self.node(rank, scripts[rank], *flags, *limits[rank]) for rank in (0, 1)]
                heard = self.await_line(nodes[hasty], "--job-timeout is over")
                gate.touch()
                said, codes = self.end(*nodes)
                self.assertEqual(codes, [7, 7], said)
                self.assertIn("exited with code 7", heard)  # it came first
                for words in said:
                    self.assertRegex(words, rf"(?m)^ddprun: /bin/sh failed: rank {1 - hasty} .* exited with code 7")
                    self.assertRegex(words, rf"the job is not done after 6.0 s \(--job-timeout\) on node {hasty} ")

    def test_a_time_out_of_a_node_that_has_done_its_part_ends_the_job(self):
        for done in (0, 1):
            with self.subTest(done=done):
                self.port = free_port()
                words, limits = ["exec sleep 100"] * 2, [(), ()]
                words[done], limits[done] = "exit 0", ("--job-timeout", 4)
                said, codes = self.end(*(self.node(rank, words[rank], *limits[rank]) for rank in (0, 1)))
                self.assertEqual(codes, [75, 75], said)
                for each in said:
                    self.assertRegex(each, rf"the job is not done after 4.0 s \(--job-timeout\) on node {done} ")
                    self.assertNotIn("waiting up to", each)

    def test_a_time_out_while_a_symptom_is_looked_into_ends_the_job_with_the_failure(self):
        gate, printed = self.folder / "gate", self.folder / "printed"
        own = self.script("own.py", """import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
sys.stderr.write("Traceback (most recent call last):\\nValueError: mine\\n")
open(sys.argv[1], "w").close()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
sys.exit(1)
""")
        pair = (f"[ $LOCAL_RANK = 1 ] && exec {sys.executable} {own} {printed} {gate}; "
                f"until [ -e {printed} ]; do sleep 0.02; done; kill -PIPE $$$$")
        nodes = (self.node(0, "exec sleep 100", "--max-restarts", 3),
                 self.node(1, pair, "--nproc-per-node", 2, "--max-restarts", 3, "--blame-window", 20, "--job-timeout", 5))
        heard = self.await_line(nodes[1], "; sending SIGTERM to 1 worker")
        gate.touch()
        said, codes = self.end(*nodes)
        said[1] = heard + said[1]
        self.assertEqual(codes, [codes[0]] * 2, said)
        self.assertIn(codes[0], (1, 141), said)
        for words in said:
            self.assertRegex(words, r"(?m)^ddprun: /bin/sh failed: rank [12] ")
            self.assertRegex(words, r"restarts  0 of 3 used; the job is not done after 5.0 s \(--job-timeout\) on node 1 ")

    def test_a_node_that_is_told_to_end_while_it_stops_for_another_says_what_had_failed(self):
        ready = self.folder / "ready"
        lasts = f"trap 'sleep 2; exit 0' TERM; touch {ready}; while :; do sleep 0.05; done"
        nodes = self.node(0, lasts), self.node(1, f"until [ -e {ready} ]; do sleep 0.02; done; exit 9")
        self.await_line(nodes[0], "exited with code 9")
        nodes[0].send_signal(signal.SIGTERM)
        said, codes = self.end(*nodes)
        self.assertEqual(codes, [75, 9], said)
        self.assertRegex(said[0], r"\n  before +rank 1 .* exited with code 9 .* on node 1")

    def test_a_node_that_is_told_to_end_before_the_cause_of_a_symptom_is_known_names_who_failed(self):
        flags = ("--nproc-per-node", 2, "--blame-window", 0.1)
        ready = self.folder / "ready"
        lasts = f"trap 'sleep 2; exit 0' TERM; touch {ready}; while :; do sleep 0.05; done"
        fails = f"until [ -e {ready} ]; do sleep 0.02; done; {PEER_LOST}"
        nodes = self.node(0, "exec sleep 100", *flags), self.node(1, f'[ $RANK = 2 ] && {{ {fails}; }}; {lasts}', *flags)
        self.await_line(nodes[1], "sending SIGTERM to 1 worker")
        nodes[1].send_signal(signal.SIGTERM)
        said, codes = self.end(*nodes)
        self.assertEqual(codes[1], 75, said)
        self.assertRegex(said[1], r"ddprun: /bin/sh was stopped by SIGTERM\n  before +rank 2 .* exited with code 1 after")

    def test_a_symptom_with_a_final_exit_code_forbids_the_restart_and_all_say_so(self):
        flags = ("--max-restarts", 1, "--blame-window", 0.2)
        gate = self.folder / "failed"
        cause = self.script("cause.py", """import atexit, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
atexit.register(time.sleep, 2)
atexit.register(open, sys.argv[1], "w")  # runs first, and the traceback is printed by then
raise ValueError("mine")
""")
        lost = PEER_LOST.replace("exit 1", "exit 78")
        nodes = (self.node(0, f"until [ -e {gate} ]; do sleep 0.02; done; {lost}", *flags),
                 self.node(1, f"exec {sys.executable} {cause} {gate}", *flags))
        said, codes = self.end(*nodes)
        self.assertEqual(codes, [1, 1], said)
        for words in said:
            self.assertRegex(words, r"\n  restarts +0 of 1 used; exit code 78 means")


unittest.main()
