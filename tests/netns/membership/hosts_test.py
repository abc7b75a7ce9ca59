"""Jobs across hosts that lose power, cables and names. Usage: hosts_test.py DDPRUN [unittest arguments]"""

import os
import pathlib
import shutil
import signal
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from lab import Lab, patient, require_namespaces  # noqa: E402
from skips import skip  # noqa: E402

DDPRUN = sys.argv.pop(1)
QUICK = "keep_alive_interval=0.2,keep_alive_max_attempt=4"  # where a loss is to be noticed
CALM = "keep_alive_interval=1"
SAY = "echo up $RANK of $WORLD_SIZE at $MASTER_ADDR life $TORCHELASTIC_RESTART_COUNT; "
PORT = 29400
# What a client of the store says first, and whether it is answered.
PING = f"""{sys.executable} -c '
import socket, struct
wire = socket.create_connection(("10.213.0.1", {PORT}), 5)
wire.sendall(struct.pack("<BIBI", 0, 0x3C85F7CE, 13, 42))
try:
    print("answered" if wire.recv(4) else "sent away")
except ConnectionResetError:
    print("sent away")
'"""


def dynamic(host, endpoint, nnodes, script, conf=CALM, job="job", flags=()):
    return host.run(DDPRUN, "--nnodes", nnodes, "--rdzv-endpoint", f"{endpoint}:{PORT}", "--rdzv-id", job, "--rdzv-conf",
                    conf, *flags, "--no-python", "/bin/sh", "-c", script)


