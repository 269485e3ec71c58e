# SPDX-License-Identifier: Apache-2.0
"""Shares of a device's time (vcudad --share): what programs of several vcudads get beside one another.

usage: shares.py BUILD_DIRECTORY SECONDS [KIND[*PROGRAMS] KIND[*PROGRAMS] SHARE SHARE]...   a table; see share-load.c for the kinds
       shares.py BUILD_DIRECTORY SECONDS beside KIND COUNT APART LIMIT   what a VM has beside one whose COUNT programs begin kernels of KIND (later,
                                                                        waits, hangs) that do not end, APART s after one another; LIMIT: its
                                                                        --max-kernel-time
SHARES_OPTIONS="--OPTION ...": each vcudad takes these options as well.
"""

import contextlib
import json
import os
import random
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import harness
from harness import BACKEND, LIMIT, build, check, children, daemon, wait_until

LEAST_BATCHES = 10
LOOKS = 150
PAIRS = [("short", "short"), ("short", "long"), ("sync", "short"), ("graphs", "copies")]
SHARES = [(1, 1), (1, 3), (1, 9)]


class Tenant:
    """A vcudad with a share, and a program of its own that works without an end."""

    def __init__(self, stack, arbiter, share, kind, programs=1, options=()):
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        self.kind = kind
        self.control = os.path.join(directory, "control")
        options = [*options, *os.environ.get("SHARES_OPTIONS", "").split()]
        self.daemon, self.env = stack.enter_context(daemon("--share", str(share), "--arbiter", arbiter, "--control", self.control, *options))
        self.programs = [self.start(kind) for _ in range(programs)]
        stack.callback(self.finish)

    def start(self, kind):
        p = subprocess.Popen([build("test/local/share-load"), kind], env=self.env, stdout=subprocess.PIPE, text=True)
        line = p.stdout.readline()
        check(line == "ready\n", f"share-load said {line!r}")
        return p

    def finish(self):
        self.say("resume")
        for p in self.programs:
            # An endless kernel is not waited for.
            p.send_signal(signal.SIGKILL if self.kind == "endless" else signal.SIGTERM)
            p.wait(LIMIT)
            check(p.returncode == -signal.SIGKILL or not p.returncode, f"share-load ended with {p.returncode}")

    def say(self, command):
        subprocess.run([build("cli/vcuda"), command, "--control", self.control, "--vm", str(self.daemon.pid)], check=True, timeout=LIMIT)

    def count(self):
        """Batches of work that have ended, and when that was asked."""
        for p in self.programs:
            p.send_signal(signal.SIGUSR1)
        return sum(int(p.stdout.readline()) for p in self.programs), time.monotonic()


def rates(tenants, seconds):
    """Batches of work of each in a second. On a busy machine it takes longer: few batches tell little."""
    before = [tenant.count() for tenant in tenants]
    for tenant in tenants:
        for p in tenant.programs:
            p.send_signal(signal.SIGUSR2)
    end = time.monotonic() + LIMIT
    while True:
        time.sleep(seconds)
        after = [tenant.count() for tenant in tenants]
        if min(a[0] - b[0] for a, b in zip(after, before)) >= LEAST_BATCHES:
            break
        check(time.monotonic() < end, "a program makes no progress")
    return [(a[0] - b[0]) / (a[1] - b[1]) for a, b in zip(after, before)]


def time_had(before, after):
    """The part of the device's time that a tenant had, of the time in which VMs took turns and it had work."""
    wanted, had = (after[key] - before[key] for key in ("turns_wanted_us", "turns_had_us"))
    return had / wanted if wanted else 1.0


def got(kinds, shares, seconds, programs):
    """
    For each tenant its rate beside the others, as a part of its rate alone; the part of the time that it had; and what
    its first program says of the times of its batches.
    """
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        tenants, alone = [], []
        for kind, share, count in zip(kinds, shares, programs):
            tenant = Tenant(stack, os.path.join(directory, "arbiter"), share, kind, count)
            alone += rates([tenant], seconds)
            tenant.say("pause")
            tenants.append(tenant)
        for tenant in tenants:
            tenant.say("resume")
        time.sleep(0.5)
        before = [listed(tenant) for tenant in tenants]
        parts = [together / by_itself for together, by_itself in zip(rates(tenants, seconds), alone)]
        had = [time_had(b, listed(tenant)) for b, tenant in zip(before, tenants)]
    return parts, had, [tenant.programs[0].stdout.read().split() for tenant in tenants]


