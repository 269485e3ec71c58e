#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`vcuda bench` on the software GPU: that it runs and what it writes, not how fast anything is.

usage: test-bench.py VCUDA BENCH_SCRIPTS SCENARIO
"""

import json
import math
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

VCUDA = os.path.abspath(sys.argv[1])
SCRIPTS = pathlib.Path(sys.argv[2])
sys.path.insert(0, str(SCRIPTS))

import schema

VIRTUAL = f"{shlex.quote(VCUDA)} run --backend cpu --"  # as the native side, where there is none

# A group, and one of its cases.
EXPECTED = {"launch": "launch_sync", "copy": "h2d_pageable_queued_4KiB", "memory": "alloc_free_async_1MiB", "event": "event_elapsed",
            "module": "module_large_new", "graph": "graph_sync_100", "start": "driver_program_start_to_exit",
            "processes": "copy_2p_1s_rate", "scale": "request_2p_1s_p99"}


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def bench(*args, status=0, **env):
    r = subprocess.run([VCUDA, "bench", *args], capture_output=True, text=True, env={**os.environ, **env}, check=False)
    check(r.returncode == status, f"{args}: status {r.returncode}, not {status}: {r.stdout[-2000:]}{r.stderr[-2000:]}")
    return r


def measured(folder, *args, **more):
    """The JSON results, and the cases by name."""
    file = folder / "results.json"
    r = bench("--quick", "--backend", "cpu", "--json", str(file), *args, **more)
    results = json.loads(file.read_text())
    check(not schema.mistakes(results), f"not the format of bench/results: {schema.mistakes(results)}")
    check(results["command"] == shlex.join(["vcuda", "bench", "--quick", "--backend", "cpu", "--json", str(file), *args]), results["command"])
    return r, results, {case["name"]: case for case in results["cases"]}


def check_case(case, sides, count):
    for side in sides:
        samples = case[side]["samples"]
        check(len(samples) == count, f"{case['name']}: {len(samples)} samples, not {count}")
        check(all(math.isfinite(sample) and sample >= 0 for sample in samples), f"{case['name']}: {samples}")
        check(case[side]["median"] == statistics.median(samples), f"{case['name']}: median of {samples} is {case[side]['median']}")
        check(case["unit"] in ("%", "MiB") or min(samples) > 0, f"{case['name']} takes no time: {samples}")


def check_table(text, results):
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ") and "| what |" not in line]
    names = [case["name"] for case in results["cases"]]
    check(rows[:len(names)] == names, f"the table has {rows}, not {names}")
    columns = {line.count("|") for line in text.splitlines() if line.startswith("|")}
    check(columns <= {4, 6}, f"lines of {columns} bars in the table")


def whole(folder):
    """All groups that need nothing but this build, and the virtual side alone."""
    table = folder / "table.md"
    r, results, cases = measured(folder, "--no-native", "--markdown", str(table), "--only", ",".join([*EXPECTED, "sgemm"]))
    check(results["sides"] == ["virtual"] and not results["failed"], results["failed"])
    check({"what": "native", "reason": "--no-native"} in results["skipped"], results["skipped"])
    for group, name in EXPECTED.items():
        check(name in cases and cases[name]["group"] == group, f"no {name} in {group}")
    for case in results["cases"]:
        repeats = 2 if case["group"] == "start" else 1
        check_case(case, ["virtual"], repeats)
        check(case["ratio"] is None, f"{case['name']} has a ratio without a native side")
    for what in ("shared", "resident_worker", "resident_process"):
        check(cases[f"request_2p_1s_{what}"]["virtual"]["median"] > 0, f"no memory as {what}")
    for what in ("cpu_process", "cpu_worker", "idle_cpu_process", "idle_cpu_worker"):
        check(f"request_2p_1s_{what}" in cases, f"nobody looked at {what}")
    machine = results["machine"]
    check("vCUDA" in machine["gpu"] and machine["backend"] == "cpu" and machine["transport"] == "local", machine)
    check(table.read_text() == r.stdout and "native" not in r.stdout.partition("* Left out")[0], "the table has a native side")
    check_table(r.stdout, results)


def both(folder):
    """Two sides, in turns: who is better by how much."""
    r, results, cases = measured(folder, "--native", VIRTUAL, "--rounds", "2", "--only", "launch,processes")
    check(results["sides"] == ["native", "virtual"] and not results["failed"], results)
    for case in results["cases"]:
        if case["name"].endswith("cpu_worker"):
            check("native" not in case, "native programs have no workers")
            continue
        check_case(case, ["native", "virtual"], 2 if case["group"] == "launch" else len(case["native"]["samples"]))
        native, virtual = case["native"]["median"], case["virtual"]["median"]
        if case["unit"] in ("us", "1/s"):
            better = virtual / native if case["unit"] == "1/s" else native / virtual
            check(math.isclose(case["ratio"], better), f"{case['name']}: {native} and {virtual} are {case['ratio']}")
    check("| what | unit | native | virtual | ratio |" in r.stdout and "| launch | 3 |" in r.stdout, r.stdout)
    check_table(r.stdout, results)


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def applications(folder):
    """Programs that others built: their own times, the folder that they run in, one that fails."""
    program(folder / "static/matrixMul/matrixMul", 'echo "Performance= 1 GFlop/s, Time= 7.25 msec, Size= 1"')
    program(folder / "static/transpose/transpose", "echo nothing of use")
    program(folder / "rodinia/cuda/nw/vcuda-program", '[ "$*" = "2048 10" ] && [ -f here ]')
    (folder / "rodinia/cuda/nw/here").touch()
    program(folder / "rodinia/cuda/lud/vcuda-program", "echo out of luck >&2; exit 3")
    _, results, cases = measured(folder, "--native", VIRTUAL, "--samples", str(folder), "--rodinia", str(folder), "--only",
                                 "samples,rodinia", status=1)
    check(cases["matrixMul"]["virtual"]["samples"] == [7.25] and cases["matrixMul"]["unit"] == "ms", cases)
    check(cases["matrixMul"]["ratio"] == 1, cases["matrixMul"])
    check_case(cases["nw_start_to_exit"], ["native", "virtual"], 1)
    failed = {entry["what"]: entry["reason"] for entry in results["failed"]}
    check(failed == {"samples: transpose": "it printed no time of its own", "rodinia: lud": "out of luck"}, failed)


def missing(folder):
    """Missing parts are named. Without matplotlib nothing is measured; without a side or the samples the rest is."""
    (folder / "matplotlib.py").write_text("raise ImportError\n")
    r = bench("--quick", "--only", "launch", "--json", str(folder / "results.json"), "--plots", str(folder / "plots"), status=125,
              PYTHONPATH=str(folder))
    check("--plots needs matplotlib" in r.stderr and "python3-matplotlib" in r.stderr and "round 1" not in r.stderr, r.stderr)
    check(not (folder / "plots").exists() and not (folder / "results.json").exists(), "files are left where nothing was measured")
    r, results, _ = measured(folder, "--native", "false", "--only", "launch,samples")
    check(results["sides"] == ["virtual"] and len(results["cases"]) == 3, results)
    skipped = {entry["what"]: entry["reason"] for entry in results["skipped"]}
    check(skipped == {"native": "exit status 1", "samples": "--samples DIR is not given"}, skipped)
    r = bench("--quick", "--virtual", "false", status=125)
    check("nothing runs on the virtual side" in r.stderr, r.stderr)


def example_results(file):
    """As --json writes them, with three samples a side."""
    def case(group, name, unit, native, virtual):
        entry = {"group": group, "name": name, "unit": unit, "native": {"samples": native}}
        return {**entry, **({"virtual": {"samples": virtual}} if virtual else {})}

    machine = {"cpu": "a processor", "cores": 2, "memory_gib": 4, "kernel": "6.1", "gpu": "Test GPU 9000", "driver": "580.1", "cuda": "13.0",
               "backend": "cuda", "transport": "local", "version": "9.9", "commit": None, "date": "2026-05-04T03:02:01+00:00"}
    cases = [case("launch", "launch_sync", "us", [4, 5, 6], [8, 10, 40]), case("copy", "h2d_pinned_4KiB", "us", [2, 2, 2], [1, 1, 2]),
             case("copy", "h2d_pinned_1MiB", "GB/s", [10, 11, 12], [5, 5.5, 6]), case("copy", "d2h_pinned_4KiB", "us", [2, 2, 2], None),
             case("scale", "request_1p_1s_rate", "1/s", [100, 110, 120], [90, 95, 99]), case("scale", "request_2p_1s_rate", "1/s", [90], [80])]
    file.write_text(json.dumps({"format": 1, "machine": machine, "sides": ["native", "virtual"], "cases": cases,
                                "skipped": [{"what": "samples", "reason": "not asked for"}], "failed": []}))


def saved(folder):
    """--from: the table of saved results, and measures nothing."""
    file, table = folder / "saved.json", folder / "table.md"
    example_results(file)
    text = bench("--from", str(file), "--markdown", str(table), VCUDA_DAEMON="/dev/null/vcudad").stdout
    check(text == table.read_text(), "the table is not what is printed")
    for line in ("| launch_sync | us | 5 (4–6) | 10 (8–40) | 0.50 |", "| h2d_pinned_1MiB | GB/s | 11 (10–12) | 5.5 (5–6) | 0.50 |",
                 "| d2h_pinned_4KiB | us | 2 (2–2) | – | – |", "* Left out: samples: not asked for"):
        check(line in text, f"no {line!r} in {text}")
    check("Test GPU 9000, driver 580.1" in text and "2026-05-04" in text, text)
    # Results of its own are read back as they were.
    r, _, _ = measured(folder, "--no-native", "--only", "launch")
    check(bench("--from", str(folder / "results.json")).stdout == r.stdout, "another table of the same results")
    (folder / "other.json").write_text('{"rows": {}}\n')
    (folder / "newer.json").write_text('{"format": 2}\n')
    for arguments, said in {("--from", str(folder / "nosuch")): "nosuch: No such file", ("--from", str(folder / "other.json")): "no results of",
                            ("--from", str(folder / "newer.json")): "has the format 2", ("--from", str(table)): "no results of",
                            ("--from", str(file), "--quick"): "--quick has no meaning", ("--from", str(file), "--json", "x"): "--json has no"}.items():
        r = bench(*arguments, status=125)
        check(said in r.stderr and "Traceback" not in r.stderr, f"{arguments}: {r.stderr}")


def pictures(folder):
    """--plots of saved results: device, date, ratios and spread are there."""
    if subprocess.run(["python3", "-c", "import matplotlib"], capture_output=True, check=False).returncode:
        print("SKIPPED: this Python has no matplotlib (Debian's package python3-matplotlib)")
        sys.exit(77)
    example_results(folder / "saved.json")
    (folder / "matplotlibrc").write_text("svg.fonttype: none\n")  # text stays text
    r = bench("--from", str(folder / "saved.json"), "--plots", str(folder / "new/plots"), MATPLOTLIBRC=str(folder / "matplotlibrc"))
    check(sorted(os.listdir(folder / "new/plots")) == ["bandwidth.svg", "ratios.svg", "scale.svg"], r.stderr)
    for name in ("bandwidth", "ratios", "scale"):
        text = (folder / f"new/plots/{name}.svg").read_text()
        check("Test GPU 9000" in text and "2026-05-04" in text, f"{name}: no device or date")
    text = (folder / "new/plots/ratios.svg").read_text()
    check("launch: launch_sync" in text and ">0.50<" in text and ">2.00<" in text, "ratios: no case or ratio")
    check("d2h_pinned" not in text, "ratios: a case without two sides")
    import report
    rows = {row["name"]: row for row in report.read(folder / "saved.json").rows()}
    check(report.ratio_range(rows["launch_sync"]) == (0.1, 0.75), report.ratio_range(rows["launch_sync"]))
    check(report.ratio_range(rows["h2d_pinned_1MiB"]) == (5 / 12, 0.6), report.ratio_range(rows["h2d_pinned_1MiB"]))
    r = bench("--from", str(folder / "saved.json"), "--plots", "/dev/null/x", status=125)
    check("--plots: /dev/null/x: Not a directory" in r.stderr, r.stderr)


def usage(folder):
    for arguments, said in {("--only", "launch,dance"): "there is no group 'dance'; there are launch, copy",
                            ("--rounds", "0"): "'0' is not above 0",
                            ("--json", "/dev/null/x"): "cannot write to /dev/null/x: Not a directory",
                            ("--samples", "/dev/null/x"): "there is no folder /dev/null/x",
                            ("--vector-add", "/dev/null/x"): "there is no program /dev/null/x",
                            ("--backend", "gpu"): "invalid choice: 'gpu'",
                            ("--nope",): "unrecognized arguments: --nope"}.items():
        r = bench(*arguments, status=125)
        check(r.stderr.startswith("vcuda: bench: ") and said in r.stderr, f"{arguments}: said {r.stderr!r}")
    text = bench("--help").stdout
    check(text.startswith("usage: vcuda bench") and all(f"\n  {group} " in text for group in EXPECTED), text)
    check("--parts" not in text, "the help shows what is not the user's")
    r = bench("--quick", status=125, VCUDA_DAEMON="/dev/null/vcudad")
    check("/dev/null/vcudad" in r.stderr and "Traceback" not in r.stderr, r.stderr)


def watch(folder):
    """Processor time is seen of threads too, also of a thread that has ended, and none of who sleeps."""
    import watch as watcher
    spin = ("import threading, time\ndef spin():\n while time.thread_time() < 0.7: pass\n"
            "thread = threading.Thread(target=spin)\nthread.start()\nthread.join()\nprint(flush=True)\ntime.sleep(60)")
    busy = subprocess.Popen([sys.executable, "-c", spin], stdout=subprocess.PIPE)
    idle = subprocess.Popen(["sleep", "60"])
    try:
        deadline = time.monotonic() + 60
        while watcher.cpu_seconds(busy.pid) < 0.5 and time.monotonic() < deadline:
            time.sleep(0.05)
        check(watcher.cpu_seconds(busy.pid) >= 0.5, "a thread that spins costs nothing")
        busy.stdout.readline()
        check(watcher.cpu_seconds(busy.pid) >= 0.7, "the time of a thread goes with the thread")
        check(watcher.cpu_seconds(idle.pid) < 0.1, "a process that sleeps costs something")
        check(idle.pid in watcher.descendants(os.getpid()), "a child is not seen")
        check(watcher.name_of(idle.pid) == os.path.basename(os.path.realpath(f"/proc/{idle.pid}/exe")), "not its name")
    finally:
        for process in (busy, idle):
            process.kill()
            process.wait()
    check(watcher.cpu_seconds(busy.pid) is None, "a process that is gone has times")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        globals()[sys.argv[3]](pathlib.Path(directory))
