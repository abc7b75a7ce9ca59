"""What the tests of ddprun's command line share: a folder of one's own and the real ddprun."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))

from owned import own  # noqa: E402

DDPRUN, PROGRAMS = sys.argv[1], pathlib.Path(sys.argv[2])
del sys.argv[1:3]
BOUND_S = 60


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-cli-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.logs = self.folder / "logs"
        (self.folder / "tmp").mkdir()

    def environment(self, **changes):
        names = ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS", "HOME")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        return kept | {"TMPDIR": str(self.folder / "tmp"), "PYTHONDONTWRITEBYTECODE": "1"} | changes

    def ddprun(self, *arguments, before=(), stdin="", **changes):
        """Runs ddprun to its end; `before` are words in front of it, as in unshare -m."""
        return subprocess.run([*before, DDPRUN, *map(str, arguments)], cwd=self.folder, env=self.environment(**changes),
                              input=stdin, capture_output=True, text=True, timeout=BOUND_S, check=False)

    def start(self, *arguments, **changes):
        """Starts ddprun; the test waits for it."""
        process = subprocess.Popen([DDPRUN, *map(str, arguments)], cwd=self.folder, env=self.environment(**changes),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return own(self, process)

    def script(self, name, text, mode=0o755):
        path = self.folder / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def report(self):
        """report.json of the one run in self.logs."""
        (path,) = self.logs.glob("*/report.json")
        return json.loads(path.read_text())

    def assert_nothing_started(self, done):
        """A refused command line runs no worker and leaves nothing behind."""
        self.assertEqual(done.stdout, "")
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])
        self.assertFalse(self.logs.exists())
