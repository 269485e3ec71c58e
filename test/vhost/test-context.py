# SPDX-License-Identifier: Apache-2.0
"""Control requests of a well-behaved driver, and workers of all kinds."""
import os
import signal
import time

import vmm
from vmm import ERROR, LAST, LOST, SHM_BYTES, WAKE, WRITABLE

WINDOW = 0x7f1234500000


class Device(vmm.Test):
    def pid(self, extents):
        """The worker's process id: the fake worker writes it into its shared area."""
        return self.vmm.ram.word(extents[0][0])

    def map(self, context=1, **arguments):
        arguments.setdefault('address', WINDOW)
        arguments.setdefault('flags', WRITABLE | LAST)
        extents = arguments['extents']
        arguments.setdefault('length', sum(length for _, length in extents))
        return self.vmm.request(vmm.MAP, context=context, **arguments)

    def unmap(self, context=1, address=WINDOW, length=8192):
        return self.vmm.request(vmm.UNMAP, context=context, address=address, length=length)

    def run_of(self, pages):
        return self.vmm.ram.allocate(pages * 4096, 4096), pages * 4096


class Context(Device):
    def test_hello_of_another_major(self):
        self.assertEqual(self.vmm.hello(2, 0), (ERROR['EPROTONOSUPPORT'], 1, vmm.CONTROL_MINOR))
        self.assertIn(f'control version 2.0, this vcudad 1.{vmm.CONTROL_MINOR}', self.daemon.log())
        self.assertEqual(self.vmm.create(1)[0][0], ERROR['EPROTO'])
        self.assertEqual(self.vmm.hello(1, 99), (0, 1, vmm.CONTROL_MINOR))
        self.assertEqual(self.vmm.create(1)[0][0], 0)

    def test_hello_ends_the_contexts_of_an_earlier_driver(self):
        pids = [self.pid(self.vmm.create(i, uid=vmm.IGNORES_END)[1]) for i in (1, 2, 3)]
        self.assertEqual(sorted(pids), sorted(self.daemon.workers()))
        self.assertEqual(self.vmm.hello(), (0, 1, vmm.CONTROL_MINOR))
        self.assertEqual(self.daemon.workers(), [])
        self.assertIsNone(self.vmm.event(0.1))
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=1), ERROR['ENOENT'])
        self.assertEqual(self.vmm.create(1)[0][0], 0)

    def test_create_doorbell_wake_destroy(self):
        (status, major, minor), extents = self.vmm.create(5)
        self.assertEqual((status, major, minor), (0, 1, 7))
        pid = self.pid(extents)
        self.assertEqual(self.daemon.workers(), [pid])
        self.assertTrue(self.vmm.interrupted(vmm.CONTROL))
        for count in range(1, 200):
            self.vmm.ring(5)
            self.assertEqual(self.vmm.event(), (WAKE, 0, 5))
            self.assertEqual(self.vmm.ram.word(extents[0][0] + 8), count)
        self.assertTrue(self.vmm.interrupted(vmm.EVENT))
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=5), 0)
        self.assertFalse(os.path.exists(f'/proc/{pid}'))
        self.vmm.ring(5)
        self.assertIsNone(self.vmm.event(0.1))
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=5), ERROR['ENOENT'])

    def test_worker_that_does_not_fit_is_replaced_once(self):
        _, extents = self.vmm.create(5, uid=vmm.UNFIT_ON_DOORBELL)
        first = self.pid(extents)
        self.vmm.ring(5)
        self.wait(lambda: self.daemon.workers() == [self.pid(extents)] != [first])
        self.assertEqual(self.map(5, extents=[self.run_of(2)]), 0)
        self.assertEqual(self.unmap(5), 0)
        self.vmm.ring(5)
        self.assertEqual(self.vmm.event(), (LOST, ERROR['EPIPE'], 5))
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=5), 0)

    def test_worker_that_does_not_fit_but_has_a_mapping_is_lost(self):
        _, extents = self.vmm.create(5, uid=vmm.UNFIT_ON_DOORBELL)
        self.assertEqual(self.map(5, extents=[self.run_of(2)]), 0)
        self.vmm.ring(5)
        self.assertEqual(self.vmm.event(), (LOST, ERROR['EPIPE'], 5))

    def test_shared_area_in_high_memory_and_across_descriptors(self):
        extents = [((4 << 30) + 8192, SHM_BYTES - 4096), (self.vmm.ram.allocate(4096, 4096), 4096)]
        head = self.vmm.submit(vmm.CREATE, context=1, major=1, extents=extents, pieces=9)
        self.assertEqual(self.vmm.result(head)[0], 0)
        self.assertEqual(self.vmm.ram.word((4 << 30) + 8192), self.daemon.workers()[0])

    def test_create_refused(self):
        good = self.vmm.shared_extents()
        page = (self.vmm.ram.allocate(4096, 4096), 4096)
        for extents, status in [
                ([page], 'EINVAL'), (good + good, 'EINVAL'), ([], 'EINVAL'),
                (good[:-1] + [(good[-1][0] + 8, good[-1][1])], 'EINVAL'),
                (good[:-1] + [(good[-1][0], good[-1][1] - 8)], 'EINVAL'),
                (good + [(page[0], 0)], 'EINVAL'),
                ([(0x40000000, SHM_BYTES)], 'EFAULT'),
                ([(vmm.LOW - 4096, SHM_BYTES)], 'EFAULT'),
                ([((4 << 30) + (32 << 20) - 4096, SHM_BYTES)], 'EFAULT'),
                ([((1 << 64) - 4096, SHM_BYTES)], 'EFAULT'),
                ([(0, (1 << 64) - 4096)] * 2, 'EINVAL')]:
            head = self.vmm.submit(vmm.CREATE, context=1, major=1, extents=extents)
            self.assertEqual(self.vmm.result(head)[0], ERROR[status], extents)
        self.assertEqual(self.vmm.create(0)[0][0], ERROR['EINVAL'])
        self.assertEqual(self.daemon.workers(), [])
        self.assertEqual(self.vmm.create(1)[0][0], 0)
        self.assertEqual(self.vmm.create(1)[0][0], ERROR['EEXIST'])

    def test_too_many_contexts(self):
        shared = self.vmm.shared_extents()
        for i in range(1, 65):
            self.assertEqual(self.vmm.create(i, extents=shared)[0][0], 0)
        self.assertEqual(self.vmm.create(65, extents=shared)[0][0], ERROR['ENOSPC'])
        self.assertIn('--max-contexts', self.daemon.log())
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=1), 0)
        self.assertEqual(self.vmm.create(65, extents=shared)[0][0], 0)
        if not vmm.SANITIZED:
            self.assertLess(self.daemon.resident(), 16 << 20)

    def test_workers_that_fail(self):
        extents = self.vmm.shared_extents()
        for uid, status in [(vmm.EXITS_BEFORE_REPLY, 'EIO'), (vmm.REFUSES, 'ENOMEM'), (vmm.WRONG_COOKIE, 'EIO')]:
            self.assertEqual(self.vmm.create(1, uid=uid, extents=extents)[0][0], ERROR[status])
            self.assertEqual(self.daemon.workers(), [])
        reply, _ = self.vmm.create(1, uid=vmm.OTHER_VERSION, extents=extents)
        self.assertEqual(reply, (ERROR['EPROTONOSUPPORT'], 9, 3))
        self.assertEqual(self.vmm.create(1, extents=extents)[0][0], 0)
        self.assertIsNone(self.vmm.event(0.1))

    def test_worker_killed(self):
        _, extents = self.vmm.create(1)
        self.vmm.create(2)
        self.assertEqual(self.map(extents=[self.run_of(2)]), 0)
        os.kill(self.pid(extents), signal.SIGSEGV)
        self.assertEqual(self.vmm.event(), (LOST, ERROR['EPIPE'], 1))
        self.assertIn('was killed by SIGSEGV', self.daemon.log())
        self.assertEqual(self.map(extents=[self.run_of(1)], address=WINDOW + (1 << 20)), ERROR['EPIPE'])
        self.assertEqual(self.unmap(), 0)
        self.assertEqual(self.unmap(), ERROR['ENOENT'])
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=1), 0)
        self.vmm.ring(2)
        self.assertEqual(self.vmm.event(), (WAKE, 0, 2))

    def test_worker_crashes_on_doorbell(self):
        self.vmm.create(1, uid=vmm.CRASHES_ON_DOORBELL)
        self.vmm.ring(1)
        self.assertEqual(self.vmm.event(), (LOST, ERROR['EPIPE'], 1))

    def test_hostile_workers(self):
        self.vmm.create(1, uid=vmm.FLOODS)
        self.assertEqual(self.vmm.event(), (LOST, ERROR['EPIPE'], 1))
        self.assertIn('nobody asked for', self.daemon.log())
        self.vmm.create(2, uid=vmm.NO_CHANNEL)
        self.assertEqual(self.vmm.event(), (LOST, ERROR['EPIPE'], 2))

    def test_destroy_kills_what_does_not_end(self):
        _, extents = self.vmm.create(1, uid=vmm.IGNORES_END)
        start = time.monotonic()
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=1), 0)
        self.assertGreater(time.monotonic() - start, 1.5)
        self.assertFalse(os.path.exists(f'/proc/{self.pid(extents)}'))

    def test_destroy_while_it_starts_and_twice(self):
        create = self.vmm.submit(vmm.CREATE, context=1, major=1, uid=vmm.SLOW_ATTACH, extents=self.vmm.shared_extents())
        first = self.vmm.submit(vmm.DESTROY, context=1)
        second = self.vmm.submit(vmm.DESTROY, context=1)
        self.assertEqual(self.vmm.result(second)[0], 0)
        self.assertEqual(self.vmm.result(first)[0], 0)
        self.assertEqual(self.vmm.result(create)[0], ERROR['EIO'])

    def test_replies_out_of_order(self):
        slow = self.vmm.submit(vmm.CREATE, context=1, major=1, uid=vmm.SLOW_ATTACH, extents=self.vmm.shared_extents())
        self.assertEqual(self.vmm.create(2)[0][0], 0)
        self.assertFalse(self.vmm.answered(slow))
        self.assertEqual(self.vmm.result(slow)[0], 0)

    def test_map(self):
        self.vmm.create(1)
        extents = [self.run_of(1), ((4 << 30) + 4096, 8192), self.run_of(3)]
        self.assertEqual(self.map(extents=extents), 0)
        for i, (gpa, _) in enumerate(extents):
            self.assertEqual(self.vmm.ram.word(gpa), 0x5a5a000000000000 | i)
        for address, length in [(WINDOW, 24576), (WINDOW + 4096, 4096), (WINDOW - 4096, 8192), (WINDOW + 20480, 8192)]:
            self.assertEqual(self.map(extents=[self.run_of(length // 4096)], address=address), ERROR['EEXIST'])
        self.assertEqual(self.map(extents=[self.run_of(1)], address=WINDOW + 24576), 0)
        self.assertEqual(self.map(extents=[self.run_of(1)], address=WINDOW - 4096), 0)
        for address, length in [(WINDOW, 4096), (WINDOW + 4096, 20480), (WINDOW - 8192, 4096)]:
            self.assertEqual(self.unmap(address=address, length=length), ERROR['ENOENT'])
        self.assertEqual(self.unmap(length=24576), 0)
        self.assertEqual(self.map(extents=extents), 0)

    def test_map_refused(self):
        self.vmm.create(1)
        one = [self.run_of(1)]
        for arguments in [{'length': 8192}, {'length': 0}, {'length': 4097}, {'address': 0}, {'address': WINDOW + 1},
                          {'address': 1 << 47}, {'address': (1 << 47) - 4096, 'length': 8192, 'flags': WRITABLE},
                          {'address': (1 << 64) - 4096}, {'length': 1 << 63, 'flags': WRITABLE}, {'flags': 8 | LAST},
                          {'offset': 4096}, {'offset': 1 << 63}, {'flags': WRITABLE}, {'count': 0}, {'count': 2}]:
            self.assertEqual(self.map(**{'extents': one, **arguments}), ERROR['EINVAL'], arguments)
        self.assertEqual(self.map(extents=one, offset=4096, length=8192), ERROR['ENOENT'])
        self.assertEqual(self.map(extents=one, context=2), ERROR['ENOENT'])
        self.assertEqual(self.map(extents=one), 0)

    def test_map_in_parts(self):
        self.vmm.create(1)
        length = 4096 * 2048 * 2
        gpa = self.vmm.ram.regions[1][0]
        pages = [(gpa + 4096 * i, 4096) for i in range(2048)]
        self.assertEqual(self.map(extents=pages, length=length, flags=WRITABLE), 0)
        self.assertEqual(self.map(extents=pages[::-1], length=length, offset=length // 2), 0)
        self.assertEqual(self.vmm.ram.word(gpa), 0x5a5a000000000000 | 2047)
        self.assertEqual(self.unmap(length=length), 0)

    def test_a_failed_part_ends_the_window(self):
        self.vmm.create(1)
        page = [self.run_of(1)]
        for bad in [{'offset': 8192}, {'flags': 0}, {'extents': [(0x50000000, 4096)]}, {'extents': [(8, 4096)]}]:
            self.assertEqual(self.map(extents=page, length=16384, flags=WRITABLE), 0)
            arguments = {'extents': page, 'length': 16384, 'offset': 4096, 'flags': WRITABLE, **bad}
            self.assertLess(self.map(**arguments), 0)
            self.assertEqual(self.unmap(length=16384), ERROR['ENOENT'], bad)
        self.vmm.create(2, uid=vmm.REFUSES_MAP)
        self.assertEqual(self.map(2, extents=page, length=8192, flags=0), 0)
        self.assertEqual(self.map(2, extents=page, length=8192, offset=4096, flags=LAST), ERROR['EADDRNOTAVAIL'])
        self.assertEqual(self.unmap(2), ERROR['ENOENT'])
        self.assertEqual(self.map(2, extents=page), 0)

    def test_worker_dies_in_map(self):
        self.vmm.create(1, uid=vmm.CRASHES_ON_MAP)
        self.assertEqual(self.map(extents=[self.run_of(1)]), ERROR['EPIPE'])
        self.assertEqual(self.vmm.event(), (LOST, ERROR['EPIPE'], 1))

    def test_busy_unmap(self):
        self.vmm.create(1, uid=vmm.BUSY_UNMAP)
        self.assertEqual(self.map(extents=[self.run_of(2)]), 0)
        for _ in range(2):
            self.assertEqual(self.unmap(), ERROR['EBUSY'])
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=1), 0)

    def test_many_requests_at_once(self):
        self.vmm.create(1)
        heads = [self.vmm.submit(vmm.MAP, context=1, address=WINDOW + 4096 * i, length=4096, flags=LAST,
                                 extents=[self.run_of(1)]) for i in range(60)]
        self.assertEqual({self.vmm.result(head)[0] for head in heads}, {0})

    def test_events_wait_for_buffers(self):
        while self.vmm.event(0.05, repost=False):
            pass
        pids = {i: self.pid(self.vmm.create(i)[1]) for i in range(1, 21)}
        for _ in range(3):
            for i in range(1, 11):
                self.vmm.ring(i)
        time.sleep(0.2)
        for i in range(11, 21):
            os.kill(pids[i], signal.SIGKILL)
        got = []
        while sum(event[0] == LOST for event in got) < 10:
            got.append(self.vmm.event())
        while event := self.vmm.event(1):
            got.append(event)
        # Eight buffers go at once; what came while there was none is told later, once for each context.
        self.assertTrue(all((WAKE, 0, i) in got for i in range(1, 11)))
        self.assertEqual(sorted(e[2] for e in got if e[0] == LOST), list(range(11, 21)))
        self.assertLessEqual(len(got), 8 + 20 + 10)


class Quota(Device):
    options = ('--max-pinned', '64K', '--max-contexts', '3')

    def test_pinned(self):
        self.vmm.create(1)
        self.vmm.create(2)
        self.assertEqual(self.map(extents=[self.run_of(8)]), 0)
        self.assertEqual(self.map(2, extents=[self.run_of(8)]), 0)
        self.assertEqual(self.map(2, extents=[self.run_of(1)], address=WINDOW + (1 << 20)), ERROR['EDQUOT'])
        self.assertIn('--max-pinned', self.daemon.log())
        self.assertEqual(self.unmap(length=32768), 0)
        self.assertEqual(self.map(2, extents=[self.run_of(8)], address=WINDOW + (1 << 20)), 0)
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=2), 0)
        self.assertEqual(self.map(extents=[self.run_of(16)]), 0)


class Rate(vmm.Test):
    """A guest process that is one too many in a second waits."""
    options = ('--max-contexts', '1')
    burst, per_second = 200, 50

    def setUp(self):
        super().setUp()
        self.extents = self.vmm.shared_extents()
        self.begin = time.monotonic()
        self.assertEqual(self.vmm.create(1, extents=self.extents)[0][0], 0)

    def submit(self, context):
        return self.vmm.submit(vmm.CREATE, context=context, major=1, extents=self.extents)

    def use_up(self):
        """All that may start at once; each is refused, as there is one context already."""
        for context in range(2, self.burst + 1):
            self.assertEqual(self.vmm.result(self.submit(context))[0], ERROR['ENOSPC'])

    def test_more_than_a_burst_waits(self):
        self.use_up()
        more = 60
        heads = [self.submit(1000 + i) for i in range(more)]
        self.assertEqual({self.vmm.result(head)[0] for head in heads}, {ERROR['ENOSPC']})
        self.assertGreaterEqual(time.monotonic() - self.begin, (more - 2) / self.per_second)

    def test_other_requests_do_not_wait(self):
        self.use_up()
        heads = [self.submit(1000 + i) for i in range(60)]
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=1), 0)
        for head in heads:
            self.assertIn(self.vmm.result(head)[0], (0, ERROR['ENOSPC']))

    def test_a_new_driver(self):
        """The previous driver's requests are answered, and none of them takes effect."""
        self.use_up()
        heads = [self.submit(1000 + i) for i in range(60)]
        self.assertEqual(self.vmm.hello()[0], 0)
        for head in heads:
            self.assertIn(self.vmm.result(head)[0], (ERROR['ENODEV'], ERROR['ENOSPC']))
        self.assertEqual(self.daemon.workers(), [])

    def test_a_reset_while_some_wait(self):
        self.use_up()
        heads = [self.submit(1000 + i) for i in range(60)]
        for queue in self.vmm.queues:
            self.vmm.stop_queue(queue)
        for head in heads:
            self.assertTrue(self.vmm.answered(head))
        self.assertEqual(self.daemon.workers(), [])

    def test_the_vm_leaves_while_some_wait(self):
        self.use_up()
        for i in range(60):
            self.submit(1000 + i)
        self.vmm.socket.close()
        self.wait(lambda: not self.daemon.workers())
        self.vmm.close()
        self.vmm = vmm.Vmm(self.daemon).start()
        self.assertEqual(self.vmm.create(1)[0][0], 0)


if __name__ == '__main__':
    vmm.main()
