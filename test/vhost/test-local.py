# SPDX-License-Identifier: Apache-2.0
"""Local programs, sockets and the command line."""
import contextlib
import errno
import os
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest

import vmm
from vmm import Client, Daemon, wait


def run(*arguments, **options):
    return subprocess.run([vmm.VCUDAD, *arguments], capture_output=True, text=True, timeout=vmm.LIMIT, **options)


class Local(unittest.TestCase):
    options = ()

    def setUp(self):
        self.daemon = Daemon(*self.options, vhost=False, local=True)

    def tearDown(self):
        self.daemon.stop()

    def test_each_client_has_a_worker(self):
        clients = [Client(self.daemon) for _ in range(5)]
        pids = [client.attach() for client in clients]
        self.assertEqual(sorted(pids), sorted(self.daemon.workers()))
        clients[0].close()
        self.assertTrue(wait(lambda: pids[0] not in self.daemon.workers()))
        self.assertEqual(len(self.daemon.workers()), 4)
        for client in clients[1:]:
            client.close()
        self.assertTrue(wait(lambda: not self.daemon.workers()))

    def test_the_daemon_keeps_no_descriptor_of_a_client(self):
        before = len(os.listdir(f'/proc/{self.daemon.process.pid}/fd'))
        client = Client(self.daemon)
        pid = client.attach()
        held = lambda: len(os.listdir(f'/proc/{self.daemon.process.pid}/fd'))
        # The worker may answer before the daemon has closed what it gave away.
        self.assertTrue(wait(lambda: held() == before + 4), f'{held() - before}: only a pidfd, a log, a ledger and a gate')
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(client.socket.recv(10), b'')
        client.close()

    def test_worker_has_no_descriptor_of_ours(self):
        client = Client(self.daemon)
        self.assertTrue(wait(self.daemon.workers))
        pid, = self.daemon.workers()
        self.assertTrue(wait(lambda: os.readlink(f'/proc/{pid}/exe') == os.path.realpath(vmm.FAKE_WORKER)))
        self.assertTrue(vmm.has_own_descriptors(pid))
        self.assertTrue(os.readlink(f'/proc/{pid}/fd/4').startswith('/memfd:vcuda-worker-table'), 'what all workers share')
        client.close()

    def test_address_layout(self):
        """A worker starts with the one that it needs; the daemon has its own again a moment later."""
        def layout(pid):
            with open(f'/proc/{pid}/personality') as file:
                return int(file.read(), 16)
        client = Client(self.daemon)
        pid = client.attach()
        self.assertEqual(layout(pid) & 0x40000, 0x40000)  # ADDR_NO_RANDOMIZE
        self.assertTrue(wait(lambda: layout(self.daemon.process.pid) == layout('self')))
        client.close()

    def test_environment(self):
        self.daemon.stop()
        os.environ.update(VCUDA_TEST_THING='1', SECRET_THING='2', CUDA_VISIBLE_DEVICES='0', VCUDA_CHECKPOINT='detach')
        self.addCleanup(os.environ.pop, 'VCUDA_CHECKPOINT')
        self.setUp()
        client = Client(self.daemon)
        with open(f'/proc/{client.attach()}/environ') as environment:
            names = {entry.split('=')[0] for entry in environment.read().split('\0')}
        self.assertTrue({'VCUDA_TEST_THING', 'CUDA_VISIBLE_DEVICES', 'PATH'} <= names)
        self.assertNotIn('SECRET_THING', names)
        self.assertNotIn('VCUDA_CHECKPOINT', names)
        client.close()

    def test_ends_are_logged(self):
        for misbehaviour, text in [(vmm.EXITS_BEFORE_REPLY, 'ended with status 5'),
                                   (vmm.CRASHES_ON_MAP, 'killed by SIGSEGV')]:
            client = Client(self.daemon)
            self.assertIsNone(client.attach(misbehaviour))
            client.close()
            self.assertTrue(self.daemon.wait_log(text))

    def test_mode_and_owner(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.daemon.local_path).st_mode), 0o600)

    @unittest.skipIf(os.geteuid(), 'needs root to become another user')
    def test_other_users_are_refused(self):
        os.chmod(self.daemon.local_path, 0o666)
        os.chmod(self.daemon.directory.name, 0o755)
        code = ('import errno, os, sys; sys.path.insert(0, sys.argv[1]); import vmm; os.setuid(12345)\n'
                'class D: local_path = sys.argv[2]\n'
                'client = vmm.Client(D)\n'
                'sys.exit(client.attach() is not None or client.refused != errno.EACCES)')
        # A daemon of a user would let root in; a daemon of root lets only root in.
        subprocess.run(['python3', '-c', code, os.path.dirname(__file__), self.daemon.local_path], check=True, timeout=vmm.LIMIT)
        for option in ('--allow-any-user', '--socket-mode', '--socket-group'):
            self.assertIn(option, self.daemon.log())
        self.assertIn('user 12345 is refused', self.daemon.log())

    @unittest.skipIf(os.path.exists('/dev/nvidiactl') or 'VCUDA_SOCKET' in os.environ, 'there is a driver')
    def test_a_missing_driver_is_told_at_the_start(self):
        daemon = Daemon('--backend', 'cuda', vhost=False, local=True)
        self.assertIn("NVIDIA's driver is not loaded", daemon.log())
        daemon.stop()
        self.assertNotIn("NVIDIA's driver", self.daemon.log())

    def test_a_live_socket_is_not_replaced(self):
        result = run('--socket', self.daemon.local_path, '--worker', vmm.FAKE_WORKER)
        self.assertEqual(result.returncode, 1)
        self.assertIn('another program listens on', result.stderr)
        result = run('--vhost-socket', self.daemon.local_path, '--worker', vmm.FAKE_WORKER)
        self.assertIn('another program listens on', result.stderr)
        client = Client(self.daemon)
        self.assertTrue(client.attach())
        client.close()

    def test_a_path_that_is_there_answers(self):
        """A client that tries all the time finds no path, and then a daemon: it is never refused."""
        for _ in range(40):
            with tempfile.TemporaryDirectory(prefix='vcuda-test-') as directory:
                path = os.path.join(directory, 'socket')
                process = subprocess.Popen([vmm.VCUDAD, '--socket', path, '--worker', vmm.FAKE_WORKER], stderr=subprocess.DEVNULL)
                end, connected = time.monotonic() + vmm.LIMIT, False
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as client:
                    while not connected and time.monotonic() < end:
                        try:
                            client.connect(path)
                            connected = True
                        except FileNotFoundError:
                            pass
                process.terminate()
                self.assertEqual((connected, process.wait(vmm.LIMIT)), (True, 0))

    def test_what_is_behind_the_path_is_kept(self):
        with tempfile.TemporaryDirectory(prefix='vcuda-test-') as directory:
            path = os.path.join(directory, 'socket')
            with open(path + '.new', 'w', encoding='utf-8') as file:
                file.write('mine')
            result = run('--socket', path, '--worker', vmm.FAKE_WORKER)
            self.assertEqual(result.returncode, 1)
            self.assertIn('exists and is not a socket', result.stderr)
            with open(path + '.new', encoding='utf-8') as file:
                self.assertEqual(file.read(), 'mine')

    def test_killed_daemon(self):
        """The daemon's workers end with it, and the next daemon replaces its socket."""
        client = Client(self.daemon)
        pid = client.attach()
        self.daemon.process.kill()
        self.daemon.process.wait()
        self.assertEqual(client.socket.recv(10), b'')
        client.close()
        second = subprocess.Popen([vmm.VCUDAD, '--socket', self.daemon.local_path, '--worker', vmm.FAKE_WORKER,
                                   '--exit-when-idle', '1'], stderr=subprocess.PIPE, text=True)
        self.assertIn('listening on', second.stderr.readline())
        client = Client(self.daemon)
        self.assertTrue(client.attach())
        client.close()
        self.assertEqual(second.wait(vmm.LIMIT), 0)
        second.stderr.close()
        self.daemon = Daemon(vhost=False, local=True)


