# SPDX-License-Identifier: Apache-2.0
"""`vcuda pause` and `vcuda resume`: programs that verify what they compute are paused at random moments."""

import atexit
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from faults import full_disk
from harness import BACKEND, LIMIT, build, check, children, daemon, random_seed, start_steady, wait_until

# of pausable.c
BALLAST_MIB = 48

# How often; the long suite says more.
TIMES = 10 * int(os.environ.get("VCUDA_TEST_TIMES", "1"))

# A copy of this size from pageable memory returns before the worker has made it. The staging area has no room for more.
QUEUED_COPIES = 64


def vcuda(*arguments):
    return subprocess.run([build("cli/vcuda"), *arguments], capture_output=True, text=True, timeout=LIMIT)


class Daemon:
    """A vcudad, and commands to it."""

    def __init__(self, d, env, control):
        self.pid, self.log_path, self.env, self.control = d.pid, d.log_path, env, control

    def say(self, command, *arguments, good=True):
        r = vcuda(command, "--control", self.control, *map(str, arguments))
        check((r.returncode == 0) == good, f"vcuda {command} {arguments}: {r.returncode} {r.stderr}")
        return r.stderr

    def all(self):
        return "--vm", self.pid

    def processes(self):
        listed = json.loads(vcuda("vm", "list", "--control", self.control, "--json").stdout)
        return listed[0]["processes"]

    def state_of(self, program):
        return next(p["state"] for p in self.processes() if p["pid"] == program.pid)


@contextlib.contextmanager
def paused_daemon(*options):
    with tempfile.TemporaryDirectory() as directory:
        control = os.path.join(directory, "control")
        with daemon("--control", control, *options) as (d, env):
            yield Daemon(d, env, control)


def said(p):
    """The program's log so far."""
    return os.pread(p.log.fileno(), 1 << 20, 0).decode(errors="replace")


def start(d, *arguments, env=None):
    log = tempfile.TemporaryFile()
    p = subprocess.Popen([build("test/local/pausable"), *map(str, arguments)], env=env or d.env, stdout=subprocess.PIPE, stderr=log, text=True)
    p.log = log
    atexit.register(lambda: sys.stderr.write(said(p)))
    line = p.stdout.readline()
    check(line == "ready\n", f"pausable said {line!r}")
    return p


def rounds(p):
    """How many rounds the program has made: it answers each line."""
    p.send_signal(signal.SIGUSR1)
    return int(p.stdout.readline())


def works(p):
    before = rounds(p)
    wait_until(lambda: rounds(p) > before, "the program does not go on")


def stands(p, ahead=1):
    """The program makes no more than `ahead` rounds. On a busy machine these may come late."""
    before = rounds(p)
    time.sleep(0.4)
    check(rounds(p) <= before + ahead, f"the program works although it is paused: {rounds(p) - before} rounds")


def finish(*processes):
    for p in processes:
        p.terminate()
        p.wait(LIMIT)
        check(p.returncode == 0, f"a program ended with {p.returncode}: {p.stdout.read()}")


def memory_of(worker):
    """MiB of the host's that the worker has by itself; with a GPU, of the GPU's."""
    if BACKEND == "cuda":
        r = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                           capture_output=True, text=True, check=True)
        return dict(map(int, line.split(",")) for line in r.stdout.splitlines()).get(worker, 0)
    with open(f"/proc/{worker}/status", encoding="utf-8") as f:
        return int(re.search(r"^RssAnon:\s+(\d+) kB$", f.read(), re.M)[1]) >> 10


def at_random_moments(*how):
    chance = random.Random(random_seed())
    with paused_daemon() as d:
        program, copies, neighbour = start(d), start(d, "copies"), start(d)
        for i in range(TIMES):
            time.sleep(chance.uniform(0, 0.05))
            for paused, ahead in (program, 1), (copies, QUEUED_COPIES):
                d.say("pause", *how, paused.pid)
                if i < 2:
                    stands(paused, ahead)
                    works(neighbour)
                d.say("resume", paused.pid)
        works(program)
        finish(program, copies, neighbour)


def all_or_none():
    """All processes of a vcudad, and those to come; or none, where the work of one does not end."""
    with paused_daemon() as d:
        first, second = start(d), start(d)
        d.say("pause", *d.all())
        stands(first)
        stands(second)
        late = subprocess.Popen([build("test/local/steady"), "0"], env=d.env, stdout=subprocess.PIPE, text=True)
        time.sleep(0.5)
        check(late.poll() is None, "a program that started late is not paused")
        d.say("resume", *d.all())
        late.communicate(timeout=LIMIT)
        check(late.returncode == 0, "the late program failed")
        works(first)
        waits = start(d, "waits")
        said = d.say("pause", "--timeout", 1, *d.all(), good=False)
        check(f"process {waits.pid} is not paused" in said and "device" in said, said)
        works(first)
        works(second)
        finish(first, second, waits)


