# SPDX-License-Identifier: Apache-2.0
"""Bounds of the software GPU, and `vcuda run --check`."""

import os

from harness import build, check, vcuda


def bounds():
    """Accesses beside an allocation pass as on a GPU, with one warning; shared memory is exact; `exact` and --check find all."""
    stray = build("test/local/stray")

    def run(status, printed, *options, env=None, words=16, shared=0):
        r = vcuda("run", *options, "--", stray, str(words), str(shared), env=env)
        check(r.returncode == status and r.stdout == f"{printed}\n", f"{options}: {r.returncode}\n{r.stdout}{r.stderr}")
        return r.stderr

    cpu = ["--backend", "cpu"]
    check(run(0, 0, *cpu, words=64) == "", "the log of a program that works is not empty")
    text = run(0, 0, *cpu)
    check(text.count("\n") == 1, f"not one line: {text}")
    for part in ("warning: kernel fill: a store of 4 bytes", "0 bytes behind the allocation of 64 bytes", "thread (16,0,0)", "line 13 of the PTX"):
        check(part in text, f"no '{part}' in {text}")
    run(0, 700, *cpu, shared=4)
    exact = dict(os.environ, VCUDA_CPU_BOUNDS="exact")
    check("kernel fill: illegal address" in run(0, 700, *cpu, env=exact), "no fault in the log")
    check(run(0, 0, "--check", words=64) == "vcuda: check: 0 faults\n", "faults of a program that has none")
    text = run(1, 0, "--check")
    check(text.count("check: kernel fill: illegal address: a store of 4 bytes") == 48 and "vcuda: check: 48 faults" in text, text)
    text = run(1, 0, "--check", "--backend", "cpu", "--sandbox", "off", shared=4)
    check("vcuda: check: 49 faults" in text and "(shared), block (0,0,0), thread (63,0,0), line 18" in text, text)
    r = vcuda("run", "--check", "--", "sh", "-c", f"{stray} 4; {stray} 4; exit 7")
    check(r.returncode == 7 and "check: 20 more faults are not printed\nvcuda: check: 120 faults" in r.stderr, r.stderr)
    check(r.stderr.count("check: kernel fill") == 100, "not 100 are printed")
    r = vcuda("run", "--check", "--backend", "cuda", "--", stray)
    check(r.returncode == 125 and "--check needs the software GPU" in r.stderr, r.stderr)
