"""record_test.py PROGRAM: the error file and the exit code of each way to end."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))

from patience import patient  # noqa: E402

CASES = {  # how: exit code, beginning of the message
    "throw": (1, "std::out_of_range: seven is not a rank"),
    "config": (78, "ddprun::Exception: this cannot be configured"),
    "latin-1": (78, "ddprun::Exception: cannot open caf\ufffd.bin"),
    "long": (78, "ddprun::Exception: " + 40_000 * "\u00e9"),  # of which the file has as much as there is room for
    "peer": (75, "c10::DistBackendError: the peer is gone"),
    "watchdog": (75, "c10::DistBackendError: it took too long"),  # a thread of libtorch's ends nccl jobs
    "joinable": (134, "std::terminate was called during the unwinding of an exception, maybe because a joinable thread was destroyed"),
    "terminate": (134, "std::terminate was called"),
    "abort": (-6, "SIGABRT: the program called abort"),
    "crash": (-11, "SIGSEGV: the program touched memory it does not have"),
    "crowd": (-11, "SIGSEGV: the program touched memory it does not have"),
    "throwing crowd": (1, "std::out_of_range: seven is not a rank"),
    "throw beside a reader": (1, "std::out_of_range: seven is not a rank"),  # which holds its stream's lock for ever
    "throw with a log": (1, "std::out_of_range: seven is not a rank"),
    "full stderr, throw beside a checkpoint": (1, "std::out_of_range: seven is not a rank"),
    "gone stderr, throw": (1, "std::out_of_range: seven is not a rank"),
    "full stderr, throw": (1, "std::out_of_range: seven is not a rank"),
    "full stderr, crash": (-11, "SIGSEGV: the program touched memory it does not have"),
    "three": (3, None),
    "nothing": (0, None),
}

CROWDS = ("crowd", "throwing crowd")  # threads that end at once, which not every run makes meet
AGAIN = [how for how in CROWDS for _ in range(7)]

with tempfile.TemporaryDirectory(prefix="ddprun-record-") as folder:
    for number, how in enumerate([*CASES, *AGAIN]):
        code, message = CASES[how]
        path = pathlib.Path(folder) / f"{number}.json"
        done = subprocess.run([sys.argv[1], how], env={**os.environ, "TORCHELASTIC_ERROR_FILE": str(path)},
                              capture_output=True, encoding="utf-8", errors="replace", check=False,
                              timeout=patient(20))
        assert done.returncode == code, (how, done.returncode, done.stderr)
        assert path.exists() == (message is not None), how
        if message is None:
            continue
        error = json.loads(path.read_text(encoding="utf-8"))["message"]
        first = error["message"].splitlines()[0]
        is_cut = how == "long" and message.startswith(first) and len(first) > 30_000
        assert first == message or is_cut, (how, error["message"])
        assert error["extraInfo"]["timestamp"].isdigit(), how
        assert how in ("watchdog", "long", *CROWDS) or "ddprun::record" in error["extraInfo"]["py_callstack"], (how, error)
        assert "stderr" in how or message in done.stderr, (how, done.stderr)
        assert how != "throw with a log" or pathlib.Path(f"{path}.log").read_text(encoding="utf-8") == "the last line", how
        assert not how.endswith("beside a checkpoint") or "written" in done.stdout, how
        print(f"ok: {how}")
