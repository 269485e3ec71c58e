# SPDX-License-Identifier: Apache-2.0
"""Exports that outlive workers (vcuda-keeper). This test plays the workers; some of them send false messages."""
import errno
import os
import select
import signal
import socket
import stat
import struct

import puppet
import vmm
from puppet import ALLOCATION, CANCEL, GIVE, MIB, OFFER, POOL, POOL_MEMORY, RESIZE, SYNC, TAKE, TAKE_ENTRY, WITHDRAW, Connection, connect
from vmm import CREATE, DESTROY, wait

HOLD, DROP = 7, 8  # VCUDA_CTL_*


class Case(puppet.Case):
    def connection(self, worker):
        connection = Connection(worker)
        self.addCleanup(connection.socket.close)
        return connection

    def used(self):
        return self.daemon.quota('max-device-memory')[0]

    def uses(self, count):
        self.assertTrue(wait(lambda: self.used() == count), f'{self.used()} and not {count}: {self.daemon.log()}')

    def keepers(self):
        def name(pid):
            with open(f'/proc/{pid}/comm') as file:
                return file.read().strip()
        return [pid for pid in self.daemon.workers() if name(pid) == 'vcuda-keeper']


class Keeping(Case):
    options = ('--max-device-memory', '1G')

    def offering(self, size):
        worker = self.worker()
        self.assertEqual(worker.ask(TAKE, size), size)
        connection = self.connection(worker)
        status, key = connection.offer(size)
        self.assertEqual(status, 0)
        return worker, connection, key

    def test_descriptors_keep_memory_beyond_its_worker(self):
        worker, connection, key = self.offering(100 * MIB)
        fds = [connection.descriptor(key) for _ in range(2)]
        other = self.worker()
        importer = self.connection(other)
        self.end_worker(worker, connection)
        self.uses(100 * MIB)
        os.close(fds[0])
        status, _, file = importer.ask(TAKE_ENTRY, key)
        self.assertEqual((status, os.fstat(file).st_size), (0, 100 * MIB))
        os.close(file)
        self.assertEqual(self.used(), 100 * MIB)
        os.close(fds[1])
        self.uses(0)
        self.assertEqual(importer.ask(TAKE_ENTRY, key)[0], -errno.ENOENT)

    def test_what_no_descriptor_holds_ends_with_the_worker(self):
        worker, connection, key = self.offering(10 * MIB)
        importer = self.connection(self.worker())
        os.close(importer.ask(TAKE_ENTRY, key)[2])
        self.end_worker(worker, connection)
        self.uses(0)
        self.assertTrue(wait(lambda: importer.ask(TAKE_ENTRY, key)[0] == -errno.ENOENT))

    def test_memory_counts_all_the_time(self):
        worker, connection, key = self.offering(100 * MIB)
        fd = connection.descriptor(key)
        self.assertEqual(connection.ask(WITHDRAW, key)[0], 0)
        # The memory counts twice until the worker gives it back.
        self.assertEqual(self.used(), 200 * MIB)
        worker.tell(GIVE, 100 * MIB)
        worker.ask(SYNC)
        self.assertEqual(self.used(), 100 * MIB)
        self.assertEqual(connection.ask(WITHDRAW, key)[0], -errno.ENOENT)
        os.close(fd)
        self.uses(0)

    def test_a_new_program_of_the_worker_has_exported_nothing(self):
        worker, connection, key = self.offering(100 * MIB)
        fd = connection.descriptor(key)
        connection.socket.close()
        os.close(worker.join())
        self.uses(100 * MIB)
        again = self.connection(worker)
        self.assertEqual(again.ask(WITHDRAW, key)[0], -errno.ENOENT)
        os.close(fd)
        self.uses(0)

    def test_pools(self):
        worker = self.worker()
        self.assertEqual(worker.ask(TAKE, 8 * MIB), 8 * MIB)
        connection = self.connection(worker)
        status, pool = connection.offer(0, what=POOL, cost=0)
        self.assertEqual(status, 0)
        # Several allocations share one file: the whole file is kept, and counts once.
        file = os.memfd_create('pool')
        os.pwrite(file, bytes(3 * MIB), 0)
        whole = os.fstat(file).st_blocks * 512
        keys = [connection.offer(4096, pool, POOL_MEMORY, file)[1] for _ in range(3)]
        fd = connection.descriptor(pool)
        self.assertEqual(connection.descriptor(keys[0]), -errno.EINVAL, 'only the pool has descriptors')
        # Freed memory is the pool's again, whatever holds the pool.
        self.assertEqual(connection.ask(WITHDRAW, keys[0])[0], 0)
        self.assertEqual(connection.ask(TAKE_ENTRY, keys[0])[0], -errno.ENOENT)
        self.end_worker(worker, connection)
        importer = self.connection(self.worker())
        for key in keys[1:]:
            os.close(importer.ask(TAKE_ENTRY, key)[2])
        self.uses(whole)
        os.close(fd)
        self.uses(0)
        self.assertEqual([importer.ask(TAKE_ENTRY, key)[0] for key in (pool, *keys)], 4 * [-errno.ENOENT])
        os.close(file)

    def test_a_cost_that_changes(self):
        worker, connection, key = self.offering(10 * MIB)
        fd = connection.descriptor(key)
        self.assertEqual(worker.ask(TAKE, 10 * MIB), 10 * MIB)
        self.assertEqual(connection.ask(RESIZE, key, cost=20 * MIB)[0], 0)
        self.end_worker(worker, connection)
        self.uses(20 * MIB)
        os.close(fd)
        self.uses(0)

    def test_a_claimed_size_counts_up_to_the_limit(self):
        worker, connection, key = self.offering(100 * MIB)
        fd = connection.descriptor(key)
        liar = self.worker()
        lies = self.connection(liar)
        claimed = lies.offer(0, cost=1 << 44)
        self.assertEqual(claimed[0], 0)
        held = lies.descriptor(claimed[1])
        self.end_worker(liar, lies)
        self.uses(1024 * MIB)
        os.close(held)
        self.uses(100 * MIB)
        os.close(fd)
        self.end_worker(worker, connection)
        self.uses(0)

    def test_liars(self):
        worker, connection, key = self.offering(MIB)
        fd = connection.descriptor(key)
        pool = connection.offer(0, what=POOL, cost=0)[1]
        pool_fd = connection.descriptor(pool)
        liar = self.worker()
        lies = self.connection(liar)
        for kind in WITHDRAW, RESIZE:
            self.assertEqual(lies.ask(kind, key, cost=1 << 62)[0], -errno.ENOENT, 'it is another worker\'s')
        self.assertEqual(lies.ask(99, key)[0], -errno.EINVAL)
        # A pool of another worker's does not hold it.
        stolen = lies.offer(4096, pool, POOL_MEMORY)[1]
        for cost in 1 << 62, -1 << 62:
            own = lies.offer(4096, cost=cost)[1]
            os.close(lies.descriptor(own))
        self.assertIsNone(connect(liar), 'a worker has one connection')
        lies.socket.send(b'x')
        self.assertEqual(lies.socket.recv(1000), b'')
        self.end_worker(liar)
        # Nothing of the liar's is held, and so none of it counts.
        self.uses(MIB)
        self.assertEqual(connection.ask(TAKE_ENTRY, key)[0], 0)
        self.assertTrue(wait(lambda: connection.ask(TAKE_ENTRY, stolen)[0] == -errno.ENOENT))
        os.close(fd)
        os.close(pool_fd)
        self.uses(MIB)

    def test_descriptors_are_looked_at(self):
        """The handle stays in the pipe, and guests cannot write there."""
        _, connection, key = self.offering(MIB)
        fd = connection.descriptor(key)
        self.assertTrue(stat.S_ISFIFO(os.fstat(fd).st_mode))
        handle = os.read(fd, 100)
        self.assertEqual((len(handle), handle[24:40]), (64, key))
        with self.assertRaises(OSError):
            os.write(fd, b'x')
        os.close(fd)

    def test_kinds_of_descriptors(self):
        """A socket or a descriptor of the keeper's could hold itself. A keeper without descriptors says so."""
        _, connection, key = self.offering(MIB)
        fd = connection.descriptor(key)
        pair = socket.socketpair()
        for end in pair:
            self.addCleanup(end.close)
        epoll = select.epoll()
        self.addCleanup(epoll.close)
        pipe = os.pipe()
        for bad in fd, pair[0].fileno(), epoll.fileno():
            self.assertEqual(connection.offer(4096, fd=bad)[0], -errno.EINVAL)
        with open('/dev/null', 'rb') as device:
            for good in pipe[0], device.fileno():
                self.assertEqual(connection.offer(4096, fd=good)[0], 0)
        self.assertEqual(connection.ask(OFFER, what=ALLOCATION, has_fd=True)[0], -errno.EMFILE)
        self.assertEqual(connection.ask(OFFER, what=ALLOCATION, has_fd=7)[0], -errno.EMFILE)
        for end in pipe:
            os.close(end)
        os.close(fd)

    def test_one_file_on_several_gpus(self):
        """False messages of a worker about one file never reduce the counts of others, in any order of ends."""
        honest, connection, key = self.offering(100 * MIB)
        fd = connection.descriptor(key)
        self.end_worker(honest, connection)
        self.uses(100 * MIB)
        file = os.memfd_create('lie')
        os.pwrite(file, bytes(200 * MIB), 0)
        whole = os.fstat(file).st_blocks * 512
        for order in (0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2):
            liar = self.worker()
            lies = self.connection(liar)
            for device in 64, 1 << 31:
                self.assertEqual(lies.offer(4096, fd=file, device=device)[0], -errno.EINVAL)
            offers = [lies.offer(length, fd=file, cost=cost, device=device)[1]
                      for device in (0, 1) for length, cost in ((4096, 0), (0, 300 * MIB))]
            fds = [lies.descriptor(own) for own in offers]
            self.end_worker(liar, lies)
            # The file is there once, as a whole, whatever part of it was offered.
            self.uses(100 * MIB + 300 * MIB)
            for n in order[:3]:
                os.close(fds[n])
            self.assertGreaterEqual(self.used(), 100 * MIB)
            os.close(fds[order[3]])
            self.uses(100 * MIB)
        liar = self.worker()
        lies = self.connection(liar)
        part = lies.descriptor(lies.offer(0, fd=file, cost=0)[1])
        self.end_worker(liar, lies)
        self.uses(100 * MIB + whole)
        os.close(part)
        os.close(file)
        os.close(fd)
        self.uses(0)

    def test_a_file_that_grows(self):
        """An importer's data in the file counts after the end of that importer, and not after another worker's end."""
        worker, connection, _ = self.offering(MIB)
        file = os.memfd_create('sparse')
        os.ftruncate(file, 64 * MIB)
        key = connection.offer(4096, fd=file, cost=0)[1]
        fd = connection.descriptor(key)
        importers = [self.worker() for _ in range(3)]
        importer, other, last = [self.connection(one) for one in importers]
        for connected in importer, importer, last:
            os.close(connected.ask(TAKE_ENTRY, key)[2])
        self.end_worker(worker, connection)
        self.uses(0)
        os.pwrite(file, bytes(64 * MIB), 0)
        status, own = other.offer(4096)
        self.assertEqual(status, 0)
        self.end_worker(importers[1], other)
        self.assertTrue(wait(lambda: last.ask(TAKE_ENTRY, own)[0] == -errno.ENOENT), 'the keeper does not hear of the end')
        self.assertEqual(self.used(), 0)
        self.end_worker(importers[0], importer)
        self.uses(64 * MIB)
        os.close(file)
        os.close(fd)
        self.uses(0)
        self.end_worker(importers[2], last)
        self.uses(0)

    def test_a_file_that_grows_after_its_withdrawal(self):
        """A worker may still have the file mapped."""
        worker, connection, key = self.offering(MIB)
        file = os.memfd_create('sparse')
        os.ftruncate(file, 64 * MIB)
        key = connection.offer(4096, fd=file, cost=0)[1]
        fd = connection.descriptor(key)
        self.assertEqual(connection.ask(WITHDRAW, key)[0], 0)
        os.pwrite(file, bytes(64 * MIB), 0)
        os.close(file)
        self.end_worker(worker, connection)
        self.uses(64 * MIB)
        os.close(fd)
        self.uses(0)

    def test_an_offer_that_is_cancelled(self):
        """A worker that has not waited for the answer knows no key."""
        _, connection, key = self.offering(MIB)
        other = self.connection(self.worker())
        file = os.memfd_create('offered')
        status, late, _ = connection.ask(OFFER, what=ALLOCATION, length=4096, fd=file, number=7)
        self.assertEqual(status, 0)
        os.close(file)
        self.assertEqual(other.ask(CANCEL, count=7)[0], -errno.ENOENT)
        self.assertEqual(connection.ask(CANCEL, count=6)[0], -errno.ENOENT)
        self.assertEqual(connection.ask(CANCEL, count=7)[0], 0)
        self.assertEqual(connection.ask(CANCEL, count=7)[0], -errno.ENOENT)
        self.assertEqual([other.ask(TAKE_ENTRY, one)[0] for one in (late, key)], [-errno.ENOENT, 0])

    def test_a_slow_keeper(self):
        """All that the worker had counts until the keeper has said what descriptors hold of that."""
        worker, connection, key = self.offering(100 * MIB)
        self.assertEqual(worker.ask(TAKE, 50 * MIB), 50 * MIB)
        fd = connection.descriptor(key)
        keeper, = self.keepers()
        os.kill(keeper, signal.SIGSTOP)
        self.end_worker(worker, connection)
        self.assertEqual(self.used(), 150 * MIB)
        # Another worker is not served, and vcudad goes on.
        other = self.worker()
        self.assertEqual(other.ask(TAKE, MIB), MIB)
        self.assertEqual(self.used(), 151 * MIB)
        os.kill(keeper, signal.SIGCONT)
        self.uses(101 * MIB)
        os.close(fd)
        self.uses(MIB)

    def test_a_connection_that_is_given_away(self):
        """The connection ends with the worker, in whichever process it is."""
        worker, connection, key = self.offering(100 * MIB)
        self.assertEqual(worker.ask(TAKE, 50 * MIB), 50 * MIB)
        fd = connection.descriptor(key)
        self.end_worker(worker)
        self.uses(100 * MIB)
        self.assertEqual(connection.socket.recv(1000), b'')
        os.close(fd)
        self.uses(0)

    def test_a_worker_that_hangs_up(self):
        """The worker still counts its memory, and gets no other connection before its program restarts."""
        worker, connection, key = self.offering(MIB)
        fd = connection.descriptor(key)
        self.assertIsNone(connect(worker))
        connection.socket.close()
        self.assertIsNone(connect(worker))
        self.assertEqual(self.used(), MIB)
        os.close(worker.join())
        self.uses(MIB)
        again = self.connection(worker)
        os.close(fd)
        self.uses(0)
        self.assertEqual(again.offer(MIB)[0], 0)

    def test_more_than_there_is_room_for(self):
        """A keeper that does not read for a while hears of each worker that has ended."""
        others = [self.offering(MIB) for _ in range(3)]
        fds = [connection.descriptor(key) for _, connection, key in others]
        keeper, = self.keepers()
        os.kill(keeper, signal.SIGSTOP)
        worker = self.worker()
        count = 0
        while (connection := connect(worker)) and count < 100000:
            connection.close()
            self.assertEqual(worker.ask(TAKE, 4096), 4096)
            os.close(worker.join())
            count += 1
        self.assertIsNone(connection)
        for other, connection, _ in others:
            os.close(other.join())
        self.assertEqual(self.used(), 3 * MIB + count * 4096)
        os.kill(keeper, signal.SIGCONT)
        self.uses(3 * MIB)
        self.assertEqual(self.keepers(), [keeper])
        for fd in fds:
            os.close(fd)
        self.uses(0)

    def test_it_is_killed(self):
        worker, connection, key = self.offering(MIB)
        fd = connection.descriptor(key)
        keeper, = self.keepers()
        os.kill(keeper, signal.SIGKILL)
        self.assertTrue(self.daemon.wait_log('vcuda-keeper was killed by signal 9'))
        again = self.connection(worker)
        self.assertEqual(again.ask(TAKE_ENTRY, key)[0], -errno.ENOENT)
        self.assertEqual(again.offer(MIB)[0], 0)
        self.uses(MIB)
        os.close(fd)
        new, = self.keepers()
        self.assertNotEqual(new, keeper)

    def exports(self):
        """The exports that only descriptors hold, by `status`."""
        return [{key: value if key == 'kind' else int(value) for key, value in words.items()}
                for words in self.daemon.status()['exports']]

    def test_the_operator_frees_what_is_kept(self):
        """Only that whose worker has ended, and only of the guest that the operator names."""
        worker, connection, key = self.offering(100 * MIB)
        fds = [connection.descriptor(key) for _ in range(2)]
        other, alive, living = self.offering(10 * MIB)
        held = alive.descriptor(living)
        self.assertEqual(self.daemon.ask('free all'), ['ok', 'freeing 0'])
        pool = connection.offer(0, what=POOL, cost=0)[1]
        part = connection.offer(MIB, pool, POOL_MEMORY)[1]
        fds.append(connection.descriptor(pool))
        self.assertEqual(self.exports(), [])
        self.end_worker(worker, connection)
        self.uses(111 * MIB)
        kept = {'kind': 'local', 'uid': os.getuid(), 'gpu': 0, 'count': 3, 'memory': 101 * MIB}
        self.assertEqual(self.exports(), [kept])
        for nobody in 'vm', str(os.getuid() + 1):
            self.assertEqual(self.daemon.ask(f'free {nobody}'), ['ok', 'freeing 0'])
        for bad in '', ' x', ' -1', ' 4294967296':
            self.assertEqual(self.daemon.ask('free' + bad), ['error give vm, the number of a user, or all'])
        self.assertEqual(self.exports(), [kept])
        imported = alive.ask(TAKE_ENTRY, key)[2]
        self.assertEqual(self.daemon.ask(f'free {os.getuid()} for a test'), ['ok', 'freeing 3'])
        self.uses(10 * MIB)
        self.assertEqual(self.exports(), [])
        self.assertIn(f'what only descriptors hold of user {os.getuid()} (3 exports) is freed by user {os.getuid()} of the '
                      'host: for a test', self.daemon.log())
        self.assertEqual([alive.ask(TAKE_ENTRY, gone)[0] for gone in (key, pool, part)], 3 * [-errno.ENOENT])
        self.assertEqual(os.fstat(imported).st_size, 100 * MIB)
        # The descriptors are still there, and their ends harm nothing.
        self.assertEqual(alive.descriptor(key), -errno.ENOENT)
        for fd in fds:
            os.close(fd)
        self.end_worker(other, alive)
        self.uses(10 * MIB)
        os.close(held)
        self.uses(0)
        self.assertTrue(wait(lambda: not self.keepers()))

    def test_the_operator_frees_behind_a_slow_keeper(self):
        worker, connection, key = self.offering(MIB)
        fd = connection.descriptor(key)
        self.end_worker(worker, connection)
        self.assertTrue(wait(self.exports), 'the keeper says nothing')
        keeper, = self.keepers()
        os.kill(keeper, signal.SIGSTOP)
        for _ in range(2000):
            self.assertEqual(self.daemon.ask('free all'), ['ok', 'freeing 1'])
        self.assertEqual(self.used(), MIB)
        os.kill(keeper, signal.SIGCONT)
        self.uses(0)
        os.close(fd)

    def test_it_ends_when_it_keeps_nothing(self):
        worker, connection, key = self.offering(MIB)
        fd = connection.descriptor(key)
        self.end_worker(worker, connection)
        self.assertEqual(len(self.keepers()), 1)
        os.close(fd)
        self.assertTrue(wait(lambda: not self.keepers()))


