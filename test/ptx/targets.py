#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records which PTX targets there are: the first version of each, and the devices that run it, as NVIDIA's ptxas says.

usage: targets.py > targets.txt

test-ptx-targets compares the record with the software GPU's table of architectures.
"""
import os
import shutil
import subprocess
import sys
import tempfile

NUMBERS = (10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121, 130)
DEVICES = (75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)
SPECIFIC = 90  # the first number with a suffix
VERSIONS = tuple(major * 10 + minor for major, last in ((2, 3), (3, 2), (4, 3), (5, 0), (6, 5), (7, 8), (8, 8), (9, 0))
                 for minor in range(last + 1))


def takes(ptxas, folder, target, version, device):
    source = os.path.join(folder, 'target.ptx')
    with open(source, 'w', encoding='ascii') as f:
        address = '.address_size 64\n' if version >= 23 else ''
        f.write(f'.version {version // 10}.{version % 10}\n.target {target}\n{address}.entry k() {{ ret; }}\n')
    command = [ptxas, f'-arch={device}', '-c', source, '-o', os.path.join(folder, 'target.o')]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def device_takes(ptxas, folder, target, number):
    """A driver compiles for all that its device has: that of sm_90a for a device of 9.0."""
    return any(takes(ptxas, folder, target, VERSIONS[-1], f'sm_{number}{suffix}') for suffix in (('', 'a') if number >= SPECIFIC else ('',)))


def main():
    ptxas = shutil.which('ptxas') or '/usr/local/cuda/bin/ptxas'
    release = subprocess.run([ptxas, '--version'], capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    print(f'# SPDX-License-Identifier: Apache-2.0\n# PTX targets as ptxas has them ({release}); targets.py says more.')
    print('# TARGET VERSION DEVICE...    the least .version that ptxas takes, times 10, and the compute capabilities that run it; 0: no such target')
    print('devices', *DEVICES)
    with tempfile.TemporaryDirectory() as folder:
        for target in (f'sm_{n}{suffix}' for n in NUMBERS for suffix in ('', 'a', 'f') if not suffix or n >= SPECIFIC):
            devices = [d for d in DEVICES if device_takes(ptxas, folder, target, d)]
            suffixed = f'sm_{devices[0]}{"a" if devices[0] >= SPECIFIC else ""}' if devices else ''
            version = next((v for v in VERSIONS if devices and takes(ptxas, folder, target, v, suffixed)), 0)
            print(target, version, *devices)


if __name__ == '__main__':
    sys.exit(main())
