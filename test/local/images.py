# SPDX-License-Identifier: Apache-2.0
"""Images that the host has from an earlier process."""

import os
import signal
import subprocess
import sys

from harness import LIMIT, build, check, children, daemon, start_steady, wait_until, wait_warm


def has_sha():
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        return " sha_ni" in f.read()


def load_image(env, value, size, *how):
    """Whether the host had the image already; the kernel in it writes what it should in either case."""
    r = subprocess.run([build("test/local/image-cache"), str(value), str(size), *how], env=dict(env, VCUDA_VERBOSE="1"),
                       capture_output=True, text=True, timeout=LIMIT, check=False)
    check(r.returncode == 0 and r.stdout == f"{value}\n", f"{value}: {r.returncode}\n{r.stdout}{r.stderr}")
    return f"the host has an image of {size} bytes already" in r.stderr


def image_cache():
    """What one process has shipped the next one finds, and nothing else; no more is kept than may be."""
    if not has_sha():
        print("a guest whose processor has no instructions for SHA-256 does not ask for images")
        sys.exit(77)
    size = 1 << 20

    def kept(d):
        with open(d.log_path, encoding="utf-8") as f:
            return f.read().count("image cache: keeps one of")

    def wait_kept(d, count):
        wait_until(lambda: kept(d) == count, f"{kept(d)} images are kept, not {count}")

    with daemon("--verbose") as (d, env):
        check(not load_image(env, 1, size), "the host has what nobody has shipped")
        wait_kept(d, 1)
        check(load_image(env, 1, size), "it is shipped again")
        check(load_image(env, 1, size, "library"), "a library is shipped again")
        # as long, and another
        check(not load_image(env, 2, size), "another image of that length is taken for it")
        wait_kept(d, 2)
        check(load_image(env, 1, size) and load_image(env, 2, size), "one of two is shipped again")
        # too small to be asked for; of another length, around the border of a part
        check(not load_image(env, 3, 100000) and not load_image(env, 3, 100000), "a small image is asked for")
        for n, odd in enumerate((size - 1, size + 1, 3 * size + 12345)):
            check(not load_image(env, 4, odd), f"{odd}: the host has it")
            wait_kept(d, 3 + n)
            check(load_image(env, 4, odd), f"{odd}: it is shipped again")
        # one of the host's workers dies: what it gave stays, and others are served
        victim = start_steady(env, 60)
        os.kill(children(d.pid)[0], signal.SIGKILL)
        check(victim.wait(LIMIT) == 3 and load_image(env, 1, size), "a dead worker took the images along")
    with daemon("--verbose", "--warm", "1") as (d, env):
        wait_warm(d, 1)
        check(not load_image(env, 1, size), "the host has what nobody has shipped")
        wait_kept(d, 1)
        wait_warm(d, 1)
        check(load_image(env, 1, size), "a warm worker does not find it")
        # one that starts anew for its guest's variables
        wait_warm(d, 1)
        check(load_image(dict(env, CUDA_DEVICE_MAX_CONNECTIONS="3"), 1, size), "a worker that starts anew does not find it")
    with daemon("--verbose", "--image-cache", "3") as (d, env):
        for value in (1, 2, 3):
            check(not load_image(env, value, size), f"{value} is there")
            wait_kept(d, value)
        # two fit, with the zeroes behind them
        check([load_image(env, value, size) for value in (2, 3)] == [True, True], "those used last are gone")
        check(not load_image(env, 1, size), "more is kept than may be")
        # more than all may have is not even offered
        check(not load_image(env, 9, 4 << 20) and not load_image(env, 9, 4 << 20), "a large one is there")
    with daemon("--verbose", "--image-cache", "0") as (d, env):
        check(not load_image(env, 1, size) and not load_image(env, 1, size), "images are kept")
        check(kept(d) == 0, "images are kept")
