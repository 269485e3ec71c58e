# SPDX-License-Identifier: Apache-2.0
"""Python plays the VMM and the guest's driver: a vhost-user front end, a memfd as guest RAM, queues built by hand."""
import array
import contextlib
import ctypes
import errno
import faulthandler
import mmap
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

VCUDAD = os.environ.get('VCUDAD') or 'vcudad'
FAKE_WORKER = os.environ.get('FAKE_WORKER') or 'fake-worker'
SANITIZED = os.environ.get('VCUDA_SANITIZED') == '1'
PR_SET_CHILD_SUBREAPER = 36
LIMIT = 600  # seconds, for what hangs: a busy machine may take long

CONFIG_MAGIC = 0x4144554356545256
CONTROL_MINOR = 3
CONTROL, EVENT, DOORBELL = 0, 1, 2
HELLO, CREATE, DESTROY, MAP, UNMAP = 1, 2, 3, 4, 5
WRITABLE, LAST, DIRECT = 1, 2, 4
WAKE, LOST = 1, 2
SHM_BYTES = 4096 + (256 << 10) + 64 * 8192 + 8 * (256 << 10)  # of protocol minor 0, the least that there is
(EXITS_BEFORE_REPLY, REFUSES, OTHER_VERSION, WRONG_COOKIE, IGNORES_END, CRASHES_ON_DOORBELL, REFUSES_MAP,
 CRASHES_ON_MAP, BUSY_UNMAP, SLOW_ATTACH, FLOODS, NO_CHANNEL, WRITES_ESCAPES, FLOODS_LOG, FILLS_LOG,
 FORKS, UNFIT_ON_DOORBELL, EATS_ON_DOORBELL, FILLS_MAPPINGS, BREAKS_GATE_ON_DOORBELL, CLOSES_GATE) = range(1001, 1022)

GET_FEATURES, SET_FEATURES, SET_OWNER, SET_MEM_TABLE = 1, 2, 3, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, GET_VRING_BASE = 8, 9, 10, 11
SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR = 12, 13, 14
GET_PROTOCOL_FEATURES, SET_PROTOCOL_FEATURES, GET_QUEUE_NUM, SET_VRING_ENABLE = 15, 16, 17, 18
GET_CONFIG, GET_MAX_MEM_SLOTS, ADD_MEM_REG, REM_MEM_REG, SET_STATUS, GET_STATUS = 24, 36, 37, 38, 39, 40
NEED_REPLY = 8

DESC_NEXT, DESC_WRITE, DESC_INDIRECT = 1, 2, 4
LOW = 256 << 20  # guest RAM below 4 GiB; never touched for the most part


def random_source():
    """Random numbers for a search; VCUDA_TEST_SEED=N repeats a run."""
    seed = int(os.environ.get('VCUDA_TEST_SEED') or random.randrange(1, 1 << 32))
    print(f'seed: VCUDA_TEST_SEED={seed} repeats this run', file=sys.stderr, flush=True)
    return random.Random(seed)


def eventfd():
    return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)


