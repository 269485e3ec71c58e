# SPDX-License-Identifier: Apache-2.0
"""A VM with overcommit: this test speaks for its workers, and for the arbiter."""
import mmap
import os
import socket
import struct
import tempfile
import time

import puppet
import vmm
from puppet import GIVE, MIB, TAKE

TAKE_NOW = 7
ROOM = 8 + 8 + 64 * 8 + 8 * 8 + 4  # in struct vcuda_ledger_page
CLOSE, OPEN, RELEASE, RESTORE = range(1, 5)
NO_ROOM = 4  # of enum vcuda_gate_state

MESSAGE = struct.Struct('8I5Q')  # struct vcuda_arbiter_message
REGISTER, CAPACITY, _, BUSY, RESTS, WANT, HAVE, OUT, IN, STAYS, GRANT, REFUSE, GO_OUT = 1, *range(7, 19)


class Case(puppet.Case):
    backend = 'cpu'

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='vcuda-test-')
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, 'arbiter')
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(listener.close)
        listener.settimeout(vmm.LIMIT)
        listener.bind(path)
        listener.listen()
        self.options = ('--backend', self.backend, '--overcommit', '64M', '--arbiter', path)
        super().setUp()
        self.arbiter, _ = listener.accept()
        self.addCleanup(self.arbiter.close)
        self.arbiter.settimeout(vmm.LIMIT)
        self.assertEqual(self.hear(), (REGISTER, 0))
        self.say(CAPACITY)

    def say(self, kind, size=0, out=0):
        self.arbiter.send(MESSAGE.pack(kind, 0, 0, 0, 0, 0, out, 0, size, 0, 64 * MIB, 0, 0))

    def hear(self):
        """The next message about memory that the VM wants or moves, and its bytes."""
        while True:
            m = MESSAGE.unpack(self.arbiter.recv(200))
            if m[0] not in (BUSY, RESTS, HAVE):
                return m[0], m[8]

    def has(self, size):
        """A worker with so much memory."""
        a = self.worker()
        self.assertEqual(a.ask(TAKE, size), 0)
        self.assertEqual(self.hear(), (WANT, size))
        self.say(GRANT, size)
        # On a slow machine vcudad may have given the grant back.
        self.assertTrue(vmm.wait(lambda: self.takes(a, size)))
        return a

    def takes(self, worker, size):
        self.say(GRANT, size)
        return worker.ask(TAKE, size) == size

    def is_at(self, place):
        self.assertTrue(vmm.wait(lambda: self.daemon.status()['memory-state'] == place), self.daemon.status()['memory-state'])

    def goes_out(self, a, size):
        self.say(GO_OUT)
        a.answer(CLOSE)
        os.close(a.answer(RELEASE))
        self.assertEqual(self.hear(), (OUT, size))


