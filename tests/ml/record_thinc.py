#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/ml/recorded_thinc.h: outputs and gradients of layers as Thinc computes them.

    pip install thinc && python3 tests/ml/record_thinc.py > tests/ml/recorded_thinc.h

The C tests read the header only. Weights, inputs and gradients come from wave(), which both sides
compute; of hash embeddings the keys are i * 0x9e3779b97f4a7c15.
"""
import numpy as np
from thinc.api import (Maxout, LayerNorm, HashEmbed, NumpyOps, Ragged, chain, concatenate,
                       expand_window, residual, with_array, RAdam)
import thinc
from thinc import schedules

OPS = NumpyOps()


def wave(count, step, size):
    return (size * np.sin(step * (np.arange(count, dtype=np.float64) + 1))).astype("float32")


def emit(name, values):
    values = np.asarray(values, dtype=np.float64).ravel()
    print(f"static const double {name}[{len(values)}] = {{")
    for i in range(0, len(values), 6):
        print("    " + ", ".join(f"{v:.8e}" for v in values[i:i + 6]) + ",")
    print("};\n")


def params_of(model):
    """Leaf layers in the order in which ours hold their parameters."""
    return [(node, name) for node in model.walk(order="dfs_pre") for name in ("E", "W", "G", "b")
            if node.has_param(name)]


def fill(model):
    """Weights from one wave through all arrays."""
    total = sum(node.get_param(name).size for node, name in params_of(model))
    flat, at = wave(total, 0.9, 0.5), 0
    for node, name in params_of(model):
        old = node.get_param(name)
        node.set_param(name, flat[at:at + old.size].reshape(old.shape))
        at += old.size


def gradients_of(model):
    return np.concatenate([node.get_grad(name).ravel() for node, name in params_of(model)])


def record(name, model, x, width):
    model.initialize(X=x)
    fill(model)
    y, back = model(x, is_train=True)
    data = y.data if isinstance(y, Ragged) else y
    dy = wave(data.size, 0.6, 1.0).reshape(data.shape)
    dx = back(Ragged(dy, y.lengths) if isinstance(y, Ragged) else dy)
    emit(f"thinc_{name}_outputs", data)
    emit(f"thinc_{name}_gradients", gradients_of(model))
    if dx is not None:
        emit(f"thinc_{name}_d_inputs", dx.data if isinstance(dx, Ragged) else dx)


def keys(rows, columns):
    with np.errstate(over="ignore"):
        return (np.arange(1, rows * columns + 1, dtype="uint64")
                * np.uint64(0x9e3779b97f4a7c15)).reshape(rows, columns)


def radam(steps, size):
    """Weights and averages after some steps on one array that is never clipped and one that is."""
    optimizer = RAdam(0.01, L2=0.01, beta2=0.9)
    weights = [wave(20, 0.7, 0.5), wave(3, 0.2, 0.5)]
    for t in range(1, steps + 1):
        gradient = wave(23, 0.3 + 0.1 * t, size)
        for k, part in enumerate((gradient[:20], gradient[20:])):
            weights[k], _ = optimizer((k, "W"), weights[k], part.copy())
    emit("thinc_radam_weights", np.concatenate(weights))
    emit("thinc_radam_averages", np.concatenate([optimizer.averages[k, "W"] for k in (0, 1)]))


def schedule(name, steps):
    values = [float(v) for v, _ in zip(steps, range(12))]
    emit(f"thinc_{name}", values)


print("/* SPDX-License-Identifier: Apache-2.0 */")
print(f"/* Made by tests/ml/record_thinc.py with Thinc {thinc.__version__}; not edited by hand. */")
print("/* clang-format off */")
print("#ifndef CRTI_TESTS_ML_RECORDED_THINC_H\n#define CRTI_TESTS_ML_RECORDED_THINC_H\n")

X = wave(6 * 4, 1.7, 1.0).reshape(6, 4)
record("maxout", Maxout(3, 4, nP=3), X, 3)
record("norm", LayerNorm(4), X, 4)
record("embed", HashEmbed(5, 7, seed=8, column=1), keys(6, 2), 5)
# Two sequences of 4 and 2 rows, a residual block as in spaCy's MaxoutWindowEncoder.
BLOCK = residual(chain(expand_window(1), with_array(chain(Maxout(4, 12, nP=2), LayerNorm(4)))))
record("block", BLOCK, Ragged(X, np.array([4, 2], dtype="int32")), 4)
# The embeddings of a Tok2Vec: two keys, side by side, mixed.
record(
    "mixed",
    chain(concatenate(HashEmbed(3, 5, seed=8, column=0), HashEmbed(3, 4, seed=9, column=1)),
          Maxout(4, 6, nP=2), LayerNorm(4)), keys(6, 2), 4)
radam(12, 0.4)
schedule("compounding", schedules.compounding(1.0, 10.0, 1.5))
schedule("warmup_linear", schedules.warmup_linear(0.1, 4, 10))
print("#endif")
