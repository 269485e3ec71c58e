#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators of stock PyTorch on the device and on the processor: do results and gradients agree?

usage: vcuda run -- operators.py [--every N] [--samples N] [--limit SECONDS] [--chunk N] RESULTS
       operators.py --table RESULTS

Takes every Nth (default: 6) of the triples (operator, type, forward or backward) of PyTorch's own list of operators
(op_db) that the list says CUDA has. Inputs are made on the processor with a seed and copied. Up to --samples of the
list's sample inputs of a triple are used, first, last and evenly between them. RESULTS gets a line of JSON for each
triple; triples that it has already are not run again. One process runs --chunk triples (default: 40), each of which may
take --limit seconds (default: 120). --table prints the counts, and the triples that do not agree.

Results of a triple:
  agrees      within the tolerances of torch.testing for the type, or the greater ones that the list has for CUDA
  agrees-1e-3 within 0.001, as PyTorch's own comparison of CUDA with the processor has it (test_compare_cpu)
  agrees-wider of a half: from the result in the wider type at most twice as far as the processor's, and its precision
  random      the processor gives another result for another seed; shapes and types agree
  differs     none of these
  fails       the device refuses what the processor computes
  no-sample   the list has no sample
  no-result   the processor refuses the sample too, also in a wider type where the type is a half
  ends, late  the process died, or the limit passed
Needs: torch numpy expecttest hypothesis.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import unittest.mock
import warnings

# Types that the processor may refuse, and what it computes with in their place.
HALVES = {"float16": "float32", "bfloat16": "float32", "complex32": "complex64"}


class NoResult(Exception):
    """The processor does not compute it."""


# ---- the list ----

def all_triples():
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    triples = []
    for number, op in enumerate(op_db):
        forward = op.supported_dtypes("cuda")
        backward = {t for t in op.supported_backward_dtypes("cuda") if t.is_floating_point or t.is_complex}
        directions = {"forward": forward, "backward": backward & forward if op.supports_autograd else set()}
        for direction, types in directions.items():
            triples += [(number, op, str(t).removeprefix("torch."), direction) for t in types if isinstance(t, torch.dtype)]
    return sorted(triples, key=lambda triple: (triple[0], triple[2], triple[3]))


def title(triple):
    _, op, kind, direction = triple
    return {"operator": op.name + ("." + op.variant_test_name if op.variant_test_name else ""), "type": kind, "direction": direction}


def tolerances(op, dtype):
    """(relative, absolute): the type's, or the list's if these are greater."""
    import torch
    from torch.testing._internal.common_device_type import toleranceOverride
    wanted = [torch.testing._comparison.default_tolerances(dtype)]
    for entry in op.decorators or ():
        if getattr(entry, "cls_name", None) not in (None, "TestCommon") or getattr(entry, "device_type", None) not in (None, "cuda"):
            continue
        for decorator in getattr(entry, "decorators", [entry]):
            if isinstance(decorator, toleranceOverride) and dtype in decorator.d:
                wanted.append((decorator.d[dtype].rtol, decorator.d[dtype].atol))
    return tuple(max(values) for values in zip(*wanted))


# ---- one triple ----

def seed(number):
    import numpy
    import torch
    torch.manual_seed(number)
    numpy.random.seed(number)
    random.seed(number)


SEEDS = (2, 3, 4, 5)


def moved(sample, device, is_wider=False):
    """A copy of its own on the device, with the wider types if that is wanted."""
    import torch

    def type_of(dtype):
        wider = HALVES.get(str(dtype).removeprefix("torch.")) if is_wider else None
        return getattr(torch, wider) if wider else dtype

    def move(value):
        if isinstance(value, torch.Tensor):
            return value.detach().clone().to(device=device, dtype=type_of(value.dtype)).requires_grad_(value.requires_grad)
        if isinstance(value, torch.device) or (isinstance(value, str) and value == "cpu"):
            return device
        return type_of(value) if isinstance(value, torch.dtype) else value
    return sample.transform(move)


def placed(sample, pattern):
    """A copy whose tensors are where those of `pattern` are: some arguments stay with the processor."""
    import torch
    flat, form = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places, other = torch.utils._pytree.tree_flatten((pattern.input, pattern.args, pattern.kwargs))
    if form != other:
        return None
    flat = [value.detach().clone().to(place.device).requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor)
            else place for value, place in zip(flat, places)]
    copy = moved(sample, "cpu")
    copy.input, copy.args, copy.kwargs = torch.utils._pytree.tree_unflatten(flat, form)
    return copy


