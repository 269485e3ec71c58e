# SPDX-License-Identifier: Apache-2.0
"""Processes that give their workers up while they are checkpointed: who may have them, and what hostile ones try."""
import contextlib
import ctypes
import errno
import os
import signal
import socket
import struct
import threading
import time
import unittest

import puppet
import vmm
from restore import (ATTACH, ATTACH_CHANNEL, BUSY, CHECKPOINT, CHECKPOINTED, CLAIM, CLOSE, COPIES, COPY, Case,
                     Connection, DETACH, DETACH_CHANNEL, GET, GOES_ON, IS_BUSY, IS_DETACHED, IS_QUIET, LOCK, LOCKED,
                     LOOK, NO_TOKEN, OPEN, OUT_OF_MEMORY, QUIET, RELEASE, RESTORE, RESTORE_PROCESS, RETURNS, RUNNING,
                     STAYS, STEP, UNLOCK, fork_as, in_child)
from vmm import wait


class Own(Case):
    """The process lives."""

    def test_there_and_back(self):
        a = self.worker()
        self.checkpoint(a)
        token = self.detach(a)
        self.assertEqual(self.holder.act(UNLOCK)[0], -errno.EBADFD)
        own, status = self.claim(token)
        self.assertEqual(status, 0)
        self.assertEqual(own.ask(ATTACH, token=token)[:2], (-errno.EAGAIN, CHECKPOINTED))
        self.step(RESTORE_PROCESS, a, RESTORE, LOCKED, IS_DETACHED)
        self.assertEqual(self.holder.act(UNLOCK)[0], -errno.EBADFD)
        self.assertEqual(own.ask(ATTACH, token=token)[:2], (0, LOCKED))
        channel = socket.socket(fileno=a.answer(ATTACH_CHANNEL))
        own.socket.send(b'to the worker')
        self.assertEqual(channel.recv(100), b'to the worker')
        channel.send(b'to the process')
        self.assertEqual(own.socket.recv(100), b'to the process')
        channel.close()
        self.assertTrue(own.is_closed(), 'vcudad has kept the connection')
        self.reaches(LOCKED, RETURNS)
        self.assertEqual(self.holder.act(UNLOCK)[0], -errno.EBADFD)
        other = Connection(self.daemon)
        self.assertEqual(other.ask(QUIET, a.pid)[0], 0)
        other.close()
        self.reaches(LOCKED, IS_QUIET)
        # The token was good once.
        for action in CLAIM, ATTACH:
            other, status = self.claim(token, action)
            self.assertEqual(status, -errno.ENOENT)
            self.assertTrue(other.is_closed())
        self.step(UNLOCK, a, OPEN, RUNNING, IS_QUIET)
        self.step(LOCK, a, CLOSE, LOCKED, IS_QUIET)
        self.step(CHECKPOINT, a, RELEASE, CHECKPOINTED, IS_QUIET)
        other = Connection(self.daemon)
        self.addCleanup(other.close)
        self.assertNotEqual(other.ask(DETACH, a.pid)[4], token)
        a.answer(DETACH_CHANNEL)

    def test_states(self):
        a = self.worker()
        own = Connection(self.daemon)
        self.addCleanup(own.close)
        self.assertEqual(own.ask(LOOK, a.pid)[:2], (0, RUNNING))
        self.assertEqual(own.ask(DETACH, a.pid)[0], -errno.EAGAIN)
        self.assertEqual(self.holder.act(LOCK)[0], 0)
        self.assertEqual(own.ask(LOOK, a.pid)[:2], (0, RUNNING | STEP))
        a.answer(CLOSE)
        self.reaches(LOCKED)
        self.assertEqual(own.ask(DETACH, a.pid)[0], -errno.EAGAIN)
        self.assertEqual(self.holder.act(CHECKPOINT)[0], 0)
        self.assertEqual(own.ask(DETACH, a.pid)[0], -errno.EAGAIN)
        os.close(a.answer(RELEASE))
        self.reaches(CHECKPOINTED)
        self.assertEqual(own.ask(DETACH, a.pid)[0], 0)
        a.answer(DETACH_CHANNEL)

    def test_flags(self):
        a = self.worker()
        own = Connection(self.daemon)
        self.addCleanup(own.close)
        self.assertEqual(own.ask(LOOK, a.pid)[0], 0)
        self.assertEqual(self.holder.act(GET), (0, RUNNING, 0, 0))
        self.assertFalse(self.holder.has_thread)
        for action, flags in (QUIET, IS_QUIET), (BUSY, IS_BUSY), (STAYS, IS_QUIET | IS_BUSY), (GOES_ON, 0):
            self.assertEqual(own.ask(action, a.pid)[0], 0)
            self.assertEqual(self.holder.act(GET), (0, RUNNING, 0, flags))
            self.assertTrue(self.holder.has_thread)

    def test_the_process_stays(self):
        """A token that the process has given back is void, and the worker ends with its channel again."""
        a = self.worker()
        self.checkpoint(a)
        own = Connection(self.daemon)
        self.addCleanup(own.close)
        token = own.ask(DETACH, a.pid)[4]
        # The worker has not answered.
        self.assertEqual(own.ask(STAYS, a.pid)[0], 0)
        a.answer(DETACH_CHANNEL)
        self.assertIsNone(a.answer(ATTACH_CHANNEL))
        own.close()
        self.assertEqual(self.claim(token)[1], -errno.ENOENT)
        self.reaches(CHECKPOINTED, IS_QUIET | IS_BUSY)
        self.becomes(a, 'checkpointed')

    def test_while_the_process_copies(self):
        """Work that ran meanwhile would write to memory that the process does not look at."""
        a = self.worker()
        own = Connection(self.daemon)
        self.addCleanup(own.close)
        self.step(LOCK, a, CLOSE, LOCKED)
        self.assertEqual(own.ask(COPY, a.pid)[0], -errno.EAGAIN)
        self.step(CHECKPOINT, a, RELEASE, CHECKPOINTED)
        self.assertEqual(own.ask(COPY, a.pid)[0], 0)
        own.close()
        self.step(RESTORE_PROCESS, a, RESTORE, LOCKED, IS_QUIET | COPIES)
        self.assertEqual(self.holder.act(UNLOCK)[0], -errno.EBADFD)
        own = Connection(self.daemon)
        self.addCleanup(own.close)
        self.assertEqual(own.ask(DETACH, a.pid)[0], -errno.EAGAIN)
        self.assertEqual(own.ask(QUIET, a.pid)[0], 0)
        self.step(UNLOCK, a, OPEN, RUNNING, IS_QUIET)

    def test_while_it_has_a_token(self):
        a = self.worker()
        self.checkpoint(a)
        own = Connection(self.daemon)
        self.addCleanup(own.close)
        self.assertEqual(own.ask(DETACH, a.pid)[0], 0)
        a.answer(DETACH_CHANNEL)
        self.step(RESTORE_PROCESS, a, RESTORE, LOCKED)
        self.assertEqual(self.holder.act(UNLOCK)[0], -errno.EBADFD)
        self.assertEqual(own.ask(STAYS, a.pid)[0], 0)
        self.assertIsNone(a.answer(ATTACH_CHANNEL))
        self.step(UNLOCK, a, OPEN, RUNNING, IS_QUIET | IS_BUSY)

    def test_the_process_stays_after_all(self):
        """The connection of the process has ended, and its channel is open."""
        a = self.worker()
        self.checkpoint(a)
        token = self.detach(a)
        own = Connection(self.daemon)
        self.addCleanup(own.close)
        for action in QUIET, GOES_ON:
            self.assertEqual(own.ask(action, a.pid)[0], -errno.EBADFD)
        self.assertEqual(own.ask(BUSY, a.pid)[0], 0)
        self.assertIsNone(a.answer(ATTACH_CHANNEL))
        self.reaches(CHECKPOINTED, IS_BUSY)
        self.assertEqual(self.claim(token)[1], -errno.ENOENT)
        self.step(RESTORE_PROCESS, a, RESTORE, LOCKED, IS_BUSY)
        self.step(UNLOCK, a, OPEN, RUNNING, IS_BUSY)

    def test_before_the_end_of_the_connection(self):
        """The session cannot be claimed as long as the process has a connection to vcudad."""
        a = self.worker()
        self.checkpoint(a)
        own = Connection(self.daemon)
        self.addCleanup(own.close)
        token = own.ask(DETACH, a.pid)[4]
        a.answer(DETACH_CHANNEL)
        self.assertEqual(self.claim(token)[1], -errno.ENOENT)
        own.close()
        self.reaches(CHECKPOINTED, IS_DETACHED)
        self.assertEqual(self.claim(token)[1], 0)

    def test_two_connections(self):
        """The first one that asks has the token, until the process stays attached."""
        a = self.worker()
        self.checkpoint(a)
        own, other = Connection(self.daemon), Connection(self.daemon)
        self.addCleanup(own.close)
        self.addCleanup(other.close)
        token = own.ask(DETACH, a.pid)[4]
        a.answer(DETACH_CHANNEL)
        self.assertEqual(other.ask(DETACH, a.pid)[0], -errno.EAGAIN)
        other.close()
        self.reaches(CHECKPOINTED)
        own.close()
        self.reaches(CHECKPOINTED, IS_DETACHED)
        self.assertEqual(self.claim(token)[1], 0)

    def test_others_have_no_part(self):
        """Neither with the token, while the process lives, nor with a worker's number."""
        a = self.worker()
        self.checkpoint(a)
        own = Connection(self.daemon)
        self.assertEqual(own.ask(DETACH, a.pid + 1)[0], -errno.ESRCH)
        own.close()
        for action in LOOK, QUIET, BUSY, STAYS, GOES_ON, DETACH:
            self.assertEqual(in_child(lambda action=action: -Connection(self.daemon, self.holder.pid).ask(action, a.pid)[0]), errno.ESRCH)
        token = self.detach(a)
        for action in CLAIM, ATTACH:
            self.assertEqual(in_child(lambda action=action: -Connection(self.daemon).ask(action, token=token)[0]), errno.EPERM)
        self.assertEqual(self.claim(token)[1], 0)

    @unittest.skipIf(os.geteuid(), 'only root has other users')
    def test_another_user_has_no_part(self):
        a = self.worker()
        self.checkpoint(a)
        token = self.detach(a)
        self.assertEqual(self.as_another_user(CLAIM, token=token), errno.EPERM)
        self.assertEqual(self.claim(token)[1], 0)

    @unittest.skipIf(os.geteuid(), 'only root has other users')
    def test_a_process_that_has_changed_its_user(self):
        """The process has the worker's number, and its socket another user."""
        a = self.worker()
        self.assertEqual(Connection(self.daemon).ask(LOOK, a.pid)[0], 0)
        self.allow_others()
        os.seteuid(65534)
        try:
            own = Connection(self.daemon)
        finally:
            os.seteuid(0)
        self.addCleanup(own.close)
        self.assertEqual(own.ask(LOOK, a.pid)[0], -errno.ESRCH)

    def test_guesses(self):
        a = self.worker()
        self.checkpoint(a)
        token = self.detach(a)
        guesses = [NO_TOKEN, b'\xff' * 16] + [bytes([*token[:i], token[i] ^ 1, *token[i + 1:]]) for i in range(16)]
        for guess in guesses:
            own, status = self.claim(guess)
            self.assertEqual(status, -errno.ENOENT)
            self.assertTrue(own.is_closed())
        self.assertEqual(self.claim(token)[1], 0)

    def test_no_token_is_no_session(self):
        """The token of a worker that has none is not a row of zeroes."""
        self.worker()
        self.assertEqual(self.claim(NO_TOKEN)[1], -errno.ENOENT)

    def test_sizes_and_numbers(self):
        a = self.worker()
        for size in 17, 31, 33, 100:
            own = Connection(self.daemon)
            own.socket.send(struct.pack('<IIII', LOOK, 0, os.getpid(), a.pid) + bytes(size - 16))
            self.assertTrue(own.is_closed(), size)
            own.close()
        own = Connection(self.daemon)
        for action in 0, UNLOCK, 0xff, COPY + 1, 2**32 - 1:
            self.assertEqual(own.ask(action, a.pid)[0], -errno.EINVAL)
        # The numbers of one size mean nothing in the other one.
        self.assertEqual(own.act(DETACH)[0], -errno.EINVAL)
        own.close()

    def test_the_worker_gets_no_channel(self):
        """The worker has no process any more, and would wait for ever."""
        a = self.worker()
        self.checkpoint(a)
        token = self.detach(a)
        self.step(RESTORE_PROCESS, a, RESTORE, LOCKED, IS_DETACHED)
        own, status = self.claim(token)
        self.assertEqual((status, own.ask(ATTACH, token=token)[0]), (0, 0))
        os.close(a.answer(ATTACH_CHANNEL, OUT_OF_MEMORY))
        self.assertTrue(wait(lambda: not self.daemon.status().get('process')), self.daemon.log())
        # The worker has ended for this reason, and not as a silent client.
        self.assertIn('cannot change its channel', self.daemon.log())

    def test_the_worker_ends_meanwhile(self):
        a = self.worker()
        self.checkpoint(a)
        token = self.detach(a)
        os.kill(a.pid, signal.SIGKILL)
        self.assertTrue(wait(lambda: self.claim(token)[1] == -errno.ENOENT))

    def test_the_operator_ends_it(self):
        a = self.worker()
        self.checkpoint(a)
        token = self.detach(a)
        self.assertEqual(self.daemon.ask(f'kill {os.getpid()}')[0], 'ok')
        self.assertTrue(wait(lambda: not self.daemon.status().get('process')))
        self.assertEqual(self.claim(token)[1], -errno.ENOENT)


