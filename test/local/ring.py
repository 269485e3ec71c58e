# SPDX-License-Identifier: Apache-2.0
"""Guest processes by hand: the first message to vcudad, and commands in the ring (ring/ring.h)."""

import array
import mmap
import os
import socket
import struct
import time

from harness import ATTACH, LIMIT, MESSAGE

HELLO, RETAIN, ALLOC, DIRECT_READY, COPY_DIRECT, IMAGE_LOOK, IMAGE_FIND = 1, 20, 41, 292, 293, 294, 295  # protocol/driver.api


def attach(path, major, minor):
    """ATTACH by hand: (status, major, minor, fds, socket)."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.connect(path)
    s.send(MESSAGE.pack(ATTACH, 0, 1, 0, 0, 0, major, minor, os.getuid(), os.getpid(), 0, 0))
    fds = array.array("i")
    data, ancillary, _, _ = s.recvmsg(MESSAGE.size, socket.CMSG_LEN(8 * 4))
    for _, _, payload in ancillary:
        fds.frombytes(payload[: len(payload) - len(payload) % 4])
    fields = MESSAGE.unpack(data)
    return fields[10], fields[6], fields[7], list(fds), s


class Ring:
    """A guest process that writes its commands by hand."""

    BYTES = 256 * 1024
    SLOT = 4096 + BYTES  # the first for replies

    def __init__(self, path):
        self.status, _, _, self.fds, self.socket = attach(path, 1, 1)
        self.shm = mmap.mmap(self.fds[0], 0)
        self.tail = self.seq = 0

    def post(self, op, body, context=0):
        """Sends a command that is answered."""
        self.seq += 1
        command = struct.pack("<IHHQQII", 32 + len(body), op, 1, self.seq, context, 0, 1) + body
        at = self.tail % self.BYTES
        if at + len(command) > self.BYTES:
            self.shm[4096 + at:4096 + at + 4] = struct.pack("<I", self.BYTES - at)
            self.shm[4096 + at + 4:4096 + at + 8] = bytes(4)
            self.tail += self.BYTES - at
            at = 0
        self.shm[4096 + at:4096 + at + len(command)] = command
        self.tail += len(command)
        self.shm[0:8] = struct.pack("<Q", self.tail)
        os.write(self.fds[1], struct.pack("<Q", 1))

    def call(self, op, body, context=0):
        """(CUresult, data); None: the worker has ended the session."""
        self.post(op, body, context)
        end = time.monotonic() + LIMIT
        while struct.unpack("<Q", self.shm[self.SLOT:self.SLOT + 8])[0] != self.seq:
            if self.shm[320:324] != bytes(4) or time.monotonic() > end:
                return None
            time.sleep(0.001)
        _, result, size = struct.unpack("<QiI", self.shm[self.SLOT:self.SLOT + 16])
        return result, self.shm[self.SLOT + 64:self.SLOT + 64 + size]

    def request(self, kind, flags, address, length):
        self.socket.send(MESSAGE.pack(kind, flags, 5, address, length, 0, 1, 1, 0, 0, 0, 0))
        return MESSAGE.unpack(self.socket.recv(MESSAGE.size))[10]

    def close(self):
        self.shm.close()
        self.socket.close()
        for fd in self.fds:
            os.close(fd)
