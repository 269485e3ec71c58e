# SPDX-License-Identifier: Apache-2.0
"""DKMS builds the installed sources of the guest's driver, and the module says its version and author.

test-dkms.py MESON BUILD VERSION [KERNEL]. DKMS gets folders of its own, so that the system's modules do not change.
"""
import glob
import lzma
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
MODULE = "virtio-cuda"


def run(*command, logs="", **keywords):
    """logs: a pattern of files that explain a failure."""
    r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **keywords)
    if r.returncode:
        print(f"{' '.join(map(str, command))}: status {r.returncode}\n{r.stdout}")
        for log in glob.glob(logs):
            print(pathlib.Path(log).read_text())
        sys.exit(1)
    return r.stdout


def skip(reason):
    print(reason)
    sys.exit(77)


def kernel_headers(kernel):
    r = subprocess.run([SCRIPTS / "get-kernel.sh", kernel], capture_output=True, text=True, check=False)
    if r.returncode:
        skip(f"there is no kernel {kernel}: {r.stderr}")
    return pathlib.Path(r.stdout.strip()) / "build"


def read_module(path):
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def main():
    meson, build, version, kernel, *_ = *sys.argv[1:], "6.1"
    if not shutil.which("dkms", path=os.defpath + ":/usr/sbin:/sbin"):
        skip("there is no dkms (Debian: the package dkms)")
    if os.geteuid():
        skip("dkms runs as root only")
    headers = kernel_headers(kernel).resolve()
    with tempfile.TemporaryDirectory() as top:
        top = pathlib.Path(top)
        run(meson, "install", "-C", build, "--no-rebuild", "--tags", "driver", "--destdir", top / "root")
        conf, = (top / "root").glob("**/dkms.conf")
        tree, release = top / "tree", f"{kernel}-test"
        for folder in (tree, top / "source"):
            folder.mkdir()
        places = ("--dkmstree", tree, "--sourcetree", top / "source")
        environment = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        run("dkms", "add", *places, conf.parent, env=environment)
        run("dkms", "build", *places, "-m", MODULE, "-v", version, "-k", release, "--kernelsourcedir", headers,
            logs=f"{tree}/{MODULE}/{version}/build/make.log", env=environment)
        module, = tree.glob(f"{MODULE}/{version}/{release}/*/module/{MODULE}.ko*")
        data = read_module(module)
    for field in (f"version={version}", "author=", "license=GPL", "description="):
        if b"\0" + field.encode() not in data:
            sys.exit(f"the module has no '{field}'")


main()
