# SPDX-License-Identifier: Apache-2.0
"""A worker, the arbiter and vcudad are killed in each state of a pause. The other processes and a neighbour go on."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time

from faults import is_running
from harness import BACKEND, LIMIT, build, check, children, daemon, wait_until
from pause import Daemon, finish, start, stands, works
from shares import arbiter_of

# The memory moves for long enough that the states "releasing" and "restoring" are seen.
MOVED_MIB = 128

# Running work ends in time on a busy machine, too.
PATIENTLY = ["--timeout", "60"]

# A state may be over before it is seen.
ATTEMPTS = 20


class Vm(Daemon):
    """A vcudad with a share, and its programs."""

    def __init__(self, stack, directory):
        control = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "control")
        self.daemon, env = stack.enter_context(daemon("--share", "1", "--arbiter", os.path.join(directory, "arbiter"), "--control", control))
        super().__init__(self.daemon, env, control)
        self.stopped = None

    def begin(self, command, *arguments):
        """A command to all processes of the VM, which goes on meanwhile."""
        return subprocess.Popen([build("cli/vcuda"), command, "--control", self.control, *arguments, *map(str, self.all())],
                                stderr=subprocess.PIPE, text=True)

    def worker_of(self, program):
        return next(w["worker"] for w in self.processes() if w["pid"] == program.pid)

    def is_seen(self, program, state, command):
        """False: the command ended, and the process was not seen in that state."""
        while command.poll() is None:
            if self.state_of(program) == state:
                return True
            time.sleep(0.001)
        return False

    def is_kept(self, program, state, command):
        """As is_seen(). The worker that moves memory is stopped in that state, until go_on(). NVIDIA's driver moves a GPU's, for longer."""
        if not self.is_seen(program, state, command):
            return False
        if BACKEND == "cpu":
            self.stopped = self.worker_of(program)
            os.kill(self.stopped, signal.SIGSTOP)
        if self.state_of(program) == state:
            return True
        self.go_on()
        return False

    def go_on(self):
        if self.stopped:
            os.kill(self.stopped, signal.SIGCONT)
        self.stopped = None


def ended(command, good):
    """Waits for the command, which must succeed, may fail (None), or must fail and say why."""
    said = command.communicate(timeout=LIMIT)[1]
    check(good is None or (command.returncode == 0) == good, f"a command to vcudad ended with {command.returncode}: {said}")
    check(command.returncode == 0 or said, "a command failed and did not say why")


def kept(seen, back):
    """The command that `seen` returns; where it is None `back` takes it back, for another attempt."""
    for _ in range(ATTEMPTS):
        command = seen()
        if command:
            return command
        back()
    check(False, f"in {ATTEMPTS} attempts a state was over before it was seen")
    return None


# ---- the states: each function returns the command that has not ended; None: there is none ----

def runs(vm, p):
    check(vm.state_of(p) == "running", vm.state_of(p))


def pausing(vm, waiting):
    """The program `waiting` keeps the pause from its end: its work on the device waits for it."""
    command = vm.begin("pause", *PATIENTLY)
    check(vm.is_seen(waiting, "pausing", command), "the pause does not wait for work that cannot end")
    return command


def paused(vm, p):
    vm.say("pause", *PATIENTLY, *vm.all())
    stands(p)


def releasing(vm, p):
    def attempt():
        command = vm.begin("pause", "--release", *PATIENTLY)
        if vm.is_kept(p, "releasing", command):
            return command
        ended(command, True)
        return None
    return kept(attempt, lambda: vm.say("resume", *vm.all()))


def released(vm, p):
    vm.say("pause", "--release", *PATIENTLY, *vm.all())
    check(vm.state_of(p) == "released", vm.state_of(p))


def restoring(vm, p):
    def attempt():
        released(vm, p)
        command = vm.begin("resume")
        if vm.is_kept(p, "restoring", command):
            return command
        ended(command, True)
        return None
    return kept(attempt, lambda: None)


STATES = runs, pausing, paused, releasing, released, restoring


# ---- the victims ----

def resume(vm, command, waiting, good):
    """Lets a pause that waits for a program come to its end, and takes it back."""
    for program in waiting:
        program.terminate()
    if command:
        ended(command, good)
    vm.say("resume", *vm.all())
    finish(*waiting)


def worker(vm, p, others, command):
    """The worker's program gets an error, and the other programs of the VM go on."""
    os.kill(vm.worker_of(p), signal.SIGKILL)
    check(p.wait(LIMIT) == 3, f"the program of a killed worker ended with {p.returncode}")
    resume(vm, command, others[1:], None)
    works(others[0])
    new = start(vm)
    works(new)
    finish(others[0], new)
    wait_until(lambda: not children(vm.pid), "a worker outlives its program")


def arbiter(vm, p, others, command, neighbour_vm):
    """Nothing of the pause is lost."""
    victim = next(filter(None, map(arbiter_of, (vm, neighbour_vm))))
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: not is_running(victim), "the arbiter lives on")
    vm.go_on()
    wait_until(lambda: arbiter_of(vm) or arbiter_of(neighbour_vm), "no arbiter is started again")
    resume(vm, command, others[1:], True)
    works(p)
    works(others[0])
    finish(p, others[0])


def vcudad(vm, p, others, command):
    """The programs get an error, and the workers end."""
    workers = children(vm.pid)
    vm.daemon.is_killed = True
    vm.daemon.kill()
    # A program that waits makes no call before that.
    for program in others[1:]:
        program.terminate()
    for program in p, *others:
        check(program.wait(LIMIT) == 3, f"a program of a killed vcudad ended with {program.returncode}")
    if command:
        ended(command, False)
    wait_until(lambda: not any(map(is_running, workers)), "a worker outlives its vcudad")


def case(victim, state):
    print(f"{state.__name__}: the {victim.__name__} is killed", flush=True)
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        vm, neighbour_vm = Vm(stack, directory), Vm(stack, directory)
        neighbour = start(neighbour_vm)
        p, others = start(vm, "grows", MOVED_MIB), [start(vm)]
        p.send_signal(signal.SIGUSR2)
        check(p.stdout.readline() == "0\n", "the program does not get its memory")
        if state is pausing:
            others.append(start(vm, "waits"))
        command = state(vm, others[-1] if state is pausing else p)
        victim(vm, p, others, command, *([neighbour_vm] if victim is arbiter else []))
        works(neighbour)
        finish(neighbour)


def pause_kills():
    for victim in worker, arbiter, vcudad:
        for state in STATES:
            case(victim, state)
