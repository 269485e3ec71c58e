# SPDX-License-Identifier: Apache-2.0
"""The steps of cuCheckpointProcess*(): between the operator's pauses, by failures, and of hostile clients."""
import errno
import os
import socket
import struct
import subprocess
import unittest

import puppet
import vmm
from vmm import wait

CLOSE, OPEN, RELEASE, RESTORE = range(1, 5)
DONE, COMMAND_RUNS, _, _, NO_ROOM = range(5)  # enum vcuda_gate_state
GET, LOCK, CHECKPOINT, RESTORE_PROCESS, UNLOCK = range(5)  # enum vcuda_process_action
RUNNING, LOCKED, CHECKPOINTED, STEP = 0, 1, 2, 0x100
STATE = 6  # VCUDA_CTL_STATE
OF_USER = 32


class Holder:
    """A client that acts on a process."""
    number = 0

    def __init__(self, daemon, pid=None):
        Holder.number += 1
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(vmm.LIMIT)
        self.socket.bind(f'\0vcuda-process/{os.getpid()}-{Holder.number}')
        self.socket.connect(daemon.local_path)
        self.pid = pid or os.getpid()

    def is_closed(self):
        try:
            return not self.socket.recv(100)
        except ConnectionError:
            return True

    def act(self, action, milliseconds=1000):
        """(-errno or 0, state, failure)"""
        self.socket.send(struct.pack('<IIII', action, milliseconds, self.pid, 0))
        return struct.unpack('<iIII', self.socket.recv(100))[:3]

    def state(self):
        return self.act(GET)[1:]

    def close(self):
        self.socket.close()


