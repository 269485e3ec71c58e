#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Guest objects load where glibc is 2.17 or newer: what `readelf` says of those in the build folder and of an installation.

usage: test-objects.py BUILD MESON
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

NEWEST = (2, 17)
GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "ld-linux-x86-64.so.2"}
# The loader keeps some 1,700 bytes for all libraries with static TLS that are opened at run time.
MOST_STATIC_TLS = 512
OURS = re.compile(r"lib(cuda|cudart|vcuda|nvidia-ml|cublas|cublasLt|curand)(-[0-9.]+)?\.so(\.[0-9.]+)?$")


def readelf(path, *options):
    return subprocess.run(["readelf", "-W", *options, path], check=True, capture_output=True, text=True).stdout


def newer(version):
    """Whether no glibc 2.17 has this version."""
    found = re.fullmatch(r"GLIBC_([0-9.]+)", version)
    return not found or tuple(int(part) for part in found[1].split(".")) > NEWEST


def mistakes(path):
    """Yields what keeps an object from loading on an old system."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(path, "-d"))
    for name in needed:
        if name not in GLIBC and not OURS.match(name):
            yield f"needs {name}: old systems have another version of it, or none"
    if "libc.so.6" not in needed:
        yield "does not need libc.so.6"
    versions = {version for version in re.findall(r"Name: (\S+) +Flags: \S+ +Version: \d+", readelf(path, "-V"))
                if newer(version)}
    for name, version in re.findall(r" UND (\S+?)@(\S+)", readelf(path, "--dyn-syms")):
        if newer(version):
            versions.discard(version)
            yield f"needs {name}@{version}"
    yield from (f"needs version {version}" for version in sorted(versions))
    dynamic = readelf(path, "-d")
    if re.search(r"\((RELR|RELRSZ|RELRENT)\)|0x0*2[345] ", dynamic):
        yield "has DT_RELR, which glibc has read since 2.36"
    if "(GNU_HASH)" not in dynamic and "(HASH)" not in dynamic:
        yield "has no hash table"
    if "R_X86_64_COPY" in readelf(path, "-r"):
        yield "copies data of a library, whose size differs between releases of glibc"
    tls = re.search(r"^ *TLS +\S+ +\S+ +\S+ +\S+ +(0x[0-9a-f]+)", readelf(path, "-l"), re.M)
    if tls and "STATIC_TLS" in dynamic and int(tls[1], 0) > MOST_STATIC_TLS:
        yield f"takes {int(tls[1], 0)} bytes of static TLS, more than {MOST_STATIC_TLS}"


def objects(*folders):
    for folder in folders:
        for directory, names, files in os.walk(folder):
            names[:] = sorted(name for name in names if not name.endswith(".p") and name != "glibc")
            for name in sorted(files):
                path = pathlib.Path(directory) / name
                if not path.is_symlink() and path.stat().st_size > 64 and path.read_bytes()[:4] == b"\x7fELF":
                    if not name.endswith(".o"):
                        yield path


def check(paths):
    """(names of the objects, whether all are right)"""
    names, right = set(), True
    for path in paths:
        names.add(path.name)
        for text in mistakes(path):
            print(f"{path} {text}")
            right = False
    return names, right


def main():
    build = pathlib.Path(sys.argv[1])
    built, right = check(objects(build / "guest", build / "cli"))
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.argv[2], "install", "-C", build, "--no-rebuild", "--quiet", "--strip", "--tags", "guest,math"], check=True,
                       env={**os.environ, "DESTDIR": folder}, stdout=subprocess.DEVNULL)
        installed, installed_right = check(objects(folder))
    print(f"{len(built)} objects are built, {len(installed)} are installed")
    if built != installed or not {"vcuda", "libcuda.so.1", "libcublas-13.so"} <= built:
        sys.exit(f"only built: {sorted(built - installed)}; only installed: {sorted(installed - built)}")
    sys.exit(not (right and installed_right))


if __name__ == "__main__":
    main()
