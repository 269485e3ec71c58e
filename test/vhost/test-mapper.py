# SPDX-License-Identifier: Apache-2.0
"""
A worker that was taken over, and the RAM of its VM: code in the real worker and in its mapper tries to reach pages that
were not granted, or are the guest's again. Without the mapper each of the tricks succeeds.
"""
import os
import struct
import sys

import tracee
import vmm
from commands import Commands
from tracee import Tracee, peek, poke
from vmm import ERROR, LAST, LOST, WRITABLE

WORKER = os.environ.get('VCUDA_WORKER') or 'vcuda-worker'
WINDOW = 0x7f1234500000
PAGE = 4096
MMAP, MPROTECT, MUNMAP, SCHED_YIELD, MREMAP, MEMFD = 9, 10, 11, 24, 25, 319
READ, WRITE, SHARED, PRIVATE, FIXED, ANONYMOUS = 1, 2, 1, 2, 0x10, 0x20
SECRET = b'of another process'


class Worker(vmm.Test):
    sandbox = 'best-effort'

    def setUp(self):
        self.daemon = vmm.Daemon('--backend', 'cpu', '--sandbox', self.sandbox, worker=WORKER)
        self.vmm = vmm.Vmm(self.daemon).start()
        (status, _, _), shared = self.vmm.create(1, extents=self.vmm.shared_extents(1))
        self.assertEqual(status, 0, self.daemon.log())
        self.pid, = self.daemon.workers()
        self.assertEqual(Commands(self.vmm, 1, shared[0][0]).hello(), 0)
        self.page = self.new_page(b'granted')
        self.other = self.new_page(SECRET)
        self.read_only = self.new_page(b'granted for reading')
        self.assertEqual(self.map(WINDOW, self.page), 0)
        self.assertEqual(self.map(WINDOW + 4 * PAGE, self.read_only, flags=LAST), 0)

    def tearDown(self):
        super().tearDown()
        self.assertNotIn('Sanitizer', self.log)

    def new_page(self, text):
        gpa = self.vmm.ram.allocate(PAGE, PAGE)
        self.vmm.ram.write(gpa, text)
        return gpa

    def map(self, address, gpa, length=PAGE, flags=WRITABLE | LAST):
        return self.vmm.request(vmm.MAP, context=1, address=address, length=length, flags=flags,
                                extents=[(gpa, length)])

    def unmap(self, address, length=PAGE):
        return self.vmm.request(vmm.UNMAP, context=1, address=address, length=length)

    def is_killed(self):
        self.wait(lambda: not self.daemon.workers(), 30)
        self.assertEqual(self.vmm.event()[0::2], (LOST, 1))

    def thread_of_channel(self):
        """The worker's thread that waits for requests of vcudad, on descriptor 3."""
        def waits(thread):
            with open(f'/proc/{self.pid}/task/{thread}/syscall') as call:
                return call.read().split()[:2] == ['47', '0x3']

        found = []
        self.wait(lambda: found.extend(t for t in os.listdir(f'/proc/{self.pid}/task') if waits(t)) or found)
        return int(found[0])

    def files(self, process):
        return [os.readlink(f'/proc/{process}/fd/{fd}') for fd in os.listdir(f'/proc/{process}/fd')]

    def ram_in_worker(self):
        return [fd for fd in os.listdir(f'/proc/{self.pid}/fd')
                if os.readlink(f'/proc/{self.pid}/fd/{fd}').startswith('/memfd:ram')]

    def fake_unmap(self, address, length=PAGE):
        """The worker goes without the call that unmaps, and says that all is well."""
        head = []
        with Tracee(self.pid, self.thread_of_channel()) as thread:
            head.append(self.vmm.submit(vmm.UNMAP, context=1, address=address, length=length))
            thread.skip_call(MMAP, address, lambda at, size, prot, *_: (at, size, prot) == (address, length, 0))
        return self.vmm.result(head[0])[0]

    def fill_maps(self):
        """The worker takes all mappings that a process may have."""
        with Tracee(self.pid) as main:
            code = main.call(MMAP, 0, PAGE, READ | WRITE, PRIVATE | ANONYMOUS, -1, 0)
            area = main.call(MMAP, 0, 1 << 30, 0, PRIVATE | ANONYMOUS | 0x4000, -1, 0)
            # mov rdi, area; again: mov esi, 4096; mov edx, 1; mov eax, MPROTECT; syscall; add rdi, 8192;
            # test rax, rax; jz again; int3
            poke(self.pid, code, b'\x48\xbf' + struct.pack('<Q', area) + b'\xbe\x00\x10\x00\x00\xba\x01\x00\x00\x00'
                 b'\xb8\x0a\x00\x00\x00\x0f\x05\x48\x81\xc7\x00\x20\x00\x00\x48\x85\xc0\x74\xe3\xcc')
            self.assertEqual(main.call(MPROTECT, code, PAGE, READ | 4), 0)
            self.assertEqual(main.run(code), (1 << 64) + ERROR['ENOMEM'])


