#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that an older toolkit's nvcc builds with its shared runtime, on the software GPU and our library of that version.

usage: older.py --nvcc NVCC [--build DIRECTORY] [--samples CHECKOUT] [--flags=FLAGS] [--vm] [NAME...]

CHECKOUT: NVIDIA's cuda-samples of that toolkit (tag v11.8). NAMEs: its samples, instead of those that are listed here. references.cu, beside
this file, is built where the toolkit still has texture references. Optional: no older toolkit is needed to build or test virtio-cuda.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import guest

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES = ["vectorAdd", "matrixMul", "asyncAPI", "simpleCallback", "simpleStreams", "simpleTexture", "simpleTemplates", "simpleOccupancy",
           "simpleLayeredTexture", "simplePitchLinearTexture", "simpleSurfaceWrite", "simpleMultiCopy", "simpleZeroCopy", "simpleAssert",
           "simplePrintf", "simpleCubemapTexture", "simpleVoteIntrinsics", "deviceQuery", "graphMemoryNodes"]
WAIVED = 2


def run(command, **kwargs):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False, **kwargs)


def build(options, name, sources, includes, output):
    """Why the program cannot be built, if it cannot."""
    built = run([options.nvcc, "-w", "-std=c++14", "-gencode", "arch=compute_60,code=compute_60", "-cudart", "shared", *options.flags.split(),
                 *(f"-I{i}" for i in includes), *map(str, sources), "-o", str(output / name)])
    if built.returncode:
        return next((line for line in built.stdout.splitlines() if "error" in line), built.stdout[-200:])
    return None


def runs(options, programs):
    """Yields each program with its exit status and output."""
    vcuda = str(options.build / "cli/vcuda")
    if options.vm:
        jobs = [guest.Job(program, directory, [str(program)]) for program, directory in programs.items()]
        yield from ((job.sample, job.code, job.output) for job in guest.run_all(vcuda, "cpu", "4G", jobs, 300))
        return
    for program, directory in programs.items():
        ran = run([vcuda, "run", "--backend", "cpu", "--", str(program)], cwd=directory)
        yield program, ran.returncode, ran.stdout


def verdict(program, code, output):
    """The result of a program, in a word, and its reason."""
    soname = re.search(r"\[(libcudart\.so\.[\d.]+)\]", run(["readelf", "-d", str(program)]).stdout)
    last = (output.strip().splitlines() or [""])[-1]
    return {0: "passed", WAIVED: "waived"}.get(code, "failed"), f"{soname[1] if soname else 'no shared runtime'}: {last[:90]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build")
    parser.add_argument("--samples", type=pathlib.Path)
    parser.add_argument("--flags", default="", help="for nvcc: -allow-unsupported-compiler, say")
    parser.add_argument("--vm", action="store_true", help="in a VM")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    release = int(re.search(r"release (\d+)", run([options.nvcc, "--version"]).stdout)[1])
    options.build = options.build.resolve()
    work = {}
    if release < 12 and not options.names:
        work["references"] = ([HERE / "references.cu"], [], HERE)
    for name in (options.names or SAMPLES) if options.samples else []:
        for directory in sorted(options.samples.glob(f"Samples/**/{name}")):
            work[name] = (sorted([*directory.glob("*.cu"), *directory.glob("*.cpp")]), [options.samples / "Common"], directory)
    counts = {}

    def say(name, result, why):
        counts[result] = counts.get(result, 0) + 1
        print(f"{result:9} {name}: {why}", flush=True)

    with tempfile.TemporaryDirectory() as output:
        programs = {}
        for name, (sources, includes, directory) in work.items():
            why = build(options, name, sources, includes, pathlib.Path(output))
            if why:
                say(name, "not built", why)
            else:
                programs[pathlib.Path(output) / name] = directory
        for program, code, text in runs(options, programs):
            say(program.name, *verdict(program, code, text))
    print(", ".join(f"{n} {result}" for result, n in sorted(counts.items())) or "nothing to do")
    sys.exit(1 if counts.get("failed") or not counts else 0)


main()
