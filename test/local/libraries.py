# SPDX-License-Identifier: Apache-2.0
"""The mathematical libraries: their results, what is wrong with calls, and that what is queued waits for nothing."""

import os

from harness import BACKEND, build, check, vcuda


def check_queued(r, word, counts):
    """For the calls with `word` in their name: the number that waited. Those of None only queued, 1000 of them; and
    once memory was made for the fences of a stream that is far behind (guest/libcuda/stream/throttle.c)."""
    if BACKEND == "cuda" and "VCUDA_SOCKET" in os.environ:  # a GPU that is the software GPU falls behind, which has to be waited for
        return
    # A row: share, six times, calls, errors, waits, queued, name.
    rows = {line.split()[-1]: [int(n) for n in line.split()[7:11]]
            for line in r.stderr.split("What the worker ran")[0].splitlines() if word in line}
    check(r.returncode == 0 and rows.keys() == counts.keys(), r.stderr)
    for name, count in counts.items():
        calls, errors, waits, queued = rows[name]
        right = (calls, waits, queued) == (count, count, 0) if count else calls == 1000 and waits <= 2 and queued >= 1000
        check(right and errors == 0, r.stderr)


def blas():
    """cuBLAS against plain C, in each of its versions."""
    for version in ("11", "12", "13"):
        r = vcuda("run", "--backend", BACKEND, "--", build("test/local/blas"), f"libcublas.so.{version}", "12" if version == "13" else "2")
        check(r.returncode == 0 and r.stdout == "blas: passed\n", f"{version}: {r.returncode}\n{r.stdout}{r.stderr}")
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/blas-v1"))
    check(r.returncode == 0 and r.stdout == "blas-v1: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")


def blas_errors():
    """Errors of calls of cuBLAS; queued calls do not wait for their end."""
    # A GPU finds a stray access by the pages of its memory only.
    for part in ("settings", "invalid", "stray", "hostile", "stream") if BACKEND == "cpu" else ("settings", "invalid", "stream"):
        r = vcuda("run", "--backend", BACKEND, "--", build("test/local/blas-errors"), part)
        check(r.returncode == 0 and r.stdout == f"{part}: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")
        check(r.stderr.count("cublasUint8gemmBias is not supported") == (part == "invalid"), r.stderr)
    r = vcuda("run", "--backend", BACKEND, "--stats", "--", build("test/local/blas-errors"), "queued")
    check_queued(r, "Blas", {"cuVcudaBlas": None, "cuVcudaBlasValue": 2})


def blas_lt():
    """cuBLASLt against plain C, in each of its versions; what is wrong; that what is queued does not wait for its end."""
    for version in ("11", "12", "13"):
        r = vcuda("run", "--backend", BACKEND, "--", build("test/local/blas-lt"), f"libcublasLt.so.{version}", "12" if version == "13" else "2")
        check(r.returncode == 0 and r.stdout == "blas-lt: passed\n", f"{version}: {r.returncode}\n{r.stdout}{r.stderr}")
        print("".join(f"{line}\n" for line in r.stderr.splitlines() if line.startswith("not there")), end="")
    for part in ("invalid", "stray", "hostile") if BACKEND == "cpu" else ():
        r = vcuda("run", "--backend", BACKEND, "--", build("test/local/blas-lt-errors"), part)
        check(r.returncode == 0 and r.stdout in (f"{part}: passed\n", f"cuBLASLt: cublasLtMatmul: status 7\n{part}: passed\n"), f"{r.returncode}\n{r.stdout}{r.stderr}")
        check(r.stderr.count("cublasLtEmulationDescCreate is not supported") == (part == "invalid"), r.stderr)
    r = vcuda("run", "--backend", BACKEND, "--stats", "--", build("test/local/blas-lt-errors"), "queued")
    check_queued(r, "Matmul", {"cuVcudaMatmul": None, "cuVcudaMatmulAsk": 2})


def rand():
    """cuRAND against what NVIDIA's gave, on the host and on the device; what is wrong; that what is queued waits for nothing."""
    expect = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rand.expect")
    for where in ("host", "device"):
        r = vcuda("run", "--backend", BACKEND, "--", build("test/local/rand"), "libcurand.so.10", where, "check", expect)
        check(r.returncode == 0 and r.stdout == "rand: passed\n", f"{where}: {r.returncode}\n{r.stdout}{r.stderr}")
    for part in ("invalid", "stray", "hostile") if BACKEND == "cpu" else ("invalid",):
        r = vcuda("run", "--backend", BACKEND, "--", build("test/local/rand-errors"), part)
        check(r.returncode == 0 and r.stdout == f"{part}: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")
    # as softgpu/math/scrambles.c looks for it
    folders = "/usr/local/cuda/lib64", "/opt/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64"
    theirs = any(os.path.exists(f"{folder}/libcurand.so.10") for folder in folders)
    for part in ("even", "tables", "device", "settings") + (("nvidia" if theirs else "own",) if BACKEND == "cpu" else ()):
        r = vcuda("run", "--backend", BACKEND, "--", build("test/local/rand-scrambled"), part)
        check(r.returncode == 0 and r.stdout == f"{part}: passed\n", f"{part}: {r.returncode}\n{r.stdout}{r.stderr}")
        check(part != "own" or "scrambled Sobol" in r.stderr, r.stderr)
    r = vcuda("run", "--backend", BACKEND, "--", build("test/local/rand-discrete"), "libcurand.so.10")
    check(r.returncode == 0 and r.stdout == "rand-discrete: passed\n", f"{r.returncode}\n{r.stdout}{r.stderr}")
    r = vcuda("run", "--backend", BACKEND, "--stats", "--", build("test/local/rand-errors"), "queued")
    check_queued(r, "Random", {"cuVcudaRandom": None, "cuVcudaRandomCreate": 1, "cuVcudaRandomDestroy": 1})
