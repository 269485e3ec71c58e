#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""virtio-cuda.ko in User-Mode Linux under KASAN, UBSAN, lockdep and kmemleak (uml.py).

usage: kasan.py BUILD_DIRECTORY [SCENARIO...]      (--list prints the scenarios)

VCUDA_TEST_SECONDS=N: how long each random scenario calls, 60 unless told. 77: the kernel cannot be had here.
"""

import os
import random
import signal
import sys
import time

import uml
from uml import Uml

import vm  # uml.py knows where
from harness import check, random_seed, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
FAKE_HOST = os.path.join(HERE, "../vm/fake-host.py")
RANDOM_HOST = os.path.join(HERE, "random-host.py")
GUEST_SCRIPT = os.path.join(HERE, "../vm/driver-guest.sh")
SECONDS = int(os.environ.get("VCUDA_TEST_SECONDS") or 60)
ROUND = 10
DEVICE = "/sys/bus/virtio/drivers/virtio_cuda"
# Files of the fault injection, and their values: allocations of a process that asks for it fail now and then.
FAULTS = {"failslab": 5, "fail_page_alloc": 1}


def no_complaints(guest):
    out = guest.complaints()
    check(not out, f"the guest's kernel complains:\n{out}\n{guest.log('kernel.log')[-20000:]}")


def no_leaks(guest):
    """kmemleak reports what it has not found in several scans, and what is older than 5 s."""
    time.sleep(6)
    for _ in range(3):
        guest.run("echo scan >/sys/kernel/debug/kmemleak")
    out = guest.run("cat /sys/kernel/debug/kmemleak")
    check(not out, f"memory has leaked:\n{out}")


def nothing_left(guest):
    pinned = "awk '/foll_pin_acquired/ { a = $2 } /foll_pin_released/ { r = $2 } END { print a - r }' /proc/vmstat"
    wait_until(lambda: guest.run(pinned) == "0", "pages are left pinned in the guest")
    no_leaks(guest)
    no_complaints(guest)


def let_allocations_fail(guest):
    for name, percent in FAULTS.items():
        directory = f"/sys/kernel/debug/{name}"
        guest.run(f"cd {directory}; echo Y >task-filter; echo N >ignore-gfp-wait; echo -1 >times; echo 0 >verbose; echo {percent} >probability; cd /")
    guest.run("echo N >/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem; echo 0 >/sys/kernel/debug/fail_page_alloc/min-order")


def bind(guest):
    """Removes the device's driver and starts it again, which the host may refuse at times."""
    name = guest.run(f"cd {DEVICE}/../../devices && basename virtio*; cd /")
    guest.sh(f"echo {name} >{DEVICE}/unbind")
    for _ in range(100):
        if guest.sh(f"echo {name} >{DEVICE}/bind")[0] == 0:
            return
        no_complaints(guest)
    check(False, "the driver does not start again")


def replug(guest):
    """Unplugs the device, which frees what a file of the driver must not look at any more, and plugs it in again."""
    guest.run("cd /sys/bus/platform/drivers/virtio-uml && echo virtio-uml.0 >unbind && echo virtio-uml.0 >bind; cd /")


def call_randomly(guest, seed, ways):
    """Calls until the time is over, and starts the driver anew after each round, at first in the middle of calls. `ways` to do so."""
    numbers = random.Random(seed)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        guest.run(f"VCUDA_TEST_SEED={numbers.randrange(1, 1 << 32)} driver-random {ROUND} 3 >/tmp/random 2>&1 & echo $! >/tmp/pid")
        time.sleep(numbers.uniform(0, ROUND))
        numbers.choice(ways)(guest)
        check(guest.sh("wait $(cat /tmp/pid)")[0] == 0, "driver-random has failed: " + guest.run("cat /tmp/random"))
        print("  " + "; ".join(guest.run("cat /tmp/random").splitlines()))
        bind(guest)
        no_complaints(guest)


# ---- scenarios ----

def programs():
    """CUDA programs. Not those that map memory of the host: a process of UML has addresses up to 2^39 only."""
    paths = [p for p in vm.programs() if os.path.basename(p) not in ("direct", "hostile-pins", "pin-kill")]
    with Uml(vm.BUILD, paths, "uml") as guest:
        for name in ("vectorAdd", "matrixMul", "addOne", "legacyLaunch", "vectorAdd-static"):
            if os.path.join(vm.BUILD, "examples", name) in paths:
                check("Test PASSED" in guest.run(name), name)
        for scenario in (vm.isolation, vm.worker_killed, vm.operator, vm.reload):
            scenario(guest)
            check(not guest.workers(), "a worker is left")
        nothing_left(guest)


def tests(*names):
    return [os.path.join(vm.BUILD, "test/vm", name) for name in names]


def driver():
    """The tests of the driver with a host that answers wrongly. UML has no huge pages, and does not suspend devices."""
    with Uml(vm.BUILD, [*tests("driver-test", "driver-random"), GUEST_SCRIPT], "uml", daemon=[sys.executable, FAKE_HOST]) as guest:
        status, out = guest.sh(f"export VCUDA_TEST_SEED={random_seed()}; driver-guest.sh /t/driver-test direct suspend pin-after-suspend")
        check(status == 0, out)
        nothing_left(guest)


def random_calls():
    """Random calls, the workers being real."""
    seed = random_seed()
    with Uml(vm.BUILD, [*vm.programs(), *tests("driver-random")], "uml") as guest:
        let_allocations_fail(guest)
        call_randomly(guest, seed, [bind, replug])
        vm.next_works(guest)
        wait_until(lambda: not guest.workers(), "a worker is left")
        nothing_left(guest)


def random_host():
    """Random calls and a host that answers at random."""
    seed = random_seed()
    os.environ["VCUDA_TEST_SEED"] = str(seed)
    with Uml(vm.BUILD, tests("driver-test", "driver-random"), "uml", daemon=[sys.executable, RANDOM_HOST]) as guest:
        let_allocations_fail(guest)
        if guest.sh("test -e /dev/vcuda")[0]:
            bind(guest)
        call_randomly(guest, seed, [bind])
        os.kill(guest.daemon.pid, signal.SIGUSR1)
        bind(guest)
        guest.run("driver-test pin && driver-test wait")
        bind(guest)
        nothing_left(guest)


SCENARIOS = {f.__name__: f for f in (programs, driver, random_calls, random_host)}


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(SCENARIOS))
        return
    vm.BUILD = os.path.abspath(sys.argv[1])
    uml.uml()
    for name in sys.argv[2:] or SCENARIOS:
        start = time.monotonic()
        SCENARIOS[name]()
        print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
