#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the first launch of a small kernel that no cache has, with one build or with several in turns.

    bench/compile/first-launch.py build                      # 21 runs
    bench/compile/first-launch.py --rounds 41 old-build build
    chrt -f 10 bench/compile/first-launch.py old-build build # where other work has the machine, too

A run is `vcuda run` of small.cu with its own empty cache. The time is the worker's for the launch, by VCUDA_TIMES. Prints the median, the
fastest and the slowest run of each build in ms. nvcc 13 builds the program into --folder (default: bench-compile in the last build).
"""
import argparse
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

import run

BEGIN, END = "worker: first vcudaLaunchKernel begins", "worker: first vcudaLaunchKernel ends"


def launch_ms(build, program):
    with tempfile.TemporaryDirectory() as cache:
        r = subprocess.run([f"{build}/cli/vcuda", "run", "--backend", "cpu", "--", program], env=dict(os.environ, VCUDA_CACHE=cache, VCUDA_TIMES="1"),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    times = {what: float(seconds) for mark, seconds, _, what in (line.split(maxsplit=3) for line in r.stderr.splitlines() if line.count(" ") > 2)
             if mark == "vcuda-time"}
    if r.returncode or END not in times:
        sys.exit(f"{program} with {build} ended with {r.returncode}:\n{r.stderr}")
    return (times[END] - times[BEGIN]) * 1e3


def result(runs, names):
    sides = dict(zip(names, runs.values()))
    return {"format": run.schema.FORMAT, "benchmark": "bench/compile", "command": shlex.join(["bench/compile/first-launch.py", *sys.argv[1:]]),
            "machine": {**run.machine.host(), "backend": "cpu"}, "sides": list(sides), "about": dict(zip(sides, runs)),
            "cases": [{"group": "first launch", "name": "a small kernel, the first of a process", "unit": "ms", "better": "less",
                       **{side: {"samples": [round(t, 2) for t in times]} for side, times in sides.items()}}]}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("builds", nargs="+", metavar="BUILD")
    p.add_argument("--rounds", type=int, default=21)
    p.add_argument("--folder", type=pathlib.Path)
    p.add_argument("--nvcc", default="nvcc")
    p.add_argument("--json", help="a file for all figures, in the format of bench/results")
    p.add_argument("--sides", help="the builds' names in that file")
    options = p.parse_args()
    program = run.build_program(options.nvcc, options.folder or pathlib.Path(options.builds[-1]) / "bench-compile", "small")
    runs = {build: [] for build in options.builds}
    for _ in range(options.rounds):
        for build, times in runs.items():
            times.append(launch_ms(build, program))
    for build, times in runs.items():
        print(f"{build}: {statistics.median(times):.2f} ms ({min(times):.2f} to {max(times):.2f})")
    if options.json:
        run.schema.write(options.json, result(runs, options.sides.split(",") if options.sides else options.builds))


if __name__ == "__main__":
    main()
