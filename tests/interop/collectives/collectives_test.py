"""collectives_test.py --worker PROGRAM: ddprun's groups and collectives end with the bytes that torch.distributed ends
with.

Python over gloo is the judge; PROGRAM does the same calls from the same seeds over gloo and over shm, on 1 to 4
ranks. Every rank writes what it got, call by call, and the files are compared. With `--device cuda` both use
DDPRUN_BACKEND (nccl, gloo, or cpu:gloo,cuda:nccl) with CUDA tensors, and leave out what it cannot; one rank alone makes
the calls that need no other. `--one-card` has all ranks share the first card."""

import argparse
import datetime
import os
import struct
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

import cards  # noqa: E402
from patience import patient  # noqa: E402

FLOATS = {"float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16}
INTEGERS = {"int8": torch.int8, "uint8": torch.uint8, "int32": torch.int32, "int64": torch.int64, "bool": torch.bool}
NUMBERS = {"sum": dist.ReduceOp.SUM, "product": dist.ReduceOp.PRODUCT, "min": dist.ReduceOp.MIN,
           "max": dist.ReduceOp.MAX}
BITS = {"and": dist.ReduceOp.BAND, "or": dist.ReduceOp.BOR, "xor": dist.ReduceOp.BXOR}


class Rank:
    """One rank of the judge. `collectives_rank.cc` is the same line by line."""

    def __init__(self, folder, device):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        backend = os.environ["DDPRUN_BACKEND"]
        self.device, self.is_nccl = device, backend.endswith("nccl")
        self.serves_host = device.type == "cpu" or "," in backend
        # With CUDA tensors gloo refuses to reduce several as one, and takes those of the other calls that this stands
        # for as memory of the host.
        self.is_gloo_on_a_card = not self.is_nccl and device.type == "cuda"
        self.file = (folder / f"python_{self.rank}.bin").open("wb")
        self.seed = 0

    def made(self, count, dtype):
        """Random elements: the same in both languages, others in every rank and call."""
        self.seed += 1
        torch.manual_seed(1000 * self.seed + self.rank)
        return (torch.randn(count) if dtype.is_floating_point else torch.randint(0, 100, (count,))).to(dtype).to(
            self.device)

    def special(self, count, dtype):
        """Random elements of those that min and max take sides on, or a reduction may lose: NaN, 0 and infinity with
        either sign."""
        table = torch.tensor([float("nan"), 0.0, 1.0, float("inf")]).to(dtype)
        self.seed += 1
        torch.manual_seed(1000 * self.seed + self.rank)
        return torch.cat([table, -table])[torch.randint(0, 8, (count,))].to(self.device)

    def empty(self, count, dtype=torch.float32):
        return torch.empty(count, dtype=dtype, device=self.device)

    def keep(self, name, *results):
        data = b"".join(r if isinstance(r, bytes) else self.bytes_of(r) for r in results)
        name = name.encode()
        self.file.write(struct.pack("=QQ", len(name), len(data)) + name + data)

    @staticmethod
    def bytes_of(tensor):
        data = tensor.contiguous().view(torch.uint8)
        # gloo adds the bytes of bool: a sum of True is the byte 2, where every other backend says True.
        return ((data != 0) if tensor.dtype == torch.bool else data).cpu().numpy().tobytes()

    def bits(self):
        return {} if self.is_nccl else BITS  # it has none of these

    def reductions(self):
        for name, dtype in {**FLOATS, **INTEGERS}.items():
            ops = {**NUMBERS, **({"average": dist.ReduceOp.AVG} if dtype.is_floating_point else self.bits())}
            for word, op in ops.items():
                for count in (1, 1000):
                    self.reduce_in_every_way(f"{word} of {count} {name}", count, dtype, op, self.made)

    def picks(self):
        for name, dtype in FLOATS.items():
            for word in ("min", "max"):
                for count in (1, 2, 100):
                    what = f"{word} of {count} special {name}"
                    self.reduce_in_every_way(what, count, dtype, NUMBERS[word], self.special)
                tensor = self.special(1_000_000, dtype)
                dist.all_reduce(tensor, NUMBERS[word])
                self.keep(f"all_reduce, {word} of 1,000,000 special {name}", tensor)

    def reduce_in_every_way(self, what, count, dtype, op, made):
        tensor = made(count, dtype)
        dist.all_reduce(tensor, op)
        self.keep("all_reduce, " + what, tensor)
        tensor = made(count, dtype)
        to_rank = min(1, self.size - 1)
        dist.reduce(tensor, to_rank, op)
        if self.rank == to_rank:
            self.keep("reduce, " + what, tensor)
        if not self.is_gloo_on_a_card:
            tensors = [made(n, dtype) for n in (count, 7, 300)]
            dist.all_reduce_coalesced(tensors, op)
            self.keep("all_reduce_coalesced, " + what, *tensors)
        output, whole = self.empty(count, dtype), made(count * self.size, dtype)
        dist.reduce_scatter_tensor(output, whole, op)
        self.keep("reduce_scatter_tensor, " + what, output)
        output = self.empty(count, dtype)
        dist.reduce_scatter(output, list(made(count * self.size, dtype).chunk(self.size)), op)
        self.keep("reduce_scatter, " + what, output)
        outputs = [self.empty(n, dtype) for n in (count, 5)]
        wholes = [made(n * self.size, dtype) for n in (count, 5)]
        with _coalescing_manager():
            for output, whole in zip(outputs, wholes):
                dist.reduce_scatter_tensor(output, whole, op)
        self.keep("reduce_scatter_tensor_coalesced, " + what, *outputs)

    def premultiplied(self):
        # gloo has no PREMUL_SUM: what a Python user writes in its place.
        for name, dtype in FLOATS.items():
            tensor = self.made(1000, dtype)
            if self.is_nccl:
                dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.1 + self.rank))
            else:
                tensor.mul_(0.1 + self.rank)
                dist.all_reduce(tensor)
            self.keep("all_reduce, premul_sum of " + name, tensor)
            output, whole = self.empty(100, dtype), self.made(100 * self.size, dtype)
            if self.is_nccl:
                dist.reduce_scatter_tensor(output, whole, dist._make_nccl_premul_sum(0.3))
            else:
                dist.reduce_scatter_tensor(output, whole * 0.3)
            self.keep("reduce_scatter_tensor, premul_sum of " + name, output)

    def complex_numbers(self):
        tensor = torch.complex(self.made(500, torch.float32), self.made(500, torch.float32))
        dist.all_reduce(tensor)
        self.keep("all_reduce, sum of complex", torch.view_as_real(tensor))

    def gathers(self):
        for name, dtype in {**FLOATS, **INTEGERS}.items():
            output = self.empty(10 * self.size, dtype)
            dist.all_gather_into_tensor(output, self.made(10, dtype))
            self.keep("all_gather_into_tensor of " + name, output)
            if self.is_gloo_on_a_card:
                continue
            outputs = [self.empty(n * self.size, dtype) for n in (3, 50)]
            with _coalescing_manager():
                for output, count in zip(outputs, (3, 50)):
                    dist.all_gather_into_tensor(output, self.made(count, dtype))
            self.keep("all_gather_into_tensor_coalesced of " + name, *outputs)

    def messages(self):
        right, left = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        into = [self.empty(20), self.empty(3)]
        ops = [dist.P2POp(dist.isend, self.made(20, torch.float32), right, tag=4),
               dist.P2POp(dist.irecv, into[0], left, tag=4),
               dist.P2POp(dist.isend, self.made(3, torch.float32), left, tag=5),
               dist.P2POp(dist.irecv, into[1], right, tag=5)]
        for request in dist.batch_isend_irecv(ops):
            request.wait()
        self.keep("batch_isend_irecv, a ring both ways", *into)

    def both_devices(self):
        """Of a group with a backend for each: on one and on the other, in flight together."""
        tensors = [self.made(700, torch.float32), self.made(700, torch.float32).cpu()]
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()
        gathered = torch.empty(5 * self.size)
        dist.all_gather_into_tensor(gathered, self.made(5, torch.float32).cpu())
        self.keep("all_reduce and all_gather on both devices", *tensors, gathered)

    def rows(self):
        for name, dtype in {**FLOATS, **INTEGERS}.items():
            output = self.empty(3 * self.size, dtype)
            dist.all_to_all_single(output, self.made(3 * self.size, dtype))
            self.keep(f"all_to_all_single of {name}", output)
            sent = [(self.rank + r) % 3 for r in range(self.size)]  # what r sends here is as much
            output = self.empty(sum(sent), dtype)
            dist.all_to_all_single(output, self.made(sum(sent), dtype), sent, sent)
            self.keep(f"all_to_all_single of {name}, with splits", output)

    def from_anybody(self):
        if self.rank != 0:
            dist.send(self.made(9, torch.float32), 0, tag=11)
            return
        received = {}
        for _ in range(self.size - 1):
            tensor = self.empty(9)
            received[dist.recv(tensor, tag=11)] = tensor  # in any order
        self.keep("recv without a source", *(received[rank] for rank in sorted(received)))

    def groups(self):
        ends = dist.new_group([self.size - 1, 0])
        halves = [dist.new_group(list(range(start, self.size, 2))) for start in (0, 1)]
        half = halves[self.rank % 2]
        everybody = dist.new_group()
        for round in range(3):
            for name, group in {"ends": ends, "half": half, "everybody": everybody}.items():
                tensor = self.made(500, torch.float32)
                if group == dist.GroupMember.NON_GROUP_MEMBER:
                    continue
                dist.all_reduce(tensor, group=group)
                where = struct.pack("=qq", dist.get_rank(group), dist.get_world_size(group))
                self.keep(f"new_group: all_reduce in {name}, round {round}", tensor, where,
                          struct.pack(f"={dist.get_world_size(group)}q", *dist.get_process_group_ranks(group)))
        tensors = [self.made(2000, torch.float32) for _ in range(2)]
        works = [dist.all_reduce(t, group=g, async_op=True) for t, g in zip(tensors, (half, everybody))]
        for work in works:
            work.wait()
        self.keep("new_group: two groups in flight", *tensors)

    def objects(self):
        mine = b"x" * (self.rank * 3) + b"\0end"
        gathered = [None] * self.size
        dist.all_gather_object(gathered, mine)
        self.keep("all_gather_object", *gathered)
        gathered = [None] * self.size if self.rank == 1 else None
        dist.gather_object(mine, gathered, dst=1)
        self.keep("gather_object", *(gathered or []))
        objects = [mine, b"", b"second"] if self.rank == 1 else [None] * 3
        dist.broadcast_object_list(objects, src=1)
        self.keep("broadcast_object_list", *objects)
        received = [None]
        dist.scatter_object_list(received, [b"s" * r for r in range(self.size)], src=0)
        self.keep("scatter_object_list", *received)
        if self.rank == 0:
            dist.send_object_list([b"", b"hello"], 1)
        if self.rank == 1:
            received = [None, None]
            dist.recv_object_list(received, 0)
            self.keep("recv_object_list", *received)

    def run(self):
        self.reductions()
        self.picks()
        self.premultiplied()
        self.complex_numbers()
        self.gathers()
        if self.serves_host:
            self.both_devices()
        if self.size > 1:
            if not self.is_gloo_on_a_card:
                self.messages()
                self.rows()
                if not self.is_nccl:
                    self.from_anybody()
            self.groups()
            self.objects()
        dist.barrier() if self.is_nccl else dist.monitored_barrier()
        self.file.close()