class Limits(Case):
    options = ('--max-exports', '3')

    def test_entries_and_descriptors(self):
        connection = self.connection(self.worker())
        keys = [connection.offer(4096)[1] for _ in range(3)]
        self.assertEqual(connection.offer(4096)[0], -errno.EDQUOT)
        fds = [connection.descriptor(keys[0]) for _ in range(3)]
        self.assertEqual(connection.descriptor(keys[1]), -errno.EDQUOT)
        self.assertTrue(self.daemon.wait_log('raise --max-exports'))
        refused, = [int(quota['refused']) for quota in self.daemon.status()['quota'] if quota['name'] == 'max-exports']
        self.assertEqual(refused, 2)
        os.close(fds[0])
        self.assertTrue(wait(lambda: connection.descriptor(keys[1]) >= 0))
        self.assertEqual(connection.ask(WITHDRAW, keys[2])[0], 0)
        self.assertEqual(connection.offer(4096)[0], 0)

    def test_a_limit_that_changes(self):
        """A connection that is there already has it at once."""
        connection = self.connection(self.worker())
        for _ in range(3):
            self.assertEqual(connection.offer(4096)[0], 0)
        self.assertEqual(connection.offer(4096)[0], -errno.EDQUOT)
        self.assertEqual(self.daemon.ask('set max-exports 4'), ['ok'])
        self.assertTrue(wait(lambda: connection.offer(4096)[0] == 0))
        self.assertEqual(connection.offer(4096)[0], -errno.EDQUOT)


