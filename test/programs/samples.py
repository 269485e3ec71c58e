#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds NVIDIA's cuda-samples from a checkout and runs them under vcuda: which of them verify their own results?

    samples.py --checkout DIR --build DIR [--vcuda PATH] [--backend cpu|cuda|native] [--runtime shared|static|both] [--vm]
               [--nvcc [--arch native|90|...]] [--jobs N] [--timeout SECONDS] [--json FILE] [NAME...]

The checkout is only read, and nothing is fetched. Each sample is built by its own CMakeLists.txt with the arguments
that its own test_args.json names, and passes if every such run exits with 0 and reports no failure. Code is compiled
for the lowest architecture that the sample names, as PTX and machine code, since nine of them take nine times as long.
Samples that need what is not there are listed with the reason. The result is a Markdown table (--table FILE) and JSON
(--json FILE, which a later run for other names is merged into).

With --nvcc nvcc is called directly instead of CMake (nvcc_build.py), with what each CMakeLists.txt says. --arch takes the
architecture: several with commas, "native" (of the machine's GPUs) or "lowest" (the default). --code sass builds programs
without PTX. --backend native runs the programs without vcuda. A result is one of:

    pass       every run ended with 0 and reported no failure
    waived     the sample says that the device, or the machine, lacks what it shows
    refused    it failed, and a line of vcuda's names something that is not supported
    fail       it failed otherwise
    time       a run took longer than --timeout
    not built

With --vm they run in a VM (`vcuda vm run`), and without names those that VM lists. The JSON then has a column for each
runtime and back end. --built runs what an earlier run has built, on a machine that has no compiler.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import guest
import nvcc_build

CATEGORIES = ["0_Introduction", "1_Utilities", "2_Concepts_and_Techniques", "3_CUDA_Features", "4_CUDA_Libraries",
              "5_Domain_Specific", "6_Performance"]

# The requirements of a sample besides cudart, a GPU and a terminal. Found in its CMakeLists.txt.
NEEDS = [
    (r"NvSci|nvsci|EGL|Vulkan|d3d|D3D", "graphics or platform interoperability"),
    (r"\bMPI", "MPI"),
    (r"CUDA::((?:cublas|curand|cufft|cusolver|cusparse|npp|nvjpeg|nvJitLink|nvjitlink|nvvm)\w*)", r"NVIDIA's \1"),
    (r"CUDA::nvrtc", "NVIDIA's nvrtc"),
    (r"OpenGL|GLUT|GLEW", "OpenGL"),
]

# Sources that have no run of their own, or one that ends only when a user closes its window.
INTERACTIVE = {"fluidsGL", "simpleCUDA2GL", "postProcessGL"}

# For a VM without KVM: short ones, for each part of the API.
VM = ["asyncAPI", "clock", "cudaGraphsPerfScaling", "cudaOpenMP", "deviceQuery", "deviceQueryDrv", "graphMemoryNodes", "inlinePTX",
      "matrixMul", "matrixMulDrv", "matrixMulDynlinkJIT", "memMapIPCDrv", "newdelete", "p2pBandwidthLatencyTest", "ptxjit",
      "simpleAssert", "simpleAtomicIntrinsics", "simpleCallback", "simpleCooperativeGroups", "simpleCubemapTexture",
      "simpleCudaGraphs", "simpleDrvRuntime", "simpleHyperQ", "simpleIPC", "simpleLayeredTexture", "simpleMultiCopy",
      "simpleOccupancy", "simplePrintf", "simpleStreams", "simpleSurfaceWrite", "simpleTemplates", "simpleTexture",
      "simpleTextureDrv", "simpleVoteIntrinsics", "simpleZeroCopy", "streamOrderedAllocation", "systemWideAtomics", "template",
      "threadMigration", "topologyQuery", "vectorAdd", "vectorAddDrv", "vectorAddMMAP"]

FAILURE = re.compile(r"\bFAIL(ED|URE)?\b|Test failed|test FAILED|error code|CUDA error|is not supported", re.I)
# A line of ours that says so: the reason of a failure that is a known limit.
REFUSED = re.compile(r"^vcuda[^:]*: .*(not supported|are not there)", re.M)
# Counts of no failures, and what the samples of assert() and of expected failures print.
HARMLESS = re.compile(r"\b0 fail|no fail|Assertion `.*failed|assertion failed, block|failed as expected", re.I)
KINDS = ("pass", "waived", "refused", "fail", "time", "not built")
WAIVED = 2  # the samples' own EXIT_WAIVED

NVCC_WRAPPER = r"""#!/bin/bash
# nvcc for the lowest architecture of those asked for.
arguments=() low=
for a in "$@"; do
	if [[ $a =~ ^(--generate-code|-gencode)=arch=compute_([0-9]+) ]]; then
		[ -n "$low" ] && [ "$low" -le "${BASH_REMATCH[2]}" ] || low=${BASH_REMATCH[2]}
	else
		arguments+=("$a")
	fi
done
[ -n "$low" ] && arguments+=("--generate-code=arch=compute_$low,code=[compute_$low,sm_$low]")
exec nvcc "${arguments[@]}"
"""


class Sample:
    def __init__(self, folder):
        self.folder = folder
        self.name = folder.name
        self.cmake = (folder / "CMakeLists.txt").read_text()
        self.needs = []
        for pattern, text in NEEDS:
            self.needs += sorted({found.expand(text) for found in re.finditer(pattern, self.cmake)})


def find_samples(checkout):
    found = []
    for category in CATEGORIES:
        for folder in sorted((checkout / "Samples" / category).iterdir()):
            if (folder / "CMakeLists.txt").is_file():
                found.append(Sample(folder))
    return found


def configure(samples, build, runtime):
    """A CMake project of our own that has each sample's folder in it, so that one configuration does for all."""
    tree = build / runtime
    tree.mkdir(parents=True, exist_ok=True)
    wrapper = build / "nvcc-lowest"
    wrapper.write_text(NVCC_WRAPPER)
    wrapper.chmod(0o755)
    lines = ["cmake_minimum_required(VERSION 3.20)", "project(all LANGUAGES C CXX CUDA)",
             "set(CMAKE_CUDA_FLAGS \"${CMAKE_CUDA_FLAGS} -w\")"]
    lines += [f"add_subdirectory({sample.folder} {sample.name})" for sample in samples]
    source = build / "source"
    source.mkdir(exist_ok=True)
    text = "\n".join(lines) + "\n"
    if not (source / "CMakeLists.txt").is_file() or (source / "CMakeLists.txt").read_text() != text:
        (source / "CMakeLists.txt").write_text(text)
    command = ["cmake", "-S", source, "-B", tree, "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CUDA_COMPILER={wrapper}",
               f"-DCMAKE_CUDA_RUNTIME_LIBRARY={runtime.capitalize()}"]
    if shutil.which("ccache"):
        command += [f"-DCMAKE_{language}_COMPILER_LAUNCHER=ccache" for language in ("C", "CXX", "CUDA")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"samples.py: cmake failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return tree


def build_sample(sample, tree, jobs, built=False, toolchain=None):
    """None, or why it could not be built. Without a Toolchain, by the make of CMake's tree."""
    if built:
        return None if (tree / sample.name / sample.name).is_file() else "--built, and it is not there"
    if toolchain:
        try:
            return toolchain.build(sample.folder, tree / sample.name, tree.name)
        except nvcc_build.Failed as error:
            return str(error)
    targets = [sample.name]
    targets += re.findall(r"add_custom_target\((\w+)", sample.cmake)
    done = subprocess.run(["make", "-s", f"-j{jobs}", "-C", tree / sample.name], capture_output=True, text=True)
    program = tree / sample.name / sample.name
    if program.is_file() and done.returncode == 0:
        return None
    errors = [line for line in (done.stdout + done.stderr).splitlines() if re.search(r"error|No rule", line, re.I)]
    return (errors or ["it does not build with this toolkit"])[0][:160]


def runs_of(sample, arguments):
    entry = arguments.get(sample.name, {})
    if "runs" in entry:
        return [run.get("args", []) for run in entry["runs"]]
    return [entry.get("args", [])]


def verdict(code, output):
    if code == WAIVED:
        return "waived", last_line(output)
    failures = [line for line in output.splitlines() if FAILURE.search(line) and not HARMLESS.search(line)]
    refused = REFUSED.search(output)
    if refused and (code or failures):
        return "refused", refused[0]
    if code:
        return "fail", (failures or [last_line(output)])[0]
    if failures:
        return "fail", failures[0]
    return "pass", ""


def last_line(output):
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"


def copy_data(sample, folder):
    """Data files are looked for in the folder that the program is started in. Some samples write files beside them."""
    if (sample.folder / "data").is_dir() and not (folder / "data").exists():
        shutil.copytree(sample.folder / "data", folder / "data")


def column_of(runtime, options):
    """The result's name in the JSON: its runtime, its back end where the table has several, and its code unless it is both."""
    column = f"{runtime}-{options.backend}" if options.vm or options.backend != "cpu" else runtime
    return column if options.code == "both" else f"{column}-{options.code}"


def late(options):
    return "time", f"not done after {options.timeout} s"


def prefix_of(options):
    """The words that a sample's command follows."""
    if options.prefix is not None:
        return options.prefix.split()
    return [] if options.backend == "native" else [options.vcuda, "run", "--backend", options.backend, "--"]


def run_sample(sample, tree, options, arguments):
    folder = tree / sample.name
    start = time.monotonic()
    result, reason, log = "pass", "", ""
    copy_data(sample, folder)
    for extra in runs_of(sample, arguments):
        command = [*prefix_of(options), f"./{sample.name}", *extra]
        try:
            # several samples end by closing descriptors that they share with their children: no pipe, a file
            path = folder / "vcuda-run.log"
            with open(path, "w") as output:
                process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                           start_new_session=True)
                try:
                    code = process.wait(options.timeout)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, 9)
                    process.wait()
                    code = None
            text = path.read_text(errors="replace")
        except OSError as error:
            code, text = 1, str(error)
        log += f"$ {' '.join(map(str, command))}\n{text}\n"
        result, reason = late(options) if code is None else verdict(code, text)
        if result != "pass":
            break
    (folder / "log.txt").write_text(log)
    return {"result": result, "reason": reason.strip()[:160], "seconds": round(time.monotonic() - start, 1)}


