#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The device plug-in, with a kubelet of our own: test-device-plugin.py BUILD_ROOT SCENARIO"""

import concurrent.futures
import contextlib
import os
import pathlib
import signal
import socket
import stat
import subprocess
import sys
import threading
import time

from programs import LIMIT, PROGRAM, Program, check, folder, need_packages, skip, wait_for

need_packages()
from cdi_rules import check as check_cdi  # pylint: disable=wrong-import-position
from fakes import Kubelet  # pylint: disable=wrong-import-position

BUILD = pathlib.Path(sys.argv[1])
HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"


@contextlib.contextmanager
def running(*options, start=True, program=PROGRAM):
    with folder() as top:
        kubelet = Kubelet(f"{top}/kubelet")
        if start:
            kubelet.start()
        program = Program(BUILD, top, "device-plugin", "--collect-interval", "0.1", *options, program=program)
        try:
            yield kubelet, program
        finally:
            program.kill()
            kubelet.stop()


def gpus_of(devices):
    """Slices by GPU, in order."""
    found = {}
    for name in devices:
        found.setdefault(name.rpartition("::")[0], []).append(name)
    return list(found.values())


def allocation():
    """Registration, slices, allocation, and what a container gets."""
    with running("--slices", "4") as (kubelet, program):
        plugin = kubelet.plugin()
        check(plugin.request.resource_name == "virtio-cuda/slice" and plugin.request.version == "v1beta1", plugin.request)
        check(plugin.request.options.get_preferred_allocation_available and plugin.options == plugin.request.options, plugin.options)
        devices = plugin.devices()
        first, second = gpus_of(devices)
        check(len(first) == len(second) == 4 and set(devices.values()) == {HEALTHY}, devices)
        check(all(len(name) <= 63 for name in devices), devices)
        # From one GPU: the one with the fewest free slices that are enough.
        check(plugin.prefer(first + second[2:], [], 2) == second[2:], "the GPU with fewer free slices")
        check(set(plugin.prefer(first + second[2:], [], 3)) <= set(first), "the GPU that has enough")
        check(set(plugin.prefer(first + second, [first[1]], 2)) > {first[1]} and
              set(plugin.prefer(first + second, [first[1]], 2)) < set(first), "beside the slice that it must have")
        check(len(plugin.prefer(first[:1] + second[:1], [], 2)) == 2, "none has enough")
        # Two containers of a pod.
        (one,), (two,) = plugin.allocate(first[:1], first[1:3])
        check(program.memory_mib(BUILD, one) == {256} and program.memory_mib(BUILD, two) == {512}, "quotas")
        options = {name: pathlib.Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0") for name, process in program.daemons().items()}
        shares = {name: words[words.index(b"--share") + 1] for name, words in options.items()}
        check(shares == {one.partition("=")[2]: b"1", two.partition("=")[2]: b"2"}, shares)
        specification, edits = program.specification(two)
        check_cdi(specification)
        check(edits["env"] == [f"CUDA_VISIBLE_DEVICES={first[0].rpartition('::')[0]}"], edits)
        path = pathlib.Path(edits["mounts"][0]["hostPath"], "socket")
        check(stat.S_IMODE(path.stat().st_mode) == 0o666 and stat.S_IMODE(path.parent.stat().st_mode) == 0o755, "other users of a container")
        check(stat.S_IMODE(program.run.stat().st_mode) == 0o700, "users of the node")
        mounts = {mount["containerPath"] for mount in specification["containerEdits"]["mounts"]}
        check({"/usr/lib/libcuda.so.1", "/usr/lib64/libnvidia-ml.so.1", "/usr/bin/vcuda"} <= mounts, mounts)
        # Refusals leave what is there.
        there = program.daemons()
        for devices, words in (([first[3], second[3]], "must be of one GPU"), (["nonsense"], "no slice"), ([f"{first[0]}9"], "no slice"),
                               (["../../x::0"], "no slice"), ([], "must be of one GPU")):
            said = plugin.allocate(devices)
            check(isinstance(said, str) and words in said, f"{devices}: {said}")
        check(program.daemons() == there, "a refusal changes something")
        # SIGTERM ends all, and keeps the files for the next run.
        check(program.end() == 0, "SIGTERM")
        check(not program.daemons() and not list(kubelet.folder.glob("device-plugins/virtio*")), "something is left")
        check(path.parent.is_dir() and len(list(program.cdi.iterdir())) == 2, "the containers' files are gone")


def health():
    """A vcudad that ends makes its slices unhealthy until there is another one."""
    with folder() as top:
        tools = pathlib.Path(top)
        wrapper, fault, blind = tools / "vcudad", tools / "fault", tools / "blind"
        (tools / "vcuda").symlink_to(f"{BUILD}/cli/vcuda")
        # The vcudad that lists the GPUs has no name.
        wrapper.write_text(f'#!/bin/sh\ncase "$*" in *--name*) [ ! -e {fault} ] || {{ echo "no memory is left" >&2; exit 1; }} ;; '
                           f'*) [ ! -e {blind} ] || {{ echo "cannot look" >&2; exit 1; }} ;; esac\n'
                           f'exec {BUILD}/host/daemon/vcudad "$@"\n')
        wrapper.chmod(0o755)
        with running("--slices", "2", "--vcudad", str(wrapper), "--vcuda", str(tools / "vcuda")) as (kubelet, program):
            plugin = kubelet.plugin()
            first, second = gpus_of(plugin.devices())
            (name,), = plugin.allocate(first[:1])
            unit = name.partition("=")[2]
            old = program.daemons()[unit]
            fault.touch()
            blind.touch()
            os.kill(old, signal.SIGKILL)
            # A probe that fails says nothing of the GPUs, until a third one does.
            devices = plugin.devices()
            check(devices == {first[0]: UNHEALTHY, first[1]: HEALTHY, second[0]: HEALTHY, second[1]: HEALTHY}, devices)
            check(set(plugin.devices().values()) == {UNHEALTHY}, "GPUs that no probe finds")
            check(sum("vcudad does not start: cannot look" in line for line in program.words) >= 3, program.words)
            blind.unlink()
            devices = plugin.devices()
            check(devices == {first[0]: UNHEALTHY, first[1]: HEALTHY, second[0]: HEALTHY, second[1]: HEALTHY}, devices)
            program.wait_for_words("vcudad does not start: no memory is left")
            check("no memory is left" in plugin.allocate(second), "the kubelet is not told why")
            check([path.name for path in program.run.glob("slices-*")] == [unit], "a refusal leaves something")
            fault.unlink()
            devices = plugin.devices()
            check(set(devices.values()) == {HEALTHY}, devices)
            check(program.daemons()[unit] != old and program.memory_mib(BUILD, name) == {512}, "the new vcudad is not in its place")
            # A vcudad that cannot be described is ended.
            there = program.daemons()
            (tools / "vcuda").unlink()
            said = plugin.allocate(second)
            check("`vcuda cdi generate` fails" in said and program.daemons() == there, f"{said} {program.daemons()}")


def restarts():
    """The kubelet starts again, and the plug-in does, even after SIGKILL."""
    with running("--slices", "2", start=False) as (kubelet, program):
        program.wait_for_words("gpu-1 is")
        kubelet.refuse = "the version is too old"
        kubelet.start()
        program.wait_for_words("does not register virtio-cuda/slice: the version is too old")
        kubelet.refuse = None
        plugin = kubelet.plugin()
        first, second = gpus_of(plugin.devices())
        (one,), = plugin.allocate(first)
        kubelet.stop()
        kubelet.start()
        again = kubelet.plugin()
        check(again.request.endpoint != plugin.request.endpoint and len(again.devices()) == 4, again.request)
        kubelet.pods["a"] = ("virtio-cuda/slice", first)
        for number in (signal.SIGTERM, signal.SIGKILL):
            before = program.daemons()
            program.end(number)
            next_run = Program(BUILD, program.top, "device-plugin", "--slices", "2", "--collect-interval", "0.1")
            try:
                plugin = kubelet.plugin()
                check(set(plugin.devices().values()) == {HEALTHY}, "not healthy")
                next_run.starts_again(before)
                check(next_run.memory_mib(BUILD, one) == {1024}, "the unit has changed")
            finally:
                program.process = next_run.process
        # With slices of another size a GPU has no more containers until those of the old size are over.
        program.end()
        program.process = (next_run := Program(BUILD, program.top, "device-plugin", "--slices", "8", "--collect-interval", "0.1",
                                               "--collect-after", "1")).process
        plugin = kubelet.plugin()
        first, second = gpus_of(plugin.devices())
        check(f"slices of another size ({one.partition('=')[2]})" in plugin.allocate(first[2:4]), "memory is given away twice")
        (other,), = plugin.allocate(second[:1])
        check(next_run.memory_mib(BUILD, other) == {128}, "the other GPU")
        kubelet.pods["a"] = ("virtio-cuda/slice", second[:1])
        wait_for(lambda: not (next_run.cdi / f"virtio-cuda-{one.partition('=')[2]}.json").exists(), "the end of the old size")
        check(isinstance(plugin.allocate(first[2:4]), list), "the new size")
        # Back to the old size.
        kubelet.pods = {}
        wait_for(lambda: not next_run.daemons(), "the end of the new size")
        program.end()
        program.process = (next_run := Program(BUILD, program.top, "device-plugin", "--slices", "2", "--collect-interval", "0.1")).process
        plugin = kubelet.plugin()
        first, second = gpus_of(plugin.devices())
        (one,), (two,) = plugin.allocate(first, second)
        check(two != one and next_run.memory_mib(BUILD, two) == {1024}, two)
        for options, words in ((), "another vcuda-kube runs with --state"), (("--state", f"{program.top}/other"), "another vcuda-kube runs with --run"):
            second_run = Program(BUILD, program.top, "device-plugin", *options)
            second_run.wait_for_words(words)
            check(second_run.process.wait() == 1, "two plug-ins with one folder")
    # A file of state that cannot be used is not thrown away.
    with folder() as top:
        pathlib.Path(top, "state").mkdir()
        pathlib.Path(top, "state/units.json").write_text("{}")
        program = Program(BUILD, top, "device-plugin")
        program.wait_for_words("units.json cannot be used")
        check(program.process.wait() == 1 and pathlib.Path(top, "state/units.json").read_text() == "{}", "the state is gone")


def ended():
    """The vcudad of a container that has ended goes away: the kubelet says so, or gives its slices to another one."""
    with running("--slices", "4", "--collect-after", "1") as (kubelet, program):
        plugin = kubelet.plugin()
        first, _ = gpus_of(plugin.devices())
        kubelet.pods = {"a": ("virtio-cuda/slice", first[:2]), "other": ("example/other", first[:2])}
        (one,), = plugin.allocate(first[:2])
        (two,), = plugin.allocate(first[2:3])
        wait_for(lambda: program.daemons().keys() == {one.partition("=")[2]}, "the end of a unit that no pod has")
        wait_for(lambda: not (program.cdi / f"virtio-cuda-{two.partition('=')[2]}.json").exists(), "the end of its CDI file")
        # A state that cannot be written ends no vcudad.
        seen, there = len(program.words), program.daemons()
        with program.broken_state():
            kubelet.pods = {}
            program.wait_for_words("fails, and is tried again", since=seen)
            lists = kubelet.lists
            wait_for(lambda: kubelet.lists > lists + 1, "the next tries")
            check(program.daemons() == there, f"{there} {program.daemons()}")
        wait_for(lambda: not program.daemons(), "the end of the first unit")
        (one,), = plugin.allocate(first[:2])
        kubelet.pods = {"a": ("virtio-cuda/slice", first[:2])}
        lists = kubelet.lists
        wait_for(lambda: kubelet.lists > lists + 1, "the list that has it")
        kubelet.pods = {"b": ("virtio-cuda/slice", first[1:3])}
        (three,), = plugin.allocate(first[1:3])
        wait_for(lambda: program.daemons().keys() == {three.partition("=")[2]}, "the end of a unit whose slices another pod has")
        # The same slices again: another container, so another vcudad.
        old = program.daemons()
        (four,), = plugin.allocate(first[1:3])
        check(four == three and program.daemons().keys() == old.keys() and program.daemons() != old, "the vcudad of the last container")
        kubelet.pods = {}
        wait_for(lambda: not program.daemons(), "the end of the last unit")
        wait_for(lambda: not list(program.run.iterdir()) and not list(program.cdi.iterdir()), "the end of all files")


def initial():
    """The kubelet gives slices of an init container to the other containers of its pod too, before it starts any, and does not list it."""
    with running("--slices", "4", "--collect-after", "1") as (kubelet, program):
        plugin = kubelet.plugin()
        first, _ = gpus_of(plugin.devices())
        (init,), = plugin.allocate(first[:1])
        (main,), = plugin.allocate(first[:2])
        kubelet.pods = {"a": ("virtio-cuda/slice", first[:2])}
        lists, there = kubelet.lists, program.daemons()
        wait_for(lambda: kubelet.lists > lists + 4, "some lists of pods")
        check(program.daemons() == there and there.keys() == {init.partition("=")[2], main.partition("=")[2]}, f"{there} {program.daemons()}")
        check(program.memory_mib(BUILD, init) == {256} and program.memory_mib(BUILD, main) == {512}, "the init container")
        kubelet.pods = {}
        wait_for(lambda: not program.daemons(), "the end of both")
        # Init containers that ask for more than the others: the pod keeps the largest number, and the others have a part of it.
        (one,), = plugin.allocate(first[:1])
        (two,), = plugin.allocate(first[:3])
        (main,), = plugin.allocate(first[1:2])
        kubelet.pods = {"a": ("virtio-cuda/slice", first[1:2])}
        lists, there = kubelet.lists, program.daemons()
        wait_for(lambda: kubelet.lists > lists + 4, "lists of pods for longer than --collect-after")
        check(program.daemons() == there and len(there) == 3, f"{there} {program.daemons()}")
        sizes = [program.memory_mib(BUILD, name) for name in (one, two, main)]
        check(sizes == [{256}, {768}, {256}], sizes)
        kubelet.pods = {}
        wait_for(lambda: not program.daemons(), "the end of three")
        # No other container of the pod has slices: the vcudad stays while a program uses it.
        (init,), = plugin.allocate(first[:2])
        with program.steady(BUILD, init) as process:
            lists, there = kubelet.lists, program.daemons()
            wait_for(lambda: kubelet.lists > lists + 4, "lists of pods for longer than --collect-after")
            check(program.daemons() == there and process.poll() is None, "the vcudad of a program has ended")
            process.terminate()
            check(process.wait(LIMIT) == 0, "the program has failed")
        wait_for(lambda: not program.daemons(), "the end of a vcudad without programs")


@contextlib.contextmanager
def held_lists(kubelet):
    """Each list of pods waits, with what it has found, until `next_list()` lets it go on. Then the next one waits."""
    permits = kubelet.permits = threading.Semaphore(0)

    def next_list():
        lists = kubelet.lists
        permits.release()
        wait_for(lambda: kubelet.lists > lists, "the next list of pods")

    lists = kubelet.lists
    wait_for(lambda: kubelet.lists > lists, "a list of pods")
    try:
        yield next_list
    finally:
        kubelet.permits = None
        permits.release(100)


def races():
    """A container is allocated while the kubelet lists pods without it, or while the vcudad of the one before ends."""
    with running("--slices", "4", "--collect-after", "0") as (kubelet, program):
        plugin = kubelet.plugin()
        first, _ = gpus_of(plugin.devices())
        kubelet.pods = {name: ("virtio-cuda/slice", [first[i]]) for i, name in enumerate("ab")}
        plugin.allocate(first[:1], first[1:2])
        with held_lists(kubelet) as next_list:
            next_list()
            del kubelet.pods["a"]
            next_list()
            # The list that waits has neither of these: the same slices as those of a container that has ended, and others.
            (name,), = plugin.allocate(first[:1])
            (more,), = plugin.allocate(first[2:3])
            there = program.daemons()
            kubelet.pods.update(a=("virtio-cuda/slice", first[:1]), c=("virtio-cuda/slice", first[2:3]))
            next_list()
            next_list()
            check(program.daemons() == there and len(there) == 3, f"{there} {program.daemons()}")
        check(program.memory_mib(BUILD, name) == program.memory_mib(BUILD, more) == {256}, "the new units")
        # A vcudad that takes long to end: its slices are given again meanwhile.
        unit = name.partition("=")[2]
        old, seen = program.daemons()[unit], len(program.words)
        os.kill(old, signal.SIGSTOP)
        del kubelet.pods["a"]
        program.wait_for_words(f"{unit} is over: no container has its slices", since=seen)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            allocated = pool.submit(plugin.allocate, first[:1])
            time.sleep(0.5)
            check(not allocated.done(), "two vcudads have one place")
            kubelet.pods["a"] = ("virtio-cuda/slice", first[:1])
            os.kill(old, signal.SIGCONT)
            check(allocated.result() == [[name]], allocated.result())
        lists, there = kubelet.lists, program.daemons()
        wait_for(lambda: kubelet.lists > lists + 2, "lists of pods")
        check(program.daemons() == there and there[unit] != old and program.memory_mib(BUILD, name) == {256}, f"{there} {program.daemons()}")


def limits():
    """The host memory of a vcudad's workers has a limit, where vcudad can set one; else the plug-in says so and goes on."""
    none = (1 << 63) - 1
    for can in (True, False):
        with folder() as top:
            wrapper, said = pathlib.Path(top, "vcudad"), "the host memory of vcudads has no limit: "
            wrapper.write_text(f'#!/bin/sh\ncase "$*" in *--max-host-memory*) echo "no group" >&2; exit 1 ;; esac\nexec {BUILD}/host/daemon/vcudad "$@"\n')
            wrapper.chmod(0o755)
            # With --vm no CDI file has to wait for a device: this test also runs in a slow VM, which has control groups of version 2 alone.
            with running("--slices", "4", "--vm", "--host-memory", "700", *([] if can else ["--vcudad", str(wrapper)])) as (kubelet, program):
                plugin = kubelet.plugin()
                first, _ = gpus_of(plugin.devices())
                (name,), = plugin.allocate(first[:2])
                unit, words = name.partition("=")[2], [line for line in program.words if said in line]
                if can and words and not os.environ.get("TEST_GROUPS"):
                    skip(f"vcudad can make no control group here: {words[0]}")
                check(bool(words) != can and (can or "vcudad does not start: no group" in words[0]), program.words)

                def limit():
                    (daemon,) = [daemon for daemon in program.listed(BUILD) if daemon["name"] == unit]
                    return daemon["quotas"]["max-host-memory"]["limit"]
                check(limit() == ((512 + 700) << 20 if can else none), limit())
                groups = pathlib.Path("/proc", str(program.daemons()[unit]), "cgroup").read_text()
                check(not can or not os.environ.get("TEST_GROUPS") or f"/{unit}/" in groups, groups)
                # The group of a vcudad that was killed is used again.
                seen = len(program.words)
                os.kill(program.daemons()[unit], signal.SIGKILL)
                program.wait_for_words(f"{unit} has 512 MiB", since=seen)
                check(limit() == ((512 + 700) << 20 if can else none), "the next vcudad")


# A VM has control groups of version 2 alone. Its first program is in the root group, which lends what it has.
GROUPS_V2 = """
mount -t cgroup2 none /sys/fs/cgroup && echo +memory >/sys/fs/cgroup/cgroup.subtree_control || exit 1
VCUDA_SANDBOX=off TEST_GROUPS=/sys/fs/cgroup exec "$@"
"""


def limits_v2():
    """The same with control groups of version 2: the plug-in makes one for each vcudad."""
    r = subprocess.run([f"{BUILD}/cli/vcuda", "vm", "run", "--kernel", "6.1", "--backend", "cpu", "--", "sh", "-c", GROUPS_V2, "sh",
                        sys.executable, __file__, BUILD, "limits"], capture_output=True, text=True, check=False)
    print(r.stdout, r.stderr)
    check(r.returncode == 0, r.returncode)


def slow():
    """A vcudad that takes long to start holds up its own container only."""
    with folder() as top:
        wrapper, hold = pathlib.Path(top, "vcudad"), pathlib.Path(top, "hold")
        wrapper.write_text(f'#!/bin/sh\nwhile [ -e {hold} ] && case "$*" in *"--share 2"*) true ;; *) false ;; esac; do sleep 0.1; done\n'
                           f'exec {BUILD}/host/daemon/vcudad "$@"\n')
        wrapper.chmod(0o755)
        with running("--slices", "2", "--vcudad", str(wrapper)) as (kubelet, program), concurrent.futures.ThreadPoolExecutor() as pool:
            plugin = kubelet.plugin()
            first, second = gpus_of(plugin.devices())
            hold.touch()
            held = pool.submit(plugin.allocate, first)
            wait_for(lambda: list(program.run.glob("slices-*")), "the first unit")
            (name,), = plugin.allocate(second[:1])
            check(not held.done() and program.memory_mib(BUILD, name) == {512}, "the second waits for the first")
            kubelet.pods["b"] = ("virtio-cuda/slice", second[:1])
            # The next run serves before all units have started.
            hold.unlink()
            (slow_name,), = held.result()
            hold.touch()
            program.end()
            program.process = (again := Program(BUILD, program.top, "device-plugin", "--slices", "2", "--vcudad", str(wrapper))).process
            again.wait_for_words(f"{name.partition('=')[2]} has 512 MiB")
            check(len(kubelet.plugin().devices()) == 4, "not served")
            check(not any(f"{slow_name.partition('=')[2]} has" in line for line in again.words), again.words)
            hold.unlink()
            again.wait_for_words(f"{slow_name.partition('=')[2]} has 1024 MiB")


def installed():
    """From a copy on the node, as the DaemonSet makes it: a new version leaves the files of the old one to the containers that have them."""
    with folder() as top:
        meson, node = sys.argv[3], pathlib.Path(top, "node")
        r = subprocess.run([meson, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", top], capture_output=True, text=True, check=False)
        check(r.returncode == 0, f"meson install: {r.stdout}{r.stderr}")
        (program,) = pathlib.Path(top).glob("**/share/virtio-cuda/kubernetes/vcuda-kube")
        image = program.parents[3]
        for _ in range(2):
            r = subprocess.run([program.parent / "install-on-node", image, node], capture_output=True, text=True, check=False)
            check(r.returncode == 0, f"install-on-node: {r.stdout}{r.stderr}")
        check(len(list(node.iterdir())) == 2, list(node.iterdir()))
        first = (node / "current").resolve()
        (image / "share/more").write_text("")
        subprocess.run([program.parent / "install-on-node", image, node], check=True)
        check(first.is_dir() and (node / "current").resolve() != first and not (node / ".current").exists(), "the version before")
        plugin_of = node / "current" / program.relative_to(image)
        with running("--vcudad", f"{node}/current/bin/vcudad", "--vcuda", f"{node}/current/bin/vcuda", program=plugin_of) as (kubelet, program):
            plugin = kubelet.plugin()
            devices = plugin.devices()
            (name,), = plugin.allocate([next(iter(devices))])
            specification, _ = program.specification(name)
            paths = {mount["hostPath"] for mount in specification["containerEdits"]["mounts"]}
            check(paths and all(path.startswith(f"{(node / 'current').resolve()}/") for path in paths), paths)


def vm():
    """For KubeVirt: QEMU's socket, and no libraries."""
    with running("--slices", "2", "--vm") as (kubelet, program):
        plugin = kubelet.plugin()
        check(plugin.request.resource_name == "virtio-cuda/vm-slice", plugin.request)
        first, _ = gpus_of(plugin.devices())
        (name,), = plugin.allocate(first[:1])
        specification, edits = program.specification(name)
        check_cdi(specification)
        check("containerEdits" not in specification and edits.keys() == {"mounts"}, specification)
        path = pathlib.Path(edits["mounts"][0]["hostPath"], "vhost.sock")
        check(stat.S_IMODE(path.stat().st_mode) == 0o666, f"{path.stat()}")
        with socket.socket(socket.AF_UNIX) as qemu:
            qemu.connect(str(path))


globals()[sys.argv[2]]()
