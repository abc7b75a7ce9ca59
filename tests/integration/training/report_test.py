#!/usr/bin/env python3
"""A job's report.html in a real browser: its script runs, and shows what the metrics file holds."""

import re
import shutil
import subprocess
import sys
import unittest
import pathlib

from jobs import JobTest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Report(JobTest):
    def dom(self, output="out"):
        """The page as it is when its script has run."""
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder}/profile",
                               "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", f"file://{self.folder}/{output}/report.html"],
                              cwd=self.folder, env=self.environment() | {"HOME": str(self.folder)}, text=True,
                              capture_output=True, timeout=60, check=True)
        return done.stdout

    def test_a_browser_shows_curves_and_where_the_time_went(self):
        job = self.job_file({"name": "</script><b>digits", "log": {"every_steps": 5}})
        done = self.run_job(job)
        self.assertIn("  report      out/report.html", done.stdout)
        self.run_job(job, "/train/epochs=5", ranks=4)
        dom = self.dom()
        body = dom[dom.index("<body"):dom.index('<script type="application/json"')]
        self.assertIn("&lt;/script&gt;&lt;b&gt;digits: mlp", body)
        self.assertIn("complete · 4 ranks over gloo", body)
        for title in ("loss", "accuracy", "learning rate", "images per second"):
            self.assertRegex(body, f'<svg viewBox="0 0 520 240" role="img" aria-label="{title}">.*?<path d="M[0-9. L-]+"')
        charts = re.findall(r'role="img" aria-label="([^"]*)"', body)
        self.assertEqual(charts, ["loss", "accuracy", "learning rate", "images per second"])
        self.assertEqual(body.count('stroke-dasharray="3 3"'), 4, "each chart marks the second start")
        shares = [float(share) for share in re.findall(r'title="rank \d+: [a-z ]+ ([0-9.]+) %"', body)]
        self.assertEqual(len(shares), 4 * 8)
        for rank in range(4):
            self.assertAlmostEqual(sum(shares[8 * rank:8 * rank + 8]), 100, delta=0.4)
        self.assertIn("exposed communication", body)
        self.assertEqual(body.count("<tr"), 1 + 4 + 1 + 5 + 1 + 2)  # time, epochs, starts: a head each
        accuracy = self.metrics("epoch")[-1]["accuracy"]
        self.assertIn(f"{100 * accuracy:.2f} %", body)

    def test_the_page_of_a_job_that_failed_begins_with_why(self):
        self.run_job(self.job_file({"name": "<!--<script>", "optimizer": {"type": "sgd", "learning_rate": 1000, "momentum": 0.99}}), expect=78)
        self.assertRegex(self.dom(), r'<div class="failure" role="alert"><b>failed after step \d+</b><div>the loss is not a finite number ')

    def test_a_job_without_a_report_writes_none(self):
        self.run_job(self.job_file({"log": {"report": False}, "train": {"epochs": 1}}))
        self.assertFalse((self.folder / "out/report.html").exists())


if __name__ == "__main__":
    if BROWSER is None:
        print("SKIPPED: no chromium, chromium-browser or google-chrome is there, so no report was opened")
        sys.exit(77)
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        JobTest.binaries = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main(verbosity=2)
