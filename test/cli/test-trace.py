#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The output of --trace and --stats: test-trace.py VCUDA TRACED GUEST_LIB SCENARIO. TRACED (traced.c) makes known
calls."""

import os
import re
import subprocess
import sys
import tempfile

VCUDA, TRACED, GUEST_LIB = sys.argv[1:4]
LAUNCHES = 7
ASKED = 40  # traced.c's
LINE = re.compile(r"\[(\d+)\] (cu\w+)\((.*)\) = (\w+) \((local|queued(?: \d+)?|waited(?: \d+ times)?(?:, queued(?: \d+)?)?), ([\d.]+) us\)")
ROW = re.compile(r" *([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)((?: +[\d.]+ +[\d.]+)? +[\d.]+) +(\d+) +(\d+) +(\d+) +(\d+)  (\w+)")
KERNELS_HEAD = "What the software GPU compiled, in ms\n"
KERNEL_NAMES = ["wall", "behind", "CPU", "parse", "analysis", "lowering", "passes", "emission", "link", "versions", "optimised", "cached", "bytes",
                "instructions", "kernel"]
WORKER_ROW = re.compile(r" *([\d.]+) +([\d.]+) +([\d.]+) +(\d+)  (\w+)")


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def run(*args, status=0, **env):
    environment = dict(os.environ, **env)
    r = subprocess.run(args, capture_output=True, text=True, env=environment, check=False)
    check(r.returncode == status, f"{args}: status {r.returncode}: {r.stdout}{r.stderr}")
    return r


def traced(options, how="exit", status=0, **env):
    return run(VCUDA, "run", "--backend", "cpu", *options, "--", TRACED, how, status=status, **env)


def lines_of(text):
    """[(thread, call, arguments, result, how)]; a line that looks like one and cannot be read is an error."""
    found = []
    for line in text.splitlines():
        if line.startswith("["):
            match = LINE.fullmatch(line)
            check(match, f"not a line of a trace: {line}")
            found.append(match.groups()[:5])
    return found


def tables_of(text):
    """{process: {call: (calls, errors, waits, queued)}}"""
    tables = {}
    for line in text.splitlines():
        head = re.fullmatch(r"CUDA calls of process (\d+) \((\S+)\)", line)
        if head:
            check(head[2] == "traced", line)
            tables[head[1]] = rows = {}
        elif ROW.fullmatch(line):
            values = ROW.fullmatch(line).groups()
            rows[values[9]] = tuple(int(v) for v in values[5:9])
    return tables


def lines():
    found = lines_of(traced(["--trace"]).stderr)
    one = lambda name: [f[2:] for f in found if f[1] == name]
    check(one("cuInit")[0][:2] == ("flags=0", "CUDA_SUCCESS") and one("cuInit")[0][2].startswith("waited"), one("cuInit"))
    check(re.fullmatch(r'name=".+", len=64, dev=0', one("cuDeviceGetName")[0][0]), one("cuDeviceGetName"))
    check(one("cuDeviceGetName")[0][2] == "local", one("cuDeviceGetName"))
    functions = one("cuModuleGetFunction")
    check([f[1] for f in functions] == ["CUDA_ERROR_NOT_FOUND", "CUDA_ERROR_INVALID_HANDLE", "CUDA_SUCCESS"], functions)
    check(r'name="no\"such\n"' in functions[0][0] and "name=0x10" in functions[1][0], functions)
    handle = re.search(r'\*\w+=(0x[0-9a-f]+) "busy", .*name="busy"', functions[2][0])
    check(handle, functions[2])

    # The first launch of a function waits, since it may have to be compiled; the others do not, and one wait is all of the rest.
    launches = one("cuLaunchKernel")
    check(len(launches) == LAUNCHES and launches[0][2].startswith("waited"), launches)
    check(all(l[1:] == ("CUDA_SUCCESS", "queued") for l in launches[1:]), launches)
    check(all(re.match(rf'f={handle[1]} "busy", gx=1, gy=1, gz=1, bx=32, by=1, bz=1, shared=0, stream=0, ', l[0]) for l in launches), launches)
    check(one("cuCtxSynchronize") == [("", "CUDA_SUCCESS", "waited")], one("cuCtxSynchronize"))

    p = re.fullmatch(r"\*dptr=(0x[0-9a-f]+), bytes=4096", one("cuMemAlloc_v2")[0][0])
    check(p, one("cuMemAlloc_v2"))
    frees = one("cuMemFree_v2")
    check(frees[0][:2] == (f"dptr=0x{int(p[1], 16) + 1:x}", "CUDA_ERROR_INVALID_VALUE"), frees)
    check(frees[1][:2] == (f"dptr={p[1]}", "CUDA_SUCCESS"), frees)
    check([f[1] for f in one("cuStreamQuery")] == ["CUDA_SUCCESS"], "a function that cuGetProcAddress gave is not traced")
    check(one("cuGraphicsUnregisterResource") == [("...", "CUDA_ERROR_NOT_SUPPORTED", "local")], one("cuGraphicsUnregisterResource"))
    check(len({f[0] for f in found}) == 1, "one thread, several thread ids")
    order = [f[1] for f in found]
    check(order.index("cuInit") < order.index("cuModuleLoadData") < order.index("cuCtxSynchronize"), order)


def table():
    text, worker = traced(["--stats"]).stderr.split("What the worker ran\n")
    worker = worker.split(KERNELS_HEAD)[0]
    ran = {m[5]: int(m[4]) for m in WORKER_ROW.finditer(worker)}
    check(ran["vcudaLaunchKernel"] == LAUNCHES and ran["cuCtxSynchronize"] == 1, worker)
    sums = [float(m[1]) for m in WORKER_ROW.finditer(worker)]
    check(sums == sorted(sums, reverse=True), worker)
    ring = re.search(r"^In the ring when it took a command: (\d+) bytes on average, (\d+) at most, of 262144$", worker, re.M)
    check(ring and 40 <= int(ring[1]) <= int(ring[2]) <= 262144, worker)
    tables = tables_of(text)
    check(len(tables) == 1, text)
    rows = next(iter(tables.values()))
    calls, errors, waits, queued = rows["cuLaunchKernel"]
    check((calls, errors, queued) == (LAUNCHES, 0, LAUNCHES - 1) and waits >= 1, rows["cuLaunchKernel"])
    check(rows["cuCtxSynchronize"] == (1, 0, 1, 0), rows["cuCtxSynchronize"])
    check(rows["cuMemFree_v2"][:2] == (2, 1) and rows["cuModuleGetFunction"][:2] == (3, 2), text)
    check(rows["cuDeviceGetName"] == (1, 0, 0, 0) and rows["cuGraphicsUnregisterResource"] == (1, 1, 0, 0), text)
    total = rows.pop("total")
    check(total == tuple(sum(r[i] for r in rows.values()) for i in range(4)), text)
    shares = [float(m[1]) for m in re.finditer(r"^ *([\d.]+) .*  cu\w+$", text, re.M)]
    check(shares == sorted(shares, reverse=True) and 99 < sum(shares) < 101 and len(shares) == len(rows), text)
    times = [float(m[1]) for m in re.finditer(r"^ *[\d.]+ +([\d.]+) .*  cu\w+$", text, re.M)]
    check(times == sorted(times, reverse=True), text)
    for row in re.finditer(r"^ *[\d.]+ +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +(\d+) .*  cu\w+$", text, re.M):
        ms, waited, each, half, most_of, longest = (float(v) for v in row.groups()[:6])
        check(waited <= ms + 0.001 and half <= most_of <= longest and each <= longest + 0.01, row[0])
        check(abs(ms * 1000 - each * int(row[7])) <= 1 + 0.01 * int(row[7]), row[0])
    check("[" not in text, "--stats prints lines")


def kernels():
    """The table has each kernel's compiled code, and that of all; with a full cache, the loaded code."""
    with tempfile.TemporaryDirectory() as cache:
        for compiles in True, False:
            head, *rows = traced(["--stats"], VCUDA_CACHE=cache).stderr.split(KERNELS_HEAD)[1].splitlines()
            check(head.split() == KERNEL_NAMES, head)
            found = {fields[-1]: dict(zip(KERNEL_NAMES[:-1], map(float, fields[:-1]))) for fields in map(str.split, rows)}
            total = found.pop("total")
            check(found, rows)
            for row in found.values():
                parts = sum(row[part] for part in ("parse", "analysis", "lowering", "passes", "emission", "link"))
                check(parts <= row["wall"] + 0.5 and row["bytes"] > 0 and row["instructions"] > 0, row)
                if compiles:
                    check(row["versions"] > 0 and row["optimised"] <= row["versions"] and not row["cached"], row)
                    check(row["CPU"] > 0 and row["passes"] > 0 and row["emission"] > 0, row)
                else:
                    check(row["cached"] > 0 and not row["versions"] and not row["CPU"], row)
            for name in KERNEL_NAMES[:-1]:
                check(abs(total[name] - sum(row[name] for row in found.values())) <= 0.1 * len(found), f"{name}: {total}")


