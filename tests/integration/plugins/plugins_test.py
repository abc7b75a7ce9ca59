#!/usr/bin/env python3
"""Jobs whose model, data and task come from a shared library: trained, resumed, and refused with a reason."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARIES, PLUGINS = ROOT / "build/release/bin", ROOT / "build/release/tests/plugins"


class Plugins(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-plugins-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_job(self, job, *settings, expect=0):
        (self.folder / "job.json").write_text(json.dumps(job))
        words = [word for setting in settings for word in ("--set", setting)]
        done = subprocess.run([str(BINARIES / "ddprun"), "--nproc-per-node", "2", *words, "job.json"], cwd=self.folder,
                              env={**os.environ, "TMPDIR": str(self.folder), "OMP_NUM_THREADS": "1"}, text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    @staticmethod
    def example(**options):
        library = str(PLUGINS / "libplugin_example.so")
        return {"model": {"plugin": library, "type": "one_layer"},
                "data": {"plugin": library, "type": "sums", "options": {"width": 8, **options}},
                "task": {"plugin": library, "type": "absolute_error"},
                "train": {"epochs": 10, "batch_size": 32}, "optimizer": {"type": "adam", "learning_rate": 0.03},
                "output_dir": "out"}

    def test_a_job_learns_with_the_model_data_and_task_of_a_plugin_and_resumes(self):
        done = self.run_job(self.example())
        self.assertIn("one_layer on 1,024 training samples", done.stdout)
        records = [json.loads(line) for line in (self.folder / "out/metrics.jsonl").read_text().splitlines()]
        losses = [record["held_out_loss"] for record in records if record["event"] == "epoch"]
        self.assertLess(losses[-1], losses[0] / 10)
        self.assertIn("10 of 12 epochs done", self.run_job(self.example(), "/train/epochs=12").stdout)

    def test_an_option_by_flag_reaches_the_plugin(self):
        self.assertIn("one_layer on 64 training samples",
                      self.run_job(self.example(), "/data/options/count=64", "/train/epochs=1").stdout)

    def test_an_option_that_the_plugin_does_not_know_is_refused(self):
        done = self.run_job(self.example(witdh=3), expect=78)
        self.assertIn("/data/options: sums has no option witdh; correct or remove it", done.stderr)

    def test_a_type_that_the_plugin_does_not_bring_is_refused_with_those_there_are(self):
        job = self.example()
        job["model"]["type"] = "two_layers"
        self.assertRegex(self.run_job(job, expect=78).stderr, "no model two_layers; there are .*one_layer")

    def test_one_library_may_be_named_in_several_ways(self):
        job = self.example()
        (self.folder / "link.so").symlink_to(job["task"]["plugin"])
        job["task"]["plugin"] = "link.so"
        self.run_job(job, "/train/epochs=1")

    def test_a_type_of_ddprun_itself_is_not_taken_for_the_plugins(self):
        job = self.example()
        job["model"]["type"] = "mlp"
        self.assertRegex(self.run_job(job, expect=78).stderr, "/model/type: mlp is ddprun's own and not of plug-in .*; remove "
                                                              "/plugin, or name a type that it brings")

    def test_what_is_no_plugin_or_another_is_refused_with_the_reason(self):
        (self.folder / "text.so").write_text("no library")
        for library, reason in (
                ("nowhere.so", "cannot be loaded: .*No such file"),
                ("text.so", "cannot be loaded: .*(too short|invalid ELF header)"),
                (PLUGINS / "libplugin_no_record.so", "is no plug-in of ddprun: it registers nothing"),
                (PLUGINS / "libplugin_other_interface.so", "whose plug-in interface is 99, and this one's is 2; build it again"),
                (PLUGINS / "libplugin_other_torch.so", r"was built against libtorch 1\.13\.1, and this ddprun against 2\."),
                (PLUGINS / "libplugin_undefined.so", r"it needs elsewhere::missing\(int\), which neither ddprun nor libtorch"),
                (PLUGINS / "libplugin_taken_name.so", "there are two entries of the name mlp for a model")):
            with self.subTest(library=library):
                job = {"model": {"plugin": str(library), "type": "mlp"}, "data": {"type": "synthetic"}, "output_dir": "out"}
                self.assertRegex(self.run_job(job, expect=78).stderr, reason)


if __name__ == "__main__":
    if len(sys.argv) > 2 and not sys.argv[1].startswith("-"):
        BINARIES, PLUGINS = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2))
    unittest.main(verbosity=2)
