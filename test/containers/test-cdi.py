#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`vcuda cdi generate`, and what a container gets by it: test-cdi.py BUILD_ROOT SCENARIO"""

import copy
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

import cdi_rules
from common import check, daemon, run

BUILD = pathlib.Path(sys.argv[1])
VCUDA = BUILD / "cli/vcuda"
READ_ONLY = ["ro", "nosuid", "nodev", "bind"]


def generate(*args, status=0):
    r = run(VCUDA, "cdi", "generate", *args)
    check(r.returncode == status, f"{args}: status {r.returncode}: {r.stdout}{r.stderr}")
    return r


def mounts_of(edits):
    return {mount["containerPath"]: mount["hostPath"] for mount in edits["mounts"]}


def specification():
    """The file has what it should, and keeps to the rules."""
    with tempfile.TemporaryDirectory(prefix="v") as top:
        first, small = f"{top}/first", f"{top}/small"
        with daemon(BUILD, first, VCUDA_CPU_DEVICES="2"), daemon(BUILD, small):
            shown = generate("--socket", first, "--device", f"small-1={small}").stdout
            spec = json.loads(shown)
            cdi_rules.check(spec)
            check(spec["kind"] == "virtio-cuda/gpu", spec["kind"])
            devices = {device["name"]: device["containerEdits"] for device in spec["devices"]}
            check(list(devices) == ["all", "0", "1", "small-1"], list(devices))
            uuids = re.findall("GPU-[0-9a-f-]+", run(VCUDA, "smi", "-L", env=dict(os.environ, VCUDA_SOCKET=first)).stdout)
            for name, variables, socket in (("all", None, first), ("0", [f"CUDA_VISIBLE_DEVICES={uuids[0]}"], first),
                                            ("1", [f"CUDA_VISIBLE_DEVICES={uuids[1]}"], first), ("small-1", None, small)):
                check(devices[name].get("env") == variables, f"{name}: {devices[name]}")
                check(mounts_of(devices[name]) == {"/run/vcuda/socket": socket}, f"{name}: {devices[name]}")
            every = mounts_of(spec["containerEdits"])
            for folder in ("/usr/lib", "/usr/lib64"):
                for name in ("libcuda.so.1", "libnvidia-ml.so.1", "libcudart.so.12", "libcublas.so.12"):
                    check(f"{folder}/{name}" in every, f"{folder}/{name} is missing")
            check(not [path for path in every if path.endswith(".so")], f"names for linkers: {every}")
            check(os.path.samefile(every["/usr/bin/vcuda"], VCUDA) and os.path.samefile(every["/usr/bin/nvidia-smi"], VCUDA), every)
            for path in every.values():
                check(os.path.isfile(path) and not os.path.islink(path), f"{path} is no file")
            for edits in [spec["containerEdits"], *devices.values()]:
                check(all(mount["options"] == READ_ONLY for mount in edits["mounts"]), f"writable: {edits}")
            # Written as a whole, with its folder.
            file = pathlib.Path(top, "cdi/vcuda.json")
            generate("--socket", first, "--device", f"small-1={small}", "--output", file)
            check(file.read_text() == shown and file.stat().st_mode & 0o777 == 0o644, f"{file} differs")
            check(os.listdir(file.parent) == ["vcuda.json"], os.listdir(file.parent))
        rules(spec)


def rules(good):
    """The check of the rules finds what engines refuse."""
    def breaks(change):
        spec = copy.deepcopy(good)
        change(spec)
        try:
            cdi_rules.check(spec)
        except cdi_rules.Broken:
            return True
        return False

    check(not breaks(lambda spec: None), "the rules refuse a good specification")
    for number, change in enumerate([
            lambda spec: spec.pop("kind"), lambda spec: spec.update(kind="gpu"), lambda spec: spec.update(cdiVersion="7"),
            lambda spec: spec.update(cdiVersion="0.4.0"), lambda spec: spec.update(devices=[]), lambda spec: spec.update(extra=1),
            lambda spec: spec["devices"].append(spec["devices"][0]), lambda spec: spec["devices"][0].update(name="a/b"),
            lambda spec: spec["devices"][0].update(containerEdits={}),
            lambda spec: spec["containerEdits"]["env"].append("nothing"), lambda spec: spec["containerEdits"]["mounts"][0].pop("hostPath"),
            lambda spec: spec["containerEdits"]["mounts"][0].update(containerPath="usr/lib/x"),
            lambda spec: spec["containerEdits"].update(hooks=[{"hookName": "later", "path": "/bin/true"}])]):
        check(breaks(change), f"the rules do not see change {number}")


def refusals():
    """A request that cannot be met is refused with a sentence, and leaves no file."""
    with tempfile.TemporaryDirectory(prefix="v") as top:
        socket, file = f"{top}/socket", f"{top}/file.json"
        with daemon(BUILD, socket):
            for expected, *args in (("--device is NAME=SOCKET", "--device", "small"), ("--device is NAME=SOCKET", "--device", f"a/b={socket}"),
                                    ("--device is NAME=SOCKET", "--device", f"-a={socket}"), ("choose another name", "--device", f"all={socket}"),
                                    ("choose another name", "--device", f"3={socket}"), ("nosuch: No such file", "--socket", f"{top}/nosuch"),
                                    ("a is given twice", "--device", f"a={socket}", "--device", f"a={socket}"),
                                    ("no option of `vcuda cdi generate`", "--nope"), ("nosuch: No such file", "--device", f"a={top}/nosuch")):
                r = generate("--output", file, *args, status=125)
                check(expected in r.stderr and not os.path.exists(file), f"{args}: {r.stderr}")
            r = generate("--socket", socket, "--output", "/dev/null/x.json", status=125)
            check("/dev/null/x.json cannot be written: Not a directory" in r.stderr, r.stderr)
        r = generate("--socket", socket, status=125)
        check("cdi: " in r.stderr, r.stderr)
    check("usage: vcuda cdi generate" in run(VCUDA, "cdi", "--help").stdout, "vcuda cdi --help")
    check(run(VCUDA, "cdi", "dance").returncode == 125, "vcuda cdi dance")


def placed():
    """The command finds our libraries where a container has them, and is nvidia-smi by that name."""
    with tempfile.TemporaryDirectory(prefix="v") as top:
        socket, root = f"{top}/socket", pathlib.Path(top, "root")
        with daemon(BUILD, socket):
            spec = json.loads(generate("--socket", socket).stdout)
            for path, source in mounts_of(spec["containerEdits"]).items():
                place = pathlib.Path(f"{root}{path}")
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, place)
            environment = {k: v for k, v in os.environ.items() if k not in ("VCUDA_GUEST_LIB", "LD_LIBRARY_PATH")}
            environment.update(VCUDA_SOCKET=socket, VCUDA_TRANSPORT="local")
            r = run(root / "usr/bin/nvidia-smi", "--query-gpu=index", "--format=csv,noheader", env=environment)
            check(r.returncode == 0 and r.stdout == "0\n", f"nvidia-smi: {r.returncode} {r.stdout}{r.stderr}")
            r = run(root / "usr/bin/vcuda", "run", "--", "sh", "-c", "echo $LD_LIBRARY_PATH", env=environment)
            check(r.stdout.split(":")[0].strip() == f"{root.resolve()}/usr/lib", f"vcuda run: {r.stdout}{r.stderr}")


globals()[sys.argv[2]]()
