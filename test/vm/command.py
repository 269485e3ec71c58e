#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program of `vcuda vm run` has the command's input, terminal, signals and writable folders.

usage: command.py BUILD_DIRECTORY KERNEL SCENARIO      (77: there is no QEMU or kernel)
"""

import fcntl
import hashlib
import os
import pty
import json
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

from machine import HERE, parts
from harness import check

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "containers"))
from small_root import make_root

VCUDA = os.path.join(sys.argv[1], "cli/vcuda")
KERNEL = sys.argv[2]


def command(*arguments):
    """The device is another test's."""
    return [VCUDA, "vm", "run", "--kernel", KERNEL, "--backend", "none", *arguments]


def streams():
    """3 MB of input, its end, and signals while the program runs."""
    data = random.randbytes(3_000_001)
    script = ("sha256sum; trap 'echo interrupted' INT; trap 'echo ended >&2; exit 5' TERM; echo ready; "
              "while :; do sleep 0.1; done")
    with subprocess.Popen(command("--", "sh", "-c", script), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        # The program reads all before it writes, so that none waits for the other.
        p.stdin.write(data)
        p.stdin.close()
        line = p.stdout.readline().decode()
        check(line.split()[:1] == [hashlib.sha256(data).hexdigest()], f"the program read something else: {line!r}")
        check(p.stdout.readline() == b"ready\n", "not ready")
        p.send_signal(signal.SIGINT)
        check(p.stdout.readline() == b"interrupted\n", "SIGINT does not reach the program")
        p.send_signal(signal.SIGTERM)
        out, err = p.stdout.read(), p.stderr.read()
        check(p.wait() == 5 and err == b"ended\n" and not out, f"SIGTERM: exit status {p.returncode}, {out!r}, {err!r}")


def stays():
    """A program that ignores SIGTERM, in a VM that ends with the second one."""
    with subprocess.Popen(command("--", "sh", "-c", "trap 'echo ignored' TERM; echo ready; while :; do sleep 0.1; done"), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE) as p:
        check(p.stdout.readline() == b"ready\n", "not ready")
        p.send_signal(signal.SIGTERM)
        check(p.stdout.readline() == b"ignored\n", "SIGTERM does not reach the program")
        p.send_signal(signal.SIGTERM)
        check(p.wait() == 128 + signal.SIGTERM, f"exit status {p.returncode}")


def unread():
    """Input that the program does not read stops neither its output nor its end."""
    script = "head -c 5; seq 200000; exit 3"
    with subprocess.Popen(command("--", "sh", "-c", script), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as p:
        def feed():
            try:
                while True:
                    p.stdin.write(b"12345" * 1000)
            except BrokenPipeError:
                pass
        feeder = threading.Thread(target=feed)
        feeder.start()
        out = p.stdout.read()
        status = p.wait()
        feeder.join()
    # With all streams closed it runs too.
    with tempfile.TemporaryDirectory() as folder:
        script = f"cat >{folder}/here; exit 6"
        closed = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command("--rw", folder, "--", "sh", "-c", script)], check=False)
        check(closed.returncode == 6 and os.path.exists(f"{folder}/here"), f"with closed streams: exit status {closed.returncode}")
    check(status == 3 and out == b"12345" + b"".join(b"%d\n" % i for i in range(1, 200001)), f"exit status {status}, {len(out)} bytes")


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, arguments, rows, columns):
        self.said, self.before = b"", b""
        release, hold = os.pipe()
        self.pid, self.fd = pty.fork()
        if not self.pid:
            # The terminal has its size before the command starts.
            os.close(hold)
            os.read(release, 1)
            os.execv(arguments[0], arguments)
        os.close(release)
        self.resize(rows, columns)
        os.close(hold)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    def read(self):
        try:
            return os.read(self.fd, 4096)
        except OSError:
            return b""

    def expect(self, text):
        while text not in self.said:
            more = self.read()
            check(more, f"no {text!r}, but {self.said!r}")
            self.said += more
        self.before, _, self.said = self.said.partition(text)

    def type(self, text):
        os.write(self.fd, text)

    def end(self):
        """The exit status, when all output is read. The VM must not wait for its own power-off, 30 s after the program."""
        begin = time.monotonic()
        while more := self.read():
            self.said += more
        check(time.monotonic() - begin < 25, f"the VM did not end with the program, which said {self.said!r}")
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def terminal():
    """Echo, lines, keys that are signals, sizes."""
    script = ("stty size; test -t 0 && test -t 1 && test -t 2 && tty && : >/dev/tty && read -r line && echo \"line: $line.\"; "
              "trap 'echo interrupted; int=1' INT; trap 'stty size; size=1' WINCH; echo ready; "
              "while test -z \"$int\" || test -z \"$size\"; do sleep 0.1; done; cat; exit 4")
    # The terminal's mode is the same before and after.
    t = Terminal(["/bin/sh", "-c", 'stty -g; "$@"; status=$?; stty -g; exit $status', "sh", *command("--", "bash", "-c", script)], 33, 101)
    t.expect(b"\r\n33 101\r\n/dev/hvc0\r\n")
    mode = t.before.split()
    t.type(b"abx\x7fc\r")
    t.expect(b"c\r\nline: abc.\r\nready\r\n")
    t.type(b"\x03")
    t.expect(b"interrupted\r\n")
    t.resize(44, 120)
    t.expect(b"44 120\r\n")
    t.type(b"\x04")
    status = t.end()
    check(status == 4 and t.said.split()[-1:] == mode != [], f"exit status {status}: {t.said!r}, mode {mode}")
    os.close(t.fd)
    # Standard error in a file is no part of the terminal.
    with tempfile.NamedTemporaryFile() as err:
        t = Terminal(["/bin/sh", "-c", 'exec "$@" 2>"$0"', err.name, *command("--", "sh", "-c", "echo out; echo err >&2; test ! -t 2")], 24, 80)
        t.expect(b"out\r\n")
        status = t.end()
        check(not status and err.read() == b"err\n", f"status {status}, {t.said!r}")
        os.close(t.fd)