class Few(unittest.TestCase):
    def test_limit(self):
        daemon = Daemon('--max-contexts', '2', vhost=False, local=True)
        clients = [Client(daemon) for _ in range(3)]
        self.assertTrue(clients[0].attach() and clients[1].attach())
        self.assertIsNone(clients[2].attach())
        self.assertEqual(clients[2].refused, errno.EUSERS)
        clients[0].close()
        self.assertTrue(wait(lambda: len(daemon.workers()) == 1))
        clients[0] = Client(daemon)
        self.assertTrue(clients[0].attach())
        for client in clients:
            client.close()
        self.assertIn('--max-contexts', daemon.stop())

    def test_shares_of_users(self):
        """With other users, one user gets half of the places, and the next one finds some."""
        daemon = Daemon('--max-contexts', '4', '--allow-any-user', '--socket-mode', '0666', vhost=False, local=True)
        clients = [Client(daemon) for _ in range(2)]
        self.assertTrue(clients[0].attach() and clients[1].attach())
        third = Client(daemon)
        self.assertIsNone(third.attach())
        self.assertEqual(third.refused, errno.EUSERS)
        third.close()
        self.assertIn('are for other users', daemon.log())
        if not os.geteuid():
            os.chmod(daemon.directory.name, 0o755)
            code = ('import os, sys; sys.path.insert(0, sys.argv[1]); import vmm; os.setuid(12345)\n'
                    'class D: local_path = sys.argv[2]\n'
                    'sys.exit(not vmm.Client(D).attach())')
            subprocess.run(['python3', '-c', code, os.path.dirname(__file__), daemon.local_path], check=True, timeout=vmm.LIMIT)
        for client in clients:
            client.close()
        daemon.stop()

    def test_a_user_who_connects_too_often_waits(self):
        daemon = Daemon('--max-contexts', '8', vhost=False, local=True)
        waits = lambda: int(daemon.status()['waiting']) > 0

        def connect_until_one_waits():
            end = time.monotonic() + vmm.LIMIT
            while not waits():
                self.assertLess(time.monotonic(), end, 'nobody ever waits')
                for _ in range(50):
                    # One that blocks waits for the daemon to accept others.
                    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as short:
                        short.connect(daemon.local_path)

        connect_until_one_waits()
        client = Client(daemon)
        self.assertTrue(client.attach(), 'who waits is served')
        client.close()
        # vcudad does not wait for these at its end.
        connect_until_one_waits()
        daemon.stop()

    def test_ten_thousand_connections(self):
        """Connections that send nothing or nonsense and close leave nothing behind, on either socket."""
        daemon = Daemon('--max-contexts', '8', vhost=False, local=True)
        first = Client(daemon)
        worker = first.attach()
        held = lambda: len(os.listdir(f'/proc/{daemon.process.pid}/fd'))
        before, resident = held(), daemon.resident()
        for i in range(10000):
            path, kind = ((daemon.local_path, socket.SOCK_SEQPACKET), (daemon.control_path, socket.SOCK_STREAM))[i % 2]
            with socket.socket(socket.AF_UNIX, kind) as hostile:
                hostile.connect(path)
                if i % 3:
                    with contextlib.suppress(ConnectionError):
                        hostile.send(bytes([i % 256]) * (1 + i % 600))
        self.assertTrue(wait(lambda: held() <= before and daemon.workers() == [worker]), daemon.status())
        if not vmm.SANITIZED:
            self.assertLess(daemon.resident(), resident + (2 << 20))
        second = Client(daemon)
        self.assertTrue(second.attach())
        for client in (first, second):
            client.close()
        daemon.stop()

    def test_exit_when_idle(self):
        daemon = Daemon('--exit-when-idle', '1', vhost=False, local=True)
        client = Client(daemon)
        self.assertTrue(client.attach())
        time.sleep(1.5)
        self.assertIsNone(daemon.process.poll())
        client.close()
        self.assertEqual(daemon.process.wait(vmm.LIMIT), 0)
        self.assertFalse(os.path.exists(daemon.local_path))
        daemon.stop()

    def test_clients_and_idle_ends_race(self):
        """A client that got in is served, however late it came."""
        for _ in range(3):
            daemon = Daemon('--exit-when-idle', '1', vhost=False, local=True)
            served = refused = 0
            time.sleep(0.97)
            while not refused:
                try:
                    client = Client(daemon)
                except (ConnectionRefusedError, FileNotFoundError):
                    refused += 1
                    continue
                self.assertTrue(client.attach())
                client.close()
                served += 1
                if served > 20:
                    break
            daemon.stop()

    def test_both_transports(self):
        daemon = Daemon(local=True)
        device = vmm.Vmm(daemon).start()
        client = Client(daemon)
        self.assertTrue(client.attach())
        self.assertEqual(device.create(1)[0][0], 0)
        self.assertEqual(len(daemon.workers()), 2)
        client.close()
        device.close()
        daemon.stop()


