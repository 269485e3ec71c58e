# SPDX-License-Identifier: Apache-2.0
"""cuCheckpointProcess*(): a guest locks its own processes, and has their memory released and restored."""

import collections
import contextlib
import os
import random
import signal
import subprocess
import time

from harness import LIMIT, build, check, children, random_seed, wait_until
from pause import BALLAST_MIB, TIMES, finish, memory_of, paused_daemon, said, stands, start, vcuda, works

SUCCESS, INVALID_VALUE, NOT_SUPPORTED, OPERATING_SYSTEM, ILLEGAL_STATE, NOT_READY = 0, 1, 801, 304, 401, 600
RUNNING, LOCKED, CHECKPOINTED = "state 0", "state 1", "state 2"


@contextlib.contextmanager
def detaching_daemon(*options):
    """As paused_daemon(), for programs that give their connection up while they are checkpointed."""
    with paused_daemon(*options) as d:
        d.env = dict(d.env, VCUDA_CHECKPOINT="detach")
        yield d


def act(d, process, *steps, before=()):
    """Makes the steps, each an action and what it gives; `before`: actions that give nothing."""
    pid = getattr(process, "pid", process)
    actions, wanted = steps[::2], [str(answer) for answer in steps[1::2]]
    r = subprocess.run([build("test/local/checkpoint"), str(pid), *before, *actions], env=d.env, capture_output=True,
                       text=True, timeout=LIMIT)
    check(r.returncode == 0, f"checkpoint {actions} ended with {r.returncode}: {r.stderr}")
    check(r.stdout.splitlines() == wanted, f"{actions} gave {r.stdout.splitlines()}, not {wanted}: {r.stderr}")


BUSY = "is busy in the library"
TRIES = 5


def lock(d, p):
    """So that the process can detach: on a machine that is too busy a thread may be in the library for too long."""
    for _ in range(TRIES):
        before = said(p).count(BUSY)
        act(d, p, "lock", SUCCESS)
        if said(p).count(BUSY) == before:
            return
        act(d, p, "unlock", SUCCESS)
    check(False, f"a thread of the process stays in the library: {said(p)}")


def entries(pid, kind):
    return sorted(os.listdir(f"/proc/{pid}/{kind}"))


def thread_names(pid):
    names = []
    for thread in entries(pid, "task"):
        # A thread may end meanwhile.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as f:
            names.append((f.read().strip(), int(thread)))
    return sorted(names)


def restore_thread(pid):
    found = [thread for name, thread in thread_names(pid) if name == "cuda-restore"]
    check(len(found) == 1, thread_names(pid))
    return found[0]


def worker_of(d, program):
    return next(w["worker"] for w in d.processes() if w["pid"] == program.pid)


