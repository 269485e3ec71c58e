# SPDX-License-Identifier: Apache-2.0
"""Direct ranges, which are offered with --register-ram: to vcudad they are mappings that the worker does not map."""
import os
import signal
import struct
import subprocess
import unittest

import vmm
from vmm import DIRECT, ERROR, LAST, LOST, WRITABLE, Daemon, Vmm, wait

RANGE = 0x7f1234400000


def arguments_of(pid):
    with open(f'/proc/{pid}/cmdline') as file:
        return file.read().split('\0')[1:-1]


class Device(vmm.Test):
    options = ('--register-ram', '--max-pinned', '64M')

    def run_of(self, pages):
        return self.vmm.ram.allocate(pages * 4096, 4096), pages * 4096

    def map(self, extents, context=1, flags=WRITABLE | LAST | DIRECT, **arguments):
        arguments.setdefault('address', RANGE)
        arguments.setdefault('length', sum(length for _, length in extents))
        return self.vmm.request(vmm.MAP, context=context, extents=extents, flags=flags, **arguments)

    def unmap(self, length, context=1, address=RANGE):
        return self.vmm.request(vmm.UNMAP, context=context, address=address, length=length)


class Offered(Device):
    def test_config(self):
        self.assertEqual(self.vmm.config(40, 24), struct.pack('<II', 1, 0) + bytes(16))

    def test_map_and_unmap(self):
        self.vmm.create(1)
        extents = [self.run_of(16), ((4 << 30) + 8192, 65536), self.run_of(1)]
        self.assertEqual(self.map(extents), 0)
        for i, (gpa, _) in enumerate(extents):
            self.assertEqual(self.vmm.ram.word(gpa), 0xd1d1000000000000 | i)
        self.assertEqual(self.unmap(4096), ERROR['ENOENT'])
        self.assertEqual(self.unmap(33 * 4096), 0)
        self.assertEqual(self.unmap(33 * 4096), ERROR['ENOENT'])
        self.assertEqual(self.map(extents, flags=LAST | DIRECT), 0)

    def test_overlaps_no_window_and_no_other(self):
        self.vmm.create(1)
        for first, second in ((DIRECT, DIRECT), (DIRECT, 0), (0, DIRECT)):
            self.assertEqual(self.map([self.run_of(4)], flags=LAST | first), 0)
            for address, pages in ((RANGE, 4), (RANGE + 4096, 1), (RANGE - 4096, 2), (RANGE + 3 * 4096, 2)):
                self.assertEqual(self.map([self.run_of(pages)], address=address, flags=LAST | second), ERROR['EEXIST'])
            self.assertEqual(self.unmap(16384), 0)
        self.vmm.create(2)
        self.assertEqual(self.map([self.run_of(4)]), 0)
        self.assertEqual(self.map([self.run_of(4)], context=2), 0)

    def test_hostile_values(self):
        self.vmm.create(1)
        one = [self.run_of(1)]
        for arguments in [{'length': 8192}, {'length': 0}, {'length': 4097}, {'address': 0}, {'address': RANGE + 1},
                          {'address': 1 << 47}, {'address': (1 << 64) - 4096}, {'length': 1 << 63, 'flags': DIRECT},
                          {'flags': DIRECT | LAST | 8}, {'flags': DIRECT | LAST | 1 << 31}, {'offset': 4096},
                          {'offset': 1 << 63}, {'flags': DIRECT}, {'count': 0}, {'count': 2}]:
            self.assertEqual(self.map(**{'extents': one, **arguments}), ERROR['EINVAL'], arguments)
        for extent, status in [((0x40000000, 4096), 'EFAULT'), ((vmm.LOW - 4096, 8192), 'EFAULT'),
                               (((1 << 64) - 4096, 4096), 'EFAULT'), ((4096 + 8, 4096), 'EINVAL'), ((4096, 0), 'EINVAL'),
                               ((4096, 1 << 63), 'EINVAL'), (((4 << 30) + (32 << 20) - 4096, 8192), 'EFAULT')]:
            self.assertEqual(self.map([extent], length=extent[1] or 4096), ERROR[status], extent)
        self.assertEqual(self.map(one, offset=4096, length=8192), ERROR['ENOENT'])
        self.assertEqual(self.map(one, context=2), ERROR['ENOENT'])
        self.assertEqual(self.map(one), 0)

    def test_parts_are_of_one_kind(self):
        self.vmm.create(1)
        page = [self.run_of(1)]
        for first, second in ((WRITABLE | DIRECT, WRITABLE), (WRITABLE, WRITABLE | DIRECT), (WRITABLE | DIRECT, DIRECT)):
            self.assertEqual(self.map(page, length=8192, flags=first), 0)
            self.assertEqual(self.map(page, length=8192, offset=4096, flags=second | LAST), ERROR['EINVAL'])
            self.assertEqual(self.unmap(8192), ERROR['ENOENT'])
        self.assertEqual(self.map(page, length=8192, flags=DIRECT), 0)
        self.assertEqual(self.map(page, length=8192, offset=4096, flags=DIRECT | LAST), 0)

    def test_is_charged(self):
        self.vmm.create(1)
        self.assertEqual(self.map([self.run_of(8192)]), 0)
        self.assertEqual(self.map([self.run_of(8193)], address=RANGE + (64 << 20)), ERROR['EDQUOT'])
        self.assertEqual(self.map([self.run_of(8193)], address=RANGE + (64 << 20), flags=LAST), ERROR['EDQUOT'])
        self.assertEqual(self.unmap(32 << 20), 0)
        self.assertEqual(self.map([self.run_of(8193)]), 0)

    def test_a_copy_is_under_way(self):
        self.vmm.create(1, uid=vmm.BUSY_UNMAP)
        self.assertEqual(self.map([self.run_of(2)]), 0)
        for _ in range(2):
            self.assertEqual(self.unmap(8192), ERROR['EBUSY'])
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=1), 0)

    def test_worker_gone(self):
        _, extents = self.vmm.create(1)
        self.assertEqual(self.map([self.run_of(2)]), 0)
        os.kill(self.vmm.ram.word(extents[0][0]), signal.SIGKILL)
        self.assertEqual(self.vmm.event(), (LOST, ERROR['EPIPE'], 1))
        self.assertEqual(self.map([self.run_of(1)], address=RANGE + 8192), ERROR['EPIPE'])
        self.assertEqual(self.unmap(8192), 0)
        self.vmm.create(2, uid=vmm.CRASHES_ON_MAP)
        self.assertEqual(self.map([self.run_of(1)], context=2), ERROR['EPIPE'])

    def test_memory_that_came_after_the_worker(self):
        """Plugged in later, its file is none of the worker's."""
        self.vmm.create(1)
        fd = os.memfd_create('more')
        os.ftruncate(fd, 1 << 20)
        region = (8 << 30, 1 << 20, 0x7fc000000000, 0)
        self.assertTrue(self.vmm.add_region(region, fd))
        self.assertEqual(self.map([(8 << 30, 4096)]), ERROR['ENXIO'])
        self.vmm.create(2)
        self.assertEqual(self.map([(8 << 30, 4096)], context=2, flags=LAST | DIRECT), 0)
        self.assertTrue(self.vmm.tell(vmm.REM_MEM_REG, struct.pack('<QQQQQ', 0, *region)))
        self.assertEqual(self.map([(8 << 30, 4096)], context=2, address=RANGE + 4096), ERROR['EFAULT'])
        self.assertEqual(self.unmap(4096, context=2), 0)
        os.close(fd)


