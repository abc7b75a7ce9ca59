"""What scripts/bare_root.sh makes of Debian 11, 12 and 13, of which nothing but their own packages and PyPI helps: the launcher's wheel, the
Debian package, and the first commands of README.md.

    bare_debian_test.py [unittest arguments]      DDPRUN_WHEEL=FILE and DDPRUN_DEB=FILE try those in place of ones that are built
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BARE = ROOT / "scripts/bare_root.sh"


def built(variable, script):
    """The path that the script prints at its end."""
    if variable in os.environ:
        return pathlib.Path(os.environ[variable]).resolve()
    done = subprocess.run([ROOT / "scripts" / script], stdout=subprocess.PIPE, text=True, check=True)
    return ROOT / done.stdout.splitlines()[-1]


def first_commands():
    """README's first block, without its comments."""
    block = re.search(r"## Start\n.*?```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    return [re.sub(r"\s+#.*", "", line) for line in block.splitlines()]


class Wheel(unittest.TestCase):
    """By the clock, torch's download in it; scripts/bare_root.sh says what took how long, and fails beyond a minute."""

    @classmethod
    def setUpClass(cls):
        cls.wheel = built("DDPRUN_WHEEL", "make_wheel.sh")

    def reach_a_run(self, release):
        subprocess.run([BARE, "wheel", release, self.wheel], check=True)

    def test_debian_11(self):
        self.reach_a_run("bullseye")

    def test_debian_12(self):
        self.reach_a_run("bookworm")

    def test_debian_13(self):
        self.reach_a_run("trixie")


class BareTest(unittest.TestCase):
    maxDiff = None

    def make_root(self, release, *packages):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-bare-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "root"
        subprocess.run([BARE, "make", release, self.root, *packages], check=True)

    def clone(self):
        subprocess.run(["git", "clone", "--quiet", ROOT, self.root / "ddprun"], check=True)

    def type(self, *words, code=0):
        done = subprocess.run([BARE, "run", self.root, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout


class Quickstart(BareTest):
    """From nothing to a trained model; it says how long that took."""

    def reach_a_model(self, release):
        self.make_root(release, "ca-certificates")
        self.clone()
        began = time.monotonic()
        said = self.type("bash", "-c", "cd /ddprun && ./scripts/quickstart.sh")
        print(f"{release}: scripts/quickstart.sh took {time.monotonic() - began:.0f} s")
        self.assertRegex(said, r"accuracy 9[78]\.\d\d % on 1,000 held-out images")
        self.assertIn("training is complete", self.type("bash", "-c", "cd /ddprun && ./scripts/quickstart.sh"))

    def test_debian_11(self):
        self.reach_a_model("bullseye")

    def test_debian_12(self):
        self.reach_a_model("bookworm")

    def test_debian_13(self):
        self.reach_a_model("trixie")


class InDebian12(BareTest):
    def files(self):
        # Below /var is what dpkg itself keeps.
        return self.type("find", "/", "-xdev", "(", "-path", "/var", "-o", "-path", "/proc", "-o", "-path", "/tmp", ")", "-prune", "-o",
                         "-print").splitlines()

    def test_the_package_comes_with_all_that_it_names_and_goes_without_a_trace(self):
        package = built("DDPRUN_DEB", "make_deb.sh")
        self.make_root("bookworm", "man-db")
        shutil.copy(package, self.root / "tmp/ddprun.deb")
        self.type("apt-get", "update", "-qq")
        self.type("apt-get", "install", "-y", "-qq", "--no-install-recommends", "lintian")
        self.type("lintian", "--fail-on", "error,warning", "/tmp/ddprun.deb")
        before = self.files()
        self.type("dpkg", "--install", "/tmp/ddprun.deb")
        self.assertRegex(self.type("ddprun", "--version"), r"^ddprun \d+\.\d+\.\d+ ")
        self.assertEqual(self.type("ddprun", "--nproc-per-node", "2", "--no-python", "sh", "-c", "echo here; [ $WORLD_SIZE = 2 ]"),
                         "here\nhere\n")
        for page in (("1", "ddprun"), ("5", "ddprun-job")):
            self.assertIn("NAME", self.type("man", *page))
        self.assertIn("_ddprun", self.type("bash", "-c", ". /usr/share/bash-completion/completions/ddprun && complete -p ddprun"))
        for place in ("zsh/vendor-completions/_ddprun", "fish/vendor_completions.d/ddprun.fish"):
            self.assertIn("nproc-per-node", (self.root / "usr/share" / place).read_text())
        self.assertEqual(self.type("dpkg", "--verify", "ddprun"), "")
        self.unit_and_its_example()
        self.type("dpkg", "--purge", "ddprun")
        self.assertEqual(set(self.files()) ^ set(before), set())

    def unit_and_its_example(self):
        unit = (self.root / "lib/systemd/system/ddprun-coordinator@.service").read_text()
        command = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1]
        file = re.search(r"^EnvironmentFile=(.*)$", unit, re.MULTILINE)[1].replace("%i", "example")
        flags = re.search(r"^FLAGS=(.*)$", (self.root / file.lstrip("/")).read_text(), re.MULTILINE)[1]
        # In a network of its own, as the port is a fixed one; it waits for nodes until it is told to end.
        words = command.replace("%i", "example").replace("$FLAGS", flags)
        said = self.type("unshare", "--net", "sh", "-c", f"mkfifo /tmp/said; {words} >/tmp/said & read -r line </tmp/said; "
                                                         "echo \"$line\"; kill $!; wait $!; rm /tmp/said")
        self.assertIn("29400", said)


class FirstCommands(BareTest):
    """README's make the wheel where nothing but Python is, and train."""

    def type_them(self, release):
        self.make_root(release, "python3", "ca-certificates")
        self.clone()
        said = self.type("bash", "-c", "cd /ddprun && set -e\n" + "\n".join(first_commands()))
        print(said)
        self.assertRegex(said, r"\n2 ranks found y = (3\.0|2\.9)\d x -(1\.0|0\.9)\d; the data are y = 3 x - 1\n")

    def test_debian_11(self):
        self.type_them("bullseye")

    def test_debian_12(self):
        self.type_them("bookworm")


if __name__ == "__main__":
    if subprocess.run([BARE, "make"], stderr=subprocess.DEVNULL, check=False).returncode == 77:
        sys.exit(77)
    unittest.main(verbosity=2)
