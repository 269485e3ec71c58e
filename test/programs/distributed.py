#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.distributed with NCCL on two devices: all-reduces, and two steps of DDP against one process on the processor.

usage: VCUDA_CPU_DEVICES=2 vcuda run --backend cpu -- distributed.py
Needs torch. Prints a line for each rank; ends with status 1 if a result is wrong.
"""

import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

DEVICES, STEPS = 2, 2


def batch(rank):
    return torch.randn(8, 16, generator=torch.Generator().manual_seed(rank))


def layer():
    torch.manual_seed(0)
    return nn.Linear(16, 4)


def reference():
    """The weights after the same steps, with the mean of the ranks' gradients."""
    model = layer()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (sum(model(batch(rank)).pow(2).mean() for rank in range(DEVICES)) / DEVICES).backward()
        optimizer.step()
    return model.weight.detach()


def reduces(rank, count):
    """Whether sum and maximum of both ranks are exact. NCCL takes another protocol for many numbers."""
    numbers = torch.arange(count, device="cuda", dtype=torch.float32)
    total, most = numbers * (rank + 1), numbers * (rank + 1)
    dist.all_reduce(total)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return torch.equal(total, numbers * 3) and torch.equal(most, numbers * 2)


def run(rank):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=DEVICES)
    is_exact = all(reduces(rank, count) for count in (1000, 1000000))
    model = nn.parallel.DistributedDataParallel(layer().cuda(), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(batch(rank).cuda()).pow(2).mean().backward()
        optimizer.step()
    difference = (model.module.weight.detach().cpu() - reference()).abs().max().item()
    print(f"rank {rank}: all-reduces {is_exact}, weights differ by {difference:.1e}", flush=True)
    dist.destroy_process_group()
    if not is_exact or difference > 1e-6:
        sys.exit(1)


if __name__ == "__main__":
    mp.spawn(run, nprocs=DEVICES)
