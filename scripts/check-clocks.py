#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""No wait depends on the real-time clock, which may be set at any time.

usage: check-clocks.py      (the test "clocks")

Reports each use of the real-time clock, and of waits that end by it, that KNOWN does not name. common/deadline.h has the moment for
pthread_cond_clockwait(). A condition whose attributes name CLOCK_MONOTONIC may use pthread_cond_timedwait().
"""

import os
import re
import sys

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
FOLDERS = ("cli", "common", "guest", "host", "protocol", "random", "ring", "softgpu")
WORDS = re.compile(r"\bCLOCK_REALTIME|\bgettimeofday\(|\btime\(NULL\)|\b(?:pthread_cond|pthread_mutex|pthread_rwlock|sem|mtx|cnd)_timed\w+\(|"
                   r"\bTIMER_ABSTIME|\bTFD_TIMER_ABSTIME|\bFUTEX_CLOCK_REALTIME")
# File and word, with the reason.
KNOWN = {
    ("cli/smi/smi-query.c", "time(NULL)"): "the time that is printed",
    ("common/cache.c", "time(NULL)"): "ages of files; a step keeps a file longer or drops it earlier",
    ("guest/libcuda/trace/trace-summary.c", "pthread_cond_timedwait("): "its condition has CLOCK_MONOTONIC",
    ("guest/libcupti/clock.c", "CLOCK_REALTIME"): "the clock of CUPTI's records",
    ("guest/libnvidia-ml/field.c", "CLOCK_REALTIME"): "times of NVML's field values",
    ("host/gpu-use/driver.c", "CLOCK_REALTIME"): "the clock of the driver's samples",
    ("host/worker/session/handle.c", "pthread_cond_timedwait("): "its condition has CLOCK_MONOTONIC",
    ("host/worker/session/work-sampler.c", "CLOCK_REALTIME"): "times of NVML's samples",
    ("softgpu/runtime/ptx-run.c", "CLOCK_REALTIME"): "where %globaltimer begins",
}


def sources():
    for folder in FOLDERS:
        for directory, folders, names in os.walk(os.path.join(TREE, folder)):
            folders[:] = [name for name in folders if name not in ("test", "bench")]
            yield from (os.path.join(directory, name) for name in names if name.endswith((".c", ".h", ".cpp")))


def main():
    found, wrong = set(), []
    for path in sources():
        name = os.path.relpath(path, TREE)
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                code = re.sub(r"/\*.*?\*/|^\s*\*.*|/\*.*", "", line)
                for word in WORDS.findall(code):
                    found.add((name, word))
                    if (name, word) not in KNOWN:
                        wrong.append(f"{name}:{number}: {word} depends on the real-time clock: see common/deadline.h")
    wrong += [f"{name}: {word} is not there any more: drop it from check-clocks.py" for name, word in KNOWN.keys() - found]
    print("\n".join(wrong))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
