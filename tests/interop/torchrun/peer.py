"""torchrun, imported once: reads one job a line (JSON: argv, env, cwd, stdout, stderr), forks, runs torchrun's own main
in the child exactly as its console script does, and answers with the exit code. Saves two seconds of import a case.

A job that says {"parse": argv} starts nothing: the answer is what torchrun would have launched, or null if it refuses.
{"flags": true} asks for the flags of this torchrun, {"lone": true} whether it takes one node without an address for
--standalone, as from 2.15 on."""

import contextlib
import json
import os
import string
import sys
import traceback

from torch.distributed import run
from torch.distributed.run import main


def launched(argv):
    """What torchrun hands to its agent."""
    seen = {}

    class Recorder:
        def __init__(self, config, entrypoint):
            seen.update(config=config, command=entrypoint)

        def __call__(self, *arguments):
            seen["arguments"] = arguments

    run.elastic_launch = Recorder
    try:
        with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
            args = run.parse_args(argv)
            is_random, asked_id = args.standalone, args.rdzv_id
            run.run(args)
    except (Exception, SystemExit):
        return None
    config = seen["config"]
    logs = config.logs_specs

    def of(streams, rank):
        return int(streams.get(rank, 0) if isinstance(streams, dict) else streams)

    def worker(rank):
        command = list(seen["arguments"]) if seen["command"] in (sys.executable, run.run_script_path) else [
            seen["command"], *seen["arguments"]]
        if seen["command"] is run.run_script_path:
            command.insert(0, "-u")
        redirect, tee = of(logs._redirects, rank), of(logs._tee, rank)
        is_shown = not logs._local_ranks_filter or rank in logs._local_ranks_filter
        bits = {"stdout": 1, "stderr": 2}
        has_files = args.log_dir != os.devnull
        return {"argv": [string.Template(word).safe_substitute(local_rank=rank) for word in command], "role": config.role,
                "max_restarts": str(config.max_restarts), "signals": config.signals_to_handle,
                "local_rank": "0" if config.virtual_local_rank else str(rank),
                "files": [name for name, bit in bits.items() if has_files and (redirect | tee) & bit],
                "console": [name for name, bit in bits.items()
                            if is_shown and (not has_files or tee & bit or not redirect & bit)]}

    # From 2.15 on, one node without an address has a random id even if one was asked for.
    return {"run_id": "random" if is_random else asked_id, "workers": [worker(rank) for rank in range(config.nproc_per_node)]}


def is_lone_node_standalone():
    args = run.parse_args(["--no-python", "true"])
    run.elastic_launch = lambda config, entrypoint: lambda *arguments: None
    run.run(args)
    return args.rdzv_backend == "c10d"


def in_child(ask, *words):
    """Reading a command line changes the environment."""
    ours, theirs = os.pipe()
    if (pid := os.fork()) == 0:
        os.write(theirs, json.dumps(ask(*words)).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return text


def flags():
    return sorted(name for action in run.get_args_parser()._actions for name in action.option_strings)


def child(job):
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    for stream, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(job[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), stream)
    sys.argv = ["torchrun", *job["argv"]]
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # what the interpreter would do with it
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve():
    print("ready", flush=True)
    for line in sys.stdin:
        job = json.loads(line)
        if "flags" in job:
            print(json.dumps(flags()), flush=True)
            continue
        if "parse" in job or "lone" in job:
            print(in_child(launched, job["parse"]) if "parse" in job else in_child(is_lone_node_standalone), flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            child(job)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":  # not again in the processes that multiprocessing spawns
    serve()
