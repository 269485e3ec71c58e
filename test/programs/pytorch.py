#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stock PyTorch: results of its functions, and the time of a training step.

usage: pytorch.py [--steps N] [PART...]                            natively
       vcuda run --backend cuda -- pytorch.py [--steps N] [PART...]  through virtio-cuda

Prints the same lines both times, but for durations: compare them. Ends with status 1 if a part fails. The waits
of a training step are the difference of `vcuda run --stats` for two numbers of steps, divided by the difference of the
numbers.
"""

import argparse
import sys
import time

import torch
from torch import nn
from torch.nn import functional

FAILED = []


def part(name, compute):
    start = time.monotonic()
    try:
        result = compute()
        torch.cuda.synchronize()
        print(f"{name}: {result} ({time.monotonic() - start:.2f} s)", flush=True)
    except RuntimeError as error:
        FAILED.append(name)
        print(f"{name}: FAILED: {str(error)[:300]}", flush=True)


def matmul():
    a, b = torch.randn(512, 512), torch.randn(512, 512)
    return "differs from the CPU's by %.1e" % (a.cuda() @ b.cuda() - (a @ b).cuda()).abs().max().item()


def bfloat16():
    a = torch.randn(512, 512, device="cuda", dtype=torch.bfloat16)
    return (a @ a).float().sum().item()


def convolution():
    x, layer = torch.randn(8, 3, 32, 32), nn.Conv2d(3, 16, 3, padding=1)
    with torch.no_grad():
        y = layer(x)
        return "differs from the CPU's by %.1e" % (layer.cuda()(x.cuda()).cpu() - y).abs().max().item()


def autograd():
    x = torch.randn(64, 64, device="cuda", requires_grad=True)
    (x.sin() ** 2).sum().backward()
    return "differs from the formula by %.1e" % (x.grad - 2 * x.sin() * x.cos()).abs().max().item()


def libraries():
    """Sorting and selection (CUB), cuSOLVER, cuFFT."""
    x = torch.randn(100000, device="cuda")
    values, _ = x.sort()
    solved = torch.linalg.solve(torch.eye(8, device="cuda") * 2, torch.ones(8, 1, device="cuda"))
    return (bool((values[1:] >= values[:-1]).all()), torch.unique((x * 10).int()).numel(), x.topk(5).values[0].item(),
            solved.sum().item(), torch.fft.rfft(x).abs().sum().item())


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, mask):
        y = self.before(x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        return x + self.mix(self.between(x))


class Transformer(nn.Module):
    def __init__(self, words=1000, width=256, depth=4, heads=8, length=128):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.place = nn.Parameter(torch.zeros(length, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.out = nn.Linear(width, words)
        self.register_buffer("mask", torch.triu(torch.full((length, length), float("-inf")), 1))

    def forward(self, x):
        y = self.embed(x) + self.place
        for block in self.blocks:
            y = block(y, self.mask)
        return self.out(y)


def training(steps):
    torch.manual_seed(1)
    net = Transformer().cuda()
    optimiser = torch.optim.AdamW(net.parameters(), 3e-4)
    data = torch.randint(0, 1000, (64, 129)).pin_memory()
    losses, start = [], 0
    for step in range(steps):
        if step == 10:
            torch.cuda.synchronize()
            start = time.monotonic()
        batch = data[step * 8 % 64:step * 8 % 64 + 8].to("cuda", non_blocking=True)
        loss = functional.cross_entropy(net(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    torch.cuda.synchronize()
    print(f"  a step: {(time.monotonic() - start) / (steps - 10) * 1000:.2f} ms")
    return "losses " + " ".join(f"{x.item():.6f}" for x in losses[::7])


def graph():
    net, x = nn.Linear(64, 64).cuda(), torch.randn(16, 64, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            net(x)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = net(x).relu()
    x.copy_(torch.ones_like(x))
    captured.replay()
    torch.cuda.synchronize()
    return "differs from plain launches by %.1e" % (y - net(torch.ones_like(x)).relu()).abs().max().item()


def loader():
    data = torch.utils.data.TensorDataset(torch.arange(1000).float())
    batches = torch.utils.data.DataLoader(data, batch_size=100, pin_memory=True, num_workers=2)
    return sum(x.cuda(non_blocking=True).sum().item() for (x,) in batches)


def launches():
    x = torch.randn(64, 64, device="cuda")
    for timed in range(2):
        start = time.monotonic()
        for _ in range(5000 if timed else 200):
            x = x * 1.0001 + 0.1
        torch.cuda.synchronize()
    return f"{(time.monotonic() - start) / 10000 * 1e6:.2f} us a kernel"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=50, help="of the training, more than 10")
    parser.add_argument("parts", nargs="*", metavar="PART", help="only these")
    options = parser.parse_args()
    torch.manual_seed(0)
    print("PyTorch", torch.__version__, "for CUDA", torch.version.cuda)
    part("device", lambda: torch.cuda.get_device_name(0))
    for compute in (matmul, bfloat16, convolution, autograd, libraries, training, graph, loader, launches):
        if not options.parts or compute.__name__ in options.parts:
            part(compute.__name__, (lambda: training(options.steps)) if compute is training else compute)
    return 1 if FAILED else 0


sys.exit(main())
