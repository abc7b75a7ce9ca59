"""scripts/launch/slurm.sbatch and plain srun on a real Slurm of three hosts.

Usage: slurm_test.py DDPRUN PYTHON [unittest arguments]
"""

import pathlib
import re
import sys
import unittest

from hosts import ROOT, processes, readme, require_namespaces, require_programs, trained
from slurm_hosts import SlurmSite

DDPRUN, PYTHON = sys.argv.pop(1), sys.argv.pop(1)
SAVE = "trap 'echo saved $RANK; exit 0' TERM; echo up $RANK of $WORLD_SIZE; while :; do sleep 0.1; done"


class SlurmTest(unittest.TestCase):
    def setUp(self):
        self.site = SlurmSite(["node-a", "node-b", "node-c"], DDPRUN, PYTHON)
        self.addCleanup(self.site.__exit__)

    def submit(self, *words):
        """The number of a batch job whose output is in out(job)."""
        said = self.site.ask("sbatch", "--parsable", "--output=%j.out", *words)
        self.assertRegex(said, r"^\d+$")
        return said

    def out(self, job):
        file = self.site.shared / f"{job}.out"
        return file.read_text() if file.exists() else ""

    def until_said(self, job, text, count=1, within=40):
        self.site.until(lambda: self.out(job).count(text) >= count, within, f"{count} × {text!r}")

    def until_state(self, job, state, within=60):
        self.site.until(lambda: self.site.state(job)[0] == state, within, f"{state} of job {job}")
        return self.site.state(job)[1]

    def start_work(self, script, *flags, nodes=3):
        (self.site.shared / "work.sh").write_text(script)
        return self.submit(f"--nodes={nodes}", *flags, "scripts/launch/slurm.sbatch", "--no-python", "/bin/sh", "work.sh")

    def expect_nothing_left(self, within=10):
        def mine():
            return [line for _, line in processes(self.site.folder) if "ddprun" in line.split(" ")[0] or "work.sh" in line]
        self.site.until(lambda: not mine(), within, "end of all workers")


class Launch(SlurmTest):
    def test_the_readmes_sbatch_trains_a_job_file_on_three_nodes(self):
        said = self.site.ask("bash", "-c", readme("sbatch --nodes"))
        self.assertRegex(said, r"Submitted batch job \d+")
        job = said.split()[-1]
        self.until_state(job, "COMPLETED")
        text = (self.site.shared / f"slurm-{job}.out").read_text()
        self.assertIn("6 ranks of batch 32", text)
        self.assertIn("done: 1 of 1 epochs", text)
        self.assertNotIn("no job secret", text)

    def test_the_readmes_srun_needs_no_rendezvous_flag(self):
        text = self.site.ask("bash", "-c", readme("srun --nodes"))
        self.assertEqual(trained(text), ["node-a", "node-a", "node-b", "node-b", "node-c", "node-c"])

    def test_hosts_are_examined_before_the_first_job(self):
        text = self.site.ask("bash", "-c", readme("srun --ntasks-per-node=1"))
        self.assertEqual(text.count("3 of 3 hosts at "), 3, text)

    def test_a_script_with_torchrun_becomes_one_with_ddprun(self):
        (self.site.shared.parent / "bin/torchrun").symlink_to(pathlib.Path(PYTHON).parent / "torchrun")
        page = (ROOT / "docs/migrating.md").read_text().split("## From a Slurm script with torchrun")[1].split("```")[1]
        head, before, now = [line.split("    # ")[0] for line in page.splitlines()[1:]]
        texts = []
        for command in (before, now, before.replace("torchrun", "ddprun")):
            (self.site.shared / "script.sbatch").write_text(f"#!/bin/bash\n{head}\n{command}\n")
            job = self.submit("--nodes=2", "script.sbatch")
            self.until_state(job, "COMPLETED", within=120)
            texts.append(self.out(job))
        for text in texts:
            self.assertEqual(trained(text), ["node-a", "node-a", "node-b", "node-b"])
        self.assertEqual(len({re.search("ends with ([0-9a-f]{16})", text)[1] for text in texts}), 1, texts)

    def test_an_elastic_job_learns_its_address_from_slurm(self):
        text = self.site.ask("srun", "--nodes=3", "--ntasks-per-node=1", "ddprun", "--nnodes", "2:3", "--no-python", "/bin/sh",
                             "-c", "echo up $RANK of $WORLD_SIZE at $MASTER_ADDR")
        for rank in range(3):
            self.assertIn(f"up {rank} of 3 at 10.213.0.1", text)

    def test_a_workers_exit_code_is_the_jobs(self):
        job = self.start_work("[ $RANK = 1 ] && exit 7; exec sleep 60")
        facts = self.until_state(job, "FAILED")
        self.assertEqual((facts["ExitCode"], facts["Restarts"]), ("7:0", "0"), self.out(job))
        self.expect_nothing_left()

    def test_scancel_lets_workers_save_and_leaves_nothing(self):
        job = self.start_work(SAVE)
        self.until_said(job, "up ", 3)
        self.site.ask("scancel", job)
        facts = self.until_state(job, "CANCELLED")
        self.assertEqual(self.out(job).count("saved"), 3, self.out(job))
        self.assertEqual(facts["Restarts"], "0")
        self.expect_nothing_left()

    def test_a_job_of_one_node_is_queued_again_as_well(self):
        job = self.start_work(SAVE, nodes=1)
        self.until_said(job, "up 0 of 1")
        self.site.ask("scancel", "--signal=USR1", "--batch", job)
        self.until_said(job, "up 0 of 1", 2)
        self.assertIn("saved 0", self.out(job))
        self.site.ask("scancel", job)
        self.until_state(job, "CANCELLED")

    def test_several_tasks_on_a_node_are_refused_with_the_flag_to_add(self):
        text = self.site.ask("srun", "--nodes=2", "--ntasks=4", "ddprun", "/bin/true")
        self.assertIn("Slurm started 4 tasks on 2 nodes", text)
        self.assertIn("use srun --ntasks-per-node=1", text)


class Requeue(SlurmTest):
    def begin_training(self, nodes):
        self.site.write_job(epochs=20)
        job = self.submit(f"--nodes={nodes}", "scripts/launch/slurm.sbatch", "train.json")
        self.until_said(job, "epoch 2/20")
        return job

    def expect_resumed_and_done(self, job, within=100):
        facts = self.until_state(job, "COMPLETED", within)
        text = self.out(job)
        self.assertEqual(facts["Restarts"], "1", text)
        self.assertIn("resum", text)
        self.assertEqual(text.count("epoch 1/20"), 1, text)
        self.assertIn("done: 20 of 20 epochs", text)

    def test_time_is_nearly_up(self):
        job = self.begin_training(3)
        self.site.ask("bash", "-c", readme("scancel --signal=USR1").replace("JOB", job))
        self.until_said(job, "queued again")
        self.expect_resumed_and_done(job)

    def test_a_preempted_job_saves_in_its_grace_time_and_comes_back(self):
        job = self.begin_training(3)
        self.submit("--partition=urgent", "--exclusive", "--nodes=3", "--wrap", "srun sleep 1")
        self.until_said(job, "queued again")
        self.expect_resumed_and_done(job)

    def test_a_node_loses_power_and_the_job_goes_on_elsewhere(self):
        job = self.begin_training(2)
        self.site["node-b"].cut_power()
        self.expect_resumed_and_done(job)


if __name__ == "__main__":
    require_namespaces()
    require_programs("slurmctld slurmd slurm-client", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "srun", "sbatch")
    unittest.main(verbosity=2)
