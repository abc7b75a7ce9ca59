#!/usr/bin/env python3
"""Records ddprun in a terminal and draws it: docs/run.svg, a training, and docs/failure.svg, a job that fails. Each is a real run,
whose text appears when it appeared, with shorter pauses; who shows no animation shows the last screen.

    scripts/make_pictures.py DDPRUN PYTHON     a Python with torch; as root, for a folder and a host name of its own
"""

import os
import pathlib
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
import time
from fcntl import ioctl
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS, CHARACTER, LINE, MARGIN = 110, 8.4, 20, 16
OFTEN = 0.5  # seconds that a version of a line stays at least
PAUSE = 1.0  # what a longer one becomes
FAILS = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

def compute_loss(model, step):
    if step == 120 and dist.get_rank() == 2:
        raise ValueError(f"loss is nan at step {step}")
    return model(torch.rand(8, 4)).square().mean()

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 1))
for step in range(1000):
    compute_loss(model, step).backward()
"""
PICTURES = {
    "run": ("ddprun --nproc-per-node 2 configs/quickstart.json", 0),
    "failure": ("ddprun --nproc-per-node 4 --redirects 3 train.py", 1),
}


def record(words, expect, **options):
    """[(seconds since the start, text)] of all that a program prints into a terminal, which has to end with `expect`."""
    ours, its = pty.openpty()
    ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))
    before, at, chunks = time.monotonic(), 0.0, []
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=its, stderr=its, **options) as program:
        os.close(its)
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # EIO: nobody has the other end any more
                data = b""
            if not data:
                break
            now = time.monotonic()
            at, before = at + min(now - before, PAUSE), now
            chunks.append((at, data))
    os.close(ours)
    if program.returncode != expect:
        sys.exit(f"{shlex.join(words)} ended with {program.returncode}, expected {expect}:\n" + "".join(data.decode() for _, data in chunks))
    return [(at, data.decode()) for at, data in chunks]


def versions(chunks):
    """What each line of the screen was, and from when on: [[(seconds, text), …], …]."""
    lines, column = [[(0.0, "")]], 0
    for at, text in chunks:
        for part in re.findall(r"\x1b\[K|[\r\n]|[^\x1b\r\n]+|\x1b.?.?", text):
            now = lines[-1][-1][1]
            if part == "\n":
                lines.append([(at, "")])
                column = 0
                continue
            if part == "\r":
                column = 0
                continue
            if part == "\x1b[K":
                now = now[:column]
            elif part.startswith("\x1b"):
                raise ValueError(f"this terminal does not know {part!r}")
            else:
                now = now[:column].ljust(column) + part + now[column + len(part):]
                column += len(part)
            lines[-1].append((at, now))
    return [row for line in lines for row in wrapped(thinned(line))]


def wrapped(line):
    """The rows of the screen that a line takes."""
    rows = range(0, max([1, *(len(text) for _, text in line)]), COLUMNS)
    return [[(at, text[begin:begin + COLUMNS]) for at, text in line] for begin in rows]


def thinned(line):
    """Without what was replaced too soon to be read. The last version stays."""
    kept = []
    for index, (at, text) in enumerate(line):
        if index + 1 == len(line) or line[index + 1][0] - at > 0 and (not kept or at - kept[-1][0] >= OFTEN):
            kept.append((at, text))
    return [(at, text) for at, text in kept if text or len(kept) > 1]


def draw(command, lines):
    while lines and not (lines[-1] and lines[-1][-1][1]):
        lines.pop()
    width, height = round(COLUMNS * CHARACTER + 2 * MARGIN), (len(lines) + 1) * LINE + 2 * MARGIN
    drawn = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
             'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="14" fill="#d6deeb">',
             f"<title>{escape(command)}</title>",
             f'<rect width="{width}" height="{height}" rx="8" fill="#11151c"/>',
             f'<text x="{MARGIN}" y="{MARGIN + 14}" xml:space="preserve" fill="#ffffff">$ {escape(command)}</text>']
    for row, line in enumerate(lines, 1):
        place = f'<text x="{MARGIN}" y="{MARGIN + 14 + row * LINE}" xml:space="preserve"'
        for index, (at, text) in enumerate(line):
            if not text:
                continue
            if index + 1 < len(line):
                shown = f'<set attributeName="visibility" to="visible" begin="{at:.1f}s" end="{line[index + 1][0]:.1f}s"/>'
                drawn.append(f'{place} visibility="hidden">{shown}{escape(text)}</text>')
            else:
                shown = f'<set attributeName="visibility" to="hidden" begin="0s" end="{at:.1f}s"/>' if at >= 0.1 else ""
                drawn.append(f"{place}>{shown}{escape(text)}</text>")
    return "\n".join([*drawn, "</svg>", ""])


def main(ddprun, python):
    alone = ("unshare", "-mu", "sh", "-c", "mount -t tmpfs none /tmp && mount -t tmpfs none /home && mkdir -p /home/me && "
             f"hostname node-a && cd /home/me && ln -s {shlex.quote(str(ROOT))}/configs . && "
             f"printf %s {shlex.quote(FAILS)} >train.py && "
             'exec "$@"', "-")
    for path in (ROOT, pathlib.Path(ddprun).absolute(), pathlib.Path(python).absolute()):
        if path.parts[1] in ("tmp", "home"):
            sys.exit(f"{path} lies in /{path.parts[1]}, where the pictures have an empty folder: take a tree, program and Python elsewhere")
    environment = {"PATH": os.environ["PATH"], "PYTHON_EXEC": os.path.abspath(python), "TERM": "xterm", "OMP_NUM_THREADS": "1"}
    for name, (command, code) in PICTURES.items():
        words = [os.path.abspath(ddprun), *shlex.split(command)[1:]]
        (ROOT / f"docs/{name}.svg").write_text(draw(command, versions(record([*alone, *words], code, env=environment))))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