class Daemon:
    """A vcudad of its own, with its sockets in a directory of its own."""

    def __init__(self, *options, vhost=True, local=False, worker=FAKE_WORKER, log=None, user=None):
        self.directory = tempfile.TemporaryDirectory(prefix='vcuda-test-')
        other = {} if user in (None, os.geteuid()) else {'user': user, 'group': user, 'extra_groups': []}
        if other:
            os.chown(self.directory.name, user, user)
        self.vhost_path = os.path.join(self.directory.name, 'vhost')
        self.local_path = os.path.join(self.directory.name, 'local')
        self.log_path = os.path.join(self.directory.name, 'log')
        self.control_path = os.path.join(self.directory.name, 'control')
        command = [VCUDAD, '--worker', worker, '--verbose', '--control', self.control_path]
        command += ['--sandbox', 'off'] if worker == FAKE_WORKER else []
        command += ['--vhost-socket', self.vhost_path] if vhost else []
        command += ['--socket', self.local_path] if local else []
        ready, theirs = os.pipe()
        with open(self.log_path, 'wb') as file:
            self.process = subprocess.Popen(command + ['--ready-fd', str(theirs), *options], stdout=file,
                                            stderr=file if log is None else log, pass_fds=[theirs], **other)
        os.close(theirs)
        with os.fdopen(ready, 'rb') as pipe:
            said = pipe.read()
        assert said == b'ready\n', f'vcudad did not start: {self.log()}'

    def log(self):
        with open(self.log_path, errors='replace') as log:
            return log.read()

    def workers(self):
        with open(f'/proc/{self.process.pid}/task/{self.process.pid}/children') as children:
            return [int(pid) for pid in children.read().split()]

    def wait_log(self, text, seconds=LIMIT):
        return wait(lambda: text in self.log(), seconds)

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(LIMIT)
        log = self.log()
        self.directory.cleanup()
        assert 'Sanitizer' not in log and 'runtime error' not in log, log
        assert status == 0, f'vcudad ended with {status}: {log}'
        return log

    def ask(self, request):
        """Sends one line to the control socket and returns the answer's lines."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
            control.settimeout(LIMIT)
            control.connect(self.control_path)
            control.sendall(request if isinstance(request, bytes) else request.encode() + b'\n')
            answer = b''
            while part := control.recv(4096):
                answer += part
        return answer.decode().splitlines()

    def status(self):
        """The lines of a status by key; of quotas, processes and exports a list of their words."""
        lines = self.ask('status')
        assert lines[0] == 'ok', lines
        status = {'quota': [], 'process': [], 'exports': []}
        for key, _, value in (line.partition(' ') for line in lines[1:]):
            if key in ('quota', 'process', 'exports'):
                status[key].append(dict(word.split('=') for word in value.split()))
            else:
                status[key] = value
        return status

    def quota(self, name):
        quota, = [quota for quota in self.status()['quota'] if quota['name'] == name]
        return int(quota['used']), int(quota['limit']), int(quota['refused'])

    def resident(self):
        with open(f'/proc/{self.process.pid}/status') as status:
            line, = [line for line in status if line.startswith('VmRSS')]
        return int(line.split()[1]) << 10


def has_own_descriptors(pid):
    """Whether a worker without a guest process has its standard ones, channel, worker table, ledger and gate, and no others, once its
    loader has closed the libraries' files."""
    return wait(lambda: {int(fd) for fd in os.listdir(f'/proc/{pid}/fd')} == {0, 1, 2, 3, 4, 5, 7})


class Client:
    """The first requests of a guest library, over the local transport."""

    def __init__(self, daemon):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(LIMIT)
        self.socket.connect(daemon.local_path)
        self.refused = 0

    def attach(self, misbehaviour=0):
        """Returns the worker's process number; None if it ended instead, or vcudad refuses the client (self.refused)."""
        data, control = b'', []
        # vcudad's last message is behind the error that tells of its end.
        with contextlib.suppress(ConnectionError):
            self.socket.send(struct.pack('<IIQQQQIIIIiI', 1, misbehaviour, 77, 0, 0, 0, 1, 0, 0, 0, 0, 0))
            data, control, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(8))
        with contextlib.suppress(ConnectionError):
            if not data:
                data, control, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(8))
        if not data:
            return None
        kind, _, cookie, _, _, _, major, _, _, pid, status, _ = struct.unpack('<IIQQQQIIIIiI', data)
        if status:
            assert (kind, cookie, control) == (1, 1, [])
            self.refused = -status
            return None
        fds = array.array('i', control[0][2])
        for fd in fds:
            os.close(fd)
        assert len(fds) == 2
        assert (kind, cookie, major) == (1, 77, 1)
        return pid

    def close(self):
        self.socket.close()


def wait(condition, seconds=LIMIT):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


