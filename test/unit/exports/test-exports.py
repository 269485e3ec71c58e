#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our guest libraries export all that NVIDIA's export, with the same symbol versions.

usage: test-exports.py DIRECTORY...                          compares the libraries in these folders with the lists beside this file
       test-exports.py --record SOURCE LIST LIBRARY          adds the exports of a library of NVIDIA's to a list

A list is named after its library: libcuda.so.1.txt. A line is NAME SOURCE..., or NAME object:SIZE SOURCE... for data. The header
says what each SOURCE is. It also has these lines:

# version: NODE      the symbol version that all names have, or none
# ours: PATTERN...   what our library exports beyond NVIDIA's

The test fails for a name that is missing, has another version or kind, or is exported without standing in a list.
"""
import fnmatch
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
KINDS = {"FUNC": "function", "IFUNC": "function", "NOTYPE": "function", "OBJECT": "object"}


def exported(path):
    """{name: (version or "none", "function" or "object:SIZE")} of a library."""
    found = {}
    table = subprocess.run(["readelf", "-W", "--dyn-syms", path], check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in table.splitlines():
        fields = line.split()
        if len(fields) < 8 or fields[4] not in ("GLOBAL", "WEAK") or fields[6] in ("UND", "ABS"):
            continue
        name, _, version = fields[7].replace("@@", "@").partition("@")
        kind = KINDS[fields[3]]
        found[name] = (version or "none", f"object:{int(fields[2], 0)}" if kind == "object" else kind)
    return found


def read(path):
    """(header lines, {header key: value}, {name: [kind, source...]}) of a list."""
    comments, header, names = [], {}, {}
    for number, line in enumerate(path.read_text(encoding="ascii").splitlines(), 1):
        if line.startswith("#"):
            comments.append(line)
            key, colon, value = line[1:].strip().partition(": ")
            if colon and key in ("version", "ours"):
                header[key] = value
            continue
        name, *rest = line.split()
        if not rest or name in names:
            sys.exit(f"{path}:{number}: a line is NAME SOURCE..., and a name stands once")
        names[name] = rest if rest[0].startswith("object:") else ["function", *rest]
    if "version" not in header:
        sys.exit(f"{path}: its header has no version")
    return comments, header, names


def differences(ours, header, names):
    """[what is wrong] with a library's exports."""
    wrong = []
    for name, (kind, *sources) in names.items():
        if name not in ours:
            wrong.append(f"{name} is missing; {', '.join(sources)} has it")
        elif ours[name] != (header["version"], kind):
            wrong.append(f"{name} is {' '.join(ours[name])}, not {header['version']} {kind}")
    allowed = header.get("ours", "").split()
    wrong += [f"{name} is exported and stands in no list" for name in sorted(set(ours) - set(names))
              if not any(fnmatch.fnmatchcase(name, pattern) for pattern in allowed)]
    return wrong


def record(source, path, library):
    comments, header, names = read(path)
    for name, (version, kind) in exported(library).items():
        if version != header["version"]:
            sys.exit(f"{library}: {name} has the version {version}, the list says {header['version']}")
        known = names.setdefault(name, [kind])
        if known[0] != kind:
            sys.exit(f"{library}: {name} is {kind}, the list says {known[0]}")
        if source not in known[1:]:
            known.append(source)
    lines = [" ".join([name, *[word for word in names[name] if word != "function"]]) for name in sorted(names)]
    path.write_text("\n".join(comments + lines) + "\n", encoding="ascii")


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--record":
        return record(sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4])
    folders = [pathlib.Path(folder) for folder in sys.argv[1:]]
    failures = count = 0
    lists = sorted(HERE.glob("*.so.*.txt"))
    for path in lists:
        library = next((folder / path.stem for folder in folders if (folder / path.stem).exists()), None)
        if not library:
            sys.exit(f"{path.stem} is in none of {' '.join(sys.argv[1:])}")
        _, header, names = read(path)
        wrong = differences(exported(library), header, names)
        for what in wrong:
            print(f"FAIL: {path.stem}: {what}")
        failures += len(wrong)
        count += len(names)
    print(f"{len(lists)} libraries, {count} names, {failures} failures")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
