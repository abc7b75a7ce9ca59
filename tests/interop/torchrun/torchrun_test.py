#!/usr/bin/env python3
"""Runs every command line of cases.py with torchrun and with ddprun and compares all that a user's program can see:
arguments, environment, console output, log files, error file, success or failure."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import random_lines
from cases import CASES

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from ports import free_port  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
DDPRUN, PYTHON = sys.argv[1:3]
del sys.argv[1:3]

# What ddprun's workers are told beyond torchrun's variables.
ONLY_DDPRUN = {"DDPRUN_JOB_TAG", "DDPRUN_LOG_DIR", "DDPRUN_BACKEND", "DDPRUN_COORDINATOR", "DDPRUN_RESTART_CAUSE"}
# What differs where torchrun takes one node without an address for --standalone.
OF_LONE_NODES = ("MASTER_ADDR", "TORCHELASTIC_RUN_ID")
IGNORED = {"PWD", "OLDPWD", "_", "SHLVL", "PROBE_DIR"}


class Peer:
    """torchrun, kept warm."""

    def __init__(self):
        self.process = subprocess.Popen([PYTHON, HERE / "peer.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.is_ready = self.process.stdout.readline() == "ready\n"

    def run(self, **job):
        """The exit code of a job; of "parse", "flags" and "lone", the answer."""
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Side:
    """One run of a case: where it was run, and what it left."""

    def __init__(self, case, folder, launch):
        self.logs, self.probes = folder / "logs", folder / "probes"
        for made in (self.logs, self.probes, folder / "tmp"):
            made.mkdir(parents=True)
        self.port = str(free_port())
        words = {"PROBE": str(HERE / "probe.py"), "LOGS": str(self.logs), "FOLDER": str(folder.parents[1] / "package"), "PYTHON": PYTHON, "FREE_PORT": self.port}
        base = {"PATH": f"{pathlib.Path(PYTHON).parent}:/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder / "tmp"),
                "PROBE_DIR": str(self.probes), "PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1",
                "LC_ALL": "C.UTF-8"}  # or Python would coerce one, and its children inherit that
        self.env = base | {name: self.fill(value, words) for name, value in case.env.items()}
        self.status = launch([self.fill(word, words) for word in case.argv], self.env, folder)
        self.stdout, self.stderr = ((folder / name).read_text() for name in ("stdout", "stderr"))

    @staticmethod
    def fill(text, words):
        for word, value in words.items():
            text = text.replace(word, value) if word in ("LOGS", "FOLDER", "FREE_PORT") else (value if text == word else text)
        return text

    def workers(self):
        return {path.stem: json.loads(path.read_text()) for path in sorted(self.probes.glob("*.json"))}

    def variables(self, notes):
        """What the launcher added or changed, with what must differ made equal."""
        added = {name: value for name, value in notes["env"].items() if self.env.get(name) != value and name not in IGNORED}
        if "MASTER_PORT" in added:
            added["MASTER_PORT"] = "asked for" if added["MASTER_PORT"] == self.port else "a free one"
        if re.fullmatch(r"[0-9a-f-]{36}|standalone-\w+", added.get("TORCHELASTIC_RUN_ID", "")):
            added["TORCHELASTIC_RUN_ID"] = "random"
        added["TORCHELASTIC_ERROR_FILE"] = "/".join(notes["env"].get("TORCHELASTIC_ERROR_FILE", "").split("/")[-3:])
        return added

    def files(self, is_id_known):
        """Log files by name below the run's directory, which is called by its id without the random part, or `run`; with
        their content."""
        found = {}
        for path in self.logs.rglob("*"):
            name = re.sub(r"(^|/)([\w-]+?)_[^/]{8}(?=/|$)", r"\1\2" if is_id_known else r"\1run",
                          str(path.relative_to(self.logs)), count=1)
            if path.is_dir():
                found[name + "/"] = ""
            elif path.suffix != ".json":
                found[name] = path.read_text()
        return found

    def console(self, text):
        """The workers' own lines, in any order."""
        return sorted(line for line in text.splitlines() if re.match(r"^(\[[\w ]+\d\]:|<.*> )?(o|e|x|hello|world|an? \w+|pe,ar)$", line))


