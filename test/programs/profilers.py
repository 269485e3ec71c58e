#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profilers of programs see the GPU: vcuda run -- python3 profilers.py torch|jax

torch: PyTorch's wheel as it is, with Triton; jax: as doc/reference/coverage.md says. On the software GPU both need our ptxas.
"""
import collections
import glob
import gzip
import json
import sys
import tempfile


def check(condition, text):
    if not condition:
        sys.exit(f"FAILED: {text}")


def torch():
    import torch as t
    import triton
    import triton.language as tl
    from torch.profiler import ProfilerActivity, profile

    # Triton reads a kernel's text from a file, and tl from the module.
    globals()["tl"] = tl

    @triton.jit
    def add(x, y, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)

    n, launches = 10000, 5
    host = t.arange(n, dtype=t.float32).pin_memory()
    x, out = host.to("cuda"), t.empty(n, device="cuda")
    fused = t.compile(lambda a, b: t.relu(a * 2 + b) * 3)
    add[(10,)](x, x, out, n, BLOCK=1024)
    fused(x, x)
    t.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as p:
        for _ in range(launches):
            add[(10,)](x, x, out, n, BLOCK=1024)
        result = fused(x, x)
        x.copy_(host, non_blocking=True)
        out.zero_()
        t.cuda.synchronize()
    check(bool((result.cpu() == t.relu(host * 3) * 3).all()), "the result")
    with tempfile.TemporaryDirectory() as folder:
        p.export_chrome_trace(f"{folder}/trace.json")
        with open(f"{folder}/trace.json", encoding="utf-8") as file:
            events = [e for e in json.load(file)["traceEvents"] if e.get("ph") == "X"]
    kinds = collections.defaultdict(list)
    for e in events:
        kinds[e.get("cat")].append(e)
    names = collections.Counter(e["name"] for e in kinds["kernel"])
    check(names["add"] == launches and len(names) == 2, f"kernels: {names}")
    check(all(e["args"]["grid"] == [10, 1, 1] for e in kinds["kernel"] if e["name"] == "add"), "grids")
    check([(e["name"], e["args"]["bytes"]) for e in kinds["gpu_memcpy"]] == [("Memcpy HtoD (Pinned -> Device)", 4 * n)], kinds["gpu_memcpy"])
    check([e["args"]["bytes"] for e in kinds["gpu_memset"]] == [4 * n], kinds["gpu_memset"])
    calls = {e["args"]["correlation"]: e for e in kinds["cuda_runtime"] + kinds["cuda_driver"]}
    for e in kinds["kernel"] + kinds["gpu_memcpy"] + kinds["gpu_memset"]:
        call = calls.get(e["args"]["correlation"])
        check(call and call["ts"] <= e["ts"] + e["dur"], f"no call for {e}")
    # The work of PyTorch's own operators on the device is linked with them.
    operators = {e["args"].get("External id"): e["name"] for e in kinds["cpu_op"]}
    check(operators.get(kinds["gpu_memcpy"][0]["args"]["External id"]) == "aten::copy_", "the copy's operator")
    print(f"torch {t.__version__}: {sum(names.values())} kernels, {len(kinds['cuda_runtime'])} calls of the runtime, {len(kinds['cuda_driver'])} of the driver")


def jax():
    import jax as j
    f = j.jit(lambda x: j.numpy.sin(x) * 2 + j.numpy.cos(x))
    x = j.numpy.arange(100000, dtype=j.numpy.float32)
    check(j.devices()[0].platform == "gpu", j.devices())
    f(x).block_until_ready()
    with tempfile.TemporaryDirectory() as folder:
        with j.profiler.trace(folder):
            for _ in range(4):
                result = f(x).block_until_ready()
            j.device_get(result)
        path, = glob.glob(f"{folder}/**/*.json.gz", recursive=True)
        with gzip.open(path) as file:
            events = json.load(file)["traceEvents"]
    gpus = {e["pid"] for e in events if e.get("name") == "process_name" and "GPU" in e["args"]["name"]}
    work = collections.Counter(e["name"] for e in events if e.get("ph") == "X" and e["pid"] in gpus)
    check(sum(n for name, n in work.items() if "Memcpy" not in name) == 4 and work["MemcpyD2H"] == 1, f"work: {work}")
    print(f"jax {j.__version__}: {dict(work)}")


if len(sys.argv) != 2 or sys.argv[1] not in ("torch", "jax"):
    sys.exit(__doc__)
{"torch": torch, "jax": jax}[sys.argv[1]]()
