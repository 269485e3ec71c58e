# SPDX-License-Identifier: Apache-2.0
"""Quotas of device memory: a guest process gets its error at the quota, and no other process is worse off."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

from harness import BACKEND, LIMIT, THREAD_SANITIZER, build, check, children, daemon, vcuda, wait_until, wait_warm

# MiB. On a GPU each process's first context counts 500 MiB.
QUOTA, PROCESS_QUOTA = (256, 128) if BACKEND == "cpu" else (2048, 1024)

WAYS = ["plain", "pitch", "async", "pool", "array", "mipmap", "mapped", "module", "graph"]
if BACKEND == "cuda":
    WAYS.remove("pool")  # NVIDIA's driver crashes, natively too (doc/reference/driver-behaviour.md)


def quota(env, *args):
    r = subprocess.run([build("test/local/quota"), *args], env=env, capture_output=True, text=True, timeout=LIMIT)
    check(r.returncode == 0, f"quota {' '.join(args)} ended with {r.returncode}:\n{r.stdout}{r.stderr}")
    return r.stdout


def hold(env, mib):
    p = subprocess.Popen([build("test/local/quota"), "hold", str(mib)], env=env, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    line = p.stdout.readline()
    check(line == "ready\n", f"a process that holds {mib} MiB said {line!r}")
    return p


def let_go(p):
    out, _ = p.communicate("", LIMIT)
    check(p.returncode == 0 and out == "held\n", f"a process that held memory: {p.returncode} {out!r}")


def log_of(d):
    with open(d.log_path, encoding="utf-8") as f:
        return f.read()


def quotas():
    """Every way to device memory ends at the quota; what is freed comes back; who has memory keeps it."""
    with daemon("--max-device-memory", f"{QUOTA}M") as (d, env):
        quota(env, "fill", str(QUOTA), *WAYS)
        wait_until(lambda: "raise --max-device-memory" in log_of(d), "no line names the quota")
        wait_until(lambda: not children(d.pid), "a worker is left")
        neighbour = hold(env, 100)
        quota(env, "fill", str(QUOTA), "plain", "mapped")
        let_go(neighbour)
        quota(env, "fill", str(QUOTA), "plain")


def quotas_of_process():
    """A process has its own limit, and does not reach the VM's by itself."""
    with daemon("--max-device-memory", f"{2 * QUOTA}M", "--max-process-device-memory", f"{PROCESS_QUOTA}M") as (d, env):
        neighbour = hold(env, 120)
        quota(env, "fill", str(PROCESS_QUOTA), "plain", "array", "mapped")
        wait_until(lambda: "raise --max-process-device-memory" in log_of(d), "no line names the quota")
        let_go(neighbour)


def quotas_killed():
    """
    A killed worker gives its memory back, and so does a killed process. A process that wants the memory of a dead worker
    waits until vcudad knows.
    """
    with daemon("--max-device-memory", f"{QUOTA}M") as (d, env):
        for _ in range(3):
            p = hold(env, 200)
            worker, = children(d.pid)
            os.kill(worker, signal.SIGKILL)
            # A process is a zombie for /proc while the last of its threads still frees its memory.
            wait_until(lambda: f"worker {worker} was killed by SIGKILL" in log_of(d), "the worker is left")
            p.kill()
            p.wait()
            p = hold(env, 200)
            p.kill()
            p.wait()
            wait_until(lambda: not children(d.pid), "the worker outlived its process")
        quota(env, "fill", str(QUOTA), "plain")


def quotas_warm():
    """A worker that was started in advance has the quota too, and one that had to start again has nothing twice."""
    with daemon("--max-device-memory", f"{QUOTA}M", "--warm", "1") as (d, env):
        quota(env, "fill", str(QUOTA), "plain", "module")
        quota(dict(env, CUDA_DEVICE_MAX_CONNECTIONS="7"), "fill", str(QUOTA), "plain")
        wait_until(lambda: "raise --max-device-memory" in log_of(d), "no line names the quota")


def quotas_set():
    """`vcuda vm set` changes the limits of a worker that runs, and `vcuda vm list` counts what they refuse."""
    with tempfile.TemporaryDirectory() as directory:
        control = os.path.join(directory, "control")

        def vm(command, *args):
            r = vcuda("vm", command, "--control", control, *args)
            check(r.returncode == 0, f"vcuda vm {command}: {r.stderr}")
            return r.stdout

        with daemon("--warm", "1", "--warm-once", "--control", control) as (d, env):
            worker = wait_warm(d, 1)
            vm("set", str(d.pid), f"max-device-memory={QUOTA}M", "max-streams=50")
            check(set(children(d.pid)) == worker, "the worker was replaced")
            quota(env, "fill", str(QUOTA), "plain")
            quota(env, "streams", "50")
            limits = json.loads(vm("list", "--json"))[0]["quotas"]
            check(limits["max-device-memory"]["limit"] == QUOTA << 20, limits)
            for name in "max-device-memory", "max-streams":
                check(limits[name]["refused"] > 0, f"{name}: {limits}")
            check(limits["max-queued"]["refused"] == 0, limits)


def quotas_queued():
    """Queued commands that wait for ever are bounded, and the command that ends the wait gets through."""
    with daemon("--max-queued", "8M") as (d, env):
        quota(env, "queue", str(8 << 20))
        wait_until(lambda: "raise vcudad's --max-queued" in log_of(d), "no line names the quota")


