#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
ONNX Runtime and faiss: results of the GPU, compared with those of the processor.

usage: frameworks.py LIBRARY...                                       natively
       vcuda run --backend cpu -- python3 frameworks.py LIBRARY...    through virtio-cuda

Prints one line for each part. The exit status is 1 if a part fails. Name one library in a process: their
CUDA libraries differ. Times go to stderr.
"""

import json
import os
import sys

import numpy as np

import clients
from clients import close, part


def numbers(*shape, kind=np.float32, seed=1):
    return clients.numbers(*shape, kind=kind, seed=seed)


# ---- ONNX Runtime: graphs of a few nodes, each node on the GPU ----


def graph(nodes, inputs, constants, outputs=("out",)):
    """nodes: (operator, inputs, output, attributes). inputs: arrays by name. Returns the bytes of a model."""
    from onnx import TensorProto, helper, numpy_helper

    made = [helper.make_node(operator, ins, [out], **attributes) for operator, ins, out, attributes in nodes]
    kinds = {name: helper.np_dtype_to_tensor_dtype(a.dtype) for name, a in inputs.items()}
    ins = [helper.make_tensor_value_info(name, kinds[name], a.shape) for name, a in inputs.items()]
    outs = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs]
    whole = helper.make_graph(made, "graph", ins, outs, [numpy_helper.from_array(a, name) for name, a in constants.items()])
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def session_run(ort, model, inputs, provider):
    """Returns the results and the providers that ran the nodes, as ONNX Runtime's profile names them."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.enable_profiling = True
    options.profile_file_prefix = f"/tmp/ort-profile-{os.getpid()}"
    session = ort.InferenceSession(model.SerializeToString(), options, providers=[provider])
    results = session.run(None, inputs)
    path = session.end_profiling()
    with open(path) as file:
        nodes = [event["args"] for event in json.load(file) if event.get("cat") == "Node"]
    os.unlink(path)
    return results, {node["provider"] for node in nodes if "provider" in node}


def ort_agrees(ort, nodes, inputs, constants, tolerance=1e-4):
    from onnx import shape_inference

    model = graph(nodes, inputs, constants)
    inferred = shape_inference.infer_shapes(model)
    model.graph.output[0].CopyFrom(next((v for v in inferred.graph.value_info if v.name == "out"), inferred.graph.output[0]))
    expected, _ = session_run(ort, model, inputs, "CPUExecutionProvider")
    got, used = session_run(ort, model, inputs, "CUDAExecutionProvider")
    if used != {"CUDAExecutionProvider"}:
        raise RuntimeError(f"ran on {used}")
    return all(close(a, b, tolerance) for a, b in zip(got, expected))


@part("onnxruntime")
def elements(ort):
    x = numbers(50, 40)
    return tuple(ort_agrees(ort, [(f, ["x"], "out", {})], {"x": x}, {}) for f in ("Sin", "Erf", "Sigmoid", "Sqrt", "Softplus"))


@part("onnxruntime")
def products(ort):
    x, w, b = numbers(33, 70), numbers(70, 40, seed=2), numbers(40, seed=3)
    half = {"x": x.astype(np.float16)}
    return (ort_agrees(ort, [("Gemm", ["x", "w", "b"], "out", {})], {"x": x}, {"w": w, "b": b}, 1e-3),
            ort_agrees(ort, [("MatMul", ["x", "w"], "out", {})], half, {"w": w.astype(np.float16)}, 1e-2))


@part("onnxruntime")
def reductions(ort):
    x = numbers(6, 50, 40)
    return (ort_agrees(ort, [("ReduceMean", ["x"], "out", {"axes": [1], "keepdims": 0})], {"x": x}, {}),
            ort_agrees(ort, [("ReduceMax", ["x"], "out", {"axes": [2], "keepdims": 1})], {"x": x}, {}),
            ort_agrees(ort, [("ArgMax", ["x"], "out", {"axis": 2})], {"x": x}, {}),
            ort_agrees(ort, [("Softmax", ["x"], "out", {"axis": -1})], {"x": x}, {}),
            ort_agrees(ort, [("CumSum", ["x", "axis"], "out", {})], {"x": x}, {"axis": np.array(1, np.int64)}))


@part("onnxruntime")
def shapes(ort):
    x = numbers(4, 6, 10)
    return (ort_agrees(ort, [("Transpose", ["x"], "out", {"perm": [2, 0, 1]})], {"x": x}, {}),
            ort_agrees(ort, [("Gather", ["x", "i"], "out", {"axis": 1})], {"x": x}, {"i": np.array([3, 1, 1], np.int64)}),
            ort_agrees(ort, [("Concat", ["x", "c"], "out", {"axis": 1})], {"x": x}, {"c": numbers(4, 2, 10, seed=2)}),
            ort_agrees(ort, [("Pad", ["x", "p"], "out", {})], {"x": x}, {"p": np.array([0, 1, 2, 0, 3, 1], np.int64)}))


