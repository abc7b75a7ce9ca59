"""A torch.distributed job (gloo, CPU) that is well, though it is silent for long: healthy.py KIND SILENT_S END_S.

For SILENT_S seconds at a time one rank, or all, does what no collective shows; the job ends after END_S.
"""

import multiprocessing
import os
import pathlib
import random
import socket
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist

KIND, SILENT_S, END_S = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
RANK = int(os.environ["RANK"])
FOLDER = pathlib.Path(os.environ["HEALTHY_FOLDER"])
BEGAN = time.monotonic()
DATA = torch.ones(1000)
COMPUTES = f"import time\nend = time.monotonic() + {SILENT_S}\nwhile time.monotonic() < end: pass"


def silence():
    """Turns, for as long as it lasts."""
    end = time.monotonic() + SILENT_S
    while time.monotonic() < end:
        yield


def compute():
    for _ in silence():
        torch.ones(200, 200) @ torch.ones(200, 200)


def evaluates_on_rank_0():
    if RANK == 0:
        compute()


def compiles_first():
    if RANK == 0:
        subprocess.run([sys.executable, "-c", COMPUTES], check=True)


def saves_a_large_checkpoint():
    if RANK == 0:
        with open(FOLDER / "checkpoint", "wb") as file:
            for _ in silence():
                file.seek(0)
                file.write(b"x" * (4 << 20))
                file.flush()
                os.fsync(file.fileno())


def takes_long_steps():
    compute()


def read_slowly():
    with open("/dev/zero", "rb", buffering=0) as file:
        for _ in silence():
            file.read(64 << 10)
            time.sleep(0.1)


def waits_for_a_slow_disk():
    if RANK == 1:
        read_slowly()


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        read_slowly()
        return index


def loads_slowly():
    if RANK == 1:
        next(iter(torch.utils.data.DataLoader(Slow(), num_workers=1)))


def downloads_on_rank_0():
    if RANK == 0:
        client, server = socket.socketpair()

        def serve():
            for _ in silence():
                server.sendall(b"x" * 65536)
                time.sleep(0.1)
            server.close()
        threading.Thread(target=serve).start()
        while client.recv(65536):
            pass


def all_wait_for_input():
    fifo = FOLDER / f"input {RANK}"
    if not fifo.exists():
        os.mkfifo(fifo)
    subprocess.Popen(["sh", "-c", f"sleep {SILENT_S}; echo > '{fifo}'"])
    fifo.read_text()


def all_sleep():
    time.sleep(SILENT_S)


def sleeps_unevenly():
    """Others wait for rank 0 for a quarter of a second, after a silence of all that is much longer."""
    time.sleep(random.Random(turn).uniform(0.6, 0.75) * SILENT_S + (0.25 if RANK == 0 else 0))


def first_uses_a_group_later_on_one_rank():
    group = dist.new_group([0, 1])
    if RANK == 1:
        compute()
    if RANK < 2:
        dist.all_reduce(DATA, group=group)


def one_waits_while_the_other_prepares():
    store = dist.distributed_c10d._get_default_store()
    key = f"prepared at {turn}"
    if RANK == 0:
        compute()
        store.set(key, "1")
    store.wait([key])


def passes_messages():
    """Of which no rank records anything."""
    more = torch.ones(1)
    end = time.monotonic() + SILENT_S
    while more:
        if RANK == 0:
            time.sleep(0.4)
            more.fill_(float(time.monotonic() < end))
            for other in range(1, dist.get_world_size()):
                dist.send(more, other)
        else:
            dist.recv(more, 0)


def spin(_):
    for _ in silence():
        pass


def gives_work_to_a_pool():
    if RANK == 0:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            pool.map(spin, range(2))


def reads_from_a_slow_server():
    """Which says something every few seconds."""
    if RANK == 0:
        serve = ("import socket, sys, time\nserver = socket.create_server(('127.0.0.1', 0))\n"
                 "print(server.getsockname()[1], flush=True)\nclient, _ = server.accept()\n"
                 f"for _ in range(int({SILENT_S} // 2)):\n    time.sleep(2)\n    client.sendall(b'x')")
        with subprocess.Popen([sys.executable, "-c", serve], stdout=subprocess.PIPE, text=True) as server:
            with socket.create_connection(("127.0.0.1", int(server.stdout.readline()))) as client:
                while client.recv(1):
                    pass


dist.init_process_group("gloo")
act = globals().get(KIND, lambda: None)
turn = 0
while True:
    over = torch.tensor([float(time.monotonic() - BEGAN > END_S)])
    dist.all_reduce(over)
    if over:
        break
    for _ in range(20):
        dist.all_reduce(DATA)
    act()
    turn += 1
print("well", flush=True)
dist.destroy_process_group()
