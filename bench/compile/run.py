#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times programs on the software GPU whose kernels no cache has, with one build or with two in turns.

    bench/compile/run.py build                      # each program three times
    bench/compile/run.py --rounds 7 old-build build # and the ratios: above 1, the second build is faster
    bench/compile/run.py --programs small,many --json figures.json build
    bench/compile/run.py --python VENV/bin/python3 --programs cupy-sort,xgboost build

nvcc 13 builds the programs into --folder (default: bench-compile in the last build), where they stay for the next time. A run is `vcuda run`
with its own empty cache, from its start until the last of its processes has ended. Processor seconds are those of all processes together: the
program's, vcudad's, the worker's, the compilers'. They say more than wall seconds where other work has the machine, too. MiB are the most
that one process had of memory, with pages of libraries: a compiler, where a kernel is large. --python is a Python with the packages of
clients.py, which doc/reference/coverage.md says how to install.
"""
import argparse
import ctypes
import math
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(SOURCE.parent))

import machine
import schema

PROGRAMS = {"small": [], "many": [], "integer": [], "printf": [], "tensor": [], "calls": [], "debug": ["-G"], "cub-scan": [], "thrust": [],
            "cub-sort": [], "cusparse": ["-lcusparse"]}
CLIENTS = ["cupy-sort", "cupy-fft", "xgboost", "jax"]
ARCHITECTURE = "arch=compute_80,code=compute_80"
PR_SET_CHILD_SUBREAPER = 36
FIGURES = {"wall": "wall s", "processor": "processor s", "memory": "MiB"}


def build_program(nvcc, folder, name):
    """The program, built unless it is newer than its source."""
    program = folder / name
    sources = [SOURCE / f"{name}.cu", SOURCE / "check.h"]
    if not program.exists() or program.stat().st_mtime < max(s.stat().st_mtime for s in sources):
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([nvcc, *PROGRAMS[name], "-std=c++17", "-cudart", "shared", "-gencode", ARCHITECTURE, sources[0], "-o", program], check=True)
    return program


def wait_for_all():
    """The use of processes whose parents have ended: they are children of this one."""
    try:
        while True:
            yield os.wait4(-1, 0)[2]
    except ChildProcessError:
        pass


def run(build, command):
    """Wall and processor seconds of one run, and the MiB of its largest process."""
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryFile() as errors:
        start = time.monotonic()
        process = subprocess.Popen([f"{build}/cli/vcuda", "run", "--backend", "cpu", "--", *command],
                                   env=dict(os.environ, VCUDA_CACHE=cache, CUPY_CACHE_DIR=f"{cache}/cupy", JAX_ENABLE_COMPILATION_CACHE="0"),
                                   stdout=subprocess.DEVNULL, stderr=errors)
        _, status, first = os.wait4(process.pid, 0)
        wall = time.monotonic() - start
        used = [first, *wait_for_all()]
        errors.seek(0)
        if status:
            sys.exit(f"{command} with {build} ended with {os.waitstatus_to_exitcode(status)}:\n{errors.read().decode(errors='replace')}")
    return wall, sum(u.ru_utime + u.ru_stime for u in used), max(u.ru_maxrss for u in used) / 1024


def measure(options, name, command):
    """The medians of each build's rounds, which the builds run in turns."""
    runs = {build: [] for build in options.builds}
    for _ in range(options.rounds):
        for build in options.builds:
            runs[build].append(run(build, command))
    return {"program": name, "builds": [dict(zip(FIGURES, map(statistics.median, zip(*r))), build=build, runs=r) for build, r in runs.items()]}


def ratio(row, what):
    first, last = row["builds"][0][what], row["builds"][-1][what]
    return first / last if last else math.nan


def print_row(row):
    cells = [row["program"]]
    for b in row["builds"]:
        cells += [f"{b['wall']:.3f}", f"{b['processor']:.3f}", f"{b['memory']:.0f}"]
    if len(row["builds"]) > 1:
        cells += [f"{ratio(row, what):.2f}" for what in FIGURES]
    print("| " + " | ".join(cells) + " |", flush=True)


def print_head(count):
    names = ["program"] + [f"{n} {unit}" for n in (["first", "second"] if count > 1 else ["cold"]) for unit in FIGURES.values()]
    names += [f"{what} ratio" for what in FIGURES] if count > 1 else []
    head = "| " + " | ".join(names) + " |"
    print(head + "\n" + "|---" * (head.count("|") - 1) + "|")


def print_means(rows):
    if len(rows[0]["builds"]) > 1:
        means = [f"{what} {statistics.geometric_mean(ratio(r, what) for r in rows):.2f}" for what in FIGURES]
        print("\nGeometric means of the ratios: " + ", ".join(means))


def result(rows, facts, command):
    """All samples, as bench/results/README.md describes. The last build is the one of interest."""
    builds = [b["build"] for b in rows[0]["builds"]]
    sides = ["before", "after"] if len(builds) > 1 else ["build"]
    groups = (("wall time", "s"), ("processor time", "s"), ("memory", "MiB"))
    cases = [{"group": group, "name": row["program"], "unit": unit, "better": "less",
              **{side: {"samples": [figures[number] for figures in b["runs"]]} for side, b in zip(sides, row["builds"])}}
             for number, (group, unit) in enumerate(groups) for row in rows]
    return {"format": schema.FORMAT, "benchmark": "bench/compile", "command": command, "machine": facts, "sides": sides,
            "about": dict(zip(sides, builds)), "cases": cases}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("builds", nargs="+", metavar="BUILD", help="a build folder; one or two")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--programs", help=f"by default {','.join(PROGRAMS)}, and with --python {','.join(CLIENTS)}")
    p.add_argument("--python")
    p.add_argument("--folder", type=pathlib.Path)
    p.add_argument("--nvcc", default="nvcc")
    p.add_argument("--json", help="a file for all figures, in the format of bench/results")
    options = p.parse_args()
    known = [*PROGRAMS, *(CLIENTS if options.python else [])]
    names = options.programs.split(",") if options.programs else known
    unknown = [n for n in names if n not in known]
    if len(options.builds) > 2 or unknown or options.rounds < 1:
        p.error(f"there is no program {unknown[0]}" if unknown else "give one build or two, and at least one round")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    folder = options.folder or pathlib.Path(options.builds[-1]) / "bench-compile"
    commands = {n: [options.python, SOURCE / "clients.py", n] if n in CLIENTS else [build_program(options.nvcc, folder, n)] for n in names}
    facts = {**machine.host(), "backend": "cpu"}
    print_head(len(options.builds))
    rows = []
    for name, command in commands.items():
        rows.append(measure(options, name, command))
        print_row(rows[-1])
    print_means(rows)
    if options.json:
        schema.write(options.json, result(rows, facts, shlex.join(["bench/compile/run.py", *sys.argv[1:]])))


if __name__ == "__main__":
    main()
