#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mistakes in a description of BLAS end at their line, with words: blas-mistakes.py"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GOOD = "routine 1 axpy Saxpy/S\n\tsize n any\n\tscalar alpha\n\tvector x n any\n\tvector y n out any\n"
# (a description, the line, part of what is said)
BAD = [
    ("routine axpy Saxpy/S\n", 1, "a routine is"),
    ("routine 1 axpy Saxpy/Q\n", 1, "the types are S D C Z"),
    ("routine 1 axpy Saxpy\n", 1, "a variant is NAME/TYPE"),
    ("routine 1 axpy " + "Saxpy/S " * 9 + "\n", 1, "more than 8"),
    (GOOD + "routine 1 copy Scopy/S\n", 6, "stands twice"),
    (GOOD + "routine 2 axpy Saxpy/S\n", 6, "stands twice"),
    (GOOD + "\tsize n\n", 6, "'n' stands twice"),
    ("\tsize n\n", 1, "outside of a routine"),
    (GOOD + "\tvector z m\n", 6, "'m' is no size"),
    (GOOD + "\tvector z\n", 6, "not vector"),
    (GOOD + "\tvector z n inout\n", 6, "not vector"),
    (GOOD + "\tmatrix A op?n:n n\n", 6, "is not OPTION?A:B"),
    (GOOD + "\tnumber z\n", 6, "unknown parameter"),
    (GOOD + "\tbatch axpy pointers\n", 6, "a batch is"),
    (GOOD + "routine 2 many =Many/S\n\tbatch copy pointers\n", 7, "a batch is"),
    (GOOD + "routine 2 many =Many/S\n\tbatch axpy both\n", 7, "a batch is"),
    (GOOD + "\telements z 1 some\n", 6, "not elements"),
    (GOOD + "\tcount batch 1\n", 6, "not count"),
    (GOOD + "\tresult whole\n", 6, "a result is"),
    (GOOD + "\tresult same\n\tresult same\n", 7, "a result is"),
]


def generate(text):
    with tempfile.NamedTemporaryFile("w", suffix=".api") as f:
        f.write(text)
        f.flush()
        r = subprocess.run([sys.executable, ROOT / "protocol/blas.py", "blas-table.c", f.name], capture_output=True, text=True, check=False)
        return r, f.name


def main():
    failures = 0
    r, _ = generate(GOOD)
    if r.returncode or "cublasSaxpy_v2" not in r.stdout:
        print(f"FAIL: a good description: {r.stderr}")
        failures += 1
    for text, line, words in BAD:
        r, name = generate(text)
        if r.returncode != 1 or r.stdout or not r.stderr.startswith(f"{name}:{line}: ") or words not in r.stderr:
            print(f"FAIL: expected line {line}, '{words}': {r.returncode}, {r.stderr!r}")
            failures += 1
    return failures


sys.exit(1 if main() else 0)
