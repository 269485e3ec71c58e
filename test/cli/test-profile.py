#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The output of --profile: test-profile.py VCUDA PROFILED TRACED SCENARIO. PROFILED (profiled.c) makes known calls."""

import collections
import json
import os
import re
import subprocess
import sys
import tempfile

VCUDA, PROFILED, TRACED = sys.argv[1:4]
BACKEND = os.environ.get("VCUDA_TEST_BACKEND", "cpu")
FIRST, SECOND, SMALL, LARGE = 5, 3, 4096, 3 << 20  # profiled.c's
# The device's clock is read to some microseconds. A busy machine may read it later.
CLOCK_US = 5000


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def run(*args, status=0, **env):
    r = subprocess.run(args, capture_output=True, text=True, errors="replace", env=dict(os.environ, **env), check=False)
    check(r.returncode == status, f"{args}: status {r.returncode}: {r.stdout}{r.stderr}")
    return r


def profiled(file, *program, status=0, complete=True, **env):
    r = run(VCUDA, "run", "--backend", BACKEND, "--profile", file, "--", *program, status=status, **env)
    check(not complete or "the profile lacks" not in r.stderr, r.stderr)
    with open(file, encoding="utf-8") as f:
        return r, json.load(f)


def of_kind(events, kind):
    return [e for e in events if e.get("cat") == kind and e["ph"] == "X"]


def check_device(events, begin, end):
    """All work is there once, in the time in which the program waited for it, and in the order of its stream."""
    counts = collections.Counter(e["name"] for k in ("kernel", "memset", "graph") for e in of_kind(events, k))
    # A graph is one piece of work, or its two kernels are.
    graph = {"[graph]": 2} if "[graph]" in counts else {"second": 4}
    check(counts == collections.Counter(first=FIRST, second=SECOND) + collections.Counter({"[memset]": 1}) + collections.Counter(graph), counts)
    copies = collections.Counter()
    for e in of_kind(events, "memcpy"):
        copies[e["name"]] += e["args"]["bytes"]
    check(copies == {"[memcpy HtoD]": SMALL + LARGE, "[memcpy DtoH]": LARGE}, copies)
    streams = collections.defaultdict(list)
    for e in (e for k in ("kernel", "memset", "graph", "memcpy") for e in of_kind(events, k)):
        check(begin / 1e3 - CLOCK_US <= e["ts"] and e["ts"] + e["dur"] <= end / 1e3 + CLOCK_US, f"{begin} {end}: {e}")
        streams[e["tid"]].append(e)
    for work in streams.values():
        work.sort(key=lambda e: e["args"]["command"])
        for a, b in zip(work, work[1:]):
            check(a["ts"] + a["dur"] <= b["ts"] + 0.01, f"{a} and {b} overlap in a stream")
    names = {e["tid"]: {w["name"] for w in streams[e["tid"]]} for e in events if e["name"] == "thread_name"}
    check({"first"} in names.values() and {"second", "[memset]"} | ({"[graph]"} & set(counts)) in names.values(), names)


def check_calls(events):
    calls = collections.defaultdict(list)
    for e in of_kind(events, "call"):
        calls[e["name"]].append(e)
    launches = calls["cuLaunchKernel"]
    check(collections.Counter(e["args"]["kernel"] for e in launches) == {"first": FIRST, "second": SECOND + 2}, launches)
    check([e["args"]["result"] for e in calls["cuMemFree_v2"]] == ["CUDA_ERROR_INVALID_VALUE"], calls["cuMemFree_v2"])
    check(len(calls["cuInit"]) == 1 and calls["cuInit"][0]["args"]["waited"] <= calls["cuInit"][0]["dur"], calls["cuInit"])
    check(len({e["tid"] for e in of_kind(events, "call")}) == 1, "one thread, several thread ids")
    # An arrow from each launch to its kernel. The two calls that were captured have none.
    begun, ended = ({e["id"] for e in events if e["ph"] == p} for p in "sf")
    check(len(begun) == len(begun & ended) == FIRST + SECOND, f"{begun} {ended}")


def check_commands(events):
    commands = {e["args"]["command"]: e for e in of_kind(events, "command")}
    for kind in ("kernel", "memset", "graph", "memcpy"):
        for e in of_kind(events, kind):
            check(e["args"]["command"] in commands, f"no command of {e}")
    check(not any("Activities" in e["name"] for e in commands.values()), "the profile's own questions are in it")


def file():
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/profile.json"
        with open(path, "w", encoding="ascii") as old:
            old.write("old\n")
        r, events = profiled(path, PROFILED)
        check_device(events, *(int(n) for n in r.stdout.split()))
        check_calls(events)
        check_commands(events)
        check(not r.stderr, r.stderr)
        r = run(VCUDA, "run", "--backend", BACKEND, "--profile", folder + "/no/file", "--", PROFILED, status=125)
        check("--profile: cannot write to" in r.stderr, r.stderr)


