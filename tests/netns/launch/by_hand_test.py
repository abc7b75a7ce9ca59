"""The README's commands for machines that a person starts one by one.

Usage: by_hand_test.py DDPRUN PYTHON [unittest arguments]
"""

import sys
import unittest

from hosts import Site, readme, require_namespaces, trained

DDPRUN, PYTHON = sys.argv.pop(1), sys.argv.pop(1)


class ByHand(unittest.TestCase):
    def hosts(self, *names):
        site = Site(names, DDPRUN, PYTHON)
        self.addCleanup(site.__exit__)
        return site

    def test_two_machines_with_a_secret_train_a_python_script(self):
        site = self.hosts("node-a", "node-b")
        self.assertEqual(site.shell(site["node-a"], readme("(umask 077")).wait(), 0)
        jobs = [site.shell(site[host], readme(f"ddprun --nnodes 2 --node-rank {rank}")) for rank, host in enumerate(site.hosts)]
        self.assertEqual([job.wait(60) for job in jobs], [0, 0], jobs[0].text + jobs[1].text)
        self.assertEqual(trained(jobs[0].text + jobs[1].text), ["node-a", "node-a", "node-b", "node-b"])
        self.assertNotIn("no job secret", jobs[0].text)

    def test_an_elastic_job_goes_on_without_a_machine(self):
        site = self.hosts("node-a", "node-b", "node-c")
        site.write_job(epochs=20)
        jobs = [site.shell(host, readme("ddprun --nnodes 2:4 --rdzv-endpoint node-a")) for host in site.hosts.values()]
        jobs[0].expect("6 ranks of batch 32", within=40)
        jobs[0].expect("epoch 2/20", within=60)
        site["node-c"].cut_power()
        jobs[0].expect("4 ranks of batch 32", within=40)
        self.assertEqual([job.wait(90) for job in jobs[:2]], [0, 0], jobs[0].text)
        self.assertIn("resumed from", jobs[0].text)

    def test_a_coordinator_of_its_own_and_a_drain(self):
        site = self.hosts("head", "node-a", "node-b")
        site.write_job(epochs=20)
        head = site.shell(site["head"], readme("ddprun coordinator"))
        head.expect("29400")
        jobs = [site.shell(site[host], readme("ddprun --nnodes 2:4 --rdzv-endpoint head")) for host in ("node-a", "node-b")]
        jobs[0].expect("epoch 2/20", within=60)
        drain = site.shell(site["node-b"], readme("ddprun drain --rdzv-endpoint head:29400 --rdzv-id cifar  "))
        self.assertEqual(drain.wait(), 0, drain.text)
        self.assertEqual([job.wait(40) for job in [*jobs, head]], [75, 75, 75], jobs[0].text)
        self.assertTrue(list(site.shared.glob("out/checkpoints/step-*.pt")))


    def test_one_node_of_three_is_drained_and_the_others_go_on(self):
        site = self.hosts("head", "node-a", "node-b", "node-c")
        site.write_job(epochs=20)
        head = site.shell(site["head"], readme("ddprun coordinator"))
        head.expect("29400")
        jobs = [site.shell(site[host], readme("ddprun --nnodes 2:4 --rdzv-endpoint head")) for host in ("node-a", "node-b", "node-c")]
        jobs[0].expect("3 ranks of batch 32", within=40)
        jobs[0].expect("epoch 2/20", within=60)
        one = site.shell(site["node-a"], readme("ddprun drain --rdzv-endpoint head:29400 --rdzv-id cifar --node-rank"))
        self.assertEqual(one.wait(), 0, one.text)
        jobs[0].expect("2 ranks of batch 32", within=60)
        rest = site.shell(site["node-a"], readme("ddprun drain --rdzv-endpoint head:29400 --rdzv-id cifar  "))
        self.assertEqual(rest.wait(), 0, rest.text)
        self.assertEqual([job.wait(40) for job in [*jobs, head]], [75] * 4, jobs[0].text)

    def test_hosts_are_examined_before_the_first_job(self):
        site = self.hosts("node-a", "node-b", "node-c")
        doctors = [site.shell(host, readme("ddprun doctor --nnodes 3")) for host in site.hosts.values()]
        for doctor in doctors:
            self.assertIn(doctor.wait(60), (0, 78), doctor.text)
            self.assertIn("3 of 3 hosts at node-a:29400", doctor.text)

    def test_twelve_virtual_ranks_on_two_nodes(self):
        site = self.hosts("node-a", "node-b")
        jobs = [site.shell(host, readme("ddprun --set /train/virtual_ranks=12")) for host in site.hosts.values()]
        self.assertEqual([job.wait(90) for job in jobs], [0, 0], jobs[0].text + jobs[1].text)
        self.assertIn("done: 1 of 1 epochs", jobs[0].text)


if __name__ == "__main__":
    require_namespaces()
    unittest.main(verbosity=2)
