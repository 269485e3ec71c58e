#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""On a machine with an NVIDIA GPU: the same binaries natively and over the local transport with the cuda back end.

usage: gpu.py BUILD_DIRECTORY SCENARIO        exit status 77 where there is no GPU
"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "local"))
os.environ["VCUDA_TEST_BACKEND"] = "cuda"
import harness  # noqa: E402
import local  # noqa: E402
from sandbox import sandbox  # noqa: E402


def need_gpu():
    if not os.path.exists("/dev/nvidiactl"):
        print("no NVIDIA GPU here")
        sys.exit(77)


def same_output():
    """Each example, the same binary, prints natively what it prints through virtio-cuda."""
    for name in local.EXAMPLES:
        if name == "legacyLaunch":
            continue  # the toolkit of CUDA 13 has no legacy launch any more: natively it cannot start
        native = subprocess.run([local.build(f"examples/{name}-static")], capture_output=True, text=True, timeout=120)
        local.check(native.returncode == 0, f"{name} natively: {native.returncode}\n{native.stdout}{native.stderr}")
        virtual = local.run_example(f"{name}-static")
        local.check(native.stdout == virtual, f"{name} prints natively\n{native.stdout}and through virtio-cuda\n{virtual}")


def pins():
    """Processes killed in the middle of copies: no page is written after it was given away."""
    with local.daemon() as (_, env):
        r = subprocess.run([local.build("test/vm/pin-kill"), "20", "256"], env=env, capture_output=True, text=True, timeout=280)
        local.check(r.returncode == 0, r.stdout + r.stderr)


def memory_freed():
    """kill -9 of a guest process gives its device memory back within a second."""
    def used_mib():
        command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0])

    with local.daemon() as (d, env):
        before = used_mib()
        process = local.start_steady(env, 60)
        during = used_mib()
        local.check(during > before + 100, f"{before} MiB before, {during} MiB with a context: nothing to see")
        process.kill()
        process.wait()
        local.wait_until(lambda: not local.children(d.pid), "the worker outlived its process")
        local.wait_until(lambda: used_mib() < before + 50, f"{used_mib()} MiB are still used, {before} before")
        print(f"{before} MiB before, {during} with the process, {used_mib()} after kill -9")


def sixteen():
    """Sixteen processes of one vcudad compute and check at a time; what they held is given back."""
    with local.daemon() as (d, env):
        held = os.listdir(f"/proc/{d.pid}/fd")
        processes = [subprocess.Popen([local.build("test/local/steady"), "10"], env=env) for _ in range(16)]
        results = [p.wait(timeout=120) for p in processes]
        local.check(results == [0] * 16, f"exit statuses {results}")
        local.wait_until(lambda: not local.children(d.pid), "a worker outlived its process")
        local.wait_until(lambda: len(os.listdir(f"/proc/{d.pid}/fd")) <= len(held), "vcudad keeps descriptors")


def run_local(env, size):
    """A program whose kernel has the driver take memory for the local memory of all threads, `size` bytes each."""
    return subprocess.Popen([local.build("test/local/quota"), "local", str(size)], env=env, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def beyond_grants():
    """Memory that a driver takes by itself counts too, and ends a process that exceeds its quota by it; a neighbour
    goes on."""
    def log():
        with open(d.log_path, encoding="utf-8") as f:
            return f.read()

    with local.daemon("--max-device-memory", "8G", "--max-process-device-memory", "1600M") as (d, env):
        charged = run_local(env, 4096)
        local.check(charged.stdout.readline() == "ready\n", "the first program does not come so far")
        local.wait_until(lambda: "that were granted: they count too" in log(), "no surplus is seen")
        ended = run_local(env, 8192)
        local.wait_until(lambda: "it is over the quota and ended (raise --max-process-device-memory)" in log(), "nobody is ended")
        out, err = ended.communicate("", local.LIMIT)
        local.check(ended.returncode != 0 and "went on" not in out, f"{ended.returncode} {out} {err}")
        out, err = charged.communicate("", local.LIMIT)
        local.check(charged.returncode == 0 and out == "went on\n", f"{charged.returncode} {out} {err}")
        print("".join(line + "\n" for line in log().splitlines() if "granted" in line), end="")


def exports_natively():
    """Exported memory outlives its process with NVIDIA's driver itself, as the scenarios `exports` expect it of us."""
    cache = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    driver = re.search(r"libcuda\.so\.1 .*=> (.*)", cache)
    local.check(driver, "the loader does not know NVIDIA's libcuda.so.1")
    for part in "exits", "killed", "twice", "released", "device", "close", "mapping", "pool":
        r = subprocess.run([local.build("test/local/exports"), part], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           check=False, timeout=harness.LIMIT, env=dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(driver.group(1))))
        local.check(r.returncode == 0, f"{part}: {r.returncode} {r.stdout}{r.stderr}")
        print(f"{part}: passed")


SCENARIOS = {f.__name__: f for f in (same_output, memory_freed, pins, sixteen, sandbox, beyond_grants, exports_natively, local.exports, local.exports_killed,
                                    local.exports_counted, local.examples, local.isolation, local.shares_of_gpu, local.worker_killed, local.hostile,
                                    local.tensors, local.ipc, local.managed, local.references, local.other_context, local.event_order, local.lanes,
                                    local.runtimes, local.api, local.arrays, local.modules, local.launches, local.clusters, local.quotas,
                                    local.quotas_of_process, local.quotas_killed, local.quotas_set, local.pause, local.pause_kills, local.release, local.compile_loads)}


def main():
    harness.BUILD = os.path.abspath(sys.argv[1])
    need_gpu()
    SCENARIOS[sys.argv[2]]()
    print("ok")


if __name__ == "__main__":
    main()