def ends():
    """The device's work is in the file when the context ends. The file is whole if a signal ends the process, and
    signal handlers may call."""
    with tempfile.TemporaryDirectory() as folder:
        r, events = profiled(folder + "/reset", PROFILED, "reset")
        check_device(events, *(int(n) for n in r.stdout.split()))
        _, events = profiled(folder + "/killed", PROFILED, "killed", status=137)
        check("cuMemFree_v2" in {e["name"] for e in of_kind(events, "call")}, events)
        r, events = profiled(folder + "/signals", PROFILED, "signals", complete=False)
        check(len(of_kind(events, "call")) > 1000, len(events))
        for _ in range(3):
            _, events = profiled(folder + "/interrupted", TRACED, "interrupted", complete=False)
            check(any(e["name"] == "cuMemsetD32Async" for e in of_kind(events, "call")), len(events))
        r, events = profiled(folder + "/forked", TRACED, "fork")
        child = int(r.stdout)
        names = [e["name"] for e in of_kind(events, "call") if e["pid"] == child]
        check(names == ["cuDeviceGetCount"], names)
        check(len(of_kind(events, "kernel")) == 7, events)
        r, events = profiled(folder + "/none", "true")
        check(events == [] and "no process of the program has called CUDA" in r.stderr, f"{events} {r.stderr}")


def summary():
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/profile.json"
        _, events = profiled(path, PROFILED)
        out = run(VCUDA, "profile", "summary", path).stdout
        rows = {m[2]: int(m[1]) for m in re.finditer(r"^ *[\d.]+ +[\d.]+ +(\d+) (?:.*  )(\S.*)$", out, re.M)}
        wanted = collections.Counter(e["name"] for e in events if e["ph"] == "X" and e["cat"] != "command")
        check(rows == wanted, f"{rows}\n{wanted}\n{out}")
        longest = max(e["dur"] for e in of_kind(events, "kernel") if e["name"] == "first")
        check(re.search(rf" {longest:.3f}  first$", out, re.M), out)
        check(all(abs(sum(float(m) for m in re.findall(r"^ *([\d.]+) +[\d.]+ +\d+ ", part, re.M)) - 100) < 1
                  for part in out.strip().split("\n\n")), out)
        with open(path, "w", encoding="ascii") as other:
            other.write("{}\n")
        check("has no events" in run(VCUDA, "profile", "summary", path, status=125).stderr, "another file has a summary")
        check("No such file" in run(VCUDA, "profile", "summary", folder + "/none", status=125).stderr, "no file has a summary")


def ranges():
    """NVTX, also in lines of --trace. Another tool that is asked for gets its ranges."""
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/profile.json"
        r, events = profiled(path, PROFILED)
        check(r.stdout == "0 1 0 1 0 0 -1\n", r.stdout)
        found = sorted((e["ph"], e["name"], e["args"].get("domain")) for e in events if e.get("cat") == "nvtx")
        outer, wide, long = 'outer "q" \ufffd\ufffd\ufffd\ufffd\ufffd', "wide \u00e4\u20ac", "\x01" * 1024
        check(found == sorted([("i", long, long), ("X", outer, None), ("X", wide, None), ("X", "registered", "a domain"), ("X", "in a thread", None),
                               ("i", "a mark", None), ("b", "started", None), ("e", "started", None)]), found)
        at = {e["name"]: e for e in events if e.get("cat") == "nvtx" and e["ph"] in "Xi"}
        check(len([e for e in events if e["name"] == long]) == 1, "a long name")
        check(at[outer]["ts"] <= at[wide]["ts"] <= at["registered"]["ts"] <= at["a mark"]["ts"], at)
        check(at[wide]["ts"] + at[wide]["dur"] <= at["registered"]["ts"] + at["registered"]["dur"] + 0.01, at)
        check(at["in a thread"]["tid"] != at[outer]["tid"], at)
        out = run(VCUDA, "profile", "summary", path).stdout
        check(re.search(r"^ *[\d.]+ +[\d.]+ +1 .*  started$", out.split("NVTX ranges\n")[1], re.M), out)
    lines = run(VCUDA, "run", "--backend", BACKEND, "--trace", "--", PROFILED, VCUDA_LOG="0").stderr.splitlines()
    check(len(lines) == 12 and re.fullmatch(r"\[\d+\] nvtx mark \"a mark\"", lines[3]), lines)
    check(re.fullmatch(r'\[\d+\] nvtx push "outer \\"q\\" .{2,5}"', lines[0]), lines)
    check(run(VCUDA, "run", "--backend", BACKEND, "--", PROFILED).stdout == "-2 -2 -2 -2 -2 -2 -2\n", "NVTX is on without a profile")
    r = run(VCUDA, "run", "--backend", BACKEND, "--trace", "--", PROFILED, NVTX_INJECTION64_PATH="/none", VCUDA_LOG="0")
    check(not r.stderr, r.stderr)


globals()[sys.argv[4]]()
