"""scripts/make_site.sh, in a copy of the pages: each is there and loads nothing from elsewhere; what leads nowhere is refused."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "configs/README.md", "worker/examples/README.md", "scripts/common.sh", "scripts/make_site.sh",
         "scripts/cmake/FindLibtorch.cmake")


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-site-")
        cls.addClassCleanup(folder.cleanup)
        cls.tree = pathlib.Path(folder.name)
        shutil.copytree(ROOT / "docs", cls.tree / "docs")
        for name in FILES:
            (cls.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, cls.tree / name)
        if (ROOT / "build/site/tools").exists():  # else from PyPI
            (cls.tree / "build/site").mkdir(parents=True)
            (cls.tree / "build/site/tools").symlink_to(ROOT / "build/site/tools")
        made = cls.make()
        if "pip could not install" in made.stderr:
            print(f"SKIPPED: {made.stderr.strip().splitlines()[-1]}")
            sys.exit(77)
        assert made.returncode == 0, made.stdout + made.stderr
        cls.pages = {str(page.relative_to(cls.tree / "build/site/html")): page.read_text()
                     for page in (cls.tree / "build/site/html").rglob("*.html")}

    @classmethod
    def make(cls):
        return subprocess.run([cls.tree / "scripts/make_site.sh"], capture_output=True, text=True, check=False)

    def test_every_page_is_in_the_site_and_in_its_navigation(self):
        for page in sorted((self.tree / "docs").glob("*.md")):
            self.assertIn(f"{page.stem}/index.html", self.pages)
            self.assertRegex(self.pages["index.html"], rf'<a href="{page.stem}/" class="md-nav__link">')

    def test_nothing_is_loaded_from_elsewhere(self):
        for name, text in self.pages.items():
            loaded = re.findall(r'<(?:script|img|source)\b[^>]*\bsrc="(https?:[^"]*)"|<link\b[^>]*rel="(?:stylesheet|preload)"[^>]*href="(https?:[^"]*)"', text)
            self.assertEqual((name, loaded), (name, []))

    def test_a_link_and_an_anchor_that_lead_nowhere_are_refused(self):
        page = self.tree / "docs/speed.md"
        text = page.read_text()
        self.addCleanup(page.write_text, text)
        for target in ("nowhere.md", "hangs.md#nowhere"):
            page.write_text(f"{text}\n[there]({target})\n")
            refused = self.make()
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(target, refused.stderr + refused.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
