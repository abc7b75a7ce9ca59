#!/usr/bin/env python3
"""Takes stdout and stderr of ddprun away, fills them up and stops reading them, and looks what becomes of the job."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "integration" / "cli"))

from harness import DDPRUN, Case  # noqa: E402


class Output(Case):
    def run_with(self, arguments, *, before_exec=None, timeout=60, **streams):
        """Runs ddprun with given streams; `before_exec` is called in the child."""
        environment = streams.pop("environment", {})
        return subprocess.run([DDPRUN, *map(str, arguments)], cwd=self.folder, env=self.environment(**environment),
                              stdin=subprocess.DEVNULL, preexec_fn=before_exec, timeout=timeout, check=False, text=True,
                              **streams)

    def events(self):
        return [json.loads(line) for line in (self.folder / "events").read_text().splitlines()]

    def pipe_without_reader(self):
        read_end, write_end = os.pipe()
        os.close(read_end)
        self.addCleanup(os.close, write_end)
        return write_end


class ReaderGone(Output):
    def test_a_failed_job_without_a_reader_of_stderr_has_its_code_error_file_and_last_event(self):
        done = self.run_with(["--events", "events", "--nproc-per-node", 2, "sh", "-c", "exit 7"],
                             environment={"TORCHELASTIC_ERROR_FILE": str(self.folder / "outer.json")},
                             stdout=subprocess.PIPE, stderr=self.pipe_without_reader())
        self.assertEqual(done.returncode, 7)
        self.assertEqual(json.loads((self.folder / "outer.json").read_text())["message"]["errorCode"], 7)
        self.assertEqual(self.events()[-1]["event"], "job_ended")

    def test_a_refusal_without_a_reader_of_stderr_has_its_code(self):
        done = self.run_with(["--nproc-per-node", "many", "true"], stdout=subprocess.PIPE,
                             stderr=self.pipe_without_reader())
        self.assertEqual(done.returncode, 64)


class Closed(Output):
    def test_what_workers_print_on_a_closed_stdout_is_in_no_file_of_ours(self):
        for closed in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
            with self.subTest(closed=closed):
                (self.folder / "events").unlink(missing_ok=True)
                done = self.run_with(["--events", "events", "--no-python", "sh", "-c", "echo out; echo err >&2; exit 3"],
                                     before_exec=lambda closed=closed: [os.close(fd) for fd in closed],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertEqual(self.events()[-1]["event"], "job_ended")


if __name__ == "__main__":
    unittest.main()
