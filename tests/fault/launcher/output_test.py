#!/usr/bin/env python3
"""Takes stdout and stderr of ddprun away, fills them up and stops reading them, and looks what becomes of the job."""

import fcntl
import functools
import json
import os
import pathlib
import resource
import select
import shutil
import signal
import subprocess
import sys
import termios
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "integration" / "cli"))

from harness import DDPRUN, Case  # noqa: E402
from owned import own  # noqa: E402
from ports import free_port  # noqa: E402
from skips import has_thread_sanitizer, skip, skip_unless  # noqa: E402


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


    def test_a_reader_that_leaves_ends_the_workers_whose_output_goes_nowhere_else(self):
        for program, code in ((["sh", "-c", "exec yes"], 141), ([self.script("p.py", PRINTS_FOR_EVER)], 1)):
            with self.subTest(program=program):
                process = self.start(*program)
                self.assertEqual(process.stdout.read(2), "y\n")
                process.stdout.close()
                self.assertEqual(process.wait(timeout=20), code)
                said = process.stderr.read()
                self.assertRegex(said, "BrokenPipeError|SIGPIPE")
                self.assertRegex(said, r"ddprun: \d+ bytes for stdout are lost: its reader is gone")

    def test_a_reader_that_leaves_does_not_end_workers_whose_output_is_in_a_file_too(self):
        go = self.folder / "go"
        os.mkfifo(go)
        process = self.start("--log-dir", self.logs, "--tee", 1, "--no-python", "sh", "-c",
                             "echo y; read x < go; for i in 1 2 3; do echo $i; sleep 0.05; done")
        self.assertEqual(process.stdout.readline(), "[default0]:y\n")
        process.stdout.close()
        go.write_text("\n")
        self.assertEqual(process.wait(timeout=20), 0)
        (log,) = self.logs.glob("*/attempt_0/0/stdout.log")
        self.assertEqual(log.read_text(), "y\n1\n2\n3\n")


@skip_unless(os.geteuid() == 0, "only root can become a user with few processes")
class FewProcesses(Output):
    USER = 54321  # has no processes but these

    def test_a_job_at_its_limit_of_processes_goes_on_without_its_log(self):
        program = shutil.copy(DDPRUN, self.folder / "ddprun")
        self.folder.chmod(0o777)
        (self.folder / "tmp").chmod(0o777)
        codes = {}
        for limit in range(3, 13):
            def limited(limit=limit):
                resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))
                os.setgroups([])
                os.setgid(self.USER)
                os.setuid(self.USER)
            done = subprocess.run([program, "--log-dir", f"logs{limit}", "--tee", "3", "--no-python", "sh", "-c",
                                   "sleep 60 & sleep 60 & sleep 60 & echo hello"], cwd=self.folder,
                                  env=self.environment(), stdin=subprocess.DEVNULL, preexec_fn=limited, timeout=60,
                                  check=False, text=True, capture_output=True)
            with self.subTest(limit=limit, said=done.stderr):
                self.assertNotIn("bug", done.stderr)
            codes[limit] = (done.returncode, "its thread cannot be started" in done.stderr)
        self.assertIn((0, True), codes.values(), codes)  # all but the thread
        self.assertEqual(codes[12], (0, False))


