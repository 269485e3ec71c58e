# SPDX-License-Identifier: Apache-2.0
"""
cuMemHostRegister of guest memory in a real worker, with a mapper and without: the device reaches the guest's pages, and
both give the same results. VCUDA_TEST_BACKEND=cuda: on a GPU. With --times: what it costs.
"""
import os
import statistics
import sys
import time

import vmm
from commands import Commands
from vmm import ERROR, LAST, WRITABLE

BACKEND = os.environ.get('VCUDA_TEST_BACKEND') or 'cpu'
WORKER = os.environ.get('VCUDA_WORKER') or 'vcuda-worker'
WINDOW = 0x7f1234500000
PAGE = 4096
READ_ONLY = 8  # CU_MEMHOSTREGISTER_READ_ONLY
RETAIN, REGISTER, UNREGISTER, COPY = 20, 44, 45, 54  # cuDevicePrimaryCtxRetain, ..., cuMemcpyDtoD_v2
MODES = ('off', 'best-effort')


class Guest:
    """A guest process with a CUDA context."""

    def __init__(self, mode):
        self.daemon = vmm.Daemon('--backend', BACKEND, '--sandbox', mode, worker=WORKER)
        self.vmm = vmm.Vmm(self.daemon, vmm.Ram(low=512 << 20)).start()
        (status, _, _), shared = self.vmm.create(1, extents=self.vmm.shared_extents(1))
        assert status == 0, self.daemon.log()
        self.commands = Commands(self.vmm, 1, shared[0][0])
        assert self.commands.hello() == 0, self.daemon.log()
        result, self.current = self.commands.call(RETAIN, 0)
        assert result == 0, result

    def call(self, number, *words):
        return self.commands.call(number, *words, current=self.current)[0]

    def map(self, address, extents, flags=WRITABLE | LAST):
        return self.vmm.request(vmm.MAP, context=1, address=address, length=sum(n for _, n in extents), flags=flags,
                                extents=extents)

    def unmap(self, address, length):
        return self.vmm.request(vmm.UNMAP, context=1, address=address, length=length)

    def end(self):
        assert self.vmm.request(vmm.DESTROY, context=1) == 0
        self.vmm.close()
        self.daemon.stop()


def copies(guest, size):
    """Both halves of a registered window are the guest's pages, to the device too."""
    gpa = guest.vmm.ram.allocate(2 * size, PAGE)
    text = os.urandom(size)
    guest.vmm.ram.write(gpa, text)
    said = [guest.map(WINDOW, [(gpa, 2 * size)]), guest.call(REGISTER, WINDOW, 2 * size, 0)]
    said += [guest.call(COPY, WINDOW + size, WINDOW, size), guest.vmm.ram.read(gpa + size, size) == text]
    busy = guest.unmap(WINDOW, 2 * size)
    said += [guest.call(UNREGISTER, WINDOW), guest.unmap(WINDOW, 2 * size)]
    return said, busy


def reads(guest):
    """A window that was granted for reading, with one for writing."""
    source, target = (guest.vmm.ram.allocate(PAGE, PAGE) for _ in range(2))
    guest.vmm.ram.write(source, b'source')
    said = [guest.map(WINDOW, [(source, PAGE)], LAST), guest.map(WINDOW + PAGE, [(target, PAGE)])]
    said += [guest.call(REGISTER, WINDOW, PAGE, 0), guest.call(REGISTER, WINDOW + PAGE, PAGE, 0)]
    said.append(guest.call(REGISTER, WINDOW, PAGE, READ_ONLY))
    if not said[-1]:
        said += [guest.call(COPY, WINDOW + PAGE, WINDOW, PAGE), guest.vmm.ram.read(target, 6) == b'source']
        said.append(guest.call(UNREGISTER, WINDOW))
    said.append(guest.call(UNREGISTER, WINDOW + PAGE))
    return said + [guest.unmap(WINDOW, PAGE), guest.unmap(WINDOW + PAGE, PAGE)]


class Register(vmm.unittest.TestCase):
    def in_both_modes(self, test):
        results = []
        for mode in MODES:
            guest = Guest(mode)
            results.append(test(guest))
            guest.end()
        self.assertEqual(*results)
        return results[0]

    def test_windows(self):
        for size in (PAGE, 8 << 20):
            said, busy = self.in_both_modes(lambda guest, size=size: copies(guest, size))
            self.assertEqual(said, [0, 0, 0, True, 0, 0])
            self.assertEqual(busy, ERROR['EBUSY'])

    def test_reading(self):
        said = self.in_both_modes(reads)
        self.assertEqual(said[:2] + said[-2:], [0] * 4)
        self.assertNotEqual(said[2], 0)


def times():
    """Microseconds, the middle of 100: MAP, cuMemHostRegister, cuMemHostUnregister, UNMAP; in turns."""
    def spin(condition):
        while not condition():
            pass

    vmm.Vmm.wait_for = lambda self, condition: spin(condition)
    vmm.wait = lambda condition, seconds=0: spin(condition) or True
    for size in (PAGE, 1 << 20, 64 << 20):
        for mode in MODES * 2:
            guest, rows = Guest(mode), []
            gpa = guest.vmm.ram.allocate(size, PAGE)
            for _ in range(100):
                clock = [time.perf_counter()]
                for step in (lambda: guest.map(WINDOW, [(gpa, size)]), lambda: guest.call(REGISTER, WINDOW, size, 0),
                             lambda: guest.call(UNREGISTER, WINDOW), lambda: guest.unmap(WINDOW, size)):
                    assert step() == 0
                    clock.append(time.perf_counter())
                rows.append([(b - a) * 1e6 for a, b in zip(clock, clock[1:])])
            guest.end()
            print(f'{size >> 10:6} KiB {mode:12}', *(f'{statistics.median(column):9.1f}' for column in zip(*rows)))


if __name__ == '__main__':
    if BACKEND == 'cuda' and not os.path.exists('/dev/nvidia0'):
        print('there is no GPU', file=sys.stderr)
        sys.exit(77)
    if '--times' in sys.argv:
        times()
    else:
        vmm.main()