class WithMapper(Worker):
    def setUp(self):
        super().setUp()
        with open(f'/proc/{self.pid}/task/{self.pid}/children') as children:
            self.mapper, = (int(pid) for pid in children.read().split())

    def untouched(self):
        self.assertEqual(self.vmm.ram.read(self.other, len(SECRET)), SECRET)
        self.alive()

    def descriptor(self, writable):
        """The mapper's descriptor of the RAM."""
        return 2 if writable else 3

    def ask(self, *arguments, number=MMAP):
        """The result of the mapper's system call; None: the mapper was killed."""
        try:
            with Tracee(self.mapper) as mapper:
                return mapper.call(number, *arguments)
        except (tracee.Ended, ProcessLookupError):
            return None

    def ask_for(self, address, gpa, writable=True, length=PAGE, flags=SHARED | FIXED, prot=None, fd=None):
        prot = (READ | WRITE if writable else READ) if prot is None else prot
        fd = self.descriptor(writable) if fd is None else fd
        return self.ask(address, length, prot, flags, fd, self.vmm.ram.offset(gpa))

    def is_refused(self, result):
        self.assertIn(result, (ERROR['EPERM'], None))
        self.is_killed()
        self.assertFalse(os.path.exists(f'/proc/{self.mapper}') and self.files(self.mapper))
        self.untouched()

    def test_mapping_is_the_guests_memory(self):
        self.assertEqual(peek(self.pid, WINDOW, 7), b'granted')
        poke(self.pid, WINDOW, b'written')
        self.assertEqual(self.vmm.ram.read(self.page, 7), b'written')
        self.assertEqual(self.unmap(WINDOW), 0)
        self.assertEqual(peek(self.pid, WINDOW, 7), bytes(7))
        self.assertEqual(self.map(WINDOW, self.page), 0)
        self.assertEqual(peek(self.pid, WINDOW, 7), b'written')

    def test_worker_has_no_descriptor_of_ram(self):
        self.assertEqual(self.ram_in_worker(), [])
        ram = [name for name in self.files(self.mapper) if name.startswith('/memfd:ram')]
        self.assertEqual(len(ram), 2)

    def test_what_is_granted_may_be_mapped_again(self):
        self.assertEqual(self.ask_for(WINDOW, self.page), WINDOW)
        self.assertEqual(self.ask(number=SCHED_YIELD), 0)
        self.assertEqual(self.unmap(WINDOW), 0)
        self.assertEqual(self.daemon.workers(), [self.pid])

    def test_memory_that_is_not_granted(self):
        self.is_refused(self.ask_for(WINDOW, self.other))

    def test_more_than_is_granted(self):
        self.is_refused(self.ask_for(WINDOW, self.page, length=2 * PAGE))

    def test_second_mapping_elsewhere(self):
        self.is_refused(self.ask_for(WINDOW + 16 * PAGE, self.page))

    def test_second_mapping_where_the_kernel_likes(self):
        self.is_refused(self.ask_for(0, self.page, flags=SHARED))

    def test_writing_where_reading_is_granted(self):
        self.is_refused(self.ask_for(WINDOW + 4 * PAGE, self.read_only))

    def test_descriptor_for_writing_where_reading_is_granted(self):
        self.is_refused(self.ask_for(WINDOW + 4 * PAGE, self.read_only, False, fd=self.descriptor(True)))

    def test_descriptor_with_high_bits(self):
        self.is_refused(self.ask_for(WINDOW, self.page, fd=1 << 32 | self.descriptor(True)))

    def test_other_system_calls_of_the_mapper(self):
        self.is_refused(self.ask(self.descriptor(True), 0, number=32))  # dup

    def test_reading_does_not_become_writing(self):
        with Tracee(self.pid) as main:
            self.assertEqual(main.call(MPROTECT, WINDOW + 4 * PAGE, PAGE, READ | WRITE), ERROR['EACCES'])

    def test_mapping_does_not_move_and_is_not_kept(self):
        calls = {'mremap': (MREMAP, WINDOW, 0, PAGE, 1), 'remap_file_pages': (216, WINDOW, PAGE, 0, 1, 0),
                 'vmsplice': (278, 1, WINDOW, 1, 0), 'io_uring_setup': (425, 1, WINDOW), 'fork': (57,),
                 'clone': (56, 0x100, 0, 0, 0, 0), 'process_vm_readv': (310, self.mapper, WINDOW, 1, WINDOW, 1, 0),
                 'pidfd_open': (434, self.mapper, 0), 'pidfd_getfd': (438, 3, 1, 0), 'ptrace': (101, 16, self.mapper),
                 'kill': (62, self.mapper, 19), 'execve': (59, WINDOW, 0, 0)}
        with Tracee(self.pid) as main:
            for name, call in calls.items():
                self.assertIn(main.call(*call), (None, ERROR['ENOMEM']), name)
        self.assertEqual(self.unmap(WINDOW), 0)
        self.assertEqual(self.daemon.workers(), [self.pid])

    def test_mapping_after_unmap(self):
        self.assertEqual(self.unmap(WINDOW), 0)
        self.is_refused(self.ask_for(WINDOW, self.page))

    def test_unmap_that_is_not_made(self):
        self.assertEqual(self.fake_unmap(WINDOW), 0)
        self.is_killed()
        self.assertRegex(self.daemon.log(), f'worker {self.pid} .* keeps memory that it was to give back: it is killed')
        self.untouched()

    def test_unmap_of_a_part_of_what_is_mapped(self):
        self.assertEqual(self.map(WINDOW + 32 * PAGE, self.vmm.ram.allocate(8 * PAGE, PAGE), 8 * PAGE), 0)
        with Tracee(self.pid, self.thread_of_channel()) as thread:
            self.assertEqual(thread.call(MUNMAP, WINDOW + 32 * PAGE, 7 * PAGE), 0)
        self.assertEqual(self.fake_unmap(WINDOW + 32 * PAGE, 8 * PAGE), 0)
        self.is_killed()

    def test_mmap_that_may_still_come(self):
        """The kernel was told that the mapper may map, and nothing shows that it has."""
        self.assertEqual(self.ask_for(WINDOW, self.page), WINDOW)
        self.assertEqual(self.unmap(WINDOW), 0)
        self.is_killed()

    def test_failed_map_that_was_made(self):
        """A worker that says that it could not map has not mapped."""
        with Tracee(self.pid, self.thread_of_channel()) as thread:
            head = self.vmm.submit(vmm.MAP, context=1, address=WINDOW + 32 * PAGE, length=2 * PAGE,
                                   flags=WRITABLE, extents=[(self.other, PAGE)])
            head = self.vmm.submit(vmm.MAP, context=1, address=WINDOW + 32 * PAGE, length=2 * PAGE, offset=PAGE,
                                   flags=WRITABLE | LAST, extents=[(self.vmm.ram.low - PAGE, 2 * PAGE)])
            thread.skip_call(MMAP, WINDOW + 32 * PAGE, lambda at, *_: at == WINDOW + 32 * PAGE)
        self.assertLess(self.vmm.result(head)[0], 0)
        self.is_killed()

    def test_memory_of_the_worker_is_no_place_for_a_mapping(self):
        """The worker refuses, and has files there as before."""
        with open(f'/proc/{self.pid}/maps') as maps:
            start = min(int(line.split('-')[0], 16) for line in maps if line.endswith('/vcuda-worker\n'))
        self.assertEqual(self.map(start, self.page), ERROR['EADDRNOTAVAIL'])
        self.assertEqual(self.daemon.workers(), [self.pid])

    def test_no_room_to_unmap(self):
        three = self.vmm.ram.allocate(3 * PAGE, PAGE)
        for i in range(3):
            self.assertEqual(self.map(WINDOW + (64 + i) * PAGE, three + i * PAGE), 0)
        self.fill_maps()
        status = self.unmap(WINDOW + 65 * PAGE)
        self.assertIn(status, (0, ERROR['ENOMEM']))
        if status:  # the guest keeps the page
            self.assertEqual(peek(self.pid, WINDOW + 65 * PAGE, 1), self.vmm.ram.read(three + PAGE, 1))
            self.assertEqual(self.fake_unmap(WINDOW + 65 * PAGE), 0)
            self.is_killed()
        else:
            self.is_killed()

    def test_end_of_the_mapper_ends_the_worker(self):
        os.kill(self.mapper, 9)
        self.is_killed()

    def test_end_of_the_worker_ends_the_mapper(self):
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=1), 0)
        self.assertFalse(os.path.exists(f'/proc/{self.mapper}') and self.files(self.mapper))


