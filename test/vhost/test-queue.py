# SPDX-License-Identifier: Apache-2.0
"""A hostile guest kernel: virtqueues and messages that make no sense."""
import os
import struct

import vmm
from vmm import CONTROL, DESC_INDIRECT, DESC_NEXT, DESC_WRITE, DOORBELL, EVENT, ERROR, LOST


class Hostile(vmm.Test):
    def broken(self, index=CONTROL, events=True):
        """The device has stopped, the daemon lives, and a reset mends it."""
        self.assertTrue(self.daemon.wait_log(f'queue {index} is broken'))
        self.wait(lambda: not self.daemon.workers())
        self.assertEqual(self.vmm.number(vmm.GET_STATUS) & 0x40, 0x40)
        if events:
            self.assertEqual(self.vmm.event(), (LOST, ERROR['EIO'], 1))
        for queue in self.vmm.queues:
            self.assertTrue(self.vmm.enable(queue, False))
            self.vmm.stop_queue(queue)
            queue.reset()
        for queue in self.vmm.queues:
            self.vmm.set_up_queue(queue)
            self.assertTrue(self.vmm.enable(queue))
        for _ in range(8):
            self.vmm.post_event()
        self.assertEqual(self.vmm.hello(), (0, 1, vmm.CONTROL_MINOR))
        self.assertEqual(self.vmm.create(1)[0][0], 0)

    def setUp(self):
        super().setUp()
        self.assertEqual(self.vmm.create(1)[0][0], 0)
        self.queue = self.vmm.queues[CONTROL]

    def test_loops(self):
        place = self.vmm.ram.allocate(4096)
        self.queue.describe(100, place, 8, DESC_NEXT, 100)
        self.queue.publish(100)
        self.broken()
        for i in range(64):
            self.queue.describe(i, place, 8, DESC_NEXT, (i + 1) % 64)
        self.queue.publish(0)
        self.broken()

    def test_long_chain(self):
        for i in range(100):
            self.queue.describe(i, 4096, 8, DESC_NEXT, i + 1)
        self.queue.describe(100, 4096, 8)
        self.queue.publish(0)
        self.broken()

    def test_numbers_out_of_range(self):
        self.queue.publish(128)
        self.broken()
        self.queue.publish(0xffff)
        self.broken()
        self.queue.describe(3, 4096, 8, DESC_NEXT, 128)
        self.queue.publish(3)
        self.broken()

    def test_available_index_jumps(self):
        self.queue.available_index += 1000
        self.queue.publish(0)
        self.broken()

    def test_indirect(self):
        self.queue.describe(0, 4096, 64, DESC_INDIRECT)
        self.queue.publish(0)
        self.broken()

    def test_readable_behind_writable(self):
        self.queue.describe(0, 4096, 16, DESC_WRITE | DESC_NEXT, 1)
        self.queue.describe(1, 4096, 64)
        self.queue.publish(0)
        self.broken()

    def test_addresses_out_of_ram(self):
        for gpa in (vmm.LOW, (1 << 64) - 32, 1 << 63, vmm.LOW - 32):
            self.queue.add([(gpa, 64)], [(self.vmm.ram.allocate(16), 16)])
            self.broken()
            self.queue.add([(4096, 64)], [(gpa + 24, 16)])
            self.broken()

    def test_giant_lengths(self):
        place = self.vmm.ram.allocate(16)
        head = self.queue.add([(0, 0xffffffff)] * 3, [(place, 16)])
        self.vmm.buffers[head] = place
        self.assertEqual(self.vmm.result(head)[0], ERROR['EINVAL'])
        head = self.queue.add([(4096, 64)], [(place, 0xffffffff)])
        self.vmm.buffers[head] = place
        self.wait(lambda: self.vmm.answered(head))
        head = self.vmm.queues[DOORBELL].add([(0, 0xffffffff)], [])
        self.wait(lambda: self.vmm.queues[DOORBELL].poll())

    def test_no_room_for_the_reply(self):
        for writable in ([], [(8192, 8)], [(8192, 0)], [(8192 + i, 1) for i in range(16)]):
            head = self.queue.add([(4096, 64)], writable)
            used = []
            self.wait(lambda: used.append(self.queue.poll()) or used[-1])
            self.assertEqual(used[-1], (head, 0))

    def test_reply_in_pieces(self):
        at = self.vmm.ram.allocate(64)
        self.vmm.ram.write(at, struct.pack('<IIQQQQIIIIII', vmm.DESTROY, 0, 99, *[0] * 9))
        place = self.vmm.ram.allocate(16)
        head = self.queue.add([(at, 10), (at + 10, 54)], [(place, 3), (place + 3, 5), (place + 8, 8)])
        self.vmm.buffers[head] = place
        self.assertEqual(self.vmm.result(head)[0], ERROR['ENOENT'])

    def test_odd_requests(self):
        for data in (b'', b'\1', bytes(63), bytes(64), b'\xff' * 64, struct.pack('<II', vmm.CREATE, 0) + b'\xff' * 56,
                     struct.pack('<IIQQQQIIIIII', vmm.CREATE, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0xffffffff, 0)):
            self.assertLess(self.vmm.result(self.vmm.submit_bytes(data + b''))[0] if data else -1, 0)
        self.assertLess(self.vmm.result(self.vmm.submit_bytes(bytes(64 + 16 * 2049), 20))[0], 0)
        self.assertEqual(self.vmm.create(2)[0][0], 0)

    def test_event_buffers(self):
        queue = self.vmm.queues[EVENT]
        while self.vmm.ring(1) or self.vmm.event(0.2, repost=False):
            pass
        for readable, writable in [([], [(4096, 15)]), ([(4096, 64)], [(8192, 16)]), ([], [(1 << 40, 16)])]:
            queue.add(readable, writable)
            self.vmm.ring(1)
            self.broken(EVENT, events=False)
            while self.vmm.ring(1) or self.vmm.event(0.2, repost=False):
                pass

    def test_doorbells(self):
        queue = self.vmm.queues[DOORBELL]
        for segment in [(4096, 0), (4096, 7), (4096, 9), (0, 8)]:
            queue.add([segment], [])
        for context in (0, 77, (1 << 64) - 1):
            self.vmm.ring(context)
        queue.add([], [(4096, 8)])
        queue.add([(vmm.LOW - 4, 8)], [])
        self.broken(DOORBELL)

    def test_flood_of_chains(self):
        """One queue that is always full does not keep the others from working."""
        queue = self.vmm.queues[DOORBELL]
        queue.describe(0, 4096, 8)
        for _ in range(200):
            for _ in range(64):
                queue.publish(0, kick=False)
            os.eventfd_write(queue.kick, 1)
            self.wait(lambda: queue.poll() or True)
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=99), ERROR['ENOENT'])


if __name__ == '__main__':
    vmm.main()