class OwnerCase(Case):
    """With processes of their own, which detach."""

    def start_owner(self, goes_on, prepare=lambda: None):
        """Returns the process's number and socket, its worker and the token. It goes on where it is told to."""
        parent, child = socket.socketpair()
        process = os.fork()
        if not process:
            with contextlib.suppress(Exception):
                self.be_owner(child, prepare)
                child.recv(5)
                goes_on()
            os._exit(1)
        child.close()
        parent.settimeout(vmm.LIMIT)
        self.addCleanup(parent.close)
        # The worker of this test would end with the last descriptor of its connection.
        _, kept, _, _ = socket.recv_fds(parent, 10, 1)
        self.addCleanup(os.close, kept[0])
        worker = puppet.Worker(self.end)
        self.addCleanup(worker.close)
        self.holder.pid = process
        self.checkpoint(worker)
        parent.send(struct.pack('<I', worker.pid))
        worker.answer(DETACH_CHANNEL)
        token = parent.recv(16)
        self.reaches(CHECKPOINTED, IS_DETACHED)
        return process, parent, worker, token

    def be_owner(self, end, prepare):
        client = vmm.Client(self.daemon)
        self.kept = client  # kept open as long as the process lives
        socket.send_fds(end, [b'client'], [client.socket.fileno()])
        worker, = struct.unpack('<I', end.recv(4))
        prepare()
        own = Connection(self.daemon)
        token = own.ask(DETACH, worker)[4]
        own.close()
        end.send(token)

    def workers(self):
        return [int(p['worker']) for p in self.daemon.status().get('process', [])]


