# SPDX-License-Identifier: Apache-2.0
"""Clients that are no programs with libcuda.so.1: what they send by hand, and that others go on."""

import array
import contextlib
import fcntl
import mmap
import os
import random
import socket
import struct
import termios

from harness import LIMIT, MESSAGE, check, children, daemon, random_seed, start_steady, wait_until
from ring import ALLOC, COPY_DIRECT, DIRECT_READY, HELLO, RETAIN, Ring, attach


def hostile():
    """Garbage in the ring, on the socket and in mapping requests ends that session only."""
    with daemon() as (d, env):
        path = env["VCUDA_SOCKET"]
        bytes_of = random.Random(random_seed()).randbytes
        for trial in range(12):
            _, _, _, fds, s = attach(path, 1, 0)
            shm = mmap.mmap(fds[0], 0)
            if trial % 3 == 0:
                shm[4096:4096 + 65536] = bytes_of(65536)
                shm[0:8] = struct.pack("<Q", 65536)
            elif trial % 3 == 1:
                shm[0:8] = bytes_of(8)
            else:
                s.send(bytes_of(trial * 37 % 200 + 1))
            os.write(fds[1], struct.pack("<Q", 1))
            s.settimeout(LIMIT)
            with contextlib.suppress(OSError):
                while s.recv(4096):
                    pass
            shm.close()
            for fd in fds:
                os.close(fd)
            s.close()
        # a synchronous command that means nothing: the session is declared lost, and the worker goes
        _, _, _, fds, s = attach(path, 1, 0)
        shm = mmap.mmap(fds[0], 0)
        shm[4096:4096 + 32] = struct.pack("<IHHQQII", 32, 9999, 1, 1, 0, 0, 0)
        shm[0:8] = struct.pack("<Q", 32)
        os.write(fds[1], struct.pack("<Q", 1))
        s.settimeout(LIMIT)
        check(s.recv(4096) == b"", "the worker of a broken session lives on")
        check(shm[320:324] != bytes(4), "the guest was not told that its session is lost")
        shm.close()
        s.close()
        # mappings over what is the worker's own, and absurd ones
        status, _, _, fds, s = attach(path, 1, 0)
        check(status == 0, f"attach: {status}")
        for address, length in ((0x080000000000, 4096), (0x2AAAAAAAB000, 4096), (0, 4096), (1 << 63, 4096),
                                (0x200000000000, 1), (0x200000000000, (1 << 64) - 4096), (0x7FFFFFFFF000, 4096)):
            s.send(MESSAGE.pack(2, 0, 5, address, length, 0, 1, 0, 0, 0, 0, 0))
            answer = MESSAGE.unpack(s.recv(MESSAGE.size))
            check(answer[10] < 0, f"a mapping of {length:#x} bytes at {address:#x} was granted")
        s.close()
        check(start_steady(env, 0).wait(LIMIT) == 0, "an honest program does not work afterwards")
        wait_until(lambda: not children(d.pid), "a worker of a hostile process is left")


def unread_replies():
    """A client that does not read its replies has few of them, and their descriptors, on their way."""
    resume, requests = 8, 100

    def unread(s):
        size = array.array("i", [0])
        fcntl.ioctl(s, termios.FIONREAD, size)
        return size[0] // MESSAGE.size

    with daemon() as (d, env):
        _, _, _, fds, s = attach(env["VCUDA_SOCKET"], 1, 1)
        for _ in range(requests):
            s.send(MESSAGE.pack(resume, 0, 1, 0, 0, 0, 1, 1, os.getuid(), os.getpid(), 0, 0))
        seen = []

        def stands():
            seen.append(unread(s))
            return seen[-1] and seen[-20:] == [seen[-1]] * 20
        wait_until(stands, "replies come all the time")
        check(unread(s) <= 16, f"{unread(s)} of {requests} replies are unread")
        s.settimeout(LIMIT)
        for _ in range(requests):
            _, more, _, _ = socket.recv_fds(s, MESSAGE.size, 2)
            fds += more
        check(len(fds) == 2 * (requests + 1), f"{len(fds)} descriptors")
        for fd in fds:
            os.close(fd)
        s.close()
        check(start_steady(env, 0).wait(LIMIT) == 0, "an honest program does not work afterwards")


def renumbered():
    """A process that was restored under another number has that one in the lists of processes."""
    processes, resume, number, room = 241, 8, 4242, 4
    with daemon() as (_, env):
        ring = Ring(env["VCUDA_SOCKET"])
        check(ring.status == 0 and ring.call(HELLO, struct.pack("<QQ", 1, 0))[0] == 0, "hello by hand")
        check(ring.call(RETAIN, struct.pack("<q", 0))[0] == 0, "a context by hand")
        for pid in os.getpid(), number:
            result, data = ring.call(processes, struct.pack("<qQ", 0, room))
            count, listed = struct.unpack("<QQ", data[:16])
            check(result == 0 and (count, listed) == (1, pid), f"{count} processes, one of them {listed}, not {pid}: {data}")
            ring.socket.send(MESSAGE.pack(resume, 0, 1, 0, 0, 0, 1, 1, 0, number, 0, 0))
            ring.fds += socket.recv_fds(ring.socket, MESSAGE.size, 2)[1]
        ring.close()


def hostile_direct():
    """Direct copies without a direct range: nothing of the worker's can be named, and over this transport no range can be made."""
    with daemon() as (d, env):
        ring = Ring(env["VCUDA_SOCKET"])
        check(ring.status == 0 and ring.call(HELLO, struct.pack("<QQ", 1, 0))[0] == 0, "hello by hand")
        result, data = ring.call(RETAIN, struct.pack("<q", 0))
        context = struct.unpack("<Q", data[:8])[0]
        result, data = ring.call(ALLOC, struct.pack("<Q", 1 << 20), context)
        check(result == 0, f"allocation by hand: {result}")
        device = struct.unpack("<Q", data[:8])[0]
        check(ring.call(DIRECT_READY, b"", context) == (0, bytes(8)), "direct copies are offered to a local program")
        (worker,) = children(d.pid)
        with open(f"/proc/{worker}/maps", encoding="ascii") as maps:
            own = [int(line.split("-")[0], 16) for line in maps if "rw-" in line]
        for address in (*own, 0, 4096, device, 1 << 47, (1 << 64) - 4096, (1 << 64) - 1):
            for to_device in (0, 1):
                for size in (0, 1, 4096, 1 << 20, 1 << 63, (1 << 64) - 1):
                    answer = ring.call(COPY_DIRECT, struct.pack("<QQqQQ", device, address, to_device, size, 0), context)
                    check(answer == (1, b""), f"{size} bytes at {address:#x}: {answer}")
        for flags in (4, 5, 6, 7):
            check(ring.request(3, flags, 0x7F0000000000, 4096) < 0, "a direct range of a local program's")
        check(ring.call(ALLOC, struct.pack("<Q", 4096), context)[0] == 0, "the session did not live")
        ring.close()
        check(start_steady(env, 0).wait(LIMIT) == 0, "an honest program does not work afterwards")