def quotas_objects():
    """Streams, objects of all kinds, and the text of modules."""
    with daemon("--max-streams", "50") as (d, env):
        quota(env, "streams", "50")
        wait_until(lambda: "raise --max-streams" in log_of(d), "no line names the quota")
    with daemon("--max-handles", "51") as (d, env):
        # the context is one of the objects
        quota(env, "streams", "50")
        wait_until(lambda: "raise --max-handles" in log_of(d), "no line names the quota")
    with daemon("--max-module-bytes", "1M") as (d, env):
        quota(env, "modules", str(1 << 20))
        wait_until(lambda: "raise vcudad's --max-module-bytes" in log_of(d), "no line names the quota")


# The host's memory that one process may take beyond its quota, MiB.
TOLERANCE = 256

# Ways to the host's memory of test/local/greedy.c. Each has a worker of its own.
GREEDY = ["copies", "blocks", "prints", "kernels", "graphs", "modules", "symbols", "libraries", "links", "streams",
          "events", "arrays", "small", "pieces", "device"]


def memory_group(worker):
    """The control group of a vcudad's workers that counts their memory; None: there is none."""
    with open(f"/proc/{worker}/cgroup", encoding="utf-8") as f:
        for line in f:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            for root in ["/sys/fs/cgroup/memory"] if controllers == "memory" else ["/sys/fs/cgroup"] * (not controllers):
                parts = path.split("/")
                while parts and not parts[-1].startswith("vcudad-"):
                    parts.pop()
                if parts and os.path.exists(root + "/".join(parts) + "/cgroup.procs"):
                    return root + "/".join(parts)
    return None


def peak_of_group(group):
    """Bytes; None: the kernel does not say."""
    for name in "memory.peak", "memory.max_usage_in_bytes":
        with contextlib.suppress(OSError), open(os.path.join(group, name), encoding="utf-8") as f:
            return int(f.read())
    return None


def own_memory(pid):
    """Bytes of a process and its descendants that are in no file."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8") as f:
        fields = dict(re.findall(r"^(RssAnon|RssShmem):\s+(\d+)", f.read(), re.M))
        return sum(int(kib) << 10 for kib in fields.values()) + sum(own_memory(child) for child in children(pid))
    return 0


class Peak(threading.Thread):
    """Samples what the workers of a vcudad have, where no control group knows the peak."""

    def __init__(self, d):
        super().__init__(daemon=True)
        self.daemon_pid, self.bytes, self.ended = d.pid, 0, threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(0.02):
            self.bytes = max(self.bytes, sum(own_memory(worker) for worker in children(self.daemon_pid)))

    def end(self):
        self.ended.set()
        self.join()
        return self.bytes


def greedy(rows, *options):
    """The peak of the host's memory of a hostile program's worker and its compilers, MiB."""
    with daemon("--max-device-memory", f"{QUOTA}M", *options) as (d, env):
        sampled = Peak(d)
        p = subprocess.Popen([build("test/local/greedy"), *rows], env=env, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
        line = p.stdout.readline()
        check(line == "ready\n", f"a greedy process said {line!r}")
        worker, = children(d.pid)
        group = memory_group(worker)
        peak = group and peak_of_group(group)
        p.communicate("", LIMIT)
        return max(sampled.end(), peak or 0) >> 20


def counts_groups():
    """Whether vcudad can have a control group that counts the memory of its workers."""
    return b"max-host-memory" not in subprocess.run(
        [build("host/daemon/vcudad"), "--socket", "/dev/null/none", "--max-host-memory", "8G"],
        capture_output=True, timeout=LIMIT).stderr


def need_measurements():
    """Ends the test in a build with a sanitizer: its own memory is many times the program's, so none is measured."""
    if "ASAN_OPTIONS" in os.environ or THREAD_SANITIZER:
        print("a worker with a sanitizer does not measure its memory")
        sys.exit(77)


def quotas_of_host():
    """No process has more of the host's memory than its quota and the tolerance, in any way and in all at once."""
    need_measurements()
    options = ["--max-host-memory", "8G"] if counts_groups() else []
    worst = []
    for rows in [[row] for row in GREEDY] + [[]]:
        mib = greedy(rows, *options)
        name = " ".join(rows) or "all"
        print(f"{name}: {mib} MiB", flush=True)
        if mib > QUOTA + TOLERANCE:
            worst.append(f"{name} {mib} MiB")
    check(not worst, f"of {QUOTA} MiB and a tolerance of {TOLERANCE} MiB one process has: {', '.join(worst)}")


def quotas_of_host_end():
    """Modules, machine code and links end at the quota, the log says why, and their memory comes back."""
    need_measurements()
    with daemon("--max-device-memory", f"{QUOTA}M") as (d, env):
        quota(env, "host", str(QUOTA))
        wait_until(lambda: re.search(r"of the host's memory.*raise vcudad's --max-device-memory", log_of(d)),
                   "no line tells of the host's memory")
    with daemon("--max-device-memory", f"{4 * QUOTA}M", "--max-process-device-memory", f"{QUOTA}M") as (d, env):
        quota(env, "host", str(QUOTA))
        wait_until(lambda: re.search(r"of the host's memory.*raise vcudad's --max-process-device-memory", log_of(d)),
                   "no line tells of the host's memory")
