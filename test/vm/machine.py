# SPDX-License-Identifier: Apache-2.0
"""A VM for tests: the real daemon, a stock QEMU, and a shell in the guest that the test on the host types into.

Unlike `vcuda vm run` it survives a reboot of its guest, and a test may stop, reset and misconfigure it. Its only file system is
an initramfs: that of `vcuda vm run` with the test programs and the libraries they need behind it, in /t.
"""

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, "../../scripts")
sys.path.insert(0, os.path.join(HERE, "../local"))
from harness import LIMIT, check, children, wait_until  # noqa: E402

# Behind a port the device can be unplugged.
DEVICE = "vhost-user-test-device-pci,id=vcuda,bus=vcport,virtio-id=38,num_vqs=3,vq_size=128,config_size=64,chardev=cuda"

# The kernel's messages have a line of their own. PORT is the shell's.
INIT = """#!/bin/busybox sh
export PATH=/bin:/t LD_LIBRARY_PATH=/t HOME=/
busybox mkdir -p /tmp
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs devtmpfs /dev
busybox --install -s /bin
mkdir -p /dev/shm
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
for module in $(cat /modules/order); do insmod "/modules/$module.ko"; done
insmod /modules/virtio-cuda.ko
PORT
exec 3<>"$port"
echo "@booted" >&3
while read -r line; do printf '%s\\n' "$line"; done <&3 | sh >&3 2>&1
"""


