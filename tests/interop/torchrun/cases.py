"""Command lines that torchrun users type. Each is run by torchrun and by ddprun; all that a worker can see must agree.

PROBE is the worker (probe.py), FOLDER a directory with the same as __main__.py, t.pyz and t.pyc, LOGS an empty directory. `fails` says how both must end.
"""

import dataclasses


@dataclasses.dataclass
class Case:
    name: str
    argv: list
    env: dict = dataclasses.field(default_factory=dict)
    fails: bool = False
    # What differs on purpose, by name of a worker variable, "argv", "stdout", "stderr", "files" or "status"; the table of
    # docs/torchrun.md has the reasons.
    differs: tuple = ()


CASES = [
    Case("two workers", ["--nproc-per-node", "2", "PROBE", "a", "--b", "-c", "d e"]),
    Case("underscores and an equals sign", ["--nproc_per_node=2", "PROBE"]),
    Case("one worker", ["PROBE", "out=hello", "err=world"]),
    Case("a double dash behind the script is swallowed once", ["PROBE", "--", "a", "--", "b"]),
    Case("templates in arguments",
         ["--nproc-per-node=2", "PROBE", "x${local_rank}y", "$local_rank", "$$", "$${local_rank}", "${other}", "$local_ranks", "5$"]),
    Case("standalone", ["--standalone", "--nproc-per-node=2", "PROBE"], differs=("MASTER_ADDR",)),
    Case("standalone with a local address", ["--standalone", "--local-addr=127.0.0.1", "PROBE"]),
    Case("c10d", ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--rdzv-id=j7", "--nproc-per-node=2", "PROBE"],
         differs=("MASTER_ADDR",)),
    Case("rendezvous options with stray quotes", ["--rdzv-conf", "'join_timeout=60', 'timeout=30'", "PROBE"]),
    Case("a master of one's own", ["--master-addr=127.0.0.1", "--master-port=FREE_PORT", "PROBE"]),
    Case("a static endpoint", ["--rdzv-endpoint=127.0.0.1:FREE_PORT", "PROBE"]),
    Case("node rank and a range of one node", ["--node-rank=0", "--nnodes=1:1", "PROBE"]),
    Case("a role", ["--role", "trainer", "--nproc-per-node=2", "PROBE"]),
    Case("the first attempt fails", ["--max-restarts=2", "--nproc-per-node=2", "--log-dir=LOGS", "PROBE", "1:after=0", "first:1:exit=3"]),
    Case("every attempt fails", ["--max-restarts=1", "--log-dir=LOGS", "-r3", "PROBE", "out=x", "exit=7"], fails=True),
    Case("a worker is killed", ["--nproc-per-node=2", "PROBE", "1:after=0", "1:kill=SIGKILL"], fails=True),
    Case("log directory, nothing redirected", ["--log-dir=LOGS", "--nproc-per-node=2", "PROBE", "out=x"]),
    Case("redirect all", ["--log-dir", "LOGS", "-r", "3", "--nproc-per-node=2", "PROBE", "out=o", "err=e"]),
    Case("redirect by rank", ["--log-dir=LOGS", "-r", "0:1,1:2", "--nproc-per-node=2", "PROBE", "out=o", "err=e"]),
    Case("an abbreviated flag", ["--log-dir=LOGS", "--redirect=3", "PROBE", "out=o"]),
    Case("tee all", ["--log-dir=LOGS", "-t", "3", "--nproc-per-node=2", "PROBE", "out=o", "err=e"]),
    Case("tee with a role", ["--log-dir=LOGS", "--tee=0:3", "--role=r", "--nproc-per-node=2", "PROBE", "out=o"]),
    Case("a filter of ranks", ["--log-dir=LOGS", "--local-ranks-filter=0", "--nproc-per-node=2", "PROBE", "out=o", "err=e"]),
    Case("a filter of ranks and tee",
         ["--log-dir=LOGS", "--local_ranks_filter=1", "-t3", "--nproc-per-node=2", "PROBE", "out=o", "err=e"]),
    Case("a filter of ranks and redirects",
         ["--log-dir=LOGS", "--local-ranks-filter=1", "-r=1", "--nproc-per-node=2", "PROBE", "out=o", "err=e"]),
    Case("no logs at all", ["--log-dir=/dev/null", "PROBE", "out=o", "err=e"]),
    Case("filtered copies", ["--log-dir=LOGS", "-t3", "--duplicate-stdout-filters", "apple,pe,,ar", "PROBE", "out=an apple",
                             "out=a plum", "out=pe,ar", "err=an apple"]),
    Case("filtered copies of stderr", ["--log-dir=LOGS", "-t3", "--duplicate_stderr_filters=plum", "PROBE", "err=a plum", "err=x"]),
    Case("a prefix template", ["--log-dir=LOGS", "-t1", "PROBE", "out=o"],
         env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<${role_name} ${rank} ${local_rank}> "}),
    Case("an error file for the launcher above", ["--log-dir=LOGS", "PROBE", "record=ValueError: bad", "exit=4"],
         env={"TORCHELASTIC_ERROR_FILE": "LOGS/outer.json"}, fails=True),
    Case("an error file of a worker that is then killed", ["--log-dir=LOGS", "PROBE", "record=ValueError: bad", "kill=SIGKILL"],
         env={"TORCHELASTIC_ERROR_FILE": "LOGS/outer.json"}, fails=True),
    Case("a value with spaces after an equals sign",
         ["--role=x y", "--log-dir=LOGS/my logs", "--rdzv-conf=join_timeout=60, timeout=30", "-t3", "PROBE", "out=o"]),
    Case("only the first double dash is swallowed", ["--nproc-per-node", "1", "--", "PROBE", "--", "a"]),
    Case("an empty prefix template is none", ["--log-dir=LOGS", "-t1", "PROBE", "out=o"],
         env={"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": ""}),
    Case("variables", ["PROBE"], env={"PET_NPROC_PER_NODE": "2", "PET_ROLE": "r", "PET_MAX_RESTARTS": "1"}),
    Case("a flag wins over its variable", ["--nproc-per-node=1", "PROBE"], env={"PET_NPROC_PER_NODE": "2"}),
    Case("a switch by its variable", ["PROBE"], env={"PET_STANDALONE": "1"}, differs=("MASTER_ADDR",)),
    Case("a switch turned off by its variable", ["PROBE"], env={"PET_STANDALONE": "0"}),
    Case("threads", ["--nproc-per-node=2", "PROBE"], env={"OMP_NUM_THREADS": "3"}),
    Case("NCCL's error handling", ["PROBE"], env={"TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"}),
    Case("signals", ["--signals-to-handle", "SIGTERM,SIGUSR1", "PROBE"]),
    Case("a virtual local rank", ["--virtual-local-rank", "--nproc-per-node=2", "PROBE"], env={"CUDA_VISIBLE_DEVICES": "5,6"}),
    Case("a virtual local rank without visible devices", ["--virtual-local-rank", "--nproc-per-node=2", "PROBE"]),
    Case("visible devices", ["PROBE"], env={"CUDA_VISIBLE_DEVICES": "3,1"}),
    Case("a module", ["-m", "--nproc-per-node=1", "probe", "a"]),
    Case("a folder", ["FOLDER", "a"]),
    Case("an archive", ["FOLDER/t.pyz", "a"]),
    Case("a compiled script", ["FOLDER/t.pyc", "a"]),
    Case("a module behind a double dash", ["--nproc-per-node=2", "--", "-m", "probe", "a"]),
    Case("a program", ["--no-python", "--nproc-per-node=2", "PYTHON", "PROBE", "${local_rank}"]),
    Case("a run path", ["--run-path", "PROBE", "a"], differs=("unbuffered", "session_leader")),
    Case("flags without effect", ["--start-method=fork", "--monitor-interval=0.5", "--event-log-handler=null",
                                  "--logs-specs=default", "PROBE"]),
    Case("the help", ["--help"], differs=("stdout",)),
    # What both refuse.
    Case("nothing to run", [], fails=True),
    Case("an unknown flag", ["--nprocs=2", "PROBE"], fails=True),
    Case("an ambiguous abbreviation", ["--master=2", "PROBE"], fails=True),
    Case("a flag without its value", ["--nproc-per-node"], fails=True),
    Case("a number of workers that is none", ["--nproc-per-node=many", "PROBE"], fails=True),
    Case("GPUs where there are none", ["--nproc-per-node=gpu", "PROBE"], env={"CUDA_VISIBLE_DEVICES": ""}, fails=True),
    Case("negative restarts", ["--max-restarts=-1", "PROBE"], fails=True),
    Case("no node", ["--nnodes=0", "PROBE"], fails=True),
    Case("a bad stream", ["--tee=4", "PROBE"], fails=True),
    Case("a bad rank filter", ["--local-ranks-filter=a", "PROBE"], fails=True),
    Case("a bad switch variable", ["PROBE"], env={"PET_STANDALONE": "yes"}, fails=True),
    Case("an empty variable", ["PROBE"], env={"PET_NPROC_PER_NODE": ""}, fails=True),
    Case("a module without Python", ["-m", "--no-python", "probe"], fails=True),
    Case("too few visible devices", ["--virtual-local-rank", "--nproc-per-node=2", "PROBE"], env={"CUDA_VISIBLE_DEVICES": "5"}, fails=True),
    Case("a script that is not there", ["nowhere.py"], fails=True),
    Case("a start method that is none", ["--start-method=thread", "PROBE"], fails=True),
    Case("a binding that is none", ["--numa-binding=x", "PROBE"], fails=True),
    # Where ddprun is better on purpose.
    Case("two-digit local ranks in a map", ["--log-dir=LOGS", "-r", "10:1", "PROBE"], differs=("status", "files", "probes")),
    Case("an abbreviation of both spellings", ["--nproc=1", "PROBE"], differs=("status", "probes")),
]