def is_installed(need):
    """Whether it is a library that the toolkit has."""
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    name = need.removeprefix("NVIDIA's ")
    folder = pathlib.Path(nvcc).resolve().parents[1] / "lib64"
    return any((folder / f"lib{name}.{end}").is_file() for end in ("so", "a"))


def excluded(sample, arguments, options):
    entry = arguments.get(sample.name, {})
    if entry.get("min_gpus", 1) > options.gpus:
        return "more than one GPU"
    if entry.get("skip") or sample.name in INTERACTIVE:
        return ", ".join(sample.needs) or "skipped by the samples' own test_args.json"
    missing = [need for need in sample.needs if need != "OpenGL" and not (options.libraries and is_installed(need))]
    return ", ".join(missing) if missing else None


def build_all(samples, trees, options, toolchain):
    """Why samples could not be built, by (name, runtime); those that were are not in it."""
    pairs = [(sample, runtime) for sample in samples for runtime in trees]

    def one(pair):
        sample, runtime = pair
        start = time.monotonic()
        why = build_sample(sample, trees[runtime], 1, options.built, toolchain)
        if options.build_only:
            print(f"{sample.name:34} {runtime:7} {why or 'built'}, {time.monotonic() - start:.1f} s", flush=True)
        return (sample.name, runtime), why

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        return {key: why for key, why in pool.map(one, pairs) if why}


