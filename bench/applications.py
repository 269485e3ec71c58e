# SPDX-License-Identifier: Apache-2.0
"""Applications that are built already: which are run, and where the times that they print stand."""

import os
import re

from sides import Failed

# The time that a sample prints: a pattern, whose last match has the value, and its unit.
SAMPLES = {
    "asyncAPI": (r"time spent executing by the GPU: ([\d.]+)", "ms"),
    "binomialOptions": (r"binomialOptionsGPU\(\) time: ([\d.]+) msec", "ms"),
    "BlackScholes": (r"BlackScholesGPU\(\) time\s*: ([\d.]+) msec", "ms"),
    "convolutionSeparable": (r"Throughput = ([\d.]+) MPixels/sec", "MPixels/s"),
    "fastWalshTransform": (r"GPU time: ([\d.]+) ms", "ms"),
    "histogram": (r"histogram256, Throughput = ([\d.]+) MB/s", "MB/s"),
    "matrixMul": (r"Time= ([\d.]+) msec", "ms"),
    "mergeSort": (r"Time: ([\d.]+) ms", "ms"),
    "reduction": (r"Throughput = ([\d.]+) GB/s", "GB/s"),
    "scalarProd": (r"GPU time: ([\d.]+) msecs", "ms"),
    "simpleStreams": (r"4 streams:\s*([\d.]+)", "ms"),
    "transpose": (r"transpose optimized\s*, Throughput = ([\d.]+) GB/s", "GB/s"),
}

# The suite's own sizes, of programs that make their own data or get it from test/programs/rodinia.py.
RODINIA = {
    "backprop": ("backprop", "65536"),
    "hotspot": ("hotspot", "512 2 2 temperature power out"),
    "lavaMD": ("lavaMD", "-boxes1d 10"),
    "lud": ("lud", "-s 256"),
    "nw": ("nw", "2048 10"),
    "pathfinder": ("pathfinder", "100000 100 20"),
    "srad_v1": ("srad/srad_v1", "100 0.5 502 458"),
    "streamcluster": ("streamcluster", "10 20 256 65536 65536 1000 none out.txt 1"),
}


class Application:
    def __init__(self, name, program, arguments=(), pattern=None, unit=None):
        self.name, self.program, self.arguments = name, program, arguments
        self.pattern, self.unit = pattern, unit
        self.repeats = 1

    def measure(self, side):
        result, seconds = side.run([self.program, *self.arguments], 120, folder=self.program.parent)
        figures = {f"{self.name}_start_to_exit": (seconds * 1e3, "ms")}
        if self.pattern:
            found = re.findall(self.pattern, result.stdout + result.stderr)
            if not found:
                raise Failed("it printed no time of its own")
            figures[self.name] = (float(found[-1]), self.unit)
        return figures

    def __str__(self):
        return self.name


def present(option, what, programs):
    found = [p for p in programs if os.access(p.program, os.X_OK)]
    if not found:
        raise Failed(f"{option}: none of the {what} is there, such as {programs[0].program}")
    return found


def samples(options):
    """DIR/NAME/NAME, as test/programs/samples.py builds them in static/ and shared/ of its folder."""
    if not options.samples:
        raise Failed("--samples DIR is not given")
    tree = next((options.samples / kind for kind in ("static", "shared") if (options.samples / kind).is_dir()), options.samples)
    return present("--samples", "samples",
                   [Application(name, tree / name / name, pattern=pattern, unit=unit) for name, (pattern, unit) in SAMPLES.items()])


def rodinia(options):
    """As test/programs/rodinia.py builds them."""
    if not options.rodinia:
        raise Failed("--rodinia DIR is not given")
    tree = options.rodinia / "rodinia" if (options.rodinia / "rodinia").is_dir() else options.rodinia
    return present("--rodinia", "benchmarks",
                   [Application(name, tree / "cuda" / folder / "vcuda-program", arguments.split())
                    for name, (folder, arguments) in RODINIA.items()])