def leaves(values):
    """The tensors and numbers in a structure."""
    import torch
    found = torch.utils._pytree.tree_leaves(values)
    return [value for value in found if isinstance(value, (torch.Tensor, bool, int, float, complex, str, torch.dtype))]


def computed(op, sample, direction):
    """Results, or gradients of all inputs that want one."""
    import torch
    output = op(sample.input, *sample.args, **sample.kwargs)
    if direction == "forward":
        return [value.detach().cpu() if isinstance(value, torch.Tensor) else value for value in leaves(output)]
    output = sample.output_process_fn_grad(output)
    inputs = [value for value in leaves((sample.input, sample.args, sample.kwargs))
              if isinstance(value, torch.Tensor) and value.requires_grad]
    outputs = [value for value in leaves(output) if isinstance(value, torch.Tensor) and value.requires_grad]
    if not inputs or not outputs:
        return []
    generator = torch.Generator().manual_seed(5)
    weights = []
    for value in outputs:
        weight = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        weights.append(weight.to(device=value.device, dtype=value.dtype))
    grads = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
    return [value.detach().cpu() for value in grads if value is not None]


def wider_reference(op, sample, direction, kind):
    try:
        return computed(op, moved(sample, "cpu", is_wider=True), direction) if kind in HALVES else None
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        return None


def reference(op, sample, direction, kind):
    try:
        return computed(op, moved(sample, "cpu"), direction)
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        if kind not in HALVES:
            raise NoResult(str(error)) from error
    try:
        return computed(op, moved(sample, "cpu", is_wider=True), direction)
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        raise NoResult(str(error)) from error


def is_close(found, expected, rtol, atol):
    import torch
    for value, wanted in zip(found, expected):
        if not isinstance(wanted, torch.Tensor):
            if value != wanted and not (value != value and wanted != wanted):
                torch.testing.assert_close(value, wanted, rtol=rtol, atol=atol, equal_nan=True)
            continue
        wanted = wanted.to(value.dtype)
        if value.layout != torch.strided:
            value, wanted = value.to_dense(), wanted.to_dense()
        if value.is_quantized:
            value, wanted = value.dequantize(), wanted.dequantize()
        torch.testing.assert_close(value, wanted, rtol=rtol, atol=atol, equal_nan=True, check_stride=False)


def has_same_specials(value, other):
    """Whether NaN and infinities are in the same places."""
    import torch
    special = ~(value.isfinite() & other.isfinite())
    return torch.allclose(value[special], other[special], equal_nan=True)


def is_near(found, expected, wider):
    """Whether `found` is as near to the wider result as `expected` is: the greatest distances are compared."""
    import torch
    for value, other, wide in zip(found, expected, wider):
        if not isinstance(wide, torch.Tensor) or not (wide.is_floating_point() or wide.is_complex()):
            if not (torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other):
                return False
            continue
        value_type, value, other = value.dtype, value.to(wide.dtype), other.to(wide.dtype)
        if not any(has_same_specials(value, right) for right in (other, wide)):
            return False
        usable = wide.isfinite() & value.isfinite() & other.isfinite()
        if not usable.any():
            continue
        precision = torch.finfo(value_type).eps * wide[usable].abs().max()
        if (value - wide)[usable].abs().max() > 2 * (other - wide)[usable].abs().max() + precision:
            return False
    return True


def compare(op, dtype, found, expected, others, wider):
    """`others`: what the processor computes for other seeds. `wider`: of halves, what it computes in the wider type."""
    import torch

    def kinds(values):
        return [(value.shape, value.layout, narrow(value.dtype)) if isinstance(value, torch.Tensor) else type(value) for value in values]

    def narrow(dtype):
        """The processor may have computed a half in the wider type."""
        return HALVES.get(str(dtype).removeprefix("torch."), str(dtype).removeprefix("torch."))
    if kinds(found) != kinds(expected):
        return "differs", f"{kinds(found)}, not {kinds(expected)}"
    what = ""
    for name, (rtol, atol) in {"agrees": tolerances(op, dtype), "agrees-1e-3": (1e-3, 1e-3)}.items():
        try:
            is_close(found, expected, rtol, atol)
            return name, what
        except AssertionError as error:
            what = what or " ".join(str(error).split())[:300]
    if wider and is_near(found, expected, wider):
        return "agrees-wider", what
    for values in others:
        try:
            is_close(values, expected, 1e-3, 1e-3)
        except AssertionError:
            return "random", ""
    return "differs", what


def on_device(op, number, chosen, dtype, direction):
    """Results of a sample on the device."""
    sample, place = chosen
    seed(1)
    try:
        return computed(op, moved(sample, "cuda"), direction)
    except Exception:  # pylint: disable=broad-except
        seed(0)
        patterns = list(op.sample_inputs("cuda", dtype, requires_grad=direction == "backward"))
        copy = placed(sample, patterns[place]) if len(patterns) == number else None
        if copy is None:
            raise
        seed(1)
        return computed(op, copy, direction)