def one(sample, trees, options, arguments, unbuilt):
    """The result for each runtime."""
    results = {}
    for runtime, tree in trees.items():
        why = unbuilt.get((sample.name, runtime))
        if why:
            result = {"result": "not built", "reason": why, "seconds": 0}
        else:
            result = run_sample(sample, tree, options, arguments)
        results[column_of(runtime, options)] = result
        report(sample, column_of(runtime, options), result)
    return sample.name, {"needs": sample.needs, **results}


def report(sample, column, result):
    print(f"{sample.name:34} {column:13} {result['result']:9} {result['seconds']:6.1f} s  {result['reason']}", flush=True)


def in_vm(samples, trees, options, arguments, unbuilt):
    """Yields a sample's name and its result, as one() has them, when all of its runs in a VM are over."""
    for runtime, tree in trees.items():
        column, jobs, result = column_of(runtime, options), [], {}
        for sample in samples:
            folder = tree / sample.name
            why = unbuilt.get((sample.name, runtime))
            result[sample.name] = {"result": "not built" if why else "pass", "reason": why or "", "seconds": 0}
            copy_data(sample, folder)
            jobs += [] if why else [guest.Job(sample, folder, [f"./{sample.name}", *extra]) for extra in runs_of(sample, arguments)]
        last = {job.sample.name: job for job in jobs}
        for job in guest.run_all(options.vcuda, options.backend, options.memory, jobs, options.timeout):
            entry = result[job.sample.name]
            with open(job.folder / "log-vm.txt", "a" if entry["seconds"] else "w") as log:
                log.write(f"$ {' '.join(job.command)}\n{job.output}\n{job.host}\n")
            entry["seconds"] = round(entry["seconds"] + job.seconds, 1)
            if entry["result"] == "pass":
                entry["result"], why = late(options) if job.code is None else verdict(job.code, job.host + job.output)
                entry["reason"] = why.strip()[:160]
            if job is last[job.sample.name]:
                report(job.sample, column, entry)
                yield job.sample.name, {"needs": job.sample.needs, column: entry}
        yield from ((s.name, {"needs": s.needs, column: result[s.name]}) for s in samples if s.name not in last)


