#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TensorFlow, Taichi, Halide, tinygrad, Warp and cuda.core: their results, compared with NumPy's.

usage: more-clients.py LIBRARY...                                       natively
       vcuda run --backend cpu -- python3 more-clients.py LIBRARY...    through virtio-cuda

Prints one line for each part. The exit status is 1 if a part fails. Name one library in a process: their
CUDA libraries differ. Times go to stderr.
"""

import os
import sys
import tempfile

import numpy as np

import clients
from clients import close, part


def numbers(*shape, kind=np.float32, seed=1):
    return clients.numbers(*shape, kind=kind, seed=seed)


# ---- TensorFlow: what the device computes, and what the processor does ----


def tf_agrees(tf, f, *args, tolerance=1e-4, jit=False):
    results = []
    for device in ("/CPU:0", "/GPU:0"):
        with tf.device(device):
            function = tf.function(f, jit_compile=True) if jit and device == "/GPU:0" else f
            results.append(tf.nest.map_structure(lambda t: t.numpy(), function(*[tf.constant(a) for a in args])))
    return all(close(a, b, tolerance) for a, b in zip(*map(tf.nest.flatten, results)))


@part("tensorflow")
def elements(tf):
    x, i = numbers(50, 40), np.random.RandomState(2).randint(1, 100, (50, 40)).astype(np.int32)
    return (tf_agrees(tf, lambda x: tf.sin(x) ** 2 + tf.exp(x) / (1 + x), x), tf_agrees(tf, lambda i: i * 3 // 2 + i % 7, i),
            tf_agrees(tf, lambda x: tf.cast(tf.cast(x, tf.float16) * 2, tf.float32), x, tolerance=1e-3),
            tf_agrees(tf, lambda x: tf.where(x > 0.5, x, -x), x), tf_agrees(tf, lambda i: tf.bitwise.bitwise_xor(i, i // 2), i))


@part("tensorflow")
def reductions(tf):
    x = numbers(64, 70)
    return (tf_agrees(tf, tf.reduce_sum, x), tf_agrees(tf, lambda x: tf.reduce_max(x, axis=0), x),
            tf_agrees(tf, lambda x: tf.argmax(x, axis=1), x), tf_agrees(tf, lambda x: tf.cumsum(x, axis=1), x),
            tf_agrees(tf, lambda x: tf.math.segment_sum(x, tf.range(64) // 3), x), tf_agrees(tf, tf.nn.softmax, x))


@part("tensorflow")
def shapes(tf):
    x = numbers(12, 10, 6)
    return (tf_agrees(tf, lambda x: tf.transpose(x, [2, 0, 1]), x), tf_agrees(tf, lambda x: tf.gather(x, [3, 1, 1], axis=1), x),
            tf_agrees(tf, lambda x: tf.sort(x, axis=0), x), tf_agrees(tf, lambda x: tf.math.top_k(x, 3), x),
            tf_agrees(tf, lambda x: tf.reverse(tf.pad(x, [[1, 2], [0, 0], [3, 1]]), [1]), x),
            tf_agrees(tf, lambda x: tf.image.resize(x[None], [20, 7]), x), tf_agrees(tf, lambda x: tf.where(x > 0.7), x))


@part("tensorflow")
def products(tf):
    a, b = numbers(40, 30), numbers(30, 20)
    batch = numbers(4, 16, 16) + 16 * np.eye(16, dtype=np.float32)
    return (tf_agrees(tf, tf.matmul, a, b), tf_agrees(tf, lambda x: tf.einsum("bij,bkj->bik", x, x), batch, tolerance=1e-3),
            tf_agrees(tf, lambda x: tf.abs(tf.signal.fft(tf.cast(x, tf.complex64))), a, tolerance=1e-3))


@part("tensorflow")
def solutions(tf):
    batch = numbers(4, 16, 16) + 16 * np.eye(16, dtype=np.float32)
    return (tf_agrees(tf, lambda x: tf.linalg.solve(x, tf.ones((4, 16, 1))), batch),
            tf_agrees(tf, lambda x: tf.linalg.cholesky(tf.matmul(x, x, transpose_b=True)), batch, tolerance=1e-3))


@part("tensorflow")
def random_numbers(tf):
    return tf_agrees(tf, lambda: tf.random.stateless_normal((1000,), seed=(1, 2)))


@part("tensorflow")
def training(tf):
    x, y = numbers(256, 16), numbers(256, 1, seed=2)
    losses = []
    for device in ("/CPU:0", "/GPU:0"):
        with tf.device(device):
            tf.keras.utils.set_random_seed(1)
            model = tf.keras.Sequential([tf.keras.layers.Dense(32, activation="tanh"), tf.keras.layers.Dense(1)])
            model.compile("adam", "mse")
            losses.append(model.fit(x, y, epochs=3, batch_size=32, shuffle=False, verbose=0).history["loss"])
    return close(*losses, 1e-3)


@part("tensorflow")
def xla(tf):
    x = numbers(50, 40)
    return tf_agrees(tf, lambda x: tf.reduce_sum(tf.tanh(x) * x, axis=1), x, jit=True)


@part("tensorflow")
def convolution(tf):
    x, k = numbers(2, 12, 12, 3), numbers(3, 3, 3, 4)
    return (tf_agrees(tf, lambda x, k: tf.nn.conv2d(x, k, 1, "SAME"), x, k, tolerance=1e-3),
            tf_agrees(tf, lambda x: tf.nn.max_pool2d(x, 2, 2, "VALID"), x))


# ---- Taichi ----


@part("taichi")
def fields(ti):
    x, y = ti.field(ti.f32, (64, 48)), ti.field(ti.i32, 256)

    @ti.kernel
    def fill():
        for i, j in x:
            x[i, j] = ti.sin(i * 0.1) * ti.sqrt(j + 1.0)
        for i in y:
            y[i] = i * i % 17

    fill()
    i, j = np.mgrid[0:64, 0:48]
    return close(x.to_numpy(), np.sin(i * 0.1) * np.sqrt(j + 1)), close(y.to_numpy(), np.arange(256) ** 2 % 17)


@part("taichi")
def reductions(ti):
    values, out = ti.field(ti.f32, 10000), ti.field(ti.i32, 10)

    @ti.kernel
    def total() -> ti.f32:
        s = 0.0
        for i in values:
            s += values[i]
        return s

    @ti.kernel
    def largest() -> ti.f32:
        m = 0.0
        for i in values:
            ti.atomic_max(m, values[i])
        return m

    @ti.kernel
    def count():
        for i in values:
            out[int(values[i] * 10)] += 1

    x = numbers(10000)
    values.from_numpy(x)
    count()
    return (close(total(), x.sum(), 1e-4), largest() == x.max(),
            bool((out.to_numpy() == np.bincount((x * np.float32(10)).astype(int), minlength=10)).all()))


@part("taichi")
def matrices(ti):
    m, v = ti.Matrix.field(3, 3, ti.f32, 50), ti.Vector.field(3, ti.f32, 50)
    out = ti.Vector.field(3, ti.f32, 50)

    @ti.kernel
    def multiply():
        for i in out:
            out[i] = m[i].inverse() @ v[i]

    a, b = numbers(50, 3, 3) + 3 * np.eye(3, dtype=np.float32), numbers(50, 3)
    m.from_numpy(a)
    v.from_numpy(b)
    multiply()
    return close(out.to_numpy(), np.linalg.solve(a, b[..., None])[..., 0], 1e-4)


@part("taichi")
def sparse(ti):
    x, s = ti.field(ti.i32), ti.field(ti.i32, ())
    block = ti.root.pointer(ti.i, 64)
    block.dense(ti.i, 16).place(x)

    @ti.kernel
    def set_some():
        for i in range(10):
            x[i * 100] = i

    @ti.kernel
    def count():
        for i in x:
            s[None] += 1

    set_some()
    count()
    return s[None] == 160  # ten blocks of 16


@part("taichi")
def arrays_and_sorting(ti):
    keys, values = ti.field(ti.i32, 1000), ti.field(ti.i32, 1000)
    x = np.random.RandomState(3).permutation(1000).astype(np.int32)
    keys.from_numpy(x)
    values.from_numpy(np.arange(1000, dtype=np.int32))
    ti.algorithms.parallel_sort(keys, values)

    @ti.kernel
    def twice(a: ti.types.ndarray()):
        for i in range(a.shape[0]):
            a[i] = a[i] * 2

    a = numbers(500)
    b = a.copy()
    twice(b)
    return bool((keys.to_numpy() == np.arange(1000)).all()), bool((values.to_numpy() == np.argsort(x)).all()), close(b, a * 2)


@part("taichi")
def gradients(ti):
    x, loss = ti.field(ti.f32, 20, needs_grad=True), ti.field(ti.f32, (), needs_grad=True)

    @ti.kernel
    def compute():
        for i in x:
            loss[None] += ti.sin(x[i]) * x[i]

    a = numbers(20)
    x.from_numpy(a)
    with ti.ad.Tape(loss):
        compute()
    return close(x.grad.to_numpy(), np.cos(a) * a + np.sin(a))


# ---- Halide ----


def halide_run(hl, f, shape, kind=np.float32):
    target = hl.get_host_target().with_feature(hl.TargetFeature.CUDA)
    out = np.zeros(shape, kind)
    buffer = hl.Buffer(out)
    f.compile_jit(target)
    f.realize(buffer, target)
    buffer.copy_to_host()
    return out


@part("halide")
def pipeline(hl):
    x, y, xi, yi = hl.Var("x"), hl.Var("y"), hl.Var("xi"), hl.Var("yi")
    f, g = hl.Func("f"), hl.Func("g")
    f[x, y] = hl.f32(x * 3 + y) * 0.5
    g[x, y] = f[x, y] + f[x + 1, y] * 2 + f[x, y + 1]
    g.gpu_tile(x, y, xi, yi, 8, 8)
    f.compute_at(g, x).gpu_threads(x, y)
    i, j = np.mgrid[0:40, 0:64]  # a row of Halide's is the last dimension of NumPy's
    v = lambda x, y: (x * 3 + y) * 0.5
    return close(halide_run(hl, g, (40, 64)), v(j, i) + v(j + 1, i) * 2 + v(j, i + 1))


@part("halide")
def reduction(hl):
    x, xo, xi = hl.Var("x"), hl.Var("xo"), hl.Var("xi")
    data = numbers(100, 32)
    b = hl.Buffer(data)
    f, r = hl.Func("f"), hl.RDom([(0, 100)])
    f[x] = 0.0
    f[x] += b[x, r]
    f.gpu_tile(x, xo, xi, 16)
    f.update(0).gpu_tile(x, xo, xi, 16)
    return close(halide_run(hl, f, (32,)), data.sum(axis=0), 1e-4)


# ---- tinygrad ----


@part("tinygrad")
def tensors(Tensor):
    a, b = numbers(48, 40), numbers(40, 56)
    x = Tensor(a)
    return (close((x @ Tensor(b)).numpy(), a @ b, 1e-4), close(x.sum(axis=0).numpy(), a.sum(axis=0), 1e-4),
            close(x.softmax().numpy(), np.exp(a) / np.exp(a).sum(axis=1, keepdims=True), 1e-4),
            close(x.cumsum(axis=1).numpy(), np.cumsum(a, axis=1), 1e-4), close(x.sort()[0].numpy(), np.sort(a)),
            close(x.half().matmul(Tensor(b).half()).float().numpy(), a @ b, 1e-2))


@part("tinygrad")
def convolution_and_gradient(Tensor):
    x, w = numbers(2, 3, 10, 10), numbers(4, 3, 3, 3)
    y = Tensor(x).conv2d(Tensor(w)).numpy()
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))
    a = numbers(20)
    t = Tensor(a)
    gradient = (t * t.sin()).sum().gradient(t)[0]
    return close(y, np.einsum("nchwij,ocij->nohw", windows, w), 1e-3), close(gradient.numpy(), np.sin(a) + a * np.cos(a), 1e-4)


@part("tinygrad")
def random_and_jit(Tensor):
    from tinygrad import TinyJit
    Tensor.manual_seed(1)
    mean = float(Tensor.rand(5000).mean().numpy())

    @TinyJit
    def step(x):
        return (x * 2 + 1).realize()

    return abs(mean - 0.5) < 0.03, all(close(step(Tensor(numbers(30, seed=i)).realize()).numpy(), numbers(30, seed=i) * 2 + 1) for i in range(5))


# ---- Warp ----


@part("warp")
def kernels(wp):
    from warp_kernels import saxpy, statistics
    a, b = numbers(1000), numbers(1000, seed=2)
    x, y = wp.array(a, device="cuda"), wp.array(b, device="cuda")
    wp.launch(saxpy, dim=1000, inputs=[x, y, 3.0], device="cuda")
    out = wp.zeros(3, dtype=float, device="cuda")
    wp.launch(statistics, dim=1000, inputs=[x, out], device="cuda")
    return close(y.numpy(), b + 3 * a), close(out.numpy(), [a.sum(), a.max(), a.min() if a.min() < 0 else 0], 1e-4)


@part("warp")
def geometry(wp):
    from warp_kernels import neighbours, rays
    points = numbers(300, 3)
    grid = wp.HashGrid(16, 16, 16, device="cuda")
    p = wp.array(points, dtype=wp.vec3, device="cuda")
    grid.build(p, 0.2)
    counts = wp.zeros(300, dtype=int, device="cuda")
    wp.launch(neighbours, dim=300, inputs=[grid.id, p, 0.2, counts], device="cuda")
    expected = (np.linalg.norm(points[:, None] - points[None], axis=2) < 0.2).sum(axis=1)
    corners = np.array([[0, 0, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1]], dtype=np.float32)
    mesh = wp.Mesh(wp.array(corners, dtype=wp.vec3, device="cuda"), wp.array([0, 1, 2, 1, 3, 2], dtype=int, device="cuda"))
    hits = wp.zeros(300, dtype=float, device="cuda")
    wp.launch(rays, dim=300, inputs=[mesh.id, p, hits], device="cuda")
    return bool((counts.numpy() == expected).all()), close(hits.numpy(), 1 - points[:, 2], 1e-4)


@part("warp")
def utilities(wp):
    keys = np.random.RandomState(3).randint(0, 10000, 1000).astype(np.int32)
    k, v = wp.array(np.concatenate([keys, keys]), device="cuda"), wp.array(np.arange(2000, dtype=np.int32), device="cuda")
    wp.utils.radix_sort_pairs(k, v, 1000)
    x = wp.array(numbers(1000), device="cuda")
    scan = wp.zeros_like(x)
    wp.utils.array_scan(x, scan, inclusive=True)
    return (bool((k.numpy()[:1000] == np.sort(keys)).all()), bool((v.numpy()[:1000] == np.argsort(keys, kind="stable")).all()),
            close(scan.numpy(), np.cumsum(numbers(1000)), 1e-4), close(wp.utils.array_sum(x), numbers(1000).sum(), 1e-4))


@part("warp")
def graph_and_gradient(wp):
    from warp_kernels import saxpy, square
    x, y = wp.array(numbers(100), device="cuda"), wp.zeros(100, dtype=float, device="cuda")
    with wp.ScopedCapture(device="cuda") as capture:
        for _ in range(3):
            wp.launch(saxpy, dim=100, inputs=[x, y, 1.0], device="cuda")
    for _ in range(2):
        wp.capture_launch(capture.graph)
    a = wp.array(numbers(50), device="cuda", requires_grad=True)
    loss = wp.zeros(1, dtype=float, device="cuda", requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, dim=50, inputs=[a, loss], device="cuda")
    tape.backward(loss)
    return close(y.numpy(), numbers(100) * 6, 1e-4), close(a.grad.numpy(), 2 * numbers(50), 1e-4)


@part("warp")
def tiles(wp):
    from warp_tiles import tile_product
    a, b = numbers(32, 32), numbers(32, 32, seed=2)
    c = wp.zeros((32, 32), dtype=float, device="cuda")
    wp.launch_tiled(tile_product, dim=(2, 2), inputs=[wp.array(a, device="cuda"), wp.array(b, device="cuda"), c], block_dim=64, device="cuda")
    return close(c.numpy(), a @ b, 1e-4)


# ---- cuda.core ----

SOURCE = """template<typename T> __global__ void twice(T *x, size_t n)
{ size_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] *= 2; }"""


def compile_twice(core):
    device = core.Device()
    options = core.ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    return core.Program(SOURCE, code_type="c++", options=options).compile("cubin", name_expressions=("twice<float>", "twice<int>"))


@part("cuda.core")
def programs(core):
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    kernel = compile_twice(core).get_kernel("twice<float>")
    pinned = core.LegacyPinnedMemoryResource().allocate(4000)
    view = np.from_dlpack(pinned).view(np.float32)
    view[:] = numbers(1000)
    buffer = device.memory_resource.allocate(4000, stream=stream)
    buffer.copy_from(pinned, stream=stream)
    core.launch(stream, core.LaunchConfig(grid=8, block=128), kernel, buffer, np.uint64(1000))
    start = stream.record(options=core.EventOptions(enable_timing=True) if hasattr(core.EventOptions, "enable_timing") else None)
    buffer.copy_to(pinned, stream=stream)
    stream.sync()
    return close(view, numbers(1000) * 2), start.is_done


@part("cuda.core")
def properties(core):
    device = core.Device()
    device.set_current()
    p = device.properties
    read = 0
    for name in dir(p):
        if not name.startswith("_"):
            getattr(p, name)
            read += 1
    kernel = compile_twice(core).get_kernel("twice<int>")
    a = kernel.attributes
    return read > 50, a.max_threads_per_block() >= 128 if callable(a.max_threads_per_block) else True, kernel.num_arguments


def load(library):
    if library == "tensorflow":
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        import tensorflow as tf
        if not tf.config.list_physical_devices("GPU"):
            raise RuntimeError("TensorFlow finds no GPU")
        return tf, tf.__version__
    if library == "taichi":
        import taichi as ti
        ti.init(arch=ti.cuda, log_level=ti.WARN, random_seed=1)
        if ti.cfg.arch != ti.cuda:
            raise RuntimeError("Taichi finds no GPU")
        return ti, str(ti.__version__)
    if library == "halide":
        import halide as hl
        return hl, getattr(hl, "__version__", "")
    if library == "tinygrad":
        os.environ.setdefault("DEV", "CUDA")
        from importlib import metadata
        from tinygrad import Tensor
        return Tensor, metadata.version("tinygrad")
    if library == "warp":
        import warp as wp
        wp.config.quiet = True
        sys.path.insert(0, write_warp_kernels())
        wp.init()
        return wp, wp.__version__
    import cuda.core as core
    return core, core.__version__


WARP_KERNELS = """
import warp as wp


