"""The man pages that scripts/make_man.py writes: nothing of --help and of the schema is missing, and roff reads them.

    man_test.py DDPRUN
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/support"))

from skips import skip  # noqa: E402

PROGRAM = sys.argv.pop(1)


def read(page):
    """The text behind roff's escapes."""
    text = re.sub(r"\\f[BR]|\\&", "", page.read_text()).replace("\\-", "-").replace("\\e", "\\")
    return re.sub(r"\\\[u([0-9A-F]{4})\]", lambda found: chr(int(found[1], 16)), text)


def keys(schema, pointer=""):
    for name, inner in schema["properties"].items():
        yield f"{pointer}/{name}"
        yield from keys(inner, f"{pointer}/{name}") if inner["type"] == "object" else ()


class Man(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-man-")
        cls.addClassCleanup(folder.cleanup)
        subprocess.run([sys.executable, "-B", ROOT / "scripts/make_man.py", PROGRAM, folder.name], check=True)
        cls.pages = sorted(pathlib.Path(folder.name).iterdir())

    def page(self, name):
        (page,) = [page for page in self.pages if page.name == name]
        return read(page)

    def test_every_word_of_help_is_in_the_page_of_ddprun(self):
        text = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
        words = set(self.page("ddprun.1").split())
        lower = {word.lower() for word in words}
        missing = [word for word in text.split() if word.lower().rstrip(".:") not in lower and word not in words
                   and word.lower() not in lower and word not in ("Usage", "Exit", "codes:")]
        self.assertEqual([word for word in missing if word.startswith("-")], [])
        self.assertLess(len(missing), 10, missing)

    def test_every_key_of_a_job_file_is_in_the_page_of_job_files(self):
        text = self.page("ddprun-job.5").splitlines()
        schema = json.loads((ROOT / "configs/train.schema.json").read_text())
        self.assertEqual([key for key in keys(schema) if key not in text], [])

    def test_the_page_of_the_worker_is_there_where_the_worker_is(self):
        is_there = (pathlib.Path(PROGRAM).parent / "ddprun-worker").exists()
        self.assertEqual("ddprun-worker.1" in [page.name for page in self.pages], is_there)

    def test_each_page_names_the_others(self):
        for page in self.pages:
            others = {"ddprun.1", "ddprun-worker.1", "ddprun-job.5"} - {page.name}
            named = set(".".join(found) for found in re.findall(r"(ddprun[\w-]*) \((\d)\)", read(page).split(".SH SEE ALSO")[1]))
            self.assertEqual(named, others, page.name)

    def test_roff_has_nothing_to_say_about_them(self):
        if shutil.which("groff") is None:
            skip("groff is not installed")
        for page in self.pages:
            said = subprocess.run(["groff", "-man", "-ww", "-z", page], capture_output=True, text=True, check=True)
            self.assertEqual(said.stderr, "", page.name)


if __name__ == "__main__":
    unittest.main()
