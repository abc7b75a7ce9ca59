"""Commands of README.md, docs/failures.md, docs/hangs.md and docs/several-machines.md that want the launcher alone, as they stand there."""

import json
import os
import pathlib
import re
import subprocess
import unittest

from harness import BOUND_S, DDPRUN, Case
from namespaces import PID_NAMESPACE, needs_pid_namespace

ROOT = pathlib.Path(__file__).parents[3]

# Rank 2 of train.py fails when the others have said that they work.
FAILS = """
import os, signal
print("rank", os.environ["RANK"], "works", flush=True)
others = os.open("others", os.O_RDWR)  # a FIFO
if os.environ["RANK"] == "2":
    for _ in range(3):
        os.read(others, 1)
    raise ValueError("loss is nan at step 120")
os.write(others, b"x")
signal.pause()
"""

# A job that waits, the only one of its host; it is asked why, watched, and drained, each by the words of a page.
ASK = """
mkfifo job page
ddprun --nproc-per-node 2 --no-python sh -c 'echo up; exec sleep 600' >job & job=$!
exec 3<job && read -r -u 3 && read -r -u 3
$WHY >why.txt; echo "why $?"
$WATCH >page & watch=$!
exec 4<page && read -r -u 4 first && echo "watch: $first"
$DRAIN >drain.txt 2>&1; echo "drain $?"
wait $job; echo "job $?"
cat <&4 >/dev/null; wait $watch; echo "watch $?"
"""


def commands(page):
    """The lines of the page's sh blocks, without their comments."""
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)
    return [re.sub(r"\s+#.*", "", line) for line in "".join(blocks).splitlines()]


class Pages(Case):
    def setUp(self):
        super().setUp()
        (self.folder / "bin").mkdir()
        (self.folder / "bin/ddprun").symlink_to(DDPRUN)

    def type(self, command, before=(), **changes):
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        return subprocess.run([*before, "bash", "-c", command], cwd=self.folder, env=self.environment(PATH=path, **changes), text=True,
                              capture_output=True, timeout=BOUND_S, check=False)

    def test_a_job_that_failed_says_so_and_its_report_is_read_by_a_program(self):
        self.script("train.py", FAILS)
        os.mkfifo(self.folder / "others")
        run, read = commands("docs/failures.md")
        failed = self.type(run)
        self.assertEqual(failed.returncode, 1, failed.stderr)
        self.assertIn("ValueError: loss is nan at step 120", failed.stderr)
        told = self.type(read)
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        self.assertEqual(json.loads(told.stdout)["root_cause"]["rank"], 2)
        for rank in range(4):
            self.assertEqual((next(self.logs.glob(f"*/attempt_0/{rank}/stdout.log"))).read_text(), f"rank {rank} works\n")

    @needs_pid_namespace
    def test_a_job_that_waits_is_asked_why_and_watched_and_drained(self):
        why, watch = commands("docs/hangs.md")
        self.assertIn(why, commands("README.md"))
        (drain,) = [command for command in commands("docs/several-machines.md") if command == "ddprun drain"]
        done = self.type(ASK, before=PID_NAMESPACE, WHY=why, WATCH=watch, DRAIN=drain)
        self.assertEqual(re.sub("^watch: .*", "watch: …", done.stdout, flags=re.MULTILINE),
                         "why 0\nwatch: …\ndrain 0\njob 75\nwatch 0\n", done.stderr)
        self.assertRegex((self.folder / "why.txt").read_text(), r"^job ddprun --nproc-per-node 2 .*, 2 ranks, generation 0: ")


if __name__ == "__main__":
    unittest.main()
