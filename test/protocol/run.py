#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of protocol/generate.py, protocol/functions.py and guest/libcudart/twins.py.

run.py golden            every kind of output for golden/shapes.* is exactly the file beside it
run.py bad               every input in bad/ fails at the line, and with the words, that its first line expects
run.py --update          writes the expected output anew; read the difference before you commit it
"""

import difflib
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
GENERATOR = HERE.parent.parent / "protocol" / "generate.py"
FUNCTIONS = GENERATOR.with_name("functions.py")
TWINS = GENERATOR.parent.parent / "guest" / "libcudart" / "twins.py"
SHAPES = HERE / "golden" / "shapes.api"
NAMES = HERE / "golden" / "shapes.names"
RUNTIME_NAMES = HERE / "golden" / "runtime-names.txt"
KINDS = ["calls.h", "codec.c", "guest-calls.h", "guest-calls.c", "guest-api.c", "backend.h", "handlers.h", "dispatch.c", "coverage.md", "codec-test.c"]
FUNCTION_KINDS = ["cuda-functions.h", "entries.c", "per-thread.c", "refused-names.txt"]
TWIN_KINDS = ["twins.h", "twins.c"]


def run(script, kind, *inputs):
    return subprocess.run([sys.executable, script, kind, *inputs], capture_output=True, text=True, check=False)


def generate(kind):
    if kind in TWIN_KINDS:
        return run(TWINS, kind, NAMES.with_suffix(".twins"), RUNTIME_NAMES, NAMES, SHAPES)
    return run(FUNCTIONS, kind, NAMES, SHAPES) if kind in FUNCTION_KINDS else run(GENERATOR, kind, SHAPES)


def expected_file(kind):
    return HERE / "golden" / f"shapes-{kind}.expected"


def golden(update):
    failures = 0
    for kind in KINDS + FUNCTION_KINDS + TWIN_KINDS:
        result = generate(kind)
        if result.returncode != 0:
            print(f"FAIL {kind}: {result.stderr.strip()}")
            failures += 1
        elif update:
            expected_file(kind).write_text(result.stdout, encoding="utf-8")
        else:
            want = expected_file(kind).read_text(encoding="utf-8")
            if result.stdout != want:
                diff = difflib.unified_diff(want.splitlines(True), result.stdout.splitlines(True), f"expected {kind}", "generated")
                sys.stdout.writelines(diff)
                print(f"FAIL {kind}: differs; if the change is wanted: test/protocol/run.py --update")
                failures += 1
    return failures


def check_usage():
    """A wrong command line and a missing file are told apart from a wrong description."""
    failures = 0
    for script, command, status in ((GENERATOR, [""], 2), (GENERATOR, ["no-such-kind", SHAPES], 2), (GENERATOR, ["calls.h", HERE / "no-such.api"], 1),
                                    (FUNCTIONS, ["no-such-kind", NAMES, SHAPES], 2), (FUNCTIONS, ["entries.c", HERE / "no-such.names", SHAPES], 1)):
        result = run(script, *command)
        if result.returncode != status or result.stdout or not result.stderr or "Traceback" in result.stderr:
            print(f"FAIL {command}: status {result.returncode}, {result.stderr!r}")
            failures += 1
    return failures


def refuse(path):
    """The answer of the script that reads such an input."""
    if path.suffix == ".names":
        return run(FUNCTIONS, "entries.c", path, SHAPES)
    if path.suffix == ".twins":
        return run(TWINS, "twins.c", path, RUNTIME_NAMES, NAMES, SHAPES)
    return run(GENERATOR, "calls.h", path)


def bad():
    failures = check_usage()
    files = sorted((HERE / "bad").iterdir())
    for path in files:
        expect = re.match(r"# expect: (\d+): (.+)", path.read_text(encoding="utf-8").splitlines()[0])
        if not expect:
            print(f"FAIL {path.name}: its first line is not '# expect: LINE: text'")
            failures += 1
            continue
        want = f"{path}:{expect[1]}: {expect[2]}"
        result = refuse(path)
        if result.returncode != 1 or result.stdout or not result.stderr.startswith(want):
            print(f"FAIL {path.name}: expected '{want}', got status {result.returncode}, {result.stderr.strip()!r}")
            failures += 1
    print(f"{len(files)} bad inputs")
    return failures + (not files)


def newest(names, addresses):
    with tempfile.TemporaryDirectory() as folder:
        paths = [pathlib.Path(folder, name) for name in ("names.txt", "proc-addresses.txt")]
        for path, lines in zip(paths, (names, addresses)):
            path.write_text("".join(line + "\n" for line in lines), encoding="ascii")
        return subprocess.run([sys.executable, FUNCTIONS.with_name("newest.py"), *paths], capture_output=True, text=True, check=False)


def check_newest():
    """The newest version is the last before the first of which something is missing; refused functions count as there."""
    names = ["cuOne 1000", "cuTwo 2000 (int n)", "cuTwo_v2 2010 (int n)", "cuTwo_v2_ptsz 2010", "cuFour 4000", "cuNone -"]
    addresses = ["# a comment", "cuOne 1000", "cuTwo 2000", "cuTwo 2010", "cuTwo_ptsz 2010"]
    failures = 0
    for more, expected in (([], 2010), (["cuFour 4000"], 4000), (["cuThree 3000", "cuFour 4000"], 2010), (["cuOne_ptsz 1000"], 0),
                           (["cuNone 3000", "cuFour 4000"], 2010), (["cuTwo 2020"], 2010)):
        result = newest(names, addresses + more)
        if result.returncode or not result.stdout.endswith(f"VCUDA_NEWEST_CUDA {expected}\n"):
            print(f"FAIL newest version with {more}: not {expected}: {result.stdout}{result.stderr}")
            failures += 1
    result = newest(names, ["cuOne"])
    if result.returncode != 1 or ":1: a line is: NAME VERSION" not in result.stderr:
        print(f"FAIL newest version: {result.stderr!r}")
        failures += 1
    return failures


def main(argv):
    if argv == ["--update"]:
        return golden(update=True)
    if argv == ["golden"]:
        return golden(update=False) + check_newest()
    if argv == ["bad"]:
        return bad()
    sys.stderr.write(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1:]) else 0)
