#!/usr/bin/env python3
"""`ddprun ps --watch` and --metrics, of a real job in which rank 1 is late at every collective.

watch_test.py DDPRUN PYTHON FOLDER_OF_FAKE_NVML
"""

import json
import os
import pathlib
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from tests.support.patience import patient  # noqa: E402
from tests.support.skips import skip  # noqa: E402

BOUND_S = patient(60)
JOB = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, step = dist.get_rank(), 0
while True:
    if rank == 1:
        time.sleep(0.2)
    dist.all_reduce(torch.ones(1000))
    step += 1
    if step % 5 == 0:
        print(f"step {step} of rank {rank}", flush=True)
"""


def parser():
    """prometheus_client's, from a virtual environment of its own; None: it cannot be had."""
    folder = pathlib.Path(tempfile.gettempdir(), "ddprun-prometheus-client")
    python = folder / "bin/python"
    probe = [str(python), "-c", "import prometheus_client.parser"]
    if not python.exists() or subprocess.run(probe, check=False, capture_output=True).returncode != 0:
        made = subprocess.run([PYTHON, "-m", "venv", "--clear", str(folder)], check=False, capture_output=True)
        made = made.returncode == 0 and subprocess.run([str(python), "-m", "pip", "install", "-q", "prometheus_client"], check=False,
                                                       capture_output=True)
        if not made or made.returncode != 0:
            return None
    return str(python)


PARSE = """
import json, sys
from prometheus_client.parser import text_string_to_metric_families
print(json.dumps([[family.name, family.type, [[s.name, s.labels, s.value] for s in family.samples]]
                  for family in text_string_to_metric_families(sys.stdin.read())]))
"""


