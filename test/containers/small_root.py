# SPDX-License-Identifier: Apache-2.0
"""A root file system with this machine's C library and some programs, and nothing else."""

import os
import re
import shutil
import subprocess

LOADER = "/lib64/ld-linux-x86-64.so.2"


def libraries(build, program):
    """Libraries of this machine that the program needs, without ours: name and path."""
    environment = dict(os.environ, LD_LIBRARY_PATH=f"{build}/guest/lib:{build}/guest/lib/math")
    text = subprocess.run(["ldd", program], capture_output=True, text=True, check=False, env=environment).stdout
    return {name: path for name, path in re.findall(r"(\S+) => (/\S+)", text) if "/libcu" not in path and not path.startswith(str(build))}


def make_root(root, build, tests, tools):
    """The library is in the folder of its loader, `tests` are in /test, and `tools` in /usr/bin."""
    needed = {}
    for program in [*tests, *tools, build / "cli/vcuda", build / "guest/libcuda/libcuda.so.1"]:
        needed.update(libraries(build, program))
    folder = root / os.path.dirname(os.path.realpath(needed["libc.so.6"])).lstrip("/")
    for place in (folder, *(root / name for name in ("lib64", "usr/bin", "usr/lib", "etc", "tmp", "test", "proc", "dev", "sys"))):
        place.mkdir(parents=True, exist_ok=True)
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")
    for name, path in needed.items():
        shutil.copy(path, folder / name)
    shutil.copy(LOADER, f"{root}{LOADER}")
    for tool in tools:
        shutil.copy(tool, root / "usr/bin" / os.path.basename(tool))
    for program in tests:
        shutil.copy(program, root / "test" / program.name)
