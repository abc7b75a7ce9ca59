"""A program that reads what Open MPI's mpirun gives it."""

import os

import torch.distributed as dist

os.environ["RANK"] = os.environ["OMPI_COMM_WORLD_RANK"]
os.environ["WORLD_SIZE"] = os.environ["OMPI_COMM_WORLD_SIZE"]
os.environ["LOCAL_RANK"] = os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]
dist.init_process_group("gloo")
print(f"rank {dist.get_rank()} of {dist.get_world_size()}, local rank {os.environ['LOCAL_RANK']}", flush=True)
dist.destroy_process_group()
