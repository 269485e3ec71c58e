# SPDX-License-Identifier: Apache-2.0
"""The ledger of device memory: this test speaks for workers that lie."""
import array
import mmap
import os
import signal
import socket
import struct
import sys
import tempfile
import unittest

import vmm
from vmm import Client, Daemon, wait

JOIN, TAKE, NOTE, GIVE, SYNC, REFUSED = range(1, 7)
MIB = 1 << 20
GPUS = 64
PAGE = 8 * (2 + GPUS + 5)  # struct vcuda_ledger_page
NO_LIMIT = (1 << 63) - 1
MESSAGE = struct.Struct('<IIQQ')  # struct vcuda_ledger_message

# Passes its end of the ledger on, and ends with its client.
WORKER = '''#!{python}
import array, os, socket
end = socket.socket(socket.AF_UNIX)
end.connect(os.environ['VCUDA_TEST_LEDGER'])
end.sendmsg([str(os.getpid()).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [5]))])
os.close(5)
os.read(3, 1)
'''


class Row:
    """A worker's end of the ledger."""

    def __init__(self, end):
        connection, _ = end.accept()
        text, control, _, _ = connection.recvmsg(32, socket.CMSG_SPACE(4))
        self.socket = socket.socket(fileno=array.array('i', control[0][2])[0])
        self.socket.settimeout(vmm.LIMIT)
        self.pid = int(text)
        connection.close()

    def tell(self, kind, count=0, spare=0, gpu=0):
        self.socket.send(MESSAGE.pack(kind, gpu, count, spare))

    def ask(self, kind, count=0, spare=0, gpu=0):
        self.tell(kind, count, spare, gpu)
        answer = MESSAGE.unpack(self.socket.recv(100))
        assert answer[:2] == (kind, gpu), answer
        return answer[2]

    def join(self):
        self.tell(JOIN)
        _, control, _, _ = self.socket.recvmsg(100, socket.CMSG_SPACE(4))
        return array.array('i', control[0][2])[0]

    def close(self):
        self.socket.close()


class Case(unittest.TestCase):
    options = ()

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix='vcuda-test-')
        self.addCleanup(self.directory.cleanup)
        program = os.path.join(self.directory.name, 'worker')
        with open(program, 'w') as file:
            file.write(WORKER.format(python=sys.executable))
        os.chmod(program, 0o700)
        os.environ['VCUDA_TEST_LEDGER'] = os.path.join(self.directory.name, 'ledger')
        self.end = socket.socket(socket.AF_UNIX)
        self.end.settimeout(vmm.LIMIT)
        self.end.bind(os.environ['VCUDA_TEST_LEDGER'])
        self.end.listen()
        self.daemon = Daemon(*self.options, vhost=False, local=True, worker=program)
        self.addCleanup(self.stop)
        self.clients = []

    def stop(self):
        self.end.close()
        for client, row in self.clients:
            client.close()
            row.close()
        self.daemon.stop()

    def row(self):
        client = Client(self.daemon)
        row = Row(self.end)
        self.clients.append((client, row))
        return row

    def page(self, row):
        fd = row.join()
        page = mmap.mmap(fd, PAGE, mmap.MAP_SHARED, mmap.PROT_READ)
        self.addCleanup(page.close)
        os.close(fd)
        return page

    def granted(self, page, gpu=0):
        return struct.unpack_from('<Q', page, 8 * (2 + gpu))[0]