class Processes(puppet.Case):
    """All workers are of one process: this one."""
    options = ('--backend', 'cpu')

    def setUp(self):
        super().setUp()
        self.holder = Holder(self.daemon)
        self.addCleanup(self.holder.close)

    def reaches(self, state, failure=0):
        self.assertTrue(wait(lambda: self.holder.state() == (state, failure)), f'{self.holder.state()}\n{self.daemon.log()}')

    def begin(self, action):
        before = self.holder.state()[0]
        self.assertEqual(self.holder.act(action), (0, before | STEP, 0))

    def lock(self, *workers):
        self.begin(LOCK)
        for worker in workers:
            worker.answer(CLOSE)
        self.reaches(LOCKED)

    def checkpoint(self, *workers):
        self.begin(CHECKPOINT)
        for worker in workers:
            os.close(worker.answer(RELEASE))
        self.reaches(CHECKPOINTED)

    def test_all_steps(self):
        a, b = self.worker(), self.worker()
        self.assertEqual(self.holder.act(UNLOCK), (-errno.EBADFD, RUNNING, 0))
        self.lock(a, b)
        self.checkpoint(a, b)
        self.begin(RESTORE_PROCESS)
        self.assertEqual(self.holder.act(UNLOCK), (-errno.EBADFD, CHECKPOINTED | STEP, 0))
        a.answer(RESTORE)
        b.answer(RESTORE)
        self.reaches(LOCKED)
        self.begin(UNLOCK)
        a.answer(OPEN)
        b.answer(OPEN)
        self.reaches(RUNNING)
        self.becomes(a, 'running')

    def test_all_workers_or_none(self):
        a, b = self.worker(), self.worker()
        self.begin(LOCK)
        a.answer(CLOSE)
        b.answer(CLOSE, COMMAND_RUNS)
        a.answer(OPEN)
        self.reaches(RUNNING, errno.ETIMEDOUT)
        self.lock(a, b)
        self.begin(CHECKPOINT)
        os.close(a.answer(RELEASE))
        os.close(b.answer(RELEASE, NO_ROOM))
        a.answer(RESTORE)
        self.reaches(LOCKED, errno.ENOSPC)
        self.becomes(a, 'locked')

    def test_the_memory_does_not_come_back(self):
        a, b = self.worker(), self.worker()
        self.lock(a, b)
        self.checkpoint(a, b)
        self.begin(RESTORE_PROCESS)
        a.answer(RESTORE)
        b.answer(RESTORE, NO_ROOM)
        self.reaches(CHECKPOINTED, errno.ENOSPC)
        self.begin(RESTORE_PROCESS)
        b.answer(RESTORE)
        self.reaches(LOCKED)

    def test_a_failed_pause_leaves_it_locked(self):
        a = self.worker()
        self.lock(a)
        self.assertEqual(self.daemon.ask('pause all 1000 release')[0], 'ok')
        os.close(a.answer(RELEASE, NO_ROOM))
        self.becomes(a, 'locked', 'file')
        self.begin(UNLOCK)
        a.answer(OPEN)
        self.reaches(RUNNING)

    def test_a_failed_checkpoint_leaves_it_paused(self):
        a = self.worker()
        self.assertEqual(self.daemon.ask('pause all 1000')[0], 'ok')
        a.answer(CLOSE)
        self.assertEqual(self.holder.act(LOCK), (0, LOCKED, 0))
        self.begin(CHECKPOINT)
        os.close(a.answer(RELEASE, NO_ROOM))
        self.reaches(LOCKED, errno.ENOSPC)
        self.assertEqual(self.holder.act(UNLOCK), (0, RUNNING, 0))
        self.becomes(a, 'paused')
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        a.answer(OPEN)

    def test_the_operator_resumes_while_the_guest_locks(self):
        a = self.worker()
        self.begin(LOCK)
        self.assertEqual(self.daemon.ask('pause all 1000')[0], 'ok')
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        a.answer(CLOSE)
        self.reaches(LOCKED)
        self.becomes(a, 'locked')

    def test_other_processes(self):
        self.worker()
        other = subprocess.Popen(['sleep', '1000'])
        holder = Holder(self.daemon, other.pid)
        self.assertEqual(holder.act(LOCK), (-errno.ESRCH, 0, 0))
        other.kill()
        other.wait()
        self.assertEqual(holder.act(GET), (-errno.ESRCH, 0, 0))
        holder.close()

    def test_hostile_clients(self):
        a = self.worker()
        before = len(os.listdir(f'/proc/{self.daemon.process.pid}/fd'))
        for data in b'', b'123456789012345', b'12345678901234567':
            holder = Holder(self.daemon)
            holder.socket.send(data)
            self.assertTrue(holder.is_closed(), data)
            holder.close()
        for action, milliseconds in (5, 0), (2**32 - 1, 0), (LOCK, 5001):
            self.assertEqual(self.holder.act(action, milliseconds), (-errno.EINVAL, 0, 0))
        for pid in 1, 2**31 - 1, 2**32 - 1:
            self.holder.pid = pid
            self.assertEqual(self.holder.act(LOCK), (-errno.ESRCH, 0, 0))
        self.holder.pid = os.getpid()
        for _ in range(100):
            socket.send_fds(self.holder.socket, [struct.pack('<IIII', GET, 0, os.getpid(), 0)], [0, 1, 2])
            self.assertEqual(struct.unpack('<iIII', self.holder.socket.recv(100))[:3], (0, RUNNING, 0))
        self.assertTrue(wait(lambda: len(os.listdir(f'/proc/{self.daemon.process.pid}/fd')) <= before))
        # The first connection is not one of them: it came before this process had a worker.
        holders = [Holder(self.daemon) for _ in range(OF_USER)]
        self.assertEqual(holders[-1].state(), (RUNNING, 0))
        more = Holder(self.daemon)
        self.assertTrue(more.is_closed())
        for holder in *holders, more:
            holder.close()
        self.lock(a)

    def test_a_lock_while_the_gate_opens(self):
        """The step has ended when the gate has closed anew."""
        a = self.worker()
        self.lock(a)
        self.assertEqual(self.daemon.ask('pause all 1000')[0], 'ok')
        self.assertEqual(self.holder.act(UNLOCK), (0, RUNNING, 0))
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        self.begin(LOCK)
        a.answer(OPEN)
        a.answer(CLOSE, COMMAND_RUNS)
        self.reaches(RUNNING, errno.ETIMEDOUT)
        self.becomes(a, 'running')

    def test_a_checkpoint_while_the_memory_comes_back(self):
        """The second release fails once, and no more."""
        a = self.worker()
        self.lock(a)
        self.checkpoint(a)
        self.begin(RESTORE_PROCESS)
        self.assertEqual(self.daemon.ask('pause all 1000 release')[0], 'ok')
        self.begin(CHECKPOINT)
        a.answer(RESTORE)
        os.close(a.answer(RELEASE, NO_ROOM))
        self.reaches(LOCKED, errno.ENOSPC)
        self.becomes(a, 'locked', 'file')

    def test_the_operator_resumes_while_one_fails(self):
        a, b = self.worker(), self.worker()
        self.begin(LOCK)
        a.answer(CLOSE)
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        b.answer(CLOSE, COMMAND_RUNS)
        a.answer(OPEN)
        self.reaches(RUNNING, errno.ETIMEDOUT)

    def test_the_operator_pauses_while_one_fails(self):
        a, b = self.worker(), self.worker()
        self.begin(LOCK)
        a.answer(CLOSE)
        self.assertEqual(self.daemon.ask('pause all 1000 release')[0], 'ok')
        os.close(a.answer(RELEASE))
        b.answer(CLOSE, COMMAND_RUNS)
        a.answer(RESTORE)
        a.answer(OPEN)
        self.reaches(RUNNING, errno.ETIMEDOUT)
        self.becomes(a, 'running')

    def test_a_lock_during_a_pause_that_fails(self):
        """The guest's lock keeps no gate closed that the operator's failed pause has closed."""
        a, b = self.worker(), self.worker()
        self.assertEqual(self.daemon.ask('pause all 1000')[0], 'ok')
        a.answer(CLOSE)
        self.begin(LOCK)
        b.answer(CLOSE, COMMAND_RUNS)
        a.answer(OPEN)
        self.reaches(RUNNING, errno.ETIMEDOUT)
        self.becomes(a, 'running')

    def test_a_lock_while_the_operator_restores(self):
        """The memory does not come back: the operator resumes once more, and the process stays locked."""
        a = self.worker()
        self.assertEqual(self.daemon.ask('pause all 1000 release')[0], 'ok')
        a.answer(CLOSE)
        os.close(a.answer(RELEASE))
        self.becomes(a, 'released')
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        self.assertEqual(self.holder.act(LOCK), (0, LOCKED, 0))
        a.answer(RESTORE, NO_ROOM)
        self.becomes(a, 'released', 'file')
        self.assertEqual(self.daemon.ask('resume all')[0], 'ok')
        a.answer(RESTORE)
        self.becomes(a, 'locked')
        self.reaches(LOCKED)

    def test_no_move_of_a_held_process(self):
        a = self.worker()
        self.lock(a)
        self.checkpoint(a)
        self.assertIn('the guest holds', self.daemon.ask('move all 1')[0])


