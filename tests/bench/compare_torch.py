#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ResNet-18 on CIFAR-10 images, by PyTorch and by build/tests/bench/network_steps: the same first
weights and the same batches. Prints the largest difference of the losses, the median time of a step
and the most memory of each. With --control also how far PyTorch is from itself when its images lie
channels last: rounding alone drives two runs apart, the faster the larger the learn rate (at 0.01
by 5 % in ten steps), so the default is a small one.

With --gpu-id both are on that GPU, with products of float32, or of TF32 or float16 (autocast,
channels last) on request; PyTorch's cuDNN searches for its algorithms, as ours does. Then PyTorch's
steps are timed twice: with the loss of each step read, and as fast as it can go.

    pip install torch && python3 tests/bench/compare_torch.py --program
    build/tests/bench/network_steps --data DIR

DIR holds train.bin or train.bin.gz: records of a label and 3072 bytes, a colour after the other.
With --network vit no data are needed: the images are noise around one of each class. The losses
differ there, because each drops out other numbers.
"""
import argparse
import gzip
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--network", choices=("resnet18", "vit"), default="resnet18")
    parser.add_argument("--data")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--learn-rate", type=float, default=0.0003)
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--gpu-id", type=int)
    parser.add_argument("--precision", choices=("float32", "tf32", "mixed"), default="float32")
    parser.add_argument("--channels-last", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.network == "resnet18" and not options.data:
        parser.error("resnet18 needs --data")
    return options


def network():
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self, inputs, outputs, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.shortcut = nn.Sequential()
            if stride != 1 or inputs != outputs:
                self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                              nn.BatchNorm2d(outputs))

        def forward(self, x):
            y = functional.relu(self.bn1(self.conv1(x)))
            return functional.relu(self.bn2(self.conv2(y)) + self.shortcut(x))

    widths, blocks, inputs = (64, 128, 256, 512), [], 64
    for i, width in enumerate(widths):
        blocks += [Block(inputs, width, 1 if i == 0 else 2), Block(width, width, 1)]
        inputs = width
    return nn.Sequential(nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(),
                         *blocks, nn.AvgPool2d(4), nn.Flatten(), nn.Linear(512, 10))


def vit():
    """As crt_network_by_name builds it; the token is the last place."""
    import torch
    from torch import nn

    class Vit(nn.Module):
        def __init__(self, side=4, width=32, depth=4, heads=8):
            super().__init__()
            self.side = side
            self.norm0, self.embed = nn.LayerNorm(side * side), nn.Linear(side * side, width)
            self.norm1 = nn.LayerNorm(width)
            self.token = nn.Parameter(torch.randn(1, 1, width))
            self.places = nn.Parameter(torch.randn(1, (28 // side)**2 + 1, width))
            self.blocks = nn.ModuleList(
                nn.TransformerEncoderLayer(width, heads, 8 * width, 0.1, norm_first=True,
                                           batch_first=True) for _ in range(depth))
            self.head = nn.Linear(width, 10)

        def forward(self, x):
            across = x.shape[-1] // self.side
            x = x.reshape(-1, across, self.side, across, self.side).transpose(2, 3)
            x = x.reshape(-1, across * across, self.side * self.side)
            x = self.norm1(self.embed(self.norm0(x)))
            x = torch.cat((x, self.token.expand(len(x), -1, -1)), 1) + self.places
            for block in self.blocks:
                x = block(x)
            return self.head(x.mean(1))

    return Vit()


def in_our_order(model, name):
    """The parameters as crt_model_weights has them."""
    if name != "vit":
        return list(model.parameters())

    def both(layer):
        return [layer.weight, layer.bias]

    found = both(model.norm0) + both(model.embed) + both(model.norm1) + [model.token, model.places]
    for block in model.blocks:
        found += both(block.norm1)
        found += [block.self_attn.in_proj_weight, block.self_attn.in_proj_bias]
        found += both(block.self_attn.out_proj) + both(block.norm2)
        found += both(block.linear1) + both(block.linear2)
    return found + both(model.head)


def noise(options):
    import numpy as np
    random = np.random.default_rng(1)
    classes = random.standard_normal((10, 28, 28, 1), dtype=np.float32)
    for _ in range(options.steps):
        labels = random.integers(0, 10, options.rows, dtype=np.uint8)
        yield classes[labels] + random.standard_normal((options.rows, 28, 28, 1),
                                                       dtype=np.float32), labels


def batches(options):
    if options.network == "vit":
        yield from noise(options)
        return
    """(inputs channels last, labels), float32 and uint8."""
    import numpy as np
    path = os.path.join(options.data, "train.bin")
    with (open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz", "rb")) as file:
        records = np.frombuffer(file.read(), dtype=np.uint8).reshape(-1, 3073)
    mean = np.array([125.3, 123.0, 113.9], dtype=np.float32)
    deviation = np.array([63.0, 62.1, 66.7], dtype=np.float32)
    for i in range(options.steps):
        rows = records[np.arange(i * options.rows, (i + 1) * options.rows) % len(records)]
        images = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        yield (np.ascontiguousarray((images.astype(np.float32) - mean) / deviation), rows[:,
                                                                                          0].copy())


def run_torch(options):
    """In a process of its own: writes weights and batches, then trains."""
    import numpy as np
    import torch
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = vit() if options.network == "vit" else network()
    flat = np.concatenate(
        [p.detach().numpy().ravel() for p in in_our_order(model, options.network)])
    flat.tofile(os.path.join(options.folder, "weights"))
    loss_of = torch.nn.CrossEntropyLoss()
    with open(os.path.join(options.folder, "batches"), "wb") as file:
        for inputs, labels in batches(options):
            file.write(inputs.tobytes() + labels.tobytes())
    del flat
    channels_last = options.channels_last or options.precision == "mixed"
    channels_last = channels_last and options.network != "vit"
    layout = torch.channels_last if channels_last else torch.contiguous_format
    device = torch.device("cpu" if options.gpu_id is None else f"cuda:{options.gpu_id}")
    torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
    torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    torch.backends.cudnn.benchmark = True
    model = model.to(device, memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learn_rate, momentum=0.9)

    scaler = torch.amp.GradScaler(device.type, enabled=options.precision == "mixed")

    def step(inputs, labels):
        x = torch.from_numpy(inputs).to(device).permute(0, 3, 1, 2).contiguous(memory_format=layout)
        y = torch.from_numpy(labels).to(device).long()
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.float16, enabled=options.precision == "mixed"):
            loss = loss_of(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    for i, (inputs, labels) in enumerate(batches(options)):
        begin = time.monotonic()
        loss = step(inputs, labels).item()
        print(f"step {i} loss {loss:.6f} ms {(time.monotonic() - begin) * 1e3:.2f}")
    print(f"memory kB {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}")
    if options.gpu_id is not None:
        again = list(batches(options))
        torch.cuda.synchronize()
        begin = time.monotonic()
        for inputs, labels in again:
            step(inputs, labels)
        torch.cuda.synchronize()
        print(f"unread ms {(time.monotonic() - begin) * 1e3 / len(again):.2f}")


def read(text):
    lines = [line.split() for line in text.splitlines()]
    steps = [line for line in lines if line[0] == "step"]
    memory = [int(line[2]) for line in lines if line[0] == "memory"]
    unread = [float(line[2]) for line in lines if line[0] == "unread"]
    return [float(s[3]) for s in steps], statistics.median(float(s[5])
                                                           for s in steps), memory[0], unread


def worst(a, b):
    def of(size):
        means = [[statistics.mean(x[i:i + size]) for i in range(0, len(x), size)] for x in (a, b)]
        return max(abs(x / y - 1) for x, y in zip(*means)) * 100

    return f"{of(1):.2f} % of one step, {of(10):.2f} % of the mean of ten"


def main():
    options = arguments()
    if options.folder:
        return run_torch(options)
    with tempfile.TemporaryDirectory() as folder:
        again = [sys.executable] + sys.argv + ["--folder", folder]
        theirs = read(subprocess.run(again, check=True, text=True, stdout=subprocess.PIPE).stdout)
        if options.control:
            control = read(subprocess.run(again + ["--channels-last"], check=True, text=True,
                                          stdout=subprocess.PIPE).stdout)
        ours = read(
            subprocess.run([
                options.program, "--network", options.network, "--weights", f"{folder}/weights",
                "--batches", f"{folder}/batches", "--rows",
                str(options.rows), "--steps",
                str(options.steps), "--threads",
                str(options.threads), "--learn-rate",
                str(options.learn_rate), "--precision", options.precision
            ] + ([] if options.gpu_id is None else ["--gpu-id", str(options.gpu_id)]), check=True,
                           text=True, stdout=subprocess.PIPE).stdout)
    for i in range(0, options.steps, 10):
        print(f"step {i}: loss {ours[0][i]:.4f}, PyTorch {theirs[0][i]:.4f}")
    print(f"largest difference of a loss: {worst(ours[0], theirs[0])}")
    if options.control:
        print(
            f"of PyTorch with itself, channels last: {worst(control[0], theirs[0])}, step "
            f"{control[1]:.2f} ms, memory {control[2] / 1024:.0f} MiB")
    print(
        f"mean of the losses: {statistics.mean(ours[0]):.4f}, PyTorch "
        f"{statistics.mean(theirs[0]):.4f}"
    )
    print(
        f"median step: {ours[1]:.2f} ms, PyTorch {theirs[1]:.2f} ms: {ours[1] / theirs[1]:.2f} of "
        "its time"
    )
    if theirs[3]:
        print(
            f"PyTorch's step when nobody reads its losses: {theirs[3][0]:.2f} ms: ours is "
            f"{ours[1] / theirs[3][0]:.2f} of it"
        )
    print(
        f"most memory: {ours[2] / 1024:.0f} MiB, PyTorch {theirs[2] / 1024:.0f} MiB: "
        f"{ours[2] / theirs[2]:.2f} of it"
    )


main()