# ---- tests ----

def arbiter_of(tenant):
    """The process number of the arbiter that the tenant's vcudad has started; None: it has started none."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{entry}/stat", encoding="utf-8") as f:
                name, fields = f.read().rsplit(")", 1)
            if name.endswith("(vcuda-arbiter") and int(fields.split()[1]) == tenant.daemon.pid:
                return int(entry)
    return None


def log_of(daemon_process):
    with open(daemon_process.log_path, encoding="utf-8") as f:
        return f.read()


def log(tenant):
    return log_of(tenant.daemon)


def listed(tenant):
    out = subprocess.run([build("cli/vcuda"), "vm", "list", "--control", tenant.control, "--json"], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)[0]


def turns_of(tenant):
    return listed(tenant)["turns"]


def times_lost(tenant):
    return log(tenant).count("there is no arbiter")


def kill_arbiter(tenants):
    """Kills it, and waits until all of them miss it: for a fifth of a second, which a look at the turns may not see."""
    before = {tenant: times_lost(tenant) for tenant in tenants}
    os.kill(next(filter(None, map(arbiter_of, tenants))), signal.SIGKILL)
    wait_until(lambda: all(times_lost(tenant) > before[tenant] for tenant in tenants), "nobody misses the arbiter")


def works(tenant):
    before = tenant.count()[0]
    wait_until(lambda: tenant.count()[0] > before, "a program does not go on")


def has_its_share():
    """Turns of four times the share take more than twice the time. The amount of work says little on a busy machine: a
    short turn after a long rest gets a larger part of the processors.
    """
    with contextlib.ExitStack() as stack:
        path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "arbiter")
        tenants = [Tenant(stack, path, share, "short", 3) for share in (1, 4)]
        for tenant in tenants:
            wait_until(lambda: turns_of(tenant) == "own", "there are no turns")
        own, before = [0, 0], [listed(tenant) for tenant in tenants]
        for _ in range(LOOKS):
            time.sleep(random.uniform(0, 0.02))
            for i, tenant in enumerate(tenants):
                own[i] += turns_of(tenant) == "own"
        print(f"own turns in {LOOKS} looks: {own}")
        parts = [time_had(b, listed(tenant)) for b, tenant in zip(before, tenants)]
        check(2 * parts[0] < parts[1], f"they say that they had {parts} of the time")
        check(own[1] > 2 * own[0], f"a share of 4 beside one of 1 has its turn {own[1]} times in {LOOKS}, the other one {own[0]} times")
        for tenant in tenants:
            works(tenant)


def is_stopped(process):
    with open(f"/proc/{process}/stat", encoding="utf-8") as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "T"


def endless():
    """Kernels that do not end are stopped in the turns of other VMs, however many processes have one, and go on in their own."""
    with contextlib.ExitStack() as stack:
        path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "arbiter")
        hostile = Tenant(stack, path, 1, "endless", 4)
        workers = children(hostile.daemon.pid)
        check(len(workers) == 4, f"{len(workers)} workers")
        with contextlib.ExitStack() as other:
            tenant = Tenant(other, path, 9, "short")
            for _ in range(3):
                wait_until(lambda: all(map(is_stopped, workers)), "endless kernels run on in the turns of the other VM")
                wait_until(lambda: not any(map(is_stopped, workers)), "endless kernels have no turns")
            works(tenant)
        wait_until(lambda: turns_of(hostile) == "open" and not any(map(is_stopped, workers)), "a worker stays stopped after the last turn")


def ends_after(p, daemon_process, seconds):
    """The program's kernel is ended, with the error that says why."""
    out = p.communicate(timeout=LIMIT)[0]
    check(p.returncode == 3 and out.endswith("CUDA error 702\n"), f"an endless kernel: {p.returncode}, {out}")
    wait_until(lambda: re.search(rf"ran for longer than {seconds}\d* s", log_of(daemon_process)), "no line names the limit")