class Processors(unittest.TestCase):
    def placed(self, cpus, *options):
        """Where a worker may run, and the daemon that started it, which goes with it for a moment."""
        daemon = Daemon(*(('--cpus', cpus) if cpus else ()), *options, vhost=False, local=True)
        client = Client(daemon)
        worker, ours = client.attach(), os.sched_getaffinity(0)
        wait(lambda: os.sched_getaffinity(daemon.process.pid) == ours)
        sets = [os.sched_getaffinity(pid) for pid in (worker, daemon.process.pid)]
        client.close()
        daemon.stop()
        return sets

    def test_workers_run_on_those_they_are_given(self):
        ours = sorted(os.sched_getaffinity(0))
        self.assertEqual(self.placed(None), [set(ours), set(ours)])
        for some in (ours[-1:], ours[:2], ours):
            self.assertEqual(self.placed(','.join(map(str, some))), [set(some), set(ours)])
        run_of = [cpu for n, cpu in enumerate(ours) if cpu == ours[0] + n]
        self.assertEqual(self.placed(f'{run_of[0]}-{run_of[-1]}'), [set(run_of), set(ours)])
        self.assertEqual(self.placed(str(ours[-1]), '--warm', '1'), [{ours[-1]}, set(ours)])

    def test_lists_that_are_none(self):
        for text in ('', ',', '1,', '-1', '1-', '3-1', '0x1', '0 1', '9999999', 'all'):
            result = run('--socket', '/x', '--cpus', text)
            self.assertEqual(result.returncode, 2, text)
            self.assertIn('give a list such as', result.stderr)
        result = run('--socket', '/x', '--cpus', '1023')
        self.assertEqual(result.returncode, 2)
        self.assertIn('may not run on all', result.stderr)


