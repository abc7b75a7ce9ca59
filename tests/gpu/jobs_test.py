"""Whole jobs on one card, on all, or on the CPU: they begin, lose a rank, are drained, and go on from checkpoints.

    jobs_test.py --binaries DIR --fault-program F --drain-program D [--device cuda [--one-card]] [--worlds N]

DDPRUN_BACKEND is their backend; `--worlds cards` is one rank for each card. Exits 77 without the cards it needs."""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "integration/training")]

import cards  # noqa: E402
import torch  # noqa: E402
from jobs import JobTest, merged, patient  # noqa: E402
from owned import own  # noqa: E402

CONFIG = 78
END_WITHIN_S = patient(60)
SMALL_CHANGE_MIB = 64  # of a card's memory; a process that uses the card has several times that


class GpuJob(JobTest):
    options = None

    def begin(self, ranks, program, *arguments):
        words = [self.options.binaries / "ddprun", "--nproc-per-node", ranks, "--log-dir", self.folder / "logs", program, *arguments]
        with open(self.folder / "stderr.txt", "w", encoding="utf-8") as errors:
            job = subprocess.Popen([str(word) for word in words], cwd=self.folder, env=self.environment(), text=True,
                                   stdout=subprocess.PIPE, stderr=errors)
        return own(self, job)

    def begin_program(self, ranks, around="recorded", what="none", at="never", culprit=-1, backend=None):
        """tests/fault/trainer/program.cc"""
        return self.begin(ranks, self.options.fault_program, backend or self.options.backend, around, what, at, culprit,
                          self.options.device)

    def train(self, epochs, device, backend):
        job = self.job_file({"backend": backend, "device": device, "train": {"epochs": epochs}})
        return self.run_job(job, ranks=self.options.ranks).stdout


