#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""End to end in a VM: stock QEMU, the driver in the guest, the real daemon, worker, software GPU and guest libraries; no GPU.

usage: vm.py BUILD_DIRECTORY KERNEL SCENARIO...      (--list prints the scenarios)

Several scenarios share one VM, one after another, and each must leave nothing behind. 77: there is no QEMU or kernel.
"""

import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from machine import DEVICE, HERE, Machine, parts
from exports import MEMORY, keepers
from faults import TIMES, inventory, settled, wait_until_same
from harness import LIMIT, check, resident_kib, wait_until

BUILD = ""
EXAMPLES = ["vectorAdd", "matrixMul", "addOne", "zeroCopy", "pinnedCopy", "legacyLaunch", "managed"]
STATIC = [f"{name}-static" for name in EXAMPLES]
HOSTILE = ["shared-file", "shared-file-read", "private-file", "private-file-read", "zero-page", "remapped", "unmapped",
           "windows-raw", "windows-cuda", "direct-raw"]
DESCRIPTORS = ["started-closed-012", "closed-before-02", "closed-after-012", "reused-0", "log-is-no-data", "written-meanwhile", "closed-first",
               *(f"replaced-first-{kind}" for kind in ("file", "event", "sequenced", "null")), "closefrom-after", "replaced-then-forks-first",
               "exits-after-replacing", "fork-after-opens", "fork-exec", "daemon-closefrom", "limit-8", "full-but-4", "low-stay-free"]
CUDA_ERROR = 3


def built(*names):
    return [p for p in (os.path.join(BUILD, n) for n in names) if os.path.exists(p)]


def of_toolkits():
    """A program of each toolkit from 9.1 on, linked with that toolkit's runtime library."""
    found = sorted(glob.glob(os.path.join(BUILD, "test/local/runtime-*[0-9]")))
    check(len(found) == 7, f"programs of toolkits: {found}")
    return found


def programs():
    """The programs and libraries for the guest."""
    return [*built(*(f"examples/{n}" for n in EXAMPLES + STATIC), "test/local/steady", "test/local/checkpoint", "test/local/descriptors", "test/local/registration", "test/local/hostmem", "test/local/exports", "test/vm/direct", "test/vm/pin-kill", "test/vm/hostile-pins",
                   "guest/lib/libcuda.so.1", "guest/lib/libnvidia-ml.so.1"),
            *glob.glob(os.path.join(BUILD, "guest/lib/libcudart.so.*")), *of_toolkits()]


def next_works(vm):
    vm.run("steady 0")


def lost(vm, process, why):
    """The process was told by a CUDA error, and others go on."""
    status, out = vm.end_of(process)
    check(status == CUDA_ERROR and "CUDA error" in out, f"{why}: the process ended with {status}: {out}")
    next_works(vm)


# ---- scenarios ----

