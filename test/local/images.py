# SPDX-License-Identifier: Apache-2.0
"""Images that the host has from an earlier process."""

import os
import signal
import subprocess
import sys
import time

from harness import LIMIT, build, check, children, daemon, start_steady, wait_warm


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

    def ship(d, env, value, length, count):
        """Ships a new image, which is kept as number `count`. A worker that ends on a busy machine drops its offer, by design:
        the next process ships the image again."""
        for _ in range(20):
            check(not load_image(env, value, length), f"the host has {value} of {length} bytes, which no process has shipped")
            for _ in range(100):
                if kept(d) == count:
                    return
                time.sleep(0.02)
        check(False, f"{kept(d)} images are kept, not {count}")

    with daemon("--verbose") as (d, env):
        ship(d, env, 1, size, 1)
        check(load_image(env, 1, size), "it is shipped again")
        check(load_image(env, 1, size, "library"), "a library is shipped again")
        # as long, and another
        ship(d, env, 2, size, 2)
        check(load_image(env, 1, size) and load_image(env, 2, size), "one of two is shipped again")
        # too small to be asked for; of another length, around the border of a part
        check(not load_image(env, 3, 100000) and not load_image(env, 3, 100000), "a small image is asked for")
        for n, odd in enumerate((size - 1, size + 1, 3 * size + 12345)):
            ship(d, env, 4, odd, 3 + n)
            check(load_image(env, 4, odd), f"{odd}: it is shipped again")
        # one of the host's workers dies: what it gave stays, and others are served
        victim = start_steady(env, 60)
        os.kill(children(d.pid)[0], signal.SIGKILL)
        check(victim.wait(LIMIT) == 3 and load_image(env, 1, size), "a dead worker took the images along")
    with daemon("--verbose", "--warm", "1") as (d, env):
        wait_warm(d, 1)
        ship(d, env, 1, size, 1)
        wait_warm(d, 1)
        check(load_image(env, 1, size), "a warm worker does not find it")
        # one that starts anew for its guest's variables
        wait_warm(d, 1)
        check(load_image(dict(env, CUDA_DEVICE_MAX_CONNECTIONS="3"), 1, size), "a worker that starts anew does not find it")
    with daemon("--verbose", "--image-cache", "3") as (d, env):
        for value in (1, 2, 3):
            ship(d, env, value, size, value)
        # two fit, with the zeroes behind them
        check([load_image(env, value, size) for value in (2, 3)] == [True, True], "those used last are gone")
        check(not load_image(env, 1, size), "more is kept than may be")
        # more than all may have is not even offered
        check(not load_image(env, 9, 4 << 20) and not load_image(env, 9, 4 << 20), "a large one is there")
    with daemon("--verbose", "--image-cache", "0") as (d, env):
        check(not load_image(env, 1, size) and not load_image(env, 1, size), "images are kept")
        check(kept(d) == 0, "images are kept")
