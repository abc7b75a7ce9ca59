"""A worker with a family, all of whom share memory: shm_worker.py fork|spawn [STRATEGY]. Prints its pid, then sleeps."""

import multiprocessing
import os
import sys
import time
from multiprocessing import shared_memory


def relative(queue, *_shared):
    queue.put("up")
    time.sleep(1000)


def main():
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
