# SPDX-License-Identifier: Apache-2.0
"""More VMs than the device has memory for (vcudad --overcommit): programs that verify what they compute take turns in it."""

import contextlib
import json
import os
import random
import signal
import struct
import subprocess
import tempfile
import time

from faults import full_disk, is_running
from harness import LIMIT, build, check, children, daemon, random_seed, wait_until
from pause import BALLAST_MIB, Daemon, finish, rounds, start, stands, vcuda, works
from shares import REGISTER, arbiter_alone, arbiter_of, message

# How often; the long suite says more.
TIMES = 10 * int(os.environ.get("VCUDA_TEST_TIMES", "1"))

# of CUDA
OUT_OF_MEMORY = 2

# Two of pausable.c do not fit, one does.
ONE = f"{BALLAST_MIB * 4 // 3}M"

# Two fit, with 8 MiB to spare, and no third.
TWO = f"{BALLAST_MIB * 2 + 8}M"


class Tenant(Daemon):
    """A vcudad that takes part in the overcommit of `directory`'s arbiter."""

    def __init__(self, stack, directory, size, *options):
        control = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "control")
        self.daemon, env = stack.enter_context(
            daemon("--overcommit", size, "--arbiter", os.path.join(directory, "arbiter"), "--control", control, *options))
        super().__init__(self.daemon, env, control)

    def log(self):
        with open(self.log_path, encoding="utf-8") as f:
            return f.read()

    def state(self):
        return json.loads(vcuda("vm", "list", "--control", self.control, "--json").stdout)[0]

    def place(self):
        return self.state()["memory_state"]

    def outs(self):
        return self.state()["memory_times_out"]

    def holds(self, *programs):
        """The program's memory is out, and stays there."""
        wait_until(lambda: self.place() == "out", "the VM does not go out")
        for p in programs:
            stands(p)
        check(self.place() == "out", "a VM that has no need comes in")


@contextlib.contextmanager
def tenants(count, size, *options):
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        yield [Tenant(stack, directory, size, *options) for _ in range(count)]


def start_soon(d, *arguments):
    """A program that may have to wait for memory before its first round."""
    return subprocess.Popen([build("test/local/pausable"), *map(str, arguments)], env=d.env, stdout=subprocess.PIPE, text=True)


def is_ready(*programs):
    for p in programs:
        line = p.stdout.readline()
        check(line == "ready\n", f"pausable said {line!r}")


def rest(p):
    """The program stops between two rounds, with no work on the device, until go_on()."""
    p.send_signal(signal.SIGHUP)


go_on = rest


def grow(p):
    """The result of an allocation that the program makes soon."""
    p.send_signal(signal.SIGUSR2)


def grown(p):
    return int(p.stdout.readline())


def has_too_much(vms):
    """Whether the VMs that are in have more than there is. One that was in before and after another look was in meanwhile."""
    before, again = ([vm.state() for vm in vms] for _ in range(2))
    seen = [a for b, a in zip(before, again) if b["memory_state"] == a["memory_state"] == "in" and b["memory_times_out"] == a["memory_times_out"]]
    return sum(state["memory_granted"] for state in seen) > seen[0]["overcommit"] if seen else False


def take_turns(vms, programs, times):
    """Each VM goes out and comes in again and again, and its program works then."""
    before = [vm.outs() for vm in vms]

    def have_been_out():
        check(not has_too_much(vms), "VMs have more memory than there is")
        return all(vm.outs() >= outs + times for vm, outs in zip(vms, before))
    wait_until(have_been_out, "a VM does not go out")
    for p in programs:
        works(p)


def alternate():
    """Three VMs, of which two have room, and two that also take turns."""
    for count, size, *options in (3, TWO), (2, ONE, "--share", "1"):
        with tenants(count, size, *options) as vms:
            programs = [start_soon(vm) for vm in vms]
            is_ready(*programs)
            take_turns(vms, programs, 2)
            shown = vcuda("top", "--once", "--control", vms[0].control).stdout
            check("of " + size in shown and "at the longest" in shown, shown)
            finish(*programs)