class Overcommit(Case):
    def test_returns_with_what_it_has(self):
        """Memory beyond the grant is no growth of a return. After a refusal vcudad takes its time to ask again."""
        a = self.has(8 * MIB)
        self.assertEqual(a.ask(TAKE_NOW, 4 * MIB), 4 * MIB)
        self.assertEqual(self.hear(), (WANT, 12 * MIB))
        self.goes_out(a, 12 * MIB)
        # Growth that has no answer yet, and that the VM does not need now.
        self.assertEqual(self.hear(), (WANT, 0))
        self.say(REFUSE)
        self.daemon.ask('resume all')
        self.assertEqual(self.hear(), (WANT, 12 * MIB))
        began = time.monotonic()
        for _ in range(5):
            self.say(REFUSE, 12 * MIB)
            self.assertEqual(self.hear(), (WANT, 12 * MIB))
        self.assertGreater(time.monotonic() - began, 0.1)
        self.say(GRANT, 12 * MIB, 1)
        a.answer(RESTORE)
        a.answer(OPEN)
        self.assertEqual(self.hear(), (IN, 0))

    def test_does_not_come_back(self):
        """The VM goes out again, and leaves the memory to others until it tries once more."""
        a = self.has(8 * MIB)
        self.goes_out(a, 8 * MIB)
        self.daemon.ask('resume all')
        self.assertEqual(self.hear(), (WANT, 8 * MIB))
        self.say(GRANT, 8 * MIB, 1)
        a.answer(RESTORE, NO_ROOM)
        self.assertEqual(self.hear(), (OUT, 8 * MIB))
        self.daemon.ask('resume all')
        self.assertEqual(self.hear(), (WANT, 8 * MIB))
        self.say(GRANT, 8 * MIB, 1)
        a.answer(RESTORE)
        a.answer(OPEN)
        self.assertEqual(self.hear(), (IN, 0))

    def test_goes_while_it_comes(self):
        """An arbiter that is new does not know that the VM is on its way in."""
        a = self.has(8 * MIB)
        self.goes_out(a, 8 * MIB)
        self.daemon.ask('resume all')
        self.assertEqual(self.hear(), (WANT, 8 * MIB))
        self.say(GRANT, 8 * MIB, 1)
        self.is_at('coming-in')
        self.say(GO_OUT)
        self.is_at('going-out')
        a.answer(RESTORE)
        os.close(a.answer(RELEASE))
        self.assertEqual(self.hear(), (OUT, 8 * MIB))

    def test_room_comes_from_the_same_vm(self):
        """A worker that waits is woken by what another worker of its VM gives back."""
        a, b = self.has(8 * MIB), self.worker()
        file = b.join()
        page = mmap.mmap(file, os.fstat(file).st_size, prot=mmap.PROT_READ)
        os.close(file)
        before = page[ROOM:ROOM + 4]
        self.assertEqual(b.ask(TAKE, 6 * MIB), 0)
        self.assertEqual(self.hear(), (WANT, 14 * MIB))
        a.tell(GIVE, 7 * MIB)
        self.assertEqual(self.hear(), (WANT, 0))
        self.assertTrue(vmm.wait(lambda: page[ROOM:ROOM + 4] != before))
        self.assertEqual(b.ask(TAKE, 6 * MIB), 6 * MIB)

    def test_a_worker_asks_without_end(self):
        """The requests do not fill the arbiter's socket, which would cut the connection."""
        a = self.worker()
        began = time.monotonic()
        for size in range(1, 2001):
            self.assertEqual(a.ask(TAKE, size), 0)
        count, size = 0, 0
        while size < 2000:
            kind, size = self.hear()
            self.assertEqual(kind, WANT)
            count += 1
        # One at once, and one more with each look.
        self.assertLessEqual(count, 3 + (time.monotonic() - began) / 0.05)


class OnGpu(Case):
    """The workers compute nothing: only vcudad is told that they are on a GPU."""
    backend = 'cuda'

    def test_descriptors_hold_memory(self):
        """Memory that only descriptors hold cannot be released: the VM stays, until the last of them is closed."""
        a = self.has(8 * MIB)
        connection = puppet.Connection(a)
        fd = connection.descriptor(connection.offer(8 * MIB)[1])
        self.end_worker(a, connection)
        self.say(GO_OUT)
        self.assertEqual(self.hear(), (STAYS, 0))
        self.assertTrue(self.daemon.wait_log('descriptors hold what processes that have ended have exported'))
        os.close(fd)
        self.assertTrue(vmm.wait(lambda: self.daemon.quota('max-device-memory')[0] == 0))
        self.say(GO_OUT)
        self.assertEqual(self.hear(), (OUT, 0))

    def test_the_operator_frees_the_memory(self):
        a = self.has(8 * MIB)
        connection = puppet.Connection(a)
        fd = connection.descriptor(connection.offer(8 * MIB)[1])
        self.end_worker(a, connection)
        self.say(GO_OUT)
        self.assertEqual(self.hear(), (STAYS, 0))
        self.assertTrue(vmm.wait(lambda: self.daemon.status()['exports']), 'the keeper says nothing')
        self.assertEqual(self.daemon.ask('free all'), ['ok', 'freeing 1'])
        self.assertTrue(vmm.wait(lambda: self.daemon.quota('max-device-memory')[0] == 0))
        self.say(GO_OUT)
        self.assertEqual(self.hear(), (OUT, 0))
        os.close(fd)


if __name__ == '__main__':
    vmm.main()
