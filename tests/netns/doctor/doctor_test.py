"""ddprun doctor on several hosts at once: well, behind firewalls, late, missing, and among strangers.
Usage: doctor_test.py DDPRUN [unittest arguments]
"""

import os
import pathlib
import shutil
import signal
import stat
import struct
import sys
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "membership"))
from lab import Lab, require_namespaces  # noqa: E402
from skips import skip  # noqa: E402

DDPRUN = sys.argv.pop(1)
PORT = 29400
ADDRESS = {"a": "10.213.0.1", "b": "10.213.0.2", "c": "10.213.0.3"}

# Says each of the texts on a connection of its own, and holds all of them until stdin ends.
STRANGER = textwrap.dedent("""
    import socket, sys
    held = []
    for text in sys.argv[3:]:
        wire = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
        wire.sendall(bytes.fromhex(text))
        held.append(wire)
    print("said", flush=True)
    for wire in held:
        wire.settimeout(60)
        try:
            while wire.recv(4096):
                pass
        except OSError:
            pass
    print("sent away", flush=True)
""")


def frame(text):
    return struct.pack(">I", len(text)) + text


RUBBISH = [b"GET / HTTP/1.1\r\n\r\n", b"\0" * 64, b"DDPR" + b"\xff" * 64, b"DDPR" + frame(b"{" * 200), b"DDPR" + frame(b"[" * 9000),
           b"DDPR" + frame(b'{"type":"doctor","text":"{}"}'), b"DDPR" + frame(b'{"type":"status"}'), b"\xff" * 20000]


def doctor(host, *flags, hosts=3, timeout="20s", at="a", **environment):
    return host.run(DDPRUN, "doctor", "--nnodes", hosts, "--rdzv-endpoint", f"{at}:{PORT}", "--timeout", timeout, *flags, **environment)