def asked():
    """Questions whose answers only the process itself changes are asked once, and again after a change; of a new handle also what it is."""
    rows = next(iter(tables_of(traced(["--stats"], "asked").stderr).values()))
    for name, calls, waits in (("cuDevicePrimaryCtxGetState", 2 * ASKED + 1, 3), ("cuKernelGetFunction", ASKED + 1, 2),
                               ("cuOccupancyMaxActiveBlocksPerMultiprocessor", ASKED + 3, 5)):
        check(rows[name][0] == calls and rows[name][2] == waits, (name, rows[name]))


def copied():
    rows = next(iter(tables_of(traced(["--stats"], "copied").stderr).values()))
    check(rows["cuMemcpyHtoD_v2"] == (ASKED + 1, 0, 0, ASKED + 1), rows["cuMemcpyHtoD_v2"])
    check(rows["cuMemcpyDtoH_v2"] == (1, 0, 1, 0), rows["cuMemcpyDtoH_v2"])


def ends():
    rows = next(iter(tables_of(traced(["--stats"], "thread").stderr).values()))
    check(rows["cuDeviceGetCount"] == (1, 0, 0, 0) and rows["cuLaunchKernel"][0] == LAUNCHES, rows)
    r = traced(["--stats"], "killed", status=128 + 9)
    check(not tables_of(r.stderr) and "signal 9 ended the program before it could print" in r.stderr, r.stderr)
    r = traced(["--trace"], "killed", status=128 + 9)
    check(len([l for l in lines_of(r.stderr) if l[1] == "cuLaunchKernel"]) == LAUNCHES and "--stats" not in r.stderr, r.stderr)


