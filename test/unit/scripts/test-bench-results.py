#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The results of bench/compile/run.py and softgpu/bench/softgpu.py have the format of bench/results: test-bench-results.py"""
import importlib.util
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
MACHINE = {"cpu": "a processor", "cores": 2, "commit": None, "backend": "cpu", "date": "2026-05-04"}
sys.path.insert(0, str(ROOT / "bench"))

import schema


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def written(result):
    """The result as a file has it."""
    with tempfile.NamedTemporaryFile() as file:
        schema.write(file.name, result)
        found = json.load(open(file.name, encoding="utf-8"))
    assert found == result and not schema.mistakes(found), found
    return {(case["group"], case["name"]): case for case in found["cases"]}


def compile_results():
    run = load(ROOT / "bench/compile/run.py")
    rows = [{"program": name, "builds": [{"build": build, "wall": 1, "processor": 2, "runs": [(1.0 + at, 2.0, 30.0), (1.5, 2.5, 31.0)]}
                                         for at, build in enumerate(("old", "new"))]} for name in ("small", "many")]
    result = run.result(rows, MACHINE, "run.py old new")
    assert result["sides"] == ["before", "after"] and result["about"] == {"before": "old", "after": "new"}, result
    cases = written(result)
    assert len(cases) == 6 and cases["memory", "many"]["after"]["samples"] == [30.0, 31.0], cases
    assert cases["wall time", "many"]["after"]["samples"] == [2.0, 1.5] and cases["processor time", "small"]["before"]["samples"] == [2.0, 2.5], cases
    alone = [{**row, "builds": row["builds"][:1]} for row in rows]
    assert run.result(alone, MACHINE, "run.py old")["sides"] == ["build"]
    written(run.result(alone, MACHINE, "run.py old"))


def softgpu_results():
    softgpu = load(ROOT / "softgpu/bench/softgpu.py")
    times = {"vcuda": softgpu.summary([3000.0, 1000.0]), "openmp": softgpu.summary([4000.0]), "pocl": None}
    rows = [{"name": "triad", "gigabytes": 0.5, "gflops": 1, "times": times}, {"name": "scan", "gigabytes": 1, "gflops": 0, "times": times},
            {"name": "none", "gigabytes": 1, "gflops": 0, "times": {"vcuda": None}}]
    limits = [("empty", "us", "vcuda", softgpu.answered("1.5")), ("fma", "GFLOP/s", "openmp", softgpu.answered(None))]
    result = softgpu.result(rows, limits, ["vcuda", "openmp", "pocl"], MACHINE, "softgpu.py build")
    assert result["sides"] == ["openmp", "pocl", "vcuda"], result
    cases = written(result)
    assert list(cases) == [("kernels", "triad"), ("kernels", "scan"), ("rates", "triad"), ("launches", "empty")], cases
    assert cases["kernels", "scan"]["vcuda"]["samples"] == [3.0, 1.0] and "pocl" not in cases["kernels", "scan"], cases
    assert cases["rates", "triad"]["vcuda"]["median"] == 250, cases


def refused():
    """A result with a mistake is not written."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            schema.write(f"{folder}/result.json", {"format": schema.FORMAT})
        except ValueError as why:
            assert "has no 'benchmark'" in str(why) and not list(pathlib.Path(folder).iterdir()), why
        else:
            raise AssertionError("a result without cases was written")


compile_results()
softgpu_results()
refused()
print("ok")
