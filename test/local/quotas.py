# SPDX-License-Identifier: Apache-2.0
"""Quotas of device memory: a guest process gets its error at the quota, and no other process is worse off."""

import json
import os
import signal
import subprocess
import tempfile

from harness import BACKEND, LIMIT, build, check, children, daemon, vcuda, wait_until, wait_warm

# MiB. On a GPU each process's first context counts 500 MiB.
QUOTA, PROCESS_QUOTA = (256, 128) if BACKEND == "cpu" else (2048, 1024)

WAYS = ["plain", "pitch", "async", "pool", "array", "mipmap", "mapped", "module", "graph"]
if BACKEND == "cuda":
    WAYS.remove("pool")  # NVIDIA's driver crashes, natively too (doc/measured.md)


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
    """A killed worker gives its memory back, and so does a killed process."""
    with daemon("--max-device-memory", f"{QUOTA}M") as (d, env):
        for _ in range(3):
            p = hold(env, 200)
            worker, = children(d.pid)
            os.kill(worker, signal.SIGKILL)
            wait_until(lambda: not children(d.pid), "the worker is left")
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
    """What commands hold that wait for ever is bounded, and the command that ends the wait gets through."""
    with daemon("--max-queued", "8M") as (d, env):
        quota(env, "queue", str(8 << 20))
        wait_until(lambda: "raise vcudad's --max-queued" in log_of(d), "no line names the quota")


def quotas_objects():
    """Streams, objects of all kinds, and the text of modules."""
    with daemon("--max-streams", "50") as (d, env):
        quota(env, "streams", "50")
        wait_until(lambda: "raise --max-streams" in log_of(d), "no line names the quota")
    with daemon("--max-handles", "51") as (d, env):
        # one is the context
        quota(env, "streams", "50")
        wait_until(lambda: "raise --max-handles" in log_of(d), "no line names the quota")
    with daemon("--max-module-bytes", "1M") as (d, env):
        quota(env, "modules", str(1 << 20))
        wait_until(lambda: "raise vcudad's --max-module-bytes" in log_of(d), "no line names the quota")
