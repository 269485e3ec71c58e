#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The version in meson.build is the only one that is written by hand.

usage: check-version.py [--print | --update] [--root DIRECTORY]      (the test "version")

Programs, packages and manual pages get the version from the build. A few files are used as they are in the tree, and
name it, too: PLACES. The check compares these with meson.build, and finds the version in any other file. --update
writes the version of meson.build into the files of PLACES. --print prints it.
"""
import argparse
import os
import pathlib
import re
import sys

VERSION = re.compile(r"^  version: '([^']+)',$", re.M)
# File and the words around the version.
PLACES = {
    "doc/howto/kubernetes.md": r"(?<=virtio-cuda-node:)\S+",
    "doc/tutorial/first-container.md": r"(?<=virtio-cuda  driver )\S+",
    "integrations/kubernetes/Containerfile": r"(?<=virtio-cuda-node:)\S+",
    "integrations/kubernetes/deploy/base/kustomization.yaml": r"(?<=newTag: )\S+",
}
# File, with the reason why the same number is there.
KNOWN = {
    "CHANGELOG.md": "says what each version changed",
    "meson.build": "the source",
    "test/containers/cdi_rules.py": "versions of the CDI specification",
}
SKIPPED = re.compile(r"build.*|dist|\..*|__pycache__|LICENSES")


def version_of(root):
    path = root / "meson.build"
    m = VERSION.search(path.read_text(encoding="utf-8"))
    if not m:
        sys.exit(f"check-version: {path} has no line \"  version: 'X.Y.Z',\"")
    return m.group(1)


def update(root, version):
    for name, pattern in PLACES.items():
        path = root / name
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(pattern, version, text), encoding="utf-8")


def check_places(root, version):
    for name, pattern in PLACES.items():
        text = (root / name).read_text(encoding="utf-8")
        found = list(re.finditer(pattern, text))
        if not found:
            yield f"{name}: the version is expected here, by PLACES in scripts/check-version.py"
        for m in found:
            if m.group() != version:
                line = text.count("\n", 0, m.start()) + 1
                yield f"{name}:{line}: version {m.group()}, but meson.build has {version}: run scripts/check-version.py --update"


def other_files(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not SKIPPED.fullmatch(name)]
        for path in (pathlib.Path(folder, name) for name in names):
            name = path.relative_to(root).as_posix()
            if name not in PLACES and name not in KNOWN and path.is_file() and not path.is_symlink():
                yield name, path.read_text(encoding="utf-8", errors="replace")


def check_others(root, version):
    number = re.compile(rf"(?<![\w.-]){re.escape(version)}(?![\w.])")
    for name, text in sorted(other_files(root)):
        for m in number.finditer(text):
            line = text.count("\n", 0, m.start()) + 1
            yield f"{name}:{line}: a copy of the version: take meson.project_version(), or add the file to scripts/check-version.py"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--print", action="store_true", dest="prints")
    mode.add_argument("--update", action="store_true")
    options = parser.parse_args()
    version = version_of(options.root)
    if options.prints:
        print(version)
        return
    if options.update:
        update(options.root, version)
    found = [*check_places(options.root, version), *check_others(options.root, version)]
    for text in found:
        print(text)
    sys.exit(1 if found else 0)


main()
