#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The symbols of glibc 2.17, and the stub libraries that guest objects are linked against.

usage: symbols.py stubs LIST DIRECTORY ARCHIVE COMPILER...
       symbols.py compare LIST DIRECTORY
       symbols.py record DIRECTORY

stubs writes into DIRECTORY a shared library for each library of LIST. It has the names and versions of the list, and
no code: the linker reads it in place of glibc's. libc.so, libm.so and so on are what -lc and -lm find there. -lc also
searches ARCHIVE, which has the functions that glibc got later.

compare fails if the libraries in DIRECTORY, of a real system, lack a symbol of LIST. libc.so.6 may have what LIST
expects in another library: glibc has moved functions there, and the loader searches all libraries.

record prints the list from the abilist files in DIRECTORY, which are those of a glibc 2.17 source tree for the
architecture.
"""
import os
import pathlib
import re
import subprocess
import sys

NEWEST = "2.17"
# The file names of the stubs, and what -l calls them. The dynamic loader is asked for by libc.so only.
LIBRARIES = {"libc.so.6": "c", "libpthread.so.0": "pthread", "libdl.so.2": "dl", "librt.so.1": "rt", "libm.so.6": "m",
             "ld-linux-x86-64.so.2": None}
ABILISTS = {"libc.so.6": "libc", "libpthread.so.0": "libpthread", "libdl.so.2": "libdl", "librt.so.1": "librt",
            "libm.so.6": "libm", "ld-linux-x86-64.so.2": "ld"}
SYMBOL = re.compile(r"(\S+)@GLIBC_([0-9.]+)(?: (\d+))?$")


def key(version):
    return tuple(int(part) for part in version.split("."))


def read_list(path):
    """{library: {name: (version, size or None)}}; a symbol with a size is data."""
    libraries, symbols = {}, None
    for number, line in enumerate(pathlib.Path(path).read_text(encoding="utf-8").splitlines(), 1):
        line = line.split("#")[0].strip()
        if line.startswith("[") and line.endswith("]"):
            symbols = libraries.setdefault(line[1:-1], {})
        elif line:
            found = SYMBOL.match(line)
            if not found or symbols is None or found[1] in symbols or key(found[2]) > key(NEWEST):
                sys.exit(f"{path}:{number}: bad line: {line}")
            symbols[found[1]] = (found[2], int(found[3]) if found[3] else None)
    return libraries


def write_stub(directory, library, symbols, compiler):
    nodes = {}
    for name, (version, _) in symbols.items():
        nodes.setdefault(version, []).append(name)
    script = directory / (library + ".map")
    script.write_text("".join(f"GLIBC_{version} {{ {' '.join(f'{name};' for name in nodes[version])} }};\n"
                              for version in sorted(nodes, key=key)), encoding="utf-8")
    source = directory / (library + ".S")
    lines = ['.section .note.GNU-stack,"",@progbits', ".text"]
    for name, (_, size) in symbols.items():
        if size is None:
            lines.append(f".globl {name}; .type {name},@function; {name}:")
    lines.append(".bss")
    for name, (_, size) in symbols.items():
        if size is not None:
            lines.append(f".globl {name}; .type {name},@object; .size {name},{size}; {name}: .skip {size}")
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    subprocess.run([*compiler, "-shared", "-nostdlib", "-Wl,-soname," + library, f"-Wl,--version-script={script}",
                    "-Wl,--build-id=none", "-o", directory / library, source], check=True)


def stubs(path, directory, archive, *compiler):
    directory = pathlib.Path(directory)
    for library, symbols in read_list(path).items():
        write_stub(directory, library, symbols, compiler)
        if LIBRARIES[library] not in (None, "c"):
            link = directory / f"lib{LIBRARIES[library]}.so"
            link.unlink(missing_ok=True)
            link.symlink_to(library)
    # Quoted: a path may have blanks.
    others = " ".join(f'"{directory / library}"' for library in LIBRARIES if library not in ("libc.so.6", "libm.so.6"))
    (directory / "libc.so").write_text(
        f'GROUP ( "{os.path.abspath(archive)}" AS_NEEDED ( {others} ) "{directory / "libc.so.6"}" )\n', encoding="utf-8")


def exported(path):
    """The set of (name, version) of a library."""
    text = subprocess.run(["readelf", "-W", "--dyn-syms", path], check=True, capture_output=True, text=True).stdout
    return set(re.findall(r" (?!UND)\S+ (\S+?)@@?GLIBC_([0-9.]+)$", text, re.M))


def compare(path, directory):
    missing = 0
    always = exported(pathlib.Path(directory) / "libc.so.6")
    for library, symbols in read_list(path).items():
        real = always | exported(pathlib.Path(directory) / library)
        for name, (version, _) in symbols.items():
            if (name, version) not in real:
                print(f"{directory}/{library} has no {name}@GLIBC_{version}")
                missing += 1
    return missing > 0


def record(directory):
    libraries = {}
    for library, stem in ABILISTS.items():
        symbols, version = libraries.setdefault(library, {}), None
        for line in (pathlib.Path(directory) / (stem + ".abilist")).read_text(encoding="utf-8").splitlines():
            name, *kind = line.split()
            if not line.startswith(" "):
                version = name.removeprefix("GLIBC_")
            elif kind[0] != "A" and key(version) >= key(symbols.get(name, ("0", None))[0]):
                symbols[name] = (version, int(kind[1], 0) if kind[0] == "D" else None)
    # libc.so.6 has some functions of threads too, which do nothing in a process without libpthread.so.0.
    seen = {name for name in libraries["libpthread.so.0"] if name.startswith("pthread_")}
    print(f"# SPDX-License-Identifier: Apache-2.0\n"
          f"# The exported symbols of glibc {NEWEST} for x86-64, each once with its newest version: NAME@VERSION, and the\n"
          f"# size of data. `symbols.py record` has made the list from glibc's own lists.")
    for library, symbols in libraries.items():
        print(f"\n[{library}]")
        for name, (version, size) in sorted(symbols.items()):
            if name not in seen or (library == "libpthread.so.0" and name.startswith("pthread_")):
                print(f"{name}@GLIBC_{version}" + (f" {size}" if size is not None else ""))
        seen |= set(symbols)


if __name__ == "__main__":
    command = {"stubs": stubs, "compare": compare, "record": record}.get(sys.argv[1] if len(sys.argv) > 1 else "")
    if not command:
        sys.exit(__doc__)
    sys.exit(command(*sys.argv[2:]))
