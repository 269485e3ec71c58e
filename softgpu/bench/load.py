#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long two builds of the software GPU take to load PTX, in turns.

usage: load.py [--rounds N] BEFORE AFTER TEXT

BEFORE and AFTER are the check-load programs of two builds, TEXT a file with PTX. Each round loads it with both, cold (no
cache) and known (the cache has it). Prints the medians in seconds of processor time, and AFTER's over BEFORE's.
"""
import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile


def seconds(program, text, cache):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(text, 'rb') as file:
        run = subprocess.run([program], stdin=file, stdout=subprocess.PIPE, check=True, env=dict(os.environ, **cache))
    if not run.stdout.startswith(b'0 '):
        sys.exit(f'{program} refuses {text}: {run.stdout.decode()[:200]}')
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(name, programs, text, rounds, caches):
    times = [[], []]
    for n in range(rounds):
        for which in (0, 1) if n % 2 else (1, 0):
            times[which].append(seconds(programs[which], text, caches[which]))
    before, after = (statistics.median(t) for t in times)
    print(f'{name}: before {before:.3f} s, after {after:.3f} s, ratio {after / before:.3f}; '
          f'of the fastest {min(times[1]) / min(times[0]):.3f}')


def main():
    options = argparse.ArgumentParser()
    options.add_argument('--rounds', type=int, default=9)
    options.add_argument('before')
    options.add_argument('after')
    options.add_argument('text')
    options = options.parse_args()
    programs = options.before, options.after
    print(f'{os.path.getsize(options.text)} bytes')
    measure('cold', programs, options.text, options.rounds, [{'VCUDA_CPU_CACHE': '0'}] * 2)
    with tempfile.TemporaryDirectory() as folder:
        caches = [{'XDG_CACHE_HOME': os.path.join(folder, str(n))} for n in (0, 1)]
        for program, cache in zip(programs, caches):
            os.mkdir(cache['XDG_CACHE_HOME'])
            seconds(program, options.text, cache)
        measure('known', programs, options.text, options.rounds, caches)
    return 0


if __name__ == '__main__':
    sys.exit(main())