def run_triple(triple, samples_wanted):
    import torch
    _, op, kind, direction = triple
    dtype = getattr(torch, kind)
    seed(0)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=direction == "backward"))
    if not samples:
        return "no-sample", ""
    count = min(samples_wanted, len(samples))
    worst = ("agrees", "")
    order = ("agrees", "agrees-1e-3", "agrees-wider", "random", "no-result", "fails", "differs")
    for place in [n * (len(samples) - 1) // max(count - 1, 1) for n in range(count)]:
        sample = samples[place]
        try:
            seed(1)
            expected = reference(op, sample, direction, kind)
            others = []
            for n in SEEDS:
                seed(n)
                # The list's random operators set a seed of their own.
                with unittest.mock.patch("torch.manual_seed", lambda _, n=n: torch.default_generator.manual_seed(n)):
                    others.append(reference(op, sample, direction, kind))
            found = on_device(op, len(samples), (sample, place), dtype, direction)
            torch.cuda.synchronize()
            seed(1)
            result = compare(op, dtype, found, expected, others, wider_reference(op, sample, direction, kind))
        except NoResult as error:
            result = ("no-result", " ".join(str(error).split())[:200])
        except Exception as error:  # pylint: disable=broad-except
            result = ("fails", " ".join(f"{type(error).__name__}: {error}".split())[:300])
        if order.index(result[0]) > order.index(worst[0]):
            worst = result
    return worst


def child(numbers, samples):
    """Writes a line when a triple begins, and one when it has ended."""
    import torch
    warnings.simplefilter("ignore")
    triples = all_triples()
    torch.cuda.init()
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for number in numbers:
        print(json.dumps({"begins": number}), file=output, flush=True)
        result, what = run_triple(triples[number], samples)
        print(json.dumps({"number": number, **title(triples[number]), "result": result, "what": what}), file=output, flush=True)


# ---- all of them ----

def run_chunk(numbers, options, tell):
    """Returns how many of them have a result. The one in which the process died or was ended is told as such."""
    command = [sys.executable, __file__, "--samples", str(options.samples), "--numbers", ",".join(map(str, numbers)), "-"]
    late = set()  # of numbers
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        def end(number):
            late.add(number)
            process.kill()

        done, current, timer = 0, None, None
        for line in process.stdout:
            entry = json.loads(line)
            if timer:
                timer.cancel()
            if "begins" in entry:
                current = entry["begins"]
                timer = threading.Timer(options.limit, end, [current])
                timer.start()
                continue
            tell(entry)
            done, current = done + 1, None
        if timer:
            timer.cancel()
        status = process.wait()
    if current is not None:
        tell({"number": current, "result": "late" if current in late else "ends", "what": f"status {status}"})
        return done + 1
    if not done and not late:
        sys.exit(f"operators.py: no triple began: status {status}")
    return done


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(entries):
    counts = collections.Counter(entry["result"] for entry in entries)
    for result, count in counts.most_common():
        print(f"{result:12} {count:5} {100 * count / len(entries):6.2f} %")
    print(f"{'all':12} {len(entries):5}")
    for entry in sorted(entries, key=lambda entry: (entry["result"], entry["number"])):
        if not entry["result"].startswith("agrees") and entry["result"] != "random":
            print(f"{entry['result']}: {entry['operator']} {entry['type']} {entry['direction']}: {entry['what']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=6)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("--chunk", type=int, default=40)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--numbers", help=argparse.SUPPRESS)
    parser.add_argument("results", type=pathlib.Path)
    options = parser.parse_args()
    if options.table:
        table(read(options.results))
        return
    if options.numbers:
        child([int(number) for number in options.numbers.split(",")], options.samples)
        return
    triples = all_triples()
    known = {entry["number"] for entry in read(options.results)}
    left = [number for number in range(0, len(triples), options.every) if number not in known]
    with options.results.open("a") as file:
        def tell(entry):
            entry = {**title(triples[entry["number"]]), **entry}
            print(json.dumps(entry), file=file, flush=True)
            if not entry["result"].startswith("agrees"):
                print(f"{entry['number']}: {entry['operator']} {entry['type']} {entry['direction']}: {entry['result']} "
                      f"{entry['what'][:120]}", flush=True)
        while left:
            del left[:run_chunk(left[:options.chunk], options, tell)]
            print(f"{len(left)} triples left", flush=True)
    table(read(options.results))


if __name__ == "__main__":
    main()