@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), k: float):
    i = wp.tid()
    y[i] = y[i] + k * x[i]


@wp.kernel
def square(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(out, 0, x[i] * x[i])


@wp.kernel
def statistics(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(out, 0, x[i])
    wp.atomic_max(out, 1, x[i])
    wp.atomic_min(out, 2, x[i])


@wp.kernel
def neighbours(grid: wp.uint64, p: wp.array(dtype=wp.vec3), radius: float, counts: wp.array(dtype=int)):
    i = wp.tid()
    n = int(0)
    for j in wp.hash_grid_query(grid, p[i], radius):
        if wp.length(p[i] - p[j]) < radius:
            n += 1
    counts[i] = n


@wp.kernel
def rays(mesh: wp.uint64, p: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    q = wp.mesh_query_ray(mesh, p[i], wp.vec3(0.0, 0.0, 1.0), 10.0)
    out[i] = -1.0
    if q.result:
        out[i] = q.t

"""

# In a module of its own: products of tiles are linked by nvJitLink, into machine code.
WARP_TILES = """
import warp as wp


@wp.kernel
def tile_product(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), c: wp.array2d(dtype=float)):
    i, j = wp.tid()
    total = wp.tile_zeros(shape=(16, 16), dtype=float)
    for k in range(2):
        x = wp.tile_load(a, shape=(16, 16), offset=(i * 16, k * 16))
        y = wp.tile_load(b, shape=(16, 16), offset=(k * 16, j * 16))
        wp.tile_matmul(x, y, total)
    wp.tile_store(c, total, offset=(i * 16, j * 16))
"""


def write_warp_kernels():
    """Warp reads the source of kernels from files."""
    folder = tempfile.mkdtemp(prefix="warp-kernels-")
    for name, text in (("warp_kernels", WARP_KERNELS), ("warp_tiles", WARP_TILES)):
        with open(os.path.join(folder, f"{name}.py"), "w", encoding="utf-8") as f:
            f.write(text)
    return folder


if __name__ == "__main__":
    sys.exit(clients.run(sys.argv[1:], load))
