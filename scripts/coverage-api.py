#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes which calls the built libraries have, and why the others are refused.

usage: coverage-api.py BUILD_DIRECTORY OUTPUT

A call that is refused is a weak symbol of the library. Each needs a reason in guest/refused.txt, and each reason a call.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "guest"))
import refused  # noqa: E402

LIBRARIES = [("libcuda.so.1", "guest/libcuda/libcuda.so.1"), ("libcudart.so.13", "guest/libcudart/libcudart-13.so")]
OLDER = ["12", "11.0", "10.2", "10.1", "10.0", "9.1"]  # of libcudart.so: what each has beyond those above it


def symbols(path):
    """({implemented}, {refused}) of a library: what names.txt lists, without the forms for per-thread default streams."""
    listed = {line.split()[0] for line in (ROOT / path).parent.joinpath("names.txt").read_text().splitlines()
              if line.strip() and not line.startswith("#")}
    found = {"T": set(), "W": set()}
    for line in subprocess.run(["nm", "-D", "--defined-only", BUILD / path], check=True, capture_output=True,
                               text=True).stdout.splitlines():
        kind, name = line.split()[-2:]
        name = name.split("@")[0]
        if kind in found and name in listed:
            for suffix in refused.PER_THREAD:
                name = name.removesuffix(suffix)
            found[kind].add(name)
    return found["T"], found["W"] - found["T"]


def by_reason(names, rules, used):
    reasons = {}
    for name in sorted(names):
        rule = refused.rule_of(name, rules)
        if not rule:
            sys.exit(f"coverage-api.py: {name} is refused: give the reason in guest/refused.txt")
        used.add(rule)
        reasons.setdefault(rule[1], []).append(name)
    return reasons


def main():
    rules, used = refused.read(), set()
    wire = (BUILD / "protocol/coverage.md").read_text()
    manual = re.search(r"^(\d+) calls; (\d+) .* guest, (\d+) .* worker", wire, re.M)
    text = ["# Calls of CUDA's libraries", "",
            "Written by `scripts/coverage-api.py`. A call that is refused gives `CUDA_ERROR_NOT_SUPPORTED` and says so once, with the reason.", "",
            f"{manual[1]} calls cross to the host; {manual[2]} of them have a hand-written function in the guest, {manual[3]} a hand-written handler in the",
            "worker, the rest is generated. What a guest answers by itself does not cross.", ""]
    for title, path in LIBRARIES:
        there, missing = symbols(path)
        text += [f"## {title}", "",
                 f"{len(there)} calls are there, {len(missing)} are refused (forms for per-thread default streams not counted).", ""]
        for reason, names in by_reason(missing, rules, used).items():
            text += [f"**{reason[0].upper()}{reason[1:]}** ({len(names)}): " + ", ".join(f"`{n}`" for n in names), ""]
        text += ["There: " + ", ".join(f"`{n}`" for n in sorted(there)), ""]
    known = set().union(*symbols(LIBRARIES[1][1]))
    for version in OLDER:
        there, missing = symbols(f"guest/libcudart/libcudart-{version}.so")
        text += [f"## libcudart.so.{version}", "", f"{len(there)} calls are there, {len(missing)} are refused. Beyond the libraries above:", ""]
        for reason, names in by_reason(missing - known, rules, used).items():
            text += [f"**{reason[0].upper()}{reason[1:]}** ({len(names)}): " + ", ".join(f"`{n}`" for n in names), ""]
        if there - known:
            text += ["There: " + ", ".join(f"`{n}`" for n in sorted(there - known)), ""]
        elif not missing - known:
            text[-2] = text[-2].replace(" Beyond the libraries above:", "")
        known |= there | missing
    idle = [pattern for pattern, reason in rules if (pattern, reason) not in used]
    if idle:
        sys.exit(f"coverage-api.py: nothing is refused under {', '.join(idle)}: take it out of guest/refused.txt")
    pathlib.Path(sys.argv[2]).write_text("\n".join(text))


BUILD = pathlib.Path(sys.argv[1]) if len(sys.argv) == 3 else sys.exit(__doc__)
main()
