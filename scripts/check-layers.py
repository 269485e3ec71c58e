#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks which folders include which, by scripts/layers.txt.

usage: check-layers.py [--update] [--root DIRECTORY] BUILD_DIRECTORY...

The check reads the compiler's dependency files of the build directories, so it sees each file that is compiled there.
A generated header belongs to the folder that has its place in the build directory: build/protocol/calls.h belongs to
protocol. Generated .c files are not checked, because build/protocol holds those of several programs.

The rules:
* A file includes only its own folder and what the table allows that folder.
* Each folder with a compiled file is in the table, and each folder of the table has a file.
* A folder of a line with "!" reaches none of the headers named there, neither directly nor through other headers.
* No files include each other in a cycle. A header and the .c file of the same name may.
* A folder has at most 40 .c and .h files. Generated files, and folders of tests, do not count.
* Only folders that are built where the CUDA toolkit is installed include its headers.
* No compilation finds a generated header by its absolute path. ninja knows the header by its path from the build
  directory, and would compile again one run late.

scripts/layers-known.txt lists the known violations, each with its reason. The list may only shrink: a new violation is
an error, and so is an entry whose violation is gone. --update removes such entries and adds none.
"""
import argparse
import collections
import fnmatch
import os
import pathlib
import re
import subprocess
import sys

MOST_FILES = 40
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.M)
TOOLKIT = re.compile(r'^[ \t]*#[ \t]*include[ \t]*<((?:cu|nv)[^>/\n]*\.h)>', re.M)
WITH_TOOLKIT = ("examples", "test/libraries")
BRACES = re.compile(r"^(.*)\{(.*)\}(.*)$")
# The kernel's build compiles the driver, so ninja has no dependency files of it. It is built in a folder that also has protocol/control.h.
DRIVER, DRIVER_PATH = "guest/driver", "protocol"
TABLE = "scripts/layers.txt"
KNOWN = "scripts/layers-known.txt"

Include = collections.namedtuple("Include", "line target")
# name: the entry in layers-known.txt; place: FILE:LINE, FILE or FOLDER; text: what is wrong; mend: what to do
Violation = collections.namedtuple("Violation", "name place text mend")


def is_generated(path):
    return path.startswith("build/")


def folder_of(path):
    return os.path.dirname(path.removeprefix("build/"))


def is_test(folder):
    return "test" in folder.split("/")


def files_in(root, folder):
    """The hand-written .c and .h files of a folder."""
    if not (root / folder).is_dir():
        return []
    return [f"{folder}/{name}" for name in sorted(os.listdir(root / folder)) if name.endswith((".c", ".h"))]


def expand(text):
    """The words of a text, with "a/{b,c}" as "a/b" and "a/c"."""
    words = []
    for word in text.split():
        braces = BRACES.match(word)
        words += [braces[1] + part + braces[3] for part in braces[2].split(",")] if braces else [word]
    return words


class Table:
    """layers.txt."""

    def __init__(self, path):
        self.below = {}  # {folder: set of the folders below it}
        self.also = collections.defaultdict(set)  # {folder: further folders and headers that it may include}
        self.never = collections.defaultdict(set)  # {patterns of headers: the folders that may not reach these}
        for line in path.read_text(encoding="utf-8").splitlines():
            self.read(line.split("#")[0].strip())
        self.close()

    def read(self, line):
        if "!" in line:
            folders, patterns = (expand(side) for side in line.split("!"))
            self.never[tuple(patterns)].update(folders)
        elif "+" in line:
            folders, more = (expand(side) for side in line.split("+"))
            for folder in folders:
                self.below.setdefault(folder, set())
                self.also[folder].update(more)
        elif line:
            levels = [expand(side) for side in line.split("<")]
            for folder in levels[0]:
                self.below.setdefault(folder, set())
            for lower, upper in zip(levels, levels[1:]):
                for folder in upper:
                    self.below.setdefault(folder, set()).update(lower)

    def close(self):
        """Makes the relation transitive: folders below a lower folder are below too."""
        changed = True
        while changed:
            before = sum(map(len, self.below.values()))
            for folders in self.below.values():
                folders.update(*(self.below[f] for f in list(folders)))
            changed = before != sum(map(len, self.below.values()))

    def allows(self, folder, target):
        lower = folder_of(target)
        return lower in {folder} | self.below[folder] | self.also[folder] or target in self.also[folder]

    def violations(self, root):
        for folder in sorted(self.below):
            if folder in self.below[folder]:
                yield Violation(f"{folder} below itself", TABLE, f"the lines together put {folder} below itself",
                                "reverse or remove one of them")
            if not files_in(root, folder):
                yield Violation(f"{folder} empty", TABLE, f"{folder} has no .c or .h file", "remove it from the table")
        for folder in sorted(set().union(*self.never.values()) - set(self.below)):
            yield Violation(f"{folder} without line", TABLE, f'{folder} is in a line with "!" only', "add the line that says what it may include")


class Sources:
    """The files that compilations read, and what each of them includes."""

    def __init__(self, root, builds):
        self.root = root
        self.late = set()  # generated headers that a compilation found by an absolute path
        self.toolkit = []  # (path, line, header): headers of the CUDA toolkit
        self.names = {}  # {path: {(line, name in the include line): set of the files that compilations read for it}}
        for build in builds:
            for unit in self.units(build):
                self.add(unit, build)
        if not self.names:
            sys.exit("no build directory has dependency files: build there first")
        self.add(files_in(root, DRIVER) + files_in(root, DRIVER_PATH), None)
        self.includes = {path: [Include(line, target) for (line, _), targets in sorted(names.items()) for target in sorted(targets)]
                         for path, names in self.names.items()}

    def units(self, build):
        """For each compilation, the files of the project that it read. A file of the build directory is build/NAME."""
        # -n: ninja opens its log for reading only, so tests may run side by side.
        tool = ["ninja", "-C", str(build), "-n", "-t", "deps"]
        output = subprocess.run(tool, check=True, capture_output=True, text=True).stdout
        known = {}
        for block in output.split("\n\n"):
            lines = block.splitlines()[1:]
            for line in lines:
                if line not in known:
                    if os.path.isabs(line.strip()) and line.strip().startswith(f"{build}/"):
                        self.late.add(self.path_of(line.strip(), build))
                    known[line] = self.path_of(os.path.normpath(build / line.strip()), build)
            yield [known[line] for line in lines if known[line]]

    def path_of(self, path, build):
        if path.startswith(f"{build}/"):
            return "build/" + os.path.relpath(path, build)
        if path.startswith(f"{self.root}/"):
            return os.path.relpath(path, self.root)
        return None

    def add(self, unit, build):
        candidates = collections.defaultdict(list)
        for path in unit:
            candidates[os.path.basename(path)].append(path)
        for path in unit:
            if path not in self.names:
                self.names[path] = self.read(path, build)
            for (_, name), targets in self.names[path].items():
                beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
                named = candidates[os.path.basename(name)]
                targets.update([beside] if beside in named else [c for c in named if f"/{c}".endswith(f"/{name}")])

    def read(self, path, build):
        if is_generated(path) and path.endswith(".c"):
            return {}
        place = build / path.removeprefix("build/") if is_generated(path) else self.root / path
        if not place.exists():  # a file that is gone since that compilation
            return {}
        text = place.read_text(encoding="utf-8")
        self.toolkit += [(path, text.count("\n", 0, m.start(1)) + 1, m[1]) for m in TOOLKIT.finditer(text)]
        return {(text.count("\n", 0, m.start(1)) + 1, m[1]): set() for m in INCLUDE.finditer(text)}

    def reached(self, path):
        """{file that a file reaches: the file that includes it on a shortest way}."""
        before = {path: None}
        queue = [path]
        for at in queue:
            for include in self.includes.get(at, []):
                if include.target not in before:
                    before[include.target] = at
                    queue.append(include.target)
        return before


def unknown_folders(table, sources):
    files = {folder_of(path): path for path in sorted(sources.includes, reverse=True) if not is_generated(path)}
    for folder, path in sorted(files.items()):
        if folder not in table.below:
            yield Violation(f"{folder} unknown", path, f"the folder {folder} is not in {TABLE}",
                            "add the folder to the table, above what it includes")


def upward_includes(table, sources):
    for path, includes in sorted(sources.includes.items()):
        folder = folder_of(path)
        for line, target in includes:
            lower = folder_of(target)
            if folder in table.below and lower and not table.allows(folder, target):
                above = folder in table.below.get(lower, ())
                yield Violation(
                    f"{path} includes {target}", f"{path}:{line}",
                    f"includes {target}, but {TABLE} puts {lower} " + (f"above {folder}" if above else f"beside {folder}, not below"),
                    "move the declaration that the file needs to a lower folder, or let the other folder register a hook")


def reached_headers(table, sources):
    """Reports a chain of headers once, at its first step out of these folders, and not for each file that leads
    there."""
    for patterns, folders in table.never.items():
        for path, includes in sorted(sources.includes.items()):
            for line, target in includes if folder_of(path) in folders else []:
                if folder_of(target) in folders and not any(fnmatch.fnmatch(target, p) for p in patterns):
                    continue
                before = sources.reached(target)
                header = next((h for h in before if any(fnmatch.fnmatch(h, p) for p in patterns)), None)
                if header:
                    way = [header]
                    while before[way[0]]:
                        way.insert(0, before[way[0]])
                    yield Violation(f"{path} reaches {header}", f"{path}:{line}",
                                    f"includes {' -> '.join(way)}, which no file of {folder_of(path)} may reach ({TABLE}, the line with \"!\")",
                                    "move what the file needs to a header without CUDA types")


def cycles(sources):
    """A file that reaches itself is in a cycle. The cycle is named by all files that it reaches and that reach it."""
    done = set()
    reached = {path: sources.reached(path) for path in sources.includes}
    for path in sorted(reached):
        ring = sorted(other for other in reached[path] if path in reached.get(other, ()))
        if len(ring) < 2 or path in done:
            continue
        done.update(ring)
        if len({os.path.splitext(f)[0] for f in ring}) == 1:
            continue
        first = next(i for i in sources.includes[path] if i.target in ring)
        before = sources.reached(first.target)
        way = [path]
        while before[way[0]]:
            way.insert(0, before[way[0]])
        yield Violation("cycle of " + " ".join(ring), f"{path}:{first.line}", f"includes itself: {' -> '.join([path] + way)}",
                        "move what both files need to a header that includes neither")


def late_headers(sources):
    for path in sorted(sources.late):
        yield Violation(f"{path} late", path, "a compilation found this header by its absolute path, so ninja compiles again one run late",
                        "name the build directory by -I. in the compiler's arguments")


def toolkit_headers(sources):
    for path, line, header in sorted(sources.toolkit):
        if folder_of(path) not in WITH_TOOLKIT:
            yield Violation(f"{path} includes {header}", f"{path}:{line}", f"includes {header} of the CUDA toolkit, which most machines lack",
                            "include protocol/cuda-functions.h or protocol/cuda-abi.h")


def large_folders(table, root):
    for folder in sorted(table.below):
        count = len(files_in(root, folder))
        if count > MOST_FILES and not is_test(folder):
            yield Violation(f"{folder} large", folder, f"has {count} .c and .h files, more than {MOST_FILES}",
                            f"move the files of one subject to a folder of their own, and add that to {TABLE}")


def known_violations(path):
    """{name: reason} of layers-known.txt."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {name.strip(): reason.strip() for name, _, reason in (line.partition("#") for line in lines)}


