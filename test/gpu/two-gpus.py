#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Frameworks on two GPUs: sums and products that are split between both, against one device or the processor.

usage: two-gpus.py jax|tensor_parallel         prints the results; natively and through virtio-cuda they are the same
"""

import os
import socket
import sys


def with_jax():
    import jax
    import numpy as np
    from jax import numpy as jnp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    devices = jax.devices("gpu")[:2]
    assert len(devices) == 2, devices
    a, b = (np.random.default_rng(seed).standard_normal((1024, 1024), np.float32) for seed in (1, 2))
    halves = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i", devices=devices)(a.reshape(2, 512, 1024))
    assert np.array_equal(halves[0], a[:512] + a[512:]) and np.array_equal(halves[0], halves[1])
    mesh = Mesh(np.array(devices), ("i",))
    product = jax.jit(jax.shard_map(lambda x, y: jax.lax.psum(jnp.dot(x, y, precision="highest"), "i"), mesh=mesh,
                                    in_specs=(PartitionSpec(None, "i"), PartitionSpec("i", None)), out_specs=PartitionSpec()))
    got = np.asarray(product(jax.device_put(a, NamedSharding(mesh, PartitionSpec(None, "i"))), jax.device_put(b, NamedSharding(mesh, PartitionSpec("i", None)))))
    error = float(np.abs(got - a.astype(np.float64) @ b).max())
    assert error < 1e-3, error
    print(f"psum {float(np.asarray(halves[0]).astype(np.float64).sum()):.9f}, shard_map {float(got.astype(np.float64).sum()):.9f}, largest error {error:.3e}")


def rank_of_tensor_parallel(rank, port):
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=2, device_id=torch.device("cuda", rank))
    torch.manual_seed(1)
    whole = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()
    x = torch.randn(64, 256, device="cuda")
    expected = whole(x).detach()
    split = parallelize_module(whole, init_device_mesh("cuda", (2,)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    got = split(x)
    got.square().mean().backward()
    error = (got - expected).abs().max().item()
    assert error < 1e-4, error
    parts = [torch.zeros(3, device="cuda") for _ in range(2)]
    dist.all_gather(parts, torch.full((3,), float(rank), device="cuda"))
    assert [int(p[0]) for p in parts] == [0, 1]
    if not rank:
        print(f"tensor parallel: {got.double().sum().item():.9f}, gradient {whole[0].weight.grad.to_local().double().sum().item():.9f}, largest error {error:.3e}")
    dist.destroy_process_group()


def with_tensor_parallel():
    import torch.multiprocessing as mp

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(rank_of_tensor_parallel, (port,), 2)


if __name__ == "__main__":
    {"jax": with_jax, "tensor_parallel": with_tensor_parallel}[sys.argv[1]]()
