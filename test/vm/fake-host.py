#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A host without workers: plays vcudad's side of protocol/control.h, so that the guest's driver meets every answer.

Runs in vcudad's place (VCUDA_DAEMON). The guest's test chooses a context's scenario through CREATE's minor version:

    0  all is well
    1  DESTROY is answered after a second; until then the host writes to all that it may write to
    2  LOST comes instead of WAKE
    3  MAP fails with EADDRNOTAVAIL at its last part
    4  DESTROY is never answered
    5  DESTROY is answered with EIO
    6  CREATE is never answered
    7  UNMAP is answered after half a second; until then the host writes to the mapping
    8  the host writes to writable mappings all the time, and answers as soon as asked

A major version other than 1 is refused. By convention the wake word is at the start of the shared area: a doorbell adds one to
it. Each CREATE, MAP, UNMAP and DESTROY is checked against what the host knows; `bad` counts what was wrong and is shown, with
other counters, in the shared area at 64 (u32 each): bad, contexts, mappings, hellos, extents of the last mapping, how many mappings are
direct, MAPs so far, files that hold an export. Direct ranges are offered, and are mappings here.
"""

import array
import errno
import mmap
import os
import select
import socket
import struct
import sys
import time

GET_FEATURES, SET_FEATURES, SET_MEM_TABLE = 1, 2, 5
SET_VRING_NUM, SET_VRING_ADDR, SET_VRING_BASE, GET_VRING_BASE = 8, 9, 10, 11
SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR = 12, 13, 14
GET_PROTOCOL_FEATURES, GET_QUEUE_NUM, SET_VRING_ENABLE, GET_CONFIG = 15, 17, 18, 24
FEATURES = 1 << 32 | 1 << 30
PROTOCOL_FEATURES = 1 << 0 | 1 << 9
HELLO, CREATE, DESTROY, MAP, UNMAP = 1, 2, 3, 4, 5
HOLD, DROP = 7, 8
UNKNOWN, TOO_MANY, ANSWERED_LATE, REFUSED_LATE = 1, 2, 3, 5  # names of exports begin with these
WAKE, LOST = 1, 2
WRITABLE, LAST, DIRECT = 1, 2, 4
MAGIC = 0x4144554356545256


class Queue:
    def __init__(self):
        self.size = self.base = 0
        self.addresses = self.kick = self.call = None
        self.enabled = False


class Region:
    def __init__(self, gpa, size, user, offset, fd):
        self.gpa, self.size, self.user, self.offset = gpa, size, user, offset
        self.memory = mmap.mmap(fd, size + offset)
        os.close(fd)


class Context:
    def __init__(self, scenario, extents):
        self.scenario, self.extents = scenario, extents
        self.mappings = {}
        self.pending = None


class Host:
    def __init__(self, connection):
        self.connection = connection
        self.queues = [Queue() for _ in range(3)]
        self.regions, self.contexts = [], {}
        self.held = []
        self.later, self.owed = [], []
        self.bad = self.hellos = self.last_extents = self.maps = 0

    # Guest memory

    def find(self, address, length, user=False):
        for region in self.regions:
            start = address - (region.user if user else region.gpa)
            if 0 <= start and start + length <= region.size:
                return region.memory, region.offset + start
        raise ValueError(f"address {address:#x} is not in the guest's memory")

    def read(self, address, length, user=False):
        memory, at = self.find(address, length, user)
        return memory[at:at + length]

    def write(self, address, data, user=False):
        memory, at = self.find(address, len(data), user)
        memory[at:at + len(data)] = data

    # Queues

    def pop(self, queue):
        """The next request: (head, readable bytes, [(gpa, length) writable]) or None."""
        desc, _, avail = queue.addresses
        (index,) = struct.unpack("<H", self.read(avail + 2, 2, True))
        if index == queue.base % 65536:
            return None
        (head,) = struct.unpack("<H", self.read(avail + 4 + 2 * (queue.base % queue.size), 2, True))
        queue.base = (queue.base + 1) % 65536
        readable, writable, number = b"", [], head
        while True:
            gpa, length, flags, follow = struct.unpack("<QIHH", self.read(desc + 16 * number, 16, True))
            if flags & 2:
                writable.append((gpa, length))
            else:
                readable += self.read(gpa, length)
            if not flags & 1:
                return head, readable, writable
            number = follow

    def push(self, queue, head, length):
        _, used, _ = queue.addresses
        (index,) = struct.unpack("<H", self.read(used + 2, 2, True))
        self.write(used + 4 + 8 * (index % queue.size), struct.pack("<II", head, length), True)
        self.write(used + 2, struct.pack("<H", (index + 1) % 65536), True)
        os.write(queue.call, struct.pack("<Q", 1))

    def answer(self, request, status, major=1, minor=0):
        head, _, writable = request
        self.write(writable[0][0], struct.pack("<iIII", status, 0, major, minor))
        self.push(self.queues[0], head, 16)

    def event(self, kind, status, context):
        """Once there is a buffer for it: the guest may be about to give one back, with its waiter asleep again."""
        if (kind, status, context) not in self.owed:
            self.owed.append((kind, status, context))
        self.pay()

    def pay(self):
        while self.owed and (buffer := self.pop(self.queues[1])):
            self.write(buffer[2][0][0], struct.pack("<IiQ", *self.owed.pop(0)))
            self.push(self.queues[1], buffer[0], 16)

    # Control

    def scribble(self, context, only=None):
        """Writes to the context's writable memory, as a GPU may still do."""
        for address, mapping in context.mappings.items():
            if mapping["writable"] and only in (None, address):
                for gpa, length in mapping["extents"]:
                    for page in range(gpa, gpa + length, 4096):
                        self.write(page + 8, b"scribble")

    def publish(self):
        mappings = sum(len(context.mappings) for context in self.contexts.values())
        direct = sum(mapping["direct"] for context in self.contexts.values() for mapping in context.mappings.values())
        for context in self.contexts.values():
            values = (self.bad, len(self.contexts), mappings, self.hellos, self.last_extents, direct, self.maps, len(self.held))
            self.write(context.extents[0][0] + 64, struct.pack("<8I", *values))

    def complain(self, message):
        print("fake-host:", message, file=sys.stderr, flush=True)
        self.bad += 1

    def control(self, request):
        fields = struct.unpack("<IIQQQQIIIIII", request[1][:64])
        kind, flags, number, address, length, offset, _uid, _pid, major, minor, count, _ = fields
        if len(request[1]) != 64 + 16 * count:
            self.complain(f"{count} extents in {len(request[1])} bytes")
        extents = [struct.unpack_from("<QQ", request[1], 64 + 16 * i) for i in range(count)]
        context = self.contexts.get(number)
        if kind == HELLO:
            self.hellos += 1
            self.forget()
            self.answer(request, 0)
        elif kind == CREATE:
            self.create(request, number, length, major, minor, extents)
        elif kind == HOLD:
            self.hold(request, context, address, length)
        elif kind == DROP:
            self.drop(request, address, length)
        elif context is None:
            self.answer(request, -errno.ENOENT)
        elif kind == MAP:
            self.map(request, context, flags, address, length, offset, extents)
        elif kind == UNMAP:
            self.unmap(request, context, address, length)
        elif kind == DESTROY:
            self.destroy(request, number, context)
        else:
            self.complain(f"request {kind}")
            self.answer(request, -errno.EINVAL)

    def create(self, request, number, length, major, minor, extents):
        if number in self.contexts or not number or sum(extent[1] for extent in extents) != length:
            self.complain(f"CREATE of {number} with {length} bytes")
        if major != 1:
            self.answer(request, -errno.EPROTONOSUPPORT, 1, 7)
            return
        self.contexts[number] = Context(minor, extents)
        if minor != 6:
            self.answer(request, 0, 1, 7)

    def map(self, request, context, flags, address, length, offset, extents):
        mapping = context.mappings.setdefault(address, {"length": length, "extents": [], "ready": False,
                                                      "writable": bool(flags & WRITABLE), "direct": bool(flags & DIRECT)})
        self.maps += 1
        if mapping["direct"] != bool(flags & DIRECT):
            self.complain(f"MAP {address:#x}: parts of two kinds")
        have = sum(extent[1] for extent in mapping["extents"])
        if mapping["ready"] or offset != have or length != mapping["length"]:
            self.complain(f"MAP {address:#x} at {offset} of {length}, after {have}")
        mapping["extents"] += extents
        have += sum(extent[1] for extent in extents)
        if bool(flags & LAST) != (have == length):
            self.complain(f"MAP {address:#x}: last part at {have} of {length}")
        mapping["ready"] = bool(flags & LAST)
        if mapping["ready"]:
            self.last_extents = len(mapping["extents"])
        if mapping["ready"] and context.scenario == 3:
            del context.mappings[address]
            self.answer(request, -errno.EADDRNOTAVAIL)
        else:
            self.answer(request, 0)

    def unmap(self, request, context, address, length):
        mapping = context.mappings.get(address)
        if not mapping:
            self.answer(request, -errno.ENOENT)
            return
        if mapping["length"] != length:
            self.complain(f"UNMAP {address:#x} of {length}, mapped {mapping['length']}")

        def finish():
            self.scribble(context, address)
            del context.mappings[address]
            self.answer(request, 0)

        if context.scenario == 7:
            self.later.append((time.monotonic() + 0.5, context, finish))
        else:
            finish()

    def hold(self, request, context, *name):
        status = {UNKNOWN: -errno.ENOENT, TOO_MANY: -errno.EDQUOT, REFUSED_LATE: -errno.EDQUOT}.get(name[0], 0)
        if not status:
            self.held.append(name)
        if context and name[0] in (ANSWERED_LATE, REFUSED_LATE):
            self.later.append((time.monotonic() + 1, context, lambda: self.answer(request, status)))
        else:
            self.answer(request, status)

    def drop(self, request, *name):
        if name in self.held:
            self.held.remove(name)
            self.answer(request, 0)
        else:
            self.complain(f"DROP of {name}, which no file holds")
            self.answer(request, -errno.ENOENT)

    def finish_unmaps(self, context):
        """Answers the delayed UNMAPs of a context that ends: once DESTROY is answered nothing writes any more."""
        for entry in [entry for entry in self.later if entry[1] is context]:
            self.later.remove(entry)
            entry[2]()

    def destroy(self, request, number, context):
        def finish():
            self.finish_unmaps(context)
            self.scribble(context)
            del self.contexts[number]
            self.answer(request, 0)

        if context.scenario in (4, 6):
            return
        if context.scenario == 5:
            self.answer(request, -errno.EIO)
        elif context.scenario == 1:
            self.later.append((time.monotonic() + 1, context, finish))
        else:
            finish()

    def doorbell(self, request):
        (number,) = struct.unpack("<Q", request[1])
        self.push(self.queues[2], request[0], 0)
        context = self.contexts.get(number)
        if not context:
            return
        self.publish()
        if context.scenario == 2:
            self.event(LOST, -errno.EIO, number)
            return
        word = context.extents[0][0]
        (value,) = struct.unpack("<I", self.read(word, 4))
        self.write(word, struct.pack("<I", (value + 1) & 0xffffffff))
        self.event(WAKE, 0, number)

    # vhost-user

    def message(self):
        """False when QEMU has gone."""
        header, ancillary, _, _ = self.connection.recvmsg(12, socket.CMSG_SPACE(8 * 4))
        if not header:
            return False
        fds = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[:len(data) - len(data) % 4])
        request, _, size = struct.unpack("<III", header)
        payload = self.connection.recv(size, socket.MSG_WAITALL) if size else b""
        self.handle(request, payload, list(fds))
        return True

    def reply(self, request, payload):
        self.connection.sendall(struct.pack("<III", request, 5, len(payload)) + payload)

    def handle(self, request, payload, fds):
        if request == GET_FEATURES:
            self.reply(request, struct.pack("<Q", FEATURES))
        elif request == GET_PROTOCOL_FEATURES:
            self.reply(request, struct.pack("<Q", PROTOCOL_FEATURES))
        elif request == GET_QUEUE_NUM:
            self.reply(request, struct.pack("<Q", 3))
        elif request == GET_CONFIG:
            offset, size, flags = struct.unpack("<III", payload[:12])
            self.reply(request, struct.pack("<III", offset, size, flags) + self.config()[offset:offset + size])
        elif request == SET_MEM_TABLE:
            (count,) = struct.unpack("<I", payload[:4])
            rows = [struct.unpack_from("<QQQQ", payload, 8 + 32 * i) for i in range(count)]
            self.regions = [Region(*row, fd) for row, fd in zip(rows, fds)]
        elif request in (SET_VRING_NUM, SET_VRING_BASE, SET_VRING_ENABLE, GET_VRING_BASE):
            self.vring_state(request, *struct.unpack("<II", payload))
        elif request == SET_VRING_ADDR:
            index, _, desc, used, avail, _ = struct.unpack("<IIQQQQ", payload)
            self.queues[index].addresses = (desc, used, avail)
        elif request in (SET_VRING_KICK, SET_VRING_CALL, SET_VRING_ERR):
            queue = self.queues[payload[0]]
            if fds and request == SET_VRING_KICK:
                queue.kick = fds[0]
            elif fds and request == SET_VRING_CALL:
                queue.call = fds[0]

    def config(self):
        return struct.pack("<QIIIIQQI20x", MAGIC, 1, 1, 64, 12, 1 << 34, 1 << 34, 1)

    def forget(self):
        """After a reset the guest's memory is the guest's alone."""
        self.contexts, self.later, self.owed, self.held = {}, [], [], []

    def vring_state(self, request, index, value):
        queue = self.queues[index]
        if request == SET_VRING_NUM:
            queue.size = value
        elif request == SET_VRING_BASE:
            queue.base = value
        elif request == SET_VRING_ENABLE:
            queue.enabled = bool(value)
        else:
            self.reply(request, struct.pack("<II", index, queue.base))
            queue.enabled, queue.kick = False, None
        if not queue.enabled:
            self.forget()

    # The loop

    def serve(self):
        handlers = {0: self.control, 2: self.doorbell}
        for index, handler in handlers.items():
            queue = self.queues[index]
            while queue.enabled and queue.addresses and queue.call:
                request = self.pop(queue)
                if not request:
                    break
                handler(request)
        if self.queues[1].enabled and self.queues[1].addresses and self.queues[1].call:
            self.pay()

    def tick(self):
        now = time.monotonic()
        for context in self.contexts.values():
            if context.scenario == 8:
                self.scribble(context)
        for entry in list(self.later):
            when, context, finish = entry
            self.scribble(context)
            if when <= now and entry in self.later:
                self.later.remove(entry)
                finish()

    def run(self):
        while True:
            kicks = [queue.kick for queue in self.queues if queue.kick is not None and queue.enabled]
            busy = self.later or any(context.scenario == 8 for context in self.contexts.values())
            ready, _, _ = select.select([self.connection] + kicks, [], [], 0.005 if busy else None)
            for fd in ready:
                if fd is not self.connection:
                    os.read(fd, 8)
            if self.connection in ready and not self.message():
                return
            self.serve()
            self.tick()


def serve(path, host):
    """Accepts one connection, for a `host` of its own."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(1)
    host(listener.accept()[0]).run()


if __name__ == "__main__":
    serve(sys.argv[sys.argv.index("--vhost-socket") + 1], Host)