def vm_run(kernel):
    """`vcuda vm run`: every example passes and names its device; the program's exit status is passed through."""
    parts(kernel)
    paths = built(*(f"examples/{n}" for n in EXAMPLES + STATIC))
    vcuda = os.path.join(BUILD, "cli/vcuda")
    oldest = of_toolkits()[-1]
    check(oldest.endswith("-9.1"), oldest)
    script = '"$0" smi -L || exit 1; "$1" || exit 1; shift; for p; do echo "== $p"; "$p" || exit 1; done; exit 7'
    r = subprocess.run([vcuda, "vm", "run", "--kernel", kernel, "--backend", "cpu", "--stats", "--", "sh", "-c", script, vcuda, oldest, *paths],
                       capture_output=True, text=True, check=False)
    check(r.returncode == 7, f"vcuda vm run ended with {r.returncode}:\n{r.stdout}{r.stderr}")
    check("daemon said" not in r.stderr, f"a program that fails is told of a daemon that has nothing to say:\n{r.stderr}")
    check(r.stdout.startswith("GPU 0: vCUDA Software GPU"), f"vcuda smi in the VM:\n{r.stdout}")
    said, *outputs = r.stdout.split("== ")
    check(said.endswith("\nruntime: passed\n") and len(outputs) == len(paths), r.stdout)
    for out in outputs:
        check("Test PASSED" in out and "vCUDA Software GPU" in out, f"an example printed:\n{out}")
    check(r.stderr.count("CUDA calls of process") == 1 + len(paths), f"--stats does not reach every program:\n{r.stderr}")
    # The doctor's words where the host's parts are not installed, with the driver and without it.
    script = 'VCUDA_DAEMON=/none "$0" doctor || exit 1; rmmod virtio_cuda; VCUDA_DAEMON=/none "$0" doctor; exit $((1 - $?))'
    r = subprocess.run([vcuda, "vm", "run", "--kernel", kernel, "--backend", "cpu", "--", "sh", "-c", script, vcuda], capture_output=True, text=True, check=False)
    check(r.returncode == 0 and "1 device: vCUDA Software GPU" in r.stdout and "\nCUDA programs can run here.\n" in r.stdout and
          "whose driver is not loaded\n" in r.stdout and r.stdout.endswith("\nCUDA programs cannot run here yet.\n"), f"{r.returncode}\n{r.stdout}{r.stderr}")
    # Workers of one VM find one another, whatever else their sandbox hides. The device's PCI address is no other device's of the VM.
    # NVML has the VM's processors and the load of its programs.
    script = 'ls /sys/bus/pci/devices && "$1" && "$2" && for part in handles topology busy; do "$3" $part || exit 1; done'
    r = subprocess.run([vcuda, "vm", "run", "--kernel", kernel, "--backend", "cpu", "--", "sh", "-c", script, "sh",
                        *(os.path.join(BUILD, f"test/local/{n}") for n in ("nvml", "ipc", "nvml-parts"))], capture_output=True, text=True, check=False)
    check(r.returncode == 0 and r.stdout.endswith("\nnvml: all as expected\nipc: passed\nhandles: passed\ntopology: passed\nbusy: passed\n"), f"{r.returncode}\n{r.stdout}{r.stderr}")
    check(r.stdout.startswith("0000:00:00.0\n"), f"the VM has no PCI devices:\n{r.stdout}")


def vm_warm(kernel):
    """The worker is ready when the VM's program comes; one whose driver has to have other variables is as if it had not been.

    The end of the VM may kill the worker before it notes that its guest process is gone."""
    parts(kernel)
    program = os.path.join(BUILD, "examples/vectorAdd")
    begins = ["starts", "back end is initialised", "has a context"]
    for command, expected, workers in (([program], [*begins, "has its guest process"], 1),
                                       (["env", "CUDA_DEVICE_MAX_CONNECTIONS=3", program],
                                        [*begins, "has its guest process", "starts", "has its guest process", "back end is initialised"], 2)):
        r = subprocess.run([os.path.join(BUILD, "cli/vcuda"), "vm", "run", "--kernel", kernel, "--backend", "cpu", "--verbose", "--", *command],
                           capture_output=True, text=True, check=False, env=dict(os.environ, VCUDA_TIMES="1"))
        check(r.returncode == 0 and "Test PASSED" in r.stdout, f"{command}: {r.returncode}\n{r.stdout}{r.stderr}")
        lines = re.findall(r"^vcuda-time \S+ (\d+) worker: (.*)$", r.stderr, re.M)
        steps = [what for _, what in lines if what in expected]
        check(steps == expected and len({pid for pid, _ in lines}) == workers, f"{command}: {lines}")


def vm_direct(kernel):
    """`--register-ram` reaches a warm worker, and one that is started anew for its variables."""
    parts(kernel)
    for setting in ("VCUDA=1", "CUDA_DEVICE_MAX_CONNECTIONS=3"):
        r = subprocess.run([os.path.join(BUILD, "cli/vcuda"), "vm", "run", "--kernel", kernel, "--backend", "cpu", "--register-ram", "--stats", "--",
                            "env", setting, os.path.join(BUILD, "test/vm/direct"), "contents"], capture_output=True, text=True, check=False)
        check(r.returncode == 0 and re.search(r" \d+  vcudaCopyDirect$", r.stderr, re.M), f"{setting}: {r.returncode}\n{r.stdout}{r.stderr}")


def vm_share(kernel):
    """Where the kernel refuses namespaces: the VM computes, by the way that is left, and writes nothing to the host."""
    parts(kernel)
    script = '"$1/read-only.sh" "$2" "$3" && exec "$4"'
    for how, share in (("chroot", "unprivileged"), ("chroot-root", "namespace"), ("capability", "namespace")):
        with tempfile.TemporaryDirectory() as canary:
            r = subprocess.run([os.path.join(BUILD, "test/cli/refused"), how, os.path.join(BUILD, "cli/vcuda"), "vm", "run", "--kernel", kernel,
                                "--backend", "cpu", "--share", share, "--", "sh", "-c", script, "sh", HERE, canary, share,
                                os.path.join(BUILD, "examples/vectorAdd")], capture_output=True, text=True, check=False)
            written = os.listdir(canary)
        if r.returncode == 77:
            print(r.stderr)
            sys.exit(77)
        check(r.returncode == 0 and "ok the host's files" in r.stdout and "Test PASSED" in r.stdout, f"{how}: {r.returncode}\n{r.stdout}{r.stderr}")
        check(not written, f"{how}: the VM wrote {written} to the host")


