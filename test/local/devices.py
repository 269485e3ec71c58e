# SPDX-License-Identifier: Apache-2.0
"""Several software GPUs in a process (VCUDA_CPU_DEVICES)."""

import os
import subprocess
import sys

from harness import BACKEND, LIMIT, build, check, daemon, vcuda
from quotas import hold, let_go

# Several parts of the program make a kernel fault, and the log says so.
FAULT = "on device 1"


def run_program(count, name, *args):
    """A program of test/local with so many devices. The outer `vcuda run` of a nested test has set their number."""
    env = dict(os.environ, VCUDA_CPU_DEVICES=str(count)) if BACKEND == "cpu" else None
    r = vcuda("run", "--backend", BACKEND, "--", build(f"test/local/{name}"), *args, env=env)
    check(r.returncode == 0, f"{name} with {count} devices ended with {r.returncode}:\n{r.stdout}{r.stderr}")
    return r


def devices():
    """Identity, memory, peer access, sharing, events, cooperative launches and graphs of two and three devices."""
    for count in (2, 3) if BACKEND == "cpu" else (2,):
        r = run_program(count, "devices")
        check(r.stdout == f"devices: passed, {count} devices\n", r.stdout)
        check(BACKEND != "cpu" or FAULT in r.stderr, f"no line names the device: {r.stderr}")
        r = run_program(count, "peers")
        check(r.stdout == "peers: passed, two that reach each other\n", r.stdout)


def smi_lines(count):
    env = dict(os.environ, VCUDA_CPU_DEVICES=count)
    r = vcuda("run", "--backend", "cpu", "--", build("cli/vcuda"), "smi", "-L", env=env)
    check(r.returncode == 0, f"{r.returncode}\n{r.stdout}{r.stderr}")
    return r.stdout.splitlines()


def check_smi_memory():
    """A process's memory is shown on its device alone."""
    with daemon() as (_, env):
        p = hold(env, 100)
        r = subprocess.run([build("cli/vcuda"), "smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"], env=env,
                           capture_output=True, text=True, timeout=LIMIT, check=True)
        used = [int(line) for line in r.stdout.split()]
        check(len(used) == 3 and used[0] >= 100 and used[1:] == [0, 0], r.stdout)
        r = subprocess.run([build("cli/vcuda"), "smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                           env=env, capture_output=True, text=True, timeout=LIMIT, check=True)
        check(r.stdout.split(", ")[0] == str(p.pid) and len(r.stdout.splitlines()) == 1, r.stdout)
        let_go(p)


def devices_of_daemon():
    """The number of devices, which `vcuda smi` shows with their memory; a bad number; quotas of each device."""
    if BACKEND != "cpu":
        print("the number of a GPU's devices is not to be set")
        sys.exit(77)
    lines = smi_lines("8")
    check(len(lines) == 8 and len({line.split("UUID")[1] for line in lines}) == 8, lines)
    check(smi_lines("1") == lines[:1] and smi_lines("") == lines[:1] and smi_lines("8") == lines, lines)
    for bad in "0", "9", "-1", "2x", "10", "two":
        env = dict(os.environ, VCUDA_CPU_DEVICES=bad)
        r = subprocess.run([build("host/daemon/vcudad"), "--socket", "/dev/null/none", "--backend", "cpu"], env=env,
                           capture_output=True, text=True, timeout=LIMIT, check=False)
        check(r.returncode == 2 and f"VCUDA_CPU_DEVICES={bad}: give a number of software GPUs from 1 to 8" in r.stderr,
              f"{bad}: {r.returncode} {r.stderr}")
    os.environ["VCUDA_CPU_DEVICES"] = "3"
    check_smi_memory()
    os.environ["VCUDA_CPU_DEVICES"] = "2"
    with daemon("--max-process-device-memory", "300M") as (_, env):
        r = subprocess.run([build("test/local/devices"), "quota"], env=env, capture_output=True, text=True, timeout=LIMIT, check=False)
        check(r.returncode == 0, f"quota: {r.returncode}\n{r.stdout}{r.stderr}")
