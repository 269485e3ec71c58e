#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kernels of Triton, compared with what PyTorch computes on the processor.

usage: triton-kernels.py                                     natively
       vcuda run --backend cpu -- triton-kernels.py          on the software GPU, with the settings that doc/reference/coverage.md names

PyTorch only holds memory and copies it: its wheels have no kernels that the software GPU could run. Ends with status 1 if a
kernel is wrong.
"""

import sys

import torch
import triton
import triton.language as tl

FAILED = []


def check(name, got, expected, tolerance=0.0):
    off = (got.cpu().double() - expected.double()).abs().max().item()
    print(f"{name}: {'right' if off <= tolerance else f'WRONG, by {off}'}", flush=True)
    if not off <= tolerance:
        FAILED.append(name)


def on_device(*tensors):
    return [t.cuda() for t in tensors]


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), dtype=c.dtype.element_ty)
    for k in range(0, K, BK):
        rows = k + tl.arange(0, BK)
        sums += tl.dot(tl.load(a + m[:, None] * K + rows[None, :]), tl.load(b + rows[:, None] * N + n[None, :]), out_dtype=c.dtype.element_ty)
    tl.store(c + m[:, None] * N + n[None, :], sums)


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + i, v / tl.sum(v, 0), mask=i < n)


@triton.jit
def attention(q, k, v, out, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    m, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + m[:, None] * D + d[None, :])
    highest = tl.full((BM,), -float("inf"), tl.float32)
    total, sums = tl.zeros((BM,), tl.float32), tl.zeros((BM, D), tl.float32)
    for start in range(0, N, BN):
        n = start + tl.arange(0, BN)
        scores = tl.dot(query, tl.trans(tl.load(k + n[:, None] * D + d[None, :])))
        higher = tl.maximum(highest, tl.max(scores, 1))
        weights, scale = tl.exp(scores - higher[:, None]), tl.exp(highest - higher)
        total = total * scale + tl.sum(weights, 1)
        sums = sums * scale[:, None] + tl.dot(weights.to(tl.float16), tl.load(v + n[:, None] * D + d[None, :]))
        highest = higher
    tl.store(out + m[:, None] * D + d[None, :], sums / total[:, None])


@triton.jit
def histogram(x, counts, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


@triton.jit
def running_sum(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.cumsum(tl.load(x + i, mask=i < n, other=0.0), 0), mask=i < n)


@triton.jit
def sort(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.sort(tl.load(x + i)))


def elementwise():
    x, y, out = torch.rand(1000), torch.rand(1000), torch.empty(1000, device="cuda")
    add[(4,)](*on_device(x, y), out, 1000, BLOCK=256)
    check("add", out, x + y)
    x, out = torch.randn(16, 300), torch.empty(16, 300, device="cuda")
    softmax[(16,)](x.cuda(), out, 300, BLOCK=512)
    check("softmax", out, torch.softmax(x, 1), 1e-6)


def products():
    for kind, tolerance in ((torch.float16, 1e-3), (torch.bfloat16, 1e-3), (torch.float32, 0.1)):  # floats as tf32
        a, b, c = torch.randn(128, 64).to(kind), torch.randn(64, 128).to(kind), torch.empty(128, 128, device="cuda")
        product[(2, 2)](*on_device(a, b), c, 128, 128, 64, BM=64, BN=64, BK=32)
        check(f"product of {kind}", c, a.double() @ b.double(), tolerance)
    a, b = (torch.randint(-128, 127, (64, 64), dtype=torch.int8) for _ in range(2))
    c = torch.empty(64, 64, dtype=torch.int32, device="cuda")
    product[(1, 1)](*on_device(a, b), c, 64, 64, 64, BM=64, BN=64, BK=64)
    check("product of int8", c, a.int() @ b.int())
    q, k, v = (torch.randn(128, 64).half() for _ in range(3))
    out = torch.empty(128, 64, device="cuda")
    attention[(2,)](*on_device(q, k, v), out, 128, D=64, BM=64, BN=32)
    check("attention", out, torch.softmax(q.double() @ k.double().T, 1) @ v.double(), 5e-3)


def collective():
    x, counts = torch.randint(0, 16, (5000,), dtype=torch.int32), torch.zeros(16, dtype=torch.int32).cuda()
    histogram[(20,)](x.cuda(), counts, 5000, BLOCK=256)
    check("histogram", counts, torch.bincount(x, minlength=16))
    x, out = torch.randn(1000), torch.empty(1000, device="cuda")
    running_sum[(1,)](x.cuda(), out, 1000, BLOCK=1024)
    check("running sum", out, x.double().cumsum(0), 1e-4)
    x, out = torch.randn(512), torch.empty(512, device="cuda")
    sort[(1,)](x.cuda(), out, BLOCK=512)
    check("sort", out, x.sort().values)


torch.manual_seed(1)
print(f"Triton {triton.__version__}, PyTorch {torch.__version__}", flush=True)
elementwise()
products()
collective()
sys.exit(1 if FAILED else 0)