# As systemd does: a group with the controller, and vcudad alone in a group. Beside another process it cannot have a limit.
GROUPS = """
mount -t cgroup2 none /sys/fs/cgroup && echo +memory >/sys/fs/cgroup/cgroup.subtree_control || exit 1
cat >/run/alone <<'END'
#!/bin/sh
mkdir /sys/fs/cgroup/unit.$$ && echo $$ >/sys/fs/cgroup/unit.$$/cgroup.procs && exec "$REAL_VCUDAD" "$@"
END
chmod +x /run/alone
export VCUDA_TEST_GROUPS=v2 VCUDAD=$3 FAKE_WORKER=$4
REAL_VCUDAD=$VCUDAD VCUDAD=/run/alone "$1" "$2" -v Limit || exit 1
mkdir /sys/fs/cgroup/crowd && echo $$ >/sys/fs/cgroup/crowd/cgroup.procs || exit 1
"$VCUDAD" --worker "$FAKE_WORKER" --sandbox off --socket /run/vcudad --max-host-memory 1G
echo "vcudad in a crowd: $?"
"""


def vm_groups(kernel):
    """The limit of the host's memory with control groups of version 2 alone, which the host may not have."""
    parts(kernel)
    programs = [os.path.join(BUILD, name) for name in ("host/daemon/vcudad", "test/vhost/fake-worker")]
    test = os.path.join(HERE, "../vhost/test-host-memory.py")
    r = subprocess.run([os.path.join(BUILD, "cli/vcuda"), "vm", "run", "--kernel", kernel, "--backend", "cpu", "--", "sh", "-c", GROUPS, "sh",
                        sys.executable, test, *programs], capture_output=True, text=True, check=False)
    out = r.stdout + r.stderr
    check(r.returncode == 0 and "\nOK\n" in out and "skipped" not in out, f"{r.returncode}\n{out}")
    check("may make no control group" in out and "vcudad in a crowd: 1" in out, out)


def examples(vm):
    for path in built(*(f"examples/{n}" for n in EXAMPLES + STATIC)):
        out = vm.run(os.path.basename(path))
        check("Test PASSED" in out and "vCUDA Software GPU" in out, out)


def runtimes(vm):
    """Programs of older toolkits find their own runtime library, and it works."""
    for path in of_toolkits():
        name = os.path.basename(path)
        linked = vm.run(f"LD_TRACE_LOADED_OBJECTS=1 {name}")
        check(f"/t/libcudart.so.{name.partition('-')[2]} " in linked, f"{name} is linked with\n{linked}")
        check(vm.run(name) == "runtime: passed", name)


def isolation(vm):
    """Two processes compute; kill -9 of one ends its worker and the other never notices."""
    first = vm.steady()
    worker, = vm.workers()
    second = vm.steady()
    check(len(vm.workers()) == 2, f"{len(vm.workers())} workers for two processes")
    start = time.monotonic()
    vm.type(f"kill -9 {first[0]}")
    wait_until(lambda: worker not in vm.workers(), "the worker outlived its process")
    check(len(vm.workers()) == 1, "the worker lived as long as its neighbour's process")
    print(f"  the killed process's worker was gone after {time.monotonic() - start:.2f} s")
    vm.end(second)
    crashed = vm.steady()
    vm.run(f"kill -SEGV {crashed[0]}")
    next_works(vm)


def worker_killed(vm):
    """A worker that dies gives its process a CUDA error; the VM and the other processes go on."""
    victim = vm.steady()
    (worker,) = vm.workers()
    other = vm.steady()
    os.kill(worker, signal.SIGKILL)
    lost(vm, victim, "its worker was killed")
    vm.end(other)


def processes_of(vm):
    listed = json.loads(subprocess.run([os.path.join(BUILD, "cli/vcuda"), "vm", "list", "--json"], capture_output=True, text=True, check=False).stdout)
    ours, = [daemon for daemon in listed if daemon["pid"] == vm.daemon.pid]
    return ours


