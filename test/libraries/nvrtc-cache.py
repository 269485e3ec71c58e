#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Another process finds code that NVRTC compiled in the cache, and only if the code is the same.

nvrtc-cache.py VCUDA PROGRAM
"""
import os
import re
import subprocess
import sys
import tempfile

FOR_MACHINE_CODE = b'/*for machine code*/'.hex()  # protocol/machine-code.h

VCUDA, PROGRAM = sys.argv[1:3]
SOURCE = ('extern "C" __global__ void f(float *a, const float *b)'
          '{ int i = threadIdx.x; a[i] = a[i] / b[i] + sqrtf(b[i]) * %s; }')
FIRST = SOURCE % '1.5f'


class Run:
    """One process: what it printed, and what the trace says of the cache."""

    def __init__(self, folder, source, *options, **settings):
        self.trace = tempfile.NamedTemporaryFile('r', prefix='nvrtc-cache-trace-')
        env = {k: v for k, v in os.environ.items() if not k.startswith(('CUDA_CACHE_', 'VCUDA_TRACE'))}
        env.update({'CUDA_CACHE_PATH': folder, 'VCUDA_TRACE': self.trace.name, 'VCUDA_NVRTC': 'cubin', **settings})
        self.process = subprocess.Popen([VCUDA, 'run', '--backend', 'cpu', '--', PROGRAM, source, '-arch=sm_80', *options],
                                        env=env, stdout=subprocess.PIPE, text=True)

    def result(self):
        self.output = self.process.communicate()[0]
        assert self.process.returncode == 0, self.process.returncode
        with self.trace as f:
            self.notes = re.findall(r'compute cache: (found|has no|keeps|cannot keep|gives PTX for) [0-9a-f]{16}, ', f.read())
        return self


def run(*arguments, **settings):
    return Run(*arguments, **settings).result()


def files(folder):
    try:
        return sorted(os.listdir(os.path.join(folder, 'vcuda')))
    except FileNotFoundError:
        return []


def check(condition, what, *shown):
    if not condition:
        sys.exit('nvrtc-cache: %s: %s' % (what, shown))


MISSES, HITS = ['has no', 'keeps'] * 2, ['found'] * 2


def same_program(folder):
    first = run(folder, FIRST)
    version = tuple(int(n) for n in first.output.split()[1].split('.'))
    if version < (12, 9):
        print('skipped: NVRTC %d.%d has no cache' % version)
        sys.exit(77)
    check(first.notes == MISSES, 'PTX and machine code are kept', first.notes)
    kept = files(folder)
    check(len(kept) == 2, 'two files', kept)
    second = run(folder, FIRST)
    check(second.notes == HITS, 'they are found by another process', second.notes)
    check(second.output == first.output, 'and are the same')
    check(files(folder) == kept, 'nothing is added', files(folder))
    twice = run(folder, FIRST, COMPILATIONS='2')
    check(twice.notes == HITS * 2, 'each time', twice.notes)
    return first


def other_programs(folder, first):
    """Each is made as it is without a cache. Most differ in what NVRTC does not say when it asks for machine code."""
    seen = {first.output}
    for source, *options in ((SOURCE % '2.5f',), (FIRST, '--maxrregcount=16'), (FIRST, '-ftz=true'), (FIRST, '--prec-div=false'),
                             (FIRST, '--prec-sqrt=false'), (FIRST, '--restrict')):
        before = len(files(folder))
        alone = run(folder, source, *options, CUDA_CACHE_DISABLE='1')
        check(alone.notes == [] and len(files(folder)) == before, 'CUDA_CACHE_DISABLE', options, alone.notes)
        made, found = run(folder, source, *options), run(folder, source, *options)
        check(made.notes == MISSES and found.notes == HITS, 'entries of its own', source, options, made.notes, found.notes)
        check(alone.output == made.output == found.output, 'the same with and without', source, options)
        check(alone.output not in seen, 'differs from the others, so that the test can tell', source, options)
        seen.add(alone.output)
    check(run(folder, FIRST).output == first.output, 'the first is still what it was')
    assembled = run(folder, FIRST, '--ptxas-options=-O1')
    check(assembled.notes == ['found', 'has no', 'keeps'] and assembled.output not in seen, 'the same PTX, assembled otherwise')


def damaged(folder, first):
    for change in (lambda b: b[:-20] + bytes([b[-20] ^ 1]) + b[-19:], lambda b: b[:len(b) // 2], lambda b: b''):
        for name in files(folder):
            path = os.path.join(folder, 'vcuda', name)
            with open(path, 'rb') as f:
                data = f.read()
            with open(path, 'wb') as f:
                f.write(change(data))
        again = run(folder, FIRST)
        check(again.notes == MISSES and again.output == first.output, 'damaged files are not used', again.notes)
        check(run(folder, FIRST).notes == HITS, 'and replaced')


def nowhere(folder, first):
    nothing = run('/proc/self', FIRST)
    check('found' not in nothing.notes and 'keeps' not in nothing.notes and nothing.output == first.output,
          'no folder can be made: %s' % nothing.notes)
    small = run(folder, FIRST, CUDA_CACHE_MAXSIZE='100')
    check(small.notes == ['has no', 'cannot keep'] * 2 and small.output == first.output, 'CUDA_CACHE_MAXSIZE', small.notes)
    check(files(folder) == [], 'nothing is there', files(folder))


def at_once(folder, first):
    processes = [Run(folder, FIRST, COMPILATIONS='3') for _ in range(4)]
    expected = first.output + ''.join(first.output.split('\n', 1)[1] for _ in range(2))
    for p in processes:
        check(p.result().output == expected, 'four processes at once')
    check(len(files(folder)) == 2, 'leave two entries', files(folder))


def instead_of_machine_code(folder, first):
    """The software GPU's programs find PTX, with its end; what was kept for others stays theirs."""
    for settings, notes in (({}, ['has no', 'keeps', 'gives PTX for']), ({}, ['found', 'gives PTX for']),
                            ({'CUDA_CACHE_DISABLE': '1'}, ['gives PTX for'])):
        made = run(folder, FIRST, VCUDA_NVRTC='', **settings)
        ptx, cubin = (line.split()[1] for line in made.output.splitlines()[1:])
        check(made.notes == notes and cubin == FOR_MACHINE_CODE + ptx and cubin.endswith('00'), 'PTX for machine code', settings, made.notes)
        check('ptx ' + ptx in first.output, 'that is the same otherwise')
    other = run(folder, FIRST, '-ftz=true', VCUDA_NVRTC='', COMPILATIONS='2')
    check(len(set(line.split()[1].removeprefix(FOR_MACHINE_CODE) for line in other.output.splitlines()[1:])) == 1 and other.output != made.output,
          'of the same compilation', other.notes)
    again = run(folder, FIRST)
    check(again.notes == ['found', 'has no', 'keeps'] and again.output == first.output, 'machine code is made', again.notes)
    check(run(folder, FIRST, VCUDA_NVRTC='').output == made.output, 'and not found')


def main():
    with tempfile.TemporaryDirectory(prefix='nvrtc-cache-') as root:
        first = same_program(os.path.join(root, 'one'))
        other_programs(os.path.join(root, 'one'), first)
        os.mkdir(os.path.join(root, 'small'))
        nowhere(os.path.join(root, 'small'), first)
        run(os.path.join(root, 'two'), FIRST)
        damaged(os.path.join(root, 'two'), first)
        instead_of_machine_code(os.path.join(root, 'four'), first)
        at_once(os.path.join(root, 'three'), first)
    print('nvrtc-cache: passed')


main()
