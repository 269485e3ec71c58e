# SPDX-License-Identifier: Apache-2.0
"""The control socket: what is served, guest processes that are ended, quotas that change."""
import os
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import time
import unittest

import vmm
from vmm import ERROR, LAST, LOST, WAKE, WRITABLE, Client, Daemon, wait

WINDOW = 0x7f1234500000
CLIENTS, CLIENT_S = 16, 10  # at a time, and the time that each has (host/daemon/control.h)


class Vm(vmm.Test):
    options = ('--name', 'tenant-1', '--max-pinned', '64K', '--max-contexts', '3')

    def map(self, context, pages, address=WINDOW):
        extents = [(self.vmm.ram.allocate(pages * 4096, 4096), pages * 4096)]
        return self.vmm.request(vmm.MAP, context=context, address=address, length=pages * 4096, flags=WRITABLE | LAST,
                                extents=extents)

    def processes(self):
        return {int(process['pid']): process for process in self.daemon.status()['process']}

    def test_status(self):
        _, extents = self.vmm.create(1, pid=77, uid=1000)
        self.assertEqual(self.map(1, 4), 0)
        status = self.daemon.status()
        self.assertEqual((status['name'], status['vm'], int(status['pid'])), ('tenant-1', 'connected', self.daemon.process.pid))
        self.assertEqual(status['vhost-socket'], self.daemon.vhost_path)
        self.assertNotIn('local-socket', status)
        process = self.processes()[77]
        self.assertEqual((process['kind'], process['uid'], process['state']), ('vm', '1000', 'running'))
        self.assertEqual((process['mappings'], process['pinned']), ('1', '16384'))
        self.assertEqual(int(process['worker']), self.vmm.ram.word(extents[0][0]))
        self.assertEqual(self.daemon.quota('max-contexts'), (1, 3, 0))
        self.assertEqual(self.daemon.quota('max-pinned'), (16384, 65536, 0))
        self.vmm.socket.close()
        self.assertTrue(wait(lambda: self.daemon.status()['vm'] == 'absent' and not self.processes()))

    def test_queue(self):
        """The guest's indices of its ring are shown only as far as they are plausible."""
        _, extents = self.vmm.create(1, pid=77)
        for tail, head, queue in ((5000, 4200, 800), (1 << 20, (1 << 20) - (256 << 10), 256 << 10), (0, 8, 0), (1 << 40, 0, 0)):
            self.vmm.ram.write(extents[0][0], struct.pack('<Q', tail))
            self.vmm.ram.write(extents[0][0] + 64, struct.pack('<Q', head))
            self.assertEqual(int(self.processes()[77]['queue']), queue)

    def test_vcudad_stopped(self):
        """Requests that come in time are answered, although vcudad is stopped for longer than a client has."""
        def descriptors():
            return len(os.listdir(f'/proc/{self.daemon.process.pid}/fd'))

        clients = [socket.socket(socket.AF_UNIX) for _ in range(CLIENTS)]
        before = descriptors()
        for client in clients:
            client.settimeout(vmm.LIMIT)
            client.connect(self.daemon.control_path)
        self.wait(lambda: descriptors() == before + CLIENTS)
        self.daemon.process.send_signal(signal.SIGSTOP)
        for client in clients:
            client.sendall(b'status\n')
        time.sleep(CLIENT_S + 1)
        self.daemon.process.send_signal(signal.SIGCONT)
        for client in clients:
            self.assertEqual(client.recv(3), b'ok\n')
            client.close()

    def test_pause_of_silent_workers(self):
        """A worker that does not answer, or that has closed its gate, is not paused; nor is another one with it."""
        for uid in 1000, vmm.CLOSES_GATE:
            self.vmm.create(1, pid=77, uid=uid)
            self.assertEqual(self.daemon.ask('pause all 1'), ['ok', 'pausing 1'])
            self.assertEqual(self.processes()[77]['state'], 'pausing')
            self.vmm.create(2, pid=78)
            self.assertEqual(self.processes()[78]['state'], 'pausing')
            self.assertTrue(wait(lambda: self.processes()[77].get('pause-failure') == 'worker'))
            self.assertEqual([p['state'] for p in self.processes().values()], ['running', 'running'])
            self.assertIn('guest process 77 cannot be paused (worker)', self.daemon.log())
            self.assertEqual(self.daemon.ask('resume all'), ['ok', 'resumed 2'])
            for context in 1, 2:
                self.assertEqual(self.vmm.request(vmm.DESTROY, context=context), 0)

    def test_broken_gate(self):
        """A worker that answers what was not asked is killed."""
        self.vmm.create(1, pid=77, uid=vmm.BREAKS_GATE_ON_DOORBELL)
        self.vmm.ring(1)
        self.assertEqual(self.vmm.event()[0], LOST)
        self.assertIn('the worker of guest process 77 breaks the rules of its gate: it is killed', self.daemon.log())

    def test_pause_of_nobody(self):
        self.assertEqual(self.daemon.ask('pause 77'), ['error guest process 77 has no worker here'])
        for request in 'pause', 'pause x', 'pause 77 x', 'pause 77 9999999999', 'resume', 'resume 0':
            self.assertTrue(self.daemon.ask(request)[0].startswith('error give the number'), request)

    def test_kill_one(self):
        self.vmm.create(1, pid=77, uid=1000)
        self.vmm.create(2, pid=78)
        self.assertEqual(self.daemon.ask('kill 77 too\x1b greedy'), ['ok', 'killed 1'])
        self.assertEqual(self.vmm.event(), (LOST, ERROR['ECANCELED'], 1))
        self.assertIn('guest process 77 of user 1000 is killed by user %d of the host: too? greedy' % os.geteuid(),
                      self.daemon.log())
        self.assertEqual(self.processes()[77]['state'], 'lost')
        self.vmm.ring(2)
        self.assertEqual(self.vmm.event(), (WAKE, 0, 2))
        self.assertEqual(self.vmm.request(vmm.DESTROY, context=1), 0)
        self.assertEqual(self.daemon.ask('kill 77'), ['error guest process 77 has no worker here'])

    def test_kill_all(self):
        for context in (1, 2, 3):
            self.vmm.create(context, pid=70 + context)
        self.assertEqual(self.daemon.ask('kill all'), ['ok', 'killed 3'])
        events = sorted(self.vmm.event() for _ in range(3))
        self.assertEqual(events, [(LOST, ERROR['ECANCELED'], context) for context in (1, 2, 3)])
        self.assertEqual(self.daemon.ask('kill all'), ['ok', 'killed 0'])

    def test_kill_while_it_starts(self):
        head = self.vmm.submit(vmm.CREATE, context=1, major=1, uid=vmm.SLOW_ATTACH, pid=77, extents=self.vmm.shared_extents())
        self.wait(self.processes)
        self.daemon.ask('kill 77')
        self.assertIn(self.vmm.result(head)[0], (0, ERROR['EIO']))

    def test_contexts_change(self):
        self.vmm.create(1)
        self.assertEqual(self.daemon.ask('set max-contexts 1'), ['ok'])
        self.assertEqual(self.vmm.create(2, pid=78, uid=1000)[0][0], ERROR['ENOSPC'])
        self.assertIn('guest process 78 of user 1000 is refused: the VM has its 1 contexts (raise --max-contexts)', self.daemon.log())
        self.assertEqual(self.daemon.quota('max-contexts'), (1, 1, 1))
        self.daemon.ask('set max-contexts 2')
        self.assertEqual(self.vmm.create(2)[0][0], 0)

    def test_pinned_changes(self):
        self.vmm.create(1, pid=77, uid=1000)
        self.assertEqual(self.map(1, 8), 0)
        # Below what is in use: nothing is taken away, and nothing more is let in.
        self.assertEqual(self.daemon.ask('set max-pinned 16K'), ['ok'])
        self.assertEqual(self.map(1, 1, WINDOW + (1 << 20)), ERROR['EDQUOT'])
        self.assertIn('guest process 77 of user 1000 is refused a mapping', self.daemon.log())
        self.assertEqual(self.daemon.quota('max-pinned'), (32768, 16384, 1))
        self.daemon.ask('set max-pinned 36K')
        self.assertEqual(self.map(1, 1, WINDOW + (1 << 20)), 0)
        self.assertEqual(self.map(1, 1, WINDOW + (2 << 20)), ERROR['EDQUOT'])

    def test_nonsense(self):
        for request in ('', ' ', 'stat', 'status2', 'kill', 'kill x', 'kill 0', 'kill -1', 'kill 4294967296', 'set', 'set max-contexts',
                        'set max-contexts 0', 'set max-contexts 2 3', 'set max-pinned 1X', 'set nothing 1'):
            answer = self.daemon.ask(request)
            self.assertTrue(answer[0].startswith('error ') and len(answer) == 1, (request, answer))
        self.assertEqual(self.daemon.ask('  status')[0], 'ok')
        self.assertEqual(self.daemon.ask(b'status\nkill all\n')[0], 'ok')
        self.assertIn('error', self.daemon.ask(bytes(range(256)).replace(b'\n', b'') + b'\n')[0])
        # The name of a quota is followed by a value of any kind and length.
        self.assertTrue(self.daemon.ask('set max-pinned ' + '9' * 400)[0].startswith('error '))
        self.assertEqual(self.daemon.quota('max-contexts')[1], 3)