class Doctor(unittest.TestCase):
    maxDiff = None

    def page_of(self, process):
        """What it prints, held against its exit code."""
        code = process.wait(60)
        self.assertEqual(code, 78 if "\nWRONG" in process.text else 0, process.text)
        return process.text

    def one_page(self, processes):
        """The page that all of them print."""
        pages = [text[text.index(" hosts at ") - 6:] for text in map(self.page_of, processes)]
        self.assertEqual(pages, [pages[0]] * len(pages))
        return pages[0]

    def needs_nft(self):
        if shutil.which("nft") is None:
            print("SKIPPED: a firewall needs nft (Debian: nftables)", file=sys.stderr)
            skip("no nft")

    def python(self, lab, torch):
        """A Python that says it has this torch."""
        path = pathlib.Path(lab.folder) / f"python-{torch}"
        path.write_text(f"""#!/bin/sh\necho '{{"version": "3.11.2", "torch": "{torch}", "folder": "/torch", "nccl": "2.29.7"}}'\n""")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def test_three_hosts_that_reach_each_other_print_one_page_and_what_differs(self):
        with Lab(["a", "b", "c"]) as lab:
            new, old = self.python(lab, "2.11.0"), self.python(lab, "2.6.0")
            page = self.one_page([doctor(lab[name], PYTHON_EXEC=old if name == "b" else new) for name in "abc"])
            self.assertIn("3 of 3 hosts at a:29400\n\nok    hosts          a (10.213.0.1), b (10.213.0.2), c (10.213.0.3)\n", page)
            self.assertIn("ok    reach          all reach a:29400 (", page)
            self.assertRegex(page, r"\n(ok   |note )  ?round trip     [0-9.]+ m?s to [0-9.]+ m?s \([abc] to [abc]\)\n")
            self.assertRegex(page, r"\n(ok   |note )  ?bandwidth      [0-9.]+ Gbit/s \([abc] to [abc]\) to [0-9.]+ Gbit/s, ")
            self.assertIn("ok    NCCL           2.29.7 on all\n", page)
            self.assertIn("WRONG torch          2.11.0 on a, c; 2.6.0 on b\n", page)
            self.assertRegex(page, r"\nok    clocks         at most [0-9.]+ m?s apart\n")

    def test_ranks_by_hand_and_a_secret(self):
        with Lab(["a", "b"]) as lab:
            page = self.one_page([doctor(lab[name], "--node-rank", rank, hosts=2, DDPRUN_SECRET="x") for rank, name in enumerate("ab")])
            self.assertIn("ok    hosts          a (10.213.0.1), b (10.213.0.2)\n", page)

    def test_ipv6(self):
        with Lab(["a", "b"], family=6) as lab:
            page = self.one_page([doctor(lab[name], hosts=2) for name in "ab"])
            self.assertIn("ok    hosts          a (fd13::1), b (fd13::2)\n", page)
            self.assertIn("ok    reach ", page)

    def test_a_firewall_that_drops_one_way_is_told_as_one_way(self):
        self.needs_nft()
        with Lab(["a", "b", "c"]) as lab:
            lab["b"].firewall(f"ip daddr {ADDRESS['c']} tcp flags & (syn | ack) == syn drop")
            page = self.one_page([doctor(host) for host in lab.hosts.values()])
            self.assertIn("WRONG reach          b does not reach c (10.213.0.3): connection timed out\n", page)
            self.assertNotIn("c does not reach b", page)
            self.assertIn("nft list ruleset", page)

    def test_a_route_that_is_missing_on_one_is_told_on_all(self):
        with Lab(["a", "b", "c"]) as lab:
            lab["b"].inside("ip", "route", "add", "unreachable", f"{ADDRESS['c']}/32")
            page = self.one_page([doctor(host) for host in lab.hosts.values()])
            self.assertIn("WRONG reach          c does not reach b (10.213.0.2): connection timed out\n", page)
            self.assertIn("WRONG reach          b does not reach c (10.213.0.3): no route to host\n", page)
            self.assertIn("ip route get 10.213.0.3", page)

    def test_a_network_that_carries_only_small_packets_is_told_from_one_that_is_cut(self):
        self.needs_nft()
        with Lab(["a", "b"]) as lab:
            lab["b"].firewall(f"tcp dport != {PORT} meta length > 1400 drop")
            page = self.one_page([doctor(host, hosts=2) for host in lab.hosts.values()])
            self.assertIn("WRONG bandwidth      b to a: single bytes arrive, a stream does not: a stream of bytes does not arrive", page)
            self.assertIn("ping -M do -s 1472 10.213.0.1", page)

    def test_a_late_host_is_waited_for(self):
        with Lab(["a", "b", "c"]) as lab:
            early = [doctor(lab["a"], timeout="60s"), doctor(lab["b"], timeout="60s")]
            early[0].expect("of 3 hosts came: ")
            self.assertIn("3 of 3 hosts", self.one_page([*early, doctor(lab["c"])]))

    def test_a_host_that_cannot_get_there_says_why_and_the_others_name_who_came(self):
        self.needs_nft()
        with Lab(["a", "b", "c"]) as lab:
            lab["c"].firewall(f"tcp dport {PORT} drop")
            alone = doctor(lab["c"], timeout="2s")
            page = self.one_page([doctor(lab[name], timeout="3s") for name in "ab"])
            self.assertIn("WRONG hosts          2 of 3 came: a (10.213.0.1), b (10.213.0.2), within 3.0 s\n", page)
            self.assertIn("WRONG meeting        nobody at a:29400 within 2.0 s: [10.213.0.1] connection timed out\n", self.page_of(alone))
            self.assertIn("what drops packets to port 29400", alone.text)
            self.assertTrue(alone.text.startswith("c, Linux ") or "\nc, Linux " in alone.text, alone.text)

    def test_the_rank_that_never_comes_is_named(self):
        with Lab(["a", "b"]) as lab:
            page = self.one_page([doctor(lab["a"], "--node-rank=0", timeout="3s"), doctor(lab["b"], "--node-rank=2", timeout="3s")])
            self.assertIn("2 of 3 came: a (10.213.0.1), b (10.213.0.2); --node-rank 1 did not, within 3.0 s\n", page)

    def test_a_host_of_other_words_is_told_so_and_the_others_hear_of_it(self):
        with Lab(["a", "b"]) as lab:
            other = doctor(lab["b"], hosts=3)
            page = self.page_of(doctor(lab["a"], hosts=2, timeout="3s"))
            self.assertIn("was started with --nnodes 3, the coordinator with --nnodes 2", self.page_of(other))
            self.assertIn("note  hosts          node b (10.213.0.2) was started with --nnodes 3", page)
            self.assertIn("WRONG hosts          1 of 2 came: a (10.213.0.1), within 3.0 s\n", page)

    def test_a_name_that_nobody_knows_is_told(self):
        with Lab(["a"]) as lab:
            lab["a"].knows("")
            self.assertRegex(self.page_of(doctor(lab["a"], at="nowhere", timeout="1s")),
                             r"WRONG meeting        nobody at nowhere:29400 within 1.0 s: the name nowhere cannot be resolved")

    def test_ctrl_c_on_one_host_lets_the_others_go_on_and_on_the_first_ends_all(self):
        with Lab(["a", "b"]) as lab:
            first = doctor(lab["a"], hosts=3, timeout="60s")
            second = doctor(lab["b"], hosts=3, timeout="60s")
            second.expect("waiting at a:29400 for the others")
            self.interrupt(second)
            self.assertIn("ddprun doctor: ended by SIGINT", second.text)
            third = doctor(lab["b"], hosts=3, timeout="60s")
            third.expect("waiting at a:29400 for the others")
            self.interrupt(first)
            self.assertIn("WRONG meeting        a:29400 was lost before the page was made: ", self.page_of(third))

    def interrupt(self, process):
        """Ctrl-C to ddprun, which is the first process of its pid namespace: the default of a signal does not end it."""
        (pid,) = pathlib.Path(f"/proc/{process.child.pid}/task/{process.child.pid}/children").read_text().split()
        os.kill(int(pid), signal.SIGINT)
        process.wait()

    def test_strangers_and_their_rubbish_change_nothing(self):
        with Lab(["a", "b", "c"]) as lab:
            first = doctor(lab["a"], hosts=2, timeout="60s")
            first.expect("of 2 hosts came: a")
            ports = [line.split()[3].rsplit(":", 1)[1] for line in lab["a"].inside("ss", "-Hltn").stdout.splitlines()]
            self.assertEqual(len(ports), 2)  # where they meet, and where it is probed
            for port in ports:
                stranger = lab["c"].run(sys.executable, "-c", STRANGER, ADDRESS["a"], port, *(text.hex() for text in RUBBISH))
                stranger.expect("said")
            page = self.one_page([first, doctor(lab["b"], hosts=2)])
            self.assertIn("ok    hosts          a (10.213.0.1), b (10.213.0.2)\n", page)
            self.assertIn("ok    reach ", page)
            self.assertEqual(stranger.wait(), 0)


if __name__ == "__main__":
    require_namespaces()
    unittest.main()
