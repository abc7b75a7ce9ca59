"""A worker with a family, all of whom share memory: shm_worker.py fork|spawn [STRATEGY]. Prints its pid, then sleeps.

shm_worker.py lost|kept: its child sends a tensor that nobody takes, and is reaped. Prints the child's pid, then fails
or sleeps."""

import multiprocessing
import os
import sys
import time
from multiprocessing import shared_memory


def relative(queue, *_shared):
    queue.put("up")
    time.sleep(1000)


def send(queue):
    import torch

    queue.put(torch.ones(1000))


def let_a_tensor_be_lost():
    import torch.multiprocessing

    torch.multiprocessing.set_sharing_strategy("file_system")
    context = torch.multiprocessing.get_context("fork")
    child = context.Process(target=send, args=(context.Queue(),))
    child.start()
    child.join()
    print(child.pid, flush=True)


def main():
    if sys.argv[1] in ("lost", "kept"):
        let_a_tensor_be_lost()
        if sys.argv[1] == "lost":
            sys.exit(3)
        time.sleep(1000)
    shared = [shared_memory.SharedMemory(create=True, size=4096)]
    context = multiprocessing.get_context(sys.argv[1])
    if len(sys.argv) > 2:
        import torch
        import torch.multiprocessing

        torch.multiprocessing.set_sharing_strategy(sys.argv[2])
        context = torch.multiprocessing.get_context(sys.argv[1])
        shared += [torch.ones(1000).share_memory_(), torch.ones(10).share_memory_()]
    queue = context.Queue()
    child = context.Process(target=relative, args=(queue, *shared[1:]))
    child.start()
    queue.get()
    print(os.getpid(), flush=True)
    time.sleep(1000)


if __name__ == "__main__":
    main()