def run_ranks(command, world, backend, one_card):
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False,
                          timeout=datetime.timedelta(seconds=100))
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "WORLD_SIZE": str(world),
           "TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "DDPRUN_BACKEND": backend}
    ranks = [subprocess.Popen(command, env={**env, **cards.seat(r, world, one_card, backend)}) for r in range(world)]
    codes = [rank.wait(timeout=patient(250)) for rank in ranks]
    if any(codes):
        sys.exit(f"{command[0]}: ranks ended with {codes}")


def read(path):
    data, results, offset = path.read_bytes(), {}, 0
    while offset < len(data):
        name_size, size = struct.unpack_from("=QQ", data, offset)
        offset += 16
        name = data[offset:offset + name_size].decode()
        results[name] = data[offset + name_size:offset + name_size + size]
        offset += name_size + size
    return results


def compare(folder, world, backend):
    """Prints a row, and names the calls that differ."""
    calls, differ = 0, set()
    for rank in range(world):
        python, cpp = read(folder / f"python_{rank}.bin"), read(folder / f"cpp_{rank}.bin")
        calls += len(python)
        differ |= {f"{name} (rank {rank})" for name in python.keys() | cpp.keys() if python.get(name) != cpp.get(name)}
    print(f"| {backend:<4} | {world} ranks | {calls} results | {'equal' if not differ else 'DIFFERENT'} |", flush=True)
    for name in sorted(differ)[:20]:
        print("   ", name)
    return not differ


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", required=True)
    parser.add_argument("--worlds", default="1,2,3,4")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--one-card", action="store_true")
    arguments = parser.parse_args()
    on_cards = os.environ.get("DDPRUN_BACKEND", "nccl")
    judge, backends = ("gloo", ("gloo", "shm")) if arguments.device == "cpu" else (on_cards, (on_cards,))
    good = True
    for world in cards.worlds(arguments):
        with tempfile.TemporaryDirectory(prefix="ddprun-collectives-") as folder:
            run_ranks([sys.executable, __file__, "--rank", folder, arguments.device], world, judge, arguments.one_card)
            for backend in backends:
                run_ranks([arguments.worker, folder, arguments.device], world, backend, arguments.one_card)
                good = compare(Path(folder), world, backend) and good
    sys.exit(not good)


def be_a_rank(folder, device):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    device = torch.device(device)
    if device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
        torch.cuda.set_device(device)
    dist.init_process_group(os.environ["DDPRUN_BACKEND"], timeout=datetime.timedelta(seconds=100))
    Rank(Path(folder), device).run()
    dist.destroy_process_group()


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        be_a_rank(*sys.argv[2:])
    else:
        main()
