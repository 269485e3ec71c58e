# SPDX-License-Identifier: Apache-2.0
"""Answers of libnvidia-ml.so.1 on one and two software GPUs."""

import os
import subprocess
import sys
import tempfile

from harness import BACKEND, LIMIT, build, check, daemon, vcuda

MIB = 1 << 20


def run_part(count, part, **variables):
    env = dict(os.environ, VCUDA_CPU_DEVICES=str(count), **variables)
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/nvml-parts"), part, env=env)
    check(r.returncode == 0 and r.stdout == f"{part}: passed\n", f"{part}, {count} devices, {variables}: {r.returncode}\n{r.stdout}{r.stderr}")
    return r.stderr


def nvml_arguments():
    """Every function with right and wrong arguments; a function that is refused says so where that is wanted."""
    for count in 1, 2:
        run_part(count, "arguments")
    check("nvmlDeviceGetSerial is not supported" in run_part(1, "arguments", VCUDA_VERBOSE="1"), "no line names a function that is refused")
    check("nvml" not in run_part(1, "arguments"), "a line names a function although nobody wants that")


def nvml_devices():
    """Handles and topology; CUDA_VISIBLE_DEVICES changes nothing."""
    for count in 1, 2:
        for part in "handles", "topology":
            run_part(count, part)
            run_part(count, part, CUDA_VISIBLE_DEVICES="")


def nvml_busy():
    """A kernel makes its device busy, and no other; copies are no kernels."""
    for count in 1, 2:
        run_part(count, "busy")


def start_holding(env, mib):
    p = subprocess.Popen([build("test/local/nvml-parts"), "hold", str(mib * MIB)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    check(p.stdout.readline() == "ready\n", "the program does not start")
    return p


def run_in(env, *args):
    r = subprocess.run([build("test/local/nvml-parts"), *args], env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
    check(r.returncode == 0, f"{args}: {r.returncode}\n{r.stdout}{r.stderr}")


def let_go(p):
    p.stdin.close()
    check(p.wait(LIMIT) == 0, f"the program ended with {p.returncode}")


def nvml_processes():
    """Two processes of one vcudad are listed, with their memory and work; one of another vcudad is not."""
    with daemon() as (_, env), daemon() as (_, other):
        stranger = start_holding(other, 80)
        neighbour = start_holding(env, 48)
        run_in(env, "lists", str(neighbour.pid))
        let_go(neighbour)
        let_go(stranger)


def nvml_sessions():
    """Sessions begin and end beside threads that ask, and beside forks."""
    run_part(1, "sessions")


def nvml_affinity():
    """Processors near a device are those of its folder in /sys where it is a GPU of this machine, and all else."""
    with daemon() as (_, env):
        where = "here" if BACKEND == "cuda" else "elsewhere"
        r = subprocess.run([build("test/local/nvml-parts"), "sysfs", where], env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
        if r.returncode == 77:
            print(r.stdout)
            sys.exit(77)
        check(r.returncode == 0, f"{r.returncode}\n{r.stdout}{r.stderr}")


def nvml_quota():
    """A device is as large as the quota of the VM or of the process."""
    for option in "--max-device-memory", "--max-process-device-memory":
        with daemon(option, "256M") as (_, env):
            run_in(env, "quota", str(256 * MIB))


def nvml_figures():
    """Figures of the host's library: of the hardware always, of all that use the GPU with --nvml-host-figures only."""
    before = os.environ.get("LD_LIBRARY_PATH", "")
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(build("test/vhost/fake-driver/libnvidia-ml.so.1"), f"{folder}/libnvidia-ml.so.1")
        os.environ["LD_LIBRARY_PATH"] = f"{folder}:{before}"
        for options, word in ((), "refused"), (("--nvml-host-figures",), "allowed"), (("--nvml-host-figures", "--warm", "1"), "allowed"):
            with daemon(*options) as (_, env):
                run_in(env, "host", word)
        os.environ["LD_LIBRARY_PATH"] = before
