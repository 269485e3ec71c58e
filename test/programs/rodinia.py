#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the Rodinia benchmarks from a checkout and compares each CUDA program with its OpenMP version.

    rodinia.py --checkout DIR --build DIR [--vcuda PATH] [--backend cpu] [--runtime static] [NAME...]

Both versions get the same made-up input (the suite's own data files are not needed), and what they write is compared:
integers exactly, other numbers within a tolerance, since the two add in different orders. The checkout is copied to the
build folder, because the programs' sources are built where they lie, and what CUDA 13 has under another name gets that in
the copy. Programs whose sources do not compile with the toolkit at hand all the same, or that need a data file that cannot
be made up, are listed with the reason.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

# The programs seed their generators with the time of day; both versions are given the same one.
FIXED_TIME = "#include <time.h>\ntime_t time(time_t *t)\n{\n\tif (t)\n\t\t*t = 42;\n\treturn 42;\n}\n"

# Functions and fields that CUDA 13 removed, and the replacements of its documentation. The clock's rate is only
# printed.
RENAMED = {"cudaThreadSynchronize": "cudaDeviceSynchronize", "cudaThreadExit": "cudaDeviceReset",
           "deviceOverlap": "asyncEngineCount", "deviceProp.clockRate": "0"}

# backprop prints nothing of what it has learnt: the weights are written where it would free them.
DUMP_WEIGHTS = """#include <stdio.h>
#include "backprop.h"
void dump_net(BPNN *net)
{
	int i, j;

	for (i = 0; i <= net->input_n; i++)
		for (j = 0; j <= net->hidden_n; j++)
			printf("%.4f%c", net->input_weights[i][j], j == net->hidden_n ? '\\n' : ' ');
}
"""


def numbers(count, low, high, seed):
    source = random.Random(seed)
    return "".join(f"{source.uniform(low, high):.6f}\n" for _ in range(count))


def graph(folder):
    source = random.Random(1)
    nodes = 65536
    degrees = [source.randint(1, 10) for _ in range(nodes)]
    lines, start = [str(nodes)], 0
    for degree in degrees:
        lines.append(f"{start} {degree}")
        start += degree
    lines += ["", "0", "", str(start)]
    lines += [f"{source.randrange(nodes)} {source.randint(1, 10)}" for _ in range(start)]
    (folder / "graph.txt").write_text("\n".join(lines) + "\n")


def heat(folder, count):
    (folder / "temperature").write_text(numbers(count, 320, 345, 2))
    (folder / "power").write_text(numbers(count, 0, 0.01, 3))


def picture(folder):
    source = random.Random(4)
    data = folder.parent.parent.parent / "data" / "srad"
    data.mkdir(parents=True, exist_ok=True)
    rows = "\n".join(" ".join(str(source.randint(20, 230)) for _ in range(458)) for _ in range(502))
    (data / "image.pgm").write_text(f"P2\n458 502\n255\n{rows}\n")


def storms(folder):
    source = random.Random(5)
    (folder / "list").write_text("storms.db\n")
    with open(folder / "storms.db", "w") as out:
        for _ in range(10000):
            out.write(f"{source.randint(1950, 2004):4d} {source.randint(1, 12):2d} {source.randint(1, 28):2d} "
                      f"{source.randrange(24):2d} {source.randint(1, 28):2d} {'ALBERTO':<9s} {source.uniform(7, 70):5.1f} "
                      f"{source.uniform(0, 358):5.1f} {source.randint(10, 160):4d} {source.randint(50, 1050):4d}\n")


def tree_keys(folder):
    keys = list(range(1, 100001))
    (folder / "keys.txt").write_text("\n".join(map(str, [len(keys)] + keys)) + "\n")
    (folder / "commands.txt").write_text("j 600 300\nk 1000\n")


def mesh(folder):
    """A sheet of unit cubes; -1 is the wall, -2 what is far away. Four faces each, numbered from 1."""
    side = 32
    lines = [str(side * side)]
    for y in range(side):
        for x in range(side):
            def cell(i, j):
                if not 0 <= j < side:
                    return -2
                return -2 if not 0 <= i < side else j * side + i + 1
            faces = [(cell(x + 1, y), -1, 0), (cell(x - 1, y), 1, 0), (cell(x, y + 1), 0, -1), (cell(x, y - 1), 0, 1)]
            if 12 <= x < 20 and y == 0:
                faces[3] = (-1, 0, 1)
            lines.append("1.0 " + " ".join(f"{n} {a}.0 {b}.0 0.0" for n, a, b in faces))
    (folder / "mesh.domn").write_text("\n".join(lines) + "\n")


def system(folder):
    """A well-conditioned system of equations."""
    source, n = random.Random(7), 48
    rows = [[source.uniform(-1, 1) + (n if i == j else 0) for j in range(n)] for i in range(n)]
    right = [source.uniform(-10, 10) for _ in range(n)]
    lines = [str(n), ""] + ["\t".join(f"{value:.3f}" for value in row) for row in rows]
    (folder / "system.txt").write_text("\n".join(lines + ["", "\t".join(f"{value:.3f}" for value in right)]) + "\n")


def random_bytes(folder):
    source = random.Random(6)
    (folder / "input.bin").write_bytes(bytes(min(255, int(source.expovariate(0.05))) for _ in range(262144)))


def inner(lines):
    """For a sheet of 512 x 512: the part that the edge has not reached yet. The OpenMP version computes something
    else there."""
    return [line for index, line in enumerate(lines) if 64 <= index // 512 < 448 and 64 <= index % 512 < 448]


class Program:
    """
    cuda, omp: (folder, sources, flags, arguments). file, or lines: what holds the result. normal: makes the lines
    comparable. edit: [(file, old, new)] to make the two versions compute the same. strays: it reads outside of its
    arrays and does not use what is there, which a GPU lets pass within a page.
    """

    def __init__(self, name, cuda, omp, prepare=None, file=None, lines=None, tolerance=0.0, verify=None, skip=None,
                 normal=None, edit=None, strays=False):
        self.normal, self.edit, self.strays = normal, edit, strays
        self.name, self.cuda, self.omp, self.prepare = name, cuda, omp, prepare
        self.file, self.lines, self.tolerance, self.verify, self.skip = file, lines, tolerance, verify, skip


PROGRAMS = [
    Program("b+tree",
            ("b+tree", "main.c kernel/kernel_gpu_cuda_wrapper.cu kernel/kernel_gpu_cuda_wrapper_2.cu util/timer/timer.c "
             "util/num/num.c util/cuda/cuda.cu", "", "file keys.txt command commands.txt"),
            ("b+tree", "main.c kernel/kernel_cpu.c kernel/kernel_cpu_2.c util/timer/timer.c util/num/num.c", "",
             "core 2 file keys.txt command commands.txt"), tree_keys, file="output.txt"),
    Program("backprop", ("backprop", "backprop.c facetrain.c imagenet.c backprop_cuda.cu dump.c", "", "65536"),
            ("backprop", "backprop.c facetrain.c imagenet.c backprop_kernel.c dump.c", "", "65536"),
            lines=r"^-?\d+\.\d{4} ", tolerance=2e-3,
            edit=[(f"{side}/backprop/facetrain.c", "bpnn_free(net)", "dump_net(net)") for side in ("cuda", "openmp")]),
    Program("bfs", ("bfs", "bfs.cu", "", "graph.txt"), ("bfs", "bfs.cpp", "", "4 graph.txt"), graph, file="result.txt"),
    Program("cfd", ("cfd", "euler3d.cu", "", "mesh.domn"),
            ("cfd", "euler3d_cpu.cpp", "-Dblock_length=8", "mesh.domn"), mesh, file="density",
            tolerance=1e-3, normal=lambda lines: lines[1:]),
    Program("dwt2d", None, None, skip="no OpenMP version"),
    Program("gaussian", ("gaussian", "gaussian.cu", "", "-f system.txt"), None, system, verify="gaussian",
            edit=[("cuda/gaussian/gaussian.cu", "int verbose = 0", "int verbose = 1")]),
    Program("heartwall", None, None, skip="needs the suite's AVI file"),
    Program("hotspot", ("hotspot", "hotspot.cu", "", "512 2 20 temperature power out"),
            ("hotspot", "hotspot_openmp.cpp", "-DOUTPUT", "512 512 20 2 temperature power out"),
            lambda folder: heat(folder, 512 * 512), file="out", tolerance=1e-3,
            normal=inner, edit=[("openmp/hotspot/hotspot_openmp.cpp", "max_slope / 1000.0", "max_slope")]),  # the CUDA version's time step
    Program("hotspot3D", ("hotspot3D", "3D.cu", "", "512 8 20 power temperature out"),
            ("hotspot3D", "3D.c", "", "512 8 20 power temperature out"), lambda folder: heat(folder, 512 * 512 * 8), file="out",
            tolerance=1e-3),
    Program("huffman", ("huffman", "main_test_cu.cu vlc_kernel_sm64huff.cu scan.cu pack_kernels.cu cpuencode.cpp "
                        "stats_logger.cpp", "-DTESTING", "input.bin"), None, random_bytes, verify="PASS! vectors are matching"),
    Program("hybridsort", ("hybridsort", "bucketsort.cu mergesort.cu main.cu", "-DVERIFY", "r"), None, verify="PASSED"),
    Program("kmeans", ("kmeans", "cluster.c getopt.c kmeans.c kmeans_clustering.c kmeans_cuda.cu rmse.c", "", "-o -i points"), None,
            verify="centroids"),
    Program("lavaMD", ("lavaMD", "main.c kernel/kernel_gpu_cuda_wrapper.cu util/num/num.c util/timer/timer.c util/device/device.cu",
                       "-DOUTPUT", "-boxes1d 6"),
            ("lavaMD", "main.c kernel/kernel_cpu.c util/num/num.c util/timer/timer.c", "-DOUTPUT", "-cores 2 -boxes1d 6"),
            file="result.txt", tolerance=1e-3),
    Program("leukocyte", ("leukocyte/CUDA", "find_ellipse_kernel.cu track_ellipse_kernel.cu", "", ""), None, verify="never",
            skip="needs the suite's AVI file; its sources use texture references, which CUDA 13 does not have"),
    Program("lud", ("lud", "cuda/lud.cu cuda/lud_kernel.cu common/common.c", "-Icommon", "-s 512 -v"), None, verify="lud"),
    Program("mummergpu", ("mummergpu/src", "mummergpu.cu", "", ""), None, verify="never"),
    Program("myocyte", None, None, skip="needs the suite's table of initial values"),
    Program("nn", ("nn", "nn_cuda.cu", "", "list -r 8 -lat 30 -lng 90"), ("nn", "nn_openmp.c", "", "list 8 30 90"), storms,
            lines=r"-->", tolerance=1e-3, normal=lambda lines: sorted(line.replace("Distance=", "") for line in lines)),
    Program("nw", ("nw", "needle.cu", "-DTRACEBACK", "1024 10"), ("nw", "needle.cpp", "", "1024 10 2"), file="result.txt"),
    Program("particlefilter", ("particlefilter", "ex_particle_CUDA_float_seq.cu", "", "-x 128 -y 128 -z 10 -np 1000"),
            ("particlefilter", "ex_particle_OPENMP_seq.c", "", "-x 128 -y 128 -z 10 -np 1000"), lines=r"^[XY]E:", tolerance=1e-2,
            normal=lambda lines: lines[-2:]),
    Program("particlefilter-naive", ("particlefilter", "ex_particle_CUDA_naive_seq.cu", "", "-x 128 -y 128 -z 10 -np 1000"),
            ("particlefilter", "ex_particle_OPENMP_seq.c", "", "-x 128 -y 128 -z 10 -np 1000"), lines=r"^[XY]E:", tolerance=1e-2,
            normal=lambda lines: lines[-2:]),
    Program("pathfinder", ("pathfinder", "pathfinder.cu", "-DBENCH_PRINT", "20000 100 20"),
            ("pathfinder", "pathfinder.cpp", "-DBENCH_PRINT", "20000 100"), lines=r"^\d+ \d+ \d+"),
    Program("srad_v1", ("srad/srad_v1", "main.cu", "", "50 0.5 502 458"), ("srad/srad_v1", "main.c", "", "50 0.5 502 458 2"), picture,
            file="image_out.pgm", tolerance=1.5),
    Program("srad_v2", ("srad/srad_v2", "srad.cu", "-DOUTPUT", "256 256 0 127 0 127 0.5 4"),
            ("srad/srad_v2", "srad.cpp", "-DOUTPUT -DITERATION", "256 256 0 127 0 127 2 0.5 4"), lines=r"^\d+\.\d{5} ", tolerance=1e-3,
            strays=True),
    Program("streamcluster", ("streamcluster", "streamcluster_cuda_cpu.cpp streamcluster_cuda.cu streamcluster_header.cu", "",
                              "10 20 64 8192 8192 1000 none out.txt 1"),
            ("streamcluster", "streamcluster_omp.cpp", "", "10 20 64 8192 8192 1000 none out.txt 1"), file="out.txt", tolerance=1e-3),
]


class Unbuilt(Exception):
    pass


def compile_program(folder, sources, flags, output, nvcc, runtime=None, helpers=None):
    objects = []
    for name in sources.split():
        target = folder / (name.replace("/", "-") + f".{output.name}.o")
        cuda = name.endswith(".cu")
        if cuda:
            command = [nvcc, "-O2", "-w", "-std=c++17", "-cudart", "none", "-gencode", "arch=compute_75,code=[compute_75,sm_75]"]
        elif name.endswith(".c"):
            command = ["gcc", "-O2", "-w", "-std=gnu89", "-fopenmp"]
        else:
            command = ["g++", "-O2", "-w", "-fopenmp", "-include", "cstdlib", "-include", "cstring"]
        if not cuda and nvcc:
            command.append(f"-I{pathlib.Path(shutil.which(nvcc)).resolve().parents[1]}/include")
        if cuda and helpers:
            command.append(f"-I{helpers}")
        command += [*flags.split(), "-c", name, "-o", target]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            errors = [line for line in (done.stdout + done.stderr).splitlines() if "error" in line]
            raise Unbuilt((errors or ["it does not compile"])[0][:150])
        objects.append(target)
    if runtime:
        command = [nvcc, "-cudart", runtime, *objects, "-o", output, "-lm", "-Xlinker", "-lgomp", "-lpthread"]
    else:
        command = ["g++", *objects, "-o", output, "-lm", "-fopenmp"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise Unbuilt((done.stderr.strip().splitlines() or ["it does not link"])[-1][:150])


def rename(tree):
    for path in tree.rglob("*"):
        if path.suffix in (".c", ".cpp", ".cu", ".cuh", ".h") and path.is_file():
            old = path.read_text(errors="surrogateescape")
            new = re.sub("|".join(map(re.escape, RENAMED)), lambda found: RENAMED[found[0]], old)
            if new != old:
                path.write_text(new, errors="surrogateescape")


def execute(command, folder, timeout, **settings):
    start = time.monotonic()
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL,
                              errors="replace", env=dict(os.environ, **settings))
    except subprocess.TimeoutExpired:
        return None, f"not done after {timeout} s", timeout
    return done.returncode, done.stdout + done.stderr, time.monotonic() - start


def result_of(program, folder, output):
    if program.file:
        path = folder / program.file
        lines = path.read_text().splitlines() if path.is_file() else []
    else:
        lines = [line for line in output.splitlines() if re.search(program.lines, line)]
    text = "\n".join(program.normal(lines) if program.normal else lines)
    return [float(word) for word in re.findall(r"-?\d+\.?\d*(?:[eE][-+]?\d+)?", text)]


def compare(program, mine, theirs):
    """None, or what differs."""
    if not mine or not theirs:
        return "no result was written"
    if len(mine) != len(theirs):
        return f"{len(mine)} numbers, the OpenMP version has {len(theirs)}"
    for index, (a, b) in enumerate(zip(mine, theirs)):
        if not abs(a - b) <= program.tolerance * max(1, abs(b)):
            return f"number {index} is {a:g}, the OpenMP version has {b:g}"
    return None


def solves(output):
    """gaussian prints the eliminated matrix, the right-hand side and the solution: does the solution solve it?"""
    part = re.search(r"Matrix a is:(.*)Array b is:(.*)The final solution is:(.*?)\n\n", output, re.S)
    if not part:
        return "no solution was printed"
    b, x = ([float(word) for word in part[i].split()] for i in (2, 3))
    a = [float(word) for word in part[1].split()]
    n = len(b)
    for row in range(n):
        left = sum(a[row * n + column] * x[column] for column in range(n))
        if abs(left - b[row]) > 0.01 * n:
            return f"row {row} gives {left:.3f}, not {b[row]:.3f}"
    return None


def run_program(program, options, tree):
    if program.skip:
        return {"result": "skipped", "reason": program.skip}
    folder = tree / "cuda" / program.cuda[0]
    other = tree / "openmp" / program.omp[0] if program.omp else None
    for file, old, new in program.edit or []:
        path = tree / file
        path.write_text(path.read_text().replace(old, new))
    for place in filter(None, (folder, other)):
        (place / "fixed-time.c").write_text(FIXED_TIME)
        (place / "dump.c").write_text(DUMP_WEIGHTS)
    try:
        compile_program(folder, program.cuda[1] + " fixed-time.c", program.cuda[2], folder / "vcuda-program", options.nvcc,
                        options.runtime, options.helpers)
        if other:
            compile_program(other, program.omp[1] + " fixed-time.c", program.omp[2], other / "omp-program", options.nvcc)
    except Unbuilt as why:
        return {"result": "not built", "reason": str(why)}
    for place in filter(None, (folder, other)):
        if program.prepare:
            program.prepare(place)
        if program.file:
            (place / program.file).unlink(missing_ok=True)
    prefix = options.prefix.split() if options.prefix is not None else [options.vcuda, "run", "--backend", options.backend, "--"]
    code, output, seconds = execute([*prefix, "./vcuda-program", *program.cuda[3].split()], folder, options.timeout)
    (folder / "vcuda-run.log").write_text(output)
    entry = {"result": "fail", "seconds": round(seconds, 1)}
    if code is None or code:
        return {**entry, "reason": output.strip().splitlines()[-1][:150] if output.strip() else f"exit status {code}"}
    if other:
        code, reference, _ = execute(["./omp-program", *program.omp[3].split()], other, 4 * options.timeout)
        if code is None:
            return {**entry, "reason": "the OpenMP version was not done in time"}
        why = compare(program, result_of(program, folder, output), result_of(program, other, reference))
    elif program.verify == "gaussian":
        why = solves(output)
    elif program.verify == "lud":
        # the program multiplies the factors and prints each element that differs
        why = None if re.search(r">>>Verify<<<<\s*$", output) else "the factors do not give the matrix"
    else:
        why = None if program.verify in output else f"it does not say {program.verify!r}"
    remark = "reads outside of its arrays: with warnings" if program.strays else ""
    return {**entry, "result": "fail" if why else "pass", "reason": why or remark}


def table(results):
    lines = ["| benchmark | result | remark |", "|---|---|---|"]
    for name, entry in results.items():
        text = f"{entry['result']}, {entry['seconds']:.1f} s" if "seconds" in entry else entry["result"]
        reason = entry.get("reason", "").replace("|", "\\|")
        lines.append(f"| {name} | {text} | {reason} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkout", type=pathlib.Path, required=True, help="a checkout of the Rodinia suite")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where to build")
    parser.add_argument("--vcuda", default=str(pathlib.Path(__file__).resolve().parents[2] / "build/cli/vcuda"))
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--prefix", help="instead of vcuda run: a command, or nothing for a native run")
    parser.add_argument("--runtime", choices=["shared", "static"], default="static")
    parser.add_argument("--helpers", type=pathlib.Path, help="the folder of cuda-samples' helper_cuda.h, which cfd wants")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--timeout", type=int, default=300)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    options.vcuda = os.path.abspath(options.vcuda)
    options.helpers = options.helpers and options.helpers.resolve()
    tree = options.build.resolve() / "rodinia"
    if not tree.is_dir():
        shutil.copytree(options.checkout, tree, ignore=shutil.ignore_patterns(".git", "opencl"))
        rename(tree / "cuda")
    results = json.loads(options.json.read_text()) if options.json and options.json.is_file() else {}
    for program in PROGRAMS:
        if options.names and program.name not in options.names:
            continue
        entry = results[program.name] = run_program(program, options, tree)
        print(f"{program.name:22} {entry['result']:10} {entry.get('seconds', 0):6.1f} s  {entry.get('reason', '')}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.table:
        options.table.write_text(table(dict(sorted(results.items()))))
    return 0 if all(entry["result"] != "fail" for entry in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
