#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A network trained data-parallel by train_images --training.strategy=allreduce and by PyTorch's
DistributedDataParallel over gloo: the same first weights, the same batches of each member, one
thread for each, in turns. Prints the time of a step of both (the first step of each run is not
counted), their ratio, and how far the losses are apart.

    pip install torch && python3 tests/bench/compare_ddp.py --program build/examples/train_images
    --data DIR [--network mlp-4096x4] [--devices 2] [--rows 64] [--steps 20] [--rounds 2]

DIR holds the four files of MNIST.
"""
import argparse
import csv
import gzip
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

MASK = (1 << 64) - 1
MEAN, DEVIATION = 0.1307, 0.3081


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--network", default="mlp-4096x4")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--learn-rate", type=float, default=0.01)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    return parser.parse_args()


# ---------------------------------------------------------------- the program's order of the data


def mix(state):
    """SplitMix64: the next state, and a number."""
    state = (state + 0x9e3779b97f4a7c15) & MASK
    z = (state ^ state >> 30) * 0xbf58476d1ce4e5b9 & MASK
    z = (z ^ z >> 27) * 0x94d049bb133111eb & MASK
    return state, z ^ z >> 31


def numbers(seed, stream):
    """Xoshiro256++, as ml/random.h has it."""
    def rotate(x, k):
        return (x << k | x >> (64 - k)) & MASK

    state = mix(seed)[1] ^ stream
    s = []
    for _ in range(4):
        state, number = mix(state)
        s.append(number)
    while True:
        yield (rotate((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = s[1] << 17 & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)


def order_of(count, seed, stream):
    """The order of the first pass, as ml/image_batches.c draws it."""
    drawn = numbers(mix(seed)[1], stream)
    order = list(range(count))
    for i in range(count, 1, -1):
        j = (next(drawn) >> 32) * i >> 32
        order[i - 1], order[j] = order[j], order[i - 1]
    return order


def batch_stream():
    """CRTI_STREAM_BATCHES, as the source has it."""
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "../../ml/model.h"), encoding="utf-8") as file:
        found = re.search(r"CRTI_STREAM_BATCHES\D+(\d+)", file.read())
    return int(found[1])


# ---------------------------------------------------------------- PyTorch


def read_idx(folder, name):
    import numpy as np
    path = os.path.join(folder, name)
    with (open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz", "rb")) as file:
        data = file.read()
    return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * data[3])


def read_weights(folder):
    """Of a checkpoint: the floats of the network."""
    import numpy as np
    path, = [name for name in os.listdir(folder) if name.endswith(".checkpoint")]
    with open(os.path.join(folder, path), "rb") as file:
        data = file.read()
    at = 136
    arrays, floats = struct.unpack_from("<IQ", data, at + 12)
    return np.frombuffer(data, dtype=np.float32, count=floats, offset=at + 24 + 8 * arrays)


def network(name):
    from torch import nn
    width, depth = (int(n) for n in re.fullmatch(r"mlp-(\d+)x(\d+)", name).groups())
    layers, inputs = [nn.Flatten()], 784
    for _ in range(depth):
        layers += [nn.Linear(inputs, width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Linear(inputs, 10))


def run_member(rank, options):
    import numpy as np
    import torch
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(options.port))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=options.devices)
    images = read_idx(options.data, "train-images-idx3-ubyte").reshape(-1, 784)
    labels = read_idx(options.data, "train-labels-idx1-ubyte")
    order = np.array(order_of(len(labels), options.seed, batch_stream()))
    model, at = network(options.network), 0
    flat = torch.from_numpy(read_weights(options.folder).copy())
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(flat[at:at + p.numel()].view_as(p))
            at += p.numel()
    assert at == flat.numel(), (at, flat.numel())
    del flat
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learn_rate,
                                momentum=options.momentum)
    loss_of = torch.nn.CrossEntropyLoss()
    losses, ends = [], []
    for step in range(options.steps):
        first = (step * options.devices + rank) * options.rows
        rows = order[first:first + options.rows]
        x = torch.from_numpy((images[rows].astype(np.float32) / 255 - MEAN) / DEVIATION)
        y = torch.from_numpy(labels[rows].astype(np.int64))
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        ends.append(time.monotonic())
    every = torch.tensor(losses)
    torch.distributed.all_reduce(every)
    if rank == 0:
        for loss in (every / options.devices).tolist():
            print(f"loss {loss:.6f}")
        print(f"seconds {ends[-1] - ends[0]:.6f}", flush=True)
    torch.distributed.destroy_process_group()


def run_torch(options):
    import socket

    import torch.multiprocessing
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        options.port = free.getsockname()[1]
    torch.multiprocessing.spawn(run_member, (options, ), options.devices)


def torch_figures(folder):
    """(losses of the steps, seconds behind the first step)"""
    done = subprocess.run([sys.executable, *sys.argv, "--folder", folder], check=True, text=True,
                          stdout=subprocess.PIPE)
    lines = [line.split() for line in done.stdout.splitlines()]
    return ([float(line[1]) for line in lines if line[0] == "loss"],
            [float(line[1]) for line in lines if line[0] == "seconds"][0])


# ---------------------------------------------------------------- ours


def network_flags(name):
    width, depth = re.fullmatch(r"mlp-(\d+)x(\d+)", name).groups()
    if name == "mlp-4096x4":
        return [f"--network.name={name}"]
    return [
        "--network.name=mlp", f"--network.hidden={width}", f"--network.depth={depth}",
        "--network.dropout=0"
    ]


def command(options, *more):
    return [
        options.program, "train", *network_flags(options.network),
        f"--data.source={options.data}", f"--data.batch={options.rows}", "--data.ahead=0",
        "--training.strategy=allreduce", "--accelerator=cpu", f"--devices={options.devices}",
        f"--training.seed={options.seed}", "--training.validation=0", "--training.test=false",
        f"--optimizer.momentum={options.momentum}", *more
    ]


def write_first_weights(options, folder):
    """A step that changes nothing, and its checkpoint."""
    subprocess.run(command(options, "--training.steps=1", "--optimizer.learn_rate=0",
                           f"--checkpoints.folder={folder}"), check=True,
                   stdout=subprocess.DEVNULL)


def our_figures(options, folder):
    """([(last step, mean loss)], seconds behind the first step)"""
    path = os.path.join(folder, "ours.csv")
    subprocess.run(command(options, f"--training.steps={options.steps}",
                           f"--optimizer.learn_rate={options.learn_rate}",
                           f"--output.csv={path}"), check=True, stdout=subprocess.DEVNULL)
    with open(path, encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["phase"] == "train"]
    assert int(rows[0]["step"]) == 1 and int(rows[-1]["step"]) == options.steps, rows
    return ([(int(row["step"]), float(row["loss"])) for row in rows],
            float(rows[-1]["seconds"]) - float(rows[0]["seconds"]))


def worst(ours, theirs):
    """How far the means of the same steps are apart, and the rows."""
    rows, before = [], 0
    for step, loss in ours:
        other = statistics.mean(theirs[before:step])
        rows.append((before + 1, step, loss, other, abs(loss / other - 1)))
        before = step
    return max(row[4] for row in rows), rows


def main():
    options = arguments()
    if options.folder:
        return run_torch(options)
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        write_first_weights(options, folder)
        for number in range(options.rounds):
            theirs = torch_figures(folder)
            ours = our_figures(options, folder)
            steps = options.steps - 1
            ratios.append(ours[1] / theirs[1])
            print(f"round {number + 1}: a step {ours[1] / steps * 1e3:.1f} ms, PyTorch "
                  f"{theirs[1] / steps * 1e3:.1f} ms: {ratios[-1]:.3f} of its time", flush=True)
        apart, rows = worst(ours[0], theirs[0])
    for first, last, loss, other, off in rows:
        print(f"steps {first} to {last}: loss {loss:.4f}, PyTorch {other:.4f}, {100 * off:.2f} %")
    print(f"{options.network}, {options.devices} members of one thread, batches of {options.rows}: "
          f"median {statistics.median(ratios):.3f} of PyTorch's time, losses at most "
          f"{100 * apart:.2f} % apart")


if __name__ == "__main__":
    main()