# Another file system in the folder is this machine's own.
WRITABLE = """
"$1/read-only.sh" "$3" "$4" || exit 1
cd "$2" && echo known >>old && echo new >new && mv new sub/moved && rm gone && ln -s /etc/hostname link && chmod 600 old || exit 2
if mknod null c 1 3 2>/dev/null && : >null; then exit 3; fi
rm -f null
echo x >>link
"""


def writable():
    """Folders of --rw, and nothing else, for both ways to share files."""
    for share in ("namespace", "unprivileged"):
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as canary, tempfile.TemporaryDirectory() as second:
            path = os.path.join(folder, "it's a folder")
            os.makedirs(os.path.join(path, "sub"))
            for name in ("old", "gone"):
                with open(os.path.join(path, name), "w", encoding="utf-8") as file:
                    file.write("old\n")
            with open("/etc/hostname", encoding="utf-8") as file:
                hostname = file.read()
            r = subprocess.run(command("--share", share, "--rw", path, "--rw", second, "--", "sh", "-c", WRITABLE + f"touch {second}/second", "sh", HERE, path, canary, share),
                               capture_output=True, text=True, check=False)
            check(r.returncode == 0, f"{share}: {r.returncode}\n{r.stdout}{r.stderr}")
            check(sorted(os.listdir(path)) == ["link", "old", "sub"] and os.listdir(os.path.join(path, "sub")) == ["moved"] and
                  os.listdir(second) == ["second"], f"{share}: {os.listdir(path)}")
            with open(os.path.join(path, "old"), encoding="utf-8") as file:
                check(file.read() == "old\nknown\n" and os.stat(file.fileno()).st_mode & 0o777 == 0o600, f"{share}: old has other contents or another mode")
            check(not os.listdir(canary), f"{share}: the VM wrote {os.listdir(canary)}")
            with open("/etc/hostname", encoding="utf-8") as file:
                check(file.read() == hostname, f"{share}: the VM wrote through a link")


def image():
    """A program of a disk, in a VM that leaves the disk as it is."""
    with tempfile.TemporaryDirectory() as top:
        build, root, disk = Path(sys.argv[1]), Path(top, "root"), f"{top}/a, b.disk"
        mkfs = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
        if not mkfs:
            print("mkfs.ext4 is missing")
            sys.exit(77)
        make_root(root, build, [build / "examples/vectorAdd"], ["/usr/bin/env", "/bin/sh", "/bin/cat"])
        (root / "etc/os-release").write_text("ID=small\n")
        options = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
        # `vcuda vm init` puts the libraries there.
        ours = root / "usr/local" / next(option["value"] for option in options if option["name"] == "libdir") / "vcuda"
        ours.mkdir(parents=True)
        for library in (build / "guest/lib").glob("lib*.so*"):
            shutil.copy(library, ours / library.name)
        (root / "etc/only-here").write_text("of the disk\n")
        subprocess.run([mkfs, "-q", "-F", "-d", root, disk, "96M"], check=True, capture_output=True)
        before = hashlib.sha256(Path(disk).read_bytes()).digest()
        run = [VCUDA, "vm", "run", "--kernel", KERNEL, "--backend", "cpu", "--image", disk]
        script = "cat /etc/only-here && echo new >/etc/only-here && cat /etc/only-here && /test/vectorAdd && exit 7"
        p = subprocess.run([*run, "--", "sh", "-c", script], capture_output=True, text=True, check=False)
        check(p.returncode == 7 and p.stdout.startswith("of the disk\nnew\n") and "Test PASSED" in p.stdout, f"{p.returncode}: {p.stdout}{p.stderr}")
        check(hashlib.sha256(Path(disk).read_bytes()).digest() == before, "the VM has changed the disk")
        p = subprocess.run([*run, "--", "/test/nosuch"], capture_output=True, text=True, check=False)
        check(p.returncode == 127 and "nosuch" in p.stderr, f"no program: {p.returncode}: {p.stderr}")
        # A disk without a system, and none.
        subprocess.run([mkfs, "-q", "-F", disk, "16M"], check=True, capture_output=True)
        p = subprocess.run([*command("--image", disk), "--", "true"], capture_output=True, text=True, check=False)
        check(p.returncode == 125 and "no ext4 or xfs file system of the image has /etc/os-release" in p.stderr, f"{p.returncode}: {p.stderr}")
        p = subprocess.run([*command("--image", f"{top}/nosuch"), "--", "true"], capture_output=True, text=True, check=False)
        check(p.returncode == 125 and "--image: '" in p.stderr and "No such file" in p.stderr, f"{p.returncode}: {p.stderr}")


parts(KERNEL)
{"image": image, "streams": streams, "stays": stays, "unread": unread, "terminal": terminal, "writable": writable}[sys.argv[3]]()
print(f"{sys.argv[3]}: passed")
