"""Command lines drawn at random from a seed: right ones, wrong ones, and odd ways to write both.

Each is read by torchrun's own parser (nothing is started) and by `ddprun --dry-run`; `facts` of both must be equal.
"""

import random
import re
import shlex

SWITCHES = ["standalone", "module", "no-python", "run-path", "virtual-local-rank"]

VALUES = {
    "nproc-per-node": ["1", "2", "3", "+2", " 2 ", "0_2", "2.0", "two", "0", "-1", "", "2_", "1e1"],
    "nnodes": ["1", "1:1", " 1", "1 : 1", "0", "2:1", "x", ""],
    "master-addr": ["127.0.0.1", "localhost", "::1"],
    "master-port": ["29501", "+29501", "2_9501", "0", "x", "1.5", ""],
    "rdzv-backend": ["static", "c10d"],
    "rdzv-endpoint": ["localhost:29511", "127.0.0.1:29511", ""],
    "rdzv-id": ["j7", "a b", "x=y", "-", "7"],
    "rdzv-conf": ["join_timeout=60", "join_timeout=1, timeout=2", "'join_timeout=60', 'timeout=30'", "join_timeout", "=1", ""],
    "max-restarts": ["0", "3", "+3", " 2\t", "1_0", "-1", "1e1", "", "_1", "1__0", "- 1"],
    "monitor-interval": ["0.1", "5e-2", "+1", "inf", "-Infinity", "nan", "1_0.5", " 1 ", ".5", "5.", "1e", "x", "1__0", "1_", "0x1",
                         "1e400", "", ".", "+", "1_0e1_0", "1._5"],
    "start-method": ["spawn", "fork", "forkserver", "thread"],
    "role": ["trainer", "x y", "-x", "--", "-", "=", "a=b", "${local_rank}", "--log-dir=a b", "-1", "-1.5", "-.5", "-1.", "-r 3"],
    "log-dir": ["logs", "my logs", "/dev/null", "logs=1"],
    "redirects": ["0", "1", "2", "3", "0:1", "0:1,1:2", "4", "", "0:1,", "1:3,0:0", " 3", "3 "],
    "tee": ["0", "1", "2", "3", "2:3", "0:2,1:1", "-1", "0:4"],
    "local-ranks-filter": ["0", "0,1", "1", "a", "", " 0 , 1", "0,", "+1", "1_0"],
    "duplicate-stdout-filters": ["a,b", "a b,,c", ""],
    "duplicate-stderr-filters": ["apple"],
    "log-line-prefix-template": ["${rank}: ", "[${hostname} ${role_name}]", "x"],
    "shutdown-timeout": ["3", "+4", " 5 ", "1_0", "x", ""],
    "node-rank": ["0", "+0", "x", " 0 "],
    "local-addr": ["127.0.0.1"],
    "event-log-handler": ["null"],
    "logs-specs": ["default"],
    "signals-to-handle": ["SIGTERM", "SIGTERM,SIGUSR1", "SIGTERM,SIGINT,SIGHUP"],
}
SHORT = {"module": "m", "redirects": "r", "tee": "t"}
STRAY = ["--nprocs=2", "-x", "--foo=bar baz", "--foo bar", "-1", "--standalone=1", "-m=1", "--standalone x", "-", "--module no"]
PROGRAMS = ["./train.py"] * 6 + ["./my script.py"]
ARGUMENTS = ["a", "--", "-x", "--lr=0.1", "--epochs", "3", "${local_rank}", "$$", "${other}", "", "-m", "--nproc-per-node=9", "x y",
             "--master-port", "-1", "--no", "--n=2"]


class Writer:
    """Draws one command line after the other."""

    def __init__(self, seed, known):
        self.dice = random.Random(seed)
        self.names = sorted(name for name in [*SWITCHES, *VALUES] if f"--{name}" in known)

    def shortened(self, name):
        """An abbreviation that only one flag has, or the whole name."""
        length = self.dice.randint(3, len(name))
        alone = [other for other in [*SWITCHES, *VALUES] if other.startswith(name[:length])] == [name]
        return name[:length] if alone and "-" not in name[length:] else name

    def flag(self):
        name = self.dice.choice(self.names)
        spelled = "--" + (self.shortened(name) if self.dice.random() < 0.2 else name)
        if self.dice.random() < 0.3:
            spelled = "--" + spelled[2:].replace("-", "_")
        if name in SHORT and self.dice.random() < 0.6:
            spelled = "-" + SHORT[name]
        if name in SWITCHES:
            return [spelled]
        value = self.dice.choice(VALUES[name])
        if len(spelled) == 2 and self.dice.random() < 0.4:
            return [spelled + value]
        return [f"{spelled}={value}"] if self.dice.random() < 0.5 else [spelled, value]

    def line(self):
        words = [word for _ in range(self.dice.randint(0, 4)) for word in self.flag()]
        if self.dice.random() < 0.08:
            words.insert(self.dice.randint(0, len(words)), self.dice.choice(STRAY))
        if self.dice.random() < 0.2:
            words.append("--")
        if self.dice.random() < 0.96:
            words.append(self.dice.choice(PROGRAMS))
            words += [self.dice.choice(ARGUMENTS) for _ in range(self.dice.randint(0, 4))]
        return words


def facts_of_dry_run(text):
    """What `ddprun --dry-run` says, in the words of peer.py's answer."""
    facts = {"run_id": re.search(r", job id (.*)$", text, re.M)[1], "workers": []}
    if facts["run_id"].startswith("standalone-"):
        facts["run_id"] = "random"
    for block in re.split(r"\nrank \d+ \(local rank \d+\)\n", text)[1:]:
        rows = dict(re.findall(r"^  (command|stdout|stderr) +(.*)$", block, re.M))
        command = shlex.split(rows["command"])
        env = dict(shlex.split(line)[0].split("=", 1) for line in re.findall(r"^  (?:set|   ) {6}(.*)$", block, re.M))
        facts["workers"].append({
            "argv": command[1:] if re.search(r"python3?$", command[0]) else command,
            "role": env["ROLE_NAME"], "max_restarts": env["TORCHELASTIC_MAX_RESTARTS"],
            "signals": env["TORCHELASTIC_SIGNALS_TO_HANDLE"], "local_rank": env["LOCAL_RANK"],
            "files": [name for name in ("stdout", "stderr") if f"/{name}.log" in rows[name]],
            "console": [name for name in ("stdout", "stderr") if "console" in rows[name]]})
    return facts


# Where ddprun parts from torchrun on purpose, each a row of docs/torchrun.md: what it is called, and whether it explains this line.
REASONS = [
    ("an argument of the script that could abbreviate several flags",
     lambda line, theirs, message: theirs is None and any(word.split("=")[0] in ("--no", "--n") for word in line)),
    ("a program or script that does not exist", lambda line, theirs, message: theirs and re.search(r'does not exist', message)),
    ("no worker at all, which torchrun notices later", lambda line, theirs, message: theirs and not theirs["workers"]),
    ("a wrong value that a later use of the flag overrides",
     lambda line, theirs, message: theirs and re.search(r"^ddprun: --(nproc-per-node|nnodes|redirects|tee|local-ranks-filter): expected", message)),
    ("a Python plug-in", lambda line, theirs, message: theirs and "is a Python plug-in" in message),
    ("a value of two dashes, which argparse makes an empty list",
     lambda line, theirs, message: theirs and theirs["workers"][0]["role"] == []),
]


def reason(line, theirs, message):
    return next((name for name, explains in REASONS if explains(line, theirs, message)), None)
