# SPDX-License-Identifier: Apache-2.0
"""Faults beside a neighbour that works: it never notices, and after each fault vcudad has what it had before.

VCUDA_TEST_TIMES=10 has each fault ten times as often, VCUDA_TEST_SEED the moments of an earlier run.
"""
import collections
import contextlib
import glob
import os
import random
import re
import resource
import signal
import socket
import struct
import sys
import time
import unittest

import vmm
from vmm import ERROR, LAST, WRITABLE, Client, Daemon, Vmm, wait

TIMES = int(os.environ.get('VCUDA_TEST_TIMES', 1))
SEED = int(os.environ.get('VCUDA_TEST_SEED', time.time_ns() % 2**32))
WINDOW = 0x7f1234500000
NEIGHBOUR = 999  # context number of the neighbour


def inventory(pid):
    """The daemon's resources that may leak."""
    found = collections.Counter()
    for fd in os.listdir(f'/proc/{pid}/fd'):
        with contextlib.suppress(FileNotFoundError):
            found['descriptor ' + re.sub(r'\d+', 'N', os.readlink(f'/proc/{pid}/fd/{fd}'))] += 1
    with open(f'/proc/{pid}/maps') as maps:
        found['mapped files'] = sum(' /' in line for line in maps)
    found['threads'] = len(os.listdir(f'/proc/{pid}/task'))
    with open(f'/proc/{pid}/task/{pid}/children') as children:
        found['children'] = len(children.read().split())
    for path in glob.glob(f'/sys/fs/cgroup/**/vcudad-*-{pid}-*/', recursive=True):
        found['groups'] += sum(entry.is_dir() for entry in os.scandir(path))
    return found


class Beside(unittest.TestCase):
    """A vcudad with both sockets. The neighbour is a context of the VM, which counts its doorbells."""
    log = None

    def setUp(self):
        self.random = random.Random(SEED)
        self.daemon = Daemon('--max-contexts', '32', local=True, log=self.log)
        self.addCleanup(self.daemon.stop)
        self.vmm = Vmm(self.daemon).start()
        self.rings = 0
        reply, extents = self.vmm.create(NEIGHBOUR)
        self.assertEqual(reply[0], 0)
        self.shared = extents[0][0]
        self.spare = self.vmm.shared_extents()
        self.page = self.vmm.ram.allocate(4096, 4096)

    def tearDown(self):
        self.vmm.close()

    def verify(self):
        """The neighbour computes."""
        with self.rewound():
            self.vmm.ring(NEIGHBOUR)
            self.rings += 1
            self.assertTrue(wait(lambda: self.vmm.ram.word(self.shared + 8) == self.rings), self.daemon.log())
            while self.vmm.event(0):
                pass

    def keep(self, workers=1):
        """Notes the resources of vcudad: after a fault they must be the same."""
        self.verify()
        self.assertTrue(wait(lambda: self.has_workers(workers)))
        self.before = inventory(self.daemon.process.pid)
        self.resident = self.daemon.resident()

    def has_workers(self, count):
        """And nothing of others that are gone."""
        found = inventory(self.daemon.process.pid)
        return found['children'] == found['descriptor anon_inode:[pidfd]'] == count and found['groups'] in (0, count)

    def same(self):
        self.verify()
        self.has(self.before)
        if not vmm.SANITIZED:
            self.assertLess(self.daemon.resident() - self.resident, 512 << 10)

    def has(self, before):
        now = lambda: inventory(self.daemon.process.pid)
        self.assertTrue(wait(lambda: now() == before, 60), f'{now() - before} more, {before - now()} less')

    def create(self, context=1, **arguments):
        return self.vmm.create(context, extents=self.spare, **arguments)[0][0]

    def submit(self, kind, **arguments):
        return self.vmm.submit(kind, context=1, **arguments)

    def request(self, kind, **arguments):
        return self.vmm.request(kind, context=1, **arguments)

    def map(self):
        return self.submit(vmm.MAP, address=WINDOW, length=4096, flags=WRITABLE | LAST, extents=[(self.page, 4096)])

    @contextlib.contextmanager
    def rewound(self):
        """A round gives back the guest memory that it takes."""
        rewind = self.vmm.ram.next
        yield
        self.vmm.ram.next = rewind

    def garbage(self):
        return self.random.randbytes(self.random.choice((1, 4, 12, 64, 900, 5000)))

    def attack(self, path, kind):
        with socket.socket(socket.AF_UNIX, kind) as s, contextlib.suppress(OSError):
            s.settimeout(vmm.LIMIT)
            s.connect(path)
            how = self.random.randrange(5)
            if how == 1:
                s.send(self.garbage())
            elif how == 2:
                # A header, and less than it announces.
                s.send(struct.pack('<III', self.random.randrange(45), 1, self.random.randrange(2000)) + self.garbage()[:20])
            elif how == 3:
                socket.send_fds(s, [self.garbage()], [0, 1, s.fileno(), self.vmm.ram.fd][:self.random.randrange(1, 5)])
            elif how == 4:
                s.send(self.garbage())
                s.shutdown(socket.SHUT_WR)
                s.recv(1)


