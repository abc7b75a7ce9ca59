#!/usr/bin/env python3
"""Types right and wrong command lines into the real ddprun, and reads what it answers."""

import fcntl
import os
import pty
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import unittest

from harness import BOUND_S, DDPRUN, Case
from skips import skip

SENTINEL = ("sh", "-c", "echo started")


def read_until(terminal, text):
    """What a terminal shows, up to `text`."""
    shown = b""
    while text.encode() not in shown:
        if not select.select([terminal], [], [], BOUND_S)[0]:
            raise AssertionError(f"no {text} in {shown!r}")
        shown += os.read(terminal, 4096)
    before, found, _ = shown.partition(text.encode())
    return (before + found).decode()


class Refused(Case):
    def check(self, code, sentence, *arguments, **environment):
        done = self.ddprun(*arguments, **environment)
        self.assertEqual((done.returncode, done.stderr), (code, f"ddprun: {sentence}\n"))
        self.assert_nothing_started(done)

    def test_without_arguments_the_help_is_shown(self):
        done = self.ddprun()
        self.assertEqual(done.returncode, 64)
        self.assertIn("Usage\n  ddprun [flags]", done.stderr)

    def test_an_unknown_flag_gets_the_nearest(self):
        self.check(64, 'unknown flag --nproc-per-nod3; did you mean "--nproc-per-node"?', "--nproc-per-nod3", 2, *SENTINEL)

    def test_no_worker(self):
        self.check(64, '--nproc-per-node: expected a number of workers in [1, 65536], or auto, cpu or gpu, got "0"',
                   "--nproc-per-node", 0, *SENTINEL)

    def test_more_gpu_workers_than_gpus(self):
        self.check(64, "--nproc-per-node 9: backend nccl needs a GPU for each worker, and this machine has 0; "
                   "use --backend gloo", "--nproc-per-node", 9, "--backend", "nccl", *SENTINEL, CUDA_VISIBLE_DEVICES="")

    def test_rubbish_in_a_variable(self):
        self.check(64, 'environment variable PET_MAX_RESTARTS: expected an integer of at least 0, got "lots"',
                   *SENTINEL, PET_MAX_RESTARTS="lots")

    def test_a_program_that_does_not_exist(self):
        self.check(127, 'program "./nowhere" does not exist', "./nowhere")
        self.check(127, 'program "nowhere" does not exist: it is neither in PATH nor a file here', "nowhere")
        self.check(127, 'script "nowhere.py" does not exist', "nowhere.py")
        self.check(127, 'job file "nowhere.json" does not exist', "nowhere.json")

    def test_what_was_typed_is_shown_in_one_line(self):
        self.check(127, 'program "./no\\x0awhere" does not exist', "./no\nwhere")
        self.check(64, "unknown flag --a\\x1bb; ddprun --help lists all", "--a\x1bb", *SENTINEL)
        self.check(64, '--nproc-per-node: expected a number of workers in [1, 65536], or auto, cpu or gpu, got "2\\x1b"',
                   "--nproc-per-node", "2\x1b", *SENTINEL)
        self.script("a\nb c", "", 0o644)
        self.check(126, 'program "./a\\x0ab c" is not executable; run chmod +x $\'./a\\nb c\', or write the interpreter '
                   "before it: python3 $'./a\\nb c'", "./a\nb c")

    def test_a_program_that_is_here_but_not_in_path(self):
        self.script("train", "#!/bin/sh\n")
        self.check(127, 'program "train" is not in PATH; to run the file here, write ./train', "train")

    def test_a_program_without_permission(self):
        self.script("train", "#!/bin/sh\n", mode=0o644)
        self.check(126, 'program "./train" is not executable; run chmod +x ./train, or write the interpreter before it: '
                   "python3 ./train", "./train")

    def test_a_directory(self):
        self.check(126, 'program "./tmp" is a directory; Python runs one that has a __main__.py', "./tmp")
        self.check(126, 'program "tmp" is a directory; Python runs one that has a __main__.py', "tmp")

    def test_a_debugger_that_does_not_exist(self):
        self.check(127, '--debug-rank: program "nodebugger" does not exist: it is neither in PATH nor a file here',
                   "--debug-rank", 0, "nodebugger", *SENTINEL)

    def test_a_log_directory_that_cannot_be(self):
        (self.folder / "file").write_text("")
        self.check(64, f'--log-dir "file": {self.folder}/file is not a directory', "--log-dir", "file", *SENTINEL)

    def test_a_redirect_that_cannot_be_written(self):
        done = self.ddprun("--log-dir", "/proc/logs", "-r", "3", *SENTINEL)
        self.assertEqual(done.returncode, 64)
        self.assertRegex(done.stderr, r'^ddprun: --log-dir "/proc/logs": (cannot write|cannot make) ')
        self.assert_nothing_started(done)

    def test_set_needs_a_job_file(self):
        self.check(64, '--set /a=1: "sh" is no .json job, so there is nothing to set; pass it as an argument after the program',
                   "--set", "/a=1", *SENTINEL)

    def test_too_few_descriptors(self):
        remedy = ("raise the limit where it was set: ulimit -n, limits.conf, LimitNOFILE= of a service, "
                  "--ulimit nofile of a container")
        for limit in 5, 20, 51:
            for who, needed, words in (("a job of 2 workers here", 52, ("--nproc-per-node", 2, *SENTINEL)),
                                       ("ddprun store", 32, ("store",)),
                                       ("ddprun coordinator", 32, ("coordinator", "--bind", ":0", "--nnodes", 2)),
                                       ("ddprun drain", 16, ("drain", "--rdzv-endpoint", ":1", "--rdzv-id", "job"))):
                if needed <= limit:
                    continue
                with self.subTest(limit=limit, who=who):
                    self.check(71, f"{who} needs up to {needed} descriptors, and this process may have {limit} "
                               f"(ulimit -Hn); {remedy}", *words,
                               before=("sh", "-c", f'ulimit -n {limit}; exec "$0" "$@"'))

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = self.ddprun("--master-port", port, *SENTINEL)
            of_two = self.ddprun("--nnodes", 2, "--node-rank", 0, "--master-addr", "127.0.0.1", "--master-port", port, *SENTINEL)
        self.assertEqual(of_two.returncode, 69)
        self.assertIn("a node whose coordinator runs apart joins it with --rdzv-conf is_host=false", of_two.stderr)
        self.assertEqual((done.returncode, done.stdout), (69, ""))
        self.assertIn(str(port), done.stderr)
        self.assertIn("in use", done.stderr)