def operator(vm):
    """`vcuda vm kill` ends one process; the process, the guest's kernel and vcudad's log say so, and the others go on."""
    victim, other = vm.steady(), vm.steady()
    vcuda = os.path.join(BUILD, "cli/vcuda")
    ours = processes_of(vm)
    check(ours["vm"] == "connected", ours)
    check({process["pid"] for process in ours["processes"]} == {int(victim[0]), int(other[0])}, ours)
    subprocess.run([vcuda, "vm", "kill", "--reason", "a test", str(vm.daemon.pid), str(victim[0])], check=True)
    lost(vm, victim, "the operator killed it")
    said = vm.run("dmesg | grep 'lost its GPU' | tail -n 1")
    check(f"vcuda: process {victim[0]} lost its GPU: killed by the host's operator" in said, said)
    check(f"guest process {victim[0]} of user 0 is killed by user {os.geteuid()} of the host: a test" in vm.log("vcudad.log"), "vcudad's log")
    vm.end(other)


def release(vm):
    """All processes of the VM are paused, and release their memory; after that they go on."""
    programs = [vm.steady() for _ in range(4)]
    vcuda = os.path.join(BUILD, "cli/vcuda")
    for _ in range(3):
        subprocess.run([vcuda, "pause", "--release", "--vm", str(vm.daemon.pid)], check=True)
        check([p["state"] for p in processes_of(vm)["processes"]] == 4 * ["released"], processes_of(vm))
        subprocess.run([vcuda, "resume", "--vm", str(vm.daemon.pid)], check=True)
        check([p["state"] for p in processes_of(vm)["processes"]] == 4 * ["running"], processes_of(vm))
    for program in programs:
        vm.end(program)


def checkpoint(vm):
    """cuCheckpointProcess*() by pids of the guest: a locked process stops, has no memory, and goes on; other users may
    not lock it."""
    program, other = vm.steady(), vm.steady()

    def act(who, *steps, before=""):
        said = vm.run(f"VCUDA_LOG=0 checkpoint {who} {before} {' '.join(steps[::2])}").splitlines()
        check(said == list(steps[1::2]), f"{steps[::2]} gave {said}, not {steps[1::2]}")

    def state():
        return {p["pid"]: p["state"] for p in processes_of(vm)["processes"] if str(p["pid"]) in (program[0], other[0])}

    act(program[0], "state", "state 0", "checkpoint", "401", "lock", "0", "state", "state 1", "lock", "401")
    check(state() == {int(program[0]): "locked", int(other[0]): "running"}, state())
    act(program[0], "checkpoint", "0", "state", "state 2", "unlock", "401")
    check(state() == {int(program[0]): "checkpointed", int(other[0]): "running"}, state())
    act(program[0], "state", "304", "restore", "304", before="user=1000")
    act("1", "state", "304")
    act("99999", "lock", "304")
    vm.end(other)
    check(vm.run(f"cat {program[1]}").split() == ["ready"], "a process that is held has ended")
    act(program[0], "restore", "0", "unlock", "0")
    vm.end(program)
    act("self", "lock", "0", "checkpoint", "0", "restore", "0", "unlock", "0")


def memory(vm):
    """The memory of a process: the area shared with its worker, and the daemon."""
    process = vm.steady()
    sizes = vm.run(f"awk '/vcuda/ {{ on = 1 }} on && /^Size/ {{ sum += $2; on = 0 }} END {{ print sum }}' /proc/{process[0]}/smaps")
    resident, shared = resident_kib(vm.daemon.pid), int(sizes)
    print(f"  shared memory of a process: {shared} KiB; vcudad resident: {resident} KiB")
    check(0 < shared <= 4096, f"a process shares {shared} KiB with its worker")
    check(resident <= 16 * 1024, f"the daemon has {resident} KiB resident")
    vm.end(process)


def pins(vm):
    for case in HOSTILE:
        out = vm.run(f"hostile-pins {case}")
        print("  " + case + ": " + "; ".join(out.splitlines()))
        next_works(vm)


def host_memory(vm):
    """cuMemCreate() in host memory is memory of the guest, whose pages the driver pins."""
    print("  " + vm.run("hostmem cpu"))


def registration(vm):
    """Host memory is registered byte by byte, whose pages the driver pins."""
    print("  " + vm.run("registration"))


