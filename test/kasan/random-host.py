#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host that answers at random: test/vm/fake-host.py with wrong configurations, answers, events and queues.

It runs in vcudad's place. It is right for most of the time, so that the driver gets far. VCUDA_TEST_SEED is its seed. SIGUSR1 has it
behave from then on.
"""

import contextlib
import errno
import importlib.util
import os
import random
import signal
import struct
import sys

spec = importlib.util.spec_from_file_location("fake_host", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vm/fake-host.py"))
fake_host = importlib.util.module_from_spec(spec)
spec.loader.exec_module(fake_host)

STATUSES = [0, 1, 7, 2**31 - 1, -2**31, -4095, -4096, *(-n for n in (1, 2, 4, 5, 11, 12, 14, 17, 19, 22, 28, 32, 93, 99, 110, 512, 517))]
LENGTHS = [0, 1, 4, 8, 15, 17, 4096, 2**31, 2**32 - 1]
SHIFTS = [0, 11, 13, 16, 21, 22, 31, 32, 63, 64, 2**32 - 1]
SIZES = [0, 1, 4096, 1 << 20, 1 << 34, 2**64 - 1]


class RandomHost(fake_host.Host):
    def __init__(self, connection):
        super().__init__(connection)
        self.random = random.Random(int(os.environ["VCUDA_TEST_SEED"]))
        self.wrong = True
        self.lied = False
        self.unsent = []
        signal.signal(signal.SIGUSR1, self.behave)

    def behave(self, *_):
        self.wrong = False

    def one_in(self, n):
        return self.wrong and not self.random.randrange(n)

    # Memory

    def write(self, address, data, user=False):
        """After a lie about what has ended, the guest has other things in that memory. The queues stay until the reset."""
        if user or not self.lied:
            super().write(address, data, user)

    def forget(self):
        self.unsent, self.lied = [], False
        super().forget()

    # The queues

    def push(self, queue, head, length):
        """Returns a buffer late, out of order, with a wrong length, twice, with an unknown number, or behind an
        index that jumped."""
        if self.one_in(12):
            length = self.random.choice(LENGTHS)
        if self.one_in(4000):
            head = self.random.choice([head ^ 1, queue.size, 65535, 2**32 - 1])
            self.lied = True
        self.unsent.append((queue, head, length))
        if self.one_in(4000):
            self.unsent.append((queue, head, length))
            self.lied = True
        if self.one_in(200) and len(self.unsent) < 200:
            return
        if self.one_in(3):
            self.random.shuffle(self.unsent)
        unsent, self.unsent = self.unsent, []
        for entry in unsent:
            if entry[0].enabled:
                super().push(*entry)
        if self.one_in(4000):
            self.jump(queue)

    def jump(self, queue):
        _, used, _ = queue.addresses
        self.lied = True
        self.write(used + 2, struct.pack("<H", self.random.randrange(65536)), True)
        os.write(queue.call, struct.pack("<Q", 1))

    # Answers and events

    def answer(self, request, status, major=1, minor=0):
        kept = status == -errno.EIO  # a context that does not end
        if self.one_in(300):
            return
        if self.one_in(6):
            status = self.random.choice(STATUSES)
        if self.one_in(20):
            major, minor = self.random.getrandbits(32), self.random.getrandbits(32)
        super().answer(request, status, major, minor)
        self.lied |= kept and status in (0, -errno.ENOENT)

    def disturb(self):
        """An event that nothing has happened for."""
        context = self.random.choice([0, 1, self.random.getrandbits(64), *self.contexts])
        self.owed.append((self.random.choice([0, 1, 1, 2, 3, 2**32 - 1]), self.random.choice(STATUSES), context))
        self.pay()

    def control(self, request):
        if self.one_in(10):
            self.disturb()
        super().control(request)

    def doorbell(self, request):
        if self.one_in(30):
            self.disturb()
        super().doorbell(request)

    def complain(self, message):
        """Wrong answers make the driver's next requests surprising: fake-host.py alone judges them."""

    def serve(self):
        with contextlib.suppress(KeyError, ValueError):
            super().serve()

    def tick(self):
        with contextlib.suppress(KeyError, ValueError):
            super().tick()

    # The configuration

    def config(self):
        values = [fake_host.MAGIC, 1, 1, 64, 12, 1 << 34, 1 << 34, 1]
        if self.one_in(40):
            values[0] = self.random.getrandbits(64)
        if self.one_in(40):
            values[1] = self.random.getrandbits(32)
        if self.one_in(4):
            values[4] = self.random.choice(SHIFTS)
        if self.one_in(3):
            values[5] = self.random.choice(SIZES)
        if self.one_in(3):
            values[7] = self.random.getrandbits(32)
        return struct.pack("<QIIIIQQI20x", *values)


def main():
    fake_host.serve(sys.argv[sys.argv.index("--vhost-socket") + 1], RandomHost)


main()
