# SPDX-License-Identifier: Apache-2.0
"""A VM of test/vm/machine.py whose guest is User-Mode Linux with the kernel's checks of memory and locks.

Its kernel is a process of this machine: the guest's memory is a file that virtio_uml hands to the back end. It has a pid namespace of
its own, because a process of the guest that outlived its kernel would make system calls of this machine. It is not that namespace's first
process, which could not end itself after a panic.
"""

import os
import socket
import stat
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../vm"))
from machine import Machine, archive, member, script  # noqa: E402

# The kernel's reports. "INFO:" is lockdep's, and of tasks that hang.
COMPLAINTS = r"BUG|WARNING|INFO: |UBSAN|Oops|general protection|refcount|use-after-free|Kernel panic|Modules linked in"


def uml():
    """The directory of the kernel, and our driver for it."""
    directory = script("get-uml.sh")
    os.environ["VCUDA_MODULE_CFLAGS"] = "ARCH=um"
    return directory, script("build-module.sh", os.path.join(directory, "build"))


def contents(path):
    with open(path, "rb") as f:
        return f.read()


def initramfs(directory, module):
    out = b"".join(member(name, stat.S_IFDIR | 0o755) for name in ("bin", "dev", "proc", "sys", "modules", "run", "run/vcuda"))
    out += member("bin/busybox", 0o100755, contents(os.path.join(directory, "busybox")))
    out += member("modules/order", 0o100644) + member("modules/virtio-cuda.ko", 0o100644, contents(module))
    for name, target in (("run/vcuda/busybox", "/bin/busybox"), ("run/vcuda/virtio-cuda.ko", "/modules/virtio-cuda.ko")):
        out += member(name, stat.S_IFLNK | 0o777, target.encode())
    return out


class Uml(Machine):
    LOGS, LINES = ("vcudad.log", "uml.log", "kernel.log"), 400  # reports are long
    PORT = "mount -t debugfs debugfs /sys/kernel/debug; port=/dev/tty1; stty -F $port raw -echo"

    def start_guest(self, shell, kernel, programs, shared, memory_mib, devices):
        directory, module = uml()
        with open(self.path("initrd"), "wb") as f:
            f.write(initramfs(directory, module) + archive(programs, self.PORT))
        # A console cannot be a file.
        messages, console = socket.socketpair()
        self.start(["cat"], "kernel.log", stdin=messages)
        messages.close()
        self.qemu = self.start(
            ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", '"$@"; exit $?', "sh",
             os.path.join(directory, "linux"), f"mem={memory_mib}M", "initrd=" + self.path("initrd"), "uml_dir=" + self.directory.name, f"virtio_uml.device={self.path('cuda.sock')}:38", "rdinit=/test-init", "panic=-1",
             "con=null", f"con0=fd:{console.fileno()},fd:{console.fileno()}",
             f"con1=fd:{shell.fileno()},fd:{shell.fileno()}"], "uml.log", pass_fds=(shell.fileno(), console.fileno()))
        console.close()

    def begin(self):
        pass

    def complaints(self):
        return self.sh(f"dmesg | grep -E '{COMPLAINTS}'")[1]
