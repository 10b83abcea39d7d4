#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_train_images_gpu.py TRAIN_IMAGES

The image training with its workers on a GPU, beside the same on the CPU: the losses of the first
steps, of a perceptron, of a network with batch norms, and of two workers that share the GPU. Exits
with 77 where there is none: then it is refused by name.
"""
import csv
import glob
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
CASES = [  # what is trained, and how far a loss may be from the CPU's
    (["--network.hidden=24", "--network.dropout=0", "--data.limit=600", "--data.batch=16"], 1e-4),
    (["--network.name=resnet20", "--data.format=cifar10", "--data.limit=64",
      "--data.batch=8"], 1e-2),
]


def train(*args, expect=0):
    done = subprocess.run([
        PROGRAM, "train", "--data.test_limit=50", "--training.steps=6", "--training.seed=3", *args
    ], capture_output=True, text=True, timeout=300)
    assert done.returncode == expect, (args, done.returncode, done.stdout, done.stderr)
    return done


def losses(path, *args):
    train(f"--output.csv={path}", *args)
    with open(path, encoding="utf-8") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def a_gpu_gives_the_losses_of_the_cpu(folder):
    for args, limit in CASES:
        for workers in (["--training.workers=1"],
                        ["--training.workers=2", "--training.num_gpus=0.5"]):
            host = losses(f"{folder}/host.csv", *args, workers[0])
            gpu = losses(f"{folder}/gpu.csv", *args, *workers, "--training.device=gpu")
            print(args[0], workers[0], host, gpu)
            assert len(host) == len(gpu) == 6
            assert all(abs(a - b) <= limit * abs(a)
                       for a, b in zip(host, gpu)), (args, workers, host, gpu)


if not glob.glob("/dev/nvidia[0-9]*"):
    done = train("--data.limit=64", "--training.device=gpu", expect=1)
    assert "needs 1 GPU, the cluster has 0" in done.stderr, done
    sys.exit(77)
with tempfile.TemporaryDirectory() as where:
    a_gpu_gives_the_losses_of_the_cpu(where)