class Compare(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.peer = Peer()
        cls.is_lone_node_standalone = cls.peer.run(lone=True)
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ddprun-interop-"))
        package = cls.folder / "package"
        package.mkdir()
        shutil.copy(HERE / "probe.py", package / "__main__.py")
        # Compiled by the Python that will run it, whose magic number it carries.
        subprocess.run([PYTHON, "-c", "import py_compile, sys, zipapp; zipapp.create_archive(sys.argv[1], sys.argv[1] + '.pyz'); "
                        "py_compile.compile(sys.argv[1] + '/__main__.py', sys.argv[1] + '/t.pyc')", package], check=True)
        (cls.folder / "package.pyz").rename(package / "t.pyz")

    @classmethod
    def tearDownClass(cls):
        cls.peer.close()
        shutil.rmtree(cls.folder)

    def run_torchrun(self, argv, env, folder):
        return self.peer.run(argv=argv, env=env, cwd=str(folder), stdout=str(folder / "stdout"), stderr=str(folder / "stderr"))

    def run_ddprun(self, argv, env, folder):
        with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
            return subprocess.run([DDPRUN, *argv], env=env, cwd=folder, stdout=out, stderr=err, stdin=subprocess.DEVNULL,
                                  timeout=60, check=False).returncode

    def compare(self, case, name):
        torchrun = Side(case, self.folder / name / "torchrun", self.run_torchrun)
        ddprun = Side(case, self.folder / name / "ddprun", self.run_ddprun)
        context = f"\ntorchrun {torchrun.status}: {torchrun.stderr[-1500:]}\nddprun {ddprun.status}: {ddprun.stderr}"
        self.assertEqual(ddprun.status != 0, case.fails, context)
        if "status" not in case.differs:
            self.assertEqual(torchrun.status != 0, case.fails, context)
        if "status" in case.differs:
            self.assertNotEqual(torchrun.status != 0, ddprun.status != 0, "it no longer differs: take it out of `differs`")
            return
        self.assertEqual(torchrun.workers().keys(), ddprun.workers().keys(), context)
        for worker, notes in torchrun.workers().items():
            self.compare_worker(case, worker, (torchrun, notes), (ddprun, ddprun.workers()[worker]))
        for stream in ("stdout", "stderr"):
            if stream not in case.differs:
                theirs, ours = getattr(torchrun, stream), getattr(ddprun, stream)
                self.assertEqual(torchrun.console(theirs), ddprun.console(ours), stream + context)
        is_id_known = not self.is_lone_node_standalone
        self.assertEqual(torchrun.files(is_id_known), ddprun.files(is_id_known), context)
        self.compare_outer_error_file(torchrun, ddprun)

    def compare_worker(self, case, worker, theirs, ours):
        for part in {"argv", "unbuffered", "main", "session_leader"}.difference(case.differs):
            self.assertEqual(theirs[1][part], ours[1][part], f"{part} of worker {worker}")
        expected, actual = theirs[0].variables(theirs[1]), ours[0].variables(ours[1])
        is_made_standalone = expected["TORCHELASTIC_RUN_ID"] == "random" != actual["TORCHELASTIC_RUN_ID"]
        for name in (*case.differs, *(OF_LONE_NODES if is_made_standalone and self.is_lone_node_standalone else ())):
            expected.pop(name, None)
            actual.pop(name, None)
        for name in ONLY_DDPRUN:
            actual.pop(name, None)
        self.assertEqual(expected, actual, f"environment of worker {worker}")

    def compare_outer_error_file(self, torchrun, ddprun):
        theirs, ours = torchrun.logs / "outer.json", ddprun.logs / "outer.json"
        self.assertEqual(theirs.exists(), ours.exists())
        if theirs.exists():
            expected, actual = json.loads(theirs.read_text())["message"], json.loads(ours.read_text())["message"]
            for body in (expected, actual):
                body["extraInfo"].pop("timestamp")
            self.assertEqual(expected, actual)


RANDOM_LINES = int(os.environ.get("DDPRUN_RANDOM_LINES", "400"))
SEED = os.environ.get("DDPRUN_RANDOM_SEED", "1")


class RandomLines(unittest.TestCase):
    """Both parsers read the same lines the same way, or docs/torchrun.md says why not."""

    def dry_run(self, line):
        done = subprocess.run([DDPRUN, "--dry-run", *line], cwd=self.folder, env=self.env, capture_output=True, text=True, check=False)
        return (random_lines.facts_of_dry_run(done.stdout) if done.returncode == 0 else None), done.stderr

    def test_both_read_random_command_lines_alike(self):
        peer = Peer()
        self.addCleanup(peer.close)
        self.folder = tempfile.mkdtemp(prefix="ddprun-interop-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.env = {"PATH": f"{pathlib.Path(PYTHON).parent}:/usr/bin:/bin", "TMPDIR": self.folder, "LC_ALL": "C.UTF-8"}
        for name in ("train.py", "my script.py"):
            path = pathlib.Path(self.folder, name)
            path.write_text("#!/usr/bin/env python3\n")
            path.chmod(0o755)
        writer = random_lines.Writer(SEED, peer.run(flags=True))
        explained, parted, accepted = {}, [], 0
        for _ in range(RANDOM_LINES):
            line = writer.line()
            theirs = peer.run(parse=line)
            ours, message = self.dry_run(line)
            accepted += theirs is not None and ours is not None
            if theirs == ours:
                continue
            row = random_lines.reason(line, theirs, message)
            if row:
                explained[row] = explained.get(row, 0) + 1
            else:
                parted.append(f"{line}\n  torchrun {theirs}\n  ddprun   {ours or message.strip()}")
        print(f"{RANDOM_LINES} random lines, seed {SEED}: {accepted} accepted by both, {len(parted)} part; on purpose: {explained}")
        self.assertEqual([], parted, f"{len(parted)} of {RANDOM_LINES} part:\n" + "\n".join(parted))
        self.assertGreater(accepted, RANDOM_LINES // 5)


def add_case(number, case):
    name = f"{number:02}-" + re.sub(r"\W+", "-", case.name)
    setattr(Compare, "test_" + name, lambda self: self.compare(case, name))


for index, each in enumerate(CASES):
    add_case(index, each)

if __name__ == "__main__":
    trial = subprocess.run([PYTHON, "-c", "import torch.distributed.run"], capture_output=True, check=False) if os.path.exists(PYTHON) else None
    if trial is None or trial.returncode != 0:
        print(f"SKIPPED: no torchrun at {PYTHON} to compare with", file=sys.stderr)
        sys.exit(77)
    unittest.main(verbosity=1)