class Watches(unittest.TestCase):
    def start(self, *flags, environment=os.environ):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-watch-")
        self.addCleanup(folder.cleanup)
        pathlib.Path(folder.name, "train.py").write_text(JOB)
        job = subprocess.Popen([DDPRUN, "--nproc-per-node", "2", "--shutdown-timeout", "1s", "--log-dir", "logs", "-t", "3", *flags,
                                "train.py"], cwd=folder.name, env=environment | {"PYTHON_EXEC": PYTHON, "OMP_NUM_THREADS": "1"},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(lambda: (job.terminate() if job.poll() is None else None, job.communicate(timeout=BOUND_S)))
        return job

    def until(self, job, words):
        while words not in (line := job.stdout.readline()):
            self.assertTrue(line, f"the job ended before it said {words}")
        return line

    def drained(self, job):
        """So that the job does not wait for a reader."""
        drain = subprocess.Popen(["cat"], stdin=job.stdout, stdout=subprocess.DEVNULL)
        self.addCleanup(lambda: (job.terminate() if job.poll() is None else None, drain.wait(BOUND_S)))
        return job

    def test_a_pipe_gets_one_plain_page_after_the_other_and_the_last_when_the_job_is_over(self):
        job = self.start()
        self.until(job, "step 10 of rank 1")
        self.drained(job)
        watching = subprocess.Popen([DDPRUN, "ps", "--watch"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (watching.kill(), watching.communicate()))
        # A page says what each rank does in one moment: rank 1 sleeps in most.
        wanted = (r"\n  1 +\d+ +sleeps +\d+ +[0-9.]+/s +[0-9.]+ m?s +\d+ % +[0-9.]+ [GM]iB +.* ago: step \d+ of rank 1\n",
                  r"\n  rank 1 is the slowest: at collectives it comes \d+ ms after the first")
        section, end = "", time.monotonic() + BOUND_S
        while not all(re.search(pattern, section) for pattern in wanted):
            self.assertLess(time.monotonic(), end, section)
            page = ""
            while (line := watching.stdout.readline()) != "\n":
                self.assertTrue(line, page)
                page += line
            self.assertNotIn("\033", page)
            section = page[page.index(f"(pid {job.pid})"):] if f"(pid {job.pid})" in page else ""
        os.kill(job.pid, signal.SIGTERM)
        rest = watching.communicate(timeout=BOUND_S)[0] if self.is_alone(job) else ""
        self.assertTrue(not rest or rest.endswith("no job of yours runs on this host\n"), rest)

    def test_the_gpus_of_the_ranks_are_told_where_there_are_any(self):
        folder = tempfile.TemporaryDirectory(prefix="ddprun-nvml-")
        self.addCleanup(folder.cleanup)
        gpus = pathlib.Path(folder.name, "gpus")
        gpus.touch()
        environment = os.environ | {"LD_LIBRARY_PATH": FAKE_NVML, "FAKE_NVML": str(gpus)}
        job = self.start("--metrics", "127.0.0.1:0", environment=environment)
        address = self.until(job, "metrics at ").split()[-1]
        self.until(job, "step 10 of rank 1")
        self.drained(job)
        listed = subprocess.run([DDPRUN, "ps"], capture_output=True, text=True, check=True).stdout
        here = listed[re.search(rf"^\S+ +{job.pid} ", listed, re.MULTILINE).start():]
        pids = re.findall(r"^ +rank ([01]) +(\d+) ", here, re.MULTILINE)[:2]
        self.assertEqual([rank for rank, _ in pids], ["0", "1"], listed)
        gpus.write_text(f"{pids[1][1]} 97 {61 << 30}\n{pids[0][1]} -1 {5 << 30}\n")
        watching = subprocess.Popen([DDPRUN, "ps", "--watch"], stdout=subprocess.PIPE, text=True, env=environment)
        self.addCleanup(lambda: (watching.kill(), watching.communicate()))
        page, end = "", time.monotonic() + BOUND_S
        while not re.search(rf"\(pid {job.pid}\).*\n +RANK .* MEMORY +GPU +LAST OUTPUT\n.* [GM]iB +- 5 GiB .*\n.* [GM]iB +97 % 61 GiB ",
                            page):
            self.assertLess(time.monotonic(), end, page)
            self.assertTrue(line := watching.stdout.readline(), page)
            page += line
        with urllib.request.urlopen(address, timeout=BOUND_S) as answer:
            text = answer.read().decode()
        self.assertRegex(text, r'\nddprun_rank_gpu_utilization_ratio\{[^}]*rank="1"\} 0\.97\n')
        self.assertNotRegex(text, r'ddprun_rank_gpu_utilization_ratio\{[^}]*rank="0"')
        self.assertRegex(text, rf'\nddprun_rank_gpu_memory_bytes\{{[^}}]*rank="0"\}} {5 << 30}\n')
        gpus.write_text(f"{pids[1][1]} -2 {61 << 30}\n{pids[0][1]} 3 {5 << 30}\n")
        end = time.monotonic() + BOUND_S
        scrapes = 0
        while "gpu" in text:  # a card that does not answer keeps nothing else back, and what it said is taken for a while
            self.assertLess(time.monotonic(), end)
            with urllib.request.urlopen(address, timeout=BOUND_S) as answer:
                text = answer.read().decode()
            self.assertIn("\nddprun_rank_memory_bytes{", text)
            scrapes += 1
        self.assertGreater(scrapes, 1)

    def is_alone(self, job):
        """Whether no other job of this user runs here."""
        listed = subprocess.run([DDPRUN, "ps"], capture_output=True, text=True, check=True).stdout
        return {int(pid) for pid in re.findall(r"^\S+ +(\d+) ", listed, re.MULTILINE)} <= {job.pid}

    def test_a_terminal_is_drawn_in_place(self):
        job = self.start()
        self.until(job, "step 10 of rank 1")
        self.drained(job)
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(DDPRUN, [DDPRUN, "ps", "--watch"])
        said = b""
        while said.count(b"\033[H") < 2:
            self.assertTrue(select.select([terminal], [], [], BOUND_S)[0], said)
            said += os.read(terminal, 65536)
        os.write(terminal, b"\x03")
        self.assertEqual(os.WTERMSIG(os.waitpid(pid, 0)[1]), signal.SIGINT)
        os.close(terminal)
        self.assertTrue(said.startswith(b"\033[2J\033[H"), said[:20])

    def test_prometheus_own_parser_reads_the_metrics(self):
        python = parser()
        if python is None:
            skip("needs prometheus_client, which pip could not install")
        job = self.start("--metrics", "127.0.0.1:0")
        address = self.until(job, "metrics at ").split()[-1]
        self.until(job, "step 10 of rank 1")
        self.drained(job)
        with urllib.request.urlopen(address, timeout=BOUND_S) as answer:
            self.assertEqual(answer.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            text = answer.read().decode()
        read = subprocess.run([python, "-c", PARSE], input=text, capture_output=True, text=True, check=True).stdout
        families = {name: (kind, samples) for name, kind, samples in json.loads(read)}
        kind, samples = families["ddprun_rank_collectives"]
        self.assertEqual(kind, "counter")
        self.assertEqual([labels["rank"] for _, labels, _ in samples], ["0", "1"])
        self.assertTrue(all(value >= 10 for *_, value in samples), samples)
        late = {labels["rank"]: value for _, labels, value in families["ddprun_rank_late_seconds"][1]}
        self.assertGreater(late["1"], 0.1)
        self.assertLess(late["0"], 0.1)
        self.assertEqual({value for *_, value in families["ddprun_rank_up"][1]}, {1.0})
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(address.replace("/metrics", "/"), timeout=BOUND_S)
        self.assertEqual(refused.exception.code, 404)

    def test_the_server_ends_with_the_job_and_silent_clients_hold_nobody_up(self):
        job = self.start("--metrics", "127.0.0.1:0")
        address = self.until(job, "metrics at ").split()[-1]
        self.until(job, "step 5 of rank 1")
        self.drained(job)
        host, port = re.search(r"//(.*):(\d+)/", address).groups()
        silent = [socket.create_connection((host, int(port))) for _ in range(100)]
        urllib.request.urlopen(address + "?x=1", timeout=BOUND_S).close()
        for connection in silent:
            connection.close()
        job.terminate()
        job.wait(BOUND_S)
        with self.assertRaises(OSError):
            socket.create_connection((host, int(port)), timeout=5)

    def test_a_place_where_nobody_may_listen_is_refused_before_the_job_begins(self):
        for place, words in (("nowhere", "--metrics"), ("192.0.2.1:9400", "nobody can listen at 192.0.2.1:9400")):
            done = subprocess.run([DDPRUN, "--metrics", place, "true"], capture_output=True, text=True, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    DDPRUN, PYTHON, FAKE_NVML = sys.argv[1:4]
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
        print("SKIPPED: needs a Python with torch (./scripts/setup.sh --with-tests)", file=sys.stderr)
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
