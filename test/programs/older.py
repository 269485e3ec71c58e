#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that an older toolkit's nvcc builds with its shared runtime, on the software GPU and our library of that version.

usage: older.py --nvcc NVCC [--build DIRECTORY] [--samples CHECKOUT] [--flags=FLAGS] [NAME...]

CHECKOUT: NVIDIA's cuda-samples of that toolkit (tag v11.8). NAMEs: its samples, instead of those that are listed here. references.cu, beside
this file, is built where the toolkit still has texture references. Optional: no older toolkit is needed to build or test virtio-cuda.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES = ["vectorAdd", "matrixMul", "asyncAPI", "simpleCallback", "simpleStreams", "simpleTexture", "simpleTemplates", "simpleOccupancy",
           "simpleLayeredTexture", "simplePitchLinearTexture", "simpleSurfaceWrite", "simpleMultiCopy", "simpleZeroCopy", "simpleAssert",
           "simplePrintf", "simpleCubemapTexture", "simpleVoteIntrinsics", "deviceQuery", "graphMemoryNodes"]
WAIVED = 2


def run(command, **kwargs):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False, **kwargs)


def try_program(options, name, sources, includes, directory, output):
    """What became of it, in a word and its reason."""
    program = output / name
    built = run([options.nvcc, "-w", "-std=c++14", "-gencode", "arch=compute_60,code=compute_60", "-cudart", "shared", *options.flags.split(),
                 *(f"-I{i}" for i in includes), *map(str, sources), "-o", str(program)])
    if built.returncode:
        return "not built", next((line for line in built.stdout.splitlines() if "error" in line), built.stdout[-200:])
    soname = re.search(r"\[(libcudart\.so\.[\d.]+)\]", run(["readelf", "-d", str(program)]).stdout)
    ran = run([str(options.build / "cli/vcuda"), "run", "--backend", "cpu", "--", str(program)], cwd=directory)
    last = (ran.stdout.strip().splitlines() or [""])[-1]
    return {0: "passed", WAIVED: "waived"}.get(ran.returncode, "failed"), f"{soname[1] if soname else 'no shared runtime'}: {last[:90]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nvcc", required=True)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build")
    parser.add_argument("--samples", type=pathlib.Path)
    parser.add_argument("--flags", default="", help="for nvcc: -allow-unsupported-compiler, say")
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
    with tempfile.TemporaryDirectory() as output:
        for name, (sources, includes, directory) in work.items():
            result, why = try_program(options, name, sources, includes, directory, pathlib.Path(output))
            counts[result] = counts.get(result, 0) + 1
            print(f"{result:9} {name}: {why}", flush=True)
    print(", ".join(f"{n} {result}" for result, n in sorted(counts.items())) or "nothing to do")
    sys.exit(1 if counts.get("failed") or not counts else 0)


main()
