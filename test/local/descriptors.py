# SPDX-License-Identifier: Apache-2.0
"""Descriptors 0, 1 and 2, and those of a CUDA session, in programs and in ours."""

import contextlib
import os
import subprocess
import tempfile

from harness import BACKEND, LIMIT, build, check, vcuda, wait_until

SUBSETS = [[fd for fd in range(3) if mask & 1 << fd] for mask in range(1, 8)]


def descriptors():
    """A program keeps its descriptors to itself, and is told where it takes one of the session's away."""
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/descriptors"))
    check(r.returncode == 0, f"descriptors: {r.returncode}\n{r.stdout[-4000:]}{r.stderr[-2000:]}")


def without(closed, command):
    """The command as a process that begins with these descriptors closed."""
    return ["sh", "-c", 'exec "$@" ' + " ".join(f"{fd}>&-" for fd in closed), "sh", *command]


def closed_for_program(closed):
    """`vcuda run` started so: the program works, and has the same descriptors closed."""
    with tempfile.TemporaryDirectory() as directory:
        result = os.path.join(directory, "result")
        program = f'{build("test/local/steady")} 0 > {result}.out; echo $? > {result}'
        test = "; ".join(f"[ -e /proc/self/fd/{fd} ] && exit 9" for fd in closed)
        command = [build("cli/vcuda"), "run", "--backend", BACKEND, "--", "sh", "-c", f"({test}; exit 0) && {program}"]
        r = subprocess.run(without(closed, command), timeout=LIMIT, check=False)
        with contextlib.suppress(OSError), open(result, encoding="utf-8") as f:
            check(r.returncode == 0 and f.read() == "0\n", f"vcuda run without {closed}: {r.returncode}")
            return
        check(False, f"vcuda run without {closed}: {r.returncode}, and the program has not run")


def daemon_without(closed):
    """A vcudad started so serves programs, whose workers it starts."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "socket")
        command = [build("host/daemon/vcudad"), "--socket", path, "--backend", BACKEND]
        with subprocess.Popen(without(closed, command)) as process:
            try:
                wait_until(lambda: os.path.exists(path) or process.poll() is not None, "the daemon makes no socket")
                env = dict(os.environ, VCUDA_SOCKET=path, VCUDA_TRANSPORT="local", LD_LIBRARY_PATH=build("guest/lib"))
                r = subprocess.run([build("test/local/steady"), "0"], env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
                check(r.returncode == 0, f"vcudad without {closed}: {r.returncode} {r.stdout}{r.stderr}")
            finally:
                process.terminate()
                process.wait(LIMIT)


def descriptors_of_host():
    """The command, vcudad and workers work where they begin without some of the descriptors 0, 1 and 2."""
    for closed in SUBSETS:
        closed_for_program(closed)
        daemon_without(closed)