@part("onnxruntime")
def convolution_network(ort):
    x = {"x": numbers(2, 3, 32, 32)}
    constants = {"w1": numbers(8, 3, 3, 3, seed=2) - 0.5, "b1": numbers(8, seed=3), "w2": numbers(16, 8, 3, 3, seed=4) - 0.5,
                 "b2": numbers(16, seed=5), "w3": numbers(1024, 10, seed=6) - 0.5, "b3": numbers(10, seed=7)}
    constants = {name: a.astype(np.float32) for name, a in constants.items()}
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    return ort_agrees(ort, [
        ("Conv", ["x", "w1", "b1"], "c1", {"pads": [1, 1, 1, 1]}), ("Relu", ["c1"], "r1", {}),
        ("MaxPool", ["r1"], "p1", pool), ("Conv", ["p1", "w2", "b2"], "c2", {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c2"], "r2", {}), ("AveragePool", ["r2"], "p2", pool),
        ("Flatten", ["p2"], "f", {}), ("Gemm", ["f", "w3", "b3"], "g", {}), ("Softmax", ["g"], "out", {})], x, constants, 1e-3)


@part("onnxruntime")
def attention(ort):
    rows, width = 16, 64
    constants = {name: (numbers(width, width, seed=i) - 0.5).astype(np.float32) / 8 for i, name in enumerate("qkvo")}
    constants |= {"scale": np.array(width ** -0.5, np.float32), "g": numbers(width, seed=8), "b": numbers(width, seed=9)}
    return ort_agrees(ort, [
        ("MatMul", ["x", "q"], "xq", {}), ("MatMul", ["x", "k"], "xk", {}), ("MatMul", ["x", "v"], "xv", {}),
        ("Transpose", ["xk"], "kt", {"perm": [0, 2, 1]}), ("MatMul", ["xq", "kt"], "s", {}), ("Mul", ["s", "scale"], "ss", {}),
        ("Softmax", ["ss"], "p", {"axis": -1}), ("MatMul", ["p", "xv"], "a", {}), ("MatMul", ["a", "o"], "ao", {}),
        ("Add", ["ao", "x"], "sum", {}), ("LayerNormalization", ["sum", "g", "b"], "out", {"axis": -1})],
        {"x": numbers(2, rows, width)}, constants, 1e-3)


# ---- faiss: the same index on the processor and on the GPU ----


def faiss_agrees(faiss, index, data, queries, share=1.0, k=5):
    """Whether distances agree, and at least this share of the neighbours: equal distances may change places."""
    on_gpu = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)
    index.add(data)
    on_gpu.add(data)
    expected, near = index.search(queries, k)
    got, found = on_gpu.search(queries, k)
    same = float((near == found).mean())
    return bool(close(got, expected, 1e-3)) and same >= share


def vectors(rows, width=32, seed=1):
    return np.random.RandomState(seed).rand(rows, width).astype(np.float32)


@part("faiss")
def flat(faiss):
    data, queries = vectors(3000), vectors(20, seed=2)
    return (faiss_agrees(faiss, faiss.IndexFlatL2(32), data, queries, 0.99),
            faiss_agrees(faiss, faiss.IndexFlatIP(32), data, queries, 0.99))


@part("faiss")
def inverted_lists(faiss):
    data, queries = vectors(3000), vectors(20, seed=2)
    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(32), 32, 16)
    index.train(data)
    index.nprobe = 4
    return faiss_agrees(faiss, index, data, queries, 0.99)


@part("faiss")
def product_quantizer(faiss):
    data, queries = vectors(3000), vectors(20, seed=2)
    index = faiss.IndexIVFPQ(faiss.IndexFlatL2(32), 32, 16, 8, 8)
    index.train(data)
    index.nprobe = 4
    return faiss_agrees(faiss, index, data, queries, 0.95)


@part("faiss")
def training(faiss):
    data = vectors(3000)
    index = faiss.GpuIndexIVFFlat(faiss.StandardGpuResources(), 32, 16, faiss.METRIC_L2)
    index.train(data)
    index.add(data)
    index.nprobe = 16
    distances, near = index.search(data[:50], 1)
    return bool((near[:, 0] == np.arange(50)).all()) and close(distances, 0, 1e-4)


def load(library):
    if library == "onnxruntime":
        import onnxruntime

        onnxruntime.preload_dlls()
        return onnxruntime, onnxruntime.__version__
    import faiss

    return faiss, f"{faiss.__version__}, {faiss.get_num_gpus()} GPU"


if __name__ == "__main__":
    sys.exit(clients.run(sys.argv[1:], load))