def end_process(process):
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def begin_program():
    os.execvp('sleep', ['sleep', '1000'])


def become_crowd():
    """Many threads, none of which is the restore thread."""
    with open('/proc/self/comm', 'w', encoding='utf-8') as f:
        f.write('crowd')
    for _ in range(100):
        threading.Thread(target=threading.Event().wait, daemon=True).start()


class Crowd(OwnerCase):
    options = ('--backend', 'cpu', '--allow-any-user', '--keep-detached', '0')

    def test_many_threads(self):
        """Not all threads are looked at, and the process counts as living. A look at the second process comes later."""
        crowd, _, worker, _ = self.start_owner(signal.pause, become_crowd)
        self.addCleanup(end_process, crowd)
        process, end, other, _ = self.start_owner(begin_program)
        self.addCleanup(end_process, process)
        self.assertEqual(sorted(self.workers()), sorted([worker.pid, other.pid]))
        end.send(b'begin')
        self.assertTrue(wait(lambda: other.pid not in self.workers()), self.daemon.log())
        self.assertEqual(self.workers(), [worker.pid])


class GoneCase(OwnerCase):
    """The process ends while it is checkpointed."""

    def setUp(self):
        super().setUp()
        self.process, self.process_end, self.a, self.token = self.start_owner(begin_program)
        self.addCleanup(self.end_process)

    def end_process(self):
        if self.process:
            end_process(self.process)
        self.process = 0