def stale_entries(known, found, sources):
    """A file that the build directories do not compile may still have its violation."""
    for name in known:
        path = name.removeprefix("cycle of ").split()[0]
        unseen = path.endswith((".c", ".h")) and path not in sources.includes and (sources.root / path).exists()
        if name not in found and not unseen:
            yield name


def remove_entries(path, names):
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if line.partition("#")[0].strip() not in names), encoding="utf-8")


def main(argv):
    parser = argparse.ArgumentParser(description="Checks which folders include which, by scripts/layers.txt.")
    parser.add_argument("--update", action="store_true", help="remove the entries of layers-known.txt whose violation is gone")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent, help="the project")
    parser.add_argument("builds", nargs="+", type=pathlib.Path, metavar="BUILD_DIRECTORY")
    arguments = parser.parse_args(argv)
    root = arguments.root.resolve()

    table = Table(root / TABLE)
    sources = Sources(root, [build.resolve() for build in arguments.builds])
    found = {v.name: v for v in [*table.violations(root), *unknown_folders(table, sources), *upward_includes(table, sources),
                                 *reached_headers(table, sources), *cycles(sources), *late_headers(sources), *toolkit_headers(sources), *large_folders(table, root)]}
    known = known_violations(root / KNOWN)
    stale = list(stale_entries(known, found, sources))
    errors = [f"{v.place}: {v.text}: {v.mend}" for v in found.values() if v.name not in known]
    errors += [f"{KNOWN}: {name}: has no reason: add one behind a #" for name, reason in known.items() if not reason]
    if arguments.update:
        remove_entries(root / KNOWN, stale)
    else:
        errors += [f"{KNOWN}: {name}: no such violation exists any more: remove the entry (--update does)" for name in stale]
    for error in errors:
        print(error)
    print(f"{len(sources.includes)} files in {len(table.below)} folders: known violations: {len(known) - len(stale)}, errors: {len(errors)}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
