"""An ordinary DDP script, which knows nothing of ddprun: trains a line, and says what every rank ended with.

No collective of tensors that Python holds comes last: with torch 2.11 a thread of gloo's that lets one go while the interpreter
ends aborts the process, whoever has started it.
"""

import hashlib
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    inputs = torch.randn(16, 4)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
print(f"rank {rank} of {world} on {os.uname().nodename} ends with {hashlib.sha256(weights).hexdigest()[:16]}", flush=True)
dist.destroy_process_group()