def idle_goes():
    """The VM that rests goes, and not the one that works; it comes in with its next command."""
    with tenants(3, TWO) as vms:
        resting, working = start(vms[0]), start(vms[1])
        rest(resting)
        time.sleep(1.5)
        new = start(vms[2])
        check(vms[0].place() == "out" and vms[1].outs() == 0, "a VM with work goes out for one that rests")
        works(working)
        works(new)
        time.sleep(1)
        check(vms[0].place() == "out", "a VM without work comes in")
        go_on(resting)
        works(resting)
        finish(resting, working, new)


def grows():
    """Growth has another VM go out; both growing at once get their memory one after the other."""
    with tenants(2, TWO) as vms:
        first, second = (start(vm, "grows", 32) for vm in vms)
        check(sum(vm.outs() for vm in vms) == 0, "a VM goes out although both have room")
        for p in first, second:
            grow(p)
        for p in first, second:
            check(grown(p) == 0, "an allocation that others must make room for fails")
        take_turns(vms, [first, second], 1)
        finish(first, second)


def grows_too_much():
    """A demand that can never fit is refused at once, and no VM goes out for it."""
    with tenants(2, TWO) as vms:
        first, second = start(vms[0], "grows", BALLAST_MIB + 8), start(vms[1])
        grow(first)
        check(grown(first) == OUT_OF_MEMORY, "a VM gets more than there is")
        works(second)
        check(sum(vm.outs() for vm in vms) == 0, "a VM goes out for an allocation that cannot fit")
        finish(first, second)
    with tenants(2, TWO, "--min-device-memory", "20M") as vms:
        first = start(vms[0], "grows", BALLAST_MIB - 4)
        grow(first)
        check(grown(first) == OUT_OF_MEMORY, "a VM gets the minimum of another one")
        works(first)
        check("other VMs have it" in vms[0].log(), "no line says that the memory is that of other VMs")
        finish(first)


def late_program():
    """A program that starts while its VM is out has it come in, and goes out with it."""
    with tenants(2, TWO) as vms:
        first, other = start(vms[0]), start(vms[1], "grows", 32)
        grow(other)
        check(grown(other) == 0, "growth fails")
        rest(first)
        wait_until(lambda: vms[0].place() == "out", "the VM does not go out")
        late = subprocess.run([build("test/local/steady"), "0"], env=vms[0].env, stdout=subprocess.DEVNULL, timeout=LIMIT, check=False)
        check(late.returncode == 0, f"a program that starts while its VM is out ended with {late.returncode}")
        go_on(first)
        works(first)
        works(other)
        finish(first, other)


def operator():
    """A VM that the operator has paused is out, or goes out, and has no need until it is resumed."""
    with tenants(2, ONE) as vms:
        paused = start(vms[0])
        vms[0].say("pause", "--release", *vms[0].all())
        check(vms[0].place() == "out", "a released VM keeps its part of the memory")
        other = start(vms[1])
        works(other)
        vms[0].holds(paused)
        check(vms[1].outs() == 0, "a VM goes out for one that is paused")
        vms[0].say("resume", *vms[0].all())
        works(paused)
        take_turns(vms, [paused, other], 1)
        # Without --release it goes where another one needs the memory.
        vms[0].say("pause", *vms[0].all())
        works(other)
        vms[0].holds(paused)
        check(vms[0].state_of(paused) == "released", vms[0].state_of(paused))
        vms[0].say("resume", *vms[0].all())
        works(paused)
        works(other)
        finish(paused, other)


def unit():
    """All processes of a VM go out and come in together, but for one that the operator has paused. Warm workers do as well."""
    with tenants(2, TWO, "--warm", "1") as vms:
        first, second = start(vms[0]), start(vms[0])
        other = start_soon(vms[1])
        is_ready(other)
        wait_until(lambda: vms[0].place() == "out", "the VM with two processes does not go out")
        stands(first)
        stands(second)
        vms[0].say("resume", *vms[0].all())
        for p in first, second, other:
            works(p)
        vms[0].say("pause", "--release", first.pid)
        take_turns(vms, [second, other], 1)
        stands(first)
        vms[0].say("resume", first.pid)
        for p in first, second, other:
            works(p)
        finish(first, second, other)


