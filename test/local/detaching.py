# SPDX-License-Identifier: Apache-2.0
"""VCUDA_CHECKPOINT=detach: processes that hold nothing of ours while they are checkpointed."""

import contextlib
import ctypes
import mmap
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import tempfile

from checkpoint import (CHECKPOINTED, ILLEGAL_STATE, NOT_SUPPORTED, OPERATING_SYSTEM, SUCCESS, act, detaching_daemon, entries,
                        lock, restore_thread, thread_names, worker_of)
from compile import ADDRESS_SANITIZER
from harness import LIMIT, build, check, wait_until
from pause import finish, paused_daemon, start, works


def maps_of(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as f:
        return [line.strip() for line in f]


def holdings(pid):
    """The descriptors, mappings and threads of virtio-cuda in a process."""
    links = []
    for fd in entries(pid, "fd"):
        # The restore thread of a locked process opens one now and then, and closes it.
        with contextlib.suppress(FileNotFoundError):
            links += [os.readlink(f"/proc/{pid}/fd/{fd}")] if int(fd) > 2 else []
    maps = [line for line in maps_of(pid) if "vcuda" in line.split(maxsplit=5)[-1] and "memfd:" in line]
    return links, maps, [thread for thread in entries(pid, "task") if int(thread) != pid]


def kept_files(worker):
    """Files of mappings that the worker keeps for a process that may detach."""
    links = []
    for fd in entries(worker, "fd"):
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/{worker}/fd/{fd}"))
    return [link for link in links if "vcuda-mapping" in link]


def shared_with(pid, worker):
    """Files of which both processes have shared memory."""
    files = [{tuple(line.split()[3:5]) for line in maps_of(one) if line.split()[1][3] == "s"} for one in (pid, worker)]
    return files[0] & files[1]


def sleeps(pid, thread):
    """How often the thread has slept."""
    with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as f:
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)$", f.read(), re.M)[1])


PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000


def ptrace(request, thread):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(request, thread, None, None):
        raise OSError(ctypes.get_errno(), f"ptrace of {thread}")


@contextlib.contextmanager
def stopped_threads(pid, but):
    """All threads of a process but one are stopped, as by a debugger."""
    stopped = [int(thread) for thread in entries(pid, "task") if int(thread) != but]
    for thread in stopped:
        ptrace(PTRACE_SEIZE, thread)
        ptrace(PTRACE_INTERRUPT, thread)
        os.waitpid(thread, WALL)
    try:
        yield
    finally:
        for thread in stopped:
            ptrace(PTRACE_DETACH, thread)


def kind(link):
    return link.split(":")[0]


def places(maps):
    """The pages of mappings, however many entries they have, and their files."""
    found = set()
    for line in maps:
        (first, last), inode = (int(end, 16) for end in line.split()[0].split("-")), line.split()[4]
        found |= {(page, inode) for page in range(first, last, 4096)}
    return found


def rest(p):
    """Until the next SIGHUP the program makes no round. In one it may fork, and parts of pages are its own then."""
    p.send_signal(signal.SIGHUP)

    def rests():
        p.send_signal(signal.SIGUSR1)
        return p.stdout.readline().endswith("\t\n")
    wait_until(rests, "the program does not rest")


