# SPDX-License-Identifier: Apache-2.0
"""machine-code-faults.py VCUDA PROGRAM ARCHITECTURE CUBIN...: faults of machine code have the offset of their instruction.

The offset is right if a store to global memory is there in the cubin.
"""

import os
import re
import struct
import subprocess
import sys

STORE = 0x186  # STG, without the bits of its form
LINE = re.compile(r"check: kernel (\w+): illegal address: a store of 4 bytes .*, thread \((\d+),0,0\), "
                  r"offset 0x([0-9a-f]+) of (the machine code|`(\w+)` in the machine code)$")


def sections(cubin):
    """The bytes of each section of an ELF file."""
    start, = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, start + n * size) for n in range(count)]
    found = {}
    for name, kind, _, _, offset, length in headers:
        at = headers[names][4] + name
        if kind == 1:
            found[cubin[at:cubin.index(b"\0", at)].decode()] = cubin[offset:offset + length]
    return found


def check(condition, message):
    if not condition:
        sys.exit(message)


def faults(vcuda, program, architecture, path):
    command = [vcuda, "run", "--check", "--", program, "strays", architecture, path]
    r = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    lines = [LINE.search(line) for line in r.stderr.splitlines() if "illegal address" in line]
    check(len(lines) == 2 * 48 and all(lines), f"{command}: {r.returncode}\n{r.stdout}{r.stderr}")
    with open(path, "rb") as file:
        code = sections(file.read())
    for kernel, thread, offset, _, callee in (line.groups() for line in lines):
        check(16 <= int(thread) < 64, f"sm_{architecture}: {kernel}: thread {thread}")
        check((callee == "store") == (kernel == "stores"), f"sm_{architecture}: {kernel}: in {callee}")
        word, = struct.unpack_from("<Q", code[".text." + (callee or kernel)], int(offset, 16))
        check(word & 0x1FF == STORE, f"sm_{architecture}: {kernel}: 0x{offset} is no store: {word:016x}")


def main():
    vcuda, program = sys.argv[1:3]
    cubins = sys.argv[3:]
    for architecture, path in zip(cubins[::2], cubins[1::2]):
        faults(vcuda, program, architecture, os.path.abspath(path))
    print(f"Test PASSED: {len(cubins) // 2} cubins")


main()