def table(results, skipped):
    """Markdown: a line a sample, then those left out, by reason."""
    def cell(entry):
        if not entry:
            return "–"
        text = f"**{entry['result']}**" if entry["result"] in ("fail", "time") else entry["result"]
        return f"{text}, {entry['seconds']:.1f} s" if entry["result"] in ("pass", "fail", "refused") else text

    columns = sorted({key for entry in results.values() for key in entry if key != "needs"}, key=lambda key: (key.partition("-")[2], key))
    titles = {key: " cudart, ".join(key.split("-")) if "-" in key else f"{key} cudart" for key in columns}
    lines = [f"| sample | {' | '.join(titles.values())} | remark |", "|---" * (len(columns) + 2) + "|"]
    for name in sorted(results, key=str.lower):
        entry = results[name]
        remarks = ["needs OpenGL to be built; run without a window"] if "OpenGL" in entry.get("needs", []) else []
        remarks += sorted({entry[key]["reason"] for key in columns if entry.get(key) and entry[key]["reason"]})
        remark = "; ".join(remarks).replace("|", "\\|")
        lines.append(f"| {name} | {' | '.join(cell(entry.get(key)) for key in columns)} | {remark} |")
    count = {key: sum(entry.get(key, {}).get("result") == "pass" for entry in results.values()) for key in columns}
    reasons = {}
    for name, reason in skipped.items():
        reasons.setdefault(reason, []).append(name)
    head = f"{len(results)} samples tried; passed: {', '.join(f'{count[key]} ({titles[key]})' for key in columns)}.\n\n"
    tail = "\n\nNot tried, by what they need:\n\n" + "\n".join(
        f"* {reason}: {', '.join(sorted(names, key=str.lower))}" for reason, names in sorted(reasons.items()))
    return head + "\n".join(lines) + (tail if skipped else "") + "\n"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--checkout", type=pathlib.Path, required=True, help="a checkout of NVIDIA/cuda-samples")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where to build them")
    parser.add_argument("--vcuda", type=os.path.abspath, default=str(pathlib.Path(__file__).resolve().parents[2] / "build/cli/vcuda"))
    parser.add_argument("--backend", default="cpu", help="cpu or cuda under vcuda run, or native")
    parser.add_argument("--prefix", help="a command instead of vcuda run")
    parser.add_argument("--nvcc", action="store_true", help="build with nvcc alone, without CMake")
    parser.add_argument("--arch", default="lowest", help="with --nvcc: architectures to build for (default: the lowest that a sample names)")
    parser.add_argument("--code", choices=nvcc_build.FORMS, default="both",
                        help="with --nvcc: PTX, machine code (sass) or both (default); the first two need a --build of their own")
    parser.add_argument("--sysroot", type=pathlib.Path, help="with --nvcc: a folder with usr/include and usr/lib of OpenGL and GLUT")
    parser.add_argument("--vm", action="store_true", help="in a VM")
    parser.add_argument("--memory", default="4G", help="the VM's")
    parser.add_argument("--runtime", choices=["shared", "static", "both"], default="both")
    parser.add_argument("--timeout", type=int, default=300, help="seconds a run")
    parser.add_argument("--jobs", "-j", type=int, default=1, help="samples that are built at a time")
    parser.add_argument("--run-jobs", type=int, default=1, help="samples that run at a time")
    parser.add_argument("--libraries", action="store_true", help="also samples of NVIDIA's libraries, which are installed")
    parser.add_argument("--gpus", type=int, default=1, help="how many the machine has")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--built", action="store_true", help="run what --build holds, and build nothing")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="only these samples")
    options = parser.parse_args()
    if options.code != "both" and not (options.nvcc or options.built):
        parser.error("--code needs --nvcc")
    return options


