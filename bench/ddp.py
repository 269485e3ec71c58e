#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Distributed data-parallel training of plain PyTorch over NCCL: how long is a step, and which losses come of it?

usage: ddp.py [--ranks N] [--steps N] mlp|gpt      prints NAME VALUE UNIT: the median of the steps of rank 0, and the last loss

Each rank is a process with one GPU. mlp: eight layers of 2048 x 2048 in float32; gpt: gpt.py's smallest model in
bfloat16. Weights and data are random with fixed seeds, so that two runs have equal losses as far as the order of sums is
fixed, as it is for two ranks.
"""

import argparse
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import gpt

WARM = 5


def mlp(rank):
    model = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(2048, 2048), nn.ReLU())))
    generator = torch.Generator().manual_seed(100 + rank)
    x, y = (torch.randn(256, 2048, generator=generator).cuda() for _ in range(2))
    return model, lambda trained: functional.mse_loss(trained(x), y)


def language(rank):
    model = gpt.Model(**gpt.SMALL)
    generator = torch.Generator().manual_seed(100 + rank)
    text = torch.randint(0, model.words, (4, 257), generator=generator).cuda()

    def loss(trained):
        with torch.autocast("cuda", torch.bfloat16):
            scores, _ = trained(text[:, :-1])
            return functional.cross_entropy(scores.flatten(0, 1), text[:, 1:].flatten())

    return model, loss


KINDS = {"mlp": mlp, "gpt": language}


def work(rank, ranks, port, kind, steps):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=ranks, device_id=torch.device("cuda", rank))
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    model, loss_of = KINDS[kind](rank)
    trained = DistributedDataParallel(model.cuda(), device_ids=[rank])
    optimiser = torch.optim.AdamW(trained.parameters(), 3e-4)
    times = []
    for _ in range(WARM + steps):
        start = time.perf_counter()
        optimiser.zero_grad()
        loss = loss_of(trained)
        loss.backward()
        optimiser.step()
        last = loss.item()
        times.append((time.perf_counter() - start) * 1e3)
    total = torch.tensor([last], device="cuda", dtype=torch.float64)
    dist.all_reduce(total)
    if rank == 0:
        print(f"{kind}_step {statistics.median(times[WARM:]):.4g} ms")
        print(f"{kind}_loss {total.item() / ranks:.17g} loss", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("kind", choices=KINDS)
    options = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    mp.spawn(work, (options.ranks, port, options.kind, options.steps), nprocs=options.ranks)


if __name__ == "__main__":
    main()
