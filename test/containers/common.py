# SPDX-License-Identifier: Apache-2.0
"""Daemons and messages of the tests of containers."""

import contextlib
import os
import subprocess
import sys
import tempfile

LIMIT = 600


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def skip(text):
    print(f"SKIPPED: {text}")
    sys.exit(77)


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=LIMIT, **options)


@contextlib.contextmanager
def daemon(build, socket, *options, **environment):
    """A vcudad with the software GPU, which listens before this returns."""
    ready, told = os.pipe()
    with tempfile.TemporaryFile("w+") as log:
        p = subprocess.Popen([f"{build}/host/daemon/vcudad", "--socket", socket, "--backend", "cpu", "--control", "none", "--ready-fd", str(told),
                              *options], stderr=log, pass_fds=[told], env=dict(os.environ, **environment))
        os.close(told)
        with os.fdopen(ready) as pipe:
            listens = pipe.readline()
        if not listens:
            log.seek(0)
            check(False, f"vcudad does not start: {log.read()}")
        try:
            yield p
        finally:
            p.terminate()
            p.wait()