def descriptors(vm):
    """A program without descriptors 0, 1 and 2, or one that takes the driver's."""
    print("  " + vm.run("descriptors " + " ".join(DESCRIPTORS)))


class Exporter:
    """A part of test/local/exports in the guest's background, which waits where it says so. The count of its memory is final when vcudad has reaped the worker."""
    def __init__(self, vm, part):
        self.vm, self.part = vm, part
        vm.run("rm -f /tmp/in; mkfifo /tmp/in")
        self.pid = vm.run(f"exports {part} </tmp/in >/tmp/exports.log 2>&1 & echo $!").split()[-1]
        vm.run("exec 7>/tmp/in")
        self.waits = 0

    def reach(self):
        """Waits until the program waits, and the host has no worker of the VM."""
        self.waits += 1
        self.vm.run(f"timeout {LIMIT} sh -c 'until [ $(grep -c next? /tmp/exports.log) = {self.waits} ] || ! kill -0 {self.pid}; do usleep 20000; done'")
        wait_until(lambda: not self.vm.workers(), "a worker outlived its process")

    def go_on(self):
        self.vm.run("echo >&7")

    def end(self):
        status, out = self.vm.end_of((self.pid, "/tmp/exports.log"))
        self.vm.run("exec 7>&-")
        check(status == 0 and out.endswith("exports: passed"), f"exports {self.part}: {status} {out}")


def device_memory(vm):
    return processes_of(vm)["quotas"]["max-device-memory"]["used"]


def exports(vm):
    """Exported memory outlives its process and worker, whatever ends them, and ends with its last descriptor."""
    vm.run("for part in twice released; do exports $part || exit 1; done")
    for part in "exits", "killed", "pool":
        exporter = Exporter(vm, part)
        exporter.reach()
        exporter.go_on()
        exporter.end()
    exporter = Exporter(vm, "counted")
    exporter.reach()
    wait_until(lambda: device_memory(vm) == MEMORY, "other bytes are counted than those that are exported")
    exporter.go_on()
    wait_until(lambda: device_memory(vm) == 0, "the last close has freed nothing")
    exporter.reach()
    exporter.go_on()
    exporter.end()


def pin_kill(vm):
    print("  " + vm.run("pin-kill 10 64"))


def reload(vm):
    """The driver is unloaded and loaded; not under an open context, from which it can only be unbound by force."""
    process = vm.steady()
    status, out = vm.sh("rmmod virtio_cuda")
    check(status != 0, f"rmmod under an open context ended with {status}: {out}")
    vm.run("cd /sys/bus/virtio/drivers/virtio_cuda && basename virtio* >/tmp/name && cat /tmp/name >unbind; cd /; ! test -e /dev/vcuda")
    status, out = vm.end_of(process)
    check(status == CUDA_ERROR, f"the driver was unbound: the process ended with {status}: {out}")
    check(not vm.workers(), "a worker outlived the driver")
    vm.run("cat /tmp/name >/sys/bus/virtio/drivers/virtio_cuda/bind")
    next_works(vm)
    for _ in range(2):
        vm.run("rmmod virtio_cuda && ! test -e /dev/vcuda && insmod /modules/virtio-cuda.ko")
        next_works(vm)


def unplug(vm):
    """The device is unplugged under an open context, and plugged in again."""
    for _ in range(2):
        process = vm.steady()
        vm.qmp("device_del", id="vcuda")
        status, out = vm.end_of(process)
        check(status == CUDA_ERROR, f"the device was unplugged: the process ended with {status}: {out}")
        vm.run("while test -e /dev/vcuda; do usleep 20000; done")
        wait_until(lambda: not vm.workers(), "a worker outlives the device")
        driver, *properties = DEVICE.split(",")
        vm.qmp("device_add", driver=driver, **{name: int(value) if value.isdigit() else value for name, value in (p.split("=") for p in properties)})
        vm.run("until test -e /dev/vcuda; do usleep 20000; done")
        next_works(vm)


def reboot(vm):
    """The guest reboots, panics and is reset under open contexts; vcudad has afterwards what it had before. VCUDA_TEST_TIMES: loops."""
    next_works(vm)
    before = settled(vm.daemon.pid)
    for how in TIMES * (lambda: vm.type("reboot -f"), lambda: vm.type("echo b >/proc/sysrq-trigger"), lambda: vm.qmp("system_reset"),
                        lambda: vm.type("echo c >/proc/sysrq-trigger")):
        vm.steady()
        vm.steady()
        how()
        vm.await_boot()
        check(not vm.workers(), "a worker outlived its guest")
        next_works(vm)
        has_again(vm, before)