def order():
    """Each step needs the state that the one before leads to."""
    with detaching_daemon() as d:
        program, neighbour = start(d), start(d)
        worker, = set(children(d.pid)) & {w["worker"] for w in d.processes() if w["pid"] == program.pid}
        act(d, program, "state", RUNNING, "unlock", ILLEGAL_STATE, "checkpoint", ILLEGAL_STATE, "restore", ILLEGAL_STATE,
            "reserved", INVALID_VALUE, "pairs", NOT_SUPPORTED, "thread", f"thread {restore_thread(program.pid)}")
        works(program)
        lock(d, program)
        act(d, program, "state", LOCKED, "lock", ILLEGAL_STATE, "restore", ILLEGAL_STATE)
        check(d.state_of(program) == "locked", d.state_of(program))
        stands(program)
        works(neighbour)
        before = memory_of(worker)
        act(d, program, "checkpoint", SUCCESS, "state", CHECKPOINTED, "unlock", ILLEGAL_STATE, "lock", ILLEGAL_STATE)
        check(d.state_of(program) == "detached", d.state_of(program))
        check(memory_of(worker) <= before - BALLAST_MIB * 3 // 4, f"of {before} MiB {memory_of(worker)} MiB are left")
        works(neighbour)
        act(d, program, "restore", SUCCESS, "state", LOCKED)
        check(memory_of(worker) >= BALLAST_MIB, "the memory is not back")
        stands(program)
        act(d, program, "unlock", SUCCESS, "state", RUNNING)
        works(program)
        finish(program, neighbour)


def with_operator():
    """A process that the operator paused stays paused when the guest unlocks it, and the other way round."""
    with detaching_daemon() as d:
        p = start(d)
        act(d, p, "lock", SUCCESS)
        d.say("pause", "--release", p.pid)
        d.say("resume", p.pid)
        act(d, p, "state", LOCKED)
        stands(p)
        d.say("pause", p.pid)
        act(d, p, "unlock", SUCCESS, "state", RUNNING)
        stands(p)
        act(d, p, "lock", SUCCESS, "checkpoint", SUCCESS)
        d.say("resume", p.pid)
        stands(p)
        act(d, p, "restore", SUCCESS, "unlock", SUCCESS)
        works(p)
        d.say("pause", "--release", p.pid)
        act(d, p, "lock", SUCCESS, "checkpoint", SUCCESS, "restore", SUCCESS, "unlock", SUCCESS)
        check(d.state_of(p) == "released", d.state_of(p))
        stands(p)
        d.say("resume", p.pid)
        works(p)
        finish(p)


def in_vain():
    """Work that does not end, processes that do not compute, and other users' processes."""
    with detaching_daemon("--allow-any-user") as d:
        waits, other = start(d, "waits"), start(d)
        act(d, waits, "lock=300", NOT_READY, "state", RUNNING)
        works(other)
        act(d, os.getpid(), "state", OPERATING_SYSTEM, "lock", OPERATING_SYSTEM)
        ended = subprocess.Popen(["true"])
        ended.wait(LIMIT)
        act(d, ended, "state", OPERATING_SYSTEM)
        if os.geteuid() == 0:
            os.chmod(os.path.dirname(d.env["VCUDA_SOCKET"]), 0o755)
            os.chmod(d.env["VCUDA_SOCKET"], 0o666)
            act(d, other, "lock", OPERATING_SYSTEM, "state", OPERATING_SYSTEM, before=["user=65534"])
        act(d, other, "state", RUNNING)
        finish(waits, other)


def of_itself():
    """A process may hold itself: its other calls wait, and those that hold it do not."""
    with detaching_daemon() as d:
        act(d, "self", "lock", SUCCESS, "checkpoint", SUCCESS, "state", CHECKPOINTED, "restore", SUCCESS, "unlock", SUCCESS)


def utility():
    """The table behind NVIDIA's program cuda-checkpoint: its options, its answers and its exit status."""
    with detaching_daemon() as d:
        p = start(d)

        def run(*arguments, status=0):
            r = subprocess.run([build("test/local/checkpoint"), "utility", *map(str, arguments)], env=d.env, capture_output=True,
                               text=True, timeout=LIMIT)
            check(r.returncode == status, f"{arguments} ended with {r.returncode}: {r.stdout}{r.stderr}")
            return r.stdout.strip() if not status else r.stderr

        of = "--pid", p.pid
        check(run("--get-state", *of) == "running", "the state of a process that runs")
        run("--toggle", *of)
        check(run("--get-state", "-p", p.pid) == "checkpointed", "the state after --toggle")
        stands(p)
        check("failed" in run("--action", "unlock", *of, status=1), "unlock of a checkpointed process")
        run(*of, "--toggle")
        works(p)
        run("--action=lock", *of, "--timeout", 5000)
        check(run("--get-state", *of) == "locked", "the state of a locked process")
        for action, state in ("checkpoint", "checkpointed"), ("restore", "locked"), ("unlock", "running"):
            run("--action", action, *of)
            check(run("--get-state", *of) == state, f"the state after {action}")
        works(p)
        check("usage" in run("--help"), "--help")
        for wrong in (), ("--get-state",), ("--pid", "x", "--toggle"), ("--action", "jump", *of), ("--toggle", "--get-state", *of), (*of, "--toggle", "x"):
            check("usage" in run(*wrong, status=1), wrong)
        check("304" in run("--get-state", "--pid", os.getpid(), status=1), "a process that does not compute")
        finish(p)


def ends():
    """A process that is held ends as any other. The session of one that was checkpointed stays for a while."""
    with detaching_daemon("--keep-detached", "0") as d:
        for steps in ("lock", SUCCESS), ("lock", SUCCESS, "checkpoint", SUCCESS):
            p = start(d)
            act(d, p, *steps)
            p.kill()
            p.wait(LIMIT)
            wait_until(lambda: not children(d.pid), "the worker of a process that was held outlives it")
        p = start(d)
        lock(d, p)
        act(d, p, "checkpoint", SUCCESS)
        os.kill(worker_of(d, p), signal.SIGKILL)
        wait_until(lambda: not children(d.pid), "the worker does not end")
        act(d, p, "restore", OPERATING_SYSTEM)
        p.wait(LIMIT)
        check(p.returncode == 3, f"the program ended with {p.returncode}")
    with detaching_daemon() as d:
        p = start(d)
        lock(d, p)
        act(d, p, "checkpoint", SUCCESS)
        worker = worker_of(d, p)
        p.kill()
        p.wait(LIMIT)
        check(d.state_of(p) == "detached", d.state_of(p))
        r = vcuda("vm", "kill", "--control", d.control, str(d.pid), str(p.pid))
        check(r.returncode == 0, r.stderr)
        wait_until(lambda: worker not in children(d.pid), "the operator cannot end a session without a process")


def at_random_moments():
    chance = random.Random(random_seed())
    with detaching_daemon() as d:
        program, copies, writes = start(d), start(d, "copies"), start(d, "writes")
        seen = collections.Counter()
        for _ in range(TIMES // 2):
            for p in program, copies, writes:
                time.sleep(chance.uniform(0, 0.05))
                act(d, p, "lock", SUCCESS, "checkpoint", SUCCESS)
                # On a machine that is too busy a thread may be in the library for too long: then the process stays attached.
                check(d.state_of(p) in ("detached", "checkpointed"), d.state_of(p))
                seen[p.pid, d.state_of(p)] += 1
                act(d, p, "restore", SUCCESS, "unlock", SUCCESS)
        check(all(seen[p.pid, "detached"] for p in (program, copies, writes)), seen)
        works(program)
        works(writes)
        finish(program, copies, writes)


def checkpoint():
    for part in order, with_operator, in_vain, of_itself, utility, ends, at_random_moments:
        part()
