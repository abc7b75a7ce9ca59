"""What tests/bench/rpc/rpc_bench.cc does, with torch.distributed.rpc."""

import collections
import os
import sys
import time

import torch
import torch.distributed.rpc as rpc


def nothing():
    return None


def take(_):
    return None


def make_calls(tensor, flight, calls):
    unfinished = collections.deque()
    for _ in range(calls):
        if len(unfinished) == flight:
            unfinished.popleft().wait()
        unfinished.append(rpc.rpc_async("server", take, args=(tensor,)) if tensor.numel() else rpc.rpc_async("server", nothing))
    for future in unfinished:
        future.wait()


def main():
    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    rpc.init_rpc("server" if rank == 1 else "client", rank=rank, world_size=2)
    if rank == 0:
        with open(sys.argv[1], encoding="ascii") as commands:
            for line in commands:
                size, flight, calls = map(int, line.split())
                tensor = torch.zeros(size, dtype=torch.uint8)
                make_calls(tensor, flight, flight)
                begin = time.perf_counter()
                make_calls(tensor, flight, calls)
                print(calls / (time.perf_counter() - begin), flush=True)
    rpc.shutdown()


if __name__ == "__main__":
    main()