def kernel_time():
    """--max-kernel-time counts the time of the VM's own turns."""
    with daemon("--max-kernel-time", "1") as (d, env):
        p = subprocess.Popen([build("test/local/share-load"), "endless"], env=env, stdout=subprocess.PIPE, text=True)
        ends_after(p, d, 1)
    with contextlib.ExitStack() as stack:
        path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "arbiter")
        Tenant(stack, path, 3, "short")
        limited = Tenant(stack, path, 1, "endless", options=["--max-kernel-time", "1"])
        begin = time.monotonic()
        ends_after(limited.programs.pop(), limited.daemon, 1)
        check(time.monotonic() - begin > 2, "the turns of the other VM count")


def all_end(tenant, count, kind="later"):
    """Endless kernels that begin at one time are ended. Returns the seconds until then."""
    programs = [tenant.start(kind) for _ in range(count)]
    begin = time.monotonic()
    for p in programs:
        p.send_signal(signal.SIGUSR2)
    for p in programs:
        ends_after(p, tenant.daemon, 2)
    return time.monotonic() - begin


def ends_of(programs):
    """When each of them ends, in order."""
    times = []
    while len(times) < len(programs):
        wait_until(lambda: sum(p.poll() is not None for p in programs) > len(times), "no program ends")
        times += [time.monotonic()] * (sum(p.poll() is not None for p in programs) - len(times))
    return times


def one_process_of_gpu():
    """With --share-one-process, processes that work together and then all begin endless kernels do so one after the other."""
    with contextlib.ExitStack() as stack:
        path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "arbiter")
        neighbour = Tenant(stack, path, 1, "short")
        hostile = Tenant(stack, path, 1, "hangs", 0, ["--max-kernel-time", "2", "--share-one-process"])
        programs = [hostile.start("hangs") for _ in range(4)]
        for p in programs:
            p.send_signal(signal.SIGUSR2)
        times = ends_of(programs)
        for p in programs:
            ends_after(p, hostile.daemon, 2)
        check(times[-1] - times[0] > 5.5, f"endless kernels end at {times}: they run at once")
        works(neighbour)


def kernel_time_of_gpu():
    """
    A GPU's kernels cannot be stopped: their processes are ended. Several of one VM take the GPU's time from other VMs for
    each of them, so that they work one after the other from then on.
    """
    with contextlib.ExitStack() as stack:
        path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "arbiter")
        neighbour = Tenant(stack, path, 1, "short")
        hostile = Tenant(stack, path, 1, "later", 0, ["--max-kernel-time", "2"])
        all_end(hostile, 4)
        check("one after the other" in log(hostile), "the processes work side by side")
        took = all_end(hostile, 3)
        check(took > 5.5, f"three endless kernels end after {took:.1f} s: they run at once")
        # A write of a value behind the kernel is no wait for the process: the worker itself ends it.
        said = log(hostile).count("ran for longer than")
        all_end(hostile, 1, "writes")
        check(log(hostile).count("ran for longer than") > said, "a write of a value counts as a wait for the process")
        # A stream that waits for a value for longer than the limit is no work that runs.
        hostile.start("patient").kill()
        works(neighbour)


def refused():
    """vcudad does not start with an option that its back end cannot keep."""
    r = subprocess.run([build("host/daemon/vcudad"), "--socket", "none/socket", "--backend", "cuda", "--max-kernel-time", "1"],
                       capture_output=True, text=True, timeout=LIMIT, check=False)
    check(r.returncode and "give share as well" in r.stderr, f"{r.returncode}, {r.stderr}")


