#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Podman runs containers with the specification of `vcuda cdi generate`: test-podman.py BUILD_ROOT SCENARIO

The image is made of this machine's C library and programs of the build. Podman's storage is in a temporary folder.
"""

import contextlib
import fcntl
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from common import check, daemon, run, skip
from small_root import make_root

BUILD = pathlib.Path(sys.argv[1])
VCUDA = BUILD / "cli/vcuda"
PROGRAMS = [BUILD / "examples/vectorAdd", BUILD / "test/local/computations"]


class Podman:
    """An engine with a storage of its own, which makes containers without network."""

    def __init__(self, top, user=None):
        self.user = user
        self.storage = pathlib.Path(top, user.pw_name if user else "root")
        self.storage.mkdir()
        self.command = []
        if user:
            os.chown(self.storage, user.pw_uid, user.pw_gid)
            self.command += ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), "--init-groups", "env", "-u", "XDG_RUNTIME_DIR",
                             f"HOME={user.pw_dir}"]
        # Docker's unified hierarchy beside the old one is what crun does not take.
        if os.geteuid() == 0 and os.path.ismount("/sys/fs/cgroup/unified"):
            self.command = ["unshare", "--mount", "sh", "-c", 'umount /sys/fs/cgroup/unified; exec "$@"', "sh", *self.command]
        self.command += ["podman", "--storage-driver", "vfs", "--root", f"{self.storage}/store", "--runroot", f"{self.storage}/run",
                         "--cgroup-manager", "cgroupfs"]
        self.runtime, self.options = [], []

    def call(self, *args, **options):
        return run(*self.command, *args, cwd="/tmp", **options)

    def find_runtime(self):
        """Chooses a runtime that starts a container without our device on this machine, or None with the last one's words."""
        limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]  # a machine may allow less than podman's own
        words = "there is neither crun nor runc"
        for runtime in filter(shutil.which, ("crun", "runc")):
            for groups in ([], ["--cgroups=disabled"]):
                self.runtime, self.options = ["--runtime", runtime], [*groups, *limits]
                r = self.start([], "env", "it=starts")
                if r.returncode == 0 and "it=starts" in r.stdout:
                    print(f"{self.storage.name}: podman with {runtime} {groups}", flush=True)
                    return None
                words = r.stderr
        return words.strip()

    def start(self, options, *command):
        return self.call(*self.runtime, "run", "--rm", "--network", "none", *self.options, *options, "vcuda-test", *command)

    def expect(self, pattern, options, *command, status=0):
        r = self.start(options, *command)
        check(r.returncode == status and re.search(pattern, r.stdout + r.stderr), f"{options} {command}: {r.returncode}: {r.stdout}{r.stderr}")
        return r


def pauses(user):
    """Processes that keep a user namespace of rootless podman for the next command."""
    return set(run("pgrep", "-u", str(user.pw_uid), "-x", "catatonit").stdout.split()) if user else set()


@contextlib.contextmanager
def engine(user=None):
    """Podman with the image, and the folder of the test. Skips where podman cannot run any container."""
    if not shutil.which("podman"):
        skip("podman is missing (Debian's package podman)")
    with tempfile.TemporaryDirectory(prefix="v", dir="/tmp") as top:
        os.chmod(top, 0o755)
        root = pathlib.Path(top, "image")
        make_root(root, BUILD, PROGRAMS, ["/usr/bin/env"])
        image = f"{top}/image.tar"
        subprocess.run(["tar", "-C", root, "-cf", image, "."], check=True)
        podman = Podman(top, user)
        before = pauses(user)
        try:
            r = podman.call("import", "--quiet", image, "vcuda-test")
            words = podman.find_runtime() if r.returncode == 0 else r.stderr
            if words:
                skip(f"podman cannot run a container here, with or without a GPU: {words}")
            yield podman, pathlib.Path(top)
        finally:
            # Files of a rootless storage belong to numbers that only podman's user namespace has.
            if user:
                podman.call("unshare", "rm", "-rf", f"{podman.storage}/store")
            for process in pauses(user) - before:
                os.kill(int(process), signal.SIGTERM)


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
            stack.enter_context(daemon(BUILD, f"{top}/{name}", "--socket-mode", "0666", "--allow-any-user", *options, VCUDA_CPU_DEVICES="2"))
        r = run(VCUDA, "cdi", "generate", "--socket", f"{top}/{daemons[0][0]}", "--output", place,
                *[f"--device={name}={top}/{name}" for name, *_ in daemons[1:]])
        check(r.returncode == 0, r.stderr)
        try:
            yield
        finally:
            place.unlink()


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


def root():
    if os.geteuid() != 0:
        skip("only root starts containers as root")
    with engine() as (podman, top), described(top, ["socket"], ["small", "--max-device-memory", "64M"]):
        run_all(podman)


def rootless():
    """As the user who runs the test, or as one that has numbers for a user namespace."""
    with open("/etc/subuid", encoding="ascii") as f:
        names = [line.split(":")[0] for line in f]
    users = [user for user in pwd.getpwall() if user.pw_name in names and user.pw_uid]
    if os.geteuid() != 0 or not users:
        skip("needs root, and a user with a line in /etc/subuid")
    with engine(users[0]) as (podman, top), described(top, ["socket"], ["small", "--max-device-memory", "64M"]):
        run_all(podman)


globals()[sys.argv[2]]()
