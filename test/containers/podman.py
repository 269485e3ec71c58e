# SPDX-License-Identifier: Apache-2.0
"""Podman with an image of this machine's C library and programs of the build. Its storage is in a temporary folder."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

from common import check, run, skip
from small_root import make_root


class Podman:
    """An engine with a storage of its own, which makes containers without network."""

    def __init__(self, top, user=None, groups=()):
        """`groups`: numbers of the user's groups beside its own."""
        self.user = user
        self.storage = pathlib.Path(top, user.pw_name if user else "root")
        self.storage.mkdir()
        self.command = []
        if user:
            os.chown(self.storage, user.pw_uid, user.pw_gid)
            more = ["--groups", ",".join(map(str, groups))] if groups else ["--init-groups"]
            self.command += ["setpriv", "--reuid", str(user.pw_uid), "--regid", str(user.pw_gid), *more, "env", "-u", "XDG_RUNTIME_DIR",
                             f"HOME={user.pw_dir}"]
        # Docker's unified hierarchy beside the old one is what crun does not take.
        if os.geteuid() == 0 and os.path.ismount("/sys/fs/cgroup/unified"):
            self.command = ["unshare", "--mount", "sh", "-c", 'umount /sys/fs/cgroup/unified; exec "$@"', "sh", *self.command]
        self.command += ["podman", "--storage-driver", "vfs", "--root", f"{self.storage}/store", "--runroot", f"{self.storage}/run",
                         "--cgroup-manager", "cgroupfs"]
        self.runtime, self.options = None, []

    def call(self, *args, **options):
        return run(*self.command, *args, cwd="/tmp", **options)

    def runtimes(self):
        """Chooses one runtime after the other. Skips where none starts a container without our device."""
        limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]  # a machine may allow less than podman's own
        found, words = 0, "there is neither crun nor runc"
        for runtime in filter(shutil.which, ("crun", "runc")):
            for groups in ([], ["--cgroups=disabled"]):
                self.runtime, self.options = runtime, [*groups, *limits]
                r = self.start([], "env", "it=starts")
                if r.returncode == 0 and "it=starts" in r.stdout:
                    print(f"{self.storage.name}: podman with {runtime} {groups}", flush=True)
                    found += 1
                    yield
                    break
                words = r.stderr.strip()
            else:
                print(f"{self.storage.name}: {runtime} starts no container here: {words}", flush=True)
        if not found:
            skip(f"podman cannot run a container here, with or without a GPU: {words}")

    def start(self, options, *command):
        return self.call("--runtime", self.runtime, "run", "--rm", "--network", "none", *self.options, *options, "vcuda-test", *command)

    def expect(self, pattern, options, *command, status=0):
        r = self.start(options, *command)
        check(r.returncode == status and re.search(pattern, r.stdout + r.stderr), f"{options} {command}: {r.returncode}: {r.stdout}{r.stderr}")
        return r


def pauses(user):
    """Processes that keep a user namespace of rootless podman for the next command."""
    return set(run("pgrep", "-u", str(user.pw_uid), "-x", "catatonit").stdout.split()) if user else set()


def check_root(root):
    """Without podman, so that a broken image is not taken for an engine that does not work here."""
    r = run("chroot", root, "/usr/bin/env", "it=starts")
    if r.returncode == 125:
        print(f"the image was not tried without podman: {r.stderr.strip()}", flush=True)
        return
    check(r.returncode == 0 and "it=starts" in r.stdout, f"the image is broken: {r.stdout}{r.stderr}")


@contextlib.contextmanager
def engine(build, programs, user=None, groups=()):
    """Podman with the image, which has `programs` in /test, and the folder of the test. Skips where there is no podman."""
    if not shutil.which("podman"):
        skip("podman is missing (Debian's package podman)")
    with tempfile.TemporaryDirectory(prefix="v", dir="/tmp") as top:
        os.chmod(top, 0o755)
        root = pathlib.Path(top, "image")
        make_root(root, build, programs, ["/usr/bin/env", "/usr/bin/sleep"])
        check_root(root)
        image = f"{top}/image.tar"
        subprocess.run(["tar", "-C", root, "-cf", image, "."], check=True)
        podman = Podman(top, user, groups)
        before = pauses(user)
        try:
            r = podman.call("import", "--quiet", image, "vcuda-test")
            if r.returncode != 0:
                skip(f"podman cannot store an image here: {r.stderr.strip()}")
            yield podman, pathlib.Path(top)
        finally:
            # Files of a rootless storage belong to numbers that only podman's user namespace has.
            if user:
                podman.call("unshare", "rm", "-rf", f"{podman.storage}/store")
            for process in pauses(user) - before:
                os.kill(int(process), signal.SIGTERM)