class Limits(Case):
    options = ('--max-device-memory', '256M', '--max-process-device-memory', '200M')

    def test_grants_end_at_the_limits(self):
        a, b = self.row(), self.row()
        page = self.page(a)
        self.assertEqual(struct.unpack_from('<QQ', page), (256 * MIB, 200 * MIB))
        self.assertEqual(a.ask(TAKE, 201 * MIB), 0)
        self.assertEqual(a.ask(TAKE, 201 * MIB), 0)
        self.assertTrue(self.daemon.wait_log('raise --max-process-device-memory'))
        self.assertEqual(a.ask(TAKE, 200 * MIB, 1 << 63), 200 * MIB)
        self.assertEqual(a.ask(TAKE, 1), 0)
        self.assertEqual(b.ask(TAKE, 57 * MIB), 0)
        self.assertEqual(b.ask(TAKE, 57 * MIB), 0)
        self.assertTrue(self.daemon.wait_log('raise --max-device-memory'))
        # each GPU has its own
        self.assertEqual(b.ask(TAKE, 57 * MIB, gpu=GPUS - 1), 57 * MIB)
        self.assertEqual(b.ask(TAKE, 55 * MIB, 8 * MIB), 55 * MIB + MIB // 8, 'a part of the rest beyond it')
        self.assertEqual(b.ask(TAKE, MIB), 0)
        self.assertEqual(self.granted(page), 255 * MIB + MIB // 8)

    def test_limits_change_while_workers_run(self):
        a, b = self.row(), self.row()
        page = self.page(a)
        self.assertEqual(a.ask(TAKE, 150 * MIB), 150 * MIB)
        self.assertEqual(b.ask(TAKE, 20 * MIB, gpu=1), 20 * MIB)
        self.assertEqual(self.daemon.quota('max-device-memory'), (150 * MIB, 256 * MIB, 0))
        self.assertEqual(self.daemon.quota('max-process-device-memory'), (150 * MIB, 200 * MIB, 0))
        self.assertEqual(sorted(int(process['device-memory']) for process in self.daemon.status()['process']), [20 * MIB, 150 * MIB])
        # Below what is granted: nothing is taken away, and nothing more is granted.
        self.assertEqual(self.daemon.ask('set max-device-memory 100M'), ['ok'])
        self.assertEqual(struct.unpack_from('<Q', page), (100 * MIB,))
        for _ in range(4):
            self.assertEqual(b.ask(TAKE, MIB), 0)
        self.assertEqual(self.daemon.quota('max-device-memory'), (150 * MIB, 100 * MIB, 2))
        self.assertEqual(self.daemon.ask('set max-device-memory 1G'), ['ok'])
        self.assertEqual(b.ask(TAKE, 200 * MIB), 200 * MIB)
        self.assertEqual((b.ask(TAKE, MIB), b.ask(TAKE, MIB)), (0, 0))
        self.assertEqual(self.daemon.quota('max-process-device-memory'), (200 * MIB, 200 * MIB, 1))
        self.assertEqual(self.daemon.ask('set max-streams 7'), ['ok'])
        self.assertEqual(struct.unpack_from('<Q', page, 8 * (2 + GPUS)), (7,))

    def test_workers_tell_what_they_refuse(self):
        a = self.row()
        for limit in 0, 1, 0:
            a.tell(REFUSED, gpu=limit)
        a.ask(SYNC)
        quotas = {quota['name']: quota for quota in self.daemon.status()['quota']}
        self.assertEqual([quotas[name]['refused'] for name in ('max-streams', 'max-handles', 'max-queued')], ['2', '1', '0'])
        self.assertNotIn('used', quotas['max-streams'])

    def test_lies_raise_no_grant(self):
        a, b = self.row(), self.row()
        page = self.page(a)
        self.assertEqual(b.ask(TAKE, 100 * MIB), 100 * MIB)
        for lie in (1 << 64) - 1, 1 << 63, 200 * MIB, 157 * MIB, 0:
            self.assertEqual(a.ask(TAKE, lie, (1 << 64) - 1), 0)
            a.tell(GIVE, lie)
            a.ask(SYNC)
            self.assertEqual(self.granted(page), 100 * MIB, 'what it never had')
        # what it says to have taken without asking is no more than it could have had
        a.tell(NOTE, (1 << 64) - 1)
        a.tell(NOTE, 150 * MIB)
        a.ask(SYNC)
        self.assertEqual(self.granted(page), 256 * MIB)
        a.tell(GIVE, (1 << 64) - 1)
        a.ask(SYNC)
        self.assertEqual(self.granted(page), 100 * MIB)
        b.tell(GIVE, 60 * MIB)
        b.ask(SYNC)
        self.assertEqual(a.ask(TAKE, 200 * MIB), 200 * MIB)
        # as a program that was run anew in its process does
        a.join()
        self.assertEqual(self.granted(page), 40 * MIB)

    def test_a_page_that_cannot_be_written(self):
        fd = self.row().join()
        self.addCleanup(os.close, fd)
        with self.assertRaises(PermissionError):
            mmap.mmap(fd, PAGE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        with self.assertRaises(PermissionError):
            os.pwrite(fd, bytes(8), 0)
        with self.assertRaises(PermissionError):
            os.ftruncate(fd, 0)

    def test_the_end_gives_all_back(self):
        a, b = self.row(), self.row()
        page = self.page(b)
        for kill in (lambda: os.kill(a.pid, signal.SIGKILL), lambda: self.clients[0][0].close()):
            self.assertEqual(a.ask(TAKE, 150 * MIB), 150 * MIB)
            self.assertEqual(b.ask(TAKE, 150 * MIB), 0)
            # its memory is there until it is reaped, whether or not it speaks
            a.close()
            b.ask(SYNC)
            self.assertEqual(self.granted(page), 150 * MIB)
            kill()
            self.assertTrue(wait(lambda: not self.granted(page)))
            self.clients[0][0].close()
            a = self.row()
            self.clients[0] = self.clients.pop()

    def test_who_breaks_the_rules_is_killed(self):
        b = self.row()
        self.assertEqual(b.ask(TAKE, MIB), MIB)
        for message in (b'', b'x', MESSAGE.pack(99, 0, 0, 0), MESSAGE.pack(TAKE, GPUS, 1, 0), MESSAGE.pack(REFUSED, 5, 0, 0), bytes(1000)):
            a = self.row()
            a.socket.send(message)
            self.assertTrue(wait(lambda: a.pid not in self.daemon.workers() or not message))
        # descriptors go nowhere
        held = len(os.listdir(f'/proc/{self.daemon.process.pid}/fd'))
        for _ in range(20):
            b.socket.sendmsg([MESSAGE.pack(SYNC, 0, 0, 0)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                                             array.array('i', [0, 1, 2]))])
            b.socket.recv(100)
        self.assertEqual(len(os.listdir(f'/proc/{self.daemon.process.pid}/fd')), held)

    def test_who_does_not_read_holds_up_nobody(self):
        a, b = self.row(), self.row()
        a.socket.setblocking(False)
        try:
            while a.pid in self.daemon.workers():
                try:
                    a.tell(SYNC)
                except BlockingIOError:
                    pass
                self.assertEqual(b.ask(TAKE, 4096), 4096)
                b.tell(GIVE, 4096)
        except (BrokenPipeError, ConnectionError):
            pass
        self.assertTrue(wait(lambda: a.pid not in self.daemon.workers()))
        self.assertEqual(b.ask(TAKE, 200 * MIB), 200 * MIB)


class WithoutLimit(Case):
    def test_all_is_known(self):
        row = self.row()
        page = self.page(row)
        self.assertEqual(struct.unpack_from('<QQ', page), (NO_LIMIT, NO_LIMIT))
        row.tell(NOTE, 1 << 40)
        row.ask(SYNC)
        self.assertEqual(self.granted(page), 1 << 40)
        row.tell(NOTE, NO_LIMIT)
        row.tell(NOTE, NO_LIMIT)
        row.ask(SYNC)
        self.assertEqual(self.granted(page), NO_LIMIT)
        row.tell(GIVE, NO_LIMIT)
        row.ask(SYNC)
        self.assertEqual(self.granted(page), 0)


if __name__ == '__main__':
    vmm.main()
