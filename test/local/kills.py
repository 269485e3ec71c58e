# SPDX-License-Identifier: Apache-2.0
"""A worker ends in the middle of each command that it knows, beside a program that computes and checks.

The commands are those of the generated table of the worker. A worker that waits for its program gets a breakpoint where a command
begins, or where its reply is written; nothing handles the breakpoint, so that the first thread to reach it ends the worker there. Which
program sends a command says its own profile (VCUDA_STATS). A program has one process: another one would get another worker. A command that
no program sends is sent by hand, and the worker ends where the command begins.

VCUDA_TEST_TIMES=10 tries all commands, 1, the default, twelve of them.
"""

import os
import re
import random
import struct
import subprocess
import sys
import time

from faults import inventory, settled, wait_until_same
from harness import LIMIT, build, check, children, daemon, end_steady, random_seed, start_steady, wait_until, wait_warm
from ring import HELLO, Ring

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vhost"))
from tracee import poke  # noqa: E402

TIMES = int(os.environ.get("VCUDA_TEST_TIMES", 1))
QUICK = [["examples/vectorAdd"], ["test/local/launches"], ["test/local/arrays"], ["test/local/api", "pools"], ["test/local/api", "values"]]
COMMANDS = QUICK + [["test/local/" + name] for name in
                    ("modules", "clusters", "tensors", "references", "peers", "other-context", "computations", "blas-lt", "runtime-graphs", "nvml", "managed",
                     "warm")]
COMMANDS += [["test/local/api", case] for case in
             ("callbacks", "waits", "polls", "managed", "shared_memory", "mapped", "graphs", "capture", "capture_modes", "logs", "contexts",
              "questions", "batches", "small_copies", "copies", "output", "device_graphs")]
BREAKPOINT = b"\xcc"


def symbols(prefixes):
    """Where the worker's library has the code of each command, by what its functions' names begin with: {command: [address, ...]}."""
    library = build("host/worker/libvcuda-worker.so")
    table = {}
    for line in subprocess.run(["nm", library], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        if match := re.fullmatch(rf"([0-9a-f]+) [tT] (?:{prefixes})_((?:cu|vcuda)[A-Z]\w*)", line):
            table.setdefault(match.group(2), []).append(int(match.group(1), 16))
    return table


def numbers():
    """{command: its number}"""
    with open(build("protocol/calls.h"), encoding="utf-8") as header:
        return {name: int(number) for name, number in re.findall(r"^\tVCUDA_OP_(\w+) = (\d+),$", header.read(), re.M)}


def load_address(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        return min(int(line.split("-")[0], 16) for line in maps if "libvcuda-worker.so" in line)


def commands_of(program, env):
    """The commands that a program sends to its worker, and its run time in seconds."""
    start = time.monotonic()
    r = subprocess.run([build(program[0]), *program[1:]], env=dict(env, VCUDA_STATS="1"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                       text=True, timeout=LIMIT, check=False)
    return set(re.findall(r"^ +[\d.]+ +[\d.]+ +[\d.]+ +\d+  (\w+)$", r.stderr, re.M)), time.monotonic() - start


def quickest(programs, env):
    """{command: the program that sends it and ends first}."""
    found = {}
    for program in programs:
        commands, seconds = commands_of(program, env)
        for command in commands:
            if command not in found or seconds < found[command][0]:
                found[command] = seconds, program
    return {command: program for command, (_, program) in found.items()}


def kill_in(d, env, others, program, address):
    """True if the worker reached the address. Its program is told, or had no question left."""
    worker, = wait_warm(d, len(others) + 1) - others
    poke(worker, load_address(worker) + address, BREAKPOINT)
    r = subprocess.run([build(program[0]), *program[1:]], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=LIMIT,
                       check=False)
    wait_until(lambda: worker not in children(d.pid), f"worker {worker} is left")
    # One that ends in peace says so (VCUDA_TIMES); vcudad does not log each of many that are killed.
    with open(d.log_path, encoding="utf-8", errors="replace") as log:
        killed = f" {worker} worker: guest process is gone" not in log.read()
    check(not killed or r.returncode >= 0, f"{program} ended with {r.returncode}: {r.stderr}")
    return killed


def kill_by_hand(d, env, others, number, address):
    """As kill_in(), of a command without a body."""
    worker, = wait_warm(d, len(others) + 1) - others
    poke(worker, load_address(worker) + address, BREAKPOINT)
    ring = Ring(env["VCUDA_SOCKET"])
    check(ring.status == 0, f"a worker is not attached: {ring.status}")
    if number != HELLO:
        check(ring.call(HELLO, struct.pack("<QQ", 1, 0))[0] == 0, "a worker does not say hello")
    ring.post(number, b"")
    wait_until(lambda: worker not in children(d.pid), f"worker {worker} is left")
    ring.close()


def kill_at(d, env, others, program, name, table):
    """In the command of that name, which the program sends, but for those that it sends now and then; None: no program does."""
    # Where no reply is written, the beginning is left.
    places = random.sample(table[name], len(table[name]))
    if not program or not any(kill_in(d, env, others, program, place) for place in places):
        kill_by_hand(d, env, others, numbers()[name], symbols("run")[name][0])


def kills():
    """Workers are killed in their commands."""
    random.seed(random_seed())
    table = symbols("run|vcuda_encode_reply")
    check(len(table) > 150, f"the worker has {len(table)} commands")
    with daemon("--warm", "1", *(() if os.geteuid() == 0 else ("--sandbox", "off"))) as (d, env):
        programs = quickest(QUICK if TIMES == 1 else COMMANDS, env)
        names = sorted(table)
        others = wait_warm(d, 1)
        neighbour = start_steady(env, 10**6)
        wait_warm(d, 2)
        before = settled(d.pid, workers=2)
        names = random.sample(names, 12) if TIMES == 1 else names
        for name in names:
            kill_at(d, env, others, programs.get(name), name, table)
            check(neighbour.poll() is None, f"the neighbour ended with {neighbour.returncode}")
        print(f"  killed in {len(names)} of {len(table)} commands; programs send {len(programs)} of these, the others are sent by hand")
        wait_warm(d, 2)
        check(wait_until_same(d.pid, before), f"{inventory(d.pid) - before} more, {before - inventory(d.pid)} less")
        end_steady(neighbour)