def interrupted():
    """A signal at any point of a call prints the process's counts."""
    for _ in range(4):
        rows = next(iter(tables_of(traced(["--stats"], "interrupted").stderr).values()))
        check(rows["cuMemsetD32Async"][0] > 0 and rows["cuLaunchKernel"][0] == LAUNCHES, rows)


def forked():
    r = traced(["--stats"], "fork")
    tables, child = tables_of(r.stderr), r.stdout.strip()
    check(len(tables) == 2 and child in tables, r.stderr)
    check(set(tables[child]) == {"cuDeviceGetCount", "total"} and tables[child]["total"] == (1, 1, 0, 0), r.stderr)
    parent = next(t for p, t in tables.items() if p != child)
    check("cuDeviceGetCount" not in parent and parent["cuLaunchKernel"][0] == LAUNCHES, r.stderr)


def files():
    with tempfile.TemporaryDirectory() as folder:
        trace, stats = folder + "/trace", folder + "/stats"
        with open(trace, "w", encoding="ascii") as old:
            old.write("[old]\n")
        r = traced([f"--trace={trace}", f"--stats={stats}"], VCUDA_LOG="0")
        check(not r.stderr, r.stderr)
        with open(trace, encoding="utf-8") as t, open(stats, encoding="utf-8") as s:
            found, tables = lines_of(t.read()), tables_of(s.read())
        check(len(found) == next(iter(tables.values()))["total"][0], "lines and table differ")
        # The application takes the descriptor away: nothing lands in its own file, and no line is lost.
        r = traced([f"--trace={trace}"], "taken", VCUDA_LOG="0")
        check(not r.stdout and not r.stderr, f"what is the application's got {r.stdout!r} {r.stderr!r}")
        with open(trace, encoding="utf-8") as t:
            check(sum(l[1] == "cuLaunchKernel" for l in lines_of(t.read())) == 2 * LAUNCHES, "lines are lost")
        r = traced([f"--trace={folder}/no/file"], status=125)
        check("--trace: cannot write to" in r.stderr, r.stderr)


def off():
    for env in ({}, {"VCUDA_TRACE": "", "VCUDA_STATS": "0"}):
        check(not traced([], VCUDA_LOG="0", **env).stderr, f"{env}: something is printed")


def direct():
    """Without `vcuda run` in front, and where the file cannot be written."""
    script = f'LD_LIBRARY_PATH="{GUEST_LIB}" VCUDA_TRACE=1 VCUDA_STATS=/dev/null/folder "{TRACED}"'
    r = run(VCUDA, "run", "--backend", "cpu", "--", "sh", "-c", script)
    check(sum(l[1] == "cuLaunchKernel" for l in lines_of(r.stderr)) == LAUNCHES and len(tables_of(r.stderr)) == 1, r.stderr)
    check("VCUDA_STATS: cannot write to /dev/null/folder" in r.stderr, r.stderr)


globals()[sys.argv[4]]()
