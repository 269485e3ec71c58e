# SPDX-License-Identifier: Apache-2.0
"""The image cache: the test has a worker's way to it, and is as hostile there as a worker could be."""
import array
import errno
import fcntl
import hashlib
import os
import socket
import struct
import subprocess
import sys
import unittest

import vmm
from vmm import Client, Daemon, wait

MESSAGE = struct.Struct('<IiQII32s')  # struct vcuda_image_message of protocol/ipc/image-channel.h
LOOK, FIND, OFFER = 1, 2, 3
NEVER, NONE, SOME = 0, 1, 2
PART = 64 << 10
LEAST = 512 << 10
SEALS = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def name(data):
    parts = b''.join(hashlib.sha256(data[at:at + PART]).digest() for at in range(0, len(data), PART))
    return hashlib.sha256(b'virtio-cuda image, version 1' + struct.pack('<Q', len(data)) + parts).digest()


def file_bytes(length):
    return (length + 64 + 4095) & ~4095


def image(data, seals=SEALS, length=None):
    fd = os.memfd_create('image', os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.pwrite(fd, data, 0)
    os.truncate(fd, file_bytes(len(data)) if length is None else length)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def text(number, length=LEAST + 4000):
    return hashlib.shake_128(struct.pack('<Q', number)).digest(length)


class Worker(Client):
    """One whose way to the cache is ours."""

    def __init__(self, daemon):
        super().__init__(daemon)
        assert self.attach(vmm.GIVES_IMAGES)

    def ask(self, kind, length, called=b'', fds=()):
        socket.send_fds(self.images, [MESSAGE.pack(kind, 0, length, 0, 0, called)], fds)

    def answer(self):
        data, fds, _, _ = socket.recv_fds(self.images, 4096, 4)
        return MESSAGE.unpack(data) if data else None, fds

    def look(self, length):
        self.ask(LOOK, length)
        m, fds = self.answer()
        assert not fds and m[:3] == (LOOK, 0, length), m
        return m[3]

    def find(self, data):
        """The descriptor, None: there is none."""
        self.ask(FIND, len(data), name(data))
        m, fds = self.answer()
        assert m[0] == FIND and m[1] == (0 if fds else -errno.ENOENT) and len(fds) <= 1, (m, fds)
        return fds[0] if fds else None

    def offer(self, fd, length):
        self.ask(OFFER, length, fds=[fd])
        os.close(fd)

    def keep(self, data, seconds=vmm.LIMIT):
        self.offer(image(data), len(data))
        return wait(lambda: self.has(data), seconds)

    def has(self, data):
        fd = self.find(data)
        if fd is not None:
            os.close(fd)
        return fd is not None

    def is_cut_off(self):
        try:
            return self.images.recv(4096) == b''
        except ConnectionError:
            return True


class Images(unittest.TestCase):
    def start(self, *options, **how):
        self.daemon = Daemon(*options, local=True, vhost=False, **how)
        self.workers = []

    def worker(self):
        self.workers.append(Worker(self.daemon))
        return self.workers[-1]

    def tearDown(self):
        for worker in self.workers:
            worker.close()
        self.log = self.daemon.stop()

    def test_one_offers_another_finds(self):
        self.start()
        one, other = self.worker(), self.worker()
        data = text(1)
        self.assertEqual(one.look(len(data)), NONE)
        self.assertIsNone(one.find(data))
        self.assertTrue(one.keep(data))
        one.close()
        self.assertEqual(other.look(len(data)), SOME)
        self.assertEqual(other.look(len(data) + 1), NONE)
        fd = other.find(data)
        self.assertEqual(os.pread(fd, file_bytes(len(data)) + 1, 0), data + bytes(file_bytes(len(data)) - len(data)))
        # as long, and not the same
        self.assertFalse(other.has(text(2)))
        # what is found cannot be changed, by nobody
        self.assertEqual(fcntl.fcntl(fd, fcntl.F_GET_SEALS) & SEALS, SEALS)
        with self.assertRaises(PermissionError):
            os.pwrite(fd, b'x', 0)
        with self.assertRaises(PermissionError):
            os.truncate(fd, 0)
        os.close(fd)

    def test_lengths(self):
        self.start('--image-cache', '4')
        worker = self.worker()
        for length, look in ((0, NEVER), (1, NEVER), (LEAST - 1, NEVER), (LEAST, NONE), ((4 << 20) - 64, NONE),
                             ((4 << 20) - 63, NEVER), (1 << 40, NEVER), ((1 << 64) - 1, NEVER)):
            self.assertEqual(worker.look(length), look, length)
        for length in (LEAST, LEAST + 1, LEAST + PART, 12 * PART - 1, 1 << 20, (1 << 20) + 4096 - 64):
            self.assertTrue(worker.keep(text(length, length)), length)

    def test_what_is_not_believed(self):
        """No name is taken from anybody, and nothing that could change."""
        self.start()
        worker, data = self.worker(), text(3)
        length = len(data)
        # under another's name
        self.offer_named(worker, data, name(text(4)))
        self.assertTrue(wait(lambda: worker.has(data)))
        self.assertFalse(worker.has(text(4)))
        for seals in (0, *(SEALS & ~one for one in (fcntl.F_SEAL_WRITE, fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_GROW, fcntl.F_SEAL_SEAL))):
            worker.offer(image(text(5), seals), length)
        for size in (length, file_bytes(length) - 4096, file_bytes(length) + 4096, 1 << 40):
            worker.offer(image(text(5), length=size), length)
        worker.offer(image(text(5) + b'behind'), length)
        for said in (length + 4096, length * 2, 1 << 29, (1 << 64) - 1, 1, 0):
            worker.offer(image(text(5)), said)
        pair, pipe = socket.socketpair(), os.pipe()
        for fd in (pair[0].detach(), pair[1].detach(), *pipe, os.open('/dev/zero', os.O_RDONLY), os.open('/dev/null', os.O_WRONLY),
                   os.open('/', os.O_RDONLY), os.open(__file__, os.O_RDONLY), os.open(__file__, os.O_PATH)):
            worker.offer(fd, length)
        self.assertTrue(worker.keep(text(6)))
        self.assertFalse(worker.has(text(5)))
        self.assertTrue(self.daemon.wait_log('is not kept'))
        self.no_descriptors_left()

    def offer_named(self, worker, data, called):
        fd = image(data)
        worker.ask(OFFER, len(data), called, [fd])
        os.close(fd)

    def no_descriptors_left(self):
        """But those that are kept."""
        own = f'/proc/{self.daemon.process.pid}/fd'
        held = lambda: [os.readlink(f'{own}/{fd}') for fd in os.listdir(own)]
        self.assertTrue(wait(lambda: not [h for h in held() if h.startswith(('pipe:', '/dev/zero')) or h in ('/', __file__)]), held())
        self.assertLessEqual(len([h for h in held() if h.startswith('/memfd:image')]), 2, held())

    def test_who_breaks_the_rules_is_cut_off(self):
        self.start()
        data = text(7)
        fd = image(data)
        for messages in ([b''.ljust(10)], [MESSAGE.pack(LOOK, 0, 1, 0, 0, b'') + b'x'], [MESSAGE.pack(99, 0, 1, 0, 0, b'')],
                         [MESSAGE.pack(OFFER, 0, len(data), 0, 0, b'')]):
            worker = self.worker()
            worker.images.send(messages[0])
            self.assertTrue(worker.is_cut_off(), messages)
        for kind, fds in ((LOOK, [fd]), (FIND, [fd]), (OFFER, [fd, fd]), (OFFER, [fd] * 200)):
            worker = self.worker()
            worker.ask(kind, len(data), fds=fds)
            self.assertTrue(worker.is_cut_off(), (kind, len(fds)))
        os.close(fd)
        # one that asks and never listens
        worker = self.worker()
        worker.images.setblocking(False)
        with self.assertRaises((BrokenPipeError, ConnectionError)):
            wait(lambda: self.push(worker))
        self.assertTrue(self.worker().keep(data))
        self.assertEqual(len(self.daemon.workers()), len(self.workers), 'a worker lives on without')

    def push(self, worker):
        """Some more questions; raises when nobody takes them any more."""
        try:
            for _ in range(1000):
                worker.images.send(MESSAGE.pack(LOOK, 0, LEAST, 0, 0, b''))
        except BlockingIOError:
            pass
        return False

    def test_flood_of_offers(self):
        """What is too much is dropped; others are answered meanwhile, and the next offer is taken."""
        self.start('--image-cache', '64')
        flood, other = self.worker(), self.worker()
        fds = [image(text(n, 8 << 20)) for n in range(20)]
        for _ in range(10):
            for fd in fds:
                flood.ask(OFFER, 8 << 20, fds=[fd])
            self.assertIn(other.look(LEAST), (NONE, SOME))
        for fd in fds:
            os.close(fd)
        self.assertTrue(wait(lambda: other.keep(text(99), 1)))
        own = f'/proc/{self.daemon.process.pid}/fd'
        held = sum(os.stat(f'{own}/{fd}').st_size for fd in os.listdir(own) if os.readlink(f'{own}/{fd}').startswith('/memfd:image'))
        self.assertLessEqual(held, 64 << 20)
        flood.close()

    def test_bounded(self):
        self.start('--image-cache', '2')
        worker, all_data = self.worker(), [text(n, 600 << 10) for n in range(5)]
        for data in all_data:
            self.assertTrue(worker.keep(data))
            # used, so that it stays
            self.assertTrue(worker.has(all_data[0]))
        self.assertEqual([worker.has(data) for data in all_data], [True, False, False, True, True])
        self.assertTrue(self.daemon.wait_log('bytes goes'))

    def test_none(self):
        self.start('--image-cache', '0')
        client = Client(self.daemon)
        self.workers.append(client)
        self.assertTrue(wait(self.daemon.workers))
        pid, = self.daemon.workers()
        self.assertTrue(wait(lambda: os.readlink(f'/proc/{pid}/exe') == os.path.realpath(vmm.FAKE_WORKER)))
        self.assertTrue(vmm.has_descriptors(pid, 5))

    def test_died_in_the_middle(self):
        self.start()
        for n in range(10):
            worker = self.worker()
            worker.offer(image(text(n)), len(text(n)))
            worker.close()
        self.assertTrue(wait(lambda: self.worker().has(text(9))))

    def test_warm(self):
        """Before it has a guest it has no images; then, those of its guest."""
        self.start('--warm', '1')
        self.assertTrue(wait(self.daemon.workers))
        one = self.worker()
        self.assertTrue(one.keep(text(1)))
        self.assertTrue(wait(lambda: len(self.daemon.workers()) == 2))
        self.assertTrue(self.worker().has(text(1)))

    @unittest.skipIf(os.geteuid(), 'needs root to become another user')
    def test_of_another_user(self):
        self.start('--allow-any-user', '--socket-mode', '666')
        data = text(1)
        self.assertTrue(self.worker().keep(data))
        os.chmod(self.daemon.directory.name, 0o755)
        code = ('import os, sys; sys.path.insert(0, sys.argv[1]); images = __import__("test-images"); '
                'images.as_other_user(sys.argv[2])')
        directory = os.path.dirname(os.path.abspath(__file__))
        r = subprocess.run([sys.executable, '-c', code, directory, self.daemon.local_path], timeout=vmm.LIMIT, check=False,
                           stdout=subprocess.PIPE, text=True)
        self.assertEqual(r.stdout, f'look {NONE} finds False keeps True\n')
        self.assertTrue(self.worker().has(data))


def as_other_user(path):
    class Of:
        local_path = path

    os.setuid(12345)
    worker, data = Worker(Of), text(1)
    seen = worker.look(len(data)), worker.has(data)
    print(f'look {seen[0]} finds {seen[1]} keeps {worker.keep(data)}')
    worker.close()


class Vm(vmm.Test):
    options = ('--image-cache', '8')

    def look(self, device, context, extents, length, offer=False):
        at = extents[0][0]
        device.ram.write(at + 16, struct.pack('<QQQ', length, 99, offer))
        device.ring(context)
        self.assertEqual(device.event(), (vmm.WAKE, 0, context))
        return device.ram.word(at + 24)

    def test_what_a_vm_has_goes_with_it(self):
        device = self.vmm
        _, first = device.create(1, uid=vmm.LOOKS)
        _, second = device.create(2, uid=vmm.LOOKS)
        self.assertEqual(self.look(device, 1, first, LEAST, True), NONE)
        self.assertTrue(self.daemon.wait_log('keeps one'))
        self.assertEqual(self.look(device, 2, second, LEAST), SOME)
        device.close()
        self.assertTrue(self.daemon.wait_log('the VM is gone'))
        self.vmm = device = vmm.Vmm(self.daemon).start()
        _, extents = device.create(1, uid=vmm.LOOKS)
        self.assertEqual(self.look(device, 1, extents, LEAST), NONE)


class VmAndLocal(unittest.TestCase):
    def test_neither_sees_the_other(self):
        daemon = Daemon(local=True)
        device = vmm.Vmm(daemon).start()
        _, extents = device.create(1, uid=vmm.LOOKS)
        worker = Worker(daemon)
        self.assertEqual(Vm.look(self, device, 1, extents, LEAST, True), NONE)
        self.assertTrue(daemon.wait_log('keeps one'))
        self.assertEqual(Vm.look(self, device, 1, extents, LEAST), SOME)
        self.assertEqual(worker.look(LEAST), NONE)
        self.assertFalse(worker.has(bytes(LEAST)))
        self.assertTrue(worker.keep(text(1)))
        self.assertEqual(Vm.look(self, device, 1, extents, len(text(1))), NONE)
        worker.close()
        device.close()
        daemon.stop()


if __name__ == '__main__':
    vmm.main()
