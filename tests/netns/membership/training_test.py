"""DDP across hosts: an ordinary Python script, and ddprun's own worker through the loss of a host.

Usage: training_test.py DDPRUN PYTHON [unittest arguments]
"""

import json
import os
import pathlib
import re
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(__file__))
from lab import Lab, patient, require_namespaces  # noqa: E402

DDPRUN, PYTHON = sys.argv.pop(1), sys.argv.pop(1)
PORT = 29400
QUICK = "keep_alive_interval=0.1,keep_alive_max_attempt=5,last_call_timeout=60"
SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "launch/programs/train.py"


def start(host, nnodes, program, conf=QUICK, **environment):
    return host.run(DDPRUN, "--nnodes", nnodes, "--rdzv-endpoint", f"a:{PORT}", "--rdzv-id", "job", "--rdzv-conf", conf,
                    *program, OMP_NUM_THREADS="1", **environment)


class Training(unittest.TestCase):
    def test_an_ordinary_python_script_trains_on_three_hosts(self):
        with Lab(["a", "b", "c"]) as lab:
            jobs = [start(host, "3", [SCRIPT], conf="keep_alive_interval=1", PYTHON_EXEC=PYTHON) for host in lab.hosts.values()]
            self.assertEqual([job.wait(60) for job in jobs], [0, 0, 0], "\n".join(job.text for job in jobs))
            weights = set()
            for rank, (name, job) in enumerate(zip("abc", jobs)):
                said = re.search(rf"rank {rank} of 3 on {name} ends with (\w+)", job.text)
                self.assertTrue(said, job.text)
                weights.add(said[1])
            self.assertEqual(len(weights), 1, weights)

    def test_ddprun_worker_loses_a_host_of_three_to_a_power_cut_and_goes_on_from_its_checkpoint(self):
        with Lab(["a", "b", "c"]) as lab:
            folder = pathlib.Path(lab.folder)
            job_file = folder / "job.json"
            job_file.write_text(json.dumps({
                "backend": "gloo", "output_dir": str(folder / "out"),
                "model": {"type": "mlp", "hidden": [16]},
                "data": {"type": "synthetic", "train_samples": 19200, "test_samples": 100},
                "train": {"epochs": 1, "batch_size": 4},
                "optimizer": {"type": "sgd", "learning_rate": 0.05},
                "checkpoint": {"every_steps": 50, "keep": 3}, "log": {"every_steps": 1}}))
            jobs = [start(host, "2:3", [job_file]) for host in lab.hosts.values()]
            metrics = folder / "out/metrics.jsonl"
            self.wait_for(metrics, r'"event":"checkpoint"', jobs)
            cut = time.time()
            lab["c"].cut_power()
            self.assertEqual([job.wait(60) for job in jobs[:2]], [0, 0], jobs[0].text + jobs[1].text)
            self.assertIn("was lost: it was silent for", jobs[1].text)
            self.assertRegex(jobs[0].text + jobs[1].text, r"resumed from \S+/step-\d+\.pt")
            records = [json.loads(line) for line in metrics.read_text().splitlines()]
            second = next(index for index, record in enumerate(records) if record["event"] == "start" and record["restart_count"] == 1)
            first_step = next(record for record in records[second:] if record["event"] == "step")
            print(f"from the power cut to the first step of two hosts: {first_step['time'] - cut:.2f} s", file=sys.stderr)
            self.assertLess(first_step["time"] - cut, patient(20))  # two hosts start libtorch on the processors of one

    def wait_for(self, path, pattern, jobs):
        for _ in range(patient(600)):
            if path.exists() and re.search(pattern, path.read_text()):
                return
            time.sleep(0.05)
        self.fail("\n".join(job.text for job in jobs))


if __name__ == "__main__":
    require_namespaces()
    unittest.main(verbosity=2)
