"""A training loop of torch.distributed (gloo, CPU) in which one rank comes to grief.

faults.py FAULT CULPRIT SYMPTOM [AFTER]: rank CULPRIT does what FAULT says after AFTER steps; what the others do meanwhile,
and so what they die of, is SYMPTOM's choice.
"""

import atexit
import contextlib
import ctypes
import datetime
import faulthandler
import logging
import os
import queue
import signal
import socket
import struct
import sys
import threading
import time

import torch
import torch.distributed as dist

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
FAULTS, SYMPTOMS, MAINS = {}, {}, {}
# Well above what a busy machine needs for a step, and far below a test's patience.
GLOO_TIMEOUT = float(os.environ.get("BLAME_GLOO_TIMEOUT", "60"))
NAP = float(os.environ.get("BLAME_NAP", "1"))


def fault(function):
    FAULTS[function.__name__] = function
    return function


def symptom(function):
    SYMPTOMS[function.__name__] = function
    return function


# ---- what the others are doing when it happens


@symptom
def all_reduce(step):
    dist.all_reduce(torch.ones(1024) * step)


@symptom
def barrier(_):
    dist.barrier()


@symptom
def broadcast(step):
    dist.broadcast(torch.ones(1024) * step, src=step % WORLD)


@symptom
def gather_objects(step):
    dist.all_gather_object([None] * WORLD, {"rank": RANK, "step": step})


@symptom
def ring(step):
    passed = dist.isend(torch.ones(16) * step, (RANK + 1) % WORLD)
    dist.recv(torch.empty(16), (RANK - 1) % WORLD)
    passed.wait()


@symptom
def big_all_reduce(step):
    dist.all_reduce(torch.ones(4 << 20) * step)


def ddp_step():
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(number):
        optimizer.zero_grad()
        model(torch.ones(8, 64) * number).square().mean().backward()
        optimizer.step()

    return step


# ---- what goes wrong


def compute_loss(step):
    raise ValueError(f"loss is nan at step {step}")


@fault
def raises(step):
    compute_loss(step)


@fault
def raises_without_message(_):
    raise NotImplementedError


@fault
def raises_many_lines(_):
    raise RuntimeError("shapes do not match:\n  weight (3, 4)\n  input (5, 6)\n\ncheck the config")


@fault
def raises_chained(step):
    try:
        compute_loss(step)
    except ValueError as error:
        raise RuntimeError("training failed") from error


@fault
def raises_while_handling(step):
    try:
        compute_loss(step)
    except ValueError:
        {}["checkpoint"]


@fault
def raises_group(step):
    raise ExceptionGroup("two batches failed", [ValueError(f"bad batch {step}"), KeyError("label")])


@fault
def syntax_error(_):
    eval("loss = = 3")


@fault
def torch_shapes(_):
    torch.nn.Linear(4, 4)(torch.ones(2, 5))


@fault
def torch_index(_):
    torch.nn.Embedding(10, 4)(torch.tensor([11]))


@fault
def asserts(step):
    assert step < 0, "the ranks' seeds differ"


@fault
def in_the_middle(step):
    work = dist.all_reduce(torch.ones(1 << 20), async_op=True)
    compute_loss(step)
    work.wait()


@fault
def out_of_memory(_):
    torch.empty(1 << 60)


@fault
def sys_exit(_):
    sys.exit(3)


@fault
def sys_exit_words(_):
    sys.exit("no such data set: imagenet")


@fault
def os_exit(_):
    os._exit(7)


@fault
def kills_itself(_):
    os.kill(os.getpid(), signal.SIGKILL)


@fault
def segfault(_):
    ctypes.string_at(8)


@fault
def segfault_with_faulthandler(_):
    faulthandler.enable()
    ctypes.string_at(8)


@fault
def abort(_):
    os.abort()


@fault
def terminated(_):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)


@fault
def interrupted(_):
    raise KeyboardInterrupt


@fault
def leaves_early(_):
    sys.exit(0)


@fault
def stands_still(_):
    os.kill(os.getpid(), signal.SIGSTOP)


@fault
def leaves_early_and_cleans_up(_):
    dist.destroy_process_group()
    time.sleep(NAP)
    sys.exit(0)


@fault
def cleans_up(step):
    try:
        compute_loss(step)
    finally:
        dist.destroy_process_group()
        time.sleep(NAP)


@fault
def cleans_up_at_exit(step):
    atexit.register(time.sleep, NAP)
    compute_loss(step)


@fault
def logs_and_exits(step):
    try:
        compute_loss(step)
    except ValueError:
        logging.exception("step %d failed", step)
        dist.destroy_process_group()
        time.sleep(NAP)
        sys.exit(5)


@fault
def noise_at_exit(step):
    def talk():
        for line in range(400):
            print(f"wandb: run summary line {line}: nothing of interest here", file=sys.stderr)

    atexit.register(talk)
    atexit.register(time.sleep, NAP)
    compute_loss(step)


