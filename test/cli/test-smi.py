#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`vcuda smi` and libnvidia-ml.so.1: test-smi.py VCUDA BUILD_ROOT SCENARIO"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

VCUDA = sys.argv[1]
BUILD = pathlib.Path(sys.argv[2])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
NAME = r"vCUDA Software GPU \(\d+ cores\)"
UUID = r"GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def smi(*args, status=0, **env):
    r = subprocess.run([VCUDA, "smi", *args], capture_output=True, text=True, env=dict(os.environ, **env), check=False)
    check(r.returncode == status, f"smi {args}: status {r.returncode}: {r.stdout}{r.stderr}")
    return r


def output(pattern, *args, **env):
    out = smi(*args, **env).stdout
    check(re.fullmatch(pattern, out), f"smi {args} printed {out!r}, not {pattern!r}")
    return out


def formats():
    own = ["--backend", "cpu"]
    output(rf"GPU 0: {NAME} \(UUID: {UUID}\)\n", *own, "-L")
    fields = "name,memory.total,memory.used,utilization.gpu,driver_version,uuid"
    values = rf"{NAME}, (\d+)%s, 0%s, 0%s, [\d.]+, {UUID}\n"
    header = r"name, memory.total \[MiB\], memory.used \[MiB\], utilization.gpu \[%\], driver_version, uuid" + "\n"
    output(header + values % (" MiB", " MiB", " %"), *own, "--query-gpu=" + fields, "--format=csv")
    output(values % (" MiB", " MiB", " %"), *own, "--query-gpu=" + fields, "--format=csv,noheader")
    output(values % ("", "", ""), *own, "--query-gpu", fields, "--format=csv,noheader,nounits")
    output("0, 1\n", *own, "--query-gpu=index, count", "--format=csv, noheader", "-i", "0")
    output("pid, used_memory \\[MiB\\]\n", *own, "--query-compute-apps=pid,used_memory", "--format=csv")
    check(" CUDA 12.4\n" in smi(*own, VCUDA_DRIVER_VERSION="12.4").stdout, "the version that is wanted")
    check("no process computes" in smi(*own).stdout, "the table")
    check('"nonsense" is no field' in smi(*own, "--query-gpu=name,nonsense", "--format=csv", status=125).stderr, "an unknown field")
    check("no device 3" in smi(*own, "-i", "3", status=125).stderr, "an unknown device")
    check("usage:" in smi("--format=xml", status=125).stderr, "an unknown format")
    check("usage:" in smi("--help").stdout, "--help")
    check("Driver Not Loaded" in smi("-L", status=125, VCUDA_SOCKET="/dev/null/socket").stderr, "nobody listens")


def query():
    """-q: one figure a line, under nvidia-smi's names, which agree with --query-gpu."""
    with tempfile.TemporaryDirectory(prefix="v") as folder:
        daemon = Daemon(folder, "1", VCUDA_CPU_DEVICES="2")
        try:
            program = daemon.start()
            # A process is one of both devices at moments in which it has no memory.
            for _ in range(600):
                text = smi("-q", **daemon.env).stdout
                if len(re.findall("Process ID", text)) == 1:
                    break
                time.sleep(0.1)
            check(re.search(r"^Attached GPUs +: 2$", text, re.M), text)
            devices = re.split(r"^GPU .*\n", text, flags=re.M)[1:]
            check(len(devices) == 2, text)
            for index, device in enumerate(devices):
                wanted = smi("-i", str(index), "--query-gpu=name,uuid,memory.total,pci.bus_id", "--format=csv,noheader", **daemon.env).stdout
                name, uuid, total, bus = wanted.strip().split(", ")
                for line in (f"    Product Name +: {re.escape(name)}", f"    GPU UUID +: {uuid}", f"        Total +: {total}", f"        Bus Id +: {bus}",
                             "    FB Memory Usage", r"        Gpu +: \d+ %", "        Power Draw +: N/A"):
                    check(re.search(f"^{line}$", device, re.M), f"no {line!r} in {device}")
            check(re.search(rf"^        Process ID +: {program.pid}\n +Name +: .*steady\n +Used GPU Memory +: \d+ MiB$", devices[0], re.M), devices[0])
            check(re.search("^    Processes +: None$", devices[1], re.M), devices[1])
            one = smi("-q", "-i", "1", **daemon.env).stdout
            check(len(re.findall("^GPU ", one, re.M)) == 1 and "Attached GPUs" in one, one)
            program.kill()
            program.wait()
        finally:
            daemon.process.kill()
            daemon.process.wait()