class Warm(vmm.Test):
    """A worker that has a mapper before it is known whose it is to be."""

    def setUp(self):
        self.daemon = vmm.Daemon('--backend', 'cpu', '--warm', '1', '--warm-device', 'none', worker=WORKER, local=True)
        self.vmm = vmm.Vmm(self.daemon).start()
        self.wait(lambda: self.daemon.workers())
        self.pid, = self.daemon.workers()
        self.wait(lambda: self.mappers())

    def mappers(self):
        def name(pid):
            with open(f'/proc/{pid}/comm') as comm:
                return comm.read().strip()

        with open(f'/proc/{self.pid}/task/{self.pid}/children') as children:
            return [pid for pid in children.read().split() if name(pid) == 'vcuda-mapper']

    def test_becomes_the_guests(self):
        self.assertEqual(self.vmm.create(1)[0][0], 0)
        page = self.vmm.ram.allocate(PAGE, PAGE)
        self.vmm.ram.write(page, SECRET)
        self.assertEqual(self.vmm.request(vmm.MAP, context=1, address=WINDOW, length=PAGE, flags=LAST,
                                          extents=[(page, PAGE)]), 0)
        self.assertEqual(peek(self.pid, WINDOW, len(SECRET)), SECRET)
        self.assertEqual(len(self.mappers()), 1)

    def test_becomes_a_local_one(self):
        client = vmm.Client(self.daemon)
        self.assertEqual(client.attach(), self.pid)
        self.assertEqual(self.mappers(), [])
        client.close()


