#!/usr/bin/env python3
"""`ddprun ps --watch` of jobs of several nodes, whose agents are all on this host: a section for each."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import unittest

from harness import DDPRUN, Case
from owned import own
from patience import patient
from ports import free_port

# Agents that are patient: one of them stands still for a while.
PATIENT = "keep_alive_interval=20,keep_alive_max_attempt=3"
WORKER = ("sh", "-c", "echo line of rank $RANK; exec sleep 600")
VERSION = 6


class Pages:
    """What a `ddprun ps --watch` writes into a pipe, page by page."""

    def __init__(self, test):
        self.test = test
        self.process = own(test, subprocess.Popen([DDPRUN, "ps", "--watch"], stdout=subprocess.PIPE, text=True))

    def next(self):
        page = ""
        while (line := self.process.stdout.readline()) != "\n":
            self.test.assertTrue(line, f"no page after\n{page}")
            page += line
        return page

    def section(self, page, launcher):
        """What a page has of that launcher's job."""
        sections = [part for part in re.split(r"^(?=job )", page, flags=re.MULTILINE) if f"(pid {launcher})" in part]
        return sections[0] if sections else ""

    def until(self, launcher, *patterns, without=None):
        """The first section of that launcher that has all of them, and not the words `without`."""
        end = time.monotonic() + patient(40)
        while True:
            section = self.section(self.next(), launcher)
            if all(re.search(pattern, section, re.MULTILINE) for pattern in patterns) and (without is None or without not in section):
                return section
            self.test.assertLess(time.monotonic(), end, f"not {patterns} without {without} in\n{section}")


class Peer:
    """The other end of a protocol connection, of a ddprun that knows no question of `ps --watch`."""

    def __init__(self, test, connection):
        test.addCleanup(connection.close)
        self.connection, self.types, self.is_told_to_run = connection, [], threading.Event()

    def send(self, **message):
        text = json.dumps(message).encode()
        self.connection.sendall(len(text).to_bytes(4, "big") + text)

    def receive(self):
        header = self.connection.recv(4, socket.MSG_WAITALL)
        if len(header) < 4:
            return None
        message = json.loads(self.connection.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL))
        self.types.append(message["type"])
        if message.get("kind") == "run":
            self.is_told_to_run.set()
        return message


