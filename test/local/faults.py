# SPDX-License-Identifier: Apache-2.0
"""Faults beside a program that computes and checks: it never notices, and after them vcudad has what it had before.

VCUDA_TEST_TIMES=10 has them for ten times as long, VCUDA_TEST_SEED the moments of an earlier run.
"""

import collections
import contextlib
import ctypes
import glob
import os
import random
import re
import resource
import signal
import subprocess
import tempfile
import time

from harness import BACKEND, LIMIT, build, check, children, daemon, start_steady, wait_until

TIMES = int(os.environ.get("VCUDA_TEST_TIMES", 1))
SEED = int(os.environ.get("VCUDA_TEST_SEED", time.time_ns() % 2**32))
NEW_MOUNTS = 0x20000


def is_running(pid):
    """A process that ended and was not waited for, as orphans of some containers, is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def groups(pid):
    return glob.glob(f"/sys/fs/cgroup/**/vcudad-*-{pid}-*/", recursive=True)


def inventory(pid):
    """The resources of a daemon that may leak."""
    found = collections.Counter()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found["descriptor " + re.sub(r"\d+", "N", os.readlink(f"/proc/{pid}/fd/{fd}"))] += 1
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        found["mapped files"] = sum(" /" in line for line in maps)
    found["threads"] = len(os.listdir(f"/proc/{pid}/task"))
    found["children"] = len(children(pid))
    found["groups"] = sum(entry.is_dir() for path in groups(pid) for entry in os.scandir(path))
    return found


def settled(pid, workers=0):
    """The inventory of a daemon, once it has freed all of its workers except `workers`.

    A worker that has ended is no child any more before the daemon has seen its end.
    """
    def has():
        found = inventory(pid)
        return (found["children"] == found["descriptor anon_inode:[pidfd]"] == workers and found["groups"] in (0, workers)
                and found["descriptor /proc/N/maps"] <= workers)
    wait_until(has, "a worker is left")
    return inventory(pid)


def wait_until_same(pid, before):
    """False if it has not what it had before. Its last worker may have ended just now."""
    end = time.monotonic() + 60
    while inventory(pid) != before:
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def start_victim(d, env):
    """A program that would compute for a minute, at any moment of its life, and its worker, if it has one yet."""
    before = set(children(d.pid))
    p = subprocess.Popen([build("test/local/steady"), "60"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if random.random() < 0.8:
        wait_until(lambda: set(children(d.pid)) - before or p.poll() is not None, "a program gets no worker")
    time.sleep(random.random() * 0.3)
    return p, set(children(d.pid)) - before


def end_program(p):
    p.kill()
    p.wait(LIMIT)


def kill_worker(d, env):
    p, workers = start_victim(d, env)
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
        check(p.wait(LIMIT) != 0, "a program without its worker ended well")
    end_program(p)


def stop_worker(d, env):
    """A worker that is stopped is there until it goes on."""
    p, workers = start_victim(d, env)
    for worker in workers:
        os.kill(worker, signal.SIGSTOP)
    time.sleep(random.random() * 0.2)
    end_program(p)
    for worker in workers:
        os.kill(worker, signal.SIGCONT)


def kill_program(d, env):
    end_program(start_victim(d, env)[0])


def take_descriptors(d, env):
    """From a worker: its program may get errors."""
    p, workers = start_victim(d, env)
    for worker in workers:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(worker, resource.RLIMIT_NOFILE, (random.randrange(3, 12),) * 2)
    time.sleep(random.random() * 0.3)
    end_program(p)


def run_program(d, env):
    check(start_steady(env, 0).wait(LIMIT) == 0, "a program does not work")


def run_faults(directory):
    os.environ["VCUDA_CACHE"] = directory
    random.seed(SEED)
    print(f"seed {SEED}")
    with daemon() as (d, env):
        run_program(d, env)
        before = settled(d.pid)
        neighbour = start_steady(env, 8 * TIMES)
        while neighbour.poll() is None:
            random.choice((kill_worker, stop_worker, kill_program, take_descriptors, run_program))(d, env)
        check(neighbour.returncode == 0, f"the neighbour ended with {neighbour.returncode}: {neighbour.stdout.read()}")
        for _ in range(10 * TIMES):
            run_program(d, env)
        check(wait_until_same(d.pid, before), f"{inventory(d.pid) - before} more, {before - inventory(d.pid)} less")


@contextlib.contextmanager
def full_disk():
    """A folder that has no room. Without the right to mount it has."""
    with tempfile.TemporaryDirectory() as directory:
        mounted = not ctypes.CDLL(None).unshare(NEW_MOUNTS) and not subprocess.call(
            ["sh", "-c", 'mount --make-rprivate / && mount -t tmpfs -o size=1m none "$0"', directory], stderr=subprocess.DEVNULL)
        if mounted:
            with contextlib.suppress(OSError), open(os.path.join(directory, "rest"), "wb") as rest:
                while rest.write(bytes(4096)):
                    rest.flush()
        try:
            yield directory
        finally:
            if mounted:
                subprocess.check_call(["umount", directory])


def start_daemon(path):
    process = subprocess.Popen([build("host/daemon/vcudad"), "--socket", path, "--backend", BACKEND])
    wait_until(lambda: os.path.exists(path) or process.poll() is not None, "the daemon makes no socket")
    return process


def kill_daemon():
    """Programs get an error, their workers end, and the next daemon finds nothing of the last one."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "socket")
        env = dict(os.environ, VCUDA_SOCKET=path, VCUDA_TRANSPORT="local", LD_LIBRARY_PATH=build("guest/lib"))
        for _ in range(2 * TIMES):
            first = start_daemon(path)
            programs = [start_steady(env) for _ in range(2)]
            workers = children(first.pid)
            check(len(workers) == 2, f"{len(workers)} workers for two programs")
            first.kill()
            first.wait()
            for p in programs:
                check(p.wait(LIMIT) == 3, f"ended with {p.returncode}")
            wait_until(lambda: not [w for w in workers if is_running(w)], "a worker outlives its daemon")
            os.unlink(path)
            second = start_daemon(path)
            check(not groups(first.pid), f"control groups are left: {groups(first.pid)}")
            check(start_steady(env, 0).wait(LIMIT) == 0, "the next daemon does not work")
            second.terminate()
            check(second.wait(LIMIT) == 0, "the next daemon does not end well")
            check(not groups(second.pid), f"control groups are left: {groups(second.pid)}")


def faults():
    """Workers and programs are killed, stopped, without descriptors and disk, and daemons are killed."""
    kill_daemon()
    with full_disk() as directory:
        run_faults(directory)
