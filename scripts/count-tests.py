#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""count-tests.py BROKEN LOG...: adds up meson's test logs. Prints what failed and was skipped, then the one line that counts."""

import json
import os
import sys

RESULTS = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped", "IGNORED": "skipped"}


def main(argv):
    count = {"passed": 0, "failed": int(argv[0]), "skipped": 0}
    for path in argv[1:]:
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as f:
            for line in f:
                test = json.loads(line)
                result = RESULTS.get(test["result"], "failed")
                count[result] += 1
                if result != "passed":
                    print(f"{result}: {test['name']} ({path.split(os.sep)[0]})")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
