"""What the tests of scripts/launch share: hosts with a folder in common, real trainings, and the commands of the pages.

A command stands in README or docs/several-machines.md once, and is run here as it stands there: hosts are called node-a, node-b, node-c, ddprun is in
their PATH, and train.py and train.json lie in the folder that they share.
"""

import json
import os
import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/netns/membership"))
from lab import Lab, Process, require_namespaces, sh, skip  # noqa: E402,F401

HEAD = "10.213.0.254"  # the address of this machine on the lab's bridge


def require_programs(package, *names):
    for name in names:
        if shutil.which(name) is None:
            skip(f"needs {name} (Debian: {package})")


def readme(begin):
    """The one command of README or docs/several-machines.md that begins so, without its comment; continued lines are joined."""
    pages = "".join((ROOT / page).read_text() for page in ("README.md", "docs/several-machines.md"))
    blocks = re.findall(r"```sh\n(.*?)```", pages, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = [re.sub(r"\s+#.*", "", line) for line in lines if line.startswith(begin)]
    if len(found) != 1:
        raise AssertionError(f"README and docs/several-machines.md have {len(found)} commands that begin with {begin!r}, not one")
    return re.sub(r"  +", " ", found[0])


def trained(text):
    """The hosts of ranks 0, 1, … of train.py's output, which must be complete, with equal weights on all ranks. torchrun starts
    `python -u`, whose print writes the line's end apart: what another rank says may come before it."""
    said = re.findall(r"rank (\d+) of (\d+) on (\S+) ends with ([0-9a-f]{16})", text)
    hosts = {int(rank): host for rank, _, host, _ in said}
    worlds, weights = {int(world) for _, world, _, _ in said}, {digest for _, _, _, digest in said}
    if worlds != {len(hosts)} or len(weights) != 1:
        raise AssertionError(f"not one world with one model: {said}\n{text}")
    return [hosts[rank] for rank in range(len(hosts))]


class Site(Lab):
    """Hosts that share a folder, as a cluster does."""

    def __init__(self, names, ddprun, python=None):
        super().__init__(names)
        # Not below /tmp or /run of this machine only: hosts may have a /run of their own.
        self.shared = pathlib.Path(self.folder) / "shared"
        self.shared.mkdir()
        bin_folder = pathlib.Path(self.folder) / "bin"
        bin_folder.mkdir()
        (bin_folder / "ddprun").symlink_to(ddprun)
        (self.shared / "scripts").symlink_to(ROOT / "scripts")
        shutil.copy(pathlib.Path(__file__).parent / "programs/train.py", self.shared)
        self.write_job()
        self.environment |= {"PATH": f"{bin_folder}:{self.environment['PATH']}", "USER": "root"}
        if python:
            self.environment["PYTHON_EXEC"] = python

    def write_job(self, **train):
        job = {"name": "train", "model": {"type": "mlp"},
               "data": {"type": "mnist", "path": str(ROOT / "configs/data/mnist-subset"),
                        "train_samples": 1000, "test_samples": 200},
               "train": {"epochs": 1, "batch_size": 32} | train, "optimizer": {"type": "sgd", "learning_rate": 0.02},
               "backend": "gloo", "output_dir": "out", "resume": "auto"}
        (self.shared / "train.json").write_text(json.dumps(job))

    def shell(self, host, command, **environment):
        """The command as a person would give it, in the shared folder of that host."""
        return host.run("bash", "-c", f"cd {self.shared} && {command}", **environment)


def processes(*marks):
    """(pid, command line) of every process that is alive and has one of these words in its command line or environment."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            command = (entry / "cmdline").read_bytes()
            about = command + (entry / "environ").read_bytes()
        except OSError:
            continue
        if state != "Z" and int(entry.name) != os.getpid() and any(mark.encode() in about for mark in marks):
            found.append((int(entry.name), command.replace(b"\0", b" ").decode(errors="replace")))
    return found