class CommandLine(unittest.TestCase):
    def test_help_and_version(self):
        for option, text in (('--help', '--vhost-socket'), ('--version', 'vcudad ')):
            result = run(option)
            self.assertEqual(result.returncode, 0)
            self.assertIn(text, result.stdout)

    def test_mistakes(self):
        worker = ['--worker', vmm.FAKE_WORKER]
        for arguments, text in [([], 'nothing to serve'),
                                (['--socket', '/x', '--backend', 'rocm'], 'auto, cuda or cpu'),
                                (['--socket', '/x', '--sandbox', 'some'], 'strict, best-effort, log or off'),
                                (['--socket', '/x', '--worker', '/dev/null/x'], '--worker /dev/null/x'),
                                (['--socket', '/x', '--max-contexts', '0'], 'number from 1'),
                                (['--socket', '/x', '--max-pinned', '3X'], 'such as'),
                                (['--socket', '/x', '--max-pinned', '99999999T'], 'such as'),
                                (['--socket', '/x', '--warm', '65'], 'number from 0 to 64'),
                                (['--socket', '/x', '--warm', '-1'], 'number from 0 to 64'),
                                (['--socket', '/x', '--warm', 'two'], 'number from 0 to 64'),
                                (['--socket', '/x', '--warm', '3', '--max-contexts', '2'], 'more than max-contexts'),
                                (['--socket', '/x', '--warm-device', 'x'], 'number from 0 to 63'),
                                (['--nonsense'], '--help'), (['--socket', '/x', 'nonsense'], 'not an option')]:
            result = run(*arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(text, result.stderr)
        for path, text in [('/dev/null/x', 'cannot listen'), ('/tmp', 'not a socket'),
                           ('/tmp/' + 'x' * 200, 'at most')]:
            result = run('--socket', path, *worker)
            self.assertEqual(result.returncode, 1)
            self.assertIn(text, result.stderr)

    def test_a_file_is_not_replaced(self):
        with tempfile.NamedTemporaryFile() as file:
            self.assertIn('not a socket', run('--socket', file.name, '--worker', vmm.FAKE_WORKER).stderr)
            self.assertTrue(os.path.exists(file.name))

    def test_a_worker_that_cannot_run(self):
        with tempfile.NamedTemporaryFile('w') as file:
            file.write('no program')
            file.flush()
            os.chmod(file.name, 0o755)
            daemon = Daemon(vhost=True, worker=file.name)
            device = vmm.Vmm(daemon).start()
            self.assertEqual(device.create(1)[0][0], vmm.ERROR['EIO'])
            device.close()
            self.assertIn('cannot start', daemon.stop())


class Activation(unittest.TestCase):
    """systemd listens, and passes the socket as descriptor 3."""

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix='vcuda-test-')
        self.local_path = os.path.join(self.directory.name, 'local')
        self.log_path = os.path.join(self.directory.name, 'log')
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.local_path)
        self.listener.listen()

    def tearDown(self):
        self.listener.close()
        self.directory.cleanup()

    def start(self, *options, pid='$$'):
        command = [vmm.VCUDAD, '--worker', vmm.FAKE_WORKER, '--sandbox', 'off', '--verbose', '--control', 'none', '--socket',
                   self.local_path, *options]
        pass_on = f'exec 3<&{self.listener.fileno()}; LISTEN_FDS=1 LISTEN_PID={pid} exec "$@"'
        with open(self.log_path, 'wb') as log:
            return subprocess.Popen(['bash', '-c', pass_on, 'bash', *command], stdout=log, stderr=log,
                                    pass_fds=[self.listener.fileno()])

    def log(self):
        with open(self.log_path) as log:
            return log.read()

    def test_a_client_that_came_before_the_daemon_is_served_and_the_socket_stays(self):
        for _ in range(2):
            client = Client(self)
            daemon = self.start('--exit-when-idle', '1')
            self.assertTrue(client.attach(), self.log())
            client.close()
            self.assertEqual(daemon.wait(vmm.LIMIT), 0, self.log())
            self.assertTrue(stat.S_ISSOCK(os.stat(self.local_path).st_mode))

    def test_sockets_of_another_process_or_path_are_not_taken(self):
        for options, pid in ((), '1'), (('--socket', self.local_path + '2'), '$$'):
            daemon = self.start(*options, pid=pid)
            if options:
                self.assertTrue(wait(lambda: os.path.exists(self.local_path + '2')), self.log())
                daemon.send_signal(signal.SIGTERM)
                self.assertEqual(daemon.wait(vmm.LIMIT), 0, self.log())
            else:
                self.assertEqual(daemon.wait(vmm.LIMIT), 1)
                self.assertIn('another program listens', self.log())


if __name__ == '__main__':
    vmm.main()
