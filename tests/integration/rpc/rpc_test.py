"""rpc_test.py DDPRUN_FOLDER TESTS_FOLDER [CLASS…]: remote calls between ranks that ddprun starts, and the examples, under
torchrun as well; only tests of these classes."""

import contextlib
import gzip
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from patience import patient  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "worker/examples"
TORCHRUN = pathlib.Path(sys.executable).parent / "torchrun"
BIN = pathlib.Path(sys.argv.pop(1))
TESTS = pathlib.Path(sys.argv.pop(1))
GONE = "the worker is gone (eof); its own last words, or the launcher's report, say why"


def run(program, *arguments, ranks=2, flags=()):
    return run_command(BIN / "ddprun", "--nproc-per-node", ranks, *flags, TESTS / program, *arguments)


def run_command(*command):
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("DDPRUN_", "TORCHELASTIC_"))}
    return subprocess.run(list(map(str, command)), env=plain, text=True, capture_output=True, timeout=patient(60), check=False)


def segments():
    return {entry.name for entry in pathlib.Path("/dev/shm").iterdir() if "tensorpipe" in entry.name}


class Calls(unittest.TestCase):
    def test_ranks_call_each_other(self):
        done = run("rpc_calls")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("ok: "), 37, done.stdout)

    def test_a_backward_over_ranks_and_its_steps_equal_those_of_one_process_to_the_last_bit(self):
        done = run("rpc_autograd")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("ok: "), 8, done.stdout)


