"""A torch.distributed job of which one rank hangs: hangs.py HANG CULPRIT.

The culprit writes a line with its pid into the FIFO WHY_READY when nothing but the hang is left to do. WHY_FOLDER is a
folder for whatever it needs. WHY_BACKEND is what init_process_group gets: gloo on the CPU by default, nccl or
cpu:gloo,cuda:nccl on the first card, which all ranks share.
"""

import ctypes
import fcntl
import mmap
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading
import time

import torch
import torch.distributed as dist

HANG, CULPRIT = sys.argv[1], int(sys.argv[2])
FOLDER = pathlib.Path(os.environ["WHY_FOLDER"])
RANK = int(os.environ["RANK"])
BACKEND = os.environ.get("WHY_BACKEND", "gloo")
ON_CARD = "nccl" in BACKEND
DEVICE = torch.device("cuda:0" if ON_CARD else "cpu")
DATA = torch.ones(1000, device=DEVICE)
GUILTY = RANK == CULPRIT


def ready():
    with open(os.environ["WHY_READY"], "w") as file:
        print(os.getpid(), file=file, flush=True)


def fifo():
    path = str(FOLDER / "fifo")
    os.mkfifo(path)
    return path


def silent_fifo():
    """One that has a writer, which says nothing."""
    path = fifo()
    os.open(path, os.O_RDWR)
    return path


class Slow(torch.utils.data.Dataset):
    def __init__(self, path):
        self.path = path

    def __len__(self):
        return 100

    def __getitem__(self, index):
        if index == 5:
            with open(self.path) as data:
                return len(data.read())
        return index


def steps(count=5):
    for _ in range(count):
        dist.all_reduce(DATA)
        finish()


def finish():
    """As a program that prints its loss does: over NCCL a call returns when it is queued."""
    if ON_CARD:
        torch.cuda.synchronize()


def computes_on_the_card():
    """A kernel that takes minutes is queued before the collective."""
    torch.cuda._sleep(600 * 10**9)
    ready()


def different_collectives():
    ready()
    dist.barrier()


def skips_one():
    ready()
    dist.barrier()  # the end of the program, which the others reach one all_reduce later


def opens_a_fifo():
    path = fifo()
    ready()
    open(path)


def reads_a_fifo():
    file = os.open(silent_fifo(), os.O_RDONLY)
    ready()
    os.read(file, 100)


def reads_a_fifo_after_gloo():
    reads_a_fifo()


def stopped():
    ready()
    time.sleep(1000)


debugged = frozen = stopped


def in_the_kernel():
    path = fifo()
    ready()
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, path, os.O_RDONLY, 0)])


def file_server_silent():
    ready()
    (FOLDER / "mount/data").read_text()


def file_server_works():
    file_server_silent()


def loops_in_python():
    ready()
    while True:
        pass


def loops_in_c():
    ready()
    re.match("(a+)+$", "a" * 60 + "b")


def two_locks():
    first, second = threading.Lock(), threading.Lock()
    first.acquire()

    def other():
        with second:
            taken.set()
            with first:
                pass

    taken = threading.Event()
    threading.Thread(target=other, daemon=True).start()
    taken.wait()
    ready()
    with second:
        pass


def holds_the_gil():
    ready()
    ctypes.PyDLL(None).sleep(1000)


def loader_stuck():
    loader = torch.utils.data.DataLoader(Slow(silent_fifo()), batch_size=1, num_workers=1)
    ready()
    for _ in loader:
        pass


def asks_for_input():
    ends = os.pipe()
    os.dup2(ends[0], 0)
    ready()
    input()


def fills_a_pipe():
    child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.PIPE)
    ready()
    child.stdin.write(b"x" * 1_000_000)


def retries_a_full_disk():
    ready()
    while True:
        try:
            with open("/dev/full", "w") as file:
                file.write("x")
            return
        except OSError:
            time.sleep(0.2)


def quota():
    ready()
    while True:
        pass


def swaps():
    """Pages of a file that its control group has no room for, again and again."""
    path = FOLDER / "large"
    with open(path, "wb") as file:
        for _ in range(128):
            file.write(bytes(1 << 20))
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        pages.madvise(mmap.MADV_RANDOM)
        ready()
        place = 0
        while True:
            place = (place + 40503 * mmap.PAGESIZE) % len(pages)
            pages[place]


