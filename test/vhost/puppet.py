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

KEEPER = 8  # VCUDA_LEDGER_KEEPER
OFFER, WITHDRAW, RESIZE, TAKE_ENTRY, DESCRIPTOR, CANCEL = range(10, 16)  # enum vcuda_keeper_type
ALLOCATION, POOL, POOL_MEMORY = 3, 9, 10  # enum vcuda_share_kind
KEPT = struct.Struct('<IiIIQIIQQQQ16s24s64s')  # struct vcuda_keeper_message
NO_KEY = bytes(16)

WORKER = '''#!{python}
import array, os, socket
end = socket.socket(socket.AF_UNIX)
end.connect(os.environ['VCUDA_TEST_PUPPETS'])
end.sendmsg([str(os.getpid()).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [5, 7]))])
os.close(5)
os.close(7)
while os.read(3, 1 << 16):
    pass
'''


class Worker:
    """The worker's ends of the ledger and of the gate."""

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


class Connection:
    """A worker's, to its guest's keeper."""

    def __init__(self, worker):
        self.socket = connect(worker)
        assert self.socket, 'there is no connection'
        self.socket.settimeout(vmm.LIMIT)

    def ask(self, kind, key=NO_KEY, what=0, length=0, cost=0, fd=None, device=0, has_fd=None, number=0, count=0):
        """(status, key, descriptor or None)"""
        has_fd = fd is not None if has_fd is None else has_fd
        message = KEPT.pack(kind, 0, what, device, number, 0, has_fd, 0, length, cost % (1 << 64), count, key, b'tail', b'note')
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))] if fd is not None else []
        self.socket.sendmsg([message], rights)
        data, control, _, _ = self.socket.recvmsg(1000, socket.CMSG_SPACE(8))
        answer = KEPT.unpack(data)
        assert answer[0] == kind, answer
        return answer[1], answer[11], array.array('i', control[0][2])[0] if control else None

    def offer(self, length, pool=NO_KEY, what=ALLOCATION, fd=None, cost=None, device=0):
        own = os.memfd_create('offered') if fd is None else fd
        if fd is None:
            os.ftruncate(own, length)
        status, key, none = self.ask(OFFER, pool, what, length, length if cost is None else cost, own, device)
        assert none is None
        if fd is None:
            os.close(own)
        return status, key

    def descriptor(self, key):
        status, _, fd = self.ask(DESCRIPTOR, key)
        assert (status == 0) == (fd is not None), status
        return status if fd is None else fd


def connect(worker):
    worker.tell(KEEPER)
    data, control, _, _ = worker.socket.recvmsg(100, socket.CMSG_SPACE(4))
    assert MESSAGE.unpack(data)[0] == KEEPER
    return socket.socket(fileno=array.array('i', control[0][2])[0]) if control else None


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

    def end_worker(self, worker, connection=None):
        """As the kernel does, which closes all of a worker's descriptors before anybody can wait for it."""
        if connection:
            connection.socket.close()
        client, = [c for c, w in self.clients if w is worker]
        self.clients.remove((client, worker))
        client.close()
        worker.close()
        self.assertTrue(wait(lambda: worker.pid not in [int(p['worker']) for p in self.daemon.status()['process']]))

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