def one_is_paused():
    """A command of a process that the operator has paused is no need of its VM, though another process is not paused."""
    with tenants(2, TWO) as vms:
        paused, resting = start(vms[0]), start(vms[0], "copies")
        rest(resting)
        vms[0].say("pause", paused.pid)
        other = start(vms[1])
        vms[0].holds(paused)
        # Longer than the lease of the VM that is in.
        time.sleep(3)
        works(other)
        check(vms[0].place() == "out" and vms[1].outs() == 0, "a VM goes out for a process that is paused")
        vms[0].say("resume", paused.pid)
        go_on(resting)
        for p in paused, resting, other:
            works(p)
        finish(paused, resting, other)


def pause_is_crossed():
    """A pause and an eviction that begins meanwhile fail together, and leave no process paused."""
    with tenants(2, TWO) as vms:
        first, busy = start(vms[0]), start(vms[0], "waits")
        with subprocess.Popen([build("cli/vcuda"), "pause", "--timeout", "60", "--control", vms[0].control, *map(str, vms[0].all())],
                              stderr=subprocess.DEVNULL) as pause:
            wait_until(lambda: vms[0].state_of(first) == "paused", "the process without work is not paused")
            other = start_soon(vms[1])
            check(pause.wait(LIMIT) != 0, "a pause of work that does not end succeeds")
        check(other.wait(LIMIT) == 3 and vms[0].place() == "in", "a VM goes out although its work does not end")
        works(first)
        late = subprocess.run([build("test/local/steady"), "0"], env=vms[0].env, stdout=subprocess.DEVNULL, timeout=LIMIT, check=False)
        check(late.returncode == 0, f"a program that starts after the pause ended with {late.returncode}")
        finish(first, busy)


