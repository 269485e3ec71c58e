# SPDX-License-Identifier: Apache-2.0
"""Random damage to what a guest's kernel and its VMM say: vcudad must live and serve again after a reset."""
import os
import struct

import vmm
from vmm import DIRECT, LAST, WRITABLE

COUNT = int(os.environ.get('VCUDA_RANDOM') or 3000)
WORDS = [0, 1, 7, 8, 4095, 4096, 0x7fffffff, 0x80000000, 0xffffffff, 1 << 32, 1 << 40, 1 << 47, 1 << 63,
         (1 << 64) - 4096, (1 << 64) - 1]


class Random(vmm.Test):
    options = ('--register-ram',)

    def setUp(self):
        super().setUp()
        self.random = vmm.random_source()
        self.shared = self.vmm.shared_extents()
        self.mapping = self.vmm.ram.allocate(8192, 4096)

    def message(self):
        r = self.random
        context = r.randrange(1, 6)
        kind = r.choice([vmm.CREATE, vmm.DESTROY, vmm.MAP, vmm.MAP, vmm.UNMAP, vmm.HELLO])
        length, offset, extents, flags = 4096 * r.randrange(1, 5), 0, [], 0
        address = 0x7f0000000000 + 4096 * r.randrange(8)
        uid = r.choice([0, 0, 0, 0, vmm.REFUSES, vmm.REFUSES_MAP, vmm.CRASHES_ON_MAP, vmm.BUSY_UNMAP])
        if kind == vmm.CREATE:
            extents = self.shared
        elif kind == vmm.MAP:
            extents = [(self.mapping, 4096 * r.randrange(1, 3))]
            flags = r.choice([WRITABLE, WRITABLE | LAST, LAST]) | r.choice([0, 0, DIRECT])
            offset = r.choice([0, 0, 4096, 8192])
        data = bytearray(struct.pack('<IIQQQQIIIIII', kind, flags, context, address, length, offset, uid, 42, 1, 0,
                                     len(extents), 0))
        for extent in extents:
            data += struct.pack('<QQ', *extent)
        return data

    def damage(self, data):
        r = self.random
        for _ in range(r.choice([0, 0, 1, 1, 2, 5])):
            choice = r.randrange(4)
            if choice == 0:
                data[r.randrange(len(data))] ^= 1 << r.randrange(8)
            elif choice == 1:
                struct.pack_into('<Q', data, 8 * r.randrange(len(data) // 8), r.choice(WORDS))
            elif choice == 2:
                del data[r.randrange(1, len(data)):]
                data += bytes(-len(data) % 8)
            else:
                data += bytes(r.randrange(40))
        return bytes(data)

    def reset(self):
        for queue in self.vmm.queues:
            self.assertTrue(self.vmm.enable(queue, False))
        for queue in self.vmm.queues:
            self.vmm.stop_queue(queue)
            queue.reset()
        for queue in self.vmm.queues:
            self.vmm.set_up_queue(queue)
            self.assertTrue(self.vmm.enable(queue))
        self.vmm.ram.next = self.start
        self.vmm.buffers.clear()
        self.vmm.replies.clear()
        for _ in range(8):
            self.vmm.post_event()
        self.assertEqual(self.vmm.hello(), (0, 1, vmm.CONTROL_MINOR), self.daemon.log()[-2000:])

    def test_control_messages(self):
        self.start = self.vmm.ram.next
        for i in range(COUNT):
            head = self.vmm.submit_bytes(self.damage(self.message()), self.random.choice([1, 1, 1, 2, 5]))
            if i % 3 == 0:
                self.vmm.result(head)
            self.vmm.ring(self.random.randrange(6))
            while self.vmm.event(0):
                pass
            if i % 32 == 31:
                self.wait(lambda: self.vmm.answered(None) or not any(isinstance(k, int) for k in self.vmm.buffers))
                self.vmm.replies.clear()
                self.vmm.ram.next = self.start
        self.alive()
        self.reset()
        self.assertEqual(self.vmm.create(1)[0][0], 0)

    def test_rings(self):
        self.start = self.vmm.ram.next
        r = self.random
        for _ in range(COUNT // 10):
            for _ in range(r.randrange(1, 12)):
                queue = r.choice(self.vmm.queues)
                for _ in range(r.randrange(4)):
                    queue.describe(r.randrange(queue.size), r.choice([4096, self.mapping, self.shared[0][0], *WORDS]),
                                   r.choice([8, 16, 64, 80, 4096, 0xffffffff]),
                                   r.choice([0, 0, 1, 1, 2, 2, 3, 4, 7, 0xffff]),
                                   r.choice([0, 1, 2, r.randrange(128), 128, 0xffff]))
                self.vmm.ram.write(self.mapping, self.damage(self.message())[:4096])
                if r.randrange(8) == 0:
                    queue.available_index = r.randrange(65536)
                queue.publish(r.choice([0, 1, 2, r.randrange(128), r.randrange(65536)]))
            self.alive()
            self.reset()

    def test_vhost_messages(self):
        r = self.random
        for _ in range(COUNT // 20):
            for _ in range(r.randrange(1, 20)):
                request = r.choice([2, 3, 4, 5, 8, 9, 10, 12, 13, 14, 16, 18, 25, 37, 38, 39, 100])
                payload = bytearray(8 * r.randrange(8))
                for at in range(0, len(payload), 8):
                    word = r.choice([0, 0, 1, 2, 3, 256, 128 << 32, 1 << 32, 4096, *WORDS])
                    struct.pack_into('<Q', payload, at, word)
                queue = self.vmm.queues[0]
                fds = [self.vmm.ram.fd, queue.kick, queue.call][:r.randrange(4)] if payload else []
                self.vmm.send(request, bytes(payload), fds)
            self.vmm.number(vmm.GET_FEATURES)
            self.alive()
        self.vmm.close()
        self.vmm = vmm.Vmm(self.daemon).start()
        self.assertEqual(self.vmm.create(1)[0][0], 0)


if __name__ == '__main__':
    vmm.main()