def script(name, *args):
    """The path that a script of ours prints. Without QEMU or a kernel there is nothing to test here."""
    r = subprocess.run([os.path.join(SCRIPTS, name), *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if r.returncode:
        print(f"{name} failed:\n{r.stderr}")
        sys.exit(77 if name.startswith("get-") else 1)
    return r.stdout.strip()


def parts(kernel):
    """QEMU, kernel and initramfs."""
    qemu = os.path.join(script("get-qemu.sh"), "qemu-system-x86_64")
    directory = script("get-kernel.sh", kernel)
    return qemu, os.path.join(directory, "kernel"), script("build-initramfs.sh", directory, script("build-module.sh", kernel))


def member(name, mode, data=b""):
    """One member of a "newc" archive."""
    fields = (0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + b"".join(b"%08X" % f for f in fields) + name.encode() + b"\0"
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def archive(programs, port):
    """The programs and the libraries they are linked with, flat in /t, and the init script."""
    files = {"/t/" + os.path.basename(p): p for p in programs}
    for program in (p for p in programs if not p.endswith(".sh")):
        ldd = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout
        for path in re.findall(r"(/\S+) \(0x", ldd):
            loader = "ld-linux" in path
            files.setdefault(path if loader else "/t/" + os.path.basename(path), path)
    out = member("t", 0o40755) + member("lib64", 0o40755) + member("test-init", 0o100755, INIT.replace("PORT", port).encode())
    for name, path in files.items():
        with open(path, "rb") as f:
            out += member(name[1:], 0o100755, f.read())
    return out + member("TRAILER!!!", 0)


def end_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def has_kvm():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return re.search(r"^flags.* (vmx|svm)\b", f.read(), re.M) and os.access("/dev/kvm", os.R_OK | os.W_OK)


class Machine:
    LOGS, LINES = ("vcudad.log", "qemu.log", "kernel.log"), 40
    PORT = "until [ -e /dev/vport*p1 ]; do usleep 10000; done; port=$(echo /dev/vport*p1)"

    def __init__(self, build, programs, kernel, shared=True, memory_mib=1024, options=(), devices=(), daemon=None, device=DEVICE):
        """`daemon`: a command in vcudad's place. `device`: QEMU's option."""
        self.directory = tempfile.TemporaryDirectory()
        self.number = 0
        self.daemon = self.start([*(daemon or [os.path.join(build, "host/daemon/vcudad"), "--verbose", "--backend", "cpu"]),
                                  "--vhost-socket", self.path("cuda.sock"), *options], "vcudad.log")
        wait_until(lambda: os.path.exists(self.path("cuda.sock")), "vcudad does not listen")
        self.guest = (kernel, programs, shared, memory_mib, ("-device", device, *devices))
        self.switch_on()

    def switch_on(self):
        self.received = b""
        self.shell, shell = socket.socketpair()
        with shell:
            self.start_guest(shell, *self.guest)

    def start_guest(self, shell, kernel, programs, shared, memory_mib, devices):
        qemu, image, initramfs = parts(kernel)
        initrd = self.path("initrd")
        with open(initrd, "wb") as f, open(initramfs, "rb") as base:
            f.write(base.read() + archive(programs, self.PORT))
        self.monitor, monitor = socket.socketpair()
        self.qemu = self.start(
            [qemu, "-nodefaults", "-no-user-config", "-display", "none", "-M", "q35,memory-backend=ram", "-smp", "2",
             *(["-accel", "kvm", "-cpu", "host"] if has_kvm() else ["-accel", "tcg,thread=multi", "-cpu", "max"]),
             "-m", str(memory_mib), "-object", f"memory-backend-memfd,id=ram,size={memory_mib}M,share={'on' if shared else 'off'}",
             "-serial", "file:" + self.path("kernel.log"), "-chardev", f"socket,id=shell,fd={shell.fileno()}",
             "-device", "virtio-serial-pci", "-device", "virtserialport,chardev=shell",
             "-chardev", f"socket,id=monitor,fd={monitor.fileno()}", "-qmp", "chardev:monitor",
             "-chardev", "socket,id=cuda,path=" + self.path("cuda.sock"), "-device", "pcie-root-port,id=vcport,chassis=9", *devices,
             "-kernel", image, "-initrd", initrd, "-append",
             "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check random.trust_cpu=on rdinit=/test-init"],
            "qemu.log", pass_fds=(shell.fileno(), monitor.fileno()))
        monitor.close()
        self.replies = self.monitor.makefile("r", encoding="utf-8")

    def begin(self):
        self.replies.readline()
        self.qmp("qmp_capabilities")

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def start(self, command, log, stdin=subprocess.DEVNULL, **kwargs):
        with open(self.path(log), "w", encoding="utf-8") as f:
            return subprocess.Popen(command, stdin=stdin, stdout=f, stderr=f, preexec_fn=end_with_us, **kwargs)

    def log(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as f:
            return f.read()

    def kill(self):
        """Ends QEMU at once."""
        self.qemu.kill()
        self.qemu.wait()

    def restart(self):
        """Another QEMU, with the same vcudad."""
        self.kill()
        self.switch_on()
        self.begin()
        self.await_boot()

    def __enter__(self):
        try:
            self.begin()
            self.await_boot()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            for name in self.LOGS:
                print(f"---- {name}\n" + "\n".join(self.log(name).splitlines()[-self.LINES:]))
        self.kill()
        self.daemon.terminate()
        self.daemon.wait()
        self.directory.cleanup()

    # ---- the guest's shell ----

    def await_line(self, pattern):
        """Waits for a line. Returns the text before it and the match."""
        end = time.monotonic() + LIMIT
        while not (match := re.search(pattern, self.received, re.M)):
            check(self.qemu.poll() is None, "QEMU has ended")
            check(self.daemon.poll() is None, "vcudad has ended")
            self.shell.settimeout(max(end - time.monotonic(), 0.01))
            try:
                self.received += self.shell.recv(65536)
            except TimeoutError:
                check(False, f"the guest did not say {pattern} within {LIMIT} s, but:\n{self.received.decode(errors='replace')}")
        before, self.received = self.received[:match.start()], self.received[match.end():]
        return before.decode(errors="replace"), match

    def await_boot(self):
        self.await_line(rb"^@booted\r?\n")

    def type(self, line):
        with contextlib.suppress(BrokenPipeError):  # the wait for an answer tells what has ended
            self.shell.sendall(line.encode() + b"\n")

    def sh(self, command):
        """Runs a command in the guest: (exit status, output)."""
        self.number += 1
        self.type(f"{command}\nstatus=$?; echo; echo @{self.number} $status")
        out, match = self.await_line(rb"^@%d (\d+)\r?\n" % self.number)
        return int(match.group(1)), out.strip()

    def run(self, command):
        """A command that must succeed: its output."""
        status, out = self.sh(command)
        check(status == 0, f"in the guest, '{command}' ended with {status}:\n{out}")
        return out

    def steady(self, seconds=LIMIT):
        """Starts test/local/steady in the guest's background and waits until it computes: its process id there, and its output's file."""
        self.number += 1
        log = f"/tmp/steady.{self.number}"
        pid = self.run(f"steady {seconds} >{log} 2>&1 & echo $!").split()[-1]
        self.run(f"timeout {LIMIT} sh -c 'until grep -q ready {log}; do usleep 20000; done'")
        return pid, log

    def end(self, process):
        """Ends a program that steady() started, whose results must have been right."""
        self.run(f"kill {process[0]}")
        status, out = self.end_of(process)
        check(status == 0, f"steady ended with {status}: {out}")

    def end_of(self, process):
        """Waits for a process of the background: (exit status, output)."""
        status, _ = self.sh(f"wait {process[0]}")
        return status, self.run(f"cat {process[1]}")

    # ---- from outside ----

    def workers(self):
        return children(self.daemon.pid)

    def qmp(self, command, **arguments):
        self.monitor.sendall(json.dumps({"execute": command, "arguments": arguments}).encode())
        while True:
            reply = json.loads(self.replies.readline())
            if "event" not in reply:
                check("return" in reply, f"{command}: {reply}")
                return