class Ram:
    """Guest RAM in two regions of one memfd, as a PC has it: below and above 4 GiB. The VMM's addresses are made up."""

    def __init__(self, low=LOW, high=32 << 20):
        self.low, self.high = low, high
        self.fd = os.memfd_create('ram', os.MFD_CLOEXEC)
        os.ftruncate(self.fd, low + high)
        self.map = mmap.mmap(self.fd, low + high)
        # (guest-physical, size, VMM's address, offset)
        self.regions = [(0, low, 0x7f0000000000, 0), (4 << 30, high, 0x7f8000000000, low)]
        self.next = 1 << 20

    def offset(self, gpa):
        for start, size, _, offset in self.regions:
            if start <= gpa < start + size:
                return offset + gpa - start
        raise ValueError(hex(gpa))

    def user(self, gpa):
        for start, size, user, _ in self.regions:
            if start <= gpa < start + size:
                return user + gpa - start
        raise ValueError(hex(gpa))

    def write(self, gpa, data):
        offset = self.offset(gpa)
        self.map[offset:offset + len(data)] = data

    def read(self, gpa, count):
        offset = self.offset(gpa)
        return self.map[offset:offset + count]

    def word(self, gpa):
        return struct.unpack('<Q', self.read(gpa, 8))[0]

    def allocate(self, count, align=16):
        self.next = (self.next + align - 1) & -align
        gpa = self.next
        self.next += count
        assert self.next <= self.low
        return gpa

    def close(self):
        self.map.close()
        os.close(self.fd)


class Queue:
    def __init__(self, ram, index, size=128):
        self.ram, self.index, self.size = ram, index, size
        self.descriptors = ram.allocate(16 * size, 4096)
        self.available = ram.allocate(6 + 2 * size, 4096)
        self.used = ram.allocate(6 + 8 * size, 4096)
        self.kick, self.call, self.error = eventfd(), eventfd(), eventfd()
        self.reset()

    def reset(self):
        self.ram.write(self.descriptors, bytes(16 * self.size))
        self.ram.write(self.available, bytes(6 + 2 * self.size))
        self.ram.write(self.used, bytes(6 + 8 * self.size))
        self.free = list(range(self.size))
        self.available_index = self.seen = 0
        self.chains = {}

    def describe(self, index, gpa, length, flags=0, following=0):
        self.ram.write(self.descriptors + 16 * index, struct.pack('<QIHH', gpa, length, flags, following))

    def publish(self, head, kick=True):
        """Makes whatever chain starts at head available."""
        slot = self.available + 4 + 2 * (self.available_index % self.size)
        self.ram.write(slot, struct.pack('<H', head & 0xffff))
        self.available_index = (self.available_index + 1) & 0xffff
        self.ram.write(self.available + 2, struct.pack('<H', self.available_index))
        if kick:
            os.eventfd_write(self.kick, 1)

    def add(self, readable, writable, kick=True):
        """readable, writable: lists of (gpa, length)."""
        segments = [(g, n, 0) for g, n in readable] + [(g, n, DESC_WRITE) for g, n in writable]
        indices = [self.free.pop(0) for _ in segments]
        for i, (gpa, length, flags) in enumerate(segments):
            last = i == len(segments) - 1
            self.describe(indices[i], gpa, length, flags | (0 if last else DESC_NEXT), 0 if last else indices[i + 1])
        self.chains[indices[0]] = indices
        self.publish(indices[0], kick)
        return indices[0]

    def poll(self):
        """(head, length) of the next used chain, or None."""
        index, = struct.unpack('<H', self.ram.read(self.used + 2, 2))
        if index == self.seen:
            return None
        head, length = struct.unpack('<II', self.ram.read(self.used + 4 + 8 * (self.seen % self.size), 8))
        self.seen = (self.seen + 1) & 0xffff
        self.free += self.chains.pop(head, [])
        return head, length

    def close(self):
        for fd in (self.kick, self.call, self.error):
            os.close(fd)


class Gone(Exception):
    """vcudad closed the connection."""