class Accepted(Case):
    def test_help_and_version(self):
        self.assertIn("--nproc-per-node", self.ddprun("--help").stdout)
        self.assertRegex(self.ddprun("--version").stdout, r"^ddprun \d+\.\d+\.\d+ ")

    def test_help_is_as_wide_as_its_terminal(self):
        for columns in (70, 100):
            ours, its = pty.openpty()
            fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
            help_job = subprocess.Popen([DDPRUN, "--help"], stdout=its)
            os.close(its)
            shown = read_until(ours, "--lr 0.1")
            self.assertEqual(help_job.wait(), 0)
            os.close(ours)
            widest = max(map(len, shown.splitlines()))
            self.assertTrue(columns - 5 < widest <= columns, widest)

    def test_a_dry_run_shows_everything_and_starts_nothing(self):
        done = self.ddprun("--dry-run", "--log-dir", self.logs, "--nproc-per-node", 2, *SENTINEL)
        self.assertEqual(done.returncode, 0)
        for text in ("2 workers", "rank 0 (local rank 0)", "rank 1 (local rank 1)", "RANK=1", "sh -c 'echo started'"):
            self.assertIn(text, done.stdout)
        self.assertFalse(self.logs.exists())

    def test_nothing_is_left_behind_by_a_job_without_files(self):
        done = self.ddprun("--nproc-per-node", 2, *SENTINEL)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "started\n" * 2, ""))
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def test_a_lone_worker_gets_our_standard_input(self):
        self.assertEqual(self.ddprun("cat", stdin="a line\n").stdout, "a line\n")
        self.assertEqual(self.ddprun("--nproc-per-node", 2, "cat", stdin="a line\n").stdout, "")
        done = self.ddprun("--nproc-per-node", 2, "--stdin", 1, "sh", "-c", "echo $RANK $(cat)", stdin="a line\n")
        self.assertEqual(sorted(done.stdout.splitlines()), ["0", "1 a line"])

    def test_a_script_runs_under_the_interpreter_that_was_chosen(self):
        self.script("py", '#!/bin/sh\necho "chosen $*"\n')
        self.script("t.py", "")
        done = self.ddprun("t.py", "x", PYTHON_EXEC="./py")
        self.assertEqual(done.stdout, "chosen -u t.py x\n")

    def test_a_debugger_is_looked_up_in_path(self):
        self.script("mydb", '#!/bin/sh\necho "debugging $*"; exec "$@"\n')
        done = self.ddprun("--nproc-per-node", 2, "--debug-rank", 1, "mydb", "--no-python", "/bin/sh", "-c",
                           "echo rank $RANK", PATH=f"{self.folder}:/usr/bin:/bin")
        self.assertEqual(sorted(done.stdout.replace("\r", "").splitlines()),
                         ["debugging /bin/sh -c echo rank $RANK", "rank 0", "rank 1"])

    def test_pdb_is_started_for_one_rank_only(self):
        self.script("t.py", "import os\nprint('rank', os.environ['RANK'])\n")
        done = self.ddprun("--nproc-per-node", 2, "--debug-rank", 1, "pdb", "t.py", stdin="p 6*7\nq\n")
        self.assertIn("rank 0\n", done.stdout)
        self.assertIn("(Pdb) 42", done.stdout.replace("\r", ""))

    def test_a_relative_path_in_a_working_directory_that_was_removed(self):
        gone = self.folder / "gone"
        for flag in ("--log-dir", "--events"):
            gone.mkdir()
            done = subprocess.run(["sh", "-c", 'cd gone; rmdir ../gone; exec "$@"', "-", DDPRUN, flag, "here", "true"],
                                  cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr),
                             (64, f'ddprun: {flag} "here": the working directory has been removed; change into one '
                              'that is there, or name an absolute path\n'))

    def test_completions_come_by_torchruns_flag_as_well(self):
        for shell in ("bash", "zsh", "tcsh", "fish"):
            by_flag = self.ddprun("--print-completion", shell)
            self.assertEqual((by_flag.returncode, by_flag.stdout), (0, self.ddprun("completions", shell).stdout))
        wrong = self.ddprun("--print-completion=powershell")
        self.assertEqual((wrong.returncode, wrong.stderr),
                         (64, 'ddprun: --print-completion: expected bash, zsh, tcsh or fish, got "powershell"\n'))

    def test_bash_completes_flags_and_values(self):
        ask = ("source <(\"$1\" completions bash); COMP_WORDS=(ddprun $2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _ddprun; "
               "echo ${COMPREPLY[@]}")

        def complete(line):
            return subprocess.run(["bash", "-c", ask, "-", DDPRUN, line], capture_output=True, text=True, check=True,
                                  cwd=self.folder).stdout.split()

        self.assertEqual(complete("--max"), ["--max-restarts", "--max-restarts-window"])
        self.assertEqual(complete("--backend g"), ["gloo"])
        self.assertEqual(complete("sto"), ["store"])
        self.assertEqual(complete("drain --"), ["--rdzv-endpoint", "--rdzv-id", "--node-rank", "--rdzv-secret-file",
                                                "--help"])
        self.assertEqual(complete("coordinator --rdzv-id x --max"), ["--max-restarts", "--max-restarts-window"])
        self.assertEqual(complete("completions t"), ["tcsh"])
        self.assertEqual(complete("list sch"), ["schedules"])
        self.assertEqual(complete("eval --j"), ["--json"])
        (self.folder / "secret").touch()
        self.assertEqual(complete("drain --rdzv-secret-file se"), ["secret"])
        self.assertEqual(complete("drain --rdzv-id se"), [])
        self.assertEqual(complete("eval se"), ["secret"])
        self.assertEqual(complete("eval --json se"), ["secret"])

    def complete(self, shell, terminal, steps):
        """What a line becomes at Tab, in a shell of our own on a terminal of our own. A step is what to type, and
        what the terminal shows then; the last one shows BEGIN, the line and END."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        (first, shown), *rest = steps
        os.write(ours, first.encode())
        process = subprocess.Popen(shell, stdin=theirs, stdout=theirs, stderr=theirs, cwd=self.folder,
                                   env=self.environment(TERM=terminal), start_new_session=True,
                                   preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(theirs)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        said = read_until(ours, shown)
        for keys, shown in rest:
            os.write(ours, keys.encode())
            said = read_until(ours, shown)
        return said.rpartition("BEGIN")[2].removeprefix(" -- ").removesuffix("END").strip()

    def test_zsh_completes_flags_and_values(self):
        if not shutil.which("zsh"):
            skip("no zsh here")
        setup = (f"autoload -Uz compinit; compinit -u -D; source <({DDPRUN} completions zsh); bindkey '^I' complete-word; "
                 "PS1=rea''dy\n")

        def complete(line):
            # The prompt comes from the line editor. Ctrl-A, and the line is an argument of a command that prints it.
            return self.complete(["zsh", "-f", "-i"], "dumb",
                                 [(setup, "ready"), (f"{line}\t\x01print -r BEG''IN -- \x05 E''ND\n", "END")])

        self.assertEqual(complete("ddprun --max-restarts-w"), "ddprun --max-restarts-window")
        self.assertEqual(complete("ddprun --backend gl"), "ddprun --backend gloo")
        self.assertEqual(complete("ddprun coordina"), "ddprun coordinator")
        self.assertEqual(complete("ddprun drain --rdzv-s"), "ddprun drain --rdzv-secret-file")
        self.assertEqual(complete("ddprun drain --max-restarts-w"), "ddprun drain --max-restarts-w")
        self.assertEqual(complete("ddprun coordinator --rdzv-id x --max-restarts-w"),
                         "ddprun coordinator --rdzv-id x --max-restarts-window")
        self.assertEqual(complete("ddprun completions t"), "ddprun completions tcsh")
        self.assertEqual(complete("ddprun list tr"), "ddprun list transforms")

    def complete_in_tcsh(self, line, typed_ahead=False):
        """With `typed_ahead` everything lies in the terminal before tcsh reads from it."""
        if not shutil.which("tcsh"):
            skip("no tcsh here; apt-get install tcsh brings it")
        (self.folder / "complete.tcsh").write_text(self.ddprun("--print-completion", "tcsh").stdout)
        # tcsh prompts before its line editor has the terminal, and the first that only the editor writes is the way
        # back to the begin of the line.
        steps = [("source complete.tcsh; bindkey -e; echo REA''DY\n", "READY"), (f"{line}\t\x01", "\x1b["),
                 ("echo BEG''IN -- \x05 E''ND\n", "END")]
        if typed_ahead:
            steps = [("".join(keys for keys, _ in steps), "END")]
        return self.complete(["tcsh", "-f", "-i"], "vt100", steps)

    def test_tcsh_completes_flags_and_values(self):
        complete = self.complete_in_tcsh
        (self.folder / "train.py").write_text("")
        self.assertEqual(complete("ddprun --max-restarts-w"), "ddprun --max-restarts-window")
        self.assertEqual(complete("ddprun --backend gl"), "ddprun --backend gloo")
        self.assertEqual(complete("ddprun --nproc-per-node 2 tra"), "ddprun --nproc-per-node 2 train.py")
        self.assertEqual(complete("ddprun drain --rdzv-s"), "ddprun drain --rdzv-secret-file")
        self.assertEqual(complete("ddprun drain --max-restarts-w"), "ddprun drain --max-restarts-w")
        self.assertEqual(complete("ddprun coordinator --nnodes 2 --max-restarts-w"),
                         "ddprun coordinator --nnodes 2 --max-restarts-window")
        self.assertEqual(complete("ddprun coordinator --nnodes 2 --rdzv-id x --rdzv-s"),
                         "ddprun coordinator --nnodes 2 --rdzv-id x --rdzv-secret-file")
        self.assertEqual(complete("ddprun drain --rdzv-id x --max-restarts-w"), "ddprun drain --rdzv-id x --max-restarts-w")
        self.assertEqual(complete("ddprun drain --rdzv-id x --rdzv-endpoint y --node-"),
                         "ddprun drain --rdzv-id x --rdzv-endpoint y --node-rank")
        self.assertEqual(complete("ddprun ps --js"), "ddprun ps --json")
        self.assertEqual(complete("ddprun completions t"), "ddprun completions tcsh")
        self.assertEqual(complete("ddprun list tr"), "ddprun list transforms")

    def test_tcsh_completes_what_was_typed_ahead(self):
        self.assertEqual(self.complete_in_tcsh("ddprun --max-restarts-w", typed_ahead=True), "ddprun --max-restarts-window")
        self.assertEqual(self.complete_in_tcsh("ddprun drain --rdzv-s", typed_ahead=True), "ddprun drain --rdzv-secret-file")

    def test_fish_completes_flags_and_values(self):
        if not shutil.which("fish"):
            skip("no fish here; apt-get install fish brings it")
        (self.folder / "secret").touch()
        (self.folder / "logs").mkdir()

        def complete(line):
            ask = "$argv[1] completions fish | source; complete -C $argv[2]"
            said = subprocess.run(["fish", "--no-config", "-c", ask, DDPRUN, line], capture_output=True, text=True, check=True,
                                  cwd=self.folder, env=self.environment(HOME=str(self.folder)))
            self.assertEqual(said.stderr, "")
            return [offer.split("\t")[0] for offer in said.stdout.splitlines()]

        self.assertEqual(complete("ddprun --max"), ["--max-restarts", "--max-restarts-window"])
        self.assertEqual(complete("ddprun --backend gl"), ["gloo"])
        self.assertEqual(complete("ddprun --log-dir l"), ["logs/"])
        self.assertEqual(complete("ddprun coordina"), ["coordinator"])
        self.assertEqual(complete("ddprun --nproc-per-node 2 coordina"), [])
        self.assertEqual(complete("ddprun --nproc-per-node 2 sec"), ["secret"])
        self.assertEqual(complete("ddprun drain --rdzv-"), ["--rdzv-endpoint", "--rdzv-id", "--rdzv-secret-file"])
        self.assertEqual(complete("ddprun drain --max-restarts-w"), [])
        self.assertEqual(complete("ddprun drain --rdzv-secret-file se"), ["secret"])
        self.assertEqual(complete("ddprun drain --rdzv-id se"), [])
        self.assertEqual(complete("ddprun coordinator --rdzv-id x --max"), ["--max-restarts", "--max-restarts-window"])
        self.assertEqual(complete("ddprun completions t"), ["tcsh"])
        self.assertEqual(complete("ddprun list tr"), ["transforms"])
        self.assertEqual(complete("ddprun eval se"), ["secret"])
        self.assertEqual(complete("ddprun eval --js"), ["--json"])


class ExitCode(Case):
    def test_the_failed_workers_own_code(self):
        self.assertEqual(self.ddprun("--nproc-per-node", 2, "sh", "-c", "[ $RANK = 0 ] || exit 42; sleep 60").returncode, 42)

    def test_a_signal_is_128_and_its_number(self):
        self.assertEqual(self.ddprun("sh", "-c", "kill -USR1 $$$$").returncode, 128 + signal.SIGUSR1)

    def test_the_launchers_own_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("sh", "-c", "echo ready; exec sleep 60")
            self.assertEqual(process.stdout.readline(), "ready\n")
            os.kill(process.pid, number)
            self.assertEqual(process.wait(20), 128 + number)

    def test_a_stopped_job_leaves_no_files_that_nobody_asked_for(self):
        process = self.start("sh", "-c", "echo ready; exec sleep 60")
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGINT)
        process.wait(20)
        self.assertIn("was stopped by SIGINT\n  then      rank 0 ended by SIGINT\n", process.stderr.read())
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def test_a_job_that_takes_too_long(self):
        done = self.ddprun("--job-timeout", "200ms", "sleep", 60)
        self.assertEqual(done.returncode, 75)
        self.assertIn("--job-timeout", done.stderr)


if __name__ == "__main__":
    unittest.main()