class Faults(Beside):
    # ---- workers ----

    def test_starts_and_ends(self):
        for round in range(20 + 100 * TIMES):
            if round == 20:
                self.keep()
            with self.rewound():
                self.assertEqual(self.create(), 0)
                self.assertEqual(self.request(vmm.DESTROY), 0)
                client = Client(self.daemon)
                self.assertTrue(client.attach())
                client.close()
        self.same()

    def test_killed_at_any_moment(self):
        self.keep()
        for _ in range(50 * TIMES):
            with self.rewound():
                heads = [self.submit(vmm.CREATE, major=1, uid=vmm.FORKS if self.random.random() < 0.2 else 0, extents=self.spare),
                         self.map(), self.submit(vmm.UNMAP, address=WINDOW, length=4096), self.map()]
                time.sleep(self.random.random() * 0.004)
                for pid in self.daemon.workers():
                    if pid != self.vmm.ram.word(self.shared):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                self.verify()
                heads.append(self.submit(vmm.DESTROY))
                # Each is answered, whatever the answer.
                for head in heads:
                    self.vmm.result(head)
        self.same()

    def test_stopped(self):
        self.keep()
        for _ in range(TIMES):
            with self.rewound():
                self.assertEqual(self.create(), 0)
                os.kill(self.vmm.ram.word(self.spare[0][0]), signal.SIGSTOP)
                map = self.map()
                self.verify()
                destroy = self.submit(vmm.DESTROY)
                self.assertEqual(self.vmm.result(map)[0], ERROR['EPIPE'])
                self.assertEqual(self.vmm.result(destroy)[0], 0)
        self.same()

    def test_vcudad_stopped(self):
        """For a while; what happens meanwhile is answered afterwards, and a worker whose answer waits is not late."""
        self.keep()
        for _ in range(5 * TIMES):
            with self.rewound():
                self.assertEqual(self.create(), 0)
                self.daemon.process.send_signal(signal.SIGSTOP)
                heads = [self.map(), self.submit(vmm.UNMAP, address=WINDOW, length=4096), self.map()]
                client = Client(self.daemon)
                os.kill(self.vmm.ram.word(self.spare[0][0]), self.random.choice((signal.SIGKILL, signal.SIGCONT)))
                time.sleep(self.random.random() * 0.1)
                heads.append(self.submit(vmm.DESTROY))
                self.daemon.process.send_signal(signal.SIGCONT)
                for head in heads:
                    self.vmm.result(head)
                self.assertTrue(client.attach())
                client.close()
                self.verify()
        self.same()

    # ---- the VM ----

    def reset(self):
        for queue in self.vmm.queues:
            self.vmm.stop_queue(queue)
        self.vmm.send(vmm.SET_STATUS, struct.pack('<Q', 0))
        for queue in self.vmm.queues:
            queue.reset()
            self.vmm.set_up_queue(queue)
            self.assertTrue(self.vmm.enable(queue))
        self.vmm.replies.clear()
        self.vmm.buffers.clear()
        for _ in range(8):
            self.vmm.post_event()
        self.assertEqual(self.vmm.hello()[0], 0)

    def start_neighbour(self):
        self.rings = 0
        self.vmm.ram.write(self.shared, bytes(16))
        self.assertEqual(self.vmm.create(NEIGHBOUR, extents=[(self.shared, vmm.SHM_BYTES)])[0][0], 0)

    def test_reset_loops(self):
        """The guest's memory is the guest's again after each reset. A local program is the neighbour."""
        client = Client(self.daemon)
        pid = client.attach()
        self.shared = self.vmm.ram.allocate(vmm.SHM_BYTES, 4096)
        self.reset()
        self.start_neighbour()
        self.keep(2)
        for _ in range(20 * TIMES):
            with self.rewound():
                for context in (1, 2):
                    self.submit(vmm.CREATE, major=1, uid=vmm.FORKS, extents=self.spare)
                self.map()
                time.sleep(self.random.random() * 0.003)
                self.reset()
                self.assertEqual(client.attach(), pid)
        self.start_neighbour()
        self.same()
        client.close()

    def test_the_vmm_is_killed(self):
        client = Client(self.daemon)
        pid = client.attach()
        self.vmm.close()
        self.assertTrue(wait(lambda: self.has_workers(1)))
        before = inventory(self.daemon.process.pid)
        for _ in range(10 * TIMES):
            child = os.fork()
            if not child:
                self.play_vmm()
            time.sleep(self.random.random() * 0.1)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self.assertEqual(client.attach(), pid)
        self.has(before)
        client.close()
        self.vmm = Vmm(self.daemon).start()

    def play_vmm(self):
        """Until it is killed."""
        try:
            device = Vmm(self.daemon).start()
            extents = device.shared_extents()
            while True:
                for context in (1, 2):
                    device.create(context, extents=extents)
                for context in (1, 2):
                    device.request(vmm.DESTROY, context=context)
        finally:
            os._exit(1)

    # ---- connections ----

    def test_hostile_local_connections(self):
        self.keep()
        for i in range(1000 * TIMES):
            self.attack(self.daemon.local_path, socket.SOCK_SEQPACKET)
            if i % 50 == 0:
                self.verify()
        self.same()
        client = Client(self.daemon)
        self.assertTrue(client.attach())
        client.close()

    def test_hostile_vmm_connections(self):
        client = Client(self.daemon)
        pid = client.attach()
        # Beside a VM each is refused.
        self.keep(2)
        for _ in range(200 * TIMES):
            self.attack(self.daemon.vhost_path, socket.SOCK_STREAM)
        self.same()
        device, self.vmm = self.vmm, Vmm.__new__(Vmm)
        self.vmm.ram = vmm.Ram()
        device.close()
        self.assertTrue(wait(lambda: self.has_workers(1)))
        before = inventory(self.daemon.process.pid)
        for _ in range(800 * TIMES):
            self.attack(self.daemon.vhost_path, socket.SOCK_STREAM)
        self.assertEqual(client.attach(), pid)
        self.has(before)
        client.close()
        self.vmm.ram.close()
        self.vmm = Vmm(self.daemon).start()

    # ---- resources ----

    @contextlib.contextmanager
    def descriptors(self, more):
        """vcudad may open `more` descriptors beyond what it has."""
        pid = self.daemon.process.pid
        old = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = {int(fd) for fd in os.listdir(f'/proc/{pid}/fd')}
        limit = [fd for fd in range(len(used) + more + 1) if fd not in used][more]
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, old[1]))
        yield
        resource.prlimit(pid, resource.RLIMIT_NOFILE, old)

    def processor_seconds(self):
        with open(f'/proc/{self.daemon.process.pid}/stat') as stat:
            fields = stat.read().rpartition(')')[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def test_no_descriptors(self):
        self.assertEqual(self.create(), 0)
        self.assertEqual(self.request(vmm.DESTROY), 0)
        self.keep()
        for more in range(12):
            with self.rewound(), self.descriptors(more):
                status = self.create(uid=vmm.FORKS)
                self.verify()
                # A live worker is ended nevertheless.
                self.assertEqual(self.request(vmm.DESTROY), 0 if not status else ERROR['ENOENT'])
                client = Client(self.daemon)
                client.socket.settimeout(0.2)
                with contextlib.suppress(OSError):
                    client.attach()
                client.close()
                self.verify()
        self.same()
        self.assertEqual(self.create(), 0)

    def test_connections_without_descriptors_wait(self):
        """vcudad does not try all the time."""
        self.keep()
        with self.descriptors(0):
            clients = [Client(self.daemon) for _ in range(3)]
            before, began = self.processor_seconds(), time.monotonic()
            time.sleep(1)
            self.assertLess(self.processor_seconds() - before, (time.monotonic() - began) / 10)
            self.verify()
        for client in clients:
            self.assertTrue(client.attach())
            client.close()
        self.same()


class FullDisk(Beside):
    """vcudad's log has no room."""
    test_killed_at_any_moment = Faults.test_killed_at_any_moment
    test_hostile_local_connections = Faults.test_hostile_local_connections

    def setUp(self):
        with open('/dev/full', 'wb') as self.log:
            super().setUp()


if __name__ == '__main__':
    print(f'seed {SEED}', file=sys.stderr)
    vmm.main()
