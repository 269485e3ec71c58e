# SPDX-License-Identifier: Apache-2.0
"""The ledger of device memory: this test speaks for workers that lie."""
import array
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

import puppet
import vmm
from puppet import GIVE, MESSAGE, MIB, NOTE, REFUSED, SYNC, TAKE
from vmm import wait

GPUS = 64
PAGE = 8 * (2 + GPUS + 5)  # struct vcuda_ledger_page
NO_LIMIT = (1 << 63) - 1


class Case(puppet.Case):
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
        a, b = self.worker(), self.worker()
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
        a, b = self.worker(), self.worker()
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
        a = self.worker()
        for limit in 0, 1, 0:
            a.tell(REFUSED, gpu=limit)
        a.ask(SYNC)
        quotas = {quota['name']: quota for quota in self.daemon.status()['quota']}
        self.assertEqual([quotas[name]['refused'] for name in ('max-streams', 'max-handles', 'max-queued')], ['2', '1', '0'])
        self.assertNotIn('used', quotas['max-streams'])

    def test_lies_raise_no_grant(self):
        a, b = self.worker(), self.worker()
        page = self.page(a)
        self.assertEqual(b.ask(TAKE, 100 * MIB), 100 * MIB)
        for lie in (1 << 64) - 1, 1 << 63, 200 * MIB, 157 * MIB, 0:
            self.assertEqual(a.ask(TAKE, lie, (1 << 64) - 1), 0)
            a.tell(GIVE, lie)
            a.ask(SYNC)
            self.assertEqual(self.granted(page), 100 * MIB, 'what it never had')
        # a use that the worker reports without a grant counts at most up to the quota
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
        fd = self.worker().join()
        self.addCleanup(os.close, fd)
        with self.assertRaises(PermissionError):
            mmap.mmap(fd, PAGE, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        with self.assertRaises(PermissionError):
            os.pwrite(fd, bytes(8), 0)
        with self.assertRaises(PermissionError):
            os.ftruncate(fd, 0)

    def test_the_end_gives_all_back(self):
        a, b = self.worker(), self.worker()
        page = self.page(b)
        for kill in (lambda: os.kill(a.pid, signal.SIGKILL), lambda: self.clients[0][0].close()):
            self.assertEqual(a.ask(TAKE, 150 * MIB), 150 * MIB)
            self.assertEqual(b.ask(TAKE, 150 * MIB), 0)
            # the worker's memory counts until it is reaped, whether or not it speaks
            a.close()
            b.ask(SYNC)
            self.assertEqual(self.granted(page), 150 * MIB)
            kill()
            self.assertTrue(wait(lambda: not self.granted(page)))
            self.clients[0][0].close()
            a = self.worker()
            self.clients[0] = self.clients.pop()

    def test_who_breaks_the_rules_is_killed(self):
        b = self.worker()
        self.assertEqual(b.ask(TAKE, MIB), MIB)
        for message in (b'', b'x', MESSAGE.pack(99, 0, 0, 0), MESSAGE.pack(TAKE, GPUS, 1, 0), MESSAGE.pack(REFUSED, 99, 0, 0), bytes(1000)):
            a = self.worker()
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
        a, b = self.worker(), self.worker()
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
        row = self.worker()
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


class DriverCase(puppet.DriverCase, Case):
    options = ('--backend', 'cuda', '--max-device-memory', '4G', '--max-process-device-memory', '2G')
    BUSES = (9, 8)  # of GPU 0 and 1
    VERSION = '580.65.06'

    def setUp(self):
        with tempfile.NamedTemporaryFile('w', prefix='vcuda-test-', delete=False) as file:
            self.path = file.name
        self.readings = self.path + '.readings'
        self.variables = {'VCUDA_TEST_GPU_MEMORY': self.path, 'VCUDA_TEST_DRIVER_VERSION': self.VERSION,
                          'VCUDA_TEST_GPU_READINGS': self.readings}
        self.addCleanup(lambda: [os.unlink(path) for path in (self.path, self.readings) if os.path.exists(path)])
        super().setUp()

    def say(self, *processes):
        """(row, gpu, bytes[, kind]) each: what the driver says from now on."""
        with open(self.path + '.new', 'w') as file:
            for row, gpu, count, *kind in processes:
                file.write(f'{self.BUSES[gpu]} {kind[0] if kind else "c"} {row.pid} {count}\n')
        os.rename(self.path + '.new', self.path)

    def wait_for_readings(self, count=4):
        """Each reads three lists of each GPU."""
        before = os.path.getsize(self.readings)
        self.assertTrue(wait(lambda: os.path.getsize(self.readings) > before + 6 * count))

    def is_running(self, row):
        return row.pid in self.daemon.workers()


class Driver(DriverCase):
    """The ledger against what the GPU's driver says."""

    def test_a_surplus_counts(self):
        a, b = self.worker(), self.worker()
        page = self.page(a)
        self.assertEqual(a.ask(TAKE, 100 * MIB), 100 * MIB)
        self.say((a, 0, 500 * MIB), (a, 1, 300 * MIB, 'g'), (b, 0, 1))
        self.assertTrue(wait(lambda: self.granted(page) == 500 * MIB and self.granted(page, 1) == 300 * MIB), self.daemon.log())
        self.assertTrue(self.daemon.wait_log(f'(worker {a.pid}) has 400 MiB of GPU 0 beyond the 100 MiB that were granted'))
        # The surplus is no grant, so the worker cannot give it back.
        a.tell(GIVE, 500 * MIB)
        a.ask(SYNC)
        self.assertTrue(wait(lambda: self.granted(page) == 500 * MIB), self.daemon.log())
        self.assertEqual(a.ask(TAKE, 1600 * MIB), 0)
        self.say((a, 0, 200 * MIB))
        self.assertTrue(wait(lambda: self.granted(page) == 0 and self.granted(page, 1) == 0))
        self.assertEqual(a.ask(TAKE, 1600 * MIB), 1600 * MIB)
        self.assertTrue(self.is_running(a) and self.is_running(b))

    def test_what_was_granted_and_a_tolerance_is_no_surplus(self):
        a, b = self.worker(), self.worker()
        page = self.page(a)
        self.assertEqual(a.ask(TAKE, 2048 * MIB), 2048 * MIB)
        self.assertEqual(b.ask(TAKE, 100 * MIB), 100 * MIB)
        self.say((a, 0, 2048 * MIB + 256 * MIB + 204 * MIB), (b, 0, 600 * MIB))
        self.assertTrue(wait(lambda: self.granted(page) == 2048 * MIB + 600 * MIB), self.daemon.log())
        self.wait_for_readings()
        self.assertEqual(self.granted(page), 2048 * MIB + 600 * MIB)
        self.assertTrue(self.is_running(a))

    def test_one_that_is_over_its_quota_is_ended(self):
        a, b = self.worker(), self.worker()
        page = self.page(a)
        self.assertEqual(a.ask(TAKE, 2000 * MIB), 2000 * MIB)
        self.say((a, 0, 2600 * MIB), (b, 0, 200 * MIB))
        self.assertTrue(wait(lambda: not self.is_running(a)), self.daemon.log())
        self.assertIn(f'(worker {a.pid}) has 2600 MiB of GPU 0, and was granted 2000 MiB: it is over the quota and ended '
                      '(raise --max-process-device-memory)', self.daemon.log())
        self.assertEqual(self.daemon.quota('max-process-device-memory')[2], 1)
        self.assertTrue(wait(lambda: self.granted(page) == 0))
        self.assertTrue(self.is_running(b))

    def test_the_worst_of_all_is_ended(self):
        self.assertEqual(self.daemon.ask('set max-process-device-memory 16G'), ['ok'])
        a, b, c = self.worker(), self.worker(), self.worker()
        self.assertEqual(a.ask(TAKE, 2000 * MIB), 2000 * MIB)
        self.say((a, 0, 2000 * MIB), (b, 0, 1000 * MIB), (c, 0, 2000 * MIB))
        self.assertTrue(wait(lambda: not self.is_running(c)), self.daemon.log())
        self.assertIn('(raise --max-device-memory)', self.daemon.log())
        self.say((a, 0, 2000 * MIB), (b, 0, 1000 * MIB))
        self.wait_for_readings()
        self.assertTrue(self.is_running(a) and self.is_running(b))

    def test_a_lower_limit_ends_nobody(self):
        a = self.worker()
        self.assertEqual(a.ask(TAKE, 2000 * MIB), 2000 * MIB)
        page = self.page(self.worker())
        self.assertEqual(self.daemon.ask('set max-process-device-memory 100M'), ['ok'])
        self.say((a, 0, 2000 * MIB + 200 * MIB), (self.clients[1][1], 0, 300 * MIB))
        self.assertTrue(wait(lambda: self.granted(page) == 2300 * MIB), self.daemon.log())
        self.wait_for_readings()
        self.assertTrue(self.is_running(a))


    def test_the_reader_ends(self):
        row = self.worker()
        reader, = [pid for pid in self.daemon.workers() if pid != row.pid]
        self.say((row, 0, 2600 * MIB))
        os.kill(reader, signal.SIGKILL)
        self.assertTrue(self.daemon.wait_log('vcuda-gpu-use has ended: it is started again in 60 s'))
        self.assertEqual(row.ask(TAKE, MIB), MIB)


def is_contained():
    return os.readlink('/proc/self/ns/pid') != 'pid:[4026531836]'


@unittest.skipUnless(is_contained(), 'vcudad is in the first pid namespace')
class ContainedOld(DriverCase):
    """The driver lists processes by numbers that are those of others in the container."""
    VERSION = '535.104.05'

    def test_what_others_have_is_no_surplus(self):
        row = self.worker()
        self.say((row, 0, 2600 * MIB))
        page = self.page(row)
        self.assertEqual(row.ask(TAKE, 100 * MIB), 100 * MIB)
        self.assertTrue(self.daemon.wait_log("lists processes by the host's numbers (update it, or"))
        self.assertTrue(wait(lambda: self.daemon.workers() == [row.pid]))
        self.assertEqual(self.granted(page), 100 * MIB)
        self.assertFalse(os.path.exists(self.readings))


@unittest.skipUnless(is_contained(), 'vcudad is in the first pid namespace')
class ContainedUnknown(ContainedOld):
    VERSION = ''  # the library does not know it


UNSHARE = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc']


@unittest.skipUnless(os.environ.get('FAKE_DRIVER'), 'no driver of the tests')
@unittest.skipIf(is_contained(), 'this is a container')
@unittest.skipIf(subprocess.run([*UNSHARE, 'true'], capture_output=True, check=False).returncode, 'there are no pid namespaces here')
class Contained(unittest.TestCase):
    def test_in_a_container(self):
        tests = ['ContainedOld', 'ContainedUnknown', 'Driver.test_a_surplus_counts']
        result = subprocess.run([*UNSHARE, sys.executable, __file__, *tests], capture_output=True, text=True, timeout=vmm.LIMIT, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)


@unittest.skipIf(os.path.exists('/dev/nvidiactl'), 'there is a driver')
class NoDriver(Case):
    """A program that reads nothing: vcudad does without."""
    options = ('--backend', 'auto', '--max-device-memory', '4G')

    def test_no_gpu(self):
        row = self.worker()
        self.assertEqual(row.ask(TAKE, MIB), MIB)
        self.assertTrue(wait(lambda: self.daemon.workers() == [row.pid]))


if __name__ == '__main__':
    vmm.main()
