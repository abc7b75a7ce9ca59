"""scripts/test.sh as people mistype it, with stand-ins for what it starts; and scripts/listed_files.py in trees with odd names."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-scripts-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def copy(self, *names):
        for name in names:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)


class TestSh(Tree):
    def setUp(self):
        super().setUp()
        self.copy("scripts/test.sh", "scripts/common.sh", "scripts/cmake/FindLibtorch.cmake")
        self.stand_in("scripts/setup.sh", "touch began")
        self.stand_in("scripts/list_unstable_tests.sh", "echo may_fail")
        self.stand_in("bin/cmake", "exit 0")
        # Of a first run that finds no test; a second one would pass.
        self.stand_in("bin/ctest", 'echo "$*" >>asked; case "$*" in *--rerun-failed*) exit 0 ;; *) exit "$ENDS" ;; esac')

    def stand_in(self, name, text):
        (self.root / name).parent.mkdir(exist_ok=True)
        (self.root / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.root / name).chmod(0o755)

    def run_with(self, *words, ends=0):
        own = {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "ENDS": str(ends)}
        return subprocess.run(["bash", "scripts/test.sh", *words], cwd=self.root, env=os.environ | own, capture_output=True, text=True,
                              check=False)

    def asked(self):
        return (self.root / "asked").read_text()

    def test_what_would_run_no_test_or_all_of_them_is_refused_before_anything_is_done(self):
        for words, why in ((["--bogus"], "unknown argument --bogus"), (["unit"], "unknown argument unit"), (["-N"], "unknown argument -N"),
                           (["-LE", "x"], "unknown argument -LE"), (["-R"], "-R wants a regular expression"),
                           (["-R", "-L"], "-R wants a regular expression"), (["-E", ""], "-E wants a regular expression"),
                           (["-L", "unit", "--all"], "--all has to come first"), (["--all", "--version"], "unknown argument --version")):
            with self.subTest(words=words):
                done = self.run_with(*words)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"test.sh: {why}", done.stderr)
                self.assertFalse((self.root / "began").exists())

    def test_what_chooses_tests_goes_to_ctest(self):
        self.assertEqual(self.run_with("--all", "-L", "^unit$", "-E", "a b").returncode, 0)
        self.assertEqual(self.asked(), "--preset release --parallel 2 --no-tests=error -L ^unit$ -E a b\n")

    def test_that_no_test_fits_is_a_failure_whatever_failed_the_last_time(self):
        failed = self.root / "build/quick/Testing/Temporary/LastTestsFailed.log"
        failed.parent.mkdir(parents=True)
        failed.write_text("1:may_fail\n")
        done = self.run_with("-R", "nosuch", ends=8)
        self.assertEqual(done.returncode, 8, done.stdout)
        self.assertIn("none fits", done.stdout)
        self.assertNotIn("--rerun-failed", self.asked())


class ListedFiles(Tree):
    NAMES = [b".gitignore", b" lead.sh", b"-V.sh", b"launcher/build/kept.cc", b"lat\xe9.sh", b"new\nline.sh", b"scripts/listed_files.py",
             b"trail.sh ", b"two words.cc"]

    def setUp(self):
        super().setUp()
        self.copy("scripts/listed_files.py", ".gitignore")
        for name in [*self.NAMES[1:6], *self.NAMES[7:], b"build/left_out.cc", b"scripts/__pycache__/left_out.pyc", b".venv/left_out.py"]:
            path = os.path.join(os.fsencode(self.root), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb"):
                pass

    def listed(self, *patterns):
        done = subprocess.run(["python3", "scripts/listed_files.py", *patterns], cwd=self.root, capture_output=True, check=True,
                              env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"})
        return done.stdout.split(b"\0")[:-1]

    def test_an_archive_a_checkout_and_one_that_git_cannot_read_have_the_same_files(self):
        self.assertEqual(self.listed(), sorted(self.NAMES))
        subprocess.run(["git", "init", "--quiet", "."], cwd=self.root, check=True)
        self.assertEqual(self.listed(), sorted(self.NAMES))
        shutil.rmtree(self.root / ".git")
        (self.root / ".git").write_text("gitdir: /not/there\n")
        self.assertEqual(self.listed(), sorted(self.NAMES))

    def test_a_star_stands_for_folders_too(self):
        self.assertEqual(self.listed("*.cc"), [b"launcher/build/kept.cc", b"two words.cc"])


if __name__ == "__main__":
    unittest.main()
