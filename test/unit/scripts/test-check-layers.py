#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Violations of layers, made in a small tree, are found and explained: test-check-layers.py"""
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parents[3] / "scripts/check-layers.py"

TABLE = """
common < protocol < core < {memory,stream} < app
app + stream/test/tool.h
core < stream/test
common ! protocol/*-abi.h
stream ! protocol/*-abi.h
"""
# A tree without violations. Folders include folders below them, and files beside them by their names alone.
GOOD = {
    "scripts/layers.txt": TABLE,
    "scripts/layers-known.txt": "",
    "common/log.h": "",
    "common/log.c": '#include "log.h"\n',
    "protocol/cuda-abi.h": "typedef int CUresult;\n",
    "build/protocol/calls.h": '#include "protocol/cuda-abi.h"\n',
    "core/object.h": '#include "calls.h"\n#include "common/log.h"\n',
    "core/object.c": '#include "core/object.h"\n',
    "memory/memory.h": '#include "core/object.h"\n',
    "memory/memory.c": '#include "memory.h"\n',
    "stream/stream.h": "",
    "stream/stream.c": '#include "stream.h"\n#include "common/log.h"\n',
    "stream/test/tool.h": "",
    "app/main.c": '#include "stream/stream.h"\n#include "memory/memory.h"\n#include "stream/test/tool.h"\n',
}
NINJA = """
rule cc
  command = cc -I. -I.. -Iprotocol -include stddef.h -MD -MF $out.d -c $in -o $out
  depfile = $out.d
  deps = gcc
"""
# {build}: the absolute path of the build directory.
ABSOLUTE = NINJA.replace("-Iprotocol", "-I{build}/protocol")
UPWARD = {"core/object.c": '/* A comment. */\n#include "memory/memory.h"\n'}
SIDEWAYS = {"memory/memory.c": '#include "memory.h"\n#include "stream/stream.h"\n'}
ENTRY = "core/object.c includes memory/memory.h"
GUARDED = "#ifndef {0}\n#define {0}\n{1}#endif\n"


def many(folder, count):
    return {f"{folder}/file-{i}.h": "" for i in range(count)}


# (what is wrong, changes of the tree, options, lines of the output by their parts; none: the check passes)
CASES = [
    ("nothing", {}, [], []),
    ("a higher folder", UPWARD, [],
     [["core/object.c:2: includes memory/memory.h,", "scripts/layers.txt puts memory above core", "move the declaration"]]),
    ("a folder beside", SIDEWAYS, [], [["memory/memory.c:2: includes stream/stream.h,", "puts stream beside memory, not below"]]),
    ("a header for another folder alone", {"memory/memory.c": '#include "stream/test/tool.h"\n'}, [],
     [["memory/memory.c:1: includes stream/test/tool.h"]]),
    ("a folder that is not in the table", {"extra/new.c": ""}, [], [["extra/new.c: the folder extra is not in scripts/layers.txt: add"]]),
    ("a header of the CUDA toolkit", {"build/cuda.h": "", "core/object.c": '#include "core/object.h"\n#include <cuda.h>\n'}, [],
     [["core/object.c:2: includes cuda.h of the CUDA toolkit", "include protocol/cuda-functions.h"]]),
    ("a cycle of headers",
     {"core/object.h": GUARDED.format("A", '#include "core/part.h"\n'), "core/part.h": GUARDED.format("B", '#include "object.h"\n')}, [],
     [["core/object.h:3: includes itself: core/object.h -> core/part.h -> core/object.h", "move what both files need"]]),
    ("nothing: a header with its .c file", {"core/object.h": GUARDED.format("A", '#include "object.c"\n')}, [], []),
    ("a CUDA type in common", {"common/log.c": '#include "calls.h"\n'}, [],
     [["common/log.c:1: includes build/protocol/calls.h,"],
      ["common/log.c:1: includes build/protocol/calls.h -> protocol/cuda-abi.h, which no file of common may reach"]]),
    ("a CUDA type in common, which another such folder includes", {"common/log.h": '#include "calls.h"\n'}, [],
     [["common/log.h:1: includes build/protocol/calls.h,"], ["common/log.h:1: includes build/protocol/calls.h -> protocol/cuda-abi.h"]]),
    ("a generated header by its absolute path", {"build/build.ninja": ABSOLUTE}, [],
     [["build/protocol/calls.h: a compilation found this header by its absolute path", "-I."]]),
    ("41 files", many("memory", 39), [], [["memory: has 41 .c and .h files, more than 40: move"]]),
    ("nothing: 40 files", many("memory", 38), [], []),
    ("nothing: 60 files of tests", many("stream/test", 60), [], []),
    ("a folder below itself", {"scripts/layers.txt": TABLE + "app < core\n"}, [],
     [[f"scripts/layers.txt: the lines together put {folder} below itself"] for folder in ("app", "core", "memory", "stream")]),
    ("a folder without files", {"scripts/layers.txt": TABLE + "core < gone\n"}, [], [["scripts/layers.txt: gone has no .c or .h file"]]),
    ("nothing: a known violation", UPWARD | {"scripts/layers-known.txt": f"# Known.\n{ENTRY} # a reason\n"}, [], []),
    ("a known violation without a reason", UPWARD | {"scripts/layers-known.txt": f"{ENTRY}\n"}, [],
     [[f"scripts/layers-known.txt: {ENTRY}: has no reason"]]),
    ("a known violation that is gone", {"scripts/layers-known.txt": f"{ENTRY} # a reason\n"}, [],
     [[f"scripts/layers-known.txt: {ENTRY}: no such violation exists any more: remove the entry"]]),
    ("nothing: a known violation that this build does not compile",
     {"core/other.c": "", "scripts/layers-known.txt": "core/other.c includes memory/memory.h # a reason\n"}, [], []),
    ("a new violation beside one that is gone", SIDEWAYS | {"scripts/layers-known.txt": f"# Known.\n{ENTRY} # a reason\n"}, ["--update"],
     [["memory/memory.c:2: includes stream/stream.h"]]),
]


def make_tree(root, changes):
    files = GOOD | changes
    rules = files.pop("build/build.ninja", NINJA).replace("{build}", str(root / "build"))
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    compiled = [name for name in files if name.endswith(".c") and name != "core/other.c"]
    (root / "build/build.ninja").write_text(rules + "".join(f"build {name}.o: cc ../{name}\n" for name in compiled))
    subprocess.run(["ninja", "-C", root / "build"], check=True, stdout=subprocess.DEVNULL)


def failure_of(root, options, expected):
    """None, or why the output is not the expected one."""
    command = [sys.executable, CHECK, "--root", root, *options, root / "build"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = result.stdout.splitlines()[:-1]
    fits = len(errors) == len(expected) and all(all(part in error for part in parts) for error, parts in zip(errors, expected))
    if fits and result.returncode == bool(expected) and not result.stderr:
        return None
    return f"exit status {result.returncode}\n{result.stdout}{result.stderr}expected: {expected}"


def main():
    failures = 0
    for what, changes, options, expected in CASES:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            make_tree(root, changes)
            failure = failure_of(root, options, expected)
            if options and (root / "scripts/layers-known.txt").read_text() != "# Known.\n":
                failure = "--update did not remove the entry, or added one"
            if failure:
                print(f"FAIL: {what}: {failure}")
                failures += 1
    print(f"{len(CASES)} trees, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
