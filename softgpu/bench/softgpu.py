#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times kernels on the software GPU, in C with OpenMP, and on PoCL, side by side in turns, and prints a Markdown table of medians.

usage: softgpu.py [--rounds N] [--json FILE] [--virtual] [--before BUILD] [--machine-code ARCH] [--cases NAME,...] [--one-thread] [--sides NAME,...] BUILD
  BUILD       the build folder
  --json      a file for all samples, in the format of bench/results
  --virtual   another side: the same program under `vcuda run`
  --before    another side, "before": the software GPU of another build folder, with that build's own programs
  --machine-code  another side, "machine code": the software GPU with what NVIDIA's ptxas makes of the same PTX for ARCH, as sm_80
  --one-thread  one thread a side, and its processor time instead of the time that passes: what is left to compare where other work
              has the machine as well
A ratio is another side's time to the software GPU's: above 1, the software GPU is faster.
"""

import argparse
import os
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# OpenMP's threads go on looking for work after a run, 300,000 times in libgomp: 14 ms where a processor pauses for long.
REST_S = 0.05
SOURCE = pathlib.Path(__file__).resolve().parent / "kernels.cu"
sys.path.insert(0, str(SOURCE.parents[2] / "bench"))

import machine
import schema

ABOUT = {"vcuda": "the software GPU", "openmp": "C with OpenMP (gcc -O3 -march=native)", "pocl": "OpenCL on PoCL",
         "vcuda run": "the software GPU under `vcuda run`", "before": "the software GPU of an earlier build",
         "machine code": "the software GPU from machine code"}


def direct_command(build, code=None):
    """The benchmark's process with the software GPU in it. `code`: the file with the kernels in place of the build's PTX."""
    here = build.resolve() / "softgpu/bench"
    return [str(here / "softgpu-bench"), "cuda", str(build.resolve() / "softgpu/libvcuda-cpu.so"), str(code or here / "softgpu.ptx")]


def assemble(ptx, arch, folder):
    cubin = pathlib.Path(folder) / f"softgpu-{arch}.cubin"
    subprocess.run([shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas", f"-arch={arch}", ptx, "-o", str(cubin)], check=True)
    return cubin


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
    return {"samples": times, "median": statistics.median(times), "min": min(times), "max": max(times)} if times else None


def milliseconds(entry):
    """A summary of microseconds in milliseconds."""
    return summary([us / 1e3 for us in entry["samples"]]) if entry else None


def answered(text):
    """The summary of one figure; None if the side did not answer."""
    return summary([float(text)]) if text else None


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
        return answered(Side(command, dict(os.environ, XDG_CACHE_HOME=cache, VCUDA_CPU_COMPILE="auto")).ask("first"))

    cold, cached = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(first(cache))
            cached.append(first(cache))
    return [summary([entry["median"] for entry in entries if entry]) for entries in (cold, cached)]


def cell(value):
    if not value:
        return "-"
    spread = f" ({value['min']:.3g}-{value['max']:.3g})" if len(value["samples"]) > 1 else ""
    return f"{value['median']:.3g}{spread}"


def ratio(row, other):
    if not row["times"].get(other) or not row["times"].get("vcuda"):
        return None
    return row["times"][other]["median"] / row["times"]["vcuda"]["median"]


def print_table(rows, names):
    print("| kernel | " + " | ".join(n + " ms" for n in names) + " | " + " | ".join("vs " + n for n in names[1:]) + " |")
    print("|---" * (2 * len(names)) + "|")
    for row in rows:
        ratios = [ratio(row, n) for n in names[1:]]
        print(f"| {row['name']} | " + " | ".join(cell(milliseconds(row["times"].get(n))) for n in names) + " | "
              + " | ".join("-" if r is None else f"{r:.2f}" for r in ratios) + " |")


def rates(rows):
    """(name, unit, {side: work per second}) of the cases that are bound by memory or by arithmetic alone."""
    for row in rows:
        unit, work = ("GB/s", row["gigabytes"]) if row["name"] == "triad" else ("GFLOP/s", row["gflops"])
        values = {side: work / entry["median"] * 1e6 for side, entry in row["times"].items() if entry}
        if values and (row["name"] == "triad" or row["name"].startswith("matrixMul")):
            yield row["name"], unit, values


def print_limits(limits, rows):
    for name, unit, values in rates(rows):
        for side, value in values.items():
            print(f"* {name}, {side}: {value:.1f} {unit}")
    for what, unit, _, entry in limits:
        print(f"* {what}, {unit}: {cell(entry)}")


def result(rows, limits, names, facts, command):
    """All samples, as bench/results/README.md describes. The software GPU is the side of interest, the last one."""
    sides = [name for name in names if name != "vcuda"] + [name for name in names if name == "vcuda"]
    cases = []
    for row in rows:
        times = {side: milliseconds(row["times"][side]) for side in sides if row["times"].get(side)}
        cases += [{"group": "kernels", "name": row["name"], "unit": "ms", **times}] if times else []
    cases += [{"group": "rates", "name": name, "unit": unit, **{side: {"median": values[side]} for side in sides if side in values}}
              for name, unit, values in rates(rows)]
    cases += [{"group": "launches" if side == "vcuda" else "rates", "name": what, "unit": unit, side: entry}
              for what, unit, side, entry in limits if entry and side in sides]
    return {"format": schema.FORMAT, "benchmark": "softgpu/bench", "command": command, "machine": facts, "sides": sides,
            "about": {side: ABOUT[side] for side in sides}, "cases": cases}


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--virtual", action="store_true")
    parser.add_argument("--before", type=pathlib.Path)
    parser.add_argument("--machine-code", metavar="ARCH")
    parser.add_argument("--cases")
    parser.add_argument("--sides")
    parser.add_argument("--one-thread", action="store_true")
    parser.add_argument("build", type=pathlib.Path)
    args = parser.parse_args()
    # Otherwise the first rounds may run quick code.
    os.environ["VCUDA_CPU_COMPILE"] = "optimised"
    direct = direct_command(args.build)
    bench, ptx = direct[0], direct[-1]
    if args.one_thread:
        os.environ.update(SOFTGPU_CPU_TIME="1", OMP_NUM_THREADS="1", POCL_MAX_PTHREAD_COUNT="1", VCUDA_CPU_THREADS="1")
    facts = {**machine.host(), "backend": "cpu"}
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
                                 "libcuda.so.1", ptx]
    if args.before:
        commands["before"] = direct_command(args.before)
    if args.machine_code:
        folder = tempfile.TemporaryDirectory()
        commands["machine code"] = direct_command(args.build, assemble(ptx, args.machine_code, folder.name))
    commands = {name: c for name, c in commands.items() if not args.sides or name in args.sides.split(",")}
    rows = []
    for case in cases:
        # a new process each: a side that fails must not take the other cases with it
        sides = {name: Side(command) for name, command in commands.items()}
        rows.append(dict(case, times=measure(sides, case["name"], args.rounds)))
        for side in sides.values():
            side.end()
    cold, cached = first_launches(direct, args.rounds)
    limits = [("fused multiply-adds in registers", "GFLOP/s", "openmp", answered(openmp.ask("fma"))),
              ("an empty launch, one of many", "us", "vcuda", answered(Side(direct).ask("launch"))),
              ("an empty launch and the wait for its end", "us", "vcuda", answered(Side(direct).ask("sync"))),
              ("module load and first launch of vectorAdd, cold", "ms", "vcuda", milliseconds(cold)),
              ("the same from the cache", "ms", "vcuda", milliseconds(cached))]
    names = list(commands)
    print_table(rows, names)
    print()
    print_limits(limits, rows)
    if args.json:
        schema.write(args.json, result(rows, limits, names, facts, shlex.join(["softgpu/bench/softgpu.py", *sys.argv[1:]])))


if __name__ == "__main__":
    main()