@fault
def loader_worker_killed(_):
    class Deadly(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            os.kill(os.getpid(), signal.SIGKILL)

    list(torch.utils.data.DataLoader(Deadly(), num_workers=1))


@fault
def loader_worker_raises(_):
    class Broken(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            raise OSError(f"image {index} is truncated")

    list(torch.utils.data.DataLoader(Broken(), num_workers=1))


@fault
def thread_raises(step):
    results = queue.Queue()

    def prefetch():
        compute_loss(step)

    threading.Thread(target=prefetch, daemon=True).start()
    results.get(timeout=NAP)


@fault
def thread_raises_and_hangs(step):
    def prefetch():
        compute_loss(step)

    thread = threading.Thread(target=prefetch)
    thread.start()
    thread.join()
    time.sleep(600)


@fault
def waits_for_a_key(_):
    dist.PrefixStore("x", dist.distributed_c10d._get_default_store()).wait(["never"], datetime.timedelta(seconds=NAP))


@fault
def loses_its_data_server(_):
    """Whoever it was that hung up, none of the ranks did."""
    linger = struct.pack("ii", 1, 0)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        theirs, _ = server.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)  # close() resets
        theirs.close()
        ours.recv(1)


@fault
def logs_a_lost_data_server(_):
    """Where the host's name cannot be looked up, the warning of torch stands before whatever fails later."""
    print("[W1122 06:29:46.948235015 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
          file=sys.stderr)
    logging.error("data server: [Errno 104] Connection reset by peer")
    sys.exit(3)


@fault
def asks_for_another_time(_):
    logging.error("quota service says: try again later")
    sys.exit(75)


# ---- and around it


def train(act, culprit, step_of, after):
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=GLOO_TIMEOUT))
    step = ddp_step() if step_of == "ddp" else SYMPTOMS[step_of]
    for number in range(1, 100000):
        if RANK == culprit and number == after:
            act(number)
        step(number)


def plain(*arguments):
    train(*arguments)


def meet_next_of(culprit, leave=lambda: None):
    """For ranks that share no collective: the culprit goes on when the rank after it is there, or has left."""
    path = os.path.join(os.environ["TMPDIR"], "meeting")
    with contextlib.suppress(FileExistsError):
        os.mkfifo(path)
    if RANK == (culprit + 1) % WORLD:
        with open(path, "w"):
            leave()
    if RANK == culprit:
        with open(path) as other:
            other.read()


def one_has_left(act, culprit, *_):
    """One has succeeded when the culprit fails, any other goes on."""
    meet_next_of(culprit, lambda: os._exit(0))
    if RANK == culprit:
        act(0)
    time.sleep(600)


def peers_fail_to_save(act, culprit, *_):
    """The others save at SIGTERM, to where nothing can be written."""
    signal.signal(signal.SIGTERM, lambda *_: torch.save({}, "/nonexistent/checkpoint.pt"))
    meet_next_of(culprit)
    if RANK == culprit:
        act(0)
    time.sleep(600)


def peers_abort(act, culprit, *_):
    """The others end at SIGTERM as C++ programs do whose threads are still there: std::terminate."""
    signal.signal(signal.SIGTERM, lambda *_: os.abort())
    meet_next_of(culprit)
    if RANK == culprit:
        act(0)
    time.sleep(600)


def recorded(*arguments):
    from torch.distributed.elastic.multiprocessing.errors import record

    record(train)(*arguments)


def recorded_inside(*arguments):
    """The error file is written, then everything is cleaned up."""
    from torch.distributed.elastic.multiprocessing.errors import record

    try:
        record(train)(*arguments)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
        if RANK == arguments[1]:
            time.sleep(NAP)


def with_rich(*arguments):
    import rich.traceback

    rich.traceback.install()
    train(*arguments)


def with_loguru(*arguments):
    from loguru import logger

    logger.catch(reraise=True)(train)(*arguments)


def peers_exit_quietly(*arguments):
    """The others turn their symptom into one line and a code."""
    try:
        train(*arguments)
    except (RuntimeError, dist.DistBackendError) as error:
        if RANK == arguments[1]:
            raise
        logging.error("rank %d gives up: %s", RANK, error)
        sys.exit(1)


def peers_wrap(*arguments):
    """The others raise an exception of their own from the symptom."""
    try:
        train(*arguments)
    except RuntimeError as error:
        if RANK == arguments[1]:
            raise
        raise SystemError("the training step failed") from error


def with_accelerate(act, culprit, step_of, after):
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    for number in range(1, 100000):
        if RANK == culprit and number == after:
            act(number)
        accelerator.reduce(torch.ones(64))


def with_lightning(act, culprit, step_of, after):
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def training_step(self, batch, index):
            if RANK == culprit and index + 1 == after:
                act(index)
            return self.layer(batch).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    lightning.Trainer(accelerator="cpu", devices=int(os.environ["LOCAL_WORLD_SIZE"]), strategy="ddp", max_steps=1000,
                      logger=False, enable_checkpointing=False, enable_progress_bar=True).fit(
        Module(), torch.utils.data.DataLoader(torch.ones(4096, 8), batch_size=4, num_workers=0))


if __name__ == "__main__":
    FAULT, CULPRIT, SYMPTOM = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    AROUND = sys.argv[4] if len(sys.argv) > 4 else "plain"
    globals()[AROUND](FAULTS[FAULT], CULPRIT, SYMPTOM, 5)
