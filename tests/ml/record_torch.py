#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/ml/recorded_torch.h: layers, steps of optimizers and schedules as PyTorch computes
them.

    pip install torch && python3 tests/ml/record_torch.py > tests/ml/recorded_torch.h

The C tests read the header only. Weights, inputs and gradients come from wave(), which both sides
compute. Images are channels last on our side, so they are turned here.
"""
import numpy as np
import torch


def wave(count, step, size):
    return (size * np.sin(step * (np.arange(count, dtype=np.float64) + 1))).astype("float32")


def emit(name, values):
    values = np.asarray(values, dtype=np.float64).ravel()
    print(f"static const double {name}[{len(values)}] = {{")
    for i in range(0, len(values), 6):
        print("    " + ", ".join(f"{v:.8e}" for v in values[i:i + 6]) + ",")
    print("};\n")


def optimizer(name, kind, clip=0, **options):
    """Weights after 8 steps, like check_steps of test_recorded_steps.c."""
    w = torch.nn.Parameter(torch.from_numpy(wave(23, 0.7, 0.5)))
    o = kind([w], **options)
    for t in range(1, 9):
        w.grad = torch.from_numpy(wave(23, 0.3 + 0.1 * t, 0.4))
        if clip:
            torch.nn.utils.clip_grad_norm_([w], clip)
        o.step()
    emit(f"torch_{name}", w.detach().numpy())


def schedule(name, kind, **options):
    o = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.2)
    s, values = kind(o, **options), []
    for _ in range(10):
        values.append(o.param_groups[0]["lr"])
        o.step()
        s.step()
    emit(f"torch_{name}", values)


def turned(x):
    """(samples, channels, rows, columns) with channels last."""
    return x.permute(0, 2, 3, 1) if x.dim() == 4 else x


def layer(name, model, shape):
    """Outputs and gradients of a layer in training, then outputs with the statistics it has
    gathered."""
    n, h, w, c = shape
    flat, at = wave(sum(p.numel() for p in model.parameters()), 0.9, 0.5), 0
    for p in model.parameters():
        p.data = torch.from_numpy(flat[at:at + p.numel()]).reshape(p.shape)
        at += p.numel()
    x = torch.from_numpy(wave(n * h * w * c, 1.7, 1.0)).reshape(n, h, w, c).requires_grad_()
    y = turned(model(x.permute(0, 3, 1, 2)))
    y.backward(torch.from_numpy(wave(y.numel(), 0.6, 1.0)).reshape(y.shape))
    emit(f"torch_{name}_outputs", y.detach().numpy())
    if flat.size:
        emit(f"torch_{name}_gradients",
             np.concatenate([p.grad.numpy().ravel() for p in model.parameters()]))
    emit(f"torch_{name}_d_inputs", x.grad.numpy())
    statistics = [b for b in model.buffers() if b.dim()]
    if statistics:
        emit(f"torch_{name}_statistics", np.concatenate([b.numpy() for b in statistics]))
        emit(f"torch_{name}_evaluated",
             turned(model.eval()(x.permute(0, 3, 1, 2))).detach().numpy())


class Patches(torch.nn.Module):
    """b c (h p1) (w p2) -> b (h w) (p1 p2 c)"""

    def forward(self, x):
        n, c, h, w = x.shape
        return x.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 3, 5,
                                                             1).reshape(n, h * w // 4, 4 * c)


class Tokens(torch.nn.Module):
    """A learnt token at the end, a learnt position for each."""

    def __init__(self, places, width):
        super().__init__()
        self.token = torch.nn.Parameter(torch.zeros(1, 1, width))
        self.positions = torch.nn.Parameter(torch.zeros(1, places + 1, width))

    def forward(self, x):
        return torch.cat([x, self.token.expand(x.shape[0], 1, -1)], 1) + self.positions


class Attention(torch.nn.Module):
    """Of queries, keys and values side by side."""

    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def forward(self, x):
        n, places, width = x.shape
        q, k, v = (part.reshape(n, places, self.heads, -1).transpose(1, 2)
                   for part in x.chunk(3, 2))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return y.transpose(1, 2).reshape(n, places, width // 3)


class Encoder(torch.nn.TransformerEncoderLayer):
    """With its parameters in the order in which they are used."""

    def parameters(self):
        a = self.self_attn
        rest = [a.in_proj_weight, a.in_proj_bias, *a.out_proj.parameters()]
        return [
            *self.norm1.parameters(), *rest, *self.norm2.parameters(), *self.linear1.parameters(),
            *self.linear2.parameters()
        ]


class OfRows(torch.nn.Module):
    """What reads (samples, places, channels), given images."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def parameters(self):
        return list(self.inner.parameters())

    def forward(self, x):
        return self.inner(x.permute(0, 2, 3, 1).flatten(1, 2))


print("/* SPDX-License-Identifier: Apache-2.0 */")
print(
    f"/* Made by tests/ml/record_torch.py with PyTorch {torch.__version__}; not edited by hand. */")
print("/* clang-format off */")
print("#ifndef CRTI_TESTS_ML_RECORDED_TORCH_H\n#define CRTI_TESTS_ML_RECORDED_TORCH_H\n")
optimizer("sgd", torch.optim.SGD, lr=0.05, momentum=0.9, weight_decay=0.1)
optimizer("nesterov", torch.optim.SGD, lr=0.05, momentum=0.9, nesterov=True)
optimizer("clipped", torch.optim.SGD, clip=0.5, lr=0.05, momentum=0.9)
optimizer("adamw", torch.optim.AdamW, lr=0.01, weight_decay=0.1, eps=1e-2)
optimizer("adam", torch.optim.Adam, lr=0.01, eps=1e-2)
schedule("cosine", torch.optim.lr_scheduler.CosineAnnealingLR, T_max=9, eta_min=0.05)
schedule("step", torch.optim.lr_scheduler.StepLR, step_size=3, gamma=0.5)
layer("convolution", torch.nn.Conv2d(2, 3, 3, stride=2, padding=1), (2, 5, 6, 2))
layer("plain", torch.nn.Conv2d(3, 2, 2, bias=False), (2, 4, 4, 3))
layer("max_pool", torch.nn.MaxPool2d(3, stride=2, padding=1), (2, 5, 5, 2))
layer("average_pool", torch.nn.AvgPool2d(2), (2, 4, 5, 2))
layer("batch_norm", torch.nn.BatchNorm2d(3), (2, 3, 4, 3))
layer("patches", Patches(), (2, 4, 6, 3))
layer("tokens", OfRows(Tokens(6, 3)), (2, 2, 3, 3))
layer("attention", OfRows(Attention(2)), (2, 1, 5, 12))
layer("gelu", torch.nn.GELU(), (2, 3, 4, 2))
layer("layer_norm", OfRows(torch.nn.LayerNorm(5)), (2, 2, 3, 5))
layer("encoder", OfRows(Encoder(8, 2, 12, dropout=0.0, norm_first=True, batch_first=True)),
      (2, 1, 5, 8))
layer("gelu_encoder",
      OfRows(Encoder(8, 4, 12, dropout=0.0, norm_first=True, batch_first=True, activation="gelu")),
      (2, 1, 5, 8))
print("#endif")
