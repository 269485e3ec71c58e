#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`vcuda cache`: test-cache.py VCUDA PROGRAM SCENARIO. PROGRAM launches at least one kernel, and succeeds."""
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile

VCUDA, PROGRAM = sys.argv[1:3]
FOLDER = tempfile.TemporaryDirectory(prefix="vcuda-test-")
TOP = pathlib.Path(FOLDER.name)
HEAD = 8 + 8 + 8 + 32 + 160  # of a file: magic, format, entries, compiler, text
ENTRY = 32 + 8 + 32  # key, size, hash


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def run(*command, status=0, **env):
    r = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=300, env={**os.environ, **env})
    check(r.returncode == status, f"{command}: status {r.returncode}: {r.stdout}{r.stderr}")
    return r


def cache(command, folder, *arguments, **options):
    return run(VCUDA, "cache", command, "--dir", folder, *arguments, **options)


def folder(name):
    (TOP / name).mkdir()
    return TOP / name


def info(place):
    return json.loads(cache("info", place, "--json").stdout)


def filled():
    """A cache with the program's kernels, exported to a file."""
    place, file = folder("built"), TOP / "file"
    cache("build", place, "--", PROGRAM)
    cache("export", place, file)
    return place, file


def code_of_run(place):
    """Where the code of the program's kernels came from: (compiler, cache)."""
    r = run(VCUDA, "run", "--backend", "cpu", "--", PROGRAM, VCUDA_CACHE=str(place), VCUDA_VERBOSE="1")
    return [len(re.findall(f"optimised, from the {place}", r.stderr)) for place in ("compiler", "cache")]


def moved():
    """Built, exported and imported: the program compiles nothing, and begins with optimised code."""
    place, file = filled()
    check(code_of_run(place)[0] == 0 and code_of_run(place)[1] > 0, "the program compiles what was built")
    other = folder("other")
    check(info(other)["entries"] == 0, "an empty folder has entries")
    cache("import", other, file)
    check(info(other)["entries"] == info(place)["entries"] > 0, f"{info(other)}, {info(place)}")
    check(code_of_run(other)[0] == 0 and code_of_run(other)[1] > 0, "the program compiles what was imported")
    cache("import", other, file)
    check(info(other)["entries"] == info(place)["entries"], "the second import adds entries")
    check("exit status" not in cache("build", place, "--", "sh", "-c", "exit 3", status=3).stdout, "the program's status")


def refused(place, file, words):
    r = cache("import", place, file, status=125)
    check(words in r.stderr, f"{words}: {r.stderr}")
    check(info(place)["entries"] == 0, f"{words}: entries were taken")


def refusals():
    """A file that is not whole, not its owner's alone, or for another machine, changes nothing."""
    _, file = filled()
    place, bad = folder("none"), TOP / "bad"
    good = file.read_bytes()
    check(len(good) > HEAD + ENTRY, "a file without entries")

    def written(data, mode=0o600):
        bad.write_bytes(data)
        bad.chmod(mode)
        return bad

    refused(place, TOP / "nosuch", "No such file")
    refused(place, TOP, "is no file")
    refused(place, written(b"text\n"), "is no file of `vcuda cache export`")
    refused(place, written(good[:8] + b"\2" + good[9:]), "another format")
    refused(place, written(good[:24] + bytes([good[24] ^ 1]) + good[25:]), "is for another software GPU: build ")
    refused(place, written(good[:16] + b"\xff" * 8 + good[24:]), "is not whole")
    refused(place, written(good + b"x"), "there is more behind its entries")
    refused(place, written(good, 0o620), "other users may write to it")
    refused(place, written(good, 0o602), "other users may write to it")
    if os.geteuid() == 0:
        os.chown(written(good), 12345, -1)
        refused(place, bad, "it is another user's")
    os.unlink(bad)
    size = HEAD + 32
    refused(place, written(good[:size] + b"\xff" * 8 + good[size + 8:]), "is not whole")
    seed = int(os.environ.get("VCUDA_TEST_SEED", random.randrange(1 << 32)))
    print(f"VCUDA_TEST_SEED={seed}")
    numbers = random.Random(seed)
    for _ in range(30):
        refused(place, written(good[:numbers.randrange(HEAD, len(good))]), "is not whole")
        at = numbers.randrange(HEAD, len(good))
        refused(place, written(good[:at] + bytes([good[at] ^ 1 << numbers.randrange(8)]) + good[at + 1:]), "")


def limits():
    """A cache that is off, or too small, says so."""
    place, file = filled()
    check("VCUDA_CPU_CACHE is 0" in cache("import", place, file, status=125, VCUDA_CPU_CACHE="0").stderr, "an import without a cache")
    check("none are built" in cache("build", place, "--", PROGRAM, status=125, VCUDA_CPU_CACHE="0").stderr, "a build without a cache")
    check("none: no kernels are kept" in cache("info", place, VCUDA_CPU_CACHE="0").stdout, "info without a cache")
    check("No such file" in cache("info", TOP / "nosuch", status=125).stderr, "a folder that is not there")
    check("cannot be written" in cache("export", place, TOP / "no/such/file", status=125).stderr, "a path that cannot be written")
    check("usage:" in run(VCUDA, "cache", status=125).stderr and "is no option" in run(VCUDA, "cache", "info", "--nope", status=125).stderr, "usage")
    check(run(VCUDA, "cache", "build", "--help").stdout.startswith("usage:"), "--help")


globals()[sys.argv[3]]()
print("ok")
