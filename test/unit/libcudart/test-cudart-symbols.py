#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The names and versions that our runtime libraries export, and that programs find all they need in them.

usage: test-cudart-symbols.py LIBDIR names.txt VERSIONS [PROGRAM...]     VERSIONS: "12 13", of libcudart.so.*;
                                                                         PROGRAMs are linked with the shared runtime of 13

NVIDIA's own libraries, where there are any, must have no name that names.txt does not give to their version: those of the installed
toolkit, and those whose directories stand in VCUDA_NVIDIA_CUDART, with colons between them. Which names NVIDIA's libraries lack is not
asked, since later releases of a version add some; test/unit/exports has the lists.
"""
import glob
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../guest/libcudart"))
import exports  # noqa: E402

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


def exported(path):
    """{name: version} of a library's functions."""
    found = {}
    for line in run(["nm", "-D", "--defined-only", path]).splitlines():
        name, _, version = line.split()[2].partition("@@")
        found[name] = version
    return {name: version for name, version in found.items() if not name.startswith("libcudart.so.")}


def check_exports(path, soname, version, names):
    found = exported(path)
    for name in names:
        if found.get(name) != version:
            fail(f"{path}: {name} has the version {found.get(name)!r}, not {version}")
    for name in sorted(set(found) - set(names)):
        fail(f"{path}: {name} is exported, and names.txt does not say so")
    dynamic = run(["readelf", "-d", path])
    if "[libcuda.so.1]" not in dynamic:
        fail(f"{path}: does not ask for libcuda.so.1")
    if soname not in re.findall(r"soname: \[(.*)\]", dynamic):
        fail(f"{path}: its soname is not {soname}")


def check_nvidia(version, names):
    """True if NVIDIA's library of that version was found and compared."""
    directories = os.environ.get("VCUDA_NVIDIA_CUDART", "").split(":") + ["/usr/local/cuda/lib64"]
    # Wheels put a number into the name: libcudart-80664282.so.10.2
    paths = [p for d in directories if d for p in glob.glob(os.path.join(d, f"libcudart*.so.{version}"))]
    for path in paths[:1]:
        theirs = exported(path)
        for name in sorted(set(theirs) - set(names)):
            fail(f"{path} has {name}, which names.txt lacks")
        if set(theirs.values()) != {f"libcudart.so.{version}"}:
            fail(f"{path} has the versions {set(theirs.values())}")
    return bool(paths)


def check_program(program, libdir):
    output = run(["ldd", "-r", program], LD_LIBRARY_PATH=libdir)
    if "undefined symbol" in output or "not found" in output:
        fail(f"ldd -r {program}:\n{output}")
    for name in (VERSION, "libcuda.so.1"):
        if f"{name} => {libdir}/" not in output:
            fail(f"{program} does not take {name} from {libdir}:\n{output}")
    # Preloaded, our functions come before those of the library that the program names. It need not get far: binding is all.
    output = run([program], LD_PRELOAD=f"{libdir}/libvcuda.so", LD_LIBRARY_PATH=libdir, LD_BIND_NOW="1", LD_DEBUG="bindings",
                 VCUDA_SOCKET="/dev/null/socket")
    for file, library, symbol in re.findall(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(_*cuda\w+)'", output):
        if file.endswith(os.path.basename(program)) and not library.endswith("/libvcuda.so"):
            fail(f"with libvcuda.so preloaded {program} takes {symbol} from {library}")
    if "/libvcuda.so" not in output:
        fail(f"{program} does not bind to the preloaded libvcuda.so")


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__.strip())
    libdir, table, versions = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3].split()
    compared = []
    for version in versions:
        names = exports.read(table, version)
        check_exports(os.path.join(libdir, f"libcudart.so.{version}"), f"libcudart.so.{version}", f"libcudart.so.{version}", names)
        if check_nvidia(version, names):
            compared.append(version)
    check_exports(os.path.join(libdir, "libvcuda.so"), "libvcuda.so", VERSION, exports.read(table, "13"))
    for program in sys.argv[4:]:
        check_program(program, libdir)
    print(f"{len(versions)} libraries, {len(compared)} compared with NVIDIA's ({' '.join(compared)}), {len(sys.argv) - 4} programs, "
          f"{failures} failures")
    sys.exit(1 if failures else 0)


main()