class Connections(unittest.TestCase):
    def setUp(self):
        self.daemon = Daemon(vhost=False, local=True)

    def tearDown(self):
        self.daemon.stop()

    def connect(self):
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        control.settimeout(vmm.LIMIT)
        control.connect(self.daemon.control_path)
        return control

    def test_long_lines_are_dropped(self):
        with self.connect() as control:
            try:
                control.sendall(b'x' * 5000)
                self.assertEqual(control.recv(10), b'')
            except ConnectionError:
                pass
        self.assertEqual(self.daemon.ask('status')[0], 'ok')

    def test_slow_and_silent_clients_hold_up_nobody(self):
        silent = [self.connect() for _ in range(8)]
        silent[0].send(b'sta')
        client = Client(self.daemon)
        self.assertTrue(client.attach())
        self.assertEqual(self.daemon.ask('status')[0], 'ok')
        silent[0].send(b'tus\n')
        self.assertTrue(silent[0].recv(4096).startswith(b'ok\n'))
        # More than vcudad keeps are closed, or served.
        more = [self.connect() for _ in range(16)]
        self.assertTrue(client.socket.fileno() >= 0)
        for control in silent + more:
            control.close()
        self.assertTrue(wait(lambda: self.answers()))
        client.close()

    def answers(self):
        try:
            return self.daemon.ask('status')[:1] == ['ok']
        except ConnectionError:
            return False

    def test_large_answers_to_slow_readers(self):
        """An answer that does not fit into the socket waits for its reader, and delays no other client."""
        clients = [Client(self.daemon) for _ in range(60)]
        for client in clients:
            client.attach()
        with self.connect() as control:
            control.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            control.send(b'status\n')
            self.assertEqual(len(self.daemon.status()['process']), 60)
            answer = b''
            while part := control.recv(100):
                answer += part
        self.assertEqual(answer.count(b'\nprocess '), 60)
        for client in clients:
            client.close()

    def test_mode(self):
        self.assertEqual(stat.S_IMODE(os.stat(self.daemon.control_path).st_mode), 0o600)

    @unittest.skipIf(os.geteuid(), 'needs root to become another user')
    def test_other_users_are_refused(self):
        os.chmod(self.daemon.control_path, 0o666)
        os.chmod(self.daemon.directory.name, 0o755)
        code = ('import os, socket, sys; os.setuid(12345); s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n'
                'try:\n s.send(b"status\\n"); sys.exit(s.recv(10) != b"")\nexcept ConnectionError:\n pass')
        subprocess.run(['python3', '-c', code, self.daemon.control_path], check=True, timeout=vmm.LIMIT)
        self.assertIn('user 12345 is refused at the control socket', self.daemon.log())

    def test_kill_local(self):
        clients = [Client(self.daemon) for _ in range(2)]
        workers = [client.attach() for client in clients]
        process, = {int(process['pid']) for process in self.daemon.status()['process']}
        self.assertEqual(process, os.getpid())
        self.assertEqual(self.daemon.ask(f'kill {process} enough'), ['ok', 'killed 2'])
        for client in clients:
            self.assertEqual(client.socket.recv(10), b'')
            client.close()
        self.assertTrue(wait(lambda: not self.daemon.workers()), workers)
        self.assertEqual(self.daemon.log().count(f'guest process {process} of user {os.geteuid()} is killed'), 2)


