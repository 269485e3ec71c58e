#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CuPy, Numba, XGBoost and JAX: what they compute, compared with NumPy and the processor.

usage: python-clients.py [PART...]                                       natively
       vcuda run --backend cpu -- python3 python-clients.py [PART...]    through virtio-cuda

Prints the same lines in every run; how long each took goes to stderr. A library that is not there is skipped. Ends with
status 1 if a part fails.
"""

import ctypes
import sys
from importlib import metadata

import numpy as np

import clients
from clients import close, numbers, part

SAXPY = 'extern "C" __global__ void saxpy(float *y, const float *x, float a) { y[threadIdx.x] += a * x[threadIdx.x]; }'
TEMPLATE = "template<class T> __global__ void twice(T *x) { x[threadIdx.x] *= 2; }"


# ---- CuPy ----


@part("cupy")
def elements(cp):
    x = numbers(10000)
    y = cp.asarray(x)
    mine = cp.ElementwiseKernel("float64 a, float64 b", "float64 c", "c = a > b ? a - b : 0", "mine")
    return (close(cp.sqrt(y * 2 + 1).get(), np.sqrt(x * 2 + 1)), close(mine(y, 0.5).get(), np.maximum(x - 0.5, 0)),
            close(cp.where(y > 0.5, y, -y).get(), np.where(x > 0.5, x, -x)))


@part("cupy")
def reductions(cp):
    x = numbers(300, 70)
    y = cp.asarray(x)
    squares = cp.ReductionKernel("T x", "T y", "x * x", "a + b", "y = a", "0", "squares")
    return (close(y.sum(axis=0).get(), x.sum(axis=0)), close(y.std().get(), x.std()), int(y.argmax()) == int(x.argmax()),
            close(squares(y).get(), (x * x).sum()), close(cp.cumsum(y).get(), np.cumsum(x)))


@part("cupy")
def raw_kernels(cp):
    x, y = cp.arange(32, dtype="f4"), cp.ones(32, dtype="f4")
    cp.RawKernel(SAXPY, "saxpy")((1,), (32,), (y, x, np.float32(3)))
    module = cp.RawModule(code=TEMPLATE, options=("-std=c++17",), name_expressions=["twice<int>", "twice<double>"])
    ints = cp.arange(32, dtype="i4")
    module.get_function("twice<int>")((1,), (32,), (ints,))
    return float(y.sum()), int(ints.sum())


@part("cupy")
def linear_algebra(cp):
    a, b = numbers(16, 16), numbers(16, 4)
    h = a @ a.T + np.eye(16)
    x = [cp.asarray(m) for m in (a, b, h)]
    u, s, v = cp.linalg.svd(x[0])
    return (close((x[0] @ x[1]).get(), a @ b), close(cp.linalg.solve(x[0], x[1]).get(), np.linalg.solve(a, b)),
            close((u * s @ v).get(), a), close(cp.linalg.eigvalsh(x[2]).get(), np.linalg.eigvalsh(h)),
            close(cp.linalg.inv(x[2]).get(), np.linalg.inv(h)), close(cp.linalg.cholesky(x[2]).get(), np.linalg.cholesky(h)))


@part("cupy")
def transforms(cp):
    x = numbers(24, 64)
    return (close(cp.fft.fft2(cp.asarray(x)).get(), np.fft.fft2(x)), close(cp.fft.rfft(cp.asarray(x)).get(), np.fft.rfft(x)),
            close(cp.fft.irfft(cp.fft.rfft(cp.asarray(x))).get(), x))


@part("cupy")
def random_numbers(cp):
    states = cp.random.RandomState(7), cp.random.RandomState(7)
    x, y = (s.normal(size=20000) for s in states)
    generator = cp.random.default_rng(3).random(20000)
    return bool((x == y).all()), abs(float(x.mean())) < 0.03, abs(float(generator.mean()) - 0.5) < 0.02


@part("cupy")
def sorting(cp):
    x = numbers(5000)
    y = cp.asarray(x)
    return (bool((cp.sort(y).get() == np.sort(x)).all()), bool((cp.argsort(y).get() == np.argsort(x)).all()),
            bool((cp.unique((y * 50).astype("i4")).get() == np.unique((x * 50).astype("i4"))).all()))


@part("cupy")
def sparse(cp):
    from cupyx.scipy import sparse
    dense = np.where(numbers(60, 60) > 0.8, numbers(60, 60), 0)
    m = sparse.csr_matrix(cp.asarray(dense))
    x = numbers(60)
    return (m.nnz == int((dense != 0).sum()), close((m @ cp.asarray(x)).get(), dense @ x),
            close((m @ m).toarray().get(), dense @ dense), close(m.tocsc().sum(axis=0).get(), dense.sum(axis=0)))


@part("cupy")
def streams_and_graphs(cp):
    a, s, done = cp.arange(1000.0), cp.cuda.Stream(non_blocking=True), cp.cuda.Event()
    (a + 1).sum()  # compiled before it is captured
    cp.cuda.Device().synchronize()
    with s:
        b = a * 2
        done.record()
    done.synchronize()
    with s:
        s.begin_capture()
        c = a * 2
        graph = s.end_capture()
    a += 1
    cp.cuda.Device().synchronize()
    graph.launch(s)
    s.synchronize()
    return float(b.sum()), float(c.sum())


@part("cupy")
def memory(cp):
    import cupyx
    pool, pinned = cp.cuda.MemoryPool(), cupyx.zeros_pinned((1000,), dtype="f8")
    with cp.cuda.using_allocator(pool.malloc):
        x = cp.ones(1000)
        used = pool.used_bytes()
    pinned[:] = 2
    x.set(pinned)
    with cp.cuda.using_allocator(cp.cuda.malloc_managed):
        managed = cp.arange(100)
    cp.cuda.Device().synchronize()
    view = (ctypes.c_int64 * 100).from_address(managed.data.ptr)
    asynchronous = cp.cuda.MemoryAsyncPool()
    with cp.cuda.using_allocator(asynchronous.malloc):
        y = cp.full(500, 3.0)
    return used, float(x.sum()), sum(view), float(y.sum())


@part("cupy")
def textures(cp):
    from cupy.cuda import runtime, texture
    code = ('extern "C" __global__ void copy(float *out, cudaTextureObject_t t, int n)'
            "{ int i = threadIdx.x; out[i] = tex2D<float>(t, i % n + 0.5f, i / n + 0.5f); }")
    x = np.arange(64, dtype="f4").reshape(8, 8)
    array = texture.CUDAarray(texture.ChannelFormatDescriptor(32, 0, 0, 0, runtime.cudaChannelFormatKindFloat), 8, 8)
    array.copy_from(x)
    t = texture.TextureObject(texture.ResourceDescriptor(runtime.cudaResourceTypeArray, cuArr=array),
                              texture.TextureDescriptor((runtime.cudaAddressModeClamp,) * 2, runtime.cudaFilterModePoint,
                                                        runtime.cudaReadModeElementType))
    out = cp.zeros(64, dtype="f4")
    cp.RawKernel(code, "copy")((1,), (64,), (out, t, np.int32(8)))
    return bool((out.get() == x.ravel()).all())


# ---- Numba ----


@part("numba")
def kernels(cuda):
    from numba import vectorize

    @cuda.jit
    def scale(a, k):
        i = cuda.grid(1)
        if i < a.size:
            a[i] *= k

    @vectorize(["float64(float64, float64)"], target="cuda")
    def hypotenuse(a, b):
        return (a * a + b * b) ** 0.5

    a = np.arange(1000.0)
    scale[8, 128](a, 3)
    x, y = numbers(1000), numbers(1000) + 1
    return float(a.sum()), close(hypotenuse(x, y), np.hypot(x, y))


@part("numba")
def shared_and_atomics(cuda):
    from numba import float32

    @cuda.jit
    def total(a, out):
        part = cuda.shared.array(128, float32)
        i, t = cuda.grid(1), cuda.threadIdx.x
        part[t] = a[i] if i < a.size else 0
        cuda.syncthreads()
        half = 64
        while half:
            if t < half:
                part[t] += part[t + half]
            cuda.syncthreads()
            half //= 2
        if t == 0:
            cuda.atomic.add(out, 0, part[0])
        cuda.atomic.max(out, 1, a[i] if i < a.size else 0)

    a, out = np.arange(1000, dtype="f4"), np.zeros(2, dtype="f4")
    total[8, 128](a, out)
    return out.tolist()


@part("numba")
def mathematics(cuda):
    import math

    @cuda.jit
    def f(x, y):
        i = cuda.grid(1)
        if i < x.size:
            y[i] = math.exp(-x[i]) + math.erf(x[i]) * math.lgamma(x[i] + 1) + cuda.cbrt(x[i])

    x = numbers(500)
    y = np.zeros_like(x)
    f[4, 128](x, y)
    return close(y, [math.exp(-v) + math.erf(v) * math.lgamma(v + 1) + v ** (1 / 3) for v in x], 1e-9)


@part("numba")
def cooperative_groups(cuda):
    @cuda.jit
    def turn(a):
        grid = cuda.cg.this_grid()
        i = cuda.grid(1)
        other = a[a.size - 1 - i]
        grid.sync()
        a[i] = other

    a = np.arange(256)
    turn[4, 64](a)
    return bool((a == np.arange(256)[::-1]).all())


@part("numba")
def random_and_streams(cuda):
    from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

    @cuda.jit
    def throw(states, hits):
        i = cuda.grid(1)
        for _ in range(200):
            x, y = xoroshiro128p_uniform_float32(states, i), xoroshiro128p_uniform_float32(states, i)
            if x * x + y * y <= 1:
                hits[i] += 1

    stream = cuda.stream()
    hits = cuda.to_device(np.zeros(256, dtype="i4"), stream=stream)
    throw[2, 128, stream](create_xoroshiro128p_states(256, seed=1, stream=stream), hits)
    return int(hits.copy_to_host(stream=stream).sum())


# ---- XGBoost ----


@part("xgboost")
def training(xgb):
    x = numbers(2000, 10, kind=np.float32)
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0.7).astype(int)
    scores = []
    for device in ("cpu", "cuda"):
        settings = dict(device=device, tree_method="hist", max_depth=4, objective="binary:logistic", seed=1)
        model = xgb.train(settings, xgb.QuantileDMatrix(x, y), 10)
        scores.append(model.predict(xgb.DMatrix(x)))
    return close(scores[0].mean(), scores[1].mean(), 1e-3), bool(((scores[1] > 0.5) == y).mean() > 0.95)


# ---- JAX: what its own processor's compiler makes of the same ----


def jax_agrees(jax, f, *args, tolerance=1e-4):
    """Whether the device computes what the processor does, compiled, with products in all their bits."""
    results = []
    for platform in ("cpu", "cuda"):
        with jax.default_device(jax.devices(platform)[0]), jax.default_matmul_precision("highest"):
            results.append(jax.tree.map(np.asarray, jax.jit(f)(*[jax.numpy.asarray(a) for a in args])))
    same = jax.tree.map(lambda a, b: close(a, b, tolerance), *results)
    return bool(jax.tree.all(same))


@part("jax")
def expressions(jax):
    jnp = jax.numpy
    x = numbers(1000, kind=np.float32)
    return (jax_agrees(jax, lambda x: jnp.sin(x) ** 2 + jnp.exp(x) / (1 + x), x), jax_agrees(jax, lambda x: (x.sum(), x.max(), jnp.cumsum(x)), x),
            jax_agrees(jax, jnp.sort, x), jax_agrees(jax, lambda x: jax.lax.scan(lambda c, y: (c * 0.5 + y, c), 0.0, x), x))


@part("jax")
def products(jax):
    jnp = jax.numpy
    a, b = numbers(64, 96, kind=np.float32), numbers(96, 32, kind=np.float32)
    batch = numbers(5, 24, 24, kind=np.float32)
    return (jax_agrees(jax, jnp.matmul, a, b), jax_agrees(jax, lambda x: jnp.einsum("bij,bkj->bik", x, x), batch),
            jax_agrees(jax, lambda x: jnp.linalg.solve(x + 24 * jnp.eye(24), jnp.ones((24, 1))), batch, tolerance=1e-3),
            jax_agrees(jax, lambda x: jnp.abs(jnp.fft.fft(x)), a, tolerance=1e-3))


@part("jax")
def random_numbers(jax):
    return jax_agrees(jax, lambda n: jax.random.normal(jax.random.PRNGKey(n), (1000,)), 7)


@part("jax")
def training(jax):
    jnp = jax.numpy
    x, y = numbers(128, 16, kind=np.float32), numbers(128, 1, kind=np.float32)
    w = [numbers(16, 32, kind=np.float32) - 0.5, numbers(32, 1, kind=np.float32) - 0.5]

    def loss(w, x, y):
        return jnp.mean((jnp.tanh(x @ w[0]) @ w[1] - y) ** 2)

    def steps(w0, w1, x, y):
        w = [w0, w1]
        for _ in range(5):
            w = jax.tree.map(lambda p, g: p - 0.1 * g, w, jax.grad(loss)(w, x, y))
        return loss(w, x, y), w

    return jax_agrees(jax, steps, *w, x, y, tolerance=1e-3)


def load(library):
    if library == "cupy":
        import cupy
        return cupy, cupy.__version__
    if library == "numba":
        import numba
        from numba import cuda
        numba.config.CUDA_LOW_OCCUPANCY_WARNINGS = numba.config.CUDA_WARN_ON_IMPLICIT_COPY = 0
        return cuda, f"{numba.__version__}, numba-cuda {metadata.version('numba-cuda')}"
    if library == "jax":
        import jax
        jax.devices("cuda")
        return jax, jax.__version__
    import xgboost
    return xgboost, xgboost.__version__


def load_or_skip(library):
    try:
        return load(library)
    except (ImportError, RuntimeError) as error:
        print(f"{library}: skipped: {error}")
        return None


sys.exit(clients.run(sys.argv[1:] or list(clients.PARTS), load_or_skip))
