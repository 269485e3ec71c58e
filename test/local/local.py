#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End to end over the local transport: real daemon, worker, software GPU and guest libraries; no VM, no GPU.

usage: local.py BUILD_DIRECTORY SCENARIO        (--list prints the scenarios)
"""

import contextlib
import glob
import itertools
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import harness
from awkward import awkward, awkward_compile, awkward_ends, awkward_environment, awkward_queues, awkward_runtime
from bounds import bounds
from checkpoint import checkpoint
from compile import compile_cached, compile_crashes, compile_ends, compile_limits, compile_loads, compile_progress, compile_sleeps, compile_unloads
from descriptors import descriptors, descriptors_of_host
from detaching import detaching, detaching_fails
from devices import devices, devices_of_daemon
from exports import exports, exports_counted, exports_elsewhere, exports_killed, exports_limited
from faults import faults
from harness import (BACKEND, EXAMPLES, LIMIT, THREAD_SANITIZER, build, check, children, daemon,
                     end_steady, need_thread_sanitizer, random_seed, resident_kib, run_example, start_steady, vcuda,
                     wait_until, wait_warm)
from hostile import hostile, hostile_direct, renumbered, unread_replies
from kills import kills
from libraries import blas, blas_errors, blas_lt, rand
from management import nvml_arguments, nvml_busy, nvml_devices, nvml_figures, nvml_processes, nvml_quota, nvml_sessions, nvml_affinity
from overcommit import overcommit, overcommit_ends, overcommit_growth, overcommit_limits, overcommit_random
from pause import pause, release
from pause_kills import pause_kills
from quotas import quotas, quotas_killed, quotas_objects, quotas_of_host, quotas_of_host_end, quotas_of_process, quotas_queued, quotas_set, quotas_warm
from ring import HELLO, IMAGE_FIND, IMAGE_LOOK, Ring, attach
from shares import shares, shares_of_gpu


def examples():
    """Each example passes under `vcuda run`, and says which device it ran on. NAME-clang is there where nvcc and clang are."""
    for name in EXAMPLES + [f"{n}-clang" for n in EXAMPLES if os.path.exists(build(f"examples/{n}-clang"))]:
        out = run_example(name)
        check(BACKEND != "cpu" or "vCUDA Software GPU" in out, f"{name} does not name the device:\n{out}")


def static_cudart():
    """NVIDIA's own static runtime, nvcc's default, on our libcuda.so.1."""
    if THREAD_SANITIZER:
        print("a program without the thread sanitizer cannot open a library with it")
        sys.exit(77)
    names = [n for n in EXAMPLES if os.path.exists(build(f"examples/{n}-static"))]
    if not names:
        print("no static examples here: they need nvcc")
        sys.exit(77)
    for name in names:
        run_example(f"{name}-static")


def preload():
    """The way of the older systems: LD_PRELOAD=libvcuda.so PROGRAM."""
    with daemon() as (_, env):
        env = dict(env, LD_PRELOAD=build("guest/lib/libvcuda.so"))
        r = subprocess.run([build("examples/vectorAdd")], env=env, capture_output=True, text=True, timeout=LIMIT)
        check(r.returncode == 0 and "Test PASSED" in r.stdout, r.stdout + r.stderr)


def exit_status():
    """vcuda run gives back what the program ended with."""
    for command, expected in (("exit 7", 7), ("exit 0", 0), ("kill -TERM $$", 128 + 15), ("kill -KILL $$", 128 + 9)):
        r = vcuda("run", "--backend", BACKEND, "--", "sh", "-c", command)
        check(r.returncode == expected, f"'{command}' gave {r.returncode}, not {expected}")
    r = vcuda("run", "--backend", BACKEND, "--", "/dev/null/program")
    check(r.returncode == 127 and "/dev/null/program" in r.stderr, f"{r.returncode} {r.stderr}")


def registration():
    """Host memory is registered byte by byte: several on one page, on stacks, in any order, beside forks."""
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/registration"))
    check(r.returncode == 0, f"registration: {r.returncode}\n{r.stdout[-4000:]}{r.stderr[-2000:]}")


def host_memory():
    """cuMemCreate() in host memory: codes, access, copies, layouts, life, other processes."""
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/hostmem"), BACKEND)
    check(r.returncode == 0, f"hostmem: {r.returncode}\n{r.stdout[-4000:]}{r.stderr[-2000:]}")
    print(r.stdout)
    # Above a driver, host memory and device memory have no reservation in common: many answers are others.
    if BACKEND != "cpu":
        return
    native = os.path.join(os.path.dirname(os.path.abspath(__file__)), "hostmem", "native.txt")
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/hostmem"), "ask", "compare", native)
    check(r.returncode == 0, f"hostmem ask: {r.returncode}\n{r.stdout[-4000:]}{r.stderr[-2000:]}")
    print(r.stdout)


def isolation():
    """Two processes compute; kill -9 of one ends its worker and the other never notices."""
    with daemon() as (d, env):
        first = start_steady(env)
        worker, = children(d.pid)
        second = start_steady(env)
        check(len(children(d.pid)) == 2, f"{len(children(d.pid))} workers for two processes")
        first.kill()
        first.wait()
        wait_until(lambda: worker not in children(d.pid), "the worker outlived its process")
        check(second.poll() is None, "the worker lived as long as its neighbour's process")
        end_steady(second)
        wait_until(lambda: not children(d.pid), "a worker is left")
        check(resident_kib(d.pid) <= 16 * 1024, f"the daemon has {resident_kib(d.pid)} KiB resident")


def worker_killed():
    """A worker that dies gives its process a CUDA error; the daemon and the next program go on."""
    with daemon() as (d, env):
        victim = start_steady(env)
        workers = children(d.pid)
        other = start_steady(env)
        os.kill(workers[0], signal.SIGKILL)
        check(victim.wait(LIMIT) == 3, f"ended with {victim.returncode}")
        check("CUDA error" in victim.stdout.read(), "no CUDA error was reported")
        end_steady(other)
        check(start_steady(env, 0).wait(LIMIT) == 0, "the next program does not work")


def cupti_lost():
    """A flush of CUPTI's says that it lacks records where the worker has died."""
    for release in ("12", "13"):
        with daemon() as (d, env):
            p = subprocess.Popen([build(f"test/local/cupti-client-{release}"), "lost"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            line = p.stdout.readline()
            check(line == "ready\n", f"the client said {line!r}")
            worker, = children(d.pid)
            os.kill(worker, signal.SIGKILL)
            out, _ = p.communicate("\n", timeout=LIMIT)
            check(p.returncode == 0 and out == "lost: passed\n", f"{p.returncode}: {out}")


def cupti():
    """Records of work on the cuda back end, where the host's driver launches graphs as a whole."""
    for release, scenario in itertools.product(("12", "13"), ("records", "graphs", "pieces")):
        r = vcuda("run", "--backend", BACKEND, "--", build(f"test/local/cupti-client-{release}"), scenario)
        check(r.returncode == 0 and r.stdout == f"{scenario}: passed\n", f"{release}: {r.returncode}\n{r.stdout}{r.stderr}")


def run_on(env, *command, **more):
    """Runs a program and returns its output without the line that names the worker, and that worker's process number."""
    r = subprocess.run(command, env=dict(env, VCUDA_VERBOSE="1", **more), capture_output=True, text=True, timeout=LIMIT, check=False)
    found = re.search(r"host process (\d+)", r.stderr)
    check(r.returncode == 0 and found, f"{command}: {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout, int(found.group(1))


def warm():
    """Workers that are ready before their guest process: it gets one, sees no difference, and another takes its place."""
    program = build("test/local/warm")
    rounds = "100" if BACKEND == "cpu" else "5"
    parts = ("retain", "own", "flags", "query")
    with daemon() as (d, env):
        cold = {part: run_on(env, program, part, rounds)[0] for part in parts}
    with daemon("--warm", "1") as (d, env):
        for part in parts:
            ready, = wait_warm(d, 1)
            out, used = run_on(env, program, part, rounds)
            # a GPU's memory is the replacement's too
            same = out == cold[part] or BACKEND != "cpu"
            check(same and out.endswith(f"{part}: passed\n"), f"{part}: {out} and not {cold[part]}")
            check(used == ready, f"{part}: worker {used}, while {ready} was ready")
            wait_until(lambda: ready not in children(d.pid), "a worker is used twice, or left")
        for name in [] if THREAD_SANITIZER else EXAMPLES:
            ready, = wait_warm(d, 1)
            out, used = run_on(env, build(f"examples/{name}"))
            check("Test PASSED" in out and used == ready, out)
            wait_until(lambda: ready not in children(d.pid), "a worker is left")
    with daemon("--warm", "2") as (d, env):
        ready = wait_warm(d, 2)
        first, second = start_steady(env), start_steady(env)
        # both at once, and two more are there for the next
        wait_until(lambda: len(children(d.pid)) == 4 and ready < set(children(d.pid)), "they are not replaced")
        end_steady(first)
        wait_until(lambda: len(ready & set(children(d.pid))) == 1, "each has a worker of its own, which ends with it")
        # a warm worker that is killed is replaced; the program that runs does not notice
        os.kill(next(iter(set(children(d.pid)) - ready)), signal.SIGKILL)
        wait_until(lambda: len(children(d.pid)) == 3, "it is not replaced")
        second.kill()
        check(second.wait(LIMIT) == -signal.SIGKILL, "the second program ended before")
    # variables that the driver has read already: the worker starts anew, in its place, and serves
    with daemon("--warm", "1") as (d, env):
        ready, = wait_warm(d, 1)
        p = start_steady(dict(env, CUDA_DEVICE_MAX_CONNECTIONS="3"))
        with open(f"/proc/{ready}/cmdline", encoding="utf-8") as f:
            check("--resume" in f.read(), "the worker is warm with other variables than its program's")
        end_steady(p)
        wait_until(lambda: ready not in children(d.pid), "a worker is left")
    with daemon("--warm", "1", "--warm-device", "none") as (d, env):
        ready, = wait_warm(d, 1, "back end is initialised")
        out, used = run_on(env, program, "retain", rounds)
        check(out.endswith("retain: passed\n") and used == ready, out)


def versions():
    """Another major version is refused, and the refusal says the worker's; minor 0 of this major is served, and retired calls are answered."""
    with daemon() as (_, env):
        status, major, minor, _, s = attach(env["VCUDA_SOCKET"], 99, 0)
        check(status == -93, f"major 99 was answered with {status}")
        check((major, minor) != (99, 0), "the worker did not say its own version")
        s.close()
        status, _, _, fds, s = attach(env["VCUDA_SOCKET"], major, 0)
        check(status == 0 and len(fds) == 2, f"minor 0: {status}, {len(fds)} descriptors")
        s.close()
        ring = Ring(env["VCUDA_SOCKET"])
        check(ring.status == 0 and ring.call(HELLO, struct.pack("<QQ", 1, 0))[0] == 0, "hello by hand")
        answer = ring.call(IMAGE_LOOK, struct.pack("<Q", 1 << 20))
        check(answer == (0, bytes(8)), f"an older guest that looks for an image: {answer}")
        answer = ring.call(IMAGE_FIND, struct.pack("<Q32s", 1 << 20, bytes(32)))
        check(answer == (500, b""), f"an older guest that asks for an image: {answer}")
        ring.close()


def refused():
    """A program that vcudad does not serve says what would mend that."""
    program = build("test/local/api")
    with daemon("--max-contexts", "1", "--socket-mode", "0666") as (_, env):
        _, _, _, _, first = attach(env["VCUDA_SOCKET"], 1, 0)
        r = subprocess.run([program], env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
        check(r.returncode and "(--max-contexts)" in r.stderr, f"{r.returncode}: {r.stdout}{r.stderr}")
        first.close()
        if os.geteuid():
            return
        os.chmod(os.path.dirname(env["VCUDA_SOCKET"]), 0o755)
        with contextlib.suppress(PermissionError):  # of the build's folder
            r = subprocess.run([program], env=env, capture_output=True, text=True, timeout=LIMIT, check=False, user=12345)
            check(r.returncode and "--allow-any-user and --socket-mode 0666 (or --socket-group)" in r.stderr, f"{r.returncode}: {r.stdout}{r.stderr}")


def silent():
    """A client that connects and says nothing gives its place back, by a warm worker too; one that has attached keeps it."""
    for options in ((), ("--warm", "1")):
        with daemon("--client-timeout", "1", "--max-contexts", "4", *options) as (d, env):
            if options:
                wait_warm(d, 1)
            _, _, _, _, attached = attach(env["VCUDA_SOCKET"], 1, 0)
            quiet = []
            for _ in range(3):
                quiet.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                quiet[-1].settimeout(LIMIT)
                quiet[-1].connect(env["VCUDA_SOCKET"])
            for s in quiet:
                with contextlib.suppress(ConnectionError):
                    check(s.recv(10) == b"", "a silent client gets an answer")
                s.close()
            def told():
                with open(d.log_path, encoding="utf-8") as log:
                    return log.read().count("raise --client-timeout") == 3
            wait_until(told, "the log does not tell of silent clients")
            time.sleep(1.5)
            attached.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                check(attached.recv(10) is None, "the attached client was dropped too")
            attached.close()


def stress():
    """Sixteen threads do everything at once, others are cancelled in the middle; every result is checked."""
    with daemon() as (d, env):
        seed = random_seed() % 100000
        command = [build("test/local/stress"), "10", "16", str(seed)]
        r = subprocess.run(command, env=env, capture_output=True, text=True, timeout=LIMIT)
        check(r.returncode == 0, f"seed {seed}, status {r.returncode}:\n{r.stdout}{r.stderr}")
        wait_until(lambda: not children(d.pid), "a worker is left")


def run_api(case, *setting):
    r = vcuda("run", "--backend", BACKEND, "--", *(("env", *setting) if setting else ()), build("test/local/api"), case)
    check(r.returncode == 0 and r.stdout.endswith(f"{case}: passed\n"), f"{case}: {r.returncode}\n{r.stdout[-2000:]}{r.stderr}")
    return r.stdout


def api():
    """Calls of the driver API, from end to end; the output of kernels appears where the program waits for them."""
    for case in ("callbacks", "waits", "polls", "lives", "managed", "pools", "shared_memory", "shared_memory_refused", "mapped", "graphs", "capture", "legacy_capture", "capture_modes", "values", "logs", "contexts", "questions", "batches", "frames", "small_copies"):
        run_api(case)
    for threads in (0, 1, 3, 6):
        run_api("copies", f"VCUDA_COPY_THREADS={threads}")
    if BACKEND == "cpu":  # a GPU's driver keeps such memory, and GPUs may tear vectors
        run_api("faults")
        run_api("vectors")
    lines = run_api("output").splitlines()
    check(lines[:7] == ["before", "value 1!", "value 2!", "between", "value 3!", "after", "value 4!"], f"order: {lines[:7]}")
    check(lines[6:-2] == ["value 4!"] * 5000 and lines[-2] == "end", f"{len(lines)} lines, at the end {lines[-3:]}")


def device_graphs():
    """Graphs that are launched again and again: what they compute, and that a GPU's driver gets them as a whole."""
    for how in ("auto", "replay"):
        r = vcuda("run", "--backend", BACKEND, "--", "env", f"VCUDA_GRAPHS={how}", build("test/local/api"), "device_graphs")
        check(r.returncode == 0 and r.stdout == "device_graphs: passed\n" and "as a whole" not in r.stderr, f"{how}: {r.returncode}\n{r.stdout}{r.stderr}")
        r = vcuda("run", "--backend", BACKEND, "--stats", "--", "env", f"VCUDA_GRAPHS={how}", build("test/local/api"), "device_graph_issue")
        row = next((line.split() for line in r.stderr.splitlines() if line.endswith(" cuGraphLaunch")), None)
        check(r.returncode == 0 and row, f"{how}: {r.returncode}\n{r.stdout}{r.stderr}")
        calls, errors, waits, queued = (int(n) for n in row[7:11])
        one_by_one = how == "replay" or BACKEND == "cpu"
        check(calls == 1000 and errors == 0 and waits < 10, r.stderr)
        check(queued >= 9900 if one_by_one else queued < 1100, f"{how}: {queued} commands for 1000 launches of 10 nodes")


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def stuck():
    """A process ends, or is killed, while a stream waits for a value for ever, which costs nothing, or while a kernel or a
    graph's loop runs that never ends: its worker goes."""
    endless = ["api endless", *(f"conditionals endless {shape}" for shape in ("kernel", "empty", "nested"))] if BACKEND == "cpu" else []
    with daemon() as (d, env):
        for part, kill in ((part, kill) for part in ("api stuck", *endless) for kill in (False, True)):
            program, *arguments = part.split()
            p = subprocess.Popen([build("test/local/" + program), *arguments], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True)
            line = p.stdout.readline()
            check(line == "stuck\n", f"said {line!r}")
            workers = children(d.pid)
            check(len(workers) == 1, f"{len(workers)} workers for one process")
            before = processor_seconds(workers[0])
            time.sleep(2 if part == "api stuck" else 0)  # a kernel is busy
            used = processor_seconds(workers[0]) - before
            check(BACKEND != "cpu" or used < 0.2, f"waiting took {used} s of 2 s")
            if kill:
                p.kill()
            p.stdin.close()
            check(p.wait(LIMIT) == (-signal.SIGKILL if kill else 0), f"ended with {p.returncode}")
            wait_until(lambda: not children(d.pid), "the worker outlived its process")
        check(start_steady(env, 0).wait(LIMIT) == 0, "the next program does not work")
    if BACKEND == "cpu":  # no document says what a GPU's driver does with a context that never ends
        run_api("stuck_ends")


def lines_of(d, text):
    with open(d.log_path, encoding="utf-8") as f:
        return f.read().count(text)


def endless_loops():
    """A loop of a graph that never ends is ended as a kernel that never ends, with the error that says why."""
    with daemon("--max-kernel-time", "1") as (d, env):
        for shape in "kernel", "empty", "nested":
            r = subprocess.run([build("test/local/conditionals"), "endless", shape, "wait"], env=env, stdout=subprocess.PIPE, text=True,
                               timeout=LIMIT, check=False)
            check(r.returncode == 0 and r.stdout == "stuck\n702\n", f"{shape}: {r.returncode}, {r.stdout}")
        # A worker's last line takes its way through vcudad.
        wait_until(lambda: lines_of(d, "a launch of a graph with conditional nodes ran for longer than 1 s") == 3, "not one line for each")
        check(start_steady(env, 0).wait(LIMIT) == 0, "the next program does not work")


def arrays():
    """Arrays, textures and surfaces through both libraries."""
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/arrays"))
    check(r.returncode == 0 and r.stdout == "arrays: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")


def peers():
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/peers"))
    check(r.returncode == 0 and r.stdout.startswith("peers: passed"), f"{r.returncode}\n{r.stdout}{r.stderr}")
    print(r.stdout, end="")


def computations():
    """Calls of cuBLAS, cuBLASLt and cuRAND in graphs."""
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/computations"))
    check(r.returncode == 0 and r.stdout == "computations: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")


def other_context():
    """Work in streams of another context than the current one; with a GPU, graphs as a whole and node by node."""
    for how in ("auto", "replay"):
        r = vcuda("run", "--backend", BACKEND, "--", "env", f"VCUDA_GRAPHS={how}", build("test/local/other-context"))
        check(r.returncode == 0 and r.stdout == "other-context: passed\n", f"{how}: {r.returncode}\n{r.stdout}{r.stderr}")


def event_order():
    """Commands of several contexts, in the order that events give."""
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/event-order"))
    check(r.returncode == 0 and r.stdout == "event-order: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")


def lanes():
    """Two threads with a context each, on one device and on two."""
    for devices in ("1", "2") if BACKEND == "cpu" else ("",):
        env = {**os.environ, "VCUDA_CPU_DEVICES": devices} if devices else None
        r = vcuda("run", "--backend", BACKEND, "--", build("test/local/lanes"), env=env)
        check(r.returncode == 0 and r.stdout == "lanes: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")


def runtime_graphs():
    """Nodes of graphs through the runtime."""
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/runtime-graphs"))
    check(r.returncode == 0 and r.stdout == "runtime-graphs: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")


def runtimes():
    """A program of every toolkit from 9.1 on, with the runtime library of that toolkit."""
    programs = sorted(glob.glob(build("test/local/runtime-*[0-9]")))
    check(len(programs) == 7, f"programs: {programs}")
    for program in programs:
        r = vcuda("run", "--backend", BACKEND, "--", program)
        check(r.returncode == 0 and r.stdout == "runtime: passed\n", f"{program}: {r.returncode}\n{r.stdout}{r.stderr}")


def launches():
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/launches"))
    check(r.returncode == 0 and r.stdout == "launches: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")


def conditionals():
    """Graphs with conditional nodes, against what CUDA's documentation says of them, and what its driver answers."""
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/conditionals"))
    check(r.returncode == 0 and r.stdout.startswith("conditionals: 0 of "), f"{r.returncode}\n{r.stdout}{r.stderr}")
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/conditionals"), "ask", "compare",
              os.path.join(os.path.dirname(os.path.abspath(__file__)), "conditionals", "native.txt"))
    check(r.returncode == 0 and r.stdout.endswith("answers differ\n"), f"{r.returncode}\n{r.stdout}{r.stderr}")


def device_printf():
    """Formats of device printf against a table of answers."""
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/device-printf"))
    check(r.returncode == 0 and r.stdout.startswith("device-printf: 0 of "), f"{r.returncode}\n{r.stdout}{r.stderr}")


def copy_codes():
    """Errors and effects of the runtime's copies and fills against a table of answers."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "copies", "copy-codes.expect"), encoding="ascii") as f:
        expected = [line for line in f.read().splitlines() if not line.startswith("#")]
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/copy-codes"))
    got = r.stdout.splitlines()
    wrong = [f"expected {e}\n     got {g}" for e, g in zip(expected, got) if e != g]
    check(r.returncode == 0 and len(got) == len(expected), f"{r.returncode}, {len(got)} lines of {len(expected)}\n{r.stderr}")
    check(not wrong, f"{len(wrong)} of {len(expected)} differ\n" + "\n".join(wrong[:20]))


def clusters():
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/clusters"))
    check(r.returncode == 0 and r.stdout == "clusters: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")


def tensors():
    """Also with a compute capability whose devices have no memory accelerator; a GPU's is its own."""
    for compute in "12.0", "9.0", "8.0":
        r = vcuda("run", "--backend", BACKEND, "--", build("test/local/tensors"), env={**os.environ, "VCUDA_CPU_COMPUTE": compute})
        check(r.returncode == 0 and r.stdout == "tensors: passed\n", f"{compute}: {r.returncode}\n{r.stdout}{r.stderr}")


def references():
    """Texture and surface references."""
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/references"))
    check(r.returncode == 0 and r.stdout == "references: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")


def lend_on(env, host, *options):
    """A program of a daemon whose workers' driver is the guest's libcuda.so.1, and looks for `host`; {}: for itself. And its log."""
    with tempfile.TemporaryDirectory() as directory:
        path, log = os.path.join(directory, "socket"), os.path.join(directory, "log")
        with open(log, "w", encoding="utf-8") as f:
            own = subprocess.Popen([build("host/daemon/vcudad"), "--socket", path, *options], stderr=f,
                                   env=dict(env, VCUDA_SOCKET=host.format(path)))
        try:
            wait_until(lambda: os.path.exists(path), "no socket")
            r = subprocess.run([build("examples/vectorAdd")], capture_output=True, text=True, timeout=LIMIT, env=dict(env, VCUDA_SOCKET=path))
        finally:
            own.terminate()
            own.wait(LIMIT)
        with open(log, encoding="utf-8") as f:
            return r, f.read()


def own_worker():
    """A worker whose loader finds the guest's libcuda.so.1 is no client of its own daemon: the program computes nevertheless."""
    if BACKEND != "cpu":  # on the software GPU
        return
    with daemon() as (_, env):
        r, text = lend_on(env, "{}")
        check(r.returncode == 0 and "Test PASSED" in r.stdout, f"{r.returncode}\n{r.stdout}{r.stderr}{text}")
        check("VCUDA_SOCKET names this daemon" in text, text)
        # a vcudad that is to lend its host's GPU on, and finds no host
        r, text = lend_on(env, "/nowhere", "--backend", "cuda")
        check(r.returncode != 0 and "it is virtio-cuda's own, which needs /dev/vcuda, or a socket that VCUDA_SOCKET names" in text, text)


def modules():
    """PTX as the compiler and the driver's linker take it."""
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/modules"))
    check(r.returncode == 0 and r.stdout == "modules: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/modules"), "assert")
    said = "".join(f"a.cu:77: k: block: [0,0,0], thread: [{x},0,0] Assertion `x < 5` failed.\n" for x in (5, 6, 7))
    check(r.returncode == 0 and said in r.stdout + r.stderr, f"{r.returncode}\n{r.stdout}{r.stderr}")


def managed():
    """__managed__ variables: through the driver API, and as nvcc's programs have them, with either runtime."""
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/managed"))
    check(r.returncode == 0 and r.stdout == "managed: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")
    for name in ("managed", "managed-static"):
        if os.path.exists(build(f"examples/{name}")) and not (THREAD_SANITIZER and name.endswith("-static")):
            run_example(name)


def ipc():
    """Two processes of one guest with memory and events in common."""
    for program in ("ipc", "ipc-small"):
        r = vcuda("run", "--backend", BACKEND, "--", build(f"test/local/{program}"))
        check(r.returncode == 0 and r.stdout == f"{program}: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")


def ipc_killed():
    """A process that others wait for is killed: they go on."""
    if BACKEND == "cuda":
        print("NVIDIA's driver waits for ever for what a killed process would have recorded, natively too")
        sys.exit(77)
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/ipc-killed"))
    check(r.returncode == 0 and r.stdout == "ipc-killed: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")


SCENARIOS = {f.__name__: f for f in (bounds, examples, static_cudart, preload, exit_status, isolation, worker_killed, cupti, cupti_lost, warm, versions, refused, silent, hostile, hostile_direct, unread_replies, renumbered, stress, api, arrays, modules, launches, conditionals, device_printf, copy_codes, clusters, tensors, references, peers, other_context, event_order, lanes, managed, ipc, ipc_killed, exports, exports_killed, exports_counted, exports_limited, exports_elsewhere, stuck, endless_loops, own_worker, blas, blas_errors, blas_lt, rand, computations, runtime_graphs, device_graphs, devices, devices_of_daemon, runtimes, awkward, awkward_compile, awkward_queues,
                                    awkward_runtime, awkward_ends, awkward_environment, faults, kills, pause, pause_kills, release, checkpoint, detaching, detaching_fails, shares, shares_of_gpu, overcommit, overcommit_growth, overcommit_limits, overcommit_ends, overcommit_random, quotas, quotas_of_process, quotas_killed, quotas_warm,
                                    quotas_set, quotas_queued, quotas_objects, quotas_of_host, quotas_of_host_end, compile_cached, compile_crashes, compile_ends, compile_limits, compile_loads, compile_progress, compile_sleeps, compile_unloads,
                                    descriptors, descriptors_of_host, registration, host_memory, nvml_arguments, nvml_busy, nvml_devices, nvml_figures, nvml_processes, nvml_quota, nvml_sessions, nvml_affinity)}


def main():
    if "--list" in sys.argv:
        print("\n".join(SCENARIOS))
        return
    if len(sys.argv) != 3 or sys.argv[2] not in SCENARIOS:
        sys.exit("usage: local.py BUILD_DIRECTORY SCENARIO        (local.py --list prints the scenarios)")
    harness.BUILD = os.path.abspath(sys.argv[1])
    if THREAD_SANITIZER:
        need_thread_sanitizer()
    SCENARIOS[sys.argv[2]]()
    print("ok")


if __name__ == "__main__":
    main()