def killed(vm):
    """QEMU is killed under open contexts, and another one comes. VCUDA_TEST_TIMES: loops."""
    next_works(vm)
    before = settled(vm.daemon.pid)
    for _ in range(TIMES):
        vm.steady()
        vm.steady()
        vm.restart()
        check(not vm.workers(), "a worker outlived its VM")
        next_works(vm)
        has_again(vm, before)
    Exporter(vm, "counted").reach()
    wait_until(lambda: device_memory(vm) == MEMORY, "other bytes are counted than those that are exported")
    vm.restart()
    check(device_memory(vm) == 0, "what was exported outlives the VM")
    next_works(vm)
    has_again(vm, before)


def has_again(vm, before):
    now = lambda: inventory(vm.daemon.pid)
    check(wait_until_same(vm.daemon.pid, before), f"vcudad has {now() - before} more, {before - now()} less")


def pause(vm):
    """QEMU's stop and cont: contexts do not survive, processes are told."""
    process = vm.steady()
    vm.qmp("stop")
    check(not vm.workers(), "a worker goes on while its VM is stopped")
    vm.qmp("cont")
    lost(vm, process, "the VM was stopped")


# ---- with --register-ram ----

def direct(vm, case, setting=""):
    """Runs one case of test/vm/direct.c: what the worker ran, by command, and the numbers that the program expects."""
    out = vm.run(f"VCUDA_STATS=1 {setting} direct {case}")
    said = re.search(r"^warmed (\d+) parts (\d+) pieces (\d+) blocks (\d+)$", out, re.M)
    check(said and "What the worker ran" in out, f"{case} said\n{out}")
    ran = {name: int(count) for count, name in re.findall(r" (\d+)  (vcuda\w+)$", out, re.M)}
    print(f"  {case}: {said.group()}, {ran.get('vcudaCopyDirect', 0)} copied directly")
    return ran, *map(int, said.groups())


def staged(case, ran, pieces, blocks):
    found = ran["vcudaStageIn"], ran.get("vcudaStageHtoD", 0) + ran["vcudaStageDtoH"]
    check(found == (pieces, blocks), f"{case}: {found} pieces and blocks were staged, not {(pieces, blocks)}")


def exactly(vm, case, either=0):
    """Each copy went the way it was to go. One of those that warm up was staged for each question answered with no, in 256 pieces;
    the others went directly, in two parts. `either`: parts of 8 MiB that may go either way."""
    ran, warmed, parts, pieces, blocks = direct(vm, case)
    no = ran["vcudaDirectReady"] - 1
    copied = ran.get("vcudaCopyDirect", 0)
    check(0 <= no < warmed, f"{case}: {no} of {warmed} copies were staged to begin with")
    more = copied - parts - 2 * (warmed - no)
    check(0 <= more <= either, f"{case}: {copied} parts went directly, of {parts} and {warmed - no} copies")
    staged(case, ran, pieces + 256 * no + 128 * (either - more), blocks)


def direct_contents(vm):
    exactly(vm, "contents")


def direct_kinds(vm):
    # 24 MiB of a file may lie in small pages.
    exactly(vm, "read-only", 3)
    exactly(vm, "fragmented")


def direct_many(vm):
    """Threads, forks and contexts that end: how much goes directly is a matter of chance, that some does is not."""
    for case, least in (("threads", 10), ("forks", 2), ("contexts", 20)):
        ran, *_ = direct(vm, case)
        check(ran["vcudaCopyDirect"] >= least, f"{case}: {ran}")


def direct_limit(vm):
    """A user who may pin next to nothing: all by staging, though it is offered."""
    parameter = "/sys/module/virtio_cuda/parameters/max_pinned_mib"
    vm.run(f"echo 6 >{parameter}")
    ran, _, _, pieces, blocks = direct(vm, "limit")
    vm.run(f"echo 0 >{parameter}")
    check("vcudaCopyDirect" not in ran and ran["vcudaDirectReady"] > 0, f"over the limit: {ran}")
    staged("limit", ran, pieces, blocks)