class Defaults(unittest.TestCase):
    """Without --control: a socket in the user's directory."""

    def start(self, folder, *options):
        ready, theirs = os.pipe()
        environment = {key: value for key, value in os.environ.items() if key != 'VCUDA_CONTROL'}
        process = subprocess.Popen([vmm.VCUDAD, '--worker', vmm.FAKE_WORKER, '--socket', f'{folder}/x.sock', '--ready-fd', str(theirs),
                                    *options], env=dict(environment, XDG_RUNTIME_DIR=folder), pass_fds=[theirs])
        os.close(theirs)
        with os.fdopen(ready) as pipe:
            self.assertEqual(pipe.read(), 'ready\n')
        return process

    def stop(self, process):
        process.terminate()
        self.assertEqual(process.wait(vmm.LIMIT), 0)

    def test_place(self):
        with tempfile.TemporaryDirectory(prefix='vcuda-test-') as folder:
            process = self.start(folder)
            path = f'{folder}/vcuda/control/{process.pid}'
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
            self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode), 0o700)
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
                control.connect(path)
                control.send(b'status\n')
                self.assertIn(b'\nname x\n', control.recv(4096))
            self.stop(process)
            self.assertFalse(os.path.exists(path))

    def test_a_directory_that_others_write_to_is_not_used(self):
        with tempfile.TemporaryDirectory(prefix='vcuda-test-') as folder:
            os.makedirs(f'{folder}/vcuda/control')
            os.chmod(f'{folder}/vcuda', 0o777)
            process = self.start(folder)
            self.assertEqual(os.listdir(f'{folder}/vcuda/control'), [])
            self.stop(process)

    def test_sockets_of_killed_daemons_go(self):
        with tempfile.TemporaryDirectory(prefix='vcuda-test-') as folder:
            control = f'{folder}/vcuda/control'
            killed = self.start(folder)
            killed.kill()
            killed.wait(vmm.LIMIT)
            with socket.socket(socket.AF_UNIX) as unfinished:
                unfinished.bind(f'{control}/{killed.pid}.new')
            with open(f'{control}/notes', 'w') as notes:
                notes.write('kept')
            alive = self.start(folder, '--socket', f'{folder}/y.sock')
            self.assertEqual(sorted(os.listdir(control)), sorted([str(alive.pid), 'notes']))
            last = self.start(folder, '--socket', f'{folder}/z.sock')
            self.assertEqual(sorted(os.listdir(control)), sorted([str(alive.pid), str(last.pid), 'notes']))
            self.stop(alive)
            self.stop(last)

    def test_none(self):
        with tempfile.TemporaryDirectory(prefix='vcuda-test-') as folder:
            process = self.start(folder, '--control', 'none')
            self.assertFalse(os.path.exists(f'{folder}/vcuda'))
            self.stop(process)

    def test_mistakes(self):
        for options, status, text in ((['--name', ''], 2, '--name'), (['--name', 'a b'], 2, '--name'), (['--name', 'x' * 64], 2, '--name'),
                                      (['--control', '/dev/null/x'], 1, 'cannot listen'), (['--client-timeout', '0'], 2, 'number from 1')):
            result = subprocess.run([vmm.VCUDAD, '--worker', vmm.FAKE_WORKER, '--socket', '/tmp/vcuda-test-unused', *options],
                                    capture_output=True, text=True, timeout=vmm.LIMIT, check=False)
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertIn(text, result.stderr)
            self.assertFalse(os.path.exists('/tmp/vcuda-test-unused'))


if __name__ == '__main__':
    vmm.main()