def refused():
    """A minimum for which there is no room, and sizes that differ."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        vm = Tenant(stack, directory, "64M", "--min-device-memory", "40M")
        wait_until(lambda: vm.state()["memory_state"] == "in" and arbiter_of(vm), "no arbiter")
        r = subprocess.run([build("host/daemon/vcudad"), "--socket", os.path.join(directory, "socket"), "--backend", "cpu", "--control", "none",
                            "--overcommit", "64M", "--min-device-memory", "30M", "--arbiter", os.path.join(directory, "arbiter")],
                           capture_output=True, text=True, timeout=LIMIT, check=False)
        check(r.returncode == 1 and "min-device-memory" in r.stderr, f"{r.returncode}: {r.stderr}")
        other = Tenant(stack, directory, "1G")
        wait_until(lambda: "share 64 MiB" in other.log(), "no line says that another size counts")
        check(other.state()["overcommit"] == 64 << 20, "the larger size counts")
    r = subprocess.run([build("host/daemon/vcudad"), "--socket", "none/socket", "--min-device-memory", "1M"],
                       capture_output=True, text=True, timeout=LIMIT, check=False)
    check(r.returncode == 2 and "more than overcommit" in r.stderr, f"{r.returncode}: {r.stderr}")


def overcommit():
    alternate()


def overcommit_growth():
    for part in idle_goes, grows, unit:
        part()


def overcommit_limits():
    for part in grows_too_much, late_program, operator, one_is_paused, pause_is_crossed, refused:
        part()


# ---- what ends ----

def arbiter_ends():
    """At any time: a new one learns who is out, and all go on."""
    with tenants(2, ONE) as vms:
        programs = [start_soon(vm) for vm in vms]
        is_ready(*programs)
        for _ in range(3):
            wait_until(lambda: any(vm.place() == "out" for vm in vms), "no VM is out")
            arbiter = next(filter(None, map(arbiter_of, vms)))
            os.kill(arbiter, signal.SIGKILL)
            wait_until(lambda: not is_running(arbiter), "the arbiter lives on")
            take_turns(vms, programs, 1)
        finish(*programs)


WANT, GRANT = 11, 16


def granted(peer, size):
    """Asks the arbiter for so many bytes, and waits until it grants them."""
    peer.send(message(WANT, size=size))
    while struct.unpack_from("I", peer.recv(128))[0] != GRANT:
        pass


def connection_ends():
    """The memory of a vcudad whose connection ends does not become free at once: its VM may be there still."""
    with contextlib.ExitStack() as stack:
        holder, other = arbiter_alone(stack, 2)
        holder.send(message(REGISTER, 0, 80, 100))
        other.send(message(REGISTER, 0, 0, 100))
        granted(other, 10)
        ended = time.monotonic()
        holder.close()
        granted(other, 90)
        check(time.monotonic() - ended >= 1, "the memory of a vcudad whose connection has ended is free at once")


def swap_files(vm):
    """Descriptors of vcudad and its workers on files without a name in the folder for released memory."""
    found = 0
    for pid in [vm.pid, *children(vm.pid)]:
        with contextlib.suppress(FileNotFoundError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(FileNotFoundError):
                    found += os.readlink(f"/proc/{pid}/fd/{fd}").startswith("/var/tmp/#")
    return found


def worker_ends():
    """A worker that is killed while it is out leaves no file, and its memory is no one's need any more."""
    with tenants(2, ONE) as vms:
        first, other = start(vms[0]), start_soon(vms[1])
        is_ready(other)
        wait_until(lambda: vms[0].place() == "out", "the first VM does not go out")
        check(swap_files(vms[0]) == 1, "the memory is in no file")
        os.kill(children(vms[0].pid)[0], signal.SIGKILL)
        check(first.wait(LIMIT) == 3, f"the program of a killed worker ended with {first.returncode}")
        wait_until(lambda: not swap_files(vms[0]) and not children(vms[0].pid), "something of the worker is left")
        # The other VM may have been told to go out earlier.
        works(other)
        wait_until(lambda: vms[1].place() == "in", "the other VM does not come in")
        outs = vms[1].outs()
        time.sleep(3)
        works(other)
        check(vms[1].outs() == outs, "a VM goes out for one that has no program")
        again = start(vms[0])
        works(again)
        works(other)
        finish(again, other)


def worker_hangs():
    """A worker that does not take its memory back is killed: the other VM comes in again."""
    with tenants(2, ONE) as vms:
        first = start(vms[0])
        vms[0].say("pause", *vms[0].all())
        other = start(vms[1])
        vms[0].holds(first)
        worker = children(vms[0].pid)[0]
        os.kill(worker, signal.SIGSTOP)
        resume = subprocess.Popen([build("cli/vcuda"), "resume", "--control", vms[0].control, *map(str, vms[0].all())], stderr=subprocess.DEVNULL)
        wait_until(lambda: not is_running(worker), "a worker that does not answer lives on")
        resume.wait(LIMIT)
        check("in time" in vms[0].log(), "no line says that the worker is killed")
        check(first.wait(LIMIT) == 3, f"the program of a killed worker ended with {first.returncode}")
        works(other)
        wait_until(lambda: vms[1].place() == "in", "the other VM does not come in")
        finish(other)


def vcudad_ends():
    """The vcudad of a VM that is in, or out, ends: the other VM gets the memory."""
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        vm = Tenant(stack, directory, ONE)
        p = start(vm)
        for place in "in", "out":
            with contextlib.ExitStack() as other_stack:
                other = Tenant(other_stack, directory, ONE)
                other_program = start_soon(other)
                is_ready(other_program)
                wait_until(lambda: other.place() == place, f"the VM is never {place}")
                other_program.kill()
                other_program.wait()
            works(p)
        wait_until(lambda: vm.place() == "in", "the VM that is left is not in")
        finish(p)


