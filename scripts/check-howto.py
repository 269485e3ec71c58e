#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that test/howto.txt names the test of each block of commands in doc/howto and doc/tutorial, and that these tests exist.

check-howto.py [--root ROOT] [--print] BUILD
"""

import argparse
import json
import pathlib
import re
import sys

PAGES = ("doc/howto", "doc/tutorial")
LIST = "test/howto.txt"
# Tests that a build has only where other software is, such as Slurm's headers.
OPTIONAL = re.compile("(slurm|podman|library|probes)-.*")


def blocks(text):
    """The number and the first line, without its comment, of each block of code. A blank line does not end a block."""
    found, inside = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        is_code = line.startswith("    ")
        if is_code and not inside:
            found.append((number, re.sub(r"\s{2,}#.*", "", line.strip())))
        inside = is_code
    return found


def read_list(path):
    """Words by page and first line."""
    entries, page = {}, None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            page = line.strip()
            continue
        words, separator, first = line.strip().partition(" | ")
        if not page or not separator:
            raise SystemExit(f"{path}:{number}: is neither a page nor TESTS | FIRST LINE")
        entries[page, first] = (number, words.split())
    return entries


def mistakes_of(words, text, tests, parts):
    for word in words:
        kind, _, name = word.rpartition(":")
        if kind == "long":
            if name not in parts:
                yield f"scripts/check-long.sh has no part {name}"
        elif word in ("untried", "by-hand"):
            if not re.search("untried" if word == "untried" else "by hand", " ".join(text.split()), re.I):
                yield f"the page does not say what is {word}"
        elif word != "output" and word not in tests and not OPTIONAL.fullmatch(word):
            yield f"there is no test {word}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1])
    parser.add_argument("--print", action="store_true", help="prints the blocks, and checks nothing")
    parser.add_argument("build", type=pathlib.Path)
    arguments = parser.parse_args()
    root = arguments.root
    pages = sorted(path for folder in PAGES for path in (root / folder).glob("*.md"))
    if arguments.print:
        for path in pages:
            print(path.relative_to(root), *(f"     | {first}" for _, first in blocks(path.read_text(encoding="utf-8"))), sep="\n")
        return 0
    tests = {test["name"] for test in json.loads((arguments.build / "meson-info/intro-tests.json").read_text(encoding="utf-8"))}
    parts = set(re.search('^PARTS="(.*)"', (root / "scripts/check-long.sh").read_text(encoding="utf-8"), re.M)[1].split())
    entries, seen, found = read_list(root / LIST), set(), []
    for path in pages:
        name, text = str(path.relative_to(root)), path.read_text(encoding="utf-8")
        for number, first in blocks(text):
            seen.add((name, first))
            if (name, first) not in entries:
                found.append(f"{name}:{number}: {LIST} names no test of {first!r}")
                continue
            line, words = entries[name, first]
            found += [f"{LIST}:{line}: {mistake}" for mistake in mistakes_of(words, text, tests, parts)]
    found += [f"{LIST}:{entries[key][0]}: {key[0]} has no block that begins with {key[1]!r}" for key in entries.keys() - seen]
    print(*found, f"{len(entries)} blocks of commands, {len(found)} mistakes", sep="\n")
    return 1 if found else 0


sys.exit(main())