def new_arbiter():
    """An arbiter that is started again learns of work that began before."""
    with contextlib.ExitStack() as stack:
        path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "arbiter")
        first, second = (Tenant(stack, path, 1, "long", 2) for _ in range(2))
        wait_until(lambda: turns_of(first) == "other", "there are no turns")
        kill_arbiter((first, second))
        for state in "own", "other":
            wait_until(lambda: turns_of(first) == state, f"with a new arbiter there is never a turn: {state}")


def ends():
    """An arbiter ends, a worker stops in its turn, and a vcudad ends: the others go on."""
    with contextlib.ExitStack() as stack:
        path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "arbiter")
        first, second = (Tenant(stack, path, 1, "short") for _ in range(2))
        starter = first if arbiter_of(first) else second
        for state in "own", "other":
            wait_until(lambda: turns_of(first) == state, f"there is never a turn: {state}")
        check(os.readlink(f"/proc/{arbiter_of(starter)}/fd/2") == "/dev/null", "the arbiter keeps the output of vcudad")
        kill_arbiter((first, second))
        wait_until(lambda: arbiter_of(first) or arbiter_of(second), "no arbiter is started again")
        works(first)
        works(second)
        worker, = children(first.daemon.pid)
        os.kill(worker, signal.SIGSTOP)
        works(second)
        os.kill(worker, signal.SIGCONT)
        works(first)
    with contextlib.ExitStack() as stack:
        path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "arbiter")
        survivor = Tenant(stack, path, 1, "short")
        with contextlib.ExitStack() as other:
            Tenant(other, path, 1, "short")
        works(survivor)
        wait_until(lambda: turns_of(survivor) == "open", "the one that is left takes turns")


REGISTER, ACTIVE = 1, 2


def message(kind, share=1, size=0, capacity=0):
    """A message of protocol/ipc/arbiter.h."""
    return struct.pack("8I5Q", kind, 0, 3, share, *[0] * 4, size, 0, capacity, 0, 0)


def arbiter_alone(stack, count):
    """An arbiter with a number of connected sockets."""
    path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "arbiter")
    listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    listener.bind(path)
    listener.listen()
    arbiter = subprocess.Popen(["sh", "-c", f"exec {build('host/arbiter/vcuda-arbiter')} 1 3<&0"], stdin=listener)
    stack.callback(arbiter.wait, LIMIT)
    stack.callback(arbiter.terminate)
    peers = [stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) for _ in range(count)]
    for peer in peers:
        peer.connect(path)
        peer.settimeout(LIMIT)
    return peers


def hung_up(peer):
    """Whether the other end is closed; reads nothing."""
    poll = select.poll()
    poll.register(peer, 0)
    return bool(poll.poll(0))


def does_not_read():
    """A vcudad that was stopped for long misses messages. It must register anew, or it may wait for ever."""
    with contextlib.ExitStack() as stack:
        stopped, other = arbiter_alone(stack, 2)
        for peer in stopped, other:
            for kind in REGISTER, ACTIVE:
                peer.send(message(kind))
        while not hung_up(stopped):
            check(other.recv(64), "the arbiter closes the socket of one that reads")


def no_arbiter():
    """Without an arbiter work goes on, or waits, as the operator wants it."""
    for strict in False, True:
        with tempfile.TemporaryDirectory() as directory:
            options = ["--share", "1", "--arbiter", os.path.join(directory, "none/arbiter"), *(["--share-strict"] if strict else [])]
            with daemon(*options) as (d, env):
                p = subprocess.Popen([build("test/local/steady"), "0"], env=env, stdout=subprocess.DEVNULL)
                said = "waits for one (--share-strict)" if strict else "works without regard to shares"
                wait_until(lambda: said in open(d.log_path, encoding="utf-8").read(), "vcudad does not say that there is no arbiter")
                if strict:
                    time.sleep(0.5)
                    check(p.poll() is None, "work does not wait for an arbiter")
                    p.kill()
                check(p.wait(LIMIT) == (-signal.SIGKILL if strict else 0), f"steady ended with {p.returncode}")


