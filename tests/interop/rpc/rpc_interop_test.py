"""rpc_interop_test.py DDPRUN PROGRAM: ranks in C++ and in Python (torch.distributed.rpc itself) call each other."""

import os
import pathlib
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "support"))

from patience import patient  # noqa: E402

DDPRUN, PROGRAM = sys.argv[1:3]
del sys.argv[1:3]
PYTHON = sys.executable


class Interop(unittest.TestCase):
    def together(self, names, python_rank):
        """Two ranks, one of them in Python; rank 0 and its name first."""
        python, cpp = names[python_rank], names[1 - python_rank]
        script = (f'if [ "$RANK" = {python_rank} ]; then exec {PYTHON} {HERE}/python_rank.py {python} {cpp}; '
                  f'else exec {PROGRAM} {cpp} {python}; fi')
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("DDPRUN_", "TORCHELASTIC_"))}
        done = subprocess.run([DDPRUN, "--nproc-per-node", "2", "sh", "-c", script], env=plain, text=True, capture_output=True,
                              timeout=patient(40), check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("ok: "), 15, done.stdout + done.stderr)

    def test_python_leads_a_world_with_a_rank_in_cpp(self):
        self.together(("anna", "berta"), python_rank=0)

    def test_cpp_leads_a_world_with_a_rank_in_python(self):
        self.together(("anna", "berta"), python_rank=1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
