#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Podman runs containers with the specification of `vcuda cdi generate`: test-podman.py BUILD_ROOT SCENARIO"""

import contextlib
import fcntl
import os
import pathlib
import pwd
import re
import sys

from common import check, daemon, run, skip
from podman import engine

BUILD = pathlib.Path(sys.argv[1])
VCUDA = BUILD / "cli/vcuda"
PROGRAMS = [BUILD / "examples/vectorAdd", BUILD / "test/local/computations"]
# A group that no machine has: its number is all that counts.
GROUP = 58731


@contextlib.contextmanager
def described(top, *daemons):
    """Daemons of these names and options, and the specification, where podman looks for it."""
    place = pathlib.Path("/run/cdi/virtio-cuda-test.json")
    if os.path.exists("/etc/cdi/vcuda.json"):
        skip("/etc/cdi/vcuda.json is there already, and describes another vcudad")
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(open("/run/virtio-cuda-test.lock", "w", encoding="ascii"))
        fcntl.flock(lock, fcntl.LOCK_EX)  # engines know a device by its name alone
        for name, *options in daemons:
            stack.enter_context(daemon(BUILD, f"{top}/{name}", "--allow-any-user", *options, VCUDA_CPU_DEVICES="2"))
        r = run(VCUDA, "cdi", "generate", "--socket", f"{top}/{daemons[0][0]}", "--output", place,
                *[f"--device={name}={top}/{name}" for name, *_ in daemons[1:]])
        check(r.returncode == 0, r.stderr)
        try:
            yield
        finally:
            place.unlink()


ANYONE = ["--socket-mode", "0666"]
DAEMONS = (["socket", *ANYONE], ["small", *ANYONE, "--max-device-memory", "64M"])


def run_all(podman):
    gpu = ["--device", "virtio-cuda/gpu=all"]
    podman.expect("Test PASSED", gpu, "/test/vectorAdd")
    podman.expect("computations: passed", gpu, "/test/computations")
    podman.expect("Test PASSED", [*gpu, "--read-only", "--cap-drop=all", "--security-opt", "no-new-privileges"], "/test/vectorAdd")
    podman.expect("Test PASSED", [*gpu, "--user", "1234:1234"], "/test/vectorAdd")
    two = podman.expect("GPU 0: .*\nGPU 1: ", gpu, "nvidia-smi", "-L").stdout
    podman.expect(re.escape(re.findall("GPU-[0-9a-f-]+", two)[1]), ["--device", "virtio-cuda/gpu=1"], "env")
    podman.expect(r"(?m)^64\n64\n", ["--device", "virtio-cuda/gpu=small"], "vcuda", "smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits")
    # Without the device there is nothing of ours.
    podman.expect("vectorAdd: error while loading shared libraries: libcudart", [], "/test/vectorAdd", status=127)
    podman.expect("virtio-cuda/gpu=nosuch", ["--device", "virtio-cuda/gpu=nosuch"], "env", status=126)


def keep_groups(podman, socket):
    """A socket for a group of the user's, which crun alone can leave to a container."""
    gpu = ["--device", "virtio-cuda/gpu=group"]
    os.chown(socket, 0, GROUP)
    podman.expect("no permission to use the local transport", gpu, "/test/vectorAdd", status=1)
    if podman.runtime == "crun":
        podman.expect("Test PASSED", [*gpu, "--group-add", "keep-groups"], "/test/vectorAdd")


def root():
    if os.geteuid() != 0:
        skip("only root starts containers as root")
    with engine(BUILD, PROGRAMS) as (podman, top), described(top, *DAEMONS):
        for _ in podman.runtimes():
            run_all(podman)


def rootless():
    """As the user who runs the test, or as one that has numbers for a user namespace."""
    with open("/etc/subuid", encoding="ascii") as f:
        names = [line.split(":")[0] for line in f]
    users = [user for user in pwd.getpwall() if user.pw_name in names and user.pw_uid]
    if os.geteuid() != 0 or not users:
        skip("needs root, and a user with a line in /etc/subuid")
    with engine(BUILD, PROGRAMS, users[0], [GROUP]) as (podman, top), described(top, *DAEMONS, ["group", "--socket-mode", "0660"]):
        for _ in podman.runtimes():
            run_all(podman)
            keep_groups(podman, top / "group")


globals()[sys.argv[2]]()
