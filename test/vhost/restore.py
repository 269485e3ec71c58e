# SPDX-License-Identifier: Apache-2.0
"""A process that gives its worker up: its connection to vcudad, and the case of a test that is such a process, or another one."""
import contextlib
import ctypes
import errno
import os
import signal
import socket
import struct

import puppet
import vmm
from vmm import wait

CLOSE, OPEN, RELEASE, RESTORE = range(1, 5)
DETACH_CHANNEL, ATTACH_CHANNEL = 6, 7  # enum vcuda_gate_type
OUT_OF_MEMORY = 3  # enum vcuda_gate_state
GET, LOCK, CHECKPOINT, RESTORE_PROCESS, UNLOCK = range(5)  # enum vcuda_process_action
LOOK, QUIET, BUSY, STAYS, GOES_ON, DETACH, CLAIM, ATTACH, COPY = range(0x100, 0x109)  # enum vcuda_restore_action
RUNNING, LOCKED, CHECKPOINTED, STEP = 0, 1, 2, 0x100
IS_QUIET, IS_BUSY, IS_DETACHED, RETURNS, IS_KNOWN, COPIES, HAS_THREAD = 1, 2, 4, 8, 16, 32, 64
NO_TOKEN = bytes(16)


class Connection:
    number = 0

    def __init__(self, daemon, pid=None):
        Connection.number += 1
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(vmm.LIMIT)
        self.socket.bind(f'\0vcuda-process/restore-{os.getpid()}-{Connection.number}')
        self.socket.connect(daemon.local_path)
        self.pid = pid or os.getpid()

    def ask(self, action, worker=0, token=NO_TOKEN):
        """(-errno or 0, state, failure, flags, token)"""
        self.socket.send(struct.pack('<IIII', action, 0, self.pid, worker) + token)
        answer = self.socket.recv(100)
        return (*struct.unpack('<iIII', answer[:16]), answer[16:])

    def act(self, action):
        """(-errno or 0, state, failure, flags)"""
        self.socket.send(struct.pack('<IIII', action, 1000, self.pid, 0))
        *answer, flags = struct.unpack('<iIII', self.socket.recv(100))
        assert flags & IS_KNOWN or answer[0]
        self.has_thread = bool(flags & HAS_THREAD)
        return *answer, flags & ~(IS_KNOWN | HAS_THREAD)

    def is_closed(self):
        try:
            return not self.socket.recv(100)
        except ConnectionError:
            return True

    def close(self):
        self.socket.close()


def look_like_owner():
    """An owner has a restore thread, which has this name."""
    with open('/proc/self/comm', 'w', encoding='utf-8') as f:
        f.write('cuda-restore')


def fork_as(pid):
    """As os.fork(), with a number for the child. OSError: it may not choose one."""
    wanted = (ctypes.c_int * 1)(pid)
    arguments = (ctypes.c_uint64 * 11)()
    arguments[4] = signal.SIGCHLD
    arguments[8], arguments[9] = ctypes.addressof(wanted), 1
    child = ctypes.CDLL(None, use_errno=True).syscall(435, arguments, ctypes.sizeof(arguments))
    if child < 0:
        raise OSError(ctypes.get_errno(), 'clone3')
    return child


def in_child(function):
    """Runs the function in a process of its own and returns its result, a number below 256."""
    child = os.fork()
    if not child:
        status = 255
        with contextlib.suppress(Exception):
            status = function()
        os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Case(puppet.Case):
    options = ('--backend', 'cpu', '--allow-any-user')

    def setUp(self):
        super().setUp()
        look_like_owner()
        self.holder = Connection(self.daemon)
        self.addCleanup(self.holder.close)

    def reaches(self, state, flags=0):
        self.assertTrue(wait(lambda: self.holder.act(GET)[1:] == (state, 0, flags)), f'{self.holder.act(GET)}\n{self.daemon.log()}')

    def step(self, action, worker, kind, state, flags=0):
        self.assertEqual(self.holder.act(action)[0], 0)
        file = worker.answer(kind)
        if file is not None:
            os.close(file)
        self.reaches(state, flags)

    def checkpoint(self, worker):
        self.step(LOCK, worker, CLOSE, LOCKED)
        self.step(CHECKPOINT, worker, RELEASE, CHECKPOINTED)

    def detach(self, worker):
        """The process, which is this one, detaches from a checkpointed worker. Returns the token."""
        own = Connection(self.daemon)
        status, *_, token = own.ask(DETACH, worker.pid)
        self.assertEqual(status, 0)
        self.assertNotEqual(token, NO_TOKEN)
        self.assertIsNone(worker.answer(DETACH_CHANNEL))
        self.assertEqual(self.holder.act(GET)[3], 0)
        own.close()
        self.reaches(CHECKPOINTED, IS_DETACHED)
        self.becomes(worker, 'detached')
        return token

    def allow_others(self):
        os.chmod(os.path.dirname(self.daemon.local_path), 0o755)
        os.chmod(self.daemon.local_path, 0o666)

    def as_another_user(self, *arguments, **more):
        """The errno of a request."""
        def ask():
            os.setresuid(65534, 65534, 65534)
            return -Connection(self.daemon).ask(*arguments, **more)[0]
        self.allow_others()
        return in_child(ask)

    def claim(self, token, action=CLAIM):
        own = Connection(self.daemon)
        self.addCleanup(own.close)
        return own, own.ask(action, token=token)[0]