def nothing_is_held():
    """A checkpointed process has no descriptor, mapping or thread of ours but the restore thread, and then has all again."""
    with detaching_daemon() as d:
        for arguments in (), ("copies",), ("writes",):
            p = start(d, *arguments)
            rest(p)
            links, maps, threads = holdings(p.pid)
            check(len(links) >= 3 and maps and threads, (links, maps, threads))
            check(shared_with(p.pid, worker_of(d, p)), "nothing is shared with the worker")
            check(kept_files(worker_of(d, p)), "the worker keeps no files")
            lock(d, p)
            ours = [str(restore_thread(p.pid))]
            # A thread has said that it ends before it has ended.
            wait_until(lambda: len(holdings(p.pid)[2]) == len(ours) + ("writes" in arguments), "other threads are there")
            act(d, p, "checkpoint", SUCCESS)
            check(holdings(p.pid)[:2] == ([], []), holdings(p.pid))
            check(not shared_with(p.pid, worker_of(d, p)), shared_with(p.pid, worker_of(d, p)))
            check(len(holdings(p.pid)[2]) == len(ours) + ("writes" in arguments), thread_names(p.pid))
            check(d.state_of(p) == "detached", d.state_of(p))
            act(d, p, "unlock", ILLEGAL_STATE, "restore", SUCCESS)
            wait_until(lambda: sorted(map(kind, holdings(p.pid)[0])) == sorted(map(kind, links)), "other descriptors")
            again = holdings(p.pid)[1]
            check(places(again) == places(maps), (again, maps))
            p.send_signal(signal.SIGHUP)
            act(d, p, "unlock", SUCCESS)
            works(p)
            finish(p)


def stays(d, *arguments):
    """The process is checkpointed, and goes on. It keeps its connection meanwhile."""
    p = start(d, *arguments)
    links, maps, _ = holdings(p.pid)
    for _ in range(2):
        lock(d, p)
        act(d, p, "checkpoint", SUCCESS, "state", CHECKPOINTED)
        check(d.state_of(p) == "checkpointed", d.state_of(p))
        wait_until(lambda: holdings(p.pid)[:2] == (links, maps), "other descriptors or mappings")
        act(d, p, "restore", SUCCESS, "unlock", SUCCESS)
        works(p)
    finish(p)


def keeps():
    """A program that does not ask for it keeps all that it has, and has no thread for it."""
    with paused_daemon() as d:
        for how in {}, {"VCUDA_CHECKPOINT": ""}, {"VCUDA_CHECKPOINT": "keep"}:
            d.env = dict(d.env, **how)
            p = start(d)
            act(d, p, "thread", NOT_SUPPORTED)
            check("cuda-restore" not in dict(thread_names(p.pid)), thread_names(p.pid))
            check(not kept_files(worker_of(d, p)), kept_files(worker_of(d, p)))
            finish(p)
            stays(d)
        act(d, "self", "lock", SUCCESS, "checkpoint", SUCCESS, "state", CHECKPOINTED, "restore", SUCCESS, "unlock", SUCCESS)


def what_cannot_be_given_up():
    """Memory that is shared with others, and stacks."""
    with detaching_daemon() as d:
        stays(d, "adopts")
        stays(d, "listens")
        # The address sanitizer treats the memory around variables as no memory.
        if not ADDRESS_SANITIZER:
            stays(d, "stack")


def replaced_memory():
    """Memory that the program has put in the place of registered memory is the program's."""
    with detaching_daemon() as d:
        before, meanwhile = start(d, "replaces"), start(d, "replaces")
        replace(before)
        lock(d, before)
        act(d, before, "checkpoint", SUCCESS)
        check(d.state_of(before) == "checkpointed", d.state_of(before))
        act(d, before, "restore", SUCCESS, "unlock", SUCCESS)
        lock(d, meanwhile)
        act(d, meanwhile, "checkpoint", SUCCESS)
        check(d.state_of(meanwhile) == "detached", d.state_of(meanwhile))
        replace(meanwhile)
        act(d, meanwhile, "restore", SUCCESS, "unlock", SUCCESS)
        # The library does not find any more what it has registered.
        lock(d, meanwhile)
        act(d, meanwhile, "checkpoint", SUCCESS)
        check(d.state_of(meanwhile) == "checkpointed", d.state_of(meanwhile))
        act(d, meanwhile, "restore", SUCCESS, "unlock", SUCCESS)
        finish(before, meanwhile)


def replace(p):
    p.send_signal(signal.SIGUSR2)
    check(p.stdout.readline() == "replaced\n", "the memory is not replaced")


