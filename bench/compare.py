#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs driver-bench natively and through virtio-cuda, in turns, and prints medians and ratios as a Markdown table.

usage: compare.py [--rounds N] [--json FILE] [--virtual 'COMMAND'] BENCH [ARGS...]
  --virtual   what stands before the program to run it through virtio-cuda (default: 'vcuda run --backend cuda --')
The ratio is virtual to native as a user feels it: above 1 is faster than native, for times and for rates alike.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"compare.py: {' '.join(command)} ended with {result.returncode}\n{result.stderr}")
    figures = {}
    for line in result.stdout.splitlines():
        words = line.split()
        if len(words) == 3:
            figures[words[0]] = (float(words[1]), words[2])
    return figures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    parser.add_argument("--virtual", default="vcuda run --backend cuda --")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    if not args.command:
        parser.error("which benchmark?")
    samples = {"native": [], "virtual": []}
    for _ in range(args.rounds):
        samples["native"].append(run(args.command))
        samples["virtual"].append(run(shlex.split(args.virtual) + args.command))
    rows = []
    for name, (_, unit) in samples["native"][0].items():
        native = [s[name][0] for s in samples["native"]]
        virtual = [s[name][0] for s in samples["virtual"] if name in s]
        n, v = statistics.median(native), statistics.median(virtual)
        ratio = v / n if unit == "GB/s" else n / v
        rows.append({"name": name, "unit": unit, "native": n, "virtual": v, "ratio": ratio,
                     "native_range": [min(native), max(native)], "virtual_range": [min(virtual), max(virtual)]})
    print("| what | unit | native | virtual | ratio |\n|---|---|---|---|---|")
    for r in rows:
        print(f"| {r['name']} | {r['unit']} | {r['native']:.3g} ({r['native_range'][0]:.3g}-{r['native_range'][1]:.3g}) "
              f"| {r['virtual']:.3g} ({r['virtual_range'][0]:.3g}-{r['virtual_range'][1]:.3g}) | {r['ratio']:.2f} |")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


if __name__ == "__main__":
    main()
