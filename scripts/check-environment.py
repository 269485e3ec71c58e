#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doc/reference/environment.md names the environment variables that the code reads, and no others.

usage: check-environment.py      (the test "environment")

A variable counts as read where the code of the product has its name as a whole string, or a shell script expands it.
"""
import os
import re
import sys

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAGE = "doc/reference/environment.md"
C_FOLDERS = ("cli", "common", "guest", "host", "integrations", "softgpu")
SHELL_FOLDERS = ("scripts", "packaging", "integrations", "guest/driver")
IN_C = re.compile(r'"(VCUDA_[A-Z0-9_]+|CUDA_[A-Z_]+)=?"')
IN_SHELL = re.compile(r"\$\{?(VCUDA[A-Z0-9_]*)")
IN_PAGE = re.compile(r"`((?:VCUDA|CUDA_)[A-Z0-9_]*)(?:=\w+)?`")
# Set by one part of the product for another, or for its tests.
INTERNAL = {"VCUDA_INIT_COMMAND", "VCUDA_INIT_DRIVER", "VCUDA_INIT_LIBDIR", "VCUDA_INIT_LIBRARIES", "VCUDA_TEST_GROUPS", "VCUDA_TEST_VIEW"}
# Words in messages and in names of symbols that are no variables.
OTHER = re.compile(r"CUDA_(ERROR|SUCCESS|R_|C_|ARRAY|LIMIT)\w*|VCUDA_\w*(BYTES|MAGIC)\w*")
# Variables of tests and of the kernel's build, whose files this script does not read.
ELSEWHERE = {"VCUDA_TEST_SEED", "VCUDA_TEST_CASE", "VCUDA_DRIVER_SOURCE"}


def read(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def files(folders, suffixes):
    for folder in folders:
        for directory, below, names in os.walk(os.path.join(TREE, folder)):
            below[:] = [name for name in below if name not in ("test", "bench")]
            yield from (os.path.join(directory, name) for name in names if name.endswith(suffixes))


def main():
    found = {}
    for folders, suffixes, pattern in ((C_FOLDERS, (".c", ".h", ".cpp", ".py"), IN_C), (SHELL_FOLDERS, "", IN_SHELL)):
        for path in files(folders, suffixes):
            for name in pattern.findall(read(path)):
                if not OTHER.fullmatch(name):
                    found.setdefault(name, os.path.relpath(path, TREE))
    page = set(IN_PAGE.findall(read(os.path.join(TREE, PAGE))))
    bad = [f"{found[name]}: {PAGE} does not name {name}" for name in sorted(set(found) - INTERNAL - page)]
    bad += [f"{PAGE}: no code reads {name}" for name in sorted(page - set(found) - ELSEWHERE)]
    bad += [f"check-environment.py: INTERNAL names {name}, which no code has" for name in sorted(INTERNAL - set(found))]
    print("\n".join(bad) or f"{len(page)} variables")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
