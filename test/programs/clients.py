# SPDX-License-Identifier: Apache-2.0
"""Parts of programs that use a library, whose results are compared with NumPy's."""

import sys
import time

import numpy as np

PARTS = {}


def part(library):
    def add(f):
        PARTS[f"{library}-{f.__name__.replace('_', '-')}"] = (library, f)
        return f
    return add


def close(got, expected, tolerance=1e-5):
    return bool(np.allclose(np.asarray(got), expected, rtol=tolerance, atol=tolerance))


def numbers(*shape, kind=np.float64, seed=1):
    return np.random.RandomState(seed).rand(*shape).astype(kind)


def is_right(result):
    return result is not False and not (isinstance(result, tuple) and False in [r for r in result if isinstance(r, bool)])


def run(wanted, load):
    """
    Runs the parts that are named, or whose library is, and prints a line for each; times go to stderr. load(library)
    returns the module and its version, or None: it is skipped. Returns the exit status, 1 if a part fails.
    """
    failed, loaded = False, {}
    for name, (library, f) in PARTS.items():
        if name not in wanted and library not in wanted:
            continue
        if library not in loaded:
            loaded[library] = load(library)
            if loaded[library]:
                print(library, loaded[library][1], flush=True)
        if not loaded[library]:
            continue
        start = time.monotonic()
        try:
            result = f(loaded[library][0])
        except Exception as error:  # whatever a library raises
            result, failed = f"FAILED: {type(error).__name__}: {str(error)[:600]}", True
        failed |= not is_right(result)
        print(f"{name}: {result}", flush=True)
        print(f"  {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
    return 1 if failed else 0