def prepare(samples, options, toolchain):
    """The folder of each runtime."""
    runtimes = ["shared", "static"] if options.runtime == "both" else [options.runtime]
    if options.built or toolchain:
        return {runtime: options.build / runtime for runtime in runtimes}
    return {runtime: configure(samples, options.build, runtime) for runtime in runtimes}


def counts(results, columns):
    """A line for each column, with how many samples had which result."""
    lines = []
    for column in columns:
        found = [entry[column]["result"] for entry in results.values() if column in entry]
        kinds = [kind for kind in KINDS if kind in found]
        lines.append(f"{len(found)} samples, {column}: " + ", ".join(f"{found.count(kind)} {kind}" for kind in kinds))
    return "\n".join(lines)


def main():
    options = parse_arguments()
    options.build = options.build.resolve()
    arguments = json.loads((options.checkout / "test_args.json").read_text())
    samples = find_samples(options.checkout.resolve())
    skipped = {s.name: excluded(s, arguments, options) for s in samples if excluded(s, arguments, options)}
    samples = [s for s in samples if s.name not in skipped]
    try:
        toolchain = nvcc_build.Toolchain(options.arch, options.sysroot, options.code) if options.nvcc and not options.built else None
    except nvcc_build.Failed as error:
        sys.exit(f"samples.py: {error}")
    trees = prepare(samples, options, toolchain)
    names = options.names or (VM if options.vm else [])
    samples = [s for s in samples if not names or s.name in names]
    unbuilt = build_all(samples, trees, options, toolchain)
    if options.build_only:
        return 1 if unbuilt else 0
    results = {}
    if options.json and options.json.is_file():
        results = json.loads(options.json.read_text())
    with concurrent.futures.ThreadPoolExecutor(options.run_jobs) as pool:
        runs = (in_vm(samples, trees, options, arguments, unbuilt) if options.vm
                else pool.map(lambda s: one(s, trees, options, arguments, unbuilt), samples))
        for name, result in runs:
            results[name] = {**results.get(name, {}), **result}
            if options.json:
                options.json.write_text(json.dumps(results, indent=1) + "\n")
    if options.table:
        options.table.write_text(table(results, {} if options.vm else skipped))
    for name, reason in ({} if options.names or options.vm else skipped).items():
        print(f"{name:34} {'':13} left out            {reason}")
    columns = [column_of(runtime, options) for runtime in trees]
    print(counts(results, columns))
    return 0 if all(e.get(c, {}).get("result") == "pass" for e in results.values() for c in columns) else 1


if __name__ == "__main__":
    sys.exit(main())