def loops():
    """-l prints until a signal, and leaves no daemon and no folder."""
    for expected, *args in (("usage:", "-l", "0"), ("usage:", "-l", "x"), ("usage:", "--loop-ms=-5"), ("usage:", "-l")):
        check(expected in smi(*args, status=125).stderr, f"{args}")
    with tempfile.TemporaryDirectory(prefix="v") as folder:
        env = dict(os.environ, TMPDIR=folder)
        env.pop("XDG_RUNTIME_DIR", None)
        command = [VCUDA, "smi", "--backend", "cpu", "--query-gpu=index", "--format=csv", "--loop-ms=50"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as p:
            lines = [p.stdout.readline() for _ in range(4)]
            check(lines == ["index\n", "0\n", "0\n", "0\n"], lines)
            p.terminate()
            rest = p.stdout.read()
            check(p.wait() == 128 + 15 and set(rest.split()) <= {"0"}, f"{p.returncode}: {rest!r}")
        check(not os.listdir(folder), f"left: {os.listdir(folder)}")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as p:
            p.stdout.readline()
            p.stdout.close()
            check(p.wait() == 128 + 13, f"nothing reads: {p.returncode}")
        check(not os.listdir(folder), f"left: {os.listdir(folder)}")


class Daemon:
    """A guest: its vcudad and programs on it."""

    def __init__(self, folder, name, **variables):
        self.socket = f"{folder}/{name}"
        self.env = {"VCUDA_SOCKET": self.socket, "VCUDA_TRANSPORT": "local"}
        self.process = subprocess.Popen([BUILD / "host/daemon/vcudad", "--socket", self.socket, "--backend", "cpu"], stderr=subprocess.DEVNULL,
                                        env=dict(os.environ, **variables))
        end = time.monotonic() + 20
        while not os.path.exists(self.socket):
            check(time.monotonic() < end, "vcudad does not listen")
            time.sleep(0.02)

    def start(self):
        p = subprocess.Popen([BUILD / "test/local/steady", "30"], stdout=subprocess.PIPE, text=True,
                             env=dict(os.environ, LD_LIBRARY_PATH=str(BUILD / "guest/lib"), **self.env))
        check(p.stdout.readline().strip() == "ready", "the program does not start")
        return p

    def processes(self):
        rows = smi("--query-compute-apps=pid,used_memory,process_name", "--format=csv,noheader,nounits", **self.env).stdout
        return {int(row.split(", ")[0]): row.split(", ")[1:] for row in rows.splitlines()}


def processes():
    """Each guest sees its own processes and no others; who is gone is off the list."""
    with tempfile.TemporaryDirectory(prefix="v") as folder:
        first, second = Daemon(folder, "1"), Daemon(folder, "2")
        programs = []
        try:
            programs = [first.start(), first.start(), second.start()]
            seen = first.processes()
            check(set(seen) == {p.pid for p in programs[:2]}, f"the first guest sees {seen}")
            check(all(row[0].isdigit() and row[1].endswith("steady") for row in seen.values()), seen)
            check(set(second.processes()) == {programs[2].pid}, f"the second guest sees {second.processes()}")
            table = smi(**first.env).stdout
            check(re.search(rf"^ +0 +{programs[0].pid} +\d+  .*steady$", table, re.M), table)
            programs[0].kill()
            end = time.monotonic() + 10
            while set(first.processes()) != {programs[1].pid}:
                check(time.monotonic() < end, f"a killed program is still listed: {first.processes()}")
                time.sleep(0.05)
        finally:
            for p in programs + [first.process, second.process]:
                p.kill()
                p.wait()


def library():
    """A program's view; CUDA_VISIBLE_DEVICES hides nothing."""
    for arguments, env in (([], {}), (["hidden"], {"CUDA_VISIBLE_DEVICES": "-1"})):
        r = subprocess.run([VCUDA, "run", "--backend", "cpu", "--", BUILD / "test/local/nvml", *arguments], capture_output=True, text=True,
                           env=dict(os.environ, **env), check=False)
        check(r.returncode == 0, f"{env}: {r.returncode}: {r.stdout}{r.stderr}")


def names():
    """Every name is there, and what is not implemented says so, whatever it is given."""
    exported = subprocess.run(["nm", "-D", "--defined-only", BUILD / "guest/libnvidia-ml/libnvidia-ml.so.1"], check=True, capture_output=True,
                              text=True).stdout.split("\n")
    kinds = {line.split()[2]: line.split()[1] for line in exported if line}
    wanted = [line.strip() for line in (SOURCE / "guest/libnvidia-ml/names.txt").read_text().splitlines() if line and line[0] != "#"]
    check(set(wanted) == set(kinds) - {"nvmlVcudaGuestLibrary"}, f"not as in names.txt: {set(wanted) ^ set(kinds)}")
    refused = [name for name, kind in kinds.items() if kind == "W"]
    check(len(refused) > 250 and "nvmlDeviceGetSerial" in refused and "nvmlInit_v2" not in refused, refused)


globals()[sys.argv[3]]()
