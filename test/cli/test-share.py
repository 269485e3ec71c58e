#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`vcuda vm run` shares this machine's files and cannot write to them: test-share.py VCUDA REFUSED SCENARIO"""

import os
import re
import subprocess
import sys

VCUDA, REFUSED = sys.argv[1], sys.argv[2]
SUBJECT = "read-only sharing of files"
ROOT = os.geteuid() == 0


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def run(how, *arguments, **env):
    """In the situation of refused.c; none if `how` is empty."""
    line = [*([REFUSED, how] if how else []), VCUDA, *arguments]
    r = subprocess.run(line, capture_output=True, text=True, timeout=60, check=False, env=dict(os.environ, **env))
    if r.returncode == 77:
        print(f"skipped: {r.stderr}")
        sys.exit(77)
    return r


def said_by_doctor(how):
    """The sentence and the remedy, both None where the files can be shared."""
    r = run(how, "doctor")
    check(r.returncode in (0, 1), f"{how}: doctor ended with {r.returncode}: {r.stderr}")
    missing = re.search(rf"^missing {SUBJECT}: (.*)\n {{8}}(.*)$", r.stdout, re.M)
    if missing:
        check(r.returncode == 1 and "`vcuda vm run` cannot work yet" in r.stdout, f"{how}: {r.stdout}")
        return missing.groups()
    check(re.search(rf"^ok +{SUBJECT}: ", r.stdout, re.M), f"{how}: not a word on {SUBJECT}:\n{r.stdout}")
    return None, None


def expect_refusal(how, sentence, mends):
    """The command and the doctor say the same."""
    what, mend = said_by_doctor(how)
    check(what and re.search(sentence, what), f"{how}: the doctor says {what!r}, not {sentence!r}")
    for word in mends:
        check(word in mend, f"{how}: {mend!r} lacks {word!r}")
    for word in ("sysctl", "sudo", "--privileged"):
        check(word not in mend or word in " ".join(mends), f"{how}: {word!r} does not fit: {mend!r}")
    # Nothing is looked for or downloaded before.
    r = run(how, "vm", "run", "--", "true", VCUDA_SCRIPTS="/nonexistent")
    check(r.returncode == 125, f"{how}: vm run ended with {r.returncode}: {r.stderr}")
    check(r.stderr == f"vcuda: this machine's files cannot be shared read-only: {what}. {mend}\n", f"{how}: vm run says {r.stderr!r}")


def refused():
    expect_refusal("limit", "refuses this user a user namespace .unshare.: No space left",
                   ["sysctl user.max_user_namespaces=", "sudo vcuda"])
    expect_refusal("root", "root has no CAP_SYS_ADMIN", ["--privileged"])
    expect_refusal("chroot", "user namespaces in a chroot .unshare.: Operation not permitted", ["administrator"])
    check(said_by_doctor("root-limited")[0] is None, "the doctor finds something missing where nothing is")
    expect_refusal("filter", "refuses root a mount namespace" if ROOT else "refuses this user a user namespace", ["--privileged"])


globals()[sys.argv[3]]()
