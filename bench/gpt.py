#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A language model of GPT-2's smallest size in plain PyTorch, with random weights and random text: how long does a
training step take, and a token when it writes one after the other?

usage: gpt.py [--quick] [--device cuda|cpu]      prints NAME VALUE UNIT, medians
"""

import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

SMALL = {"words": 50257, "width": 768, "depth": 12, "heads": 12, "length": 1024}
TINY = {"words": 1000, "width": 64, "depth": 2, "heads": 2, "length": 128}


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, past):
        """`past`: keys and values of the words before, or None; returns those with these words' as well."""
        batch, length, width = x.shape
        query, key, value = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.project(x).split(width, 2))
        if past is not None:
            key, value = torch.cat((past[0], key), 2), torch.cat((past[1], value), 2)
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=length > 1)
        return self.out(y.transpose(1, 2).reshape(batch, length, width)), (key, value)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = Attention(width, heads)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width))

    def forward(self, x, past):
        y, kept = self.attention(self.before(x), past)
        x = x + y
        return x + self.mix(self.between(x)), kept


class Model(nn.Module):
    def __init__(self, words, width, depth, heads, length):
        super().__init__()
        self.words, self.length = words, length
        self.embed, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.end = nn.LayerNorm(width)

    def forward(self, text, pasts=None):
        begin = pasts[0][0].shape[2] if pasts else 0
        x = self.embed(text) + self.place(torch.arange(begin, begin + text.shape[1], device=text.device))
        kept = []
        for block, past in zip(self.blocks, pasts or [None] * len(self.blocks)):
            x, keys = block(x, past)
            kept.append(keys)
        return functional.linear(self.end(x), self.embed.weight), kept


def timed(call, count, wait):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        wait()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def train(model, device, batch, length, steps, wait):
    optimiser = torch.optim.AdamW(model.parameters(), 3e-4)
    text = torch.randint(0, model.words, (batch, length + 1))

    def step():
        data = text.to(device)
        with torch.autocast(device, torch.bfloat16):
            scores, _ = model(data[:, :-1])
            loss = functional.cross_entropy(scores.flatten(0, 1), data[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        loss.item()

    timed(step, 3, wait)
    return timed(step, steps, wait)


@torch.no_grad()
def decode(model, device, prompt, tokens, wait):
    """The likeliest word of each step; the program reads it each time, as a program that shows its text does."""
    state = {}

    def begin():
        scores, state["past"] = model(torch.randint(0, model.words, (1, prompt), device=device))
        state["next"] = scores[:, -1:].argmax(2)

    def step():
        scores, state["past"] = model(state["next"], state["past"])
        state["next"] = scores.argmax(2)
        state["next"].item()

    begin()
    timed(step, 5, wait)
    begin()
    return timed(step, tokens, wait)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    wait = torch.cuda.synchronize if options.device == "cuda" else lambda: None
    torch.manual_seed(1)
    model = Model(**(TINY if options.quick else SMALL)).to(options.device)
    batch, length, steps, tokens = (2, 32, 3, 8) if options.quick else (8, 512, 15, 100)
    print(f"train_step {train(model, options.device, batch, length, steps, wait):.4g} ms", flush=True)
    model = model.to(torch.bfloat16).eval()
    print(f"decode_token {decode(model, options.device, length // 8, tokens, wait):.4g} ms", flush=True)


if __name__ == "__main__":
    main()
