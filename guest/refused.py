# SPDX-License-Identifier: Apache-2.0
"""Why calls are refused: reads refused.txt."""
import fnmatch
import pathlib

PATH = pathlib.Path(__file__).with_name("refused.txt")
PER_THREAD = ("_ptsz", "_ptds")  # the same functions, with other default streams


def read():
    """[(pattern, reason)] in order."""
    rules, reason = [], None
    for line in PATH.read_text(encoding="ascii").splitlines():
        if line.startswith("\t"):
            rules.append((line.strip(), reason))
        elif line and not line.startswith("#"):
            reason = line
    return rules


def rule_of(name, rules):
    """(pattern, reason), or None."""
    for suffix in PER_THREAD:
        name = name.removesuffix(suffix)
    return next((rule for rule in rules if fnmatch.fnmatchcase(name, rule[0])), None)