class WithoutMapper(Worker):
    """The same tricks: the tests above can fail."""
    sandbox = 'off'

    def test_all_memory_is_in_reach(self):
        fd = int(self.ram_in_worker()[0])
        with Tracee(self.pid) as main:
            at = main.call(MMAP, 0, PAGE, READ | WRITE, SHARED, fd, self.vmm.ram.offset(self.other))
        self.assertEqual(peek(self.pid, at, len(SECRET)), SECRET)

    def test_reading_becomes_writing(self):
        with Tracee(self.pid) as main:
            self.assertEqual(main.call(MPROTECT, WINDOW + 4 * PAGE, PAGE, READ | WRITE), 0)

    def test_mapping_moves(self):
        with Tracee(self.pid) as main:
            at = main.call(MREMAP, WINDOW, 0, PAGE, 1)
        self.assertEqual(self.unmap(WINDOW), 0)
        poke(self.pid, at, b'stolen')
        self.assertEqual(self.vmm.ram.read(self.page, 6), b'stolen')

    def test_unmap_that_is_not_made(self):
        self.assertEqual(self.fake_unmap(WINDOW), 0)
        poke(self.pid, WINDOW, b'stolen')
        self.assertEqual(self.vmm.ram.read(self.page, 6), b'stolen')


if __name__ == '__main__':
    if os.geteuid():
        print('ptrace of a worker needs root', file=sys.stderr)
        sys.exit(77)
    vmm.main()
