#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fields that are set and put back around a call are found: test-check-saved-fields.py"""
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parents[3] / "scripts/check-saved-fields.py"

SETTERS = """
void enter(struct context *context)
{
	libcuda_thread()->context = context;
}

void leave(void)
{
	libcuda_thread()->context = NULL;
}
"""


def function(body, before=""):
    return f"{before}\nint run(struct box *b, int new)\n{{\n\t{body}\n\treturn 0;\n}}\n"


# (what is in the file, its text, the places that are found)
CASES = [
    ("a field that is saved and restored", function("int old = b->way;\n\tb->way = new;\n\tcall(b);\n\tb->way = old;"), ["x.c:7: run() sets b->way"]),
    ("a field that is saved where a pointer points", function("*old = b->way;\n\tb->way = new;\n\tcall(b);\n\tb->way = *old;"),
     ["x.c:7: run() sets b->way"]),
    ("a field that is restored on one way",
     function("int old = b->in.way;\n\tb->in.way = new;\n\tif (call(b))\n\t\tb->in.way = old;"), ["x.c:7: run() sets b->in.way"]),
    ("nothing: no call in between", function("int old = b->way;\n\tb->way = new;\n\tb->way = old;\n\tcall(b);"), []),
    ("nothing: a position that the callee moves", function("int old = b->way;\n\tif (call(b))\n\t\tb->way = old;"), []),
    ("nothing: a flag of an object", function("b->busy = true;\n\tcall(b);\n\tb->busy = false;"), []),
    ("nothing: in a comment", function("/* b->way = new; call(b); */\n\tint old = b->way;\n\tcall(b);\n\tb->way = old;"), []),
    ("a flag of the thread", function("libcuda_thread()->sync = true;\n\tcall(b);\n\tlibcuda_thread()->sync = false;"), ["x.c:6: run() sets libcuda_thread()->sync"]),
    ("a flag of the thread by another name",
     function("struct libcuda_thread *t = libcuda_thread();\n\n\tt->sync = true;\n\tcall(b);\n\tt->sync = false;"), ["x.c:8: run() sets libcuda_thread()->sync"]),
    ("a _Thread_local flag", function("deep = true;\n\tcall(b);\n\tdeep = false;", "static _Thread_local bool deep;\n"), ["x.c:7: run() sets deep"]),
    ("nothing: a value of the thread that stays", function("libcuda_thread()->last = NULL;\n\tcall(b);\n\tlibcuda_thread()->last = b;"), []),
    ("nothing: that the thread runs the program's function",
     function("libcuda_thread()->in_callback = true;\n\tcall(b);\n\tlibcuda_thread()->in_callback = false;"), []),
    ("setters", function("enter(b->context);\n\tcall(b);\n\tleave();", SETTERS), ["x.c:14: run() calls enter(), which sets libcuda_thread()->context"]),
    ("the second setter alone", function("enter_both(b);\n\tcall(b);\n\tleave();", SETTERS), ["x.c:16: run() calls leave()"]),
]


def main():
    failures = 0
    for what, text, expected in CASES:
        with tempfile.TemporaryDirectory() as root:
            path = pathlib.Path(root, "guest/libcuda/x.c")
            path.parent.mkdir(parents=True)
            path.write_text(text)
            result = subprocess.run([sys.executable, CHECK, root], capture_output=True, text=True, check=False)
        found = result.stdout.splitlines()[:-1]
        fits = len(found) == len(expected) and all(f"guest/libcuda/{place}" in line for line, place in zip(found, expected))
        if not fits or result.returncode != bool(expected) or result.stderr:
            print(f"FAIL: {what}: exit status {result.returncode}\n{result.stdout}{result.stderr}expected: {expected}")
            failures += 1
    print(f"{len(CASES)} files, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
