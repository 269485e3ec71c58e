# SPDX-License-Identifier: Apache-2.0
"""The description of the machine and of the device that were measured."""

import datetime
import os
import pathlib
import platform
import re
import shutil
import subprocess

import sides


def first_line(*command, folder=None):
    if not shutil.which(command[0]):
        return None
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=30, check=False)
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else None


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def nvidia_driver():
    try:
        found = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)", pathlib.Path("/proc/driver/nvidia/version").read_text())
        return found[1] if found else None
    except OSError:
        return first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")


def commit(folder):
    """The commit of the source folder of these scripts; None in an installation."""
    if not (folder.parent / ".git").exists():
        return None
    found = first_line("git", "rev-parse", "--short=12", "HEAD", folder=folder)
    changed = found and first_line("git", "status", "--porcelain", "--untracked-files=no", folder=folder)
    return f"{found}, changed since" if changed else found


def session(options, side):
    """The virtual side: the device's name, CUDA's version, back end and transport."""
    result, _ = side.run(sides.asking(options), 300)
    words = dict(line.split(None, 1) for line in result.stdout.splitlines() if " " in line)
    where = re.search(r"transport (\S+), back end (\S+),", result.stderr)
    return {"device": words.get("device"), "cuda": words.get("cuda"), "transport": where[1] if where else None,
            "backend": where[2] if where else None}


def host():
    """The machine without its GPU, the commit of these scripts, and the time."""
    return {
        "cpu": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30), 1),
        "load_before": os.getloadavg()[0],
        "kernel": platform.release(),
        "commit": commit(pathlib.Path(__file__).resolve().parent),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def describe(options, virtual):
    try:
        found = session(options, virtual)
    except sides.Failed as why:
        raise sides.Failed(f"nothing runs on the virtual side: {why}") from None
    return {
        **host(),
        "gpu": found["device"],
        "driver": nvidia_driver(),
        "cuda": found["cuda"],
        "backend": found["backend"],
        "transport": found["transport"],
        "version": options.version,
    }
