#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`vcuda vm init` on small disks: test-image.py BUILD_ROOT SCENARIO

The disks have the folders of a Linux system and nothing that runs. Root's mounts read and write them.
"""

import contextlib
import ctypes
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

BUILD = pathlib.Path(sys.argv[1])
VCUDA = BUILD / "cli/vcuda"
START = 1 << 20  # of the partition
SIZE = 64 << 20
CLONE_NEWNS = 0x20000


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def skip(text):
    print(f"SKIPPED: {text}")
    sys.exit(77)


def init(*args, status=0, **environment):
    r = subprocess.run([str(VCUDA), "vm", "init", *map(str, args)], capture_output=True, text=True, check=False,
                       env={**os.environ, "VCUDA_INIT_HOW": "mount", **environment})
    check(r.returncode == status, f"{args}: status {r.returncode}: {r.stdout}{r.stderr}")
    return r.stderr


def make_system(folder):
    for name in ("etc/systemd/system", "etc/ld.so.conf.d", "usr/lib/modules/6.1.0-test/build", "usr/lib/modules/6.2.0-bare"):
        pathlib.Path(folder, name).mkdir(parents=True)
    pathlib.Path(folder, "usr/lib/os-release").write_text("ID=test\n")
    pathlib.Path(folder, "etc/os-release").symlink_to("../usr/lib/os-release")
    pathlib.Path(folder, "lib").symlink_to("usr/lib")


def make_disk(disk, folder, partitioned):
    """A file system with the folder's files, alone or as the only partition of an MBR."""
    place = f"{disk}.part" if partitioned else disk
    subprocess.run(["mkfs.ext4", "-q", "-F", "-d", folder, place, f"{SIZE >> 10}k"], check=True, capture_output=True)
    if not partitioned:
        return
    table = bytearray(512)
    table[446:462] = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0x83, b"\xff\xff\xff", START // 512, SIZE // 512)
    table[510:] = b"\x55\xaa"
    with open(disk, "wb") as out, open(place, "rb") as part:
        out.write(table)
        out.seek(START)
        shutil.copyfileobj(part, out)
    os.unlink(place)


def mounts():
    return pathlib.Path("/proc/self/mountinfo").read_text()


def init_unseen(disk, top):
    """No other process of the machine sees the mount, which it could copy, as a sandbox does, or keep busy."""
    seen, stop = [], threading.Event()

    def look():
        while not stop.wait(0.01):
            seen.extend(line for line in mounts().splitlines() if f"{top}/vcuda-init" in line)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        return init(disk)
    finally:
        stop.set()
        thread.join()
        check(not seen, f"others see the mount: {seen[:1]}")