class Silent(puppet.Case):
    options = ('--backend', 'cpu', '--client-timeout', '1')

    def test_a_silent_client_goes(self):
        holder = Holder(self.daemon)
        self.assertTrue(holder.is_closed())
        holder.close()


class Refused(puppet.Case):
    options = ('--backend', 'cpu', '--no-guest-checkpoint')

    def test_the_operator_allows_none(self):
        self.worker()
        holder = Holder(self.daemon)
        self.assertEqual(holder.act(LOCK), (-errno.EOPNOTSUPP, 0, 0))
        holder.close()


class Guest(vmm.Test):
    """The same from a guest's driver."""

    def act(self, context, action, milliseconds=0, **more):
        head = self.vmm.submit(STATE, context=context, flags=action, length=milliseconds, **more)
        self.vmm.wait_for(lambda: self.vmm.answered(head))
        return self.vmm.replies.pop(head)[:3]

    def test_requests(self):
        self.vmm.create(1)
        self.assertEqual(self.act(1, GET), (0, RUNNING, 0))
        self.assertEqual(self.act(1, UNLOCK)[0], -errno.EBADFD)
        self.assertEqual(self.act(2, GET)[0], -errno.ENOENT)
        self.assertEqual(self.act(1, 5)[0], -errno.EINVAL)
        self.assertEqual(self.act(1, LOCK, 5001)[0], -errno.EINVAL)
        self.assertEqual(self.act(1, GET, extents=[(self.vmm.ram.allocate(4096, 4096), 4096)])[0], -errno.EINVAL)
        self.assertEqual(self.act(1, LOCK, 1000), (0, RUNNING | STEP, 0))
        self.assertEqual(self.act(1, LOCK, 1000)[0], -errno.EBADFD)


if __name__ == '__main__':
    vmm.main()