class WatchNodes(Case):
    def node(self, rank, port, *flags):
        return self.start("--nnodes", 2, "--node-rank", rank, "--nproc-per-node", 2, "--master-addr", "127.0.0.1", "--master-port", port,
                          "--rdzv-id", "job", "--rdzv-conf", PATIENT, "--log-dir", self.folder / f"logs{rank}", "-t", 3, *flags, *WORKER)

    def two_nodes(self):
        port = free_port()
        nodes = [self.node(rank, port) for rank in range(2)]
        for node in nodes:
            for _ in range(2):
                self.assertIn("line of rank", node.stdout.readline())
        return nodes

    def row(self, rank):
        return rf"^  {rank} +{re.escape(socket.gethostname())} +\d+ +sleeps .* ago: line of rank {rank}$"

    def test_all_ranks_of_all_nodes_are_on_the_page_of_each(self):
        nodes = self.two_nodes()
        pages = Pages(self)
        for node in nodes:
            section = pages.until(node.pid, *[self.row(rank) for rank in range(4)], without="answered")
            self.assertRegex(section, r"\n  RANK +HOST +PID +STATE ")
            self.assertIn("running, 2 of 4 ranks here", section)
            self.assertNotIn("\033", section)
            self.assertEqual([int(rank) for rank in re.findall(r"^  (\d+) ", section, re.MULTILINE)], [0, 1, 2, 3])

    def test_a_node_that_stands_still_is_named_and_the_page_is_drawn_all_the_same(self):
        nodes = self.two_nodes()
        pages = Pages(self)
        pages.until(nodes[0].pid, self.row(3))
        os.kill(nodes[1].pid, signal.SIGSTOP)
        self.addCleanup(os.kill, nodes[1].pid, signal.SIGCONT)
        silent = r"^  node .* \(127\.0\.0\.1\) has not answered within 1\.5 s"
        pages.until(nodes[0].pid, silent + r"; its ranks are as they were [0-9.]+ s ago$", self.row(3))
        began = time.monotonic()
        drawn = [pages.next() for _ in range(3)]
        self.assertLess(time.monotonic() - began, patient(9))
        for page in drawn:
            self.assertRegex(pages.section(page, nodes[0].pid), re.compile(self.row(0), re.MULTILINE))
            self.assertRegex(pages.section(page, nodes[1].pid),
                             rf"\n  the launcher here \(pid {nodes[1].pid}\) has passed on no answer within 1\.5 s: it or its")
        gone = pages.until(nodes[0].pid, silent + "$")  # what it told is too old by now
        self.assertNotRegex(gone, re.compile(self.row(3), re.MULTILINE))
        os.kill(nodes[1].pid, signal.SIGCONT)
        pages.until(nodes[0].pid, self.row(2), self.row(3), without="answered")

    def test_a_question_of_ddprun_why_is_answered_meanwhile(self):
        nodes = self.two_nodes()
        pages = Pages(self)
        pages.until(nodes[0].pid, self.row(3))
        page = self.ddprun("why", nodes[0].pid).stdout
        self.assertIn("4 ranks", page)
        self.assertNotIn("ranks were seen", page)
        pages.until(nodes[0].pid, self.row(3), without="answered")

    def test_those_who_watch_on_one_host_at_the_same_moment_do_not_disturb_each_other(self):
        nodes = self.two_nodes()
        watching = [Pages(self) for _ in range(6)]
        for pages in watching:
            pages.until(nodes[0].pid, self.row(3))
        sections = [pages.section(page, node.pid) for _ in range(6) for pages in watching for page in [pages.next()] for node in nodes]
        late = sum("answered" in section for section in sections)
        self.assertLess(late, len(sections) / 2)  # a busy machine is late now and then

    def test_an_older_node_is_named_and_not_asked(self):
        port = free_port()
        node = self.node(0, port)
        peer = Peer(self, self.connected(port))
        peer.connection.sendall(b"DDPR")
        peer.send(type="hello", version=VERSION, run_id="job", min=2, max=2, member=7, host="old", nproc=2, node_rank=1, role="default",
                  replaces=None, generation=0, restarts=0, secret=False, nonce="00", control=False)
        threading.Thread(target=self.be_node, args=(peer,), daemon=True).start()
        self.assertTrue(peer.is_told_to_run.wait(patient(30)))
        pages = Pages(self)
        section = pages.until(node.pid, r"^  node old \(127\.0\.0\.1\) is of an older ddprun, which does not tell others of its ranks$")
        self.assertRegex(section, re.compile(self.row(1), re.MULTILINE))
        pages.next()
        self.assertNotIn("look", peer.types)

    def connected(self, port):
        end = time.monotonic() + patient(30)
        while True:
            try:
                return socket.create_connection(("127.0.0.1", port), timeout=patient(60))
            except OSError:
                self.assertLess(time.monotonic(), end, "nobody listens")

    def be_node(self, peer):
        number, generation = 0, 0
        try:
            while (message := peer.receive()) is not None:
                generation = message.get("gen", generation) if message.get("kind") == "run" else generation
                if message["type"] in ("welcome", "order") and message.get("ack", number) == number:
                    number += 1
                    peer.send(type="status", seq=number, gen=generation, phase="running" if generation else "idle")
                    time.sleep(0.2)
        except OSError:
            return

    def test_an_older_coordinator_is_named_and_not_asked(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            node = self.node(1, server.getsockname()[1])
            peer = Peer(self, server.accept()[0])
        self.assertEqual(peer.connection.recv(4, socket.MSG_WAITALL), b"DDPR")
        self.assertEqual(peer.receive()["type"], "hello")
        threading.Thread(target=self.be_coordinator, args=(peer,), daemon=True).start()
        section = Pages(self).until(
            node.pid, r"^  the coordinator is of an older ddprun, which does not ask the other nodes for this$", self.row(2))
        self.assertIn("2 of 4 ranks here", section)
        self.assertIn("status", peer.types)
        self.assertNotIn("look", peer.types)

    def be_coordinator(self, peer):
        seat = {"restart_count": 0, "restarts": 0, "node_rank": 1, "nodes": 2, "base_rank": 2, "world": 4, "base_role_rank": 2,
                "role_world": 4, "coordinator": "old"}
        try:
            peer.send(type="welcome", heartbeat_ns=1_000_000_000, missed=20)
            while (message := peer.receive()) is not None:
                peer.send(type="order", kind="run", ack=message.get("seq", 0), gen=1, seat=seat)
        except OSError:
            return


if __name__ == "__main__":
    unittest.main()