def thread_died():
    items = queue.Queue()

    def fill():
        try:
            items.put(1 // 0)
        except ZeroDivisionError:
            pass

    threading.Thread(target=fill).start()
    ready()
    items.get()


def waits_for_a_key():
    ready()
    dist.distributed_c10d._get_default_store().get("a key that nobody sets")


def receives_from_nobody():
    ready()
    dist.recv(torch.ones(1, device=DEVICE), src=0)
    finish()


def runs_a_program():
    ready()
    subprocess.run(["sleep", "1000"], check=False)


def waits_for_a_file_lock():
    path = FOLDER / "lock"
    with open(path, "w") as mine, open(path) as again:
        fcntl.flock(mine, fcntl.LOCK_EX)
        ready()
        fcntl.flock(again, fcntl.LOCK_EX)


def saves_to_a_stuck_disk():
    path = fifo()
    os.open(path, os.O_RDWR)
    ready()
    with open(path, "wb") as file:
        file.write(b"x" * 1_000_000)


def uneven_inputs():
    """It has a batch less: DistributedDataParallel without join."""
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(10, 10).to(DEVICE))
    for step in range(3 if GUILTY else 4):
        if GUILTY and step == 2:
            ready()
        model(torch.ones(4, 10, device=DEVICE)).sum().backward()
        finish()
    dist.barrier()


def unused_parameters():
    """One rank's loss leaves out a layer, whose gradients the others wait for; it is at the end of the program."""
    layers = torch.nn.ModuleList([torch.nn.Linear(10, 10), torch.nn.Linear(10, 10)])

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers

        def forward(self, x):
            y = self.layers[0](x)
            return y if GUILTY else self.layers[1](y)

    model = torch.nn.parallel.DistributedDataParallel(Net().to(DEVICE), bucket_cap_mb=0.0001)
    if GUILTY:
        ready()
    model(torch.ones(4, 10, device=DEVICE)).sum().backward()
    finish()
    dist.barrier()


def other_group():
    ready()
    dist.barrier(GROUP)


def first_use_of_a_group():
    ready()
    time.sleep(1000)


def group_used_by_one():
    """Its other member sleeps, and so do the ranks that are not in it."""
    ready()
    time.sleep(1000)


def group_used_by_one_is_awaited():
    reads_a_fifo()


def group_used_by_one_computes():
    loops_in_python()


def slow():
    told = False
    while True:
        if GUILTY:
            time.sleep(0.3)
        steps(1)
        if GUILTY and not told:
            ready()
            told = True


def slow_by_seconds():
    told = 0
    while True:
        if GUILTY:
            time.sleep(2)
        steps(1)
        told += 1
        if GUILTY and told == 4:
            ready()


def fine():
    told = False
    while True:
        x = torch.ones(300, 300, device=DEVICE)
        for _ in range(5):
            x = x @ x / 300
        steps(1)
        if GUILTY and not told:
            ready()
            told = True


def rendezvous_incomplete():
    ready()
    time.sleep(1000)


def peer_exited():
    ready()
    os._exit(0)


if HANG == "rendezvous_incomplete" and GUILTY:
    rendezvous_incomplete()
if ON_CARD:
    # NCCL refuses a card for two ranks of one host: each is a host of its own, and they meet over sockets.
    os.environ.update(NCCL_HOSTID=f"host-{RANK}", NCCL_SOCKET_IFNAME="lo")
    torch.cuda.set_device(DEVICE)
dist.init_process_group(BACKEND)
ONE_USES = HANG.startswith("group_used_by_one")
GROUP = dist.new_group([0, 1]) if ONE_USES or HANG in ("other_group", "first_use_of_a_group") else None
if HANG in ("slow", "slow_by_seconds", "fine", "uneven_inputs", "unused_parameters"):
    globals()[HANG]()
steps()
if HANG == "reads_a_fifo_after_gloo":
    dist.broadcast_object_list([RANK], src=0)  # of a group with both backends, over gloo
if (ONE_USES or HANG == "first_use_of_a_group") and RANK == 0:
    dist.all_reduce(DATA, group=GROUP)
    finish()
if ONE_USES and not GUILTY:
    time.sleep(1000)
if HANG == "peer_exited" and not GUILTY:
    dist.distributed_c10d._get_default_store().get("what rank 1 would have set")
elif GUILTY:
    globals()[HANG]()
steps(1)
dist.barrier()
time.sleep(1000)
