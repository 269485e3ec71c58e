# SPDX-License-Identifier: Apache-2.0
"""Workers that are started before there is a guest process for them."""
import contextlib
import os
import re
import signal
import time
import unittest

import vmm
from vmm import ERROR, Client, Daemon, Vmm, wait


def arguments_of(pid):
    with open(f'/proc/{pid}/cmdline') as file:
        return file.read().split('\0')[1:-1]


class Warm(unittest.TestCase):
    def start(self, *options, vhost=False, warm=''):
        os.environ['VCUDA_FAKE_WARM'] = warm
        self.daemon = Daemon(*options, vhost=vhost, local=not vhost)
        self.addCleanup(self.stop)

    def stop(self):
        os.environ.pop('VCUDA_FAKE_WARM', None)
        if self.daemon:
            self.daemon.stop()

    def running(self):
        """The workers' process numbers, once they are the fake program."""
        def is_fake(pid):
            try:
                return os.readlink(f'/proc/{pid}/exe') == os.path.realpath(vmm.FAKE_WORKER)
            except OSError:
                return False
        return {pid for pid in self.daemon.workers() if is_fake(pid)}

    def wait_for(self, count):
        self.assertTrue(wait(lambda: len(self.running()) == count), f'{self.running()}, not {count}: {self.daemon.log()}')
        return self.running()

    def test_none_by_default(self):
        self.start()
        time.sleep(0.3)
        self.assertEqual(self.daemon.workers(), [])

    def test_clients_get_them_and_others_come(self):
        self.start('--warm', '2', '--warm-device', '3')
        first = self.wait_for(2)
        for pid in first:
            # The process exists before it runs its program.
            wait(lambda: arguments_of(pid))
            self.assertEqual(arguments_of(pid), ['--transport', 'later', '--backend', 'auto', '--sandbox', 'off', '--warm', '3'])
            self.assertTrue(vmm.has_own_descriptors(pid), 'it has a descriptor of a guest')
        clients = [Client(self.daemon), Client(self.daemon)]
        pids = {client.attach() for client in clients}
        self.assertEqual(pids, first, 'each its own')
        self.assertEqual(self.wait_for(4) & pids, pids)
        third = Client(self.daemon)
        self.assertIn(third.attach(), self.running() - pids)
        self.wait_for(5)
        for client in (*clients, third):
            client.close()
        self.wait_for(2)

    def test_more_at_once_than_there_are(self):
        self.start('--warm', '1')
        warm, = self.wait_for(1)
        clients = [Client(self.daemon) for _ in range(4)]
        pids = [client.attach() for client in clients]
        self.assertEqual(len(set(pids)), 4)
        self.assertEqual(pids[0], warm)
        # The others are started for their clients, or in advance where a client was slow.
        for pid in pids[1:]:
            self.assertIn(arguments_of(pid)[:2], (['--transport', 'local'], ['--transport', 'later']))
        for client in clients:
            client.close()
        self.wait_for(1)

    def test_the_daemon_keeps_no_descriptor_of_a_client(self):
        self.start('--warm', '1', '--warm-once')
        self.wait_for(1)
        client = Client(self.daemon)
        pid = client.attach()
        own = f'/proc/{self.daemon.process.pid}/fd'

        def held():
            names = []
            for fd in os.listdir(own):
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    names.append(os.readlink(f'{own}/{fd}'))
            return names

        def count(word):
            return len([name for name in held() if word in name])

        # The worker may answer its client before the daemon has closed what it gave away.
        self.assertTrue(wait(lambda: count('socket:') == 4), f'the listeners of clients and of control, a ledger and a gate: {held()}')
        self.assertTrue(wait(lambda: count('eventfd') == 0), held())
        client.close()
        self.assertTrue(wait(lambda: pid not in self.daemon.workers()))

    def test_a_killed_one_is_replaced(self):
        self.start('--warm', '2')
        victim, other = self.wait_for(2)
        os.kill(victim, signal.SIGKILL)
        self.assertTrue(wait(lambda: victim not in self.daemon.workers()))
        self.assertEqual(self.wait_for(2) & {victim, other}, {other})
        self.assertEqual(self.daemon.log().count('a warm worker failed'), 1)
        client = Client(self.daemon)
        self.assertEqual(client.attach(), other)
        client.close()

    def test_failures_are_told_once_and_retried_slowly(self):
        self.start('--warm', '1', warm='fails')
        time.sleep(4)
        log = self.daemon.log()
        self.assertEqual(log.count('a warm worker failed'), 1, log)
        self.assertEqual(log.count('ended with status 4'), 1, log)
        starts = len(re.findall(r'worker \d+ started', log))
        self.assertIn(starts, (2, 3), log)
        client = Client(self.daemon)
        self.assertEqual(arguments_of(client.attach())[1], 'local')
        client.close()

    def test_one_that_ends_before_it_has_its_client(self):
        for how in ('dies', 'refuses'):
            self.start('--warm', '1', '--warm-once', warm=how)
            self.wait_for(1)
            client = Client(self.daemon)
            self.assertEqual(arguments_of(client.attach())[1], 'local', how)
            client.close()
            self.assertTrue(wait(lambda: not self.daemon.workers()))
            self.daemon.stop()
            self.daemon = None

    def test_one_that_is_dead_is_not_given_away(self):
        self.start('--warm', '1', '--warm-once')
        warm, = self.wait_for(1)
        os.kill(self.daemon.process.pid, signal.SIGSTOP)
        os.kill(warm, signal.SIGKILL)
        client = Client(self.daemon)
        os.kill(self.daemon.process.pid, signal.SIGCONT)
        self.assertEqual(arguments_of(client.attach())[1], 'local')
        client.close()

    def test_limits_hold(self):
        self.start('--warm', '2', '--max-contexts', '2')
        self.wait_for(2)
        clients = [Client(self.daemon) for _ in range(3)]
        self.assertTrue(clients[0].attach() and clients[1].attach())
        with self.assertRaises((AssertionError, ConnectionError)):
            self.assertTrue(clients[2].attach())
        for client in clients:
            client.close()

    def test_once(self):
        self.start('--warm', '1', '--warm-once')
        warm, = self.wait_for(1)
        client = Client(self.daemon)
        self.assertEqual(client.attach(), warm)
        time.sleep(0.5)
        self.assertEqual(self.daemon.workers(), [warm])
        client.close()

    def test_they_end_with_the_daemon(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.start('--warm', '3')
            pids = self.wait_for(3)
            self.daemon.process.send_signal(number)
            self.daemon.process.wait(vmm.LIMIT)
            self.assertTrue(wait(lambda: not [pid for pid in pids if os.path.exists(f'/proc/{pid}')]))
            self.daemon.directory.cleanup()
            self.daemon = None

    def test_they_keep_no_idle_daemon(self):
        self.start('--warm', '2', '--exit-when-idle', '1')
        self.assertEqual(self.daemon.process.wait(vmm.LIMIT), 0)

    def test_a_vm(self):
        self.start('--warm', '1', '--max-pinned', '64K', vhost=True)
        warm, = self.wait_for(1)
        device = Vmm(self.daemon).start()
        reply, extents = device.create(1)
        self.assertEqual(reply, (0, 1, 7))
        self.assertEqual(device.ram.word(extents[0][0]), warm)
        device.ring(1)
        self.assertEqual(device.event(), (vmm.WAKE, 0, 1))
        page = device.ram.allocate(17 * 4096, 4096)
        for pages, status in ((17, ERROR['EDQUOT']), (16, 0)):
            self.assertEqual(device.request(vmm.MAP, context=1, address=0x7f1234500000, length=pages * 4096,
                                            flags=vmm.WRITABLE | vmm.LAST, extents=[(page, pages * 4096)]), status)
        second, = self.wait_for(2) - {warm}
        device.close()
        self.assertEqual(self.wait_for(1), {second}, 'it was nobody\'s')


if __name__ == '__main__':
    vmm.main()
