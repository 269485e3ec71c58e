# SPDX-License-Identifier: Apache-2.0
"""Pause, reset and disconnection with workers at work."""
import os
import struct
import time

import vmm
from vmm import ERROR, LAST, LOST, Vmm


class Reset(vmm.Test):
    def stop(self):
        bases = []
        for queue in self.vmm.queues:
            self.assertTrue(self.vmm.enable(queue, False))
        for queue in self.vmm.queues:
            bases.append(self.vmm.stop_queue(queue))
        self.vmm.send(vmm.SET_STATUS, struct.pack('<Q', 0))
        return bases

    def resume(self, bases):
        for queue, base in zip(self.vmm.queues, bases):
            self.vmm.set_up_queue(queue, base)
        for queue in self.vmm.queues:
            self.assertTrue(self.vmm.enable(queue))

    def test_pause_and_continue(self):
        for i in (1, 2, 3):
            self.assertEqual(self.vmm.create(i, uid=vmm.IGNORES_END)[0][0], 0)
        start = time.monotonic()
        bases = self.stop()
        self.assertEqual(self.daemon.workers(), [])
        self.assertLess(time.monotonic() - start, 6, 'one after the other')
        self.assertEqual(bases, [4, 0, 0])
        self.resume(bases)
        self.assertEqual(sorted(self.vmm.event() for _ in range(3)), [(LOST, ERROR['ENODEV'], i) for i in (1, 2, 3)])
        self.assertIsNone(self.vmm.event(0.1))
        for i in (1, 2, 3):
            self.assertEqual(self.vmm.request(vmm.DESTROY, context=i), 0)
        self.assertEqual(self.vmm.create(4)[0][0], 0)

    def test_requests_in_flight_are_answered_before_the_pause(self):
        shared = self.vmm.shared_extents()
        heads = [self.vmm.submit(vmm.CREATE, context=1, major=1, uid=vmm.SLOW_ATTACH, extents=shared),
                 self.vmm.submit(vmm.MAP, context=1, address=1 << 20, length=4096, flags=LAST,
                                 extents=[(1 << 20, 4096)]),
                 self.vmm.submit(vmm.DESTROY, context=1)]
        self.wait(self.daemon.workers)
        self.stop()
        self.assertEqual([self.vmm.result(head, 0)[0] for head in heads], [ERROR['EIO'], ERROR['EPIPE'], 0])

    def test_plugged_in_again(self):
        """Over the same connection, after a stop and without one; the memory is not taken back before."""
        self.assertEqual(self.vmm.create(1)[0][0], 0)
        for stops in (True, False):
            if stops:
                self.stop()
            self.vmm.start()
            self.assertEqual(self.daemon.workers(), [])
            self.assertEqual(self.vmm.create(1)[0][0], 0)

    def test_system_reset(self):
        for _ in range(5):
            self.assertEqual(self.vmm.create(1)[0][0], 0)
            self.stop()
            for queue in self.vmm.queues:
                queue.reset()
            self.resume([0, 0, 0])
            for _ in range(8):
                self.vmm.post_event()
            # The new driver has contexts of its own; of the old one's it may hear, before HELLO.
            self.assertEqual(self.vmm.hello(), (0, 1, vmm.CONTROL_MINOR))
            while event := self.vmm.event(0.05):
                self.assertEqual(event[0], LOST)

    def test_disconnect_with_requests_in_flight(self):
        for _ in range(5):
            for i in range(1, 6):
                self.vmm.submit(vmm.CREATE, context=i, major=1, uid=vmm.SLOW_ATTACH, extents=self.vmm.shared_extents())
            self.vmm.submit(vmm.HELLO, major=1)
            self.vmm.close()
            self.vmm = Vmm(self.daemon).start()
        self.wait(lambda: not self.daemon.workers())

    def test_memory_taken_away(self):
        self.assertEqual(self.vmm.create(1)[0][0], 0)
        for region in self.vmm.ram.regions:
            self.assertTrue(self.vmm.tell(vmm.REM_MEM_REG, struct.pack('<QQQQQ', 0, *region)))
        self.vmm.ring(1)
        self.assertIn('its memory was taken away', self.daemon.log())
        self.alive()

    def test_memory_plugged_in(self):
        self.assertEqual(self.vmm.create(1)[0][0], 0)
        more = os.memfd_create('more')
        os.ftruncate(more, 1 << 20)
        self.assertTrue(self.vmm.add_region((8 << 30, 1 << 20, 0x7f9000000000, 0), more))
        os.close(more)
        extents = [(8 << 30, 4096)]
        arguments = {'address': 1 << 20, 'length': 4096, 'flags': LAST, 'extents': extents}
        self.assertEqual(self.vmm.request(vmm.MAP, context=1, **arguments), ERROR['ENXIO'])
        self.assertEqual(self.vmm.create(2)[0][0], 0)
        self.assertEqual(self.vmm.request(vmm.MAP, context=2, **arguments), 0)

    def test_neighbouring_regions(self):
        """An extent may lie in two regions that meet."""
        more = os.memfd_create('more')
        os.ftruncate(more, 1 << 20)
        end = self.vmm.ram.low
        self.assertTrue(self.vmm.add_region((end, 1 << 20, 0x7f9000000000, 0), more))
        self.assertEqual(self.vmm.create(1)[0][0], 0)
        self.assertEqual(self.vmm.request(vmm.MAP, context=1, address=1 << 20, length=8192, flags=LAST | 1,
                                          extents=[(end - 4096, 8192)]), 0)
        self.assertEqual(self.vmm.ram.word(end - 4096), 0x5a5a000000000000)
        self.assertEqual(os.pread(more, 8, 0), struct.pack('<Q', 0x5a5a000000000001))
        os.close(more)

    def test_terminated_with_workers(self):
        for i in (1, 2):
            self.vmm.create(i, uid=vmm.IGNORES_END)
        workers = self.daemon.workers()
        self.daemon.process.terminate()
        self.assertEqual(self.daemon.process.wait(vmm.LIMIT), 0)
        for pid in workers:
            self.assertFalse(os.path.exists(f'/proc/{pid}'))
        self.assertFalse(os.path.exists(self.daemon.vhost_path))


if __name__ == '__main__':
    vmm.main()