class Vmm:
    """The connection, and after start() a running device with the driver's part of it."""

    def __init__(self, daemon, ram=None):
        self.daemon = daemon
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(LIMIT)
        self.socket.connect(daemon.vhost_path)
        self.ram = ram or Ram()
        self.queues = []
        self.events = []
        self.replies = {}
        self.buffers = {}

    # ---- vhost-user ----

    def send(self, request, payload=b'', fds=(), flags=0):
        data = struct.pack('<III', request, 1 | flags, len(payload)) + payload
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))] if fds else []
        self.socket.sendmsg([data], control)

    def receive(self, count):
        data = b''
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise Gone
            data += part
        return data

    def reply(self, request):
        number, flags, size = struct.unpack('<III', self.receive(12))
        assert number == request and flags == 5, (number, request, flags)
        return self.receive(size)

    def ask(self, request, payload=b''):
        self.send(request, payload)
        return self.reply(request)

    def number(self, request):
        return struct.unpack('<Q', self.ask(request))[0]

    def tell(self, request, payload=b'', fds=()):
        """Returns whether vcudad accepted it."""
        self.send(request, payload, fds, NEED_REPLY)
        return struct.unpack('<Q', self.reply(request))[0] == 0

    def config(self, offset=0, size=64):
        reply = self.ask(GET_CONFIG, struct.pack('<III', offset, size, 0) + bytes(size))
        return reply[12:]

    def handshake(self):
        features = self.number(GET_FEATURES)
        assert features & 1 << 32 and features & 1 << 30, hex(features)
        protocol = self.number(GET_PROTOCOL_FEATURES)
        self.send(SET_PROTOCOL_FEATURES, struct.pack('<Q', protocol))
        assert self.number(GET_QUEUE_NUM) >= 3
        self.send(SET_OWNER)
        self.features, self.protocol = features, protocol

    def add_region(self, region, fd=None):
        return self.tell(ADD_MEM_REG, struct.pack('<QQQQQ', 0, region[0], region[1], region[2], region[3]),
                         [self.ram.fd if fd is None else fd])

    def set_up_queue(self, queue, base=0):
        pack = struct.pack
        ram = self.ram
        assert self.tell(SET_VRING_NUM, pack('<II', queue.index, queue.size))
        assert self.tell(SET_VRING_BASE, pack('<II', queue.index, base))
        assert self.tell(SET_VRING_ADDR, pack('<IIQQQQ', queue.index, 0, ram.user(queue.descriptors),
                                              ram.user(queue.used), ram.user(queue.available), 0))
        assert self.tell(SET_VRING_KICK, pack('<Q', queue.index), [queue.kick])
        assert self.tell(SET_VRING_CALL, pack('<Q', queue.index), [queue.call])
        assert self.tell(SET_VRING_ERR, pack('<Q', queue.index), [queue.error])

    def enable(self, queue, on=True):
        return self.tell(SET_VRING_ENABLE, struct.pack('<II', queue.index, int(on)))

    def stop_queue(self, queue):
        index, base = struct.unpack('<II', self.ask(GET_VRING_BASE, struct.pack('<II', queue.index, 0)))
        assert index == queue.index
        return base

    def start(self, hello=True, events=8):
        """All of it: what a VM does up to a driver that said hello."""
        self.handshake()
        self.send(SET_FEATURES, struct.pack('<Q', self.features))
        for region in self.ram.regions:
            assert self.add_region(region)
        self.queues = [Queue(self.ram, i) for i in range(3)]
        for queue in self.queues:
            self.set_up_queue(queue)
        self.send(SET_STATUS, struct.pack('<Q', 0xf))
        for queue in self.queues:
            assert self.enable(queue)
        for _ in range(events):
            self.post_event()
        if hello:
            assert self.hello() == (0, 1, CONTROL_MINOR), 'HELLO failed'
        return self

    # ---- the driver ----

    def submit(self, kind, context=0, flags=0, address=0, length=0, offset=0, uid=0, pid=42, major=0, minor=0,
               extents=(), count=None, pieces=1):
        """Returns the chain's head. pieces: how many descriptors the extents are spread over."""
        request = struct.pack('<IIQQQQIIIIII', kind, flags, context, address, length, offset, uid, pid, major, minor,
                              len(extents) if count is None else count, 0)
        data = request + b''.join(struct.pack('<QQ', *extent) for extent in extents)
        return self.submit_bytes(data, pieces)

    def submit_bytes(self, data, pieces=1):
        at = self.ram.allocate(len(data))
        self.ram.write(at, data)
        step = max(1, -(-len(data) // pieces))
        readable = [(at + i, min(step, len(data) - i)) for i in range(0, len(data), step)]
        place = self.ram.allocate(16)
        head = self.queues[CONTROL].add(readable, [(place, 16)])
        self.buffers[head] = place
        return head

    def answered(self, head):
        queue = self.queues[CONTROL]
        while (used := queue.poll()) is not None:
            place = self.buffers.pop(used[0])
            self.replies[used[0]] = struct.unpack('<iIII', self.ram.read(place, 16)) if used[1] == 16 else None
        return head in self.replies

    def result(self, head, seconds=LIMIT):
        """(status, major, minor) of a submitted request."""
        if not wait(lambda: self.answered(head), seconds):
            raise TimeoutError(f'no reply: {self.daemon.log()}')
        status, _, major, minor = self.replies.pop(head)
        return status, major, minor

    def wait_for(self, condition):
        if not wait(condition):
            raise TimeoutError(f'nothing comes: {self.daemon.log()}')

    def request(self, kind, **arguments):
        return self.result(self.submit(kind, **arguments))[0]

    def hello(self, major=1, minor=0):
        return self.result(self.submit(HELLO, major=major, minor=minor))

    def shared_extents(self, pieces=3):
        """Memory of a shared area, in `pieces` runs that are not neighbours."""
        pages = SHM_BYTES // 4096
        parts = [pages // pieces] * pieces
        parts[0] += pages % pieces
        extents = []
        for part in parts:
            extents.append((self.ram.allocate(part * 4096, 4096), part * 4096))
            self.ram.allocate(4096, 4096)
        return extents

    def create(self, context, **arguments):
        """Returns (reply, extents)."""
        extents = arguments.pop('extents', None) or self.shared_extents()
        arguments.setdefault('major', 1)
        return self.result(self.submit(CREATE, context=context, extents=extents, **arguments)), extents

    def post_event(self, place=None):
        place = place or self.ram.allocate(16)
        head = self.queues[EVENT].add([], [(place, 16)])
        self.buffers[EVENT, head] = place

    def event(self, seconds=LIMIT, repost=True):
        """(type, status, context) of the next event, None if there is none."""
        queue = self.queues[EVENT]
        used = []

        def arrived():
            one = queue.poll()
            if one:
                used.append(one)
            return bool(one)

        if not wait(arrived, seconds):
            return None
        (head, length), = used
        assert length == 16
        place = self.buffers.pop((EVENT, head))
        event = struct.unpack('<IiQ', self.ram.read(place, 16))
        if repost:
            self.post_event(place)
        return event

    def ring(self, context):
        queue = self.queues[DOORBELL]
        while queue.poll():
            pass
        at = self.ram.allocate(8)
        self.ram.write(at, struct.pack('<Q', context))
        queue.add([(at, 8)], [])

    def interrupted(self, index, seconds=LIMIT):
        poll = select.poll()
        poll.register(self.queues[index].call, select.POLLIN)
        return bool(poll.poll(seconds * 1000)) and bool(os.eventfd_read(self.queues[index].call))

    def close(self):
        self.socket.close()
        for queue in self.queues:
            queue.close()
        self.ram.close()


class Test(unittest.TestCase):
    """A daemon and a started device a test."""
    options = ()
    started = True

    def setUp(self):
        self.daemon = Daemon(*self.options)
        self.vmm = Vmm(self.daemon)
        if self.started:
            self.vmm.start()

    def tearDown(self):
        self.vmm.close()
        self.log = self.daemon.stop()

    def alive(self):
        self.assertIsNone(self.daemon.process.poll(), self.daemon.log())

    def wait(self, condition, seconds=LIMIT):
        self.assertTrue(wait(condition, seconds), self.daemon.log())


def reap_orphans():
    """Runs the rest of the test in a child process. The parent waits for all processes that lose theirs: some tests
    leave thousands, and the first process of a container may be slow to wait for them, or may never do so."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), 'PR_SET_CHILD_SUBREAPER')
    test = os.fork()
    if not test:
        return
    while True:
        pid, status = os.wait()
        if pid == test:
            # As a shell does for a process that a signal ends.
            status = os.waitstatus_to_exitcode(status)
            os._exit(status if status >= 0 else 128 - status)


def main():
    reap_orphans()
    for program in (VCUDAD, FAKE_WORKER):
        if not os.access(program, os.X_OK):
            print(f'{program} is missing: set VCUDAD and FAKE_WORKER', file=sys.stderr)
            sys.exit(77)
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    result = unittest.main(module='__main__', verbosity=1, exit=False).result
    for test, reason in result.skipped:
        print(f'skipped: {test}: {reason}', file=sys.stderr)
    if not result.wasSuccessful():
        sys.exit(1)
    # A test that is skipped is no test that has passed.
    sys.exit(77 if len(result.skipped) >= result.testsRun else 0)


ERROR = {name: -getattr(errno, name) for name in errno.errorcode.values()}