def direct_ends(vm):
    """Processes and workers end in the middle of copies."""
    vm.run("direct killed")
    vm.run("mkfifo /tmp/fifo; direct worker-dies >/tmp/fifo & ( read word; echo $word >/tmp/word; cat >/tmp/died ) </tmp/fifo & sleep 0")
    wait_until(lambda: "ready" in vm.sh("cat /tmp/word")[1], "the process does not begin to copy")
    (worker,) = vm.workers()
    check(resident_kib(worker) > 1000 * 1024, "the RAM is not registered")
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: "warmed" in vm.sh("cat /tmp/died")[1], "the process is not told")
    check("CUDA error 719" in vm.run("cat /tmp/died; rm /tmp/fifo"), "the process was told something else")
    next_works(vm)


def direct_hostile(vm):
    """The driver's interface by hand."""
    print("  " + vm.run("hostile-pins direct-raw"))


def balloon(kernel):
    """With a balloon in the VM pages may be exchanged under the device: nothing goes directly, and the driver says so."""
    with Machine(BUILD, programs(), kernel, options=["--register-ram"], devices=["-device", "virtio-balloon-pci"]) as vm:
        said = vm.run("VCUDA_STATS=1 direct no-way")
        check("vcudaStageIn" in said and "vcudaDirect" not in said and "vcudaCopyDirect" not in said, said)
        check("memory balloon" in vm.run("dmesg"), "the driver does not say why")


DIRECT = {f.__name__: f for f in (direct_contents, direct_kinds, direct_many, direct_limit, direct_ends, direct_hostile)}
SCENARIOS = {f.__name__: f for f in (examples, runtimes, isolation, worker_killed, operator, release, checkpoint, memory, pins, pin_kill, reload, unplug, reboot, killed, pause, registration, host_memory, descriptors, exports)}


def nothing_left(vm):
    wait_until(lambda: not vm.workers(), "a worker is left")
    wait_until(lambda: not keepers(vm.daemon), "what has been exported is left")
    pinned = "awk '/foll_pin_acquired/ { a = $2 } /foll_pin_released/ { r = $2 } END { print a - r }' /proc/vmstat"
    wait_until(lambda: vm.run(pinned) == "0", "pages are left pinned in the guest")
    status, out = vm.sh("dmesg | grep -E 'BUG|WARNING:|Oops|general protection|refcount|use-after-free'")
    check(status == 1, f"the guest's kernel complains:\n{out}")


def unshared(kernel):
    """Memory that is not shared: both sides say what to do."""
    with Machine(BUILD, programs(), kernel, shared=False) as vm:
        check("share=on" in vm.log("vcudad.log"), "vcudad does not say what is wrong")
        said = vm.run("dmesg | grep virtio_cuda")
        check("share=on" in said and vm.sh("test -e /dev/vcuda")[0], f"the guest's driver says:\n{said}")
    few_queues(kernel)


def few_queues(kernel):
    """So does a device without one of its queues, and a program."""
    with Machine(BUILD, programs(), kernel, device=DEVICE.replace("num_vqs=3", "num_vqs=2")) as vm:
        check("has 2 queues for the device" in vm.log("vcudad.log") and "num_vqs=3" in vm.log("vcudad.log"), vm.log("vcudad.log"))
        said = vm.run("dmesg | grep virtio_cuda")
        check("num_vqs=3" in said, f"the guest's driver says:\n{said}")
        status, out = vm.sh("vectorAdd 2>&1")
        check(status and "driver is loaded and does not use it" in out, out)
        vm.run("rmmod virtio_cuda")
        status, out = vm.sh("vectorAdd 2>&1")
        check(status and "driver is not loaded: modprobe virtio-cuda" in out, out)


def main():
    global BUILD
    if "--list" in sys.argv:
        print("\n".join(("vm_run", "vm_warm", "vm_direct", "vm_share", "vm_groups", "unshared", "balloon", *DIRECT, *SCENARIOS)))
        return
    BUILD, kernel, names = os.path.abspath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    alone = {"vm_run": vm_run, "vm_warm": vm_warm, "vm_direct": vm_direct, "vm_share": vm_share, "vm_groups": vm_groups, "unshared": unshared, "balloon": balloon}
    if len(names) == 1 and names[0] in alone:
        alone[names[0]](kernel)
        print("ok", names[0])
        return
    with Machine(BUILD, programs(), kernel, options=["--register-ram"] if names[0] in DIRECT else []) as vm:
        for name in names:
            start = time.monotonic()
            (DIRECT | SCENARIOS)[name](vm)
            nothing_left(vm)
            print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
