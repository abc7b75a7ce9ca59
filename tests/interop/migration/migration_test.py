"""The pairs of commands of docs/migrating.md and of docs/torchrun.md: the launcher that one comes from and ddprun give the same ranks and weights.

    migration_test.py DDPRUN PYTHON      DDPRUN_PEERS_PYTHON=… is a Python with torch, lightning and accelerate
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))

from patience import patient  # noqa: E402
from skips import skip  # noqa: E402

DDPRUN, PYTHON = sys.argv[1:3]
del sys.argv[1:3]
PYTHON = os.environ.get("DDPRUN_PEERS_PYTHON", PYTHON)


def pair(heading):
    """The commands before and now of that part of the page."""
    part = (ROOT / "docs/migrating.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return before_and_now(part)


def before_and_now(text):
    return [re.search(rf"^(.*?) +# {word}$", text, re.MULTILINE)[1] for word in ("before", "now")]


def needs(module):
    if subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0:
        skip(f"needs {module} beside torch: DDPRUN_PEERS_PYTHON=PYTHON, where pip install {module} was run")


class Migration(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-migration-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        shutil.copytree(pathlib.Path(__file__).parent / "programs", cls.folder / "work")
        (cls.folder / "bin").mkdir()
        (cls.folder / "bin/ddprun").symlink_to(DDPRUN)
        # Peers that want port 29500 have it in a network of their own.
        cls.alone = ["unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "-"]
        if subprocess.run([*cls.alone, "true"], capture_output=True, check=False).returncode != 0:
            skip("needs a network namespace (unshare -n as root), because the other launchers take a fixed port")

    def ranks(self, command, **changes):
        """Its lines `rank R of W, …` in order."""
        kept = {name: os.environ[name] for name in ("HOME", "LD_LIBRARY_PATH", "ASAN_OPTIONS") if name in os.environ}
        path = f"{self.folder}/bin:{pathlib.Path(PYTHON).parent}:{os.environ['PATH']}"
        own = {"PATH": path, "PYTHON_EXEC": PYTHON, "TMPDIR": str(self.folder), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
               "HF_HOME": str(self.folder)}  # where accelerate would find a configuration
        done = subprocess.run([*self.alone, "bash", "-c", command], cwd=self.folder / "work", env=kept | own | changes,
                              capture_output=True, text=True, timeout=patient(120), check=False)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return sorted(re.findall(r"rank \d+ of \d+, local rank \d+(?:: weight -?[\d.]+\d)?", done.stdout))

    def assert_the_same(self, heading, **changes):
        before, now = pair(heading)
        told = self.ranks(now)
        self.assertEqual([line.split(",")[0] for line in told], ["rank 0 of 2", "rank 1 of 2"])
        self.assertEqual(self.ranks(before, **changes), told)

    def test_torch_distributed_launch(self):
        needs("torch.distributed")
        self.assert_the_same("From python -m torch.distributed.launch")

    def test_torchrun(self):
        needs("torch.distributed")
        before, now = before_and_now((ROOT / "docs/torchrun.md").read_text())
        told = self.ranks(now)
        self.assertEqual([line.split(",")[0] for line in told], ["rank 0 of 2", "rank 1 of 2"])
        self.assertEqual(self.ranks(before), told)

    def test_mpirun(self):
        needs("torch.distributed")
        if shutil.which("mpirun") is None:
            skip("needs mpirun (Debian: openmpi-bin)")
        self.assert_the_same("From mpirun", OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                             OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl="self,tcp")

    def test_lightning(self):
        needs("lightning")
        self.assert_the_same("From Lightning")

    def assert_two_nodes_are_one_job(self, script):
        flags = "--nnodes 2 --master-addr 127.0.0.1 --master-port 29500"
        told = self.ranks(f"ddprun {flags} --node-rank 1 {script} & ddprun {flags} --node-rank 0 {script} && wait $!")
        self.assertEqual([line.split(":")[0] for line in told], ["rank 0 of 2, local rank 0", "rank 1 of 2, local rank 0"])
        self.assertEqual(len({line.split(":")[1] for line in told}), 1, told)

    def test_two_nodes_are_one_job_of_lightning(self):
        needs("lightning")
        text = (self.folder / "work/lightning_train.py").read_text()
        (self.folder / "work/two_nodes.py").write_text(text.replace("devices=2, num_nodes=1", "devices=1, num_nodes=2"))
        self.assert_two_nodes_are_one_job("two_nodes.py")

    def test_two_nodes_are_one_job_of_accelerate(self):
        needs("accelerate")
        self.assert_two_nodes_are_one_job("accelerate_train.py")

    def test_lightning_says_what_does_not_fit_and_ddprun_shows_it(self):
        needs("lightning")
        done = subprocess.run([DDPRUN, "lightning_train.py"], cwd=self.folder / "work", capture_output=True, text=True, check=False,
                              env=os.environ | {"PYTHON_EXEC": PYTHON, "TMPDIR": str(self.folder)}, timeout=patient(120))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"uncaught Python exception ValueError: You set `devices=2`.* does not match the world size")

    def test_accelerate(self):
        needs("accelerate")
        self.assert_the_same("From Accelerate")

    def test_the_variables_of_the_page_are_read(self):
        needs("accelerate")
        said = subprocess.run([PYTHON, "-c", "from accelerate import Accelerator as A; a = A(); print(a.gradient_accumulation_steps, a.device)"],
                              env=os.environ | {"ACCELERATE_GRADIENT_ACCUMULATION_STEPS": "4", "ACCELERATE_USE_CPU": "true"},
                              capture_output=True, text=True, check=True)
        self.assertEqual(said.stdout, "4 cpu\n")

    def test_what_accelerate_launch_sets_is_set_by_variables(self):
        needs("accelerate")
        by_variable = self.ranks(f"ACCELERATE_MIXED_PRECISION=bf16 {pair('From Accelerate')[1]}")
        by_flag = self.ranks(pair("From Accelerate")[0].replace("launch", "launch --mixed_precision bf16"))
        self.assertEqual(by_variable, by_flag)
        self.assertNotEqual(by_variable, self.ranks(pair("From Accelerate")[1]))


if __name__ == "__main__":
    unittest.main()
