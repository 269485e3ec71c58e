#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The language check finds each kind of violation, and nothing in plain text: test-check-language.py"""
import pathlib
import subprocess
import sys
import tempfile

CHECK = pathlib.Path(__file__).resolve().parents[3] / "scripts/check-language.py"

GOOD = {
    "a/good.c": '/* SPDX-License-Identifier: Apache-2.0 */\n/* The queue holds what the guest sent. Who owns it? */\nchar *s = "/* What */";\n',
    "a/good.h": "/* SPDX-License-Identifier: Apache-2.0 */\n/* A queue. */\n#ifndef GOOD_H\n#define GOOD_H\n#endif\n",
    "a/good.py": '"""Reads a file."""\nx = "# What is this"  # the default\n',
    "a/good.sh": "#!/bin/sh\n# Fetches QEMU.\necho '# What'\n",
    "doc/page.md": "# A page\n\nA [link](other.md#a-part) and `What nobody` in code.\n\n    What stands here is code\n\n| What | nobody |\n|---|---|\n",
    "doc/other.md": "# Other\n\n## A part\n",
}
LONG = " ".join(["word"] * 41)
BAD = [
    ("a/bad.c", "/* The queue. What it holds is the guest's. */\n", "a/bad.c:1: headless: What it holds"),
    ("a/bad.c", "int a;\n/*\n * A queue.\n * Whose it is, the\n * owner says.\n */\n", "a/bad.c:4: headless: Whose it is, the owner says."),
    ("a/bad.h", "// It stays open.\n", "a/bad.h:1: pronoun: It stays open."),
    ("a/bad.h", "/* SPDX-License-Identifier: Apache-2.0 */\n#ifndef BAD_H\n#define BAD_H\n/* A queue. */\n#endif\n", "a/bad.h:1: head: "),
    ("a/bad.c", "/* A block that lies here. */\n", "a/bad.c:1: word: A block that lies"),
    ("a/bad.py", "# Of a block,\n# the first word.\n", "a/bad.py:1: headless: Of a block, the first word."),
    ("a/bad.py", '"""Nobody reads this."""\n', "a/bad.py:1: headless: Nobody"),
    ("a/bad.sh", "x=1\n# A file, for whoever reads it.\n", "a/bad.sh:2: word: A file"),
    ("doc/bad.md", "# Bad\n\nA text.\nWhat is\nhere.\n", "doc/bad.md:4: headless: What is here."),
    ("doc/bad.md", "# Bad\n\n" + "wide " * 21 + "\n", "doc/bad.md:3: width: "),
    ("doc/bad.md", "[a](none.md)\n", "doc/bad.md:1: link: none.md"),
    ("doc/bad.md", "[a](other.md#none)\n", "doc/bad.md:1: link: other.md#none"),
    ("doc/design/bad.md", LONG.replace("word word word word word word word word ", "word\n" * 8) + ".\n", "doc/design/bad.md:1: long: "),
]


def check(root, *options):
    r = subprocess.run([sys.executable, CHECK, "--root", root, *options], capture_output=True, text=True, check=False)
    return r.returncode, r.stdout


def write(root, files):
    for name, text in files.items():
        path = pathlib.Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main():
    with tempfile.TemporaryDirectory() as root:
        write(root, GOOD)
        assert check(root) == (0, ""), check(root)
        status, sample = check(root, "--sample", "1")
        assert status == 0 and sample == check(root, "--sample", "1")[1], sample
        assert sample.startswith("a/good.c:2: The queue holds what the guest sent. Who owns it?\n"), sample
        assert sample.count("\n") == 2 and "doc/page.md:3: A [link]" in sample, sample
        for name, text, expected in BAD:
            write(root, {name: text})
            status, out = check(root)
            assert status == 1 and out.startswith(expected) and out.count("\n") == 2, f"{name}: {text}\n{status} {out}"
            pathlib.Path(root, name).unlink()
    print("ok")


main()