class Jobs(GpuJob):
    def test_one_rank_and_several_begin_on_the_device_that_was_asked_for(self):
        for ranks in (1, self.options.ranks):
            with self.subTest(ranks=ranks):
                self.finish(self.begin_program(ranks), expect=0)
                self.assertRegex(self.errors(), rf"backend {self.options.backend} on {self.options.device}\b")

    def test_ranks_that_each_see_one_card_alone_take_that(self):
        # As wrapper scripts have it: each rank's CUDA_VISIBLE_DEVICES is one card, which is cuda:0 to it.
        visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(max(cards.count(), 1))))
        mask = self.folder / "mask.sh"
        mask.write_text("#!/bin/sh\n" f"set -- {' '.join(visible.split(','))} -- \"$@\"\n"
                        f"shift $((LOCAL_RANK % {len(visible.split(','))}))\nexport CUDA_VISIBLE_DEVICES=$1\n"
                        "while [ \"$1\" != -- ]; do shift; done\nshift\nexec \"$@\"\n", encoding="utf-8")
        mask.chmod(0o755)
        words = (self.options.fault_program, self.options.backend, "recorded", "none", "never", -1, self.options.device)
        self.finish(self.begin(self.options.ranks, mask, *words), expect=0)
        self.assertRegex(self.errors(), rf"backend {self.options.backend} on {self.options.device}\b")

    def test_a_rank_that_is_killed_is_named_and_the_others_end_in_time(self):
        used = self.used_memory()
        began = time.monotonic()
        job = self.begin_program(self.options.ranks, "plain", "kill", "backward", culprit=1)
        self.finish(job, expect=128 + signal.SIGKILL)
        self.assertLess(time.monotonic() - began, END_WITHIN_S)
        (report,) = (self.folder / "logs").glob("*/report.json")
        self.assertEqual(json.loads(report.read_text())["root_cause"]["rank"], 1)
        self.assertEqual(self.processes(), [])
        for before, after in zip(used, self.used_memory(), strict=True):
            self.assertLess(after, before + SMALL_CHANGE_MIB, "something of the job still holds memory of the card")

    def used_memory(self):
        """MiB of each card. Asked of the driver's own program, because torch would take some for this process."""
        if self.options.device == "cpu":
            return []
        ask = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        return [int(line) for line in subprocess.run(ask, capture_output=True, text=True, check=True).stdout.split()]

    def test_a_drained_job_stops_after_one_step_of_all_ranks(self):
        job = self.begin(self.options.ranks, self.options.drain_program, self.options.backend, self.options.device)
        self.wait_for_training(job)
        job.send_signal(signal.SIGTERM)
        saved = re.findall(r"rank (\d+) saved step (\d+)", self.finish(job, expect=128 + signal.SIGTERM))
        self.assertEqual(sorted(int(rank) for rank, _ in saved), list(range(self.options.ranks)))
        self.assertEqual(len({step for _, step in saved}), 1, saved)

    def wait_for_training(self, job):
        for line in job.stdout:
            if "trains in pid" in line:
                return
        self.fail(self.errors())

    def test_checkpoints_go_from_the_device_to_the_cpu_and_back(self):
        here = (self.options.device, self.options.backend)
        self.train(1, *here)
        self.assertRegex(self.train(2, "cpu", "gloo"), r"resumed from \S+step-0*10\.pt")
        self.assertRegex(self.train(3, *here), r"resumed from \S+step-0*20\.pt")
        self.assertEqual([record["epoch"] for record in self.metrics("epoch")], [1, 2, 3])

    def test_a_recorded_job_ends_with_the_bits_of_one_that_is_not(self):
        graph = {"backend": self.options.backend, "device": self.options.device,
                 "train": {"epochs": 3, "deterministic": True, "cuda_graph": True}}
        ranks = self.options.ranks
        if self.options.backend != "nccl" or self.options.device != "cuda":
            done = self.run_job(self.job_file(graph), ranks=ranks, expect=CONFIG)
            self.assertIn("/train/cuda_graph: ", done.stderr)
            return
        # 320 samples for each rank in batches of 36: each epoch has eight of them and a smaller one, and the twelfth of those
        # is recorded. Dropout draws on the card.
        for name, precision, views in (("plain", "fp32", True), ("copies", "fp32", False), ("scaled", "fp16", True)):
            changes = {"data": {"train_samples": 320 * ranks}, "train": {"batch_size": 36, "precision": precision, "clip_grad_norm": 1.0},
                       "schedule": {"type": "cosine"}, "ddp": {"gradient_as_bucket_view": views}}
            weights = []
            for recorded in (False, True):
                output = f"{name}-{recorded}"
                job = merged(merged(graph, changes), {"output_dir": output, "train": {"cuda_graph": recorded}})
                done = self.run_job(self.job_file(job), ranks=ranks)
                self.assertEqual("forward and backward are recorded at step 13," in done.stdout, recorded, done.stdout)
                state = torch.load(self.checkpoints(output)[-1], weights_only=True)
                weights.append(state["model"])
            for key, value in weights[0].items():
                self.assertTrue(torch.equal(value, weights[1][key]), f"{name}: {key}")

    def test_more_ranks_than_cards_over_nccl_are_refused(self):
        ranks = cards.count() + 1 if self.options.device == "cuda" else 2
        self.finish(self.begin_program(ranks, backend="nccl"), expect=CONFIG)
        why = "nccl wants one GPU per worker" if self.options.device == "cuda" else "(it needs a GPU|left out of this build)"
        self.assertRegex(self.errors(), f"backend nccl: .*{why}")


def main():
    parser = argparse.ArgumentParser()
    for name in ("--binaries", "--fault-program", "--drain-program"):
        parser.add_argument(name, type=lambda text: pathlib.Path(text).resolve(), required=True)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--one-card", action="store_true", help="all ranks share the first card")
    parser.add_argument("--worlds", default="2")
    options, rest = parser.parse_known_args()
    (options.ranks,) = cards.worlds(options)
    options.backend = os.environ["DDPRUN_BACKEND"]
    JobTest.binaries = options.binaries
    GpuJob.options = options
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
