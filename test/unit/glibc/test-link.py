#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A guest object that uses a symbol newer than glibc 2.17 is not linked, and the linker names symbol and object.

usage: test-link.py COMPILER... -- OPTION...     the options with which guest programs are linked
"""
import os
import subprocess
import sys
import tempfile

# The version that brought a symbol; None: glibc 2.17 has it, in one of its libraries, or guest/glibc replaces it.
SINCE = {"getentropy": "2.25", "pthread_cond_clockwait": "2.30", "close_range": "2.34", "roundevenf": "2.25", "strlcpy": "2.38",
         "timespec_getres": "2.34", "malloc": None, "stdout": None, "dladdr1": None, "pthread_create": None, "exp": None,
         "shm_open": None, "stat64": None, "__isoc23_strtol": None}


def main():
    split = sys.argv.index("--")
    compiler, options = sys.argv[1:split], sys.argv[split + 1:]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, start in {"program": [], "library": ["-shared", "-Wl,--no-undefined"]}.items():
            for symbol, since in SINCE.items():
                source = os.path.join(folder, "uses.c")
                with open(source, "w", encoding="ascii") as f:
                    f.write(f"extern char {symbol}[];\nvoid *place;\nvoid use(void);\nvoid use(void)\n{{\n\tplace = {symbol};\n}}\n"
                            "int main(void)\n{\n\tuse();\n\treturn 0;\n}\n")
                done = subprocess.run([*compiler, "-w", "-fno-builtin", "-fPIC", *start, source, "-o", os.path.join(folder, "object"), *options,
                                       "-lm", "-lpthread", "-ldl", "-lrt"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
                if not since and done.returncode:
                    print(f"{kind}: {symbol}, which glibc 2.17 has, is not linked:\n{done.stderr}")
                elif since and (not done.returncode or f"undefined reference to `{symbol}'" not in done.stderr or "in function `use'" not in done.stderr):
                    print(f"{kind}: {symbol} of glibc {since}: no error of the linker names it:\n{done.stderr}")
                else:
                    continue
                wrong += 1
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
