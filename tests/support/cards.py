"""The GPUs that a test may use. Needs the Python torch."""

import os
import sys

import torch

SKIPPED = 77


def count():
    return torch.cuda.device_count()


def require(needed, why=""):
    """Ends the test as skipped where there are fewer than `needed` cards."""
    found = count()
    if found < needed:
        what = "a GPU" if needed == 1 else f"{needed} GPUs"
        print(f"SKIPPED: needs {what}{why}, and torch {torch.__version__} sees {found or 'none'}", file=sys.stderr)
        sys.exit(SKIPPED)


def show_only_the_first():
    """To this process and those that it starts from now on. Before anything asks how many there are."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0")
    os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[0]


def worlds(arguments):
    """The numbers of ranks in `arguments.worlds` ("1,2", or "cards": one rank for each, at most 4). Looks for the cards that
    `arguments.device` and `arguments.one_card` ask for, and has the ranks compute alike from run to run."""
    if arguments.one_card:
        show_only_the_first()
    if arguments.device == "cpu":
        return [int(world) for world in arguments.worlds.split(",")]
    os.environ.update(CUBLAS_WORKSPACE_CONFIG=":4096:8", NVIDIA_TF32_OVERRIDE="0")
    if arguments.worlds == "cards":
        require(2, " for ranks with one each")
        return [min(count(), 4)]
    require(1)
    return [int(world) for world in arguments.worlds.split(",")]


def seat(rank, world, one_card, backend):
    """Environment of a rank. NCCL refuses a card for two ranks of one host: where all share the first card over NCCL, each
    is on a host of its own, as far as it and NCCL know, and they meet over sockets of this one."""
    if one_card and "nccl" in backend and world > 1:
        return {"RANK": str(rank), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "NCCL_HOSTID": f"host-{rank}",
                "NCCL_SOCKET_IFNAME": "lo"}
    return {"RANK": str(rank), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(world)}
