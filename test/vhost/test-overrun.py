# SPDX-License-Identifier: Apache-2.0
"""Kernels in other VMs' turns: this test speaks for its workers, for the arbiter, and for the GPU's driver."""
import mmap
import os
import socket
import struct
import tempfile

import puppet
import vmm
from vmm import wait

MESSAGE = struct.Struct('8I5Q')  # struct vcuda_arbiter_message
REGISTER, RUN, HOLD = 1, 5, 6
BEGUN, WANTED, RUNNING, ON_GPU, WAITS, OVERRAN = range(0, 24, 4)  # in struct vcuda_demand
BUS = 9


class Overrun(puppet.DriverCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='vcuda-test-')
        self.addCleanup(folder.cleanup)
        arbiter, self.path = (os.path.join(folder.name, name) for name in ('arbiter', 'gpu'))
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(listener.close)
        listener.settimeout(vmm.LIMIT)
        listener.bind(arbiter)
        listener.listen()
        self.options = ('--backend', 'cuda', '--share', '1', '--max-kernel-time', '2', '--arbiter', arbiter)
        self.readings = self.path + '.readings'
        self.variables = {'VCUDA_TEST_GPU_MEMORY': self.path, 'VCUDA_TEST_DRIVER_VERSION': '580.65.06',
                          'VCUDA_TEST_GPU_READINGS': self.readings}
        self.runs()
        super().setUp()
        self.arbiter, _ = listener.accept()
        self.addCleanup(self.arbiter.close)
        self.turn = 0

    def say(self, kind):
        """Tells vcudad which of two VMs has the turn."""
        self.turn += kind == HOLD
        self.arbiter.send(MESSAGE.pack(kind, self.turn, 0, 0, 2, 40, 0, 0, 0, 0, 0, 0, 0))

    def runs(self, *workers):
        """From now on the driver finds kernels of these workers in turns."""
        with open(self.path + '.new', 'w') as file:
            file.writelines(f'{BUS} s {worker.pid} 0\n' for worker in workers)
        os.rename(self.path + '.new', self.path)

    def works(self, **fields):
        """A worker, and the page in which it says what it does."""
        worker = self.worker()
        fds = worker.join_all()
        page = mmap.mmap(fds[1], 0)
        self.addCleanup(page.close)
        for fd in fds:
            os.close(fd)
        for name, value in {'on_gpu': 1, **fields}.items():
            struct.pack_into('<I', page, globals()[name.upper()], value)
        return worker, page

    def is_told(self, page):
        return struct.unpack_from('<I', page, OVERRAN)[0] != 0

    def looks(self, seconds):
        before = os.path.getsize(self.readings)
        self.assertTrue(wait(lambda: os.path.getsize(self.readings) > before + 6 * seconds))

    def test_commands_that_may_wait(self):
        worker, page = self.works(running=1, waits=1)
        other, others = self.works(running=1)
        self.say(HOLD)
        self.runs(worker, other)
        self.assertTrue(wait(lambda: self.is_told(page)), self.daemon.log())
        self.assertTrue(self.daemon.wait_log(f'(worker {worker.pid}) runs kernels in other VMs\' turns'))
        self.assertEqual([q['refused'] for q in self.daemon.status()['quota'] if q['name'] == 'max-kernel-time'], ['1'])
        # The worker does not end by itself.
        self.assertTrue(wait(lambda: worker.pid not in self.daemon.workers()), self.daemon.log())
        self.assertIn("runs kernels in other VMs' turns, was told to end its process, and goes on: it is killed (raise "
                      '--max-kernel-time)', self.daemon.log())
        self.assertFalse(self.is_told(others))
        self.assertIn(other.pid, self.daemon.workers())

    def test_in_its_turn(self):
        worker, page = self.works(running=1, waits=1)
        self.say(HOLD)
        self.say(RUN)
        self.runs(worker)
        self.looks(5)
        self.assertFalse(self.is_told(page), self.daemon.log())
        self.say(HOLD)
        self.assertTrue(wait(lambda: self.is_told(page)), self.daemon.log())


class Guest(Overrun):
    """The worker of a process in a VM."""
    test_commands_that_may_wait = test_in_its_turn = None

    def start(self, program):
        self.daemon = vmm.Daemon('--sandbox', 'off', *self.options)
        self.vmm = vmm.Vmm(self.daemon).start()
        self.addCleanup(self.vmm.close)

    def demand(self):
        """The page in which the worker says what it does, which vcudad has too."""
        folder = f'/proc/{self.daemon.process.pid}/fd'
        path, = [os.path.join(folder, fd) for fd in os.listdir(folder)
                 if os.readlink(os.path.join(folder, fd)).startswith('/memfd:vcuda-demand')]
        with open(path, 'r+b') as file:
            return mmap.mmap(file.fileno(), 0)

    def test_the_guest_is_told_why(self):
        self.assertEqual(self.vmm.create(1)[0][0], 0)
        self.pid, = [int(process['worker']) for process in self.daemon.status()['process']]
        page = self.demand()
        self.addCleanup(page.close)
        for field in RUNNING, ON_GPU, WAITS:
            struct.pack_into('<I', page, field, 1)
        self.say(HOLD)
        self.runs(self)
        self.assertEqual(self.vmm.event(), (vmm.LOST, vmm.ERROR['ETIME'], 1), self.daemon.log())
        self.assertIn('(raise --max-kernel-time)', self.daemon.log())


if __name__ == '__main__':
    vmm.main()