class NoOrdinaryFile(Output):
    def test_fifos_that_a_worker_puts_in_the_places_of_its_files_hold_nothing_up(self):
        fifo = "; ".join('rm -f "%s"; mkfifo "%s"' % (path, path) for path in
                         ("$TORCHELASTIC_ERROR_FILE", "${TORCHELASTIC_ERROR_FILE%/*}/stderr.log",
                          "${TORCHELASTIC_ERROR_FILE%/*/*/*}/report.json", "outer.json"))
        done = self.run_with(["--log-dir", self.logs, "--redirects", 3, "--no-python", "sh", "-c", f"{fifo}; exit 3"],
                             environment={"TORCHELASTIC_ERROR_FILE": str(self.folder / "outer.json")},
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(len(list(self.logs.glob("*/attempt_0/0/error.json"))), 1)
        self.assertEqual(self.report()["root_cause"]["rank"], 0)
        self.assertRegex(done.stderr, "TORCHELASTIC_ERROR_FILE: cannot write .*outer.json: No such device")


class Lost(Output):
    def test_a_full_device_is_named_with_what_it_lost_and_the_job_keeps_its_code(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = self.run_with(["--events", "events", "--no-python", "sh", "-c", "echo 123456789"], stdout=full,
                                 stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "ddprun: cannot write stdout: No space left on device\n"
                         "ddprun: 10 bytes for stdout are lost: No space left on device\n")
        self.assertEqual(self.events()[-1]["lost_output"],
                         [{"where": "stdout", "bytes": 10, "why": "No space left on device"}])

    def test_a_pipe_that_nobody_reads_is_left_after_ten_seconds_and_named(self):
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        done = self.run_with(["--log-dir", self.logs, "--no-python", "sh", "-c",
                              "head -c 1000000 /dev/zero; exit 9"], stdout=write_end, stderr=subprocess.PIPE)
        os.close(write_end)
        self.assertEqual(done.returncode, 9)
        held = len(os.read(read_end, 1 << 20))
        lost = {"where": "stdout", "bytes": 1000000 - held, "why": "nobody took it in time"}
        self.assertIn(f"ddprun: {lost['bytes']} bytes for stdout are lost: nobody took it in time\n", done.stderr)
        self.assertEqual(self.report()["lost_output"], [lost])

    def test_a_reader_that_is_slow_gets_every_line(self):
        lines = 12_000_000  # 95 MB, of which 64 MiB could wait
        read_end, write_end = os.pipe()
        job = subprocess.Popen([DDPRUN, "--no-python", "seq", str(lines)], cwd=self.folder, env=self.environment(),
                               stdin=subprocess.DEVNULL, stdout=write_end, stderr=subprocess.PIPE, text=True)
        own(self, job)
        os.close(write_end)
        count, last = 0, b""
        while piece := os.read(read_end, 1 << 20):
            count += piece.count(b"\n")
            last = (last + piece)[-20:]
            time.sleep(0.002)  # it reads all the time, and slowly
        os.close(read_end)
        self.assertEqual(job.communicate(timeout=60), (None, ""))
        self.assertEqual((job.returncode, count, last.split()[-1]), (0, lines, str(lines).encode()))

    def test_a_job_that_is_told_to_end_saves_whatever_its_slow_reader_does(self):
        (self.folder / "save.py").write_text("""import os, signal
def save(number, frame):
    os.write(1, b"saving" + bytes(8 << 20))
    open("saved", "w").close()
    os._exit(0)
signal.signal(signal.SIGTERM, save)
for _ in range(32):
    os.write(1, bytes(1 << 20))
open("behind", "w").close()  # half of the room is taken
while True:
    os.write(1, bytes(1 << 16))
""")
        read_end, write_end = os.pipe()
        job = subprocess.Popen([DDPRUN, "--shutdown-timeout", "8s", "save.py"], cwd=self.folder, env=self.environment(),
                               stdin=subprocess.DEVNULL, stdout=write_end, stderr=subprocess.PIPE, text=True)
        own(self, job)
        os.close(write_end)

        def read_slowly_until(name):
            while job.poll() is None and not (self.folder / name).exists():
                os.read(read_end, 4096)
                time.sleep(0.02)

        read_slowly_until("behind")
        job.terminate()
        read_slowly_until("saved")
        os.close(read_end)
        said = job.communicate(timeout=60)[1]
        self.assertTrue((self.folder / "saved").exists(), said)
        self.assertNotIn("SIGKILL", said)

    @skip_unless(not has_thread_sanitizer(DDPRUN), "ThreadSanitizer writes a file before main")
    def test_a_limit_of_file_sizes_does_not_end_the_launcher(self):
        done = self.run_with(["--no-python", "sh", "-c", "exit 3"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             before_exec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
        self.assertEqual(done.returncode, 3, done.stderr)

    def test_a_reader_that_is_slow_gets_every_line_under_a_limit_of_file_sizes(self):
        lines = 400_000
        sent = [b"%d" % line for line in range(1, lines + 1)]
        for limit, flag in ((0, "--prefix"), (5000, "--fold"), (3_000_000, "--prefix"), (12_000_000, "--fold")):
            with self.subTest(limit=limit, flag=flag):
                read_end, write_end = os.pipe()
                job = subprocess.Popen([DDPRUN, flag, "--nproc-per-node", "2", "--no-python", "seq", str(lines)], cwd=self.folder,
                                       env=self.environment(), stdin=subprocess.DEVNULL, stdout=write_end, stderr=subprocess.PIPE,
                                       text=True, preexec_fn=functools.partial(resource.setrlimit, resource.RLIMIT_FSIZE, (limit, limit)))
                own(self, job)
                os.close(write_end)
                came = []
                while piece := os.read(read_end, 1 << 16):
                    came.append(piece)
                    time.sleep(0.004)  # it reads all the time, and slowly
                os.close(read_end)
                self.assertEqual(job.communicate(timeout=60), (None, ""))
                of_rank = {b"0": [], b"1": []}  # "[0-1] 7", or "[0@host] 7"
                for line in b"".join(came).splitlines():
                    who, number = line[1:].split(b"] ")
                    for rank in (b"0", b"1") if who == b"0-1" else (who[:1],):
                        of_rank[rank].append(number)
                self.assertEqual(job.returncode, 0)
                self.assertTrue(of_rank[b"0"] == sent and of_rank[b"1"] == sent, {rank: len(each) for rank, each in of_rank.items()})

    def test_folding_what_ranks_go_on_writing_keeps_a_signal_waiting_for_nobody(self):
        job = subprocess.Popen([DDPRUN, "--fold", "--nproc-per-node", "4", "--no-python", "yes"], cwd=self.folder,
                               env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        own(self, job)
        for _ in range(100):
            os.read(job.stdout.fileno(), 1 << 16)
        job.send_signal(signal.SIGINT)
        said = job.communicate(timeout=60)[1]
        self.assertEqual(job.returncode, 130, said)
        self.assertNotIn(b"lost", said)
        self.assertNotIn(b"dropped", said)

    def test_a_job_that_was_told_to_end_does_not_wait_for_a_slow_reader(self):
        process = subprocess.Popen([DDPRUN, "--no-python", "sh", "-c", "head -c 50000000 /dev/zero; echo done >&2; "
                                    "exec sleep 1000"], cwd=self.folder, env=self.environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        own(self, process)
        self.assertEqual(process.stderr.readline(), b"done\n")
        process.send_signal(signal.SIGTERM)
        ended = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < ended:
            os.read(process.stdout.fileno(), 4096)  # something within any ten seconds, and never all of it
            select.select([], [], [], 0.05)
        self.assertEqual(process.returncode, 143)
        self.assertIn(b"bytes for stdout are lost: nobody took it in time", process.stderr.read())

    def test_what_waits_for_a_stuck_console_is_bounded_and_the_rest_counted(self):
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        process = subprocess.Popen([DDPRUN, "--no-python", "sh", "-c", "head -c 200000000 /dev/zero; echo done >&2"],
                                   cwd=self.folder, env=self.environment(), stdout=write_end, stderr=subprocess.PIPE,
                                   text=True)
        os.close(write_end)
        own(self, process)
        self.assertEqual({process.stderr.readline(), process.stderr.readline()},
                         {"ddprun: stdout is read too slowly, and 64 MiB wait already; what comes now is dropped, and "
                          "counted\n", "done\n"})
        read = 0
        while piece := os.read(read_end, 1 << 20):
            read += len(piece)
        self.assertEqual(process.wait(timeout=20), 0)
        self.assertGreater(read, 63 << 20)
        self.assertLess(read, 65 << 20)
        self.assertEqual(process.stderr.read(), f"ddprun: {200000000 - read} bytes for stdout are lost: nobody read "
                         "it, and 64 MiB waited already\n")


class StuckStderr(Output):
    def streams(self):
        """A full pipe, and a terminal whose reader has pressed Ctrl-S."""
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        with self.assertRaises(BlockingIOError):
            while True:
                os.write(write_end, b"x" * 65536)
        os.set_blocking(write_end, True)
        for fd in (read_end, write_end):
            self.addCleanup(os.close, fd)
        yield "pipe", write_end
        master, slave = os.openpty()
        for fd in (master, slave):
            self.addCleanup(os.close, fd)
        termios.tcflow(slave, termios.TCOOFF)
        yield "terminal", slave

    def test_a_restart_and_the_report_wait_for_no_stderr(self):
        _, stuck = next(self.streams())
        done = self.run_with(["--max-restarts", 2, "--events", "events", "sh", "-c", "exit 7"],
                             environment={"TORCHELASTIC_ERROR_FILE": str(self.folder / "outer.json")}, timeout=30,
                             stdout=subprocess.DEVNULL, stderr=stuck)
        self.assertEqual(done.returncode, 7)
        self.assertTrue((self.folder / "outer.json").exists())
        (lost,) = self.events()[-1]["lost_output"]
        self.assertEqual((lost["where"], lost["why"]), ("stderr", "nobody took it in time"))

    def test_a_stuck_stderr_of_one_of_two_nodes_costs_no_generation(self):
        # The node prints its restart line on a console that is stuck; then it has to keep its lease.
        for kind, stuck in self.streams():
            with self.subTest(kind=kind):
                port = free_port()
                flags = ["--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", str(port), "--max-restarts",
                         "1", "--rdzv-conf", "keep_alive_interval=0.2,keep_alive_max_attempt=3", "--no-python", "sh",
                         "-c", '[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3; sleep 3']
                stuck_node = subprocess.Popen([DDPRUN, "--node-rank", "1", *flags], cwd=self.folder,
                                              env=self.environment(), stdin=subprocess.DEVNULL,
                                              stdout=subprocess.DEVNULL, stderr=stuck)
                own(self, stuck_node)
                node = self.ddprun("--node-rank", 0, *flags)
                self.assertEqual(node.returncode, 0, node.stderr)
                self.assertEqual(stuck_node.wait(timeout=30), 0)

    def test_a_stuck_stderr_of_the_coordinator_costs_no_generation(self):
        _, stuck = next(self.streams())
        coordinator = subprocess.Popen([DDPRUN, "coordinator", "--bind", "127.0.0.1:0", "--nnodes", "2",
                                        "--max-restarts", "1"], cwd=self.folder,
                                       env=self.environment(LOGLEVEL="debug"), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=stuck, text=True)
        own(self, coordinator)
        port = coordinator.stdout.readline().strip()
        flags = ["--nnodes", 2, "--rdzv-endpoint", f"127.0.0.1:{port}", "--max-restarts", 1, "--no-python", "sh", "-c",
                 "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3"]
        other = self.start(*flags)
        node = self.ddprun(*flags)
        self.assertEqual(node.returncode, 0, node.stderr)
        self.assertEqual(other.wait(timeout=30), 0)
        self.assertEqual(coordinator.wait(timeout=30), 0)

    def test_a_non_blocking_stderr_gets_the_whole_report_and_costs_no_cpu(self):
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, 4096)
        process = subprocess.Popen([DDPRUN, "--nproc-per-node", "32", "--no-python", "sh", "-c",
                                    'for i in $(seq 30); do printf "line %0200d\\n" $i >&2; done; exit 3'],
                                   cwd=self.folder, env=self.environment(), stdout=subprocess.DEVNULL,
                                   stderr=write_end)
        os.close(write_end)
        (self.folder / "done").touch()
        with open(read_end, encoding="utf-8") as reader:
            while not waits_alone(process.pid):
                self.assertIsNone(process.poll())
            before = cpu_seconds(process.pid)
            select.select([], [], [], 1)  # the launcher waits for us meanwhile, and for nothing else
            self.assertLess(cpu_seconds(process.pid) - before, 0.3)
            said = reader.read()
        self.assertEqual(process.wait(timeout=20), 3)
        self.assertRegex(said, r"\n  report    .*report.json\n$")


class HangingDisk(Output):
    def frozen_disk(self):
        """A file system of our own; freezing it makes every write to it wait."""
        disk = self.folder / "disk"
        disk.mkdir()
        with open(self.folder / "image", "wb") as image:
            image.truncate(16 << 20)
        if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
            skip("needs root and mkfs.ext4 to freeze a file system")
        subprocess.run(["mkfs.ext4", "-q", self.folder / "image"], check=True)
        mounted = subprocess.run(["mount", "-o", "loop", self.folder / "image", disk], capture_output=True, check=False)
        if mounted.returncode != 0:
            skip("needs a loop device to freeze a file system")
        self.addCleanup(subprocess.run, ["umount", "--lazy", disk], check=True)
        self.addCleanup(subprocess.run, ["fsfreeze", "--unfreeze", disk], capture_output=True, check=False)
        return disk

    def test_a_disk_that_hangs_under_the_logs_of_one_of_two_nodes_costs_no_generation(self):
        disk = self.frozen_disk()
        flags = ["--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", str(free_port()), "--tee", "1",
                 "--rdzv-conf", "keep_alive_interval=0.3,keep_alive_max_attempt=4", "--no-python", "sh", "-c"]
        os.mkfifo(self.folder / "go")
        other = self.start("--node-rank", 0, *flags, "read x < go; sleep 4")
        process = self.start("--node-rank", 1, "--log-dir", disk, *flags,
                             "echo first; read x < go; for i in $(seq 100); do echo $i; sleep 0.04; done; echo last")
        self.assertEqual(process.stdout.readline(), "[default0]:first\n")
        subprocess.run(["fsfreeze", "--freeze", disk], check=True)
        (self.folder / "go").write_text("\n\n")
        while (line := process.stdout.readline()) != "[default0]:last\n":
            self.assertNotEqual(line, "", "the console stands still while the disk is frozen")
        subprocess.run(["fsfreeze", "--unfreeze", disk], check=True)
        self.assertEqual((process.wait(timeout=30), other.wait(timeout=30)), (0, 0), process.stderr.read())
        (log,) = disk.glob("*/attempt_0/0/stdout.log")
        self.assertEqual(log.read_text(), "first\n" + "".join(f"{i}\n" for i in range(1, 101)) + "last\n")

    def test_a_disk_that_hangs_under_the_logs_does_not_hold_up_a_console_that_is_a_file(self):
        disk = self.frozen_disk()
        for name in ("ready", "go"):
            os.mkfifo(self.folder / name)
        with open(self.folder / "out", "wb") as out, open(self.folder / "err", "wb") as err:
            process = subprocess.Popen(
                [DDPRUN, "--tee", "3", "--log-dir", disk, "--no-python", "sh", "-c",
                 "echo first; echo >ready; read x <go; echo last"],
                cwd=self.folder, env=self.environment(), stdout=out, stderr=err)
        own(self, process)
        self.addCleanup(subprocess.run, ["fsfreeze", "--unfreeze", disk], capture_output=True, check=False)
        (self.folder / "ready").read_text()
        subprocess.run(["fsfreeze", "--freeze", disk], check=True)
        (self.folder / "go").write_text("\n")
        until = time.monotonic() + 60
        said = ""
        while "bytes for" not in said:  # the last that is said, with the disk still frozen
            self.assertLess(time.monotonic(), until, said)
            select.select([], [], [], 0.05)
            said = (self.folder / "err").read_text()
        self.assertEqual((self.folder / "out").read_text(), "[default0]:first\n[default0]:last\n")
        self.assertRegex(said, r"(?m)^ddprun: \d+ bytes for .*/stdout.log are lost: its file system did not take it")
        subprocess.run(["fsfreeze", "--unfreeze", disk], check=True)
        self.assertEqual(process.wait(timeout=30), 0)

    def test_a_disk_that_hangs_under_the_report_holds_up_no_end(self):
        disk = self.frozen_disk()
        for name in ("ready", "go"):
            os.mkfifo(self.folder / name)
        process = self.start("--log-dir", disk, "--events", "events", "--no-python", "sh", "-c",
                             "echo >ready; read x <go; exit 3", TORCHELASTIC_ERROR_FILE=str(disk / "outer.json"))
        self.addCleanup(subprocess.run, ["fsfreeze", "--unfreeze", disk], capture_output=True, check=False)
        (self.folder / "ready").read_text()
        subprocess.run(["fsfreeze", "--freeze", disk], check=True)
        (self.folder / "go").write_text("\n")
        until = time.monotonic() + 60
        while "job_ended" not in (self.folder / "events").read_text():  # with the disk still frozen
            self.assertLess(time.monotonic(), until)
            select.select([], [], [], 0.05)
        ended = self.events()[-1]
        self.assertEqual((ended["exit_code"], ended["report"]), (3, None))
        self.assertEqual({pathlib.Path(lost["where"]).name for lost in ended["lost_output"]},
                         {"report.json", "outer.json"})
        subprocess.run(["fsfreeze", "--unfreeze", disk], check=True)
        said = process.communicate(timeout=30)[1]
        self.assertEqual(process.returncode, 3)
        self.assertRegex(said, r"(?m)^ddprun: \d+ bytes for .*/report.json are lost: its file system did not take it")

    def test_events_that_nobody_reads_hold_up_nobody_and_are_counted(self):
        os.mkfifo(self.folder / "events")
        reader = os.open(self.folder / "events", os.O_RDWR)
        self.addCleanup(os.close, reader)
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
        done = self.ddprun("--events", "events", "--nproc-per-node", 16, "--no-python", "sh", "-c", "exit 0")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^ddprun: \d+ bytes for events are lost: nobody took it in time\n$")


class Kept(Output):
    def test_nobody_else_may_read_what_a_job_leaves(self):
        os.umask(0o022)
        self.ddprun("sh", "-c", "exit 3")
        self.ddprun("--log-dir", self.logs, "--tee", 3, "--no-python", "sh", "-c", "exit 3")
        folders = [*(self.folder / "tmp").iterdir(), *self.logs.iterdir()]
        self.assertEqual([oct(folder.stat().st_mode & 0o777) for folder in folders], ["0o700", "0o700"])

    def test_logs_and_error_files_that_are_there_already_are_kept_and_not_taken_for_new(self):
        # As after a coordinator that was started anew and counts from 0 again.
        old = {"message": {"message": "an old error", "extraInfo": {"timestamp": "1"}}}
        done = self.ddprun("--log-dir", self.logs, "--tee", 3, "--max-restarts", 1, "--no-python", "sh", "-c",
                           "if [ $TORCHELASTIC_RESTART_COUNT = 1 ]; then echo new; exit 4; fi; "
                           "cd $DDPRUN_LOG_DIR/..; mkdir -p attempt_1/0; echo old >attempt_1/0/stdout.log; "
                           f"echo '{json.dumps(old)}' >attempt_1/0/error.json; exit 3")
        self.assertEqual(done.returncode, 4)
        self.assertNotIn("an old error", done.stderr)
        (folder,) = self.logs.glob("*/attempt_1/0")
        self.assertEqual((folder / "stdout.log").read_text(), "old\nnew\n")
        self.assertEqual(json.loads((folder / "error.json.1").read_text()), old)

    def test_a_job_that_recovered_has_a_report_where_logs_were_asked_for(self):
        script = "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3"
        done = self.ddprun("--log-dir", self.logs, "--max-restarts", 1, "--no-python", "sh", "-c", script)
        self.assertEqual(done.returncode, 0)
        report = self.report()
        self.assertEqual((report["exit_code"], report["root_cause"]["exit_code"]), (0, 3))
        self.assertNotIn("report.json", done.stderr)
        self.assertEqual(self.ddprun("--max-restarts", 1, "--no-python", "sh", "-c", script).returncode, 0)
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def test_a_node_that_never_had_workers_leaves_no_directory(self):
        temporary = self.folder / "tmp"
        refused = self.ddprun("--rdzv-endpoint", "nowhere.invalid:1", "--rdzv-backend", "c10d", "sh", "-c", "exit 3")
        self.assertEqual(refused.returncode, 69, refused.stderr)
        self.assertEqual(list(temporary.iterdir()), [])
        waiting = self.start("--nnodes", 2, "--node-rank", 0, "--master-addr", "127.0.0.1", "--master-port",
                             free_port(), "-v", "sh", "-c", "exit 3")
        while not list(temporary.glob("*/attempt_0")):
            self.assertIsNone(waiting.poll())
        waiting.send_signal(signal.SIGTERM)
        self.assertEqual(waiting.wait(30), 75)
        self.assertEqual(list(temporary.iterdir()), [])

    def test_a_killed_launcher_leaves_no_empty_directory(self):
        temporary = self.folder / "tmp"
        for text, left in (("", 0), ("echo kept >$TORCHELASTIC_ERROR_FILE;", 1)):
            job = self.start("sh", "-c", f"{text} echo ready; exec sleep 1000")
            self.assertEqual(job.stdout.readline(), "ready\n")
            job.kill()
            job.wait()
            until = time.monotonic() + 30
            while len(list(temporary.glob("*/attempt_0/0"))) != left or len(list(temporary.iterdir())) != left:
                self.assertLess(time.monotonic(), until, list(temporary.rglob("*")))
                select.select([], [], [], 0.05)
        self.assertEqual([file.read_text() for file in temporary.rglob("error.json")], ["kept\n"])

    def test_old_reports_are_pruned_after_a_week_and_nothing_else_is(self):
        temporary = self.folder / "tmp"
        old, young = time.time() - 8 * 86400, time.time() - 6 * 86400
        for name, files, age in (("ddprun_old", ["report.json"], old), ("ddprun_young", ["report.json"], young),
                                 ("ddprun_logs", ["report.json", "stdout.log"], old), ("other", ["report.json"], old)):
            (temporary / name).mkdir()
            for file in files:
                (temporary / name / file).touch()
                os.utime(temporary / name / file, (age, age))
        self.assertEqual(self.ddprun("sh", "-c", "exit 3").returncode, 3)
        left = {folder.name for folder in temporary.iterdir()}
        self.assertEqual({name for name in left if not name.startswith("ddprun_none_")},
                         {"ddprun_young", "ddprun_logs", "other"})
        self.assertEqual(len(left), 4)


def stat_of(pid):
    """The fields of /proc/PID/stat from the state on."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_seconds(pid):
    return sum(map(int, stat_of(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def waits_alone(pid):
    """It sleeps, and all its workers are gone."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return stat_of(pid)[0] == "S" and not any(name_of(child) == "sh" for child in children)


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None


PRINTS_FOR_EVER = """
while True:
    print("y", flush=True)
"""


if __name__ == "__main__":
    unittest.main()
