"""A worker that writes down how it was started, does what its arguments say, and ends.

Arguments (others are only written down): out=TEXT and err=TEXT print a line, exit=CODE, kill=SIGNAL, record=TEXT writes
an error file in torch's form, after=RANK waits for that rank's notes. `1:` before one of them makes it rank 1's alone,
`first:` the first attempt's.
"""

import json
import os
import signal
import sys
import time


def mine(argument):
    while True:
        condition, colon, rest = argument.partition(":")
        if not colon or not (condition.isdigit() or condition == "first"):
            return argument
        applies = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" if condition == "first" else condition == os.environ["RANK"]
        if not applies:
            return ""
        argument = rest


def main():
    rank, attempt = os.environ["RANK"], os.environ["TORCHELASTIC_RESTART_COUNT"]
    notes = {"argv": sys.argv[1:], "env": dict(os.environ), "unbuffered": sys.stdout.write_through,
             "main": __name__, "session_leader": os.getsid(0) == os.getpid()}
    directory = os.environ["PROBE_DIR"]
    path = os.path.join(directory, f"{attempt}.{rank}.json")
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump(notes, file)
    os.rename(path + ".part", path)
    for argument in map(mine, sys.argv[1:]):
        verb, _, value = argument.partition("=")
        if verb == "out":
            print(value, flush=True)
        elif verb == "err":
            print(value, file=sys.stderr, flush=True)
        elif verb == "record":
            body = {"message": {"message": value, "extraInfo": {"py_callstack": "stack", "timestamp": str(int(time.time()))}}}
            with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w", encoding="utf-8") as file:
                json.dump(body, file)
        elif verb == "after":
            while not os.path.exists(os.path.join(directory, f"{attempt}.{value}.json")):
                time.sleep(0.005)
        elif verb == "exit":
            sys.exit(int(value))
        elif verb == "kill":
            os.kill(os.getpid(), getattr(signal, value))


if __name__ == "__main__":
    main()
