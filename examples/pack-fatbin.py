#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wraps PTX text in a fatbin container, as NVIDIA's fatbinary tool does, without compression.

usage: pack-fatbin.py INPUT.ptx OUTPUT.fatbin      the container
       pack-fatbin.py INPUT.ptx OUTPUT.h NAME      the same as a C array `static const unsigned char NAME[]`
"""
import re
import struct
import sys

CONTAINER_MAGIC = 0xBA55ED50
KIND_PTX = 1
ENTRY_HEADER = 80
OPTIONS = 64  # offset of the compiler's options in the header: {offset, length}
FLAG_64BIT, FLAG_LINUX = 0x1, 0x10


def number(pattern, ptx, what):
    found = re.search(pattern, ptx, re.MULTILINE)
    if not found:
        sys.exit(f"pack-fatbin.py: {sys.argv[1]} has no {what} directive: is it PTX?")
    return [int(group) for group in found.groups()]


def container(ptx):
    major, minor = number(r"^\s*\.version\s+(\d+)\.(\d+)", ptx, ".version")
    (sm,) = number(r"^\s*\.target\s+sm_(\d+)", ptx, ".target")
    payload = ptx.encode() + b"\0"
    payload += b"\0" * (-len(payload) % 8)
    entry = struct.pack("<HHIQIIHHIIIQQQ", KIND_PTX, 0x101, ENTRY_HEADER, len(payload), 0, OPTIONS, minor, major, sm, 0, 0,
                        FLAG_64BIT | FLAG_LINUX, 0, 0)
    # The driver reads the pair even where it is empty.
    entry += struct.pack("<IIQ", OPTIONS + 8, 0, 0)
    assert len(entry) == ENTRY_HEADER
    return struct.pack("<IHHQ", CONTAINER_MAGIC, 1, 16, len(entry) + len(payload)) + entry + payload


def c_array(name, data):
    lines = [f"static const unsigned char {name}[] __attribute__((aligned(8))) = {{"]
    for start in range(0, len(data), 16):
        lines.append("\t" + " ".join(f"{byte:#04x}," for byte in data[start:start + 16]))
    return "\n".join(lines + ["};", ""])


def main():
    if len(sys.argv) not in (3, 4) or (len(sys.argv) == 4) != sys.argv[2].endswith(".h"):
        sys.exit(__doc__.strip())
    with open(sys.argv[1], encoding="utf-8") as source:
        data = container(source.read().rstrip("\0"))
    if len(sys.argv) == 4:
        with open(sys.argv[2], "w", encoding="ascii") as output:
            output.write(c_array(sys.argv[3], data))
    else:
        with open(sys.argv[2], "wb") as output:
            output.write(data)


main()
