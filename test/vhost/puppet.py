# SPDX-License-Identifier: Apache-2.0
"""Workers for which the test speaks: each passes its ends of vcudad's sockets on, and ends with its client."""
import array
import os
import socket
import struct
import sys
import tempfile
import unittest

import vmm
from vmm import Client, Daemon, wait

JOIN, TAKE, NOTE, GIVE, SYNC, REFUSED = range(1, 7)
MIB = 1 << 20
MESSAGE = struct.Struct('<IIQQ')  # struct vcuda_ledger_message
GATE = struct.Struct('<IIII')  # struct vcuda_gate_message

WORKER = '''#!{python}
import array, os, socket
end = socket.socket(socket.AF_UNIX)
end.connect(os.environ['VCUDA_TEST_PUPPETS'])
end.sendmsg([str(os.getpid()).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [5, 7]))])
os.close(5)
os.close(7)
os.read(3, 1)
'''


class Worker:
    """Its ends of the ledger and of the gate."""

    def __init__(self, end):
        connection, _ = end.accept()
        text, control, _, _ = connection.recvmsg(32, socket.CMSG_SPACE(8))
        self.socket, self.gate = (socket.socket(fileno=fd) for fd in array.array('i', control[0][2]))
        for end in self.socket, self.gate:
            end.settimeout(vmm.LIMIT)
        self.pid = int(text)
        connection.close()

    def tell(self, kind, count=0, spare=0, gpu=0):
        self.socket.send(MESSAGE.pack(kind, gpu, count, spare))

    def ask(self, kind, count=0, spare=0, gpu=0):
        self.tell(kind, count, spare, gpu)
        answer = MESSAGE.unpack(self.socket.recv(100))
        assert answer[:2] == (kind, gpu), answer
        return answer[2]

    def join(self):
        self.tell(JOIN)
        _, control, _, _ = self.socket.recvmsg(100, socket.CMSG_SPACE(4))
        return array.array('i', control[0][2])[0]

    def join_all(self):
        """The descriptors of a worker whose VM has a share: the ledger's page, the worker's own, and its eventfd."""
        self.tell(JOIN)
        _, control, _, _ = self.socket.recvmsg(100, socket.CMSG_SPACE(12))
        return list(array.array('i', control[0][2]))

    def say(self, kind, state):
        self.gate.send(GATE.pack(kind, 0, state, 0))

    def answer(self, kind, state=0):
        """Waits for this request of the gate, and answers it. Returns the descriptor that came with it, or None."""
        data, control, _, _ = self.gate.recvmsg(100, socket.CMSG_SPACE(4))
        assert GATE.unpack(data)[0] == kind, GATE.unpack(data)
        self.say(kind, state)
        return array.array('i', control[0][2])[0] if control else None

    def close(self):
        self.socket.close()
        self.gate.close()


class Case(unittest.TestCase):
    options = ()

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix='vcuda-test-')
        self.addCleanup(self.directory.cleanup)
        program = os.path.join(self.directory.name, 'worker')
        with open(program, 'w') as file:
            file.write(WORKER.format(python=sys.executable))
        os.chmod(program, 0o700)
        os.environ['VCUDA_TEST_PUPPETS'] = os.path.join(self.directory.name, 'puppets')
        self.end = socket.socket(socket.AF_UNIX)
        self.end.settimeout(vmm.LIMIT)
        self.end.bind(os.environ['VCUDA_TEST_PUPPETS'])
        self.end.listen()
        self.clients = []
        self.start(program)
        self.addCleanup(self.stop)

    def start(self, program):
        # In a sandbox the script would find neither its interpreter's files nor our socket.
        self.daemon = Daemon('--sandbox', 'off', *self.options, vhost=False, local=True, worker=program)

    def stop(self):
        self.end.close()
        for client, worker in self.clients:
            client.close()
            worker.close()
        self.daemon.stop()

    def worker(self):
        client = Client(self.daemon)
        worker = Worker(self.end)
        self.clients.append((client, worker))
        return worker

    def state(self, worker):
        process, = [p for p in self.daemon.status()['process'] if int(p['worker']) == worker.pid]
        return process['state'], process.get('pause-failure')

    def becomes(self, worker, state, failure=None):
        self.assertTrue(wait(lambda: self.state(worker) == (state, failure)), f'{self.state(worker)}\n{self.daemon.log()}')


@unittest.skipUnless(os.environ.get('FAKE_DRIVER'), 'no driver of the tests')
class DriverCase(Case):
    """With the driver of the tests (fake-driver) in the place of NVIDIA's, for the programs that vcudad starts."""
    variables = {}

    def setUp(self):
        own = {'LD_LIBRARY_PATH': os.environ['FAKE_DRIVER'], **self.variables}
        before = {name: os.environ.get(name) for name in own}
        os.environ.update(own)
        super().setUp()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