class Faults(unittest.TestCase):
    def peer_dies(self, how, end):
        gone = GONE.replace("(eof)", f"({end})")
        begin = time.monotonic()
        self.assertEqual(
            self.told(how, expect=137),
            [f"rpc: test::later on worker 'beta': {gone}"] * 3
            + [f"rpc: test::die on worker 'beta': {gone}", "at once", f"rpc: test::nothing on worker 'beta': {gone}",
               f"rpc: meeting all workers on worker 'beta': {gone}"])
        self.assertLess(time.monotonic() - begin, patient(20))

    def told(self, how, expect=0, **options):
        before = segments()
        done = run("rpc_faults", how, **options)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        self.assertEqual(segments(), before)
        return done.stdout.splitlines()

    def test_every_open_call_to_a_peer_that_dies_fails_at_once_and_names_it(self):
        self.peer_dies("peer dies", "eof")

    def test_that_is_so_over_tcp_as_well(self):
        self.peer_dies("peer dies, by uv", "EOF: end of file")

    def test_a_backward_over_a_worker_that_is_gone_fails(self):
        for how in ("dies before backward", "dies before backward from reference"):
            self.assertEqual(self.told(how, expect=137), [
                f"rpc: test::die on worker 'beta': {GONE}",
                "dist_autograd: the backward in context 0: worker 'beta' is gone (Error on Node 0: eof); its own last words, or the "
                "launcher's report, say why",
            ])

    def test_a_worker_that_is_gone_behind_another_is_named_as_well(self):
        self.assertEqual(self.told("dies behind another", ranks=3, expect=137)[:2], [
            f"rpc: test::die on worker 'gamma': {GONE}",
            "dist_autograd: the backward in context 0: worker 'gamma' is gone (Error on Node 0: Error on Node 1: eof); its own last "
            "words, or the launcher's report, say why",
        ])

    def test_a_function_hears_that_the_owner_of_a_reference_is_gone(self):
        hears = f"worker 'beta': rpc: to_here on worker 'gamma': {GONE.replace('eof', 'ECONNREFUSED: connection refused')}"
        self.assertEqual(self.told("passes a lost reference", ranks=3, expect=137)[:4], [
            f"rpc: test::die on worker 'gamma': {GONE}", hears, hears, "in time"])

    def test_a_transport_that_is_not_there_is_refused(self):
        self.assertEqual(self.told("unknown transport", ranks=1), [
            "init_rpc: there is no transport 'pigeon'; this libtorch has ibv, shm, uv"])

    def test_who_waits_to_leave_hears_of_the_one_who_is_gone(self):
        told = f"rpc: meeting all workers on worker 'gamma': {GONE}"
        self.assertEqual(sorted(self.told("waits for who is gone", ranks=3, expect=137)),
                         sorted([told, told.replace("(eof)", "(as 'alpha' says)")]))

    def test_nobody_waits_for_another_s_call_to_hear_it(self):
        told = f"rpc: meeting all workers on worker 'gamma': {GONE}"
        begin = time.monotonic()
        self.assertEqual(sorted(self.told("dies during a long call", ranks=3, expect=137)),
                         sorted([told, told.replace("(eof)", "(as 'alpha' says)")]))
        self.assertLess(time.monotonic() - begin, patient(20))

    def test_so_they_do_where_that_one_has_come_already(self):
        told = f"rpc: meeting all workers on worker 'gamma': {GONE}"
        self.assertEqual(sorted(self.told("dies while it waits", ranks=3, expect=137)),
                         sorted([f"rpc: test::nothing on worker 'gamma': {GONE}", told, told.replace("(eof)", "(as 'alpha' says)")]))

    def test_a_call_to_an_unknown_name_says_what_there_is(self):
        self.assertEqual(self.told("unknown"), [
            "rpc: there is no worker 'gamma' in this world; there are alpha, beta",
            "worker 'beta': rpc: there is no function 'nowhere::nothing' here; make its Function, or give it to serve_script, "
            "before init_rpc",
            "rpc: there is no operator 'aten::no_such_operator'",
            "rpc: no overload of 'aten::add' takes (str, bool): aten::add() Expected a value of type 'number' for argument 'a' "
            "but instead found type 'str'.",
            "worker 'beta': rpc: 'test::add' takes (Tensor, Tensor) and got (int)",
            "worker 'beta': rpc: 'test::add' takes (Tensor, Tensor) and got (Tensor, str)",
            "worker 'beta': rpc: 'test::sum' takes (RRef(Tensor)) and got (float)",
        ])

    def test_a_call_that_takes_too_long_fails_in_its_time(self):
        self.assertEqual(self.told("too slow"), [
            "rpc: test::later on worker 'beta': no answer within 0.05 s; it may still be at work: name a longer time in To",
            "in time",
        ])

    def test_a_message_that_is_too_large_is_refused_by_who_makes_it(self):
        call, answer = self.told("too large")
        self.assertRegex(call, r"^rpc: test::add on worker 'beta': the call has \d+ bytes, more than the 4096 of "
                               r"Options::largest_message; send it in parts$")
        self.assertRegex(answer, r"^worker 'beta': rpc: the answer has \d+ bytes, more than the 4096 of "
                                 r"Options::largest_message; answer in parts$")

    def test_a_call_that_is_refused_keeps_nobody_from_leaving(self):
        lines = self.told("refused with references")
        for line, name in zip(lines[:2], ("test::nothing on worker 'beta'",) * 2, strict=True):
            self.assertRegex(line, rf"^rpc: {name}: the call has \d+ bytes, more than the 4096")
        self.assertRegex(lines[2], r"^rpc: test::add on worker 'alpha': the call has \d+ bytes, more than the 4096")
        self.assertEqual(lines[3], "rpc: there is no operator 'aten::no_such_operator'")
        self.assertRegex(lines[4], r"^worker 'beta': rpc: the answer has \d+ bytes, more than the 4096")
        self.assertEqual(lines[5:], ["leaves at once"])

    def test_what_failed_is_told_through_its_reference_and_keeps_nobody_from_leaving(self):
        *told, slow, late, leaves = self.told("failed references")
        self.assertEqual(len(told), 3)
        for line in told:
            self.assertRegex(line, r"^(worker 'beta': )+zeros: Dimension size must be non-negative")
        for line, worker in ((slow, "alpha"), (late, "beta")):
            self.assertEqual(line, f"rpc: to_here on worker '{worker}': no answer within 0.05 s; it may still be at work: name a "
                                   "longer time in To")
        self.assertEqual(leaves, "leaves at once")

    def test_a_backward_from_what_failed_fails_as_it_did(self):
        told = self.told("backward from what failed")
        self.assertRegex(told[0], r"^worker 'beta': zeros: Dimension size must be non-negative")
        self.assertEqual(told[1:], told[:1])

    def test_a_reference_to_a_class_that_its_owner_alone_has_registered_goes_anywhere_and_back(self):
        self.assertEqual(self.told("class of one rank", ranks=3), ["is its owner's own", "nothing was thrown"] * 2 + ["leaves at once"])

    def test_a_value_that_nobody_waits_for_any_more_is_dropped_by_its_owner(self):
        self.assertEqual(self.told("given up", ranks=3), ["too late", "ended", "dropped"] * 2)

    def test_misuse_is_refused(self):
        self.assertEqual(self.told("misuse"), [
            "worker 'beta': rpc: shutdown() on a thread of the agent, in a function that another worker has called or in then, "
            "would wait for itself; call it where this worker joined",
            "rpc: 'a::::b' cannot be a function's name; take namespace::name",
            "rpc: a call cannot take -5 ms; zero is for ever",
            "rpc: a tensor of mkldnn cannot be sent; give a dense one of its values (to_dense(), clone())",
            "rpc: a tensor that is not defined cannot be sent; give an empty one, or an optional",
        ])

    def test_a_function_that_runs_while_the_process_ends_keeps_its_statics(self):
        self.assertEqual(self.told("ends under a function"), ["its static was there"])

    def test_a_process_does_not_wait_for_a_function_that_does_not_return(self):
        begin = time.monotonic()
        self.told("function does not return", expect=7)
        self.assertLess(time.monotonic() - begin, patient(20))

    def test_a_process_may_end_without_shutdown(self):
        for _ in range(5):
            self.told("no shutdown")

    def test_a_call_that_is_open_at_shutdown_fails(self):
        self.assertEqual(self.told("open at shutdown"), [
            "rpc: test::later on worker 'beta': this worker has shut rpc down while the call was open; wait for it before "
            "shutdown",
            "rpc: a call needs a worker that has joined; call init_rpc first, and nothing after shutdown",
        ])

    def test_a_call_that_waits_for_the_owner_of_its_argument_is_not_begun_after_shutdown(self):
        self.assertEqual(self.told("leaves under a waiting call", ranks=3), ["waits", f"rpc: test::say_started on worker 'beta': {GONE}"])

    def test_who_leaves_waits_for_a_call_as_long_as_it_may_take(self):
        self.assertEqual(self.told("long call at shutdown"), ["nothing was thrown"] * 3)

    def test_a_call_waits_for_the_busy_owner_of_its_argument_as_long_as_it_may_take(self):
        self.assertEqual(self.told("owner is busy", ranks=3), ["nothing was thrown"])

    def test_who_leaves_waits_for_one_who_is_later_than_a_call_may_take(self):
        self.assertEqual(self.told("late to leave"), ["nothing was thrown"] * 2)

    def test_who_waits_in_the_store_in_vain_says_for_what(self):
        self.assertEqual(sorted(self.told("waits in vain to leave")), [
            f"rpc: worker '{name}' waits in the store for all workers to leave: wait timeout after 100000ms, keys: 0"
            for name in ("alpha", "beta")])

    def test_who_waits_in_the_store_for_one_who_is_gone_names_it(self):
        self.assertEqual(self.told("dies while it leaves", expect=137), [f"rpc: meeting all workers on worker 'beta': {GONE}"])

    def test_a_child_of_fork_has_not_joined(self):
        self.assertEqual(self.told("child of fork"), [
            "rpc: a call needs a worker that has joined; call init_rpc first, and nothing after shutdown", "the child has ended"])

    def test_a_process_joins_once(self):
        self.assertEqual(self.told("joins twice"), [
            "init_rpc: this process has joined before; a worker joins once, and a restarted job begins with new processes"])

    def test_who_is_refused_may_join_after_that(self):
        self.assertEqual(self.told("joins after refusals", ranks=1), [
            "init_rpc: 'not a name' cannot be a worker's name; take letters, digits, '_', ':' and '-', fewer than 128",
            "init_rpc: Options::timeout is -5 ms; zero is for ever",
            'environment variable WORLD_SIZE="many": expected an integer in [1, 16777216]; start this program with '
            "`ddprun --nproc-per-node N ./program`",
            "nothing was thrown"])

    def test_a_rank_that_does_not_join_is_waited_for_no_longer_than_was_said(self):
        self.assertEqual(self.told("absent"), [
            "init_rpc: worker 'alpha', rank 0 of 2, cannot join within 3 s; every rank of the job has to call init_rpc: wait timeout "
            "after 3000ms, keys: ddprun/0/init/2/1/rpc_prefix_0/0/1"])

    def test_a_name_is_one_worker_s(self):
        self.assertEqual(sorted(self.told("same name")), [
            f"init_rpc: worker 'alpha', rank {own} of 2, cannot join: RPC worker name alpha is not unique. Workers {own} and "
            f"{other} share the same name." for own, other in ((0, 1), (1, 0))])

    def test_a_generation_after_another_calls_as_the_first_one_did(self):
        lines = self.told("restart", flags=("--max-restarts", "1"))
        self.assertEqual(lines[-1], "nothing was thrown", lines)

    def test_so_does_one_under_torchrun_whose_store_keeps_the_keys_of_the_dead(self):
        done = run_command(TORCHRUN, "--standalone", "--nproc-per-node", 2, "--max-restarts", 1, "--no-python", TESTS / "rpc_faults", "restart")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.splitlines()[-1], "nothing was thrown")

    def test_so_does_a_program_after_another_in_one_worker(self):
        call = f"{TESTS / 'rpc_faults'} 'no limit'"
        done = run_command(BIN / "ddprun", "--nproc-per-node", 2, "sh", "-c", f"{call} && {call}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.splitlines().count("nothing was thrown"), 2, done.stdout)

    def test_a_time_of_zero_is_for_ever(self):
        self.assertEqual(self.told("no limit"), ["nothing was thrown"])


@contextlib.contextmanager
def digits():
    """A folder with MNIST's files, unpacked, and fewer digits."""
    with tempfile.TemporaryDirectory(prefix="ddprun-rpc-") as folder:
        for packed in (ROOT / "configs/data/mnist-subset").glob("*.gz"):
            (pathlib.Path(folder) / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
        yield folder


class Examples(unittest.TestCase):
    """Each by the command in its first line, and under torchrun."""

    def example(self, name, says, *arguments):
        words = (EXAMPLES / f"{name}.cc").read_text().splitlines()[0].split()
        self.assertEqual(words[:3] + words[4:5], ["//", "ddprun", "--nproc-per-node", f"./{name}"])
        self.assertEqual(len(words[5:]), len(arguments))
        program = [TESTS / name, *arguments]
        for launcher in ([BIN / "ddprun", *words[2:4]], [TORCHRUN, "--standalone", *words[2:4], "--no-python"]):
            done = run_command(*launcher, *program)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(says, done.stdout)

    def test_a_parameter_server_and_two_trainers(self):
        with digits() as folder:
            self.example("rpc_parameter_server", "accuracy on digits that nobody trained on: 0.", folder)

    def test_a_trainer_in_python_and_a_parameter_server_in_cpp(self):
        with digits() as folder:
            first_lines = (EXAMPLES / "rpc_trainer.py").read_text().split('"""')[1]
            command = next(line.strip() for line in first_lines.splitlines() if line.strip().startswith("ddprun "))
            for word, path in (("ddprun ", f"{BIN}/ddprun "), ("./rpc_parameter_server", f"{TESTS}/rpc_parameter_server"),
                               ("exec python rpc_trainer.py", f"exec {sys.executable} {EXAMPLES}/rpc_trainer.py"),
                               ("FOLDER", folder)):
                self.assertIn(word, command)
                command = command.replace(word, path)
            done = run_command("sh", "-c", command)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("accuracy on digits that nobody trained on: 0.", done.stdout)

    def test_a_pipeline_of_two_stages(self):
        self.example("rpc_pipeline", "; equal to one process, to the last bit")

    def test_actors_and_a_learner(self):
        self.example("rpc_actors", "steps to the prize: 7 of at least 7")

    def test_parameters_that_are_averaged(self):
        self.example("rpc_averaging", "largest error of a weight: ")

    def test_a_recurrent_network_whose_embedding_is_elsewhere(self):
        self.example("rpc_rnn", "first gradients equal to one process's, to the last bit")


if __name__ == "__main__":
    unittest.main(verbosity=2)
