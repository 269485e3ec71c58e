#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training in PyTorch whose losses are the same in each run: for programs that are paused, or lose their memory meanwhile.

usage: trainer.py [--ballast MIB] [--grow MIB] [--steps N]

Prints "ready", and for each step its number, its loss, its end by CLOCK_MONOTONIC and its duration in s. Ends after N steps, or with SIGTERM.
Each step copies its batch from pageable memory, trains, replays a CUDA graph of the forward pass, and each tenth one runs a kernel of PyTorch's that is new.
--ballast: memory of a known pattern, of which each step verifies a part.  --grow: each step allocates and frees so much.
Exit status 1: the ballast, or the graph's result, is wrong.
"""

import argparse
import os
import signal
import sys
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
import torch  # noqa: E402
from torch import nn  # noqa: E402

CHUNK = 64 << 20
WORDS = CHUNK // 4

# The first call of each function loads its module.
NEW = [torch.sinh, torch.erfinv, torch.lgamma, torch.digamma, torch.logit, torch.i0, torch.atanh, torch.frac, torch.expm1, torch.cosh, torch.trunc,
       torch.special.ndtri, torch.special.entr, torch.special.i1, torch.special.erfcx, torch.asinh, torch.log1p, torch.rsqrt, torch.tan, torch.acos]


def ballast(mib):
    base = torch.arange(WORDS, dtype=torch.int32, device="cuda")
    return [base * 3 + i for i in range(mib * (1 << 20) // CHUNK)]


def main():
    parser = argparse.ArgumentParser()
    for option, default in ("ballast", 0), ("grow", 0), ("steps", 1 << 30):
        parser.add_argument("--" + option, type=int, default=default)
    options = parser.parse_args()
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    kept = ballast(options.ballast)
    layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(256, 256)).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), 1e-3)
    batches = torch.Generator().manual_seed(2)
    still = torch.randn(8, 64, 256, device="cuda")
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            model(still)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            replayed = model(still)
    torch.cuda.synchronize()
    print("ready", flush=True)
    for step in range(options.steps):
        begin = time.monotonic()
        x = torch.randn(32, 64, 256, generator=batches)
        y = x.roll(1, 1)
        loss = (model(x.cuda()) - y.cuda()).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        graph.replay()
        with torch.no_grad():
            if not torch.equal(replayed, model(still)):
                sys.exit(f"step {step}: the graph's result is wrong")
        if step % 10 == 9 and step // 10 < len(NEW):
            loss = loss + 0 * NEW[step // 10](still * 0.1 + 0.5).float().nan_to_num(0, 0, 0).mean()
        if kept:
            i = step % len(kept)
            if not torch.equal(kept[i], torch.arange(WORDS, dtype=torch.int32, device="cuda") * 3 + i):
                sys.exit(f"step {step}: part {i} of the ballast is wrong")
        if options.grow:
            more = torch.full((options.grow << 18,), step, dtype=torch.int32, device="cuda")
            if more[::4096].ne(step).any().item():
                sys.exit(f"step {step}: new memory is wrong")
            del more
            torch.cuda.empty_cache()
        value = loss.item()
        end = time.monotonic()
        print(f"{step} {value:.9g} {end:.6f} {end - begin:.6f}", flush=True)
        if stop:
            break


if __name__ == "__main__":
    main()
