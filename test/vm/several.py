#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several VMs at once, with a vcudad each: their programs compute and check, and the end of one VM does not affect the
others.

usage: several.py BUILD_DIRECTORY KERNEL [VMS PROCESSES]      2 and 2 unless told. 77: there is no QEMU or kernel.
"""

import contextlib
import os
import re
import signal
import sys
import time

from machine import Machine
from harness import LIMIT, check, wait_until

PROGRAMS = ["test/local/steady", "test/local/exports", "guest/lib/libcuda.so.1"]
SECONDS = 10**6  # until the VM ends


def files_of(pid):
    """Sockets, pipes and files of memory that a process has open or mapped, by number."""
    found = set()
    for entry in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            link = os.readlink(f"/proc/{pid}/fd/{entry}")
            if link.startswith("/memfd:"):
                found.add(("memory", os.stat(f"/proc/{pid}/fd/{entry}").st_ino))
            elif link.startswith(("socket:", "pipe:")):
                found.add((link.split(":")[0], int(re.sub(r"\D", "", link))))
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        found |= {("memory", int(line.split()[4])) for line in maps if "/memfd:" in line}
    return found


def share_nothing(machines):
    """Daemons and workers of two VMs have no file in common."""
    seen = {}
    for vm in machines:
        mine = set().union(*(files_of(pid) for pid in (vm.daemon.pid, *vm.workers())))
        check(any(kind == "memory" for kind, _ in mine), "a VM has no memory")
        for file in mine:
            check(seen.setdefault(file, vm) is vm, f"two VMs share the {file[0]} {file[1]}")


def go_on(vm, processes):
    """The programs of a VM compute; what is wrong ends them."""
    time.sleep(2)
    for pid, log in processes:
        status, out = vm.sh(f"kill -0 {pid}")
        check(status == 0, f"a program has ended: {out} {vm.run('cat ' + log)}")
    check(len(vm.workers()) == len(processes), f"{len(vm.workers())} workers for {len(processes)} programs")


def export_nothing(vm, other):
    """The name of an export of one VM is unknown in another one while the export exists."""
    vm.run("mkfifo /tmp/in; exports show </tmp/in >/tmp/show 2>&1 & pid=$!; exec 7>/tmp/in")
    vm.run(f"timeout {LIMIT} sh -c 'until grep -q next? /tmp/show; do usleep 20000; done'")
    other.run("exports forge " + vm.run("head -1 /tmp/show"))
    vm.run("echo >&7; wait $pid")


def disturb(vm):
    """A worker is killed, and then the VM is."""
    os.kill(vm.workers()[0], signal.SIGKILL)
    vm.kill()
    wait_until(lambda: not vm.workers(), "a worker outlived its VM")


def main():
    build, kernel = os.path.abspath(sys.argv[1]), sys.argv[2]
    count, processes = (int(number) for number in sys.argv[3:] or (2, 2))
    programs = [os.path.join(build, path) for path in PROGRAMS]
    with contextlib.ExitStack() as stack:
        # All boot at once.
        machines = [Machine(build, programs, kernel, memory_mib=512) for _ in range(count)]
        for vm in machines:
            stack.enter_context(vm)
        started = [(vm, [vm.steady(SECONDS) for _ in range(processes)]) for vm in machines]
        for vm, programs in started:
            go_on(vm, programs)
        share_nothing(machines)
        export_nothing(machines[0], machines[1])
        disturb(machines[0])
        for vm, programs in started[1:]:
            go_on(vm, programs)
    print(f"ok {count} VMs with {processes} processes each")


if __name__ == "__main__":
    main()
