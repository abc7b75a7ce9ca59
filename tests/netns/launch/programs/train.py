"""An ordinary DDP script, which knows nothing of ddprun: trains a line, and says what every rank ended with."""

import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    inputs = torch.randn(16, 4)
    loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
sums = [torch.zeros_like(weights) for _ in range(dist.get_world_size())]
dist.all_gather(sums, weights)
assert all(torch.equal(weights, other) for other in sums), "replicas differ"
host = os.uname().nodename
print(f"rank {rank} of {dist.get_world_size()} on {host} is trained, loss {loss.item():.3f}", flush=True)
dist.destroy_process_group()
