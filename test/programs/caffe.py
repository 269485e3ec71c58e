#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds Caffe from a checkout without cuDNN, runs its own tests, and trains LeNet on the CPU and on the GPU.

    caffe.py --checkout DIR --build DIR [--vcuda PATH] [--backend cpu] [--vm] [--only build|tests|train]... [--filter F]

Nothing is fetched: the checkout is BVLC/caffe, and Debian's packages are installed before (doc/reference/coverage.md names them).
It is copied and changed in the build folder, since it does not compile with CUDA 13. The images are made up, in MNIST's
format and of its size; Caffe's own program makes its database of them, and the net and the solver are those of its
example. Both modes start from the same weights, so that they have the same losses but for what adding in another order
makes. The result counts the tests of a GPU (names with /2, /3 or GPU). The tests of the CPU show whether a failure is
Caffe's own.
"""
import argparse
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import time

import guest

MAKEFILE_CONFIG = """USE_OPENCV := 0
CUDA_DIR := {cuda}
CUDA_ARCH := -gencode arch=compute_75,code=compute_75
BLAS := open
INCLUDE_DIRS := /usr/include/hdf5/serial
LIBRARY_DIRS := /usr/lib/x86_64-linux-gnu/hdf5/serial
CXXFLAGS := -std=c++17
NVCCFLAGS := -std=c++17 -cudart shared -static-global-template-stub=false -device-entity-has-hidden-visibility=false
BUILD_DIR := build
DISTRIBUTE_DIR := distribute
Q ?= @
"""

# (files, what is there, what takes its place): what CUDA 13's headers and today's protobuf do not have any more.
CHANGES = [
    ("src/caffe/common.cpp src/caffe/test/test_platform.cpp", r"\b\w+\.(clockRate|kernelExecTimeoutEnabled)\b", "0"),
    ("src/caffe/common.cpp src/caffe/test/test_platform.cpp", r"\.deviceOverlap\b", ".asyncEngineCount"),
    ("src/caffe/util/io.cpp", r"(SetTotalBytesLimit\(\w+), \d+\)", r"\1)"),
]

TESTS = ".build_release/test/test_all.testbin"
CAFFE = ".build_release/tools/caffe.bin"
CONVERT = ".build_release/examples/mnist/convert_mnist_data.bin"

SOLVER = """net: "{net}"
test_iter: 10
test_interval: {iterations}
test_initialization: false
base_lr: 0.01
momentum: 0.9
weight_decay: 0.0005
lr_policy: "inv"
gamma: 0.0001
power: 0.75
display: 1
max_iter: {iterations}
snapshot_after_train: false
random_seed: 1
solver_mode: {mode}
"""


def change(tree):
    for files, old, new in CHANGES:
        for name in files.split():
            path = tree / name
            text, count = re.subn(old, new, path.read_text())
            if not count:
                sys.exit(f"caffe.py: {name} has nothing that looks like {old}: another version of Caffe?")
            path.write_text(text)


def build(options):
    tree = options.build / "caffe"
    if not tree.is_dir():
        copy = options.build / "caffe.part"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(options.checkout, copy, ignore=shutil.ignore_patterns(".git"))
        change(copy)
        nvcc = shutil.which("nvcc") or sys.exit("caffe.py: nvcc is not on PATH")
        (copy / "Makefile.config").write_text(MAKEFILE_CONFIG.format(cuda=pathlib.Path(nvcc).resolve().parents[1]))
        copy.rename(tree)
    if "build" in options.only:
        with open(options.build / "make.log", "w", encoding="utf-8") as log:
            made = subprocess.run(["make", "-C", tree, f"-j{options.jobs}", CAFFE, CONVERT, TESTS], stdout=log, stderr=log, check=False)
        if made.returncode:
            sys.exit(f"caffe.py: it does not build: {options.build}/make.log")
    return tree


def command(options, *words):
    return [os.path.abspath(options.vcuda), "run", "--backend", options.backend, "--", *map(str, words)]


def run(options, tree, words, timeout, in_vm):
    """Exit status (None: not done in time), output and seconds."""
    if in_vm:
        job, = guest.run_all(options.vcuda, options.backend, "6G", [guest.Job("caffe", tree, list(map(str, words)))], timeout)
        return job.code, job.output, job.seconds
    start = time.monotonic()
    try:
        done = subprocess.run(command(options, *words), cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=timeout, check=False)
        return done.returncode, done.stdout, time.monotonic() - start
    except subprocess.TimeoutExpired as late:
        return None, (late.stdout or b"").decode(errors="replace"), timeout


def libraries(options, tree):
    """Says which CUDA libraries the tests are loaded with."""
    _, output, _ = run(options, tree, ["ldd", tree / TESTS], 300, options.vm)
    for soname, path in re.findall(r"(libcu(?:da|dart|blas|rand)\.so\.\d+) => (\S+)", output):
        print(f"{soname}: {path}")


def is_ours(name):
    return bool(re.search(r"/[23]\.", name)) or "GPU" in name


def names(options, tree):
    listed = subprocess.run(command(options, tree / TESTS, f"--gtest_filter={options.filter}", "--gtest_list_tests"), cwd=tree,
                            stdout=subprocess.PIPE, text=True, timeout=300, check=True).stdout
    suite, found = "", []
    for line in listed.splitlines():
        if re.match(r"\S+\.(\s|$)", line):
            suite = line.split()[0]
        elif line.startswith("  "):
            found.append(suite + line.split()[0])
    return found


def tests(options, tree):
    """Runs all of them in one process, and the rest in another one if that ends early. Returns whether enough pass."""
    left, passed, failed, seconds = names(options, tree), {}, {}, 0.0
    total = len(left)
    if not total:
        sys.exit(f"caffe.py: no test is called {options.filter}")
    while left:
        code, output, took = run(options, tree, [TESTS, "--gtest_filter=" + ":".join(left)], options.timeout, options.vm)
        seconds += took
        passed.update((name, float(ms)) for name, ms in re.findall(r"^\[       OK \] (\S+) \((\d+) ms\)", output, re.M))
        wrong = re.findall(r"^\[  FAILED  \] (\S+) \(\d+ ms\)", output, re.M)
        failed.update(dict.fromkeys(wrong, "failed"))
        begun = [name for name in re.findall(r"^\[ RUN      \] (\S+)", output, re.M) if name not in passed and name not in failed]
        # the test that ended a process is not run again
        last = begun[-1] if begun else left[0]
        before, left = len(left), [name for name in left if name not in passed and name not in failed]
        if left:
            failed[last] = f"ended with {code}" if code is not None else "not done in time"
            left = [name for name in left if name != last]
        (options.build / "tests.log").open("a" if before < total else "w", encoding="utf-8").write(output)
    for name, why in sorted(failed.items()):
        twin = re.sub(r"/([23])\.", lambda match: f"/{int(match[1]) - 2}.", name)
        state = "passes" if twin in passed else "fails, too" if twin in failed else "was not run"
        other = "" if twin == name else f"; its CPU twin {state}"
        print(f"  {name}: {why}{other}")
    slow = sorted(passed.items(), key=lambda item: -item[1])[:3]
    print(f"slowest: {', '.join(f'{name} {ms / 1000:.1f} s' for name, ms in slow)}")
    gpu = [name for name in [*passed, *failed] if is_ours(name)]
    good = sum(name in passed for name in gpu)
    print(f"tests: {len(passed)} of {total} pass in {seconds:.0f} s; of a GPU's {good} of {len(gpu)}")
    return good >= 0.98 * len(gpu)


def make_images(folder, kind, count, seed):
    """For each of ten classes a picture of blots, moved and with noise, in the format of MNIST's files."""
    shapes, source = random.Random(0), random.Random(seed)
    blots = [[(shapes.uniform(6, 22), shapes.uniform(6, 22)) for _ in range(5)] for _ in range(10)]
    labels = bytes(i % 10 for i in range(count))
    with open(folder / f"{kind}-images", "wb") as out:
        out.write(struct.pack(">IIII", 2051, count, 28, 28))
        for label in labels:
            right, down = source.uniform(-2, 2), source.uniform(-2, 2)
            for y in range(28):
                for x in range(28):
                    ink = max(0.0, 1 - min((x - a - right) ** 2 + (y - b - down) ** 2 for a, b in blots[label]) / 9)
                    out.write(bytes([int(200 * ink + 55 * source.random())]))
    (folder / f"{kind}-labels").write_bytes(struct.pack(">II", 2049, count) + labels)


