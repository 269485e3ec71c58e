#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count-tests.py BROKEN LOG...: adds up meson's test logs.

Prints the tests that were skipped, then those that failed with the end of their output, then the one line that counts. The
tests that failed come last, so that the last lines of a long log say why.
"""

import json
import os
import sys

RESULTS = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped", "IGNORED": "skipped"}
LINES_OF_OUTPUT = 12


def tests(paths):
    """Yields (result, name, output) of each test in the logs PATHS that exist."""
    for path in filter(os.path.exists, paths):
        with open(path, encoding="utf-8") as f:
            for line in f:
                test = json.loads(line)
                output = test.get("stdout", "") + test.get("stderr", "")
                name = f"{test['name']} ({path.split(os.sep)[0]})"
                yield RESULTS.get(test["result"], "failed"), name, output


def main(argv):
    count = {"passed": 0, "failed": int(argv[0]), "skipped": 0}
    failed = []
    for result, name, output in tests(argv[1:]):
        count[result] += 1
        if result == "skipped":
            print(f"skipped: {name}")
        elif result == "failed":
            failed.append((name, output))
    for name, output in failed:
        print(f"failed: {name}, whose output ends:")
        for line in output.splitlines()[-LINES_OF_OUTPUT:]:
            print(f"    {line}")
    for name, _ in failed:
        print(f"failed: {name}")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
