#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs a sample of a Python package's own tests, each file in a process of its own, under vcuda.

    client-tests.py --python PYTHON --out DIR [--each N] [--skip N] [--limit SECONDS] [--total SECONDS]
                    [--native] [--path DIR] FILE...

PYTHON belongs to an environment that has the package and pytest. FILE is a file of tests, or a module
with --pyargs. At most N tests of each file run (--each, all by default), spread evenly over it; --skip
moves the choice by N, so that another run takes other tests. A file has --limit seconds, all together have
--total. DIR/results.jsonl gets a line for each test: file, test, outcome, seconds, the last line of the
error. DIR/FILE.err is what the file's process wrote to standard error. Files that DIR has results of are
not run again. The last lines count the outcomes, and the lines that our library or worker wrote.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OUR_LINE = re.compile(r"^(vcuda[\w-]*|vcudad)(\[\d+\])?: ")


# ---- inside of pytest: `-p client_tests_plugin` loads this file under that name ----


def pytest_collection_modifyitems(config, items):
    """Keeps the sample."""
    each, skip = int(os.environ["CLIENT_TESTS_EACH"]), int(os.environ["CLIENT_TESTS_SKIP"])
    if 0 < each < len(items):
        step = len(items) / each
        items[:] = [items[(int(i * step) + skip) % len(items)] for i in range(each)]


def pytest_runtest_logstart(nodeid, location):
    write_result({"test": nodeid, "outcome": "started"})


def pytest_runtest_logreport(report):
    """One line for each test: that of its call, or of a set-up or an end that was no success."""
    if report.when != "call" and report.passed:
        return
    if report.when != "call" and report.skipped or report.when == "call" or report.failed:
        error = str(report.longrepr).strip().splitlines()[-12:] if report.failed else []
        why = [x for x in error if x.startswith("E ")] or error
        write_result({"test": report.nodeid, "outcome": report.outcome, "seconds": round(report.duration, 2),
                      "error": " | ".join(why)[-600:]})


def write_result(line):
    with open(os.environ["CLIENT_TESTS_RESULTS"], "a", encoding="utf-8") as f:
        f.write(json.dumps(line) + "\n")


# ---- outside ----


def command(options, file):
    native = [] if options.native else [str(ROOT / options.build / "cli/vcuda"), "run", "--backend", options.backend, "--"]
    return native + [options.python, "-m", "pytest", "-q", "-x" if options.first else "-q", "-p", "client_tests_plugin",
                     "-p", "no:cacheprovider", *options.pytest.split(), file]


def run_file(options, file, limit):
    """Runs the tests of a file. Returns the lines of its results."""
    name = re.sub(r"\W+", "_", file).strip("_")
    results = options.out / f"{name}.jsonl"
    results.unlink(missing_ok=True)
    environment = os.environ | {"CLIENT_TESTS_EACH": str(options.each), "CLIENT_TESTS_SKIP": str(options.skip),
                                "CLIENT_TESTS_RESULTS": str(results),
                                "PYTHONPATH": f"{options.out}:{os.environ.get('PYTHONPATH', '')}"}
    start = time.monotonic()
    with open(options.out / f"{name}.out", "w") as out, open(options.out / f"{name}.err", "w") as err:
        p = subprocess.Popen(command(options, file), stdout=out, stderr=err, cwd=options.path, env=environment,
                             start_new_session=True)
        try:
            end = f"exit {p.wait(limit)}"
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            end = "time limit"
    last = {}
    for text in results.read_text().splitlines() if results.exists() else []:
        line = json.loads(text)
        if line["outcome"] != "started" or line["test"] not in last:
            last[line["test"]] = line
    for line in last.values():
        line["file"] = file
        if line["outcome"] == "started":
            line.update(outcome="time limit" if end == "time limit" else "crashed", error=end)
    last = last or {"": {"file": file, "test": file, "outcome": "no test", "error": end}}
    with open(options.out / "results.jsonl", "a", encoding="utf-8") as f:
        f.writelines(json.dumps(x) + "\n" for x in last.values())
    counts = collections.Counter(x["outcome"] for x in last.values())
    print(f"{file}: {dict(counts)}, {end}, {time.monotonic() - start:.0f} s", flush=True)
    return list(last.values())


def our_lines(folder):
    """The lines of our library and worker on standard error, with numbers left out, counted."""
    found = collections.Counter()
    for path in folder.glob("*.err"):
        for line in path.read_text(errors="replace").splitlines():
            if OUR_LINE.match(line):
                found[re.sub(r"0x[0-9a-f]+|\d+", "N", line)] += 1
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--build", default="build")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--path", default=".", help="the folder in which pytest runs")
    parser.add_argument("--pytest", default="", help="more arguments of pytest's")
    parser.add_argument("--each", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--limit", type=float, default=200)
    parser.add_argument("--total", type=float, default=1e9)
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--first", action="store_true", help="a file ends with its first failure")
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    plugin = options.out / "client_tests_plugin.py"
    plugin.unlink(missing_ok=True)
    plugin.symlink_to(pathlib.Path(__file__).resolve())
    table = options.out / "results.jsonl"
    done = {json.loads(x)["file"] for x in table.read_text().splitlines()} if table.exists() else set()
    start = time.monotonic()
    for file in options.files:
        left = options.total - (time.monotonic() - start)
        if left <= 0:
            print("the time is over; files that are left: from", file)
            break
        if file not in done:
            run_file(options, file, min(options.limit, left))
    everything = [json.loads(x) for x in table.read_text().splitlines()]
    for line in everything:
        if line["outcome"] not in ("passed", "skipped"):
            print(f"{line['outcome']}: {line['test']}: {line.get('error', '')}")
    print(dict(collections.Counter(x["outcome"] for x in everything)))
    for line, count in our_lines(options.out).most_common(40):
        print(f"{count} x {line}")


if __name__ == "__main__":
    main()