class Warm(Case):
    options = ('--warm', '1')

    def test_a_worker_without_a_guest(self):
        """The worker has no keeper, not even that of user 0."""
        worker = puppet.Worker(self.end)
        self.addCleanup(worker.close)
        self.assertIsNone(connect(worker))
        self.assertEqual(self.keepers(), [])


class OfTheVM(Case):
    """A VM whose worker never answers ATTACH: the context stays as it is until the guest ends it."""

    def start(self, program):
        self.daemon = vmm.Daemon('--sandbox', 'off', '--max-device-memory', '1G', worker=program)
        self.vmm = vmm.Vmm(self.daemon)
        self.addCleanup(self.vmm.close)
        self.vmm.start()

    def of_vm(self, size):
        head = self.vmm.submit(CREATE, context=1, extents=self.vmm.shared_extents(), major=1)
        worker = puppet.Worker(self.end)
        self.addCleanup(worker.close)
        self.assertEqual(worker.ask(TAKE, size), size)
        connection = self.connection(worker)
        return head, connection, connection.offer(size)[1]

    def submit(self, kind, key):
        address, length = struct.unpack('<QQ', key)
        return self.vmm.submit(kind, context=1, address=address, length=length)

    def request(self, kind, key):
        return self.vmm.result(self.submit(kind, key))[0]

    def end_context(self, head, connection):
        connection.socket.close()
        self.vmm.request(DESTROY, context=1)
        self.vmm.result(head)

    def test_files_hold(self):
        head, connection, key = self.of_vm(100 * MIB)
        self.assertEqual(self.request(DROP, key), -errno.ENOENT, 'there is no file')
        for _ in range(2):
            self.assertEqual(self.request(HOLD, key), 0)
        self.assertEqual(self.request(HOLD, bytes(16)), -errno.ENOENT)
        self.end_context(head, connection)
        self.uses(100 * MIB)
        self.assertEqual(self.request(DROP, key), 0)
        self.assertEqual(self.used(), 100 * MIB)
        self.assertEqual(self.request(DROP, key), 0)
        self.uses(0)
        self.assertEqual(self.request(DROP, key), -errno.ENOENT)

    def test_the_operator_frees_what_files_hold(self):
        head, connection, key = self.of_vm(MIB)
        for _ in range(2):
            self.assertEqual(self.request(HOLD, key), 0)
        self.end_context(head, connection)
        self.assertTrue(wait(lambda: self.daemon.status()['exports']), 'the keeper says nothing')
        words, = self.daemon.status()['exports']
        self.assertEqual(words, {'kind': 'vm', 'gpu': '0', 'count': '1', 'memory': str(MIB)})
        self.assertEqual(self.daemon.ask('free vm'), ['ok', 'freeing 1'])
        self.uses(0)
        self.assertEqual(self.request(DROP, key), -errno.ENOENT)

    def test_a_worker_gets_no_pipe(self):
        """Descriptors in the VM are files of its driver. A pipe would hold an entry of which the driver knows nothing."""
        head, connection, key = self.of_vm(MIB)
        self.assertEqual(connection.descriptor(key), -errno.EPERM)
        self.end_context(head, connection)
        self.uses(0)

    def test_a_new_driver_has_no_files(self):
        head, connection, key = self.of_vm(MIB)
        self.assertEqual(self.request(HOLD, key), 0)
        self.end_context(head, connection)
        self.uses(MIB)
        self.vmm.hello()
        self.uses(0)
        self.assertEqual(self.request(HOLD, key), -errno.ENOENT)

    def test_a_keeper_that_does_not_answer(self):
        """vcudad goes on, and every request is answered once the keeper answers, or is gone."""
        _, connection, key = self.of_vm(MIB)
        keeper, = self.keepers()
        os.kill(keeper, signal.SIGSTOP)
        heads = [self.submit(kind, key) for _ in range(20) for kind in (HOLD, DROP)]
        self.assertEqual(self.used(), MIB)
        os.kill(keeper, signal.SIGCONT)
        self.assertEqual([self.vmm.result(head)[0] for head in heads], 40 * [0])
        os.kill(keeper, signal.SIGSTOP)
        heads = [self.submit(HOLD, key) for _ in range(40)]
        os.kill(keeper, signal.SIGKILL)
        self.assertEqual([self.vmm.result(head)[0] for head in heads], 40 * [-errno.ENOENT])
        self.assertEqual(self.request(HOLD, key), -errno.ENOENT)
        self.assertEqual(connection.socket.recv(1000), b'')

    def test_nothing_is_kept(self):
        extents = self.vmm.shared_extents()
        self.assertEqual(self.vmm.request(HOLD, context=1, address=1, length=2), -errno.ENOENT)
        self.assertEqual(self.vmm.request(DROP, context=1, address=1, length=2), -errno.ENOENT)
        self.assertEqual(self.vmm.request(HOLD, context=0, address=1, length=2), -errno.EINVAL)
        self.assertEqual(self.vmm.request(HOLD, context=1, extents=extents), -errno.EINVAL)


if __name__ == '__main__':
    vmm.main()
