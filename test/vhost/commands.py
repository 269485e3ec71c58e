# SPDX-License-Identifier: Apache-2.0
"""The guest library's part of a shared area: one synchronous command after another, as ring/ring.h has them."""
import struct

RING_OFFSET, RING_BYTES = 4096, 256 << 10
SLOT = RING_OFFSET + RING_BYTES
HELLO = 1
HEADER = 32


class Commands:
    """`gpa`: of the shared area, which is one run of guest RAM."""

    def __init__(self, vmm, context, gpa):
        self.vmm, self.context, self.gpa = vmm, context, gpa
        self.tail = self.sequence = 0

    def done(self):
        return self.vmm.ram.word(self.gpa + SLOT) == self.sequence

    def publish(self, data):
        self.vmm.ram.write(self.gpa + RING_OFFSET + self.tail % RING_BYTES, data)
        self.tail += len(data)

    def call(self, number, *words, current=0):
        """(CUresult, the reply's first word); `current`: the caller's CUDA context."""
        size = HEADER + 8 * len(words)
        left = RING_BYTES - self.tail % RING_BYTES
        if left < size:
            self.publish(struct.pack('<IHH', left, 0, 0) + bytes(left - 8))
        self.sequence += 1
        self.publish(struct.pack(f'<IHHQQII{len(words)}Q', size, number, 1, self.sequence, current, 0, 0, *words))
        self.vmm.ram.write(self.gpa, struct.pack('<Q', self.tail))
        self.vmm.ring(self.context)
        self.vmm.wait_for(self.done)
        result, _ = struct.unpack('<iI', self.vmm.ram.read(self.gpa + SLOT + 8, 8))
        return result, self.vmm.ram.word(self.gpa + SLOT + 64)

    def reply(self, count):
        """The first words of the last reply."""
        return struct.unpack(f'<{count}Q', self.vmm.ram.read(self.gpa + SLOT + 64, 8 * count))

    def hello(self):
        """The worker loads its back end, and its sandbox closes. Returns the CUresult."""
        return self.call(HELLO, 1, 0)[0]