def make_data(options, tree):
    folder = options.build / "data"
    if folder.is_dir():
        return folder
    part = options.build / "data.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for kind, count, seed in (("train", 6400, 1), ("test", 1000, 2)):
        make_images(part, kind, count, seed)
        # The program does not use a GPU, but it is linked with CUDA's libraries.
        subprocess.run(command(options, tree / CONVERT, part / f"{kind}-images", part / f"{kind}-labels", part / f"mnist_{kind}_lmdb",
                               "--backend=lmdb"), check=True, timeout=300)
    part.rename(folder)
    return folder


def train(options, tree):
    """Whether the losses of both modes are the same within what rounding makes."""
    folder, losses = make_data(options, tree), {}
    net = (tree / "examples/mnist/lenet_train_test.prototxt").read_text().replace("examples/mnist/mnist_", f"{folder}/mnist_")
    (options.build / "net.prototxt").write_text(net)
    for mode in ("CPU", "GPU"):
        solver = options.build / f"solver-{mode}.prototxt"
        solver.write_text(SOLVER.format(net=options.build / "net.prototxt", mode=mode, iterations=options.iterations))
        # An emulated processor would take minutes for what it computes itself.
        code, output, seconds = run(options, tree, [CAFFE, "train", f"--solver={solver}"], options.timeout, options.vm and mode == "GPU")
        (options.build / f"train-{mode}.log").write_text(output)
        losses[mode] = [float(word) for word in re.findall(r"Iteration \d+ .*, loss = (\S+)", output)]
        tested = re.findall(r"Test net output #\d: (\w+) = (\S+)", output)
        print(f"train {mode}: {len(losses[mode])} iterations in {seconds:.1f} s, loss {losses[mode][0] if losses[mode] else '?'} to "
              f"{losses[mode][-1] if losses[mode] else '?'}; {', '.join(f'{a} {b}' for a, b in tested)}")
        if code or len(losses[mode]) < options.iterations:
            print(f"  ended with {code}: {options.build}/train-{mode}.log")
            return False
    apart = max(abs(a - b) / max(abs(a), 1e-3) for a, b in zip(losses["CPU"], losses["GPU"]))
    print(f"train: the losses of the two are {apart:.1e} apart at most, relative to the loss")
    return apart < 1e-3 and losses["GPU"][-1] < losses["GPU"][0]


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--vcuda", default=str(here.parent.parent / "build/cli/vcuda"))
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--vm", action="store_true", help="run the tests and the training on the GPU in a VM")
    parser.add_argument("--only", action="append", choices=["build", "tests", "train"])
    parser.add_argument("--filter", default="*", help="which tests, as gtest has it")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=int, default=3600, help="seconds that a process may run")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.build.mkdir(parents=True, exist_ok=True)
    options.only = options.only or ["build", "tests", "train"]
    tree = build(options)
    libraries(options, tree)
    good = [step(options, tree) for name, step in (("tests", tests), ("train", train)) if name in options.only]
    sys.exit(0 if all(good) else 1)


main()