class Gone(GoneCase):
    """Another process may take the session, also on a busy machine."""
    options = ('--backend', 'cpu', '--allow-any-user', '--keep-detached', '60')

    def test_another_process_has_its_image(self):
        """The first one that has the token, and no second one."""
        self.assertEqual(self.claim(self.token)[1], -errno.EPERM)
        self.end_process()
        self.assertTrue(wait(lambda: self.claim(self.token)[1] == 0))
        self.assertEqual(in_child(lambda: -Connection(self.daemon).ask(CLAIM, token=self.token)[0]), errno.EPERM)
        self.holder.pid = os.getpid()
        self.step(RESTORE_PROCESS, self.a, RESTORE, LOCKED, IS_DETACHED)
        own, status = self.claim(self.token, ATTACH)
        self.assertEqual(status, 0)
        channel = socket.socket(fileno=self.a.answer(ATTACH_CHANNEL))
        own.socket.send(b'to the worker')
        self.assertEqual(channel.recv(100), b'to the worker')
        channel.close()
        self.reaches(LOCKED, RETURNS)
        # The worker's memory is not shared yet.
        self.assertEqual(self.holder.act(UNLOCK)[0], -errno.EBADFD)
        other = Connection(self.daemon)
        self.addCleanup(other.close)
        self.assertEqual(other.ask(QUIET, self.a.pid)[0], 0)
        self.step(UNLOCK, self.a, OPEN, RUNNING, IS_QUIET)

    @unittest.skipIf(os.geteuid(), 'only root has other users')
    def test_another_user_has_no_part(self):
        self.end_process()
        self.assertEqual(self.as_another_user(CLAIM, token=self.token), errno.EPERM)
        self.assertTrue(wait(lambda: self.claim(self.token)[1] == 0))

    def test_another_process_has_its_number(self):
        """The new process has a worker of its own, and no part in the session."""
        self.end_process()
        try:
            child = fork_as(self.holder.pid)
        except OSError as e:
            self.skipTest(f'no process with a chosen number: {e}')
        if not child:
            with contextlib.suppress(Exception):
                client = vmm.Client(self.daemon)
                signal.pause()
                client.close()
            os._exit(1)
        self.process = child
        other = puppet.Worker(self.end)
        self.addCleanup(other.close)
        self.assertTrue(wait(lambda: self.holder.act(GET) == (0, RUNNING, 0, 0)), self.holder.act(GET))
        self.step(LOCK, other, CLOSE, LOCKED)
        self.assertEqual(self.claim(self.token)[1], 0)


