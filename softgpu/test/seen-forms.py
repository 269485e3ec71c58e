#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which rows of the table of machine code the kernels of tests have.

usage: seen-forms.py FORMS_PY TABLE CUBIN...

FORMS_PY is sass-forms.py, TABLE sass-forms.table. Prints the rows that no cubin has, with their lines, and the counts.
"""

import importlib.util
import struct
import sys

INSTRUCTION = 16  # bytes


def texts(data):
    """The sections of a cubin that have code."""
    offset, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<3H", data, 58)
    headers = [struct.unpack_from("<2I4Q", data, offset + i * size) for i in range(count)]
    strings = headers[names][4]
    for name, _, _, _, at, length in headers:
        start = strings + name
        if data[start:data.index(0, start)].startswith(b".text."):
            yield data[at:at + length]


def main():
    spec = importlib.util.spec_from_file_location("sass_forms", sys.argv[1])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    forms = module.read(sys.argv[2])
    form_of = {opcode: form for form in forms for opcode in form.opcodes()}
    seen, others = set(), set()
    for path in sys.argv[3:]:
        with open(path, "rb") as file:
            data = file.read()
        for text in texts(data):
            for word, in struct.iter_unpack("<Q8x", text[:len(text) // INSTRUCTION * INSTRUCTION]):
                form = form_of.get(word & 0xfff)
                if form:
                    seen.add(form.line)
                else:
                    others.add(word & 0xfff)
    for form in forms:
        if form.line not in seen:
            print(f"line {form.line}: {form.name} ({form.function}): opcodes {', '.join(f'{opcode:03x}' for opcode in form.opcodes())}")
    print(f"{len(seen)} of {len(forms)} rows; opcodes without a row: {', '.join(f'{opcode:03x}' for opcode in sorted(others)) or 'none'}")


main()
