"""README's "Start" with what scripts/setup.sh installs without --with-tests: its commands configure where no Catch2 is.

    readme_start_test.py [TORCH]      TORCH: the folder site-packages/torch to configure with; without it, only what needs none
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TORCH = sys.argv.pop(1) if len(sys.argv) > 1 else ""

START = (ROOT / "README.md").read_text().split("\n## Start\n")[1].split("\n## ")[0]


def commands(text):
    """The commands of blocks and of what stands in `code`, each once."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))
    lines = [line.split("#")[0].strip() for block in [*blocks, *inline] for line in block.splitlines()]
    return list(dict.fromkeys(command.strip() for line in lines for command in line.split("&&") if command.strip()))


class Start(unittest.TestCase):
    def configure(self, command):
        with tempfile.TemporaryDirectory(prefix="ddprun-readme-") as folder:
            torch = [f"-DDDPRUN_TORCH={TORCH}"] if TORCH else []
            words = [*command.split(), "-B", folder, "-DCMAKE_DISABLE_FIND_PACKAGE_Catch2=ON", *torch]
            return subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

    def test_what_configures_does_so_without_the_packages_of_the_tests(self):
        found = [command for command in commands(START) if command.startswith("cmake --preset")]
        self.assertEqual(sorted(command.split()[2] for command in found), ["core", "release"])
        for command in found:
            if TORCH or " core" in command:
                with self.subTest(command):
                    done = self.configure(command)
                    self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_also_builds_tests_is_said_behind_with_tests(self):
        self.assertLess(START.index("setup.sh --with-tests"), START.index("cmake --workflow"))

    def test_a_build_with_tests_says_what_installs_them(self):
        done = self.configure("cmake --preset core")
        self.assertEqual(done.returncode, 1)
        self.assertIn("scripts/setup.sh --with-tests installs all that they need; -DDDPRUN_BUILD_TESTS=OFF builds without them",
                      " ".join(done.stderr.split()))


if __name__ == "__main__":
    unittest.main()
