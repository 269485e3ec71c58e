# SPDX-License-Identifier: Apache-2.0
"""Code of an attacker in another process: system calls that ptrace has a thread of that process make."""
import ctypes
import os
import signal
import struct

SEIZE, INTERRUPT, SINGLESTEP, DETACH, GETREGS, SETREGS, SYSCALL, SETOPTIONS, CONT = (
    0x4206, 0x4207, 9, 17, 12, 13, 24, 0x4200, 7)
WALL = 0x40000000
SYSCALL_STOPS = 1  # option: a stop at a system call has signal SIGTRAP | 0x80
NAMES = ('r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base '
         'ds es fs gs').split()
ARGUMENTS = ('rdi', 'rsi', 'rdx', 'r10', 'r8', 'r9')
GETPID = 39
LOWEST_ERROR = (1 << 64) - 4095

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


class Ended(Exception):
    """The thread has ended."""


def ptrace(request, thread, data=None):
    if libc.ptrace(request, thread, None, data) < 0:
        raise OSError(ctypes.get_errno(), f'ptrace {request:#x}')


def instruction(process):
    """Where the process has a system call instruction."""
    with open(f'/proc/{process}/maps') as maps:
        start, end = [int(at, 16) for line in maps if 'r-xp' in line and '/libc' in line
                      for at in line.split()[0].split('-')][:2]
    with open(f'/proc/{process}/mem', 'rb', 0) as memory:
        memory.seek(start)
        return start + memory.read(end - start).index(b'\x0f\x05')


class Tracee:
    """A stopped thread; with `with`. It goes on as it was at the end, if it still can."""

    def __init__(self, process, thread=None):
        self.thread = thread or process
        self.instruction = instruction(process)
        self.ended = False

    def __enter__(self):
        ptrace(SEIZE, self.thread, SYSCALL_STOPS)
        ptrace(INTERRUPT, self.thread)
        self.wait()
        self.before = self.registers()
        return self

    def __exit__(self, *unused):
        if self.ended:
            return
        try:
            self.set(self.before)
            ptrace(DETACH, self.thread)
        except OSError:  # the tracee was killed
            pass

    def wait(self):
        _, status = os.waitpid(self.thread, WALL)
        self.ended = not os.WIFSTOPPED(status)
        if self.ended:
            raise Ended
        return os.WSTOPSIG(status)

    def registers(self):
        data = ctypes.create_string_buffer(8 * len(NAMES))
        ptrace(GETREGS, self.thread, data)
        return dict(zip(NAMES, struct.unpack(f'<{len(NAMES)}Q', data.raw)))

    def set(self, registers):
        data = struct.pack(f'<{len(NAMES)}Q', *(registers[name] for name in NAMES))
        ptrace(SETREGS, self.thread, ctypes.create_string_buffer(data))

    def call(self, number, *arguments):
        """The result of the system call, -errno where it fails; None: a filter answers with a signal."""
        given = dict(zip(ARGUMENTS, (a & (1 << 64) - 1 for a in arguments)))
        self.set({**self.before, 'rax': number, 'orig_rax': (1 << 64) - 1, 'rip': self.instruction, **given})
        ptrace(SINGLESTEP, self.thread)
        refused = False
        while (stop := self.wait()) != signal.SIGTRAP:
            refused |= stop == signal.SIGSYS  # the thread does not get it
            ptrace(SINGLESTEP, self.thread)
        if refused:
            return None
        result = self.registers()['rax']
        return result - (1 << 64) if result >= LOWEST_ERROR else result

    def run(self, address):
        """Runs code that ends with int3. Returns its rax."""
        self.set({**self.before, 'orig_rax': (1 << 64) - 1, 'rip': address})
        ptrace(CONT, self.thread)
        while self.wait() != signal.SIGTRAP:
            ptrace(CONT, self.thread)
        return self.registers()['rax']

    def skip_call(self, number, result, matches):
        """
        Lets the thread go on as it was until it makes the call `number` with arguments that `matches` accepts: it
        makes another one that does nothing, and believes in `result`. Then the thread runs freely.
        """
        self.set(self.before)
        while True:
            ptrace(SYSCALL, self.thread)
            if self.wait() != signal.SIGTRAP | 0x80:
                continue
            registers = self.registers()
            if registers['rax'] != (1 << 64) - 38:  # -ENOSYS: at the entry
                continue
            if registers['orig_rax'] == number and matches(*(registers[name] for name in ARGUMENTS)):
                break
        self.set({**registers, 'orig_rax': GETPID})
        ptrace(SYSCALL, self.thread)
        self.wait()
        self.before = {**self.registers(), 'rax': result}


def poke(process, address, data):
    with open(f'/proc/{process}/mem', 'r+b', 0) as memory:
        memory.seek(address)
        memory.write(data)


def peek(process, address, count):
    with open(f'/proc/{process}/mem', 'rb', 0) as memory:
        memory.seek(address)
        return memory.read(count)
