#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The functions of libcuda.so.1: names, versions and parameters, from names.txt and the call descriptions (*.api).

functions.py OUTPUT_KIND names.txt DESCRIPTION...   writes one generated file to standard output

cuda-functions.h    the prototypes of the functions that are implemented
entries.c           the table in which cuGetProcAddress looks names up: rows of one base name together, newest version first
per-thread.c        the functions with the suffix _ptsz that take a stream: NULL is the per-thread default stream
refused-names.txt   the names of the functions that are not implemented

A mistake ends with «FILE:LINE: what is wrong» on standard error and exit status 1.
"""

import re
import sys
import typing

from description import Description, DescriptionError

LINE = re.compile(r"(\w+) (\d+|-)(?: \((.+)\))?\Z")
NAME = re.compile(r"(cu[A-Z]\w*?)(?:_v(\d+))?(_pt[ds][sz])?\Z")
STREAM = re.compile(r"\bCUstream \w+")
HEADER = "/* Generated from names.txt and the call descriptions by protocol/functions.py. */\n"


class Function(typing.NamedTuple):
    name: str
    base: str  # without _vN, _ptds, _ptsz
    revision: int  # N of _vN, else 1
    per_thread: str  # "_ptds", "_ptsz" or ""
    since: int | None  # the CUDA version that brought it; None: cuGetProcAddress does not find it
    parameters: str  # as C writes them; "": nothing implements the function

    @property
    def plain(self):
        """The function without its suffix for the per-thread default stream."""
        return self.name.removesuffix(self.per_thread)


def parse(path):
    """[Function] of names.txt, with the parameters that stand there."""
    functions, seen = [], set()
    with open(path, encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            text = line.split("#", 1)[0].rstrip()
            if not text:
                continue
            match = LINE.match(text)
            name = NAME.match(match[1]) if match else None
            if not name:
                raise DescriptionError(f"{path}:{number}: a line is: NAME VERSION, or NAME VERSION (PARAMETERS)")
            if match[1] in seen:
                raise DescriptionError(f"{path}:{number}: '{match[1]}' is listed twice")
            if name[3] and match[3]:
                raise DescriptionError(f"{path}:{number}: '{match[1]}' takes what '{match[1][:-5]}' takes")
            seen.add(match[1])
            functions.append(Function(match[1], name[1], int(name[2] or 1), name[3] or "",
                                      None if match[2] == "-" else int(match[2]), match[3] or ""))
    return functions


def read(path, descriptions):
    """[Function] with all parameters. A line of names.txt has them where no description does, or where the call that crosses differs."""
    desc = Description()
    for description in descriptions:
        desc.parse(description)
    found = {c.name: c.prototype() for c in desc.calls}
    functions = parse(path)
    found |= {f.name: f.parameters for f in functions if f.parameters}
    return [f._replace(parameters=found.get(f.plain, "")) for f in functions]


def emit_functions_h(functions):
    out = [HEADER, "/* The functions of libcuda.so.1. cuda-abi.h has the types. */", "#ifndef VCUDA_CUDA_FUNCTIONS_H\n#define VCUDA_CUDA_FUNCTIONS_H\n",
           '#include "protocol/types.h"\n']
    out += [f"CUresult {f.name}({f.parameters});" for f in functions if f.parameters]
    out += ["\n#endif"]
    return out


def emit_entries_c(functions):
    rows = sorted((f for f in functions if f.since is not None), key=lambda f: (f.base, f.per_thread, -f.since, -f.revision))
    out = [HEADER, '#include "private/procaddress.h"\n']
    # The addresses only. The label is the exported symbol, which trace.py makes, and not the function behind it.
    out += [f'extern void entry_{f.name}(void) __asm__("{f.name}");' for f in rows]
    out += ["\nconst struct libcuda_entry libcuda_entries[] = {"]
    out += [f'\t{{"{f.base}", {f.since}, {int(bool(f.per_thread))}, entry_{f.name}}},' for f in rows]
    out += [f"}};\nconst unsigned int libcuda_entry_count = {len(rows)};"]
    return out


def arguments(parameters):
    """The parameters as a call passes them on: a stream that is NULL becomes the thread's own."""
    passed = []
    for parameter in parameters.split(", "):
        name = re.search(r"\w+\Z", parameter)[0]
        passed.append(f"LIBCUDA_PER_THREAD({name})" if STREAM.match(parameter) else name)
    return ", ".join(passed)


def emit_per_thread_c(functions):
    out = [HEADER, '#include "cuda-functions.h"\n#include "core/request.h"\n#include "stream/stream.h"']
    for f in functions:
        if f.per_thread == "_ptsz" and STREAM.search(f.parameters):
            out.append(f"\nVCUDA_EXPORT CUresult {f.name}({f.parameters})\n{{\n\treturn {f.plain}({arguments(f.parameters)});\n}}")
    return out


def emit_refused_names(functions):
    return [f.name for f in functions if not f.parameters]


EMITTERS = {
    "cuda-functions.h": emit_functions_h,
    "entries.c": emit_entries_c,
    "per-thread.c": emit_per_thread_c,
    "refused-names.txt": emit_refused_names,
}


def main(argv):
    if len(argv) < 4 or argv[1] not in EMITTERS:
        sys.stderr.write(f"usage: functions.py {{{'|'.join(EMITTERS)}}} names.txt DESCRIPTION...\n")
        return 2
    try:
        functions = read(argv[2], argv[3:])
    except (DescriptionError, OSError) as e:
        sys.stderr.write(f"{e}\n")
        return 1
    sys.stdout.write("\n".join(EMITTERS[argv[1]](functions)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
