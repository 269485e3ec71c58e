#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
NCCL's collective operations between devices, compared with NumPy's exact sums.

usage: collectives.py [--processes] [--devices N] [--numbers N] [OPERATION...]
       VCUDA_CPU_DEVICES=2 vcuda run --backend cpu -- python3 collectives.py ...    through virtio-cuda

A thread for each device, or with --processes a process. Needs nvidia-nccl-cu13, nvidia-cuda-runtime and numpy of
PyPI. The exit status is 1 if an operation fails. Times go to stderr.
"""

import argparse
import ctypes
import glob
import os
import subprocess
import sys
import threading
import time

import numpy as np

FLOAT, SUM, MAX = 7, 0, 2
OPERATIONS = ("all-reduce", "broadcast", "all-gather", "reduce-scatter", "all-reduce-max")


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def library(pattern):
    return ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(np.__file__), "..", "nvidia", pattern))[0])


runtime, nccl = library("cu13/lib/libcudart.so.13"), library("nccl/lib/libnccl.so.2")
nccl.ncclGetLastError.restype = ctypes.c_char_p
nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]


def check(result, what):
    if result:
        print(f"FAILED: {what}: {result}: {(nccl.ncclGetLastError(None) or b'').decode()}", flush=True)
        os._exit(1)  # other threads may wait for ever


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


class Rank:
    """A device with its communicator and its memory."""

    def __init__(self, rank, options):
        self.rank, self.count, self.size = rank, options.numbers, options.devices
        self.comm, self.send, self.receive, self.stream = (ctypes.c_void_p() for _ in range(4))
        check(runtime.cudaSetDevice(rank), "cudaSetDevice")
        self.data = [np.random.RandomState(n).randint(0, 1000, self.count).astype(np.float32) for n in range(self.size)]
        check(runtime.cudaMalloc(ctypes.byref(self.send), ctypes.c_size_t(self.count * 4)), "cudaMalloc")
        check(runtime.cudaMalloc(ctypes.byref(self.receive), ctypes.c_size_t(self.count * 4 * self.size)), "cudaMalloc")
        check(runtime.cudaStreamCreate(ctypes.byref(self.stream)), "cudaStreamCreate")
        check(runtime.cudaMemcpy(self.send, pointer(self.data[rank]), ctypes.c_size_t(self.count * 4), 1), "cudaMemcpy")

    def start(self, operation):
        """Returns what the operation gives this device."""
        n, share = self.count, self.count // self.size
        end = (self.comm, self.stream)
        if operation == "broadcast":
            check(nccl.ncclBroadcast(self.send, self.receive, ctypes.c_size_t(n), FLOAT, 0, *end), operation)
            return self.data[0]
        if operation == "all-gather":
            check(nccl.ncclAllGather(self.send, self.receive, ctypes.c_size_t(n), FLOAT, *end), operation)
            return np.concatenate(self.data)
        if operation == "reduce-scatter":
            check(nccl.ncclReduceScatter(self.send, self.receive, ctypes.c_size_t(share), FLOAT, SUM, *end), operation)
            return sum(self.data)[self.rank * share:(self.rank + 1) * share]
        largest = operation == "all-reduce-max"
        check(nccl.ncclAllReduce(self.send, self.receive, ctypes.c_size_t(n), FLOAT, MAX if largest else SUM, *end), operation)
        return np.maximum.reduce(self.data) if largest else sum(self.data)

    def run(self, operation, right):
        check(runtime.cudaSetDevice(self.rank), "cudaSetDevice")
        check(runtime.cudaMemset(self.receive, 0xff, ctypes.c_size_t(self.count * 4 * self.size)), "cudaMemset")
        expected = self.start(operation)
        check(runtime.cudaStreamSynchronize(self.stream), operation)
        got = np.zeros(len(expected), np.float32)
        check(runtime.cudaMemcpy(pointer(got), self.receive, ctypes.c_size_t(got.nbytes), 2), "cudaMemcpy")
        if (got == expected).all():
            right.append(self.rank)


def run_all(ranks, operations):
    failed = False
    for operation in operations:
        start, right = time.monotonic(), []
        threads = [threading.Thread(target=rank.run, args=(operation, right)) for rank in ranks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wrong = [rank.rank for rank in ranks if rank.rank not in right]
        print(f"{operation}: {f'wrong on {wrong}' if wrong else True}", flush=True)
        print(f"  {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)
        failed |= bool(wrong)
    return 1 if failed else 0


def run_threads(options):
    comms = (ctypes.c_void_p * options.devices)()
    check(nccl.ncclCommInitAll(comms, options.devices, None), "ncclCommInitAll")
    ranks = [Rank(n, options) for n in range(options.devices)]
    for rank, comm in zip(ranks, comms):
        rank.comm = ctypes.c_void_p(comm)
    return run_all(ranks, options.operations)


def run_process(options):
    rank = Rank(options.rank, options)
    number = Id.from_buffer_copy(bytes.fromhex(options.id))
    check(nccl.ncclCommInitRank(ctypes.byref(rank.comm), options.devices, number, options.rank), "ncclCommInitRank")
    return run_all([rank], options.operations)


def run_processes(options):
    number = Id()
    check(nccl.ncclGetUniqueId(ctypes.byref(number)), "ncclGetUniqueId")
    children = [subprocess.Popen([sys.executable] + sys.argv + ["--rank", str(n), "--id", bytes(number).hex()])
                for n in range(options.devices)]
    # A rank waits for ever for one that has ended.
    while not any(child.poll() for child in children) and None in (child.poll() for child in children):
        time.sleep(0.1)
    for child in children:
        child.kill()
    return max(abs(child.wait()) for child in children)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--numbers", type=int, default=1000)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--id")
    parser.add_argument("operations", nargs="*", default=OPERATIONS)
    options = parser.parse_args()
    unknown = set(options.operations) - set(OPERATIONS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    if options.rank is not None:
        return run_process(options)
    return run_processes(options) if options.processes else run_threads(options)


sys.exit(main())