def no_room_for_swap():
    """A VM whose memory has no room elsewhere stays in, and the growth for which it was to go is refused."""
    with full_disk() as full:
        for directory in (full, full + "/none") if os.geteuid() == 0 else (full + "/none",):
            with contextlib.ExitStack() as stack:
                arbiter = stack.enter_context(tempfile.TemporaryDirectory())
                vm, other = Tenant(stack, arbiter, ONE, "--swap-directory", directory), Tenant(stack, arbiter, ONE)
                p, refused_one = start(vm), start_soon(other)
                out = refused_one.communicate(timeout=LIMIT)[0]
                check(refused_one.returncode == 3 and f"CUDA error {OUT_OF_MEMORY}" in out, f"growth without room: {refused_one.returncode} {out}")
                check("keeps the memory" in vm.log(), "no line says that the VM stays in")
                check(vm.place() == "in" and vm.outs() == 0, "the VM went out without room for its memory")
                works(p)
                finish(p)


def work_does_not_end():
    """A VM whose work does not end stays in, as it was, and the next one goes."""
    with tenants(3, TWO) as vms:
        busy, other = start(vms[0], "waits"), start(vms[1])
        # Among idle VMs, the one with the waiting program has been idle for longer, and is asked first.
        new = start(vms[2])
        check(vms[0].place() == "in" and vms[0].outs() == 0, "a VM goes out although its work does not end")
        works(new)
        works(other)
        check(vms[1].outs() > 0, "no other VM goes")
        finish(busy, other, new)
    with tenants(2, ONE) as vms:
        busy, new = start(vms[0], "waits"), start_soon(vms[1])
        out = new.communicate(timeout=LIMIT)[0]
        check(new.returncode == 3 and f"CUDA error {OUT_OF_MEMORY}" in out, f"growth without room: {new.returncode} {out}")
        check("(device): its VM keeps the memory" in vms[0].log(), "no line says that the VM stays in")
        finish(busy)


def no_arbiter():
    """A VM that needs more memory waits for an arbiter, and goes on with one."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        below = os.path.join(directory, "below")
        vm = Tenant(stack, below, ONE)
        p = start_soon(vm)
        wait_until(lambda: "there is no arbiter" in vm.log(), "no line says that there is no arbiter")
        time.sleep(0.5)
        check(p.poll() is None, "a program without memory goes on")
        os.mkdir(below)
        is_ready(p)
        finish(p)


def overcommit_random():
    """Pauses, new and ended programs and arbiters at random moments: in the end all programs work, and their results are right."""
    chance = random.Random(random_seed())
    with tenants(3, TWO) as vms:
        programs = [start_soon(vm) for vm in vms]
        is_ready(*programs)
        for _ in range(TIMES):
            vm = chance.choice(vms)
            i = vms.index(vm)
            time.sleep(chance.uniform(0, 1))
            action = chance.choice(["pause", "release", "process", "kill", "worker", "arbiter", "late"])
            print(f"VM {i}, {vm.place()}: {action}", flush=True)
            if action in ("pause", "release", "process"):
                # The call may be refused: the work of a VM that is being moved may not end in time.
                how = ["--release"] if action == "release" else []
                vcuda("pause", "--control", vm.control, *how, *(map(str, [programs[i].pid] if action == "process" else vm.all())))
                time.sleep(chance.uniform(0, 1))
                vm.say("resume", *vm.all())
            elif action in ("kill", "worker"):
                if action == "kill":
                    programs[i].kill()
                else:
                    os.kill(children(vm.pid)[0], signal.SIGKILL)
                programs[i].wait(LIMIT)
                programs[i] = start_soon(vm)
                is_ready(programs[i])
            elif action == "arbiter":
                arbiter = next(filter(None, map(arbiter_of, vms)), None)
                if arbiter:
                    os.kill(arbiter, signal.SIGKILL)
            else:
                late = subprocess.run([build("test/local/steady"), "0"], env=vm.env, stdout=subprocess.DEVNULL, timeout=LIMIT, check=False)
                check(late.returncode == 0, f"a late program ended with {late.returncode}")
        for p in programs:
            works(p)
        finish(*programs)


def overcommit_ends():
    for part in arbiter_ends, connection_ends, worker_ends, worker_hangs, vcudad_ends, no_room_for_swap, work_does_not_end, no_arbiter:
        part()
