#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The names and versions that our runtime libraries export, and that programs find all they need in them.

usage: test-cudart-symbols.py LIBDIR names.txt [PROGRAM...]      PROGRAMs are linked with the shared runtime
"""
import os
import re
import subprocess
import sys

VERSION = "libcudart.so.13"
failures = 0


def fail(message):
    global failures
    failures += 1
    print(f"FAIL: {message}")


def run(command, **environment):
    result = subprocess.run(command, env=dict(os.environ, **environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, timeout=60)
    return result.stdout


def check_exports(path, names):
    exported = {}
    for line in run(["nm", "-D", "--defined-only", path]).splitlines():
        name, _, version = line.split()[2].partition("@@")
        exported[name] = version
    for name in names:
        if exported.get(name) != VERSION:
            fail(f"{path}: {name} has the version {exported.get(name)!r}, not {VERSION}")
    for name in sorted(set(exported) - names - {VERSION}):
        fail(f"{path}: {name} is exported and not in names.txt")
    dynamic = run(["readelf", "-d", path])
    if "[libcuda.so.1]" not in dynamic:
        fail(f"{path}: does not ask for libcuda.so.1")
    if os.path.basename(path) not in re.findall(r"soname: \[(.*)\]", dynamic):
        fail(f"{path}: its soname differs from its name")


def check_program(program, libdir):
    output = run(["ldd", "-r", program], LD_LIBRARY_PATH=libdir)
    if "undefined symbol" in output or "not found" in output:
        fail(f"ldd -r {program}:\n{output}")
    for name in (VERSION, "libcuda.so.1"):
        if f"{name} => {libdir}/" not in output:
            fail(f"{program} does not take {name} from {libdir}:\n{output}")
    # Preloaded, our functions come before those of the library that the program names. It need not get far: binding is all.
    output = run([program], LD_PRELOAD=f"{libdir}/libvcuda.so", LD_LIBRARY_PATH=libdir, LD_BIND_NOW="1", LD_DEBUG="bindings",
                 VCUDA_SOCKET="/nonexistent")
    for file, library, symbol in re.findall(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(_*cuda\w+)'", output):
        if file.endswith(os.path.basename(program)) and not library.endswith("/libvcuda.so"):
            fail(f"with libvcuda.so preloaded {program} takes {symbol} from {library}")
    if "/libvcuda.so" not in output:
        fail(f"{program} does not bind to the preloaded libvcuda.so")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    libdir = os.path.abspath(sys.argv[1])
    with open(sys.argv[2], encoding="ascii") as lines:
        names = {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}
    for library in (VERSION, "libvcuda.so"):
        check_exports(os.path.join(libdir, library), names)
    for program in sys.argv[3:]:
        check_program(program, libdir)
    print(f"{len(names)} names, {len(sys.argv) - 3} programs, {failures} failures")
    sys.exit(1 if failures else 0)


main()
