#!/usr/bin/env python3
"""Flips one bit in the memory of a running worker, from outside: with /divergence_check its rank and tensor are named."""

import pathlib
import re
import signal
import sys
import unittest
import zipfile

from jobs import JobTest

from skips import skip

# A rate at which weights stay what they are, so that they can be found by their bytes.
STILL = {"divergence_check": 7, "train": {"epochs": 10**6}, "optimizer": {"learning_rate": 1e-30}, "checkpoint": {"keep": 2}}
WEIGHT = "parameter layers.1.weight (Float [16, 784])"
WEIGHT_BYTES = 16 * 784 * 4
SHADOW_BYTES = 1 << 40
BIT_OF_MANTISSA = 1 << 4  # of a float's third byte


def flip_a_bit(pid, pattern):
    """In every copy of `pattern` in the process; how many there were."""
    found = 0
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            begin, end = (int(number, 16) for number in line.split()[0].split("-"))
            # Parameters are private memory; what ranks share is gigabytes of address space, a sanitizer's shadow terabytes.
            if line.split()[1] != "rw-p" or end - begin >= SHADOW_BYTES:
                continue
            try:
                memory.seek(begin)
                content = memory.read(end - begin)
            except OSError:
                continue
            at = content.find(pattern)
            while at >= 0:
                memory.seek(begin + at + 2)
                memory.write(bytes([pattern[2] ^ BIT_OF_MANTISSA]))
                found += 1
                at = content.find(pattern, at + 1)
    return found


class Divergence(JobTest):
    def weight_bytes(self, output, place=0):
        with zipfile.ZipFile(self.checkpoints(output)[place]) as archive:
            # The model comes before the optimizer, whose momentum is as long.
            record = next(info for info in archive.infolist() if "/data/" in info.filename and info.file_size == WEIGHT_BYTES)
            return archive.read(record)[4000:4128]

    def start_and_flip(self, rank, changes, output="out", flags=(), after="epoch 1/"):
        process = self.start(self.job_file(STILL | changes | {"output_dir": output}), ranks=3, flags=flags)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.wait_for_line(process, after)
        try:
            found = flip_a_bit(self.workers()[rank], self.weight_bytes(output))
        except PermissionError as error:
            skip(f"the memory of another process cannot be written here: {error}")
        self.assertGreaterEqual(found, 1)
        return process

    def test_the_rank_and_the_tensor_are_named_as_the_cause(self):
        for backend in ("gloo", "shm"):
            for rank in (0, 1, 2):
                with self.subTest(backend=backend, rank=rank):
                    process = self.start_and_flip(rank, {"backend": backend}, output=f"{backend}-{rank}")
                    self.finish(process, expect=70)
                    report = self.errors().split("job.json failed: ")[1]
                    self.assertRegex(report, rf"^rank {rank} \(")
                    self.assertIn(f"{WEIGHT} on rank {rank} differs from the other 2 ranks; all other tensors are equal", report)
                    self.assertEqual(self.processes(), [])

    def test_no_checkpoint_is_written_of_replicas_that_differ(self):
        process = self.start_and_flip(1, {"divergence_check": 10**9})
        self.finish(process, expect=70)
        step = int(re.search(r"after step (\d+) parameter", self.errors()).group(1))
        self.assertLess(int(self.checkpoints()[-1].stem.removeprefix("step-")), step)

    def test_a_restart_goes_on_from_a_checkpoint_of_equal_replicas(self):
        # In memory each rank keeps a share: rank 0's of this weight, which would become everyone's.
        self.run_job(self.job_file(STILL | {"train": {"epochs": 1}}), ranks=3)
        undamaged = self.weight_bytes("out")
        for rank, memory in ((2, 0), (0, 1)):
            with self.subTest(rank=rank, memory=memory):
                changes = {"checkpoint": {"keep": 10**6, "memory_every_steps": memory, "every_epochs": 10 if memory else 1}}
                process = self.start_and_flip(rank, changes, output=f"out{rank}", flags=("--max-restarts", "1"),
                                              after="epoch 11/" if memory else "epoch 1/")
                self.wait_for_line(process, "resumed from memory" if memory else "resumed from out2")
                self.wait_for_line(process, "epoch")
                process.terminate()
                self.finish(process, expect=128 + signal.SIGTERM)
                self.assertEqual(self.weight_bytes(f"out{rank}", -1), undamaged)

    def test_equal_replicas_say_nothing_and_end_as_without_the_check_also_when_resumed(self):
        plain = self.job_file({"output_dir": "plain"})
        self.run_job(plain)
        checked = self.job_file({"output_dir": "checked", "divergence_check": 1})
        self.run_job(checked, "/train/max_steps=13")
        done = self.run_job(checked, "/train/max_steps=0")
        self.assertIn("resumed from checked/checkpoints/step-00000013.pt", done.stdout)
        self.assertEqual(done.stderr, "")
        one, other = (zipfile.ZipFile(self.checkpoints(output)[-1]) for output in ("plain", "checked"))
        names = [name for name in one.namelist() if "/data/" in name]
        self.assertEqual([one.read(name) for name in names], [other.read(name) for name in names])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