NUMBERS = struct.Struct("iiii")


class Pages:
    """A program whose exchanges of pages are slow, or fail."""

    def __init__(self, d, directory, *arguments):
        path = os.path.join(directory, "pages")
        with open(path, "w+b") as f:
            f.write(bytes(NUMBERS.size))
            f.flush()
            self.numbers = mmap.mmap(f.fileno(), NUMBERS.size)
        preload = {"LD_PRELOAD": build("test/local/slow-pages.so"), "VCUDA_TEST_PAGES": path}
        self.program = start(d, *arguments, env=dict(d.env, **preload))

    def be(self, naps=0, before_failure=0, failures=0, closes=False):
        NUMBERS.pack_into(self.numbers, 0, naps, before_failure, failures, closes)

    def fails(self):
        return NUMBERS.unpack_from(self.numbers)[2] > 0


def slow_copies():
    """The process copies for longer than vcudad waits for a word, and is restored and unlocked meanwhile."""
    with detaching_daemon("--client-timeout", "1") as d, tempfile.TemporaryDirectory() as directory:
        slow = Pages(d, directory, "writes")
        p = slow.program
        slow.be(naps=5000)
        lock(d, p)
        act(d, p, "checkpoint", SUCCESS)
        check(d.state_of(p) == "detached", d.state_of(p))
        slow.be(naps=60000)
        act(d, p, "restore", SUCCESS, "unlock", SUCCESS)
        works(p)
        # Until it is seen, also on a busy machine.
        slow.be(naps=40000)
        lock(d, p)
        checkpoint = subprocess.Popen([build("test/local/checkpoint"), str(p.pid), "checkpoint"], env=d.env, stdout=subprocess.PIPE)
        wait_until(lambda: d.state_of(p) == "checkpointed", "the process is not checkpointed")
        slow.be(naps=5000)
        act(d, p, "restore", SUCCESS, "unlock", SUCCESS)
        checkpoint.communicate(timeout=LIMIT)
        check(d.state_of(p) == "running", d.state_of(p))
        works(p)
        finish(p)


def failing_copies():
    """On the way out: the process stays attached. On the way back: it tries again."""
    with detaching_daemon() as d, tempfile.TemporaryDirectory() as directory:
        failing = Pages(d, directory)
        p = failing.program
        for before, failures, closes in (0, 1, False), (7, 1, False), (242, 1, False), (250, 1, False), (250, 3, False), (7, 1, True), (250, 3, True):
            failing.be(before_failure=before, failures=failures, closes=closes)
            lock(d, p)
            act(d, p, "checkpoint", SUCCESS, "state", CHECKPOINTED)
            check(d.state_of(p) == "checkpointed", d.state_of(p))
            act(d, p, "restore", SUCCESS, "unlock", SUCCESS)
            check(not failing.fails(), f"{before} calls were not made")
            works(p)
        for before, closes in (0, False), (5, False), (0, True), (5, True):
            lock(d, p)
            act(d, p, "checkpoint", SUCCESS)
            check(d.state_of(p) == "detached", d.state_of(p))
            failing.be(before_failure=before, failures=3, closes=closes)
            act(d, p, "restore", SUCCESS, "unlock", SUCCESS)
            check(not failing.fails(), f"{before} calls were not made")
            works(p)
        finish(p)