def released():
    """A program that is paused with --release has no device memory until it is resumed, and finds all of it then."""
    at_random_moments("--release")
    with paused_daemon() as d:
        program, neighbour = start(d), start(d)
        worker, = set(children(d.pid)) & {w["worker"] for w in d.processes() if w["pid"] == program.pid}
        before = memory_of(worker)
        check(before >= BALLAST_MIB, f"a worker with {BALLAST_MIB} MiB of device memory has {before} MiB")
        d.say("pause", "--release", program.pid)
        # The worker itself may need a little more.
        check(memory_of(worker) <= before - BALLAST_MIB * 3 // 4, f"of {before} MiB {memory_of(worker)} MiB are left")
        check(d.state_of(program) == "released", d.state_of(program))
        d.say("pause", program.pid)
        check(d.state_of(program) == "released", "a second pause has brought the memory back")
        stands(program)
        works(neighbour)
        d.say("resume", program.pid)
        check(memory_of(worker) >= BALLAST_MIB, "the memory is not back")
        works(program)
        d.say("pause", "--release", *d.all())
        check(d.state_of(program) == d.state_of(neighbour) == "released", "one of two is not released")
        d.say("resume", *d.all())
        finish(program, neighbour)


def ends_released():
    """As ends(), of a process whose memory is released."""
    with paused_daemon() as d:
        for victim in "program", "worker":
            p = start(d)
            d.say("pause", "--release", p.pid)
            if victim == "program":
                p.kill()
            else:
                os.kill(children(d.pid)[0], signal.SIGKILL)
            p.wait(LIMIT)
            wait_until(lambda: not children(d.pid), "the worker of a released process outlives it")
        p = start(d)
        d.say("pause", "--release", p.pid)
        p.kill()
        p.wait(LIMIT)


def shares():
    """Memory that other processes may open stays with the software GPU; NVIDIA's driver would lose it, and is not asked."""
    with paused_daemon() as d:
        p = start(d, "shares")
        said = d.say("pause", "--release", p.pid, good=BACKEND == "cpu")
        check(BACKEND == "cpu" or "shares memory" in said, said)
        d.say("resume", p.pid)
        works(p)
        finish(p)


def no_room():
    """Memory that has no room elsewhere is not released, and the program goes on."""
    with full_disk() as full:
        for directory in (full, full + "/none") if os.geteuid() == 0 else (full + "/none",):
            refuses_release(directory)


def refuses_release(directory):
    with paused_daemon("--swap-directory", directory) as d:
        p = start(d)
        said = d.say("pause", "--release", p.pid, good=False)
        check("--swap-directory" in said, said)
        works(p)
        d.say("pause", p.pid)
        d.say("pause", "--release", p.pid, good=False)
        check(d.state_of(p) == "paused", f"a pause that fails leaves a paused process {d.state_of(p)}")
        d.say("resume", p.pid)
        finish(p)


def ticks(pid):
    """Hundredths of a second of a processor that the process had."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def waits_for_lanes():
    """Two threads work in a context each (lanes.c). While they are paused, the worker uses no processor."""
    chance = random.Random(random_seed())
    with paused_daemon() as d:
        for _ in range(TIMES // 2):
            p = subprocess.Popen([build("test/local/lanes"), "500"], env=d.env, stdout=subprocess.PIPE, text=True)
            wait_until(lambda: any(w["pid"] == p.pid for w in d.processes()), "the program has no worker")
            worker, = children(d.pid)
            time.sleep(chance.uniform(0, 0.3))
            d.say("pause", "--timeout", 60, p.pid)
            time.sleep(0.1)
            before = ticks(worker)
            time.sleep(0.5)
            used = ticks(worker) - before
            print(f"a paused worker used {used} hundredths of a second")
            d.say("resume", p.pid)
            check(p.wait(LIMIT) == 0, f"the program ended with {p.returncode}")
            check(used < 3, f"a paused worker used a processor for {used} hundredths of a second")
            wait_until(lambda: not children(d.pid), "the worker outlives the program")


def ends():
    """A paused process ends as any other does; so does its worker, and vcudad."""
    with paused_daemon() as d:
        p = start(d)
        d.say("pause", p.pid)
        p.kill()
        p.wait(LIMIT)
        wait_until(lambda: not children(d.pid), "the worker of a paused process outlives it")
        p = start(d)
        d.say("pause", p.pid)
        os.kill(children(d.pid)[0], signal.SIGKILL)
        p.wait(LIMIT)
        check(p.returncode == 3, f"the program ended with {p.returncode}")
        p = start_steady(d.env)
        d.say("pause", p.pid)
        check("no vcudad" in d.say("pause", 1, good=False), "process 1")
        p.kill()
        p.wait(LIMIT)


def pause():
    for part in at_random_moments, all_or_none, waits_for_lanes, ends:
        part()


def release():
    for part in released, ends_released, shares:
        part()
    if BACKEND == "cpu":
        no_room()
