# SPDX-License-Identifier: Apache-2.0
"""Processor time and memory of running processes."""

import ctypes
import os
import pathlib
import time

LIBC = ctypes.CDLL(None)


def cpu_seconds(pid):
    """Seconds of all threads, of those that ended too. None: no such process."""
    clock = ctypes.c_int()
    if LIBC.clock_getcpuclockid(pid, ctypes.byref(clock)):
        return None
    try:
        return time.clock_gettime(clock.value)
    except OSError:
        return None


def total_cpu(pids):
    return sum(cpu_seconds(pid) or 0 for pid in pids)


def name_of(pid):
    """The name of the process's program."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).removesuffix(" (deleted)")
    except OSError:
        return ""


def descendants(root):
    """The processes that `root` has started, and those that they have."""
    children = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            words = pathlib.Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(words[1]), []).append(int(entry))
    found, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def resident_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def shared_mappings(pid):
    """{(device, inode): MiB} of what is mapped so that writes are seen by others."""
    found = {}
    try:
        lines = pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        words = line.split(None, 5)
        if words[1][3] == "s" and words[4] != "0":
            start, end = (int(word, 16) for word in words[0].split("-"))
            key = (words[3], words[4])
            found[key] = found.get(key, 0) + (end - start) / (1 << 20)
    return found


def partners(pids, candidates):
    """{pid: (its worker, MiB that both map)}: a worker is known by the memory that it shares with its process."""
    maps = {worker: shared_mappings(worker) for worker in candidates if name_of(worker) == "vcuda-worker"}
    found = {}
    for pid in pids:
        mine = shared_mappings(pid)
        for worker, theirs in maps.items():
            common = sum(size for key, size in mine.items() if key in theirs)
            if common > found.get(pid, (0, 0))[1]:
                found[pid] = (worker, common)
    return found
