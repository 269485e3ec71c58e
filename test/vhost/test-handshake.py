# SPDX-License-Identifier: Apache-2.0
"""The vhost-user handshake, config space, memory regions."""
import os
import struct
import unittest

import vmm
from vmm import Daemon, Ram, Vmm


class Handshake(vmm.Test):
    started = False

    def test_offers_only_what_is_implemented(self):
        self.vmm.handshake()
        self.assertEqual(self.vmm.features, 1 << 32 | 1 << 30)
        self.assertEqual(self.vmm.protocol, 1 << 0 | 1 << 3 | 1 << 9 | 1 << 15 | 1 << 16)
        self.assertEqual(self.vmm.number(vmm.GET_QUEUE_NUM), 3)

    def test_config(self):
        self.vmm.handshake()
        magic, major, minor, contexts, shift, mapping, pinned = struct.unpack('<QIIIIQQ', self.vmm.config()[:40])
        self.assertEqual((magic, major, minor, contexts, shift), (vmm.CONFIG_MAGIC, 1, vmm.CONTROL_MINOR, 64, 12))
        self.assertGreater(mapping, 1 << 30)
        self.assertGreater(pinned, 1 << 30)
        self.assertEqual(self.vmm.config(40, 24), bytes(24))
        self.assertEqual(self.vmm.config(8, 4), struct.pack('<I', 1))
        self.assertEqual(self.vmm.config(60, 100), bytes(100))

    def test_config_out_of_range(self):
        self.vmm.handshake()
        self.assertEqual(self.vmm.ask(vmm.GET_CONFIG, struct.pack('<III', 200, 100, 0)), b'')
        self.assertEqual(self.vmm.ask(vmm.GET_CONFIG, struct.pack('<III', 0xffffffff, 2, 0)), b'')
        self.assertEqual(self.vmm.ask(vmm.GET_CONFIG, b''), b'')

    def test_refuses_features_not_offered(self):
        self.vmm.handshake()
        self.assertFalse(self.vmm.tell(vmm.SET_FEATURES, struct.pack('<Q', 1 << 32 | 1 << 28)))

    def test_unknown_and_short_messages(self):
        self.vmm.handshake()
        for request in (0, 6, 7, 19, 22, 33, 41, 1000):
            self.assertFalse(self.vmm.tell(request))
        for request in (2, 8, 9, 10, 12, 13, 14, 18, 37, 38, 39):
            self.assertFalse(self.vmm.tell(request, b'\1\2\3'), request)
        self.assertEqual(self.vmm.number(vmm.GET_QUEUE_NUM), 3)

    def test_bad_regions(self):
        self.vmm.handshake()
        ram = self.vmm.ram
        end = ram.low + ram.high
        for region in [(0, 0, 0, 0), (0, 4096, 0, end), (0, end + 4096, 0, 0), ((1 << 64) - 4096, 8192, 0, 0),
                       (0, 8192, (1 << 64) - 4096, 0), (0, 8192, 0, (1 << 64) - 4096)]:
            self.assertFalse(self.vmm.add_region(region), region)
        self.assertTrue(self.vmm.add_region(ram.regions[0]))
        self.assertFalse(self.vmm.add_region(ram.regions[0]), 'overlap')
        self.assertFalse(self.vmm.tell(vmm.ADD_MEM_REG, struct.pack('<QQQQQ', 0, 8 << 30, 4096, 0x1000, 0)), 'no file')
        self.assertTrue(self.vmm.tell(vmm.REM_MEM_REG, struct.pack('<QQQQQ', 0, *ram.regions[0])))
        self.assertFalse(self.vmm.tell(vmm.REM_MEM_REG, struct.pack('<QQQQQ', 0, *ram.regions[0])))

    def test_as_many_regions_as_slots(self):
        self.vmm.handshake()
        slots = self.vmm.number(vmm.GET_MAX_MEM_SLOTS)
        for i in range(slots):
            self.assertTrue(self.vmm.add_region((i << 32, 4096, i << 32, 0)))
        self.assertFalse(self.vmm.add_region((slots << 32, 4096, slots << 32, 0)))

    def test_no_shared_memory_is_explained(self):
        self.vmm.handshake()
        self.assertFalse(self.vmm.tell(vmm.SET_VRING_ENABLE, struct.pack('<II', 0, 1)))
        self.assertIn('share=on', self.daemon.log())

    def test_bad_rings(self):
        self.vmm.handshake()
        self.assertTrue(self.vmm.add_region(self.vmm.ram.regions[0]))
        user = self.vmm.ram.regions[0][2]
        end = user + self.vmm.ram.low
        for size in (0, 3, 2048, 1 << 31):
            self.assertFalse(self.vmm.tell(vmm.SET_VRING_NUM, struct.pack('<II', 0, size)))
        self.assertFalse(self.vmm.tell(vmm.SET_VRING_NUM, struct.pack('<II', 3, 128)))
        self.assertTrue(self.vmm.tell(vmm.SET_VRING_NUM, struct.pack('<II', 0, 128)))
        for place in [(end - 16, user, user), (user, end - 4, user), (user, user, end - 2), (user + 8, user, user),
                      (user, user + 2, user), (0, 0, 0), (1 << 63, 1 << 63, 1 << 63)]:
            self.assertFalse(self.vmm.tell(vmm.SET_VRING_ADDR, struct.pack('<IIQQQQ', 0, 0, *place, 0)), place)
        self.assertFalse(self.vmm.tell(vmm.SET_VRING_KICK, struct.pack('<Q', 0 | 1 << 8)), 'polling')
        self.assertFalse(self.vmm.tell(vmm.SET_VRING_KICK, struct.pack('<Q', 200), [self.vmm.ram.fd]))

    def test_mem_table(self):
        """The older way to give memory."""
        ram = self.vmm.ram
        self.vmm.handshake()
        table = struct.pack('<II', 2, 0) + b''.join(struct.pack('<QQQQ', *region) for region in ram.regions)
        self.assertTrue(self.vmm.tell(vmm.SET_MEM_TABLE, table, [ram.fd, ram.fd]))
        self.vmm.queues = [vmm.Queue(ram, i) for i in range(3)]
        for queue in self.vmm.queues:
            self.vmm.set_up_queue(queue)
            self.assertTrue(self.vmm.enable(queue))
        self.assertEqual(self.vmm.hello(), (0, 1, vmm.CONTROL_MINOR))
        self.assertTrue(self.vmm.tell(vmm.SET_MEM_TABLE, table, [ram.fd, ram.fd]))
        self.assertEqual(self.vmm.create(1)[0][0], 0)
        self.assertFalse(self.vmm.tell(vmm.SET_MEM_TABLE, struct.pack('<II', 9, 0) + bytes(9 * 32)))

    def test_a_second_vm_is_refused(self):
        self.vmm.start()
        other = Vmm(self.daemon)
        with self.assertRaises((vmm.Gone, ConnectionError)):
            other.handshake()
        other.close()
        self.assertIn('second VM', self.daemon.log())
        self.assertEqual(self.vmm.create(1)[0][0], 0)

    def test_giant_message(self):
        self.vmm.socket.sendall(struct.pack('<III', 1, 1, 0xffffffff))
        with self.assertRaises((vmm.Gone, ConnectionError)):
            self.vmm.receive(1)
        self.vmm.close()
        self.vmm = Vmm(self.daemon)
        self.vmm.handshake()

    def test_messages_in_small_pieces(self):
        for byte in struct.pack('<III', vmm.GET_QUEUE_NUM, 1, 0):
            self.vmm.socket.sendall(bytes([byte]))
        self.assertEqual(self.vmm.reply(vmm.GET_QUEUE_NUM), struct.pack('<Q', 3))

    def test_reconnect(self):
        for _ in range(3):
            self.vmm.start()
            self.assertEqual(self.vmm.create(7)[0][0], 0)
            self.vmm.close()
            self.vmm = Vmm(self.daemon)
        self.wait(lambda: not self.daemon.workers())


class Once(unittest.TestCase):
    def test_ends_with_its_vm(self):
        daemon = Daemon('--once')
        device = Vmm(daemon).start()
        self.assertEqual(device.create(1)[0][0], 0)
        device.close()
        self.assertEqual(daemon.process.wait(vmm.LIMIT), 0)
        self.assertFalse(os.path.exists(daemon.vhost_path))
        daemon.stop()

    def test_resident_size(self):
        if vmm.SANITIZED:
            self.skipTest('sanitizers need memory of their own')
        daemon = Daemon()
        device = Vmm(daemon, Ram(low=768 << 20)).start()
        self.assertEqual(device.create(1)[0][0], 0)
        for i in range(3000):
            device.ram.next += 200 << 10
            device.ring(1)
            self.assertEqual(device.request(vmm.DESTROY, context=99), vmm.ERROR['ENOENT'])
        self.assertLess(daemon.resident(), 16 << 20)
        device.close()
        daemon.stop()


if __name__ == '__main__':
    vmm.main()
