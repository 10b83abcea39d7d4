#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/ml/recorded.h: reference numbers in float64, computed with numpy.

    pip install numpy && python3 tests/ml/record.py > tests/ml/recorded.h

The C tests read the header only. The formulas are written out here a second time on purpose and
share nothing with ml/. Weights, inputs and gradients come from wave(), which both sides compute.
"""
import numpy as np

WIDTHS = [5, 4, 3, 3]
ROWS = 6


def wave(count, step, size):
    return size * np.sin(step * (np.arange(count, dtype=np.float64) + 1))


def emit(name, values):
    values = np.asarray(values, dtype=np.float64).ravel()
    print(f"static const double {name}[{len(values)}] = {{")
    for i in range(0, len(values), 4):
        print("    " + ", ".join(f"{v:.15e}" for v in values[i:i + 4]) + ",")
    print("};\n")


def split(flat):
    """W and b of each layer."""
    at, layers = 0, []
    for n_in, n_out in zip(WIDTHS, WIDTHS[1:]):
        w = flat[at:at + n_out * n_in].reshape(n_out, n_in)
        at += n_out * n_in
        layers.append((w, flat[at:at + n_out]))
        at += n_out
    assert at == len(flat)
    return layers


def passes(flat, x, labels):
    """Probabilities, loss and gradient of the perceptron without dropout."""
    layers = split(flat)
    acts = [x]
    for i, (w, b) in enumerate(layers):
        y = acts[-1] @ w.T + b
        acts.append(np.maximum(y, 0) if i < len(layers) - 1 else y)
    e = np.exp(acts[-1] - acts[-1].max(axis=1, keepdims=True))
    p = e / e.sum(axis=1, keepdims=True)
    loss = -np.log(p[np.arange(len(x)), labels]).mean()
    d = (p - np.eye(WIDTHS[-1])[labels]) / len(x)
    parts = []
    for i in range(len(layers) - 1, -1, -1):
        if i < len(layers) - 1:
            d = d * (acts[i + 1] > 0)
        parts = [(d.T @ acts[i]).ravel(), d.sum(axis=0)] + parts
        d = d @ layers[i][0]
    return p, loss, np.concatenate(parts)


def arrays(count):
    """The slices of W and b in the flat buffer."""
    at = 0
    for n_in, n_out in zip(WIDTHS, WIDTHS[1:]):
        yield slice(at, at + n_out * n_in)
        at += n_out * n_in
        yield slice(at, at + n_out)
        at += n_out


def clipped(g, limit):
    norm = np.sqrt((g * g).sum())
    return g * (limit / norm) if limit > 0 and norm >= limit else g


def adam(steps, clip, l2, decoupled, size, rate=0.01, b1=0.9, b2=0.999, eps=1e-8):
    w = wave(PARAMETERS, 0.7, 0.5)
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t in range(1, steps + 1):
        g = wave(PARAMETERS, 0.3 + 0.1 * t, size)
        for s in arrays(PARAMETERS):
            gs = clipped(g[s] + (0 if decoupled else l2 * w[s]), clip)
            m[s] = b1 * m[s] + (1 - b1) * gs
            v[s] = b2 * v[s] + (1 - b2) * gs * gs
            lr = rate * np.sqrt(1 - b2 ** t) / (1 - b1 ** t)
            w[s] -= lr * m[s] / (np.sqrt(v[s]) + eps)
            if decoupled:
                w[s] -= rate * l2 * w[s]
    return w


def sgd(steps, momentum, size, rate=0.05):
    w = wave(PARAMETERS, 0.7, 0.5)
    v = np.zeros_like(w)
    for t in range(1, steps + 1):
        v = momentum * v + wave(PARAMETERS, 0.3 + 0.1 * t, size)
        w -= rate * v
    return w


PARAMETERS = sum(o * i + o for i, o in zip(WIDTHS, WIDTHS[1:]))
X = wave(ROWS * WIDTHS[0], 1.3, 1.0).reshape(ROWS, WIDTHS[0])
LABELS = np.arange(ROWS) % WIDTHS[-1]
P, LOSS, GRADIENT = passes(wave(PARAMETERS, 0.7, 0.9), X, LABELS)

print("/* SPDX-License-Identifier: Apache-2.0 */")
print("/* Made by tests/ml/record.py in float64; not edited by hand. */")
print("#ifndef CRTI_TESTS_ML_RECORDED_H\n#define CRTI_TESTS_ML_RECORDED_H\n")
print("static const int recorded_widths[] = {" + ", ".join(map(str, WIDTHS)) + ", 0};")
print(f"enum {{ RECORDED_ROWS = {ROWS}, RECORDED_PARAMETERS = {PARAMETERS} }};\n")
emit("recorded_probabilities", P)
emit("recorded_loss", [LOSS])
emit("recorded_gradient", GRADIENT)
# Small gradients stay below the clip of 1.0, large ones reach it in the larger arrays.
emit("recorded_adam_small", adam(5, 1.0, 0.0, True, 0.05))
emit("recorded_adam_clipped", adam(5, 1.0, 0.0, True, 3.0))
emit("recorded_adam_decay", adam(5, 1.0, 0.01, True, 0.4))
emit("recorded_adam_l2", adam(5, 1.0, 0.01, False, 0.4))
emit("recorded_sgd", sgd(5, 0.9, 0.3))
print("#endif")
