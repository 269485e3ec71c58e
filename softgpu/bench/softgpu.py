#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times kernels on the software GPU, in C with OpenMP, and on PoCL, side by side in turns, and prints a Markdown table of medians.

usage: softgpu.py [--rounds N] [--json FILE] [--virtual] [--cases NAME,...] [--one-thread] [--sides NAME,...] BUILD
  BUILD       the build folder
  --virtual   another side: the same program under `vcuda run`
  --one-thread  one thread a side, and its processor time instead of the time that passes: what is left to compare where other work
              has the machine as well
A ratio is another side's time to the software GPU's: above 1, the software GPU is faster.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

# OpenMP's threads go on looking for work after a run, 300,000 times in libgomp: 14 ms where a processor pauses for long.
REST_S = 0.05
SOURCE = pathlib.Path(__file__).resolve().parent / "kernels.cu"


class Side:
    def __init__(self, command, env=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, env=env)
        self.broken = None

    def ask(self, line):
        if self.broken is None:
            try:
                self.process.stdin.write(line + "\n")
                self.process.stdin.flush()
                answer = self.process.stdout.readline()
            except BrokenPipeError:
                answer = ""
            if answer:
                return answer.strip("\n")
            self.broken = self.end() or f"ended with {self.process.returncode}"
        return None

    def end(self):
        return self.process.communicate()[1].strip() if self.process.returncode is None else ""


def summary(times):
    return {"median": statistics.median(times), "min": min(times), "max": max(times)} if times else None


def measure(sides, name, rounds):
    """Rounds in turns. Each round is long compared with the switch from one side to the next."""
    times = {s: [] for s in sides}
    runs = {}
    for s, side in list(sides.items()):
        if side.ask("case " + name) != "ok":
            print(f"{name}: {s}: {side.broken}", file=sys.stderr)
            continue
        first = side.ask("run 1")
        runs[s] = max(3, min(50, int(20000 / float(first)))) if first else 0
    for _ in range(rounds):
        for s, count in runs.items():
            time.sleep(REST_S)
            answer = sides[s].ask(f"run {count}")
            if answer:
                times[s].append(statistics.median(map(float, answer.split())))
    return {s: summary(t) for s, t in times.items()}


def first_launches(command, rounds):
    """Without a cache, and with the cache that such a run left: one process each."""
    def first(cache):
        return float(Side(command, dict(os.environ, XDG_CACHE_HOME=cache, VCUDA_CPU_COMPILE="auto")).ask("first") or "nan")

    cold, cached = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(first(cache))
            cached.append(first(cache))
    return summary(cold), summary(cached)


def cell(value):
    if not value:
        return "-"
    return f"{value['median'] / 1e3:.3g} ({value['min'] / 1e3:.3g}-{value['max'] / 1e3:.3g})"


def ratio(row, other):
    if not row["times"].get(other) or not row["times"].get("vcuda"):
        return None
    return row["times"][other]["median"] / row["times"]["vcuda"]["median"]


def print_table(rows, names):
    print("| kernel | " + " | ".join(n + " ms" for n in names) + " | " + " | ".join("vs " + n for n in names[1:]) + " |")
    print("|---" * (2 * len(names)) + "|")
    for row in rows:
        ratios = [ratio(row, n) for n in names[1:]]
        print(f"| {row['name']} | " + " | ".join(cell(row["times"].get(n)) for n in names) + " | "
              + " | ".join("-" if r is None else f"{r:.2f}" for r in ratios) + " |")


def print_limits(limits, rows):
    for row in rows:
        for s, t in row["times"].items():
            if t and row["name"] == "triad":
                print(f"* triad, {s}: {row['gigabytes'] / t['median'] * 1e6:.1f} GB/s")
            if t and row["name"].startswith("matrixMul"):
                print(f"* {row['name']}, {s}: {row['gflops'] / t['median'] * 1e6:.1f} GFLOP/s")
    for what, value in limits.items():
        print(f"* {what}: {value}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--virtual", action="store_true")
    parser.add_argument("--cases")
    parser.add_argument("--sides")
    parser.add_argument("--one-thread", action="store_true")
    parser.add_argument("build", type=pathlib.Path)
    args = parser.parse_args()
    # Otherwise the first rounds may run quick code.
    os.environ["VCUDA_CPU_COMPILE"] = "optimised"
    here = args.build.resolve() / "softgpu/bench"
    bench, library = str(here / "softgpu-bench"), str(args.build.resolve() / "softgpu/libvcuda-cpu.so")
    direct = [bench, "cuda", library, str(here / "softgpu.ptx")]
    if args.one_thread:
        os.environ.update(SOFTGPU_CPU_TIME="1", OMP_NUM_THREADS="1", POCL_MAX_PTHREAD_COUNT="1", VCUDA_CPU_THREADS="1")
    openmp = Side([bench, "openmp"])
    cases = []
    line = openmp.ask("list")
    while line:
        name, gigabytes, gflops = line.split("\t")
        cases.append({"name": name, "gigabytes": float(gigabytes), "gflops": float(gflops)})
        line = openmp.process.stdout.readline().strip("\n")
    if args.cases:
        cases = [c for c in cases if c["name"] in args.cases.split(",")]
    commands = {"vcuda": direct, "openmp": [bench, "openmp"], "pocl": [bench, "opencl", str(SOURCE)]}
    if args.virtual:
        commands["vcuda run"] = [str(args.build.resolve() / "cli/vcuda"), "run", "--backend", "cpu", "--", bench, "cuda",
                                 "libcuda.so.1", str(here / "softgpu.ptx")]
    commands = {name: c for name, c in commands.items() if not args.sides or name in args.sides.split(",")}
    rows = []
    for case in cases:
        # a new process each: a side that fails must not take the other cases with it
        sides = {name: Side(command) for name, command in commands.items()}
        rows.append(dict(case, times=measure(sides, case["name"], args.rounds)))
        for side in sides.values():
            side.end()
    cold, cached = first_launches(direct, args.rounds)
    limits = {"fused multiply-adds in registers, GFLOP/s": openmp.ask("fma"),
              "an empty launch, one of many, us": Side(direct).ask("launch"),
              "an empty launch and the wait for its end, us": Side(direct).ask("sync"),
              "module load and first launch of vectorAdd, cold, ms": cell(cold),
              "the same from the cache, ms": cell(cached)}
    names = list(commands)
    print_table(rows, names)
    print()
    print_limits(limits, rows)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump({"cases": rows, "limits": limits}, f, indent=1)


if __name__ == "__main__":
    main()