class Hosts(unittest.TestCase):
    def test_names_in_natural_order_become_ranks(self):
        with Lab(["n10", "n2", "n1"]) as lab:
            jobs = [dynamic(host, "n10", "3", SAY) for host in lab.hosts.values()]
            self.assertEqual([job.wait() for job in jobs], [0, 0, 0])
            self.assertIn("up 2 of 3 at 10.213.0.1", jobs[0].text)
            self.assertIn("up 1 of 3 at 10.213.0.1", jobs[1].text)
            self.assertIn("up 0 of 3 at 10.213.0.1", jobs[2].text)

    def test_a_power_cut_is_noticed_and_the_rest_go_on(self):
        script = SAY + "[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec sleep 100; exit 0"
        with Lab(["a", "b", "c"]) as lab:
            jobs = [dynamic(host, "a", "2:3", script, conf=QUICK) for host in lab.hosts.values()]
            for job in jobs:
                job.expect("up")
            lab["c"].cut_power()
            cut = time.monotonic()
            again = jobs[0].expect("of 2 at 10.213.0.1 life 1")
            self.assertLess(again - cut, patient(5))  # the time-out of libtorch's own ranks would be minutes
            self.assertEqual([jobs[0].wait(), jobs[1].wait()], [0, 0])
            self.assertIn("was lost: it was silent for", jobs[1].text)

    def test_a_short_partition_changes_nothing(self):
        with Lab(["a", "b"]) as lab:
            jobs = [dynamic(host, "a", "2", SAY + "sleep 3") for host in lab.hosts.values()]
            for job in jobs:
                job.expect("up")
            lab["b"].pull_plug()
            time.sleep(1)
            lab["b"].replug()
            self.assertEqual([job.wait() for job in jobs], [0, 0])
            self.assertNotIn("life 1", jobs[0].text)

    def test_a_node_cut_off_kills_its_workers_before_the_others_go_on_and_comes_back(self):
        script = SAY + "exec sleep 100"
        with Lab(["a", "b", "c"]) as lab:
            jobs = [dynamic(host, "a", "2:3", script, conf=QUICK) for host in lab.hosts.values()]
            for job in jobs:
                job.expect("up")
            lab["c"].pull_plug()
            killed = jobs[2].expect("the others may go on without this node")
            again = jobs[0].expect("of 2 at 10.213.0.1 life 1")
            self.assertLess(killed, again)
            lab["c"].replug()
            jobs[2].expect("of 3 at 10.213.0.1 life 2")
            jobs[0].expect("life 2")
            lab["a"].processes[0].child.send_signal(signal.SIGKILL)

    def test_a_coordinator_of_its_own_survives_every_node(self):
        script = SAY + "[ $TORCHELASTIC_RESTART_COUNT -lt 2 ] && exec sleep 100; exit 0"
        with Lab(["head", "a", "b"]) as lab:
            head = lab["head"].run(DDPRUN, "coordinator", "--bind", f"0.0.0.0:{PORT}", "--nnodes", "1:2", "--rdzv-id", "job",
                                   "--rdzv-conf", QUICK)
            head.expect(str(PORT))
            a, b = (dynamic(lab[name], "head", "1:2", script, conf=QUICK) for name in "ab")
            a.expect("of 2"), b.expect("of 2")
            lab["a"].cut_power()
            b.expect("of 1 at 10.213.0.1 life 1")
            lab["a"].replug()
            back = dynamic(lab["a"], "head", "1:2", script, conf=QUICK)
            self.assertEqual([back.wait(), b.wait(), head.wait()], [0, 0, 0])

    def test_the_coordinators_host_dies_and_every_node_says_so_and_ends(self):
        with Lab(["a", "b", "c"]) as lab:
            conf = QUICK + ",rejoin_timeout=1.5"
            jobs = [dynamic(host, "a", "3", SAY + "exec sleep 100", conf=conf) for host in lab.hosts.values()]
            for job in jobs:
                job.expect("up")
            lab["a"].cut_power()
            for job in jobs[1:]:
                self.assertEqual(job.wait(), 69)
                self.assertIn("the coordinator has not answered for", job.text)
                self.assertIn("the others may go on without this node", job.text)
                self.assertRegex(job.text, r"failed: rendezvous: no coordinator at a:29400 within \d\.\d s \(\d+ attempts\): ")

    def test_of_four_hosts_one_loses_its_card_and_the_rest_go_on(self):
        script = SAY + "[ $TORCHELASTIC_RESTART_COUNT = 0 ] && exec sleep 100; exit 0"
        with Lab(["a", "b", "c", "d"]) as lab:
            jobs = [dynamic(host, "a", "2:4", script, conf=QUICK) for host in lab.hosts.values()]
            for job in jobs:
                job.expect("of 4 at 10.213.0.1 life 0")
            lab["d"].break_card()
            jobs[3].expect("the others may go on without this node")
            self.assertEqual([job.wait() for job in jobs[:3]], [0, 0, 0])
            self.assertIn("of 3 at 10.213.0.1 life 1", jobs[2].text)

    def test_ipv4_alone_will_do(self):
        with Lab(["a", "b"]) as lab:
            for host in lab.hosts.values():
                host.inside("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
            jobs = [dynamic(host, "a", "2", SAY) for host in lab.hosts.values()]
            self.assertEqual([job.wait() for job in jobs], [0, 0])
            self.assertIn("at 10.213.0.1", jobs[1].text)

    def test_ipv6_alone_will_do(self):
        with Lab(["a", "b"], family=6) as lab:
            jobs = [dynamic(host, "a", "2", SAY) for host in lab.hosts.values()]
            self.assertEqual([job.wait() for job in jobs], [0, 0])
            self.assertIn("at fd13::1", jobs[1].text)

    def test_a_host_that_calls_itself_127_0_1_1_is_found_by_the_others(self):
        with Lab(["a", "b"]) as lab:
            lab["a"].knows("127.0.1.1 a\n10.213.0.2 b\n")
            jobs = [dynamic(host, "a", "2", SAY) for host in lab.hosts.values()]
            self.assertEqual([job.wait() for job in jobs], [0, 0])
            self.assertIn("at 10.213.0.1", jobs[1].text)

    def test_a_kernel_that_binds_any_address_makes_no_other_host_the_endpoint(self):
        with Lab(["a", "b"]) as lab:
            for host in lab.hosts.values():
                host.inside("sh", "-c", "for f in /proc/sys/net/ipv?/ip_nonlocal_bind; do echo 1 >$f; done")
            second = dynamic(lab["b"], "a", "2", SAY)
            second.expect("no coordinator at a:29400 yet")
            first = dynamic(lab["a"], "a", "2", SAY)
            self.assertEqual([first.wait(), second.wait()], [0, 0])
            self.assertIn("at 10.213.0.1", second.text)

    def test_of_two_addresses_the_dead_one_costs_little(self):
        with Lab(["a", "b"]) as lab:
            lab["b"].knows("10.213.0.77 a\n10.213.0.1 a\n")
            started = time.monotonic()
            jobs = [dynamic(host, "a", "2", SAY) for host in lab.hosts.values()]
            self.assertEqual([job.wait() for job in jobs], [0, 0])
            self.assertIn("at 10.213.0.1", jobs[1].text)
            self.assertLess(time.monotonic() - started, patient(20))  # a connect() to the dead one takes minutes

    def test_of_two_cards_of_the_coordinators_host_one_is_dead(self):
        with Lab(["a", "b"]) as lab:
            second = lab["a"].device + "2"
            lab["a"].plug("10.213.1.1/24", device=second)
            lab["b"].inside("ip", "addr", "add", "10.213.1.2/24", "dev", "e0")
            for host in lab.hosts.values():
                host.knows("10.213.0.1 a\n10.213.1.1 a\n10.213.0.2 b\n")
            lab["a"].pull_plug()
            jobs = [dynamic(host, "a", "2", SAY) for host in lab.hosts.values()]
            self.assertEqual([job.wait() for job in jobs], [0, 0])
            self.assertIn("at 10.213.1.1", jobs[1].text)  # what b has reached, and not what a is called first

    def test_a_name_that_resolves_late_is_waited_for_and_said(self):
        with Lab(["a", "b"]) as lab:
            lab["b"].knows("")
            jobs = [dynamic(host, "a", "2", SAY) for host in lab.hosts.values()]
            jobs[1].expect("the name a cannot be resolved", within=5)
            hosts = pathlib.Path("/etc/netns") / lab["b"].space / "hosts"
            hosts.write_text("10.213.0.1 a\n")  # the same file, so that the running host sees it
            self.assertEqual([job.wait() for job in jobs], [0, 0])

    def test_two_jobs_with_one_port_number_on_two_hosts_do_not_meet(self):
        with Lab(["a", "b", "c", "d"]) as lab:
            first = [dynamic(lab[name], "a", "2", SAY, job="one") for name in "ac"]
            second = [dynamic(lab[name], "b", "2", SAY, job="two") for name in "bd"]
            self.assertEqual([job.wait() for job in first + second], [0, 0, 0, 0])
            self.assertIn("of 2 at 10.213.0.1", first[1].text)
            self.assertIn("of 2 at 10.213.0.2", second[1].text)

    def test_two_jobs_with_one_id_at_two_endpoints_do_not_meet(self):
        with Lab(["a", "b", "c", "d"]) as lab:
            first = [dynamic(lab[name], "a", "2", SAY) for name in "ac"]
            second = [dynamic(lab[name], "b", "2", SAY) for name in "bd"]
            self.assertEqual([job.wait() for job in first + second], [0, 0, 0, 0])
            self.assertIn("of 2 at 10.213.0.1", first[1].text)
            self.assertIn("of 2 at 10.213.0.2", second[1].text)

    def test_a_second_job_with_the_same_id_and_endpoint_waits_as_a_spare_and_says_so(self):
        with Lab(["a", "b", "c"]) as lab:
            jobs = [dynamic(lab[name], "a", "2", SAY + "exec sleep 3") for name in "ab"]
            for job in jobs:
                job.expect("up")
            surplus = dynamic(lab["c"], "a", "2", SAY)
            surplus.expect("waiting as a spare: ")
            self.assertEqual([job.wait() for job in [*jobs, surplus]], [0, 0, 0])
            self.assertNotIn("up", surplus.text)

    def test_another_job_at_the_same_endpoint_is_told_so(self):
        with Lab(["a", "b"]) as lab:
            first = dynamic(lab["a"], "a", "2", SAY)
            first.expect("1 of 2 nodes are here", within=5)
            stray = dynamic(lab["b"], "a", "2", SAY, job="other")
            self.assertEqual(stray.wait(3), 64)
            self.assertIn('belongs to job "other", but job "job" is served here', stray.text)

    def test_a_job_of_one_node_with_a_secret_keeps_strangers_from_its_store(self):
        with Lab(["a", "b"]) as lab:
            secret = pathlib.Path(lab.folder) / "secret"
            secret.write_text("swordfish")
            secret.chmod(0o600)
            script = 'echo worker: $(eval "$PING"); exec sleep 100'
            job = lab["a"].run(DDPRUN, "--rdzv-endpoint", f"a:{PORT}", "--rdzv-secret-file", secret, "--no-python",
                               "/bin/sh", "-c", script, PING=PING)
            job.expect("worker: answered")
            stranger = lab["b"].run("sh", "-c", PING)
            self.assertEqual(stranger.wait(), 0)
            self.assertEqual(stranger.text, "sent away")
            self.assertIn("10.213.0.2", job.text)
            self.assertNotIn("no job secret", job.text)

    def test_a_job_of_one_node_without_a_secret_says_that_its_port_is_open(self):
        with Lab(["a"]) as lab:
            job = lab["a"].run(DDPRUN, "--rdzv-endpoint", f"a:{PORT}", "--no-python", "true")
            self.assertEqual(job.wait(), 0)
            self.assertIn(f"no job secret: whoever reaches port {PORT} of this machine", job.text)

    def test_a_firewall_that_resets_is_a_partition(self):
        if shutil.which("nft") is None:
            print("SKIPPED: a firewall needs nft (Debian: nftables)", file=sys.stderr)
            skip("no nft")
        with Lab(["a", "b", "c"]) as lab:
            script = SAY + "exec sleep 100"
            jobs = [dynamic(host, "a", "2:3", script, conf=QUICK) for host in lab.hosts.values()]
            for job in jobs:
                job.expect("up")
            lab["c"].firewall(f"tcp dport {PORT} reject with tcp reset")
            jobs[0].expect("of 2 at 10.213.0.1 life 1")
            self.assertIn("lost the coordinator", jobs[2].text)

    def test_a_firewall_that_drops_is_a_partition_and_when_it_opens_the_node_is_back(self):
        if shutil.which("nft") is None:
            print("SKIPPED: a firewall needs nft (Debian: nftables)", file=sys.stderr)
            skip("no nft")
        with Lab(["a", "b", "c"]) as lab:
            script = SAY + "[ $TORCHELASTIC_RESTART_COUNT = 2 ] || exec sleep 100; exit 0"
            jobs = [dynamic(host, "a", "2:3", script, conf=QUICK) for host in lab.hosts.values()]
            for job in jobs:
                job.expect("up")
            lab["c"].firewall(f"tcp dport {PORT} drop")
            killed = jobs[2].expect("the others may go on without this node")
            self.assertLess(killed, jobs[0].expect("of 2 at 10.213.0.1 life 1"))
            lab["c"].no_firewall()
            self.assertEqual([job.wait() for job in jobs], [0, 0, 0])
            self.assertIn("of 3 at 10.213.0.1 life 2", jobs[2].text)


if __name__ == "__main__":
    require_namespaces()
    unittest.main(verbosity=2)
