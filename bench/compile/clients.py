#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of PyPI's packages whose kernels no cache has: clients.py cupy-sort|cupy-fft|xgboost|jax"""
import sys

import numpy as np

NUMBERS = np.random.default_rng(7)


def check(condition):
    if not condition:
        sys.exit(f"{sys.argv[1]}: a wrong result")


def cupy_sort():
    import cupy
    values = NUMBERS.random(20000).astype(np.float32)
    on_device = cupy.asarray(values)
    check((cupy.sort(on_device).get() == np.sort(values)).all())
    check((values[cupy.argsort(on_device).get()] == np.sort(values)).all())
    check(np.allclose(cupy.cumsum(on_device).get(), np.cumsum(values), rtol=1e-3))


def cupy_fft():
    import cupy
    values = NUMBERS.random((64, 1000)) + 1j * NUMBERS.random((64, 1000))
    check(np.allclose(cupy.fft.fft(cupy.asarray(values)).get(), np.fft.fft(values)))
    check(np.allclose(cupy.fft.rfft(cupy.asarray(values.real)).get(), np.fft.rfft(values.real)))


def xgboost():
    import xgboost as x
    features = NUMBERS.random((2000, 10)).astype(np.float32)
    labels = features @ NUMBERS.random(10) + 0.1 * NUMBERS.random(2000)
    errors = {}
    for device in ("cpu", "cuda"):
        settings = {"device": device, "tree_method": "hist", "max_depth": 4, "seed": 1}
        x.train(settings, x.DMatrix(features, labels), 10, [(x.DMatrix(features, labels), "train")], evals_result=errors.setdefault(device, {}),
                verbose_eval=False)
    check(np.allclose(errors["cpu"]["train"]["rmse"], errors["cuda"]["train"]["rmse"], rtol=1e-2))


def jax():
    import jax
    import jax.numpy as jnp
    features, labels = NUMBERS.random((256, 32)).astype(np.float32), NUMBERS.random((256, 1)).astype(np.float32)
    first, second = NUMBERS.random((32, 64)).astype(np.float32) * 0.1, NUMBERS.random((64, 1)).astype(np.float32) * 0.1

    def loss(weights):
        return jnp.mean((jnp.tanh(features @ weights[0]) @ weights[1] - labels) ** 2)

    @jax.jit
    def step(weights):
        value, slopes = jax.value_and_grad(loss)(weights)
        return value, [w - 0.01 * slope for w, slope in zip(weights, slopes)]

    losses = {}
    for device in (jax.devices("cpu")[0], jax.devices("gpu")[0]):
        with jax.default_device(device):
            weights = [jnp.asarray(first), jnp.asarray(second)]
            for _ in range(20):
                value, weights = step(weights)
            losses[device.platform] = float(value)
    check(np.isclose(losses["cpu"], losses["gpu"], rtol=1e-2))


{"cupy-sort": cupy_sort, "cupy-fft": cupy_fft, "xgboost": xgboost, "jax": jax}[sys.argv[1]]()
