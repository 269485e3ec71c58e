#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The check of the how-tos finds commands without a test and tests that do not exist: test-check-howto.py"""
import json
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parents[3] / "scripts/check-howto.py"

GOOD = {
    "doc/howto/a.md": "# A\n\nText:\n\n    make all    # builds\n    make more\n\n    make rest\n\n* A list:\n\n      vcuda smi\n\nBy\nhand, untried.\n",
    "doc/tutorial/b.md": "# B\n\nNo command.\n",
    "scripts/check-long.sh": 'PARTS="faults old-glibc"\n',
    "build/meson-info/intro-tests.json": json.dumps([{"name": "smi-names"}]),
    "test/howto.txt": "# words\ndoc/howto/a.md\n    long:faults by-hand | make all\n    smi-names untried podman-root output | vcuda smi\n",
}
BAD = [
    ("doc/howto/a.md", GOOD["doc/howto/a.md"] + "\n    make other\n", "doc/howto/a.md:17: test/howto.txt names no test of 'make other'"),
    ("doc/tutorial/b.md", "    vcuda run\n", "doc/tutorial/b.md:1: test/howto.txt names no test of 'vcuda run'"),
    ("doc/howto/a.md", GOOD["doc/howto/a.md"].replace("make all", "make none"), "doc/howto/a.md:5: test/howto.txt names no test of 'make none'"),
    ("doc/howto/a.md", GOOD["doc/howto/a.md"].replace("untried", "tried"), "test/howto.txt:4: the page does not say what is untried"),
    ("doc/howto/a.md", GOOD["doc/howto/a.md"].replace("hand", "foot"), "test/howto.txt:3: the page does not say what is by-hand"),
    ("scripts/check-long.sh", 'PARTS="old-glibc"\n', "test/howto.txt:3: scripts/check-long.sh has no part faults"),
    ("build/meson-info/intro-tests.json", "[]", "test/howto.txt:4: there is no test smi-names"),
    ("test/howto.txt", GOOD["test/howto.txt"] + "    output | make x\n", "test/howto.txt:5: doc/howto/a.md has no block that begins with 'make x'"),
]


def run(root):
    r = subprocess.run([sys.executable, CHECK, "--root", root, f"{root}/build"], capture_output=True, text=True, check=False)
    return r.returncode, r.stdout


def write(root, name, text):
    path = pathlib.Path(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    with tempfile.TemporaryDirectory() as root:
        for name, text in GOOD.items():
            write(root, name, text)
        assert run(root) == (0, "2 blocks of commands, 0 mistakes\n"), run(root)
        for name, text, expected in BAD:
            write(root, name, text)
            status, out = run(root)
            assert status == 1 and expected in out.splitlines(), f"{name}: {text}\n{status} {out}"
            write(root, name, GOOD[name])
    print("ok")


main()
