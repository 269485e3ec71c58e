# SPDX-License-Identifier: Apache-2.0
"""Control groups of version 2: a vcudad limits its workers' memory only if it is alone in its group.

With version 1 vcudad needs no group of its own, and all folders here are None.
"""

import contextlib
import os
import pathlib
import time

PATIENCE_S = 5
OWN = "plug-in"  # the group of this program, beside those of the units


def own_folder(root="/proc/self"):
    """The folder of the group in which this process is; None without memory in version 2."""
    with open(f"{root}/cgroup", encoding="utf-8") as file:
        paths = [line.rstrip("\n")[3:] for line in file if line.startswith("0::")]
    with open(f"{root}/mountinfo", encoding="utf-8") as file:
        mounts = [line.split(" - ")[0].split()[3:5] for line in file if line.split(" - ")[1].startswith("cgroup2 ")]
    for path in paths:
        for mounted, place in mounts:
            # With a namespace of its own a container has both as "/".
            if os.path.commonpath([path, mounted]) == mounted:
                folder = pathlib.Path(place, os.path.relpath(path, mounted))
                if "memory" in (folder / "cgroup.controllers").read_text().split():
                    return folder
    return None


def is_alone(folder):
    """Whether this process is the only one in its group. Workers of the vcudad that has listed the GPUs may still be ending."""
    end = time.monotonic() + PATIENCE_S
    while (folder / "cgroup.procs").read_text().split() != [str(os.getpid())]:
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


class Groups:
    """A group lends its memory controller only if it has no process, so this program moves to a group beside the units' ones."""

    def __init__(self):
        self.folder = None

    def open(self):
        """Raises OSError. A group with other processes stays as it is, and vcudad says that it can limit nothing."""
        folder = own_folder()
        if not folder or not is_alone(folder):
            return
        own = folder / OWN
        own.mkdir(exist_ok=True)
        (own / "cgroup.procs").write_text("0")
        (folder / "cgroup.subtree_control").write_text("+memory")
        self.folder = folder

    def make(self, name):
        """The folder of a new group, or None. Removes what a vcudad has left there that was killed."""
        if not self.folder:
            return None
        self.remove(name)
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def remove(self, name):
        """After the end of all processes in it."""
        if self.folder:
            for folder, _, _ in os.walk(self.folder / name, topdown=False):
                with contextlib.suppress(OSError):  # a process that ends is still there
                    os.rmdir(folder)