class NobodyComes(GoneCase):
    options = ('--backend', 'cpu', '--allow-any-user', '--keep-detached', '2')

    def test_nobody_comes(self):
        self.assertEqual(self.workers(), [self.a.pid])
        began = time.monotonic()
        self.end_process()
        self.assertTrue(wait(lambda: not self.workers()), self.daemon.log())
        self.assertGreaterEqual(time.monotonic() - began, 2)
        self.assertIn('--keep-detached', self.daemon.log())
        self.assertEqual(self.claim(self.token)[1], -errno.ENOENT)

    def test_another_program(self):
        """The process goes on with one that does not have the token."""
        self.process_end.send(b'begin')
        self.assertTrue(wait(lambda: not self.workers()), self.daemon.log())
        self.assertIn('another program', self.daemon.log())
        os.kill(self.process, 0)


CLONE_NEWPID = 0x20000000


class Unseen(Case):
    """Processes of a pid namespace that vcudad does not see all have the number 0 there."""

    def setUp(self):
        libc = ctypes.CDLL(None, use_errno=True)
        with open('/proc/self/ns/pid', encoding='ascii') as own:
            if libc.unshare(CLONE_NEWPID):
                self.skipTest(f'no pid namespace: {os.strerror(ctypes.get_errno())}')
            try:
                super().setUp()
            finally:
                self.assertEqual(libc.setns(own.fileno(), CLONE_NEWPID), 0)

    def test_no_session_is_its(self):
        a = self.worker()
        for action in LOOK, QUIET, COPY, DETACH, GOES_ON:
            self.assertEqual(self.holder.ask(action, a.pid)[0], -errno.ESRCH)
        self.assertEqual(self.holder.act(GET)[0], -errno.ESRCH)


class Refused(Case):
    options = ('--backend', 'cpu', '--no-guest-checkpoint')

    def test_the_operator_allows_none(self):
        a = self.worker()
        own = Connection(self.daemon)
        self.addCleanup(own.close)
        for action in LOOK, DETACH, CLAIM, ATTACH:
            self.assertEqual(own.ask(action, a.pid)[0], -errno.EOPNOTSUPP)


if __name__ == '__main__':
    vmm.main()