def without_address_space():
    """A process that has all that it may have stays attached, or is detached and has its memory again."""
    with detaching_daemon() as d:
        p = start(d, "copies")
        for _ in range(2):
            lock(d, p)
            with open(f"/proc/{p.pid}/statm", encoding="ascii") as f:
                has = int(f.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            before = resource.prlimit(p.pid, resource.RLIMIT_AS)
            resource.prlimit(p.pid, resource.RLIMIT_AS, (has, before[1]))
            act(d, p, "checkpoint", SUCCESS, "restore", SUCCESS, "unlock", SUCCESS)
            works(p)
            resource.prlimit(p.pid, resource.RLIMIT_AS, before)
            # From the first time on there is some in reserve.
            lock(d, p)
            act(d, p, "checkpoint", SUCCESS)
            check(d.state_of(p) == "detached", d.state_of(p))
            act(d, p, "restore", SUCCESS, "unlock", SUCCESS)
        finish(p)


def without_descriptors():
    """A process that may have no more descriptors is detached, and has its session when it may have some again."""
    with detaching_daemon() as d:
        p = start(d, "copies")
        lock(d, p)
        act(d, p, "checkpoint", SUCCESS)
        check(d.state_of(p) == "detached", d.state_of(p))
        for few in 3, 4, 5:
            before = resource.prlimit(p.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (few, before[1]))
            thread = restore_thread(p.pid)
            slept = sleeps(p.pid, thread)
            r = subprocess.Popen([build("test/local/checkpoint"), str(p.pid), "restore"], env=d.env, stdout=subprocess.PIPE, text=True)
            # The restore thread gets a signal each 100 ms, and finds nothing.
            wait_until(lambda slept=slept, thread=thread: sleeps(p.pid, thread) >= slept + 3, "the restore thread does not look")
            check(r.poll() is None and d.state_of(p) == "detached", d.state_of(p))
            resource.prlimit(p.pid, resource.RLIMIT_NOFILE, before)
            said = r.communicate(timeout=LIMIT)[0]
            check(said == f"{SUCCESS}\n", f"with {few} descriptors: {said}")
            act(d, p, "unlock", SUCCESS)
            works(p)
            lock(d, p)
            act(d, p, "checkpoint", SUCCESS)
        act(d, p, "restore", SUCCESS, "unlock", SUCCESS)
        finish(p)


def full_process():
    """A process that opens all files that it may while it is locked is unlocked, and can be locked again."""
    with detaching_daemon() as d:
        p = start(d, "fills")
        _, hard = resource.prlimit(p.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(p.pid, resource.RLIMIT_NOFILE, (1100 if hard == resource.RLIM_INFINITY else min(1100, hard), hard))
        act(d, p, "lock", SUCCESS)
        p.send_signal(signal.SIGUSR2)
        check(p.stdout.readline() == "full\n", "the process is not full")
        act(d, p, "unlock", SUCCESS)
        works(p)
        act(d, p, "lock", SUCCESS, "checkpoint", SUCCESS, "restore", SUCCESS, "unlock", SUCCESS)
        works(p)
        finish(p)


def hidden_thread():
    """A process whose restore thread is not found has not been restored, and can be later."""
    with detaching_daemon() as d:
        p = start(d, "hides")
        lock(d, p)
        act(d, p, "checkpoint", SUCCESS)
        check(d.state_of(p) == "detached", d.state_of(p))
        restore_thread(p.pid)
        p.send_signal(signal.SIGUSR2)
        wait_until(lambda: "hidden" in dict(thread_names(p.pid)), "the thread has its name still")
        act(d, p, "restore", OPERATING_SYSTEM, "unlock", ILLEGAL_STATE)
        p.send_signal(signal.SIGUSR2)
        wait_until(lambda: "hidden" not in dict(thread_names(p.pid)), "the thread has not its name again")
        act(d, p, "restore", SUCCESS, "unlock", SUCCESS)
        works(p)
        finish(p)


def with_copies_of_descriptors():
    """A child of the program has what the program has closed."""
    with detaching_daemon() as d:
        p = start(d, "clones")
        for _ in range(2):
            lock(d, p)
            act(d, p, "checkpoint", SUCCESS)
            check(d.state_of(p) == "detached", d.state_of(p))
            act(d, p, "restore", SUCCESS, "unlock", SUCCESS)
            works(p)
        finish(p)


def signals():
    """Signals to the process that have the number of the restore thread's are the program's."""
    with detaching_daemon() as d:
        p = start(d, "signals")
        sent = 0
        # The kernel chooses the thread that takes a signal: seldom the restore thread, while others wait.
        while sent < 100 or (sent < 10000 and not passed_on(p)):
            sent += 1
            os.kill(p.pid, signal.SIGRTMAX - 1)
            wait_until(lambda: taken(p) >= sent, f"of {sent} signals {taken(p)} are there")
        act(d, p, "lock", SUCCESS, "checkpoint", SUCCESS)
        os.kill(p.pid, signal.SIGRTMAX - 1)
        act(d, p, "restore", SUCCESS, "unlock", SUCCESS)
        wait_until(lambda: taken(p) > sent, "a signal is lost")
        check(taken(p) == sent + 1, f"{taken(p)} signals")
        check(passed_on(p), "the restore thread has taken none of the signals")
        finish(p)


def taken(p):
    return signals_of(p)[0]


def passed_on(p):
    return signals_of(p)[1]


def signals_of(p):
    p.send_signal(signal.SIGUSR2)
    return [int(number) for number in p.stdout.readline().split()]


def while_others_are_stopped():
    """As CRIU has it: between lock and unlock no thread but the restore thread runs."""
    with detaching_daemon() as d:
        p = start(d)
        for _ in range(3):
            lock(d, p)
            with stopped_threads(p.pid, restore_thread(p.pid)):
                act(d, p, "checkpoint", SUCCESS)
                check(holdings(p.pid)[:2] == ([], []), holdings(p.pid))
                act(d, p, "restore", SUCCESS)
            act(d, p, "unlock", SUCCESS)
            works(p)
        finish(p)


def with_a_thread_of_that_name():
    """A thread that only has the restore thread's name gets no signal, which would end the process."""
    with paused_daemon() as d:
        stays(d, "named")
    with detaching_daemon() as d:
        p = start(d, "named")
        thread, = [thread for name, thread in thread_names(p.pid) if name == "cuda-restore" and thread != p.pid]
        act(d, p, "thread", f"thread {thread}", "lock", SUCCESS, "checkpoint", SUCCESS, "restore", SUCCESS, "unlock", SUCCESS)
        works(p)
        finish(p)
    with paused_daemon() as d, tempfile.TemporaryDirectory() as directory:
        copy = shutil.copy(shutil.which("sleep"), os.path.join(directory, "cuda-restore"))
        # Where one program has many commands, it looks at the name that it is called by.
        named = subprocess.Popen(["sleep", str(10 * LIMIT)], executable=copy)
        wait_until(lambda: thread_names(named.pid) == [("cuda-restore", named.pid)], "the program does not begin")
        act(d, named, "state", OPERATING_SYSTEM, "lock", OPERATING_SYSTEM)
        check(named.poll() is None, f"the process ended with {named.returncode}")
        named.kill()
        named.wait()


def with_host_functions():
    """The thread that runs them is started when the process is unlocked, and is not taken for the restore thread."""
    with detaching_daemon() as d:
        p = start(d, "functions")
        for _ in range(5):
            act(d, p, "lock", SUCCESS, "unlock", SUCCESS)
            wait_until(lambda: "cuda-callback" in dict(thread_names(p.pid)), "no thread runs host functions")
            restore_thread(p.pid)
            works(p)
        act(d, p, "lock", SUCCESS, "checkpoint", SUCCESS, "restore", SUCCESS, "unlock", SUCCESS)
        works(p)
        finish(p)


def detaching():
    for part in nothing_is_held, keeps, what_cannot_be_given_up, while_others_are_stopped, replaced_memory, with_copies_of_descriptors, with_host_functions, with_a_thread_of_that_name, signals:
        part()


def detaching_fails():
    for part in slow_copies, failing_copies, without_address_space, without_descriptors, full_process, hidden_thread:
        part()
