"""scripts/setup.sh on systems of which stand-ins of apt and dpkg tell: which Boost it takes, and what it says where none is new enough."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Knows packages once it was asked to update, as a bare system does; installs nothing.
PROGRAMS = {
    "id": "echo 0",
    "dpkg-query": 'case "$*" in *libboost1*) [ -z "$INSTALLED" ] || echo "install ok installed $INSTALLED" ;; *) exit 1 ;; esac',
    "apt-cache": '[ ! -e updated ] || printf "%s\\n" $KNOWN',
    "apt-get": 'case "$*" in update*) touch updated ;; *) echo "$*" >>asked; exit "$INSTALLS" ;; esac',
    "python3": "exit 1",
}


class Setup(unittest.TestCase):
    def asked(self, known, installed="", *flags, installs=1):
        """What apt-get was asked to install, which ends with `installs`, and what was said on stderr."""
        with tempfile.TemporaryDirectory(prefix="ddprun-setup-") as folder:
            tree = pathlib.Path(folder)
            for name in ("scripts/setup.sh", "scripts/common.sh", "scripts/cmake/FindLibtorch.cmake", "CMakeLists.txt"):
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, tree / name)
            (tree / "bin").mkdir()
            for name, text in PROGRAMS.items():
                (tree / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
                (tree / "bin" / name).chmod(0o755)
            headers = tree / "cache/ddprun/valijson/DEBIAN/control"
            headers.parent.mkdir(parents=True)
            headers.touch()
            own = {"XDG_CACHE_HOME": str(tree / "cache"), "PATH": f"{tree}/bin:{os.environ['PATH']}", "KNOWN": known, "INSTALLED": installed, "INSTALLS": str(installs), "DDPRUN_TORCH": ""}
            done = subprocess.run(["bash", "scripts/setup.sh", *flags], cwd=tree, env=os.environ | own, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 1)
            file = tree / "asked"
            return (file.read_text().split() if file.exists() else []), done.stderr

    def boost(self, *words):
        return [word for word in self.asked(*words, installs=0)[0] if word.startswith("libboost")]

    def test_the_oldest_boost_that_is_new_enough_is_taken(self):
        self.assertEqual(self.boost("libboost1.81-dev libboost1.74-dev libboost1.74-tools-dev"), ["libboost1.81-dev"])
        self.assertEqual(self.boost("libboost1.88-dev libboost1.83-dev libboost1.83-all-dev"), ["libboost1.83-dev"])

    def test_the_launchers_wheel_wants_headers_and_no_compiler(self):
        asked = self.asked("libboost1.81-dev", "", "--launcher")[0]
        self.assertTrue({"cmake", "libboost1.81-dev", "libdw-dev", "libspdlog-dev"} <= set(asked), asked)
        self.assertFalse({"g++", "make", "libcurl4-openssl-dev"} & set(asked), asked)

    def test_pypis_part_comes_before_the_rest_of_debians_and_its_failure_is_the_scripts(self):
        asked, said = self.asked("libboost1.81-dev", installs=0)
        first, rest = asked[:asked.index("install", 1)], asked[asked.index("install", 1):]
        self.assertTrue({"ca-certificates", "python3", "python3-venv"} <= set(first), first)
        self.assertTrue({"cmake", "g++", "clang", "libboost1.81-dev"} <= set(rest) - set(first), asked)
        self.assertIn("setup.sh: python3 -m venv failed; is python3-venv installed?", said)
        self.assertTrue(said.endswith("setup.sh: what Python is to bring is not there; why is said above\n"), said)

    def test_one_that_is_installed_is_kept(self):
        self.assertEqual(self.boost("libboost1.83-dev libboost1.88-dev", "libboost1.88-dev"), [])

    def test_a_system_that_is_too_old_is_told_why_and_what_works_there(self):
        asked, said = self.asked("libboost1.74-dev")
        self.assertEqual(asked, [])
        self.assertIn(" has no Boost 1.81 or newer, and ddprun is built with gcc 12 or newer: Debian 12 and 13 have both, and Debian 11 gets what it lacks. ", said)
        self.assertRegex(said, r"pip install ddprun-[0-9.]+-py3-none-manylinux_2_28_x86_64\.whl puts it beside the torch that is here")


if __name__ == "__main__":
    unittest.main()