class NotOffered(Device):
    options = ()

    def test_config(self):
        self.assertEqual(self.vmm.config(40, 24), bytes(24))

    def test_refused(self):
        self.vmm.create(1)
        page = [self.run_of(1)]
        self.assertEqual(self.map(page), ERROR['ENOTSUP'])
        self.assertEqual(self.unmap(4096), ERROR['ENOENT'])
        self.assertEqual(self.map(page, length=8192, flags=WRITABLE), 0)
        self.assertEqual(self.map(page, length=8192, offset=4096), ERROR['ENOTSUP'])
        self.assertEqual(self.unmap(8192), ERROR['ENOENT'])
        self.assertEqual(self.map(page, flags=LAST), 0)


class Workers(unittest.TestCase):
    def start(self, *options, **arguments):
        daemon = Daemon(*options, **arguments)
        self.addCleanup(daemon.stop)
        return daemon

    def arguments(self, daemon):
        self.assertTrue(wait(lambda: any('--transport' in arguments_of(pid) for pid in daemon.workers())), daemon.log())
        return arguments_of(daemon.workers()[0])

    def test_are_told(self):
        for option, expected in (((), False), (('--register-ram',), True)):
            daemon = self.start(*option)
            device = Vmm(daemon).start()
            self.assertEqual(device.create(1)[0][0], 0)
            self.assertEqual('--register-ram' in self.arguments(daemon), expected)
            device.close()

    def test_warm_ones_too(self):
        self.assertIn('--register-ram', self.arguments(self.start('--register-ram', '--warm', '1')))

    def test_local_ones_not(self):
        daemon = self.start('--register-ram', local=True)
        client = vmm.Client(daemon)
        self.assertIsNotNone(client.attach())
        self.assertNotIn('--register-ram', self.arguments(daemon))
        client.close()

    def test_only_for_a_vm(self):
        said = subprocess.run([vmm.VCUDAD, '--worker', vmm.FAKE_WORKER, '--socket', '/dev/null/x', '--register-ram'],
                              capture_output=True, text=True, timeout=vmm.LIMIT)
        self.assertEqual(said.returncode, 2)
        self.assertIn('--register-ram: only a VM has memory to register', said.stderr)


if __name__ == '__main__':
    vmm.main()