def no_arbiter_there():
    """The arbiter's path may be a file, or a program that closes each connection, such as another version."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        file, path = os.path.join(directory, "file"), os.path.join(directory, "arbiter")
        with open(file, "w", encoding="utf-8") as f:
            f.write("text")
        with daemon("--share", "1", "--arbiter", file) as (d, _):
            wait_until(lambda: "works without regard to shares" in open(d.log_path, encoding="utf-8").read(), "vcudad takes a file for an arbiter")
        with open(file, encoding="utf-8") as f:
            check(f.read() == "text", "vcudad writes over a file")
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        listener.bind(path)
        listener.listen()
        listener.settimeout(LIMIT)
        with daemon("--share", "1", "--arbiter", path) as (d, _):
            for _ in range(6):
                listener.accept()[0].close()
            check(open(d.log_path, encoding="utf-8").read().count("there is no arbiter") == 1, "vcudad does not say once that there is no arbiter")


def shares():
    for part in refused, has_its_share, endless, kernel_time, new_arbiter, ends, does_not_read, no_arbiter, no_arbiter_there:
        part()


def shares_of_gpu():
    """The same where the driver knows no turns. A nested vcudad's driver is another host's libcuda."""
    for part in has_its_share, new_arbiter, kernel_time_of_gpu, one_process_of_gpu, ends, no_arbiter:
        part()


# ---- a table ----

def table(seconds, rows):
    print(f"{'programs':20} {'asked':>11} {'got, of the work alone':>26} {'ratio':>7} {'of the time':>13}   ms for a batch: median, 99 %, longest")
    for kinds, shares in rows:
        kinds, programs = zip(*((kind.partition("*")[0], int(kind.partition("*")[2] or 1)) for kind in kinds))
        parts, had, times = got(kinds, shares, seconds, programs)
        asked = [share / sum(shares) for share in shares]
        names = ", ".join(kind if count == 1 else f"{kind}*{count}" for kind, count in zip(kinds, programs))
        print(f"{names:20} {asked[0]:5.2f} {asked[1]:5.2f} {parts[0]:12.3f} {parts[1]:6.3f} {sum(parts):6.3f} "
              f"{parts[0] / sum(parts):7.3f} {had[0]:6.3f} {had[1]:6.3f}   {' '.join(times[0])}, {' '.join(times[1])}", flush=True)


def beside(seconds, kind, count, apart, limit):
    """Prints the neighbour's work of each second, as a part of its work alone, until the programs of the other VM have been ended, or for so many seconds."""
    with contextlib.ExitStack() as stack:
        path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "arbiter")
        neighbour = Tenant(stack, path, 1, "tiny")
        alone = rates([neighbour], 3)[0]
        hostile = Tenant(stack, path, 1, kind, 0, ["--max-kernel-time", limit])
        programs = [hostile.start(kind) for _ in range(count)]
        stack.callback(lambda: [p.kill() for p in programs])
        begin, before, begun, parts = time.monotonic(), neighbour.count(), 0, []
        while time.monotonic() - begin < seconds and (begun < count or any(p.poll() is None for p in programs)):
            while begun < count and time.monotonic() - begin >= begun * apart:
                programs[begun].send_signal(signal.SIGUSR2)
                begun += 1
            time.sleep(1)
            after = neighbour.count()
            parts.append((after[0] - before[0]) / (after[1] - before[1]) / alone)
            before = after
        print(f"{count} programs ({kind}): {sum(p.poll() is not None for p in programs)} ended in {time.monotonic() - begin:.1f} s; the neighbour had "
              f"{sum(parts) / len(parts):.3f} in the mean")
        print(" ".join(f"{p:.2f}" for p in parts), flush=True)


def main():
    harness.BUILD = os.path.abspath(sys.argv[1])
    rest = sys.argv[3:]
    if rest and rest[0] == "beside":
        return beside(float(sys.argv[2]), rest[1], int(rest[2]), float(rest[3]), rest[4])
    rows = [((rest[i], rest[i + 1]), (int(rest[i + 2]), int(rest[i + 3]))) for i in range(0, len(rest), 4)]
    return table(float(sys.argv[2]), rows or [(kinds, shares) for kinds in PAIRS for shares in SHARES])


if __name__ == "__main__":
    main()