@contextlib.contextmanager
def mounted(top, disk, offset):
    place = pathlib.Path(top, "seen")
    place.mkdir(exist_ok=True)
    # The loop device of the last mount of the disk may end later than that mount.
    for _ in range(100):
        done = subprocess.run(["mount", "-o", f"ro,loop,offset={offset}", disk, place], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            break
        time.sleep(0.1)
    check(done.returncode == 0, f"another process has the disk's file system still mounted? {done.stderr}")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def qcow2_header(backing="", incompatible=0, data_file="", version=3):
    """The first cluster of a qcow2 disk of 64 MiB: its header, one extension, and the name of a backing file."""
    extension = struct.pack(">II", 0x44415441, len(data_file)) + data_file.encode().ljust(-len(data_file) // 8 * -8, b"\0") if data_file else b""
    extension += struct.pack(">II", 0, 0)
    length = 104 if version == 3 else 72
    header = struct.pack(">4sIQIIQIIQQIIQ", b"QFI\xfb", version, length + len(extension) if backing else 0, len(backing), 16, SIZE, 0, 1,
                         3 << 16, 1 << 16, 1, 0, 0)
    if version == 3:
        header += struct.pack(">QQQII", incompatible, 0, 0, 4, length)
    return (header + extension + backing.encode()).ljust(4 << 16, b"\0")


def needs_mounts(top):
    for tool in ("mkfs.ext4", "partx", "losetup"):
        if not shutil.which(tool, path=f"{os.environ['PATH']}:/sbin:/usr/sbin"):
            skip(f"{tool} is missing")
    if os.geteuid() != 0:
        skip("only root mounts disks")
    # Sandboxes of other tests must not copy the mounts of this one.
    if ctypes.CDLL(None).unshare(CLONE_NEWNS):
        skip("root has no mount namespace of its own here")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    os.mkdir(f"{top}/none")
    make_disk(f"{top}/none.disk", f"{top}/none", False)
    os.mkdir(f"{top}/none/place")
    if subprocess.run(["mount", "-o", "ro,loop", f"{top}/none.disk", f"{top}/none/place"], capture_output=True, check=False).returncode:
        skip("this machine mounts no file as a disk")
    subprocess.run(["umount", f"{top}/none/place"], check=True)


def check_files(root):
    local = next(root.glob("usr/local/lib*/**/vcuda/libcuda.so.1")).parent
    for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libcudart.so.12", "math/libcublas.so.12"):
        check((local / name).is_file() and not (local / name).is_symlink(), f"{name} is missing")
    check((local / "libcuda.so.1").read_bytes() == (BUILD / "guest/libcuda/libcuda.so.1").read_bytes(), "another libcuda.so.1")
    folders = [pathlib.Path(root, "etc/ld.so.conf.d", name).read_text().splitlines()[-1] for name in ("zz-virtio-cuda.conf", "zz-virtio-cuda-math.conf")]
    check([root / folder.lstrip("/") for folder in folders] == [local, local / "math"], folders)
    check(os.access(root / "usr/local/bin/vcuda", os.X_OK) and os.access(root / "usr/local/lib/virtio-cuda/setup", os.X_OK), "programs")
    for name in ("dkms.conf", "Makefile", "main.c", "control.h", "version.h"):
        check((root / "usr/local/src/virtio-cuda" / name).is_file(), f"the driver's {name} is missing")
    check(os.readlink(root / "etc/systemd/system/multi-user.target.wants/virtio-cuda-setup.service") == "../virtio-cuda-setup.service", "unit")
    check("ExecStart=/usr/local/lib/virtio-cuda/setup" in (root / "etc/systemd/system/virtio-cuda-setup.service").read_text(), "unit")
    check(subprocess.run(["sh", "-n", root / "usr/local/lib/virtio-cuda/setup"], check=False).returncode == 0, "setup")
    check({path.lstat().st_uid for path in root.rglob("*") if "lost+found" not in str(path)} == {0}, "files of another user")


def disks():
    """Raw disks with and without partitions, and qcow2. A second time changes nothing."""
    with tempfile.TemporaryDirectory(prefix="v") as top:
        needs_mounts(top)
        os.environ["TMPDIR"] = top
        make_system(f"{top}/system")
        for partitioned in (False, True):
            disk, offset = f"{top}/{partitioned}.raw", START if partitioned else 0
            make_disk(disk, f"{top}/system", partitioned)
            said = init_unseen(disk, top)
            check("no headers of Linux 6.2.0-bare:" in said and "it is ready when the VM boots" in said, said)
            with mounted(top, disk, offset) as root:
                check_files(root)
                before = sorted(str(path) for path in root.rglob("*"))
            init(disk)
            with mounted(top, disk, offset) as root:
                check(sorted(str(path) for path in root.rglob("*")) == before, "the second time changes files")
        if shutil.which("qemu-img"):
            make_disk(disk, f"{top}/system", True)
            subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", disk, f"{top}/a.qcow2"], check=True)
            init(f"{top}/a.qcow2")
            subprocess.run(["qemu-img", "convert", "-f", "qcow2", "-O", "raw", f"{top}/a.qcow2", disk], check=True)
            with mounted(top, disk, START) as root:
                check_files(root)
        left = [line for line in mounts().splitlines() if f"{top}/" in line]
        check(not left, f"mounts are left: {left}")


def links():
    """Links of an image lead to no file of this machine."""
    with tempfile.TemporaryDirectory(prefix="v") as top:
        needs_mounts(top)
        system, outside, disk = pathlib.Path(top, "system"), pathlib.Path(top, "outside"), f"{top}/disk"
        make_system(system)
        outside.mkdir()
        (outside / "kept").write_text("kept\n")
        (system / "etc/ld.so.conf.d").rmdir()
        (system / "etc/ld.so.conf.d").symlink_to(outside)
        (system / "usr/local/bin").mkdir(parents=True)
        (system / "usr/local/bin/vcuda").symlink_to(outside / "kept")
        (system / "usr/local/src").symlink_to(f"../../../../../../..{outside}")
        (system / "usr/local/lib").symlink_to(outside)
        make_disk(disk, system, False)
        init(disk, status=1)  # the links lead to nothing in the image
        pathlib.Path(f"{system}{outside}").mkdir(parents=True)
        make_disk(disk, system, False)
        init(disk)
        check(os.listdir(outside) == ["kept"] and (outside / "kept").read_text() == "kept\n", f"written outside: {os.listdir(outside)}")
        with mounted(top, disk, 0) as root:
            check((root / str(outside).lstrip("/") / "zz-virtio-cuda.conf").is_file(), "the file is not where the image's link leads")
            check(not (root / "usr/local/bin/vcuda").is_symlink(), "the image's link was followed")


def refusals():
    """A disk that cannot be used is refused with a sentence, and not changed."""
    with tempfile.TemporaryDirectory(prefix="v") as top:
        needs_mounts(top)
        nothing = f"{top}/none.disk"
        before = pathlib.Path(nothing).read_bytes()
        check("no file system has /etc/os-release" in init(nothing, status=1), "an empty file system")
        check(pathlib.Path(nothing).read_bytes() == before, "an empty file system was changed")
        make_system(f"{top}/system")
        shutil.rmtree(f"{top}/system/etc/systemd")
        make_disk(f"{top}/old", f"{top}/system", False)
        check("has no systemd" in init(f"{top}/old", status=1), "no systemd")
        # A disk must not name other files: it could name any of this machine's.
        disk = pathlib.Path(top, "other.qcow2")
        for header, said in ((qcow2_header(backing=nothing), "has a backing file"), (qcow2_header(backing=nothing, version=2), "has a backing file"),
                             (qcow2_header(incompatible=4, data_file=f"{top}/data"), "keeps its data in another file"),
                             (qcow2_header(incompatible=5, data_file=f"{top}/data"), "keeps its data in another file"),
                             (qcow2_header(backing=nothing, incompatible=4, data_file=f"{top}/data"), "has a backing file")):
            disk.write_bytes(header)
            said_now = init(disk, status=1)
            check(said in said_now, f"{said}: {said_now}")
            check(disk.read_bytes() == header, f"{said}: the disk was changed")
        if shutil.which("qemu-img"):
            for name, options in (("backing", ("-b", nothing, "-F", "raw")), ("data", ("-o", f"data_file={top}/data"))):
                subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *options, disk, "64M"], check=True)
                check("has a backing file" in (said := init(disk, status=1)) or "in another file" in said, f"{name}: {said}")
        pathlib.Path(top, "text").write_text("no disk\n")
        check("no file system has /etc/os-release" in init(f"{top}/text", status=1), "no disk")
        check("is no file that can be read" in init(f"{top}/nosuch", status=1), "no file")
        check("is no module virtio-cuda.ko" in init("--module", f"{top}/text", nothing, status=1), "no module")
        check("is no option" in init("--nope", nothing, status=1), "an unknown option")
        check("which image?" in init(status=1), "no image")
        check("VCUDA_GUEST_LIB" in init(nothing, status=1, VCUDA_GUEST_LIB="/dev/null"), "no libraries")


globals()[sys.argv[2]]()
