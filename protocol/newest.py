#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The newest CUDA version whose every function libcuda.so.1 has.

newest.py names.txt proc-addresses.txt    writes a header with VCUDA_NEWEST_CUDA, e.g. 13000, to standard output

names.txt has the functions that are there, proc-addresses.txt those of each version. A mistake ends with «FILE:LINE: what is wrong» on
standard error and exit status 1.
"""

import re
import sys

from description import DescriptionError
from functions import parse

LINE = re.compile(r"(cu\w+?)(_pt[ds][sz])? (\d+)\Z")


def read(path):
    """{version: {(name, suffix)}} of the versions' functions."""
    found = {}
    with open(path, encoding="ascii") as lines:
        for number, line in enumerate(lines, 1):
            text = line.split("#", 1)[0].rstrip()
            if not text:
                continue
            match = LINE.match(text)
            if not match:
                raise DescriptionError(f"{path}:{number}: a line is: NAME VERSION")
            found.setdefault(int(match[3]), set()).add((match[1], match[2] or ""))
    return found


def newest(names, addresses):
    """0: functions of the first version are missing."""
    there = {(f.since, f.base, f.per_thread) for f in parse(names)}
    result = 0
    for version, functions in sorted(read(addresses).items()):
        if any((version, *function) not in there for function in functions):
            break
        result = version
    return result


def main(argv):
    if len(argv) != 3:
        sys.stderr.write("usage: newest.py names.txt proc-addresses.txt\n")
        return 2
    try:
        version = newest(*argv[1:])
    except (DescriptionError, OSError) as e:
        sys.stderr.write(f"{e}\n")
        return 1
    print(f"/* Generated from names.txt and proc-addresses.txt by protocol/newest.py. */\n#define VCUDA_NEWEST_CUDA {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
