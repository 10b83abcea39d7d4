#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a straggler costs train_images: one worker of five slowed tenfold, a step waits for four of
five (one backup).

    tests/bench/straggler.py --program build/examples/train_images [--data DIR with MNIST] [--rounds
    3]

Prints steps per second and accuracy, medians of rounds that take turns: four undisturbed workers of
whom all are waited for; five of whom the first four count; the same with a slow one; and five with
a slow one who are all waited for.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile

ISOLATED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools", "isolated.py")
WAITS = "5 of 5, one slow"
SLOW = ["--training.slow_worker=1", "--training.slowdown=10"]
RUNS = {
    "4 of 4": ["--training.workers=4", "--training.needed=4"],
    "4 of 5": ["--training.workers=5", "--training.needed=4"],
    "4 of 5, one slow": ["--training.workers=5", "--training.needed=4", *SLOW],
    WAITS: ["--training.workers=5", "--training.needed=5", *SLOW],
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--data", default="builtin")
    parser.add_argument("--network", default="lenet")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def run(options, name, seed, folder):
    """(steps per second, accuracy in per cent)"""
    # Waiting for the slow one takes long: its rate is seen in a fifth of the steps.
    steps = options.steps if name != WAITS else options.steps // 5
    common = [
        f"--data.source={options.data}", f"--network.name={options.network}",
        f"--checkpoints.folder={folder}"
    ]
    def call(mode, *more):
        return subprocess.run([sys.executable, ISOLATED, options.program, mode, *common, *more],
                              check=True, text=True, stdout=subprocess.PIPE).stdout

    text = call("train", "--data.batch=32", "--optimizer.learn_rate=0.02",
                f"--training.steps={steps}", f"--training.seed={seed}",
                f"--checkpoints.every={steps}", "--output.log_every=0", *RUNS[name])
    scores = call("evaluate", "--checkpoints.keep=0")
    return (float(re.search(r"\(([\d.]+) steps/s",
                            text)[1]), float(re.findall(r"Prec@1: ([\d.]+)", scores)[-1]))


def main():
    options = arguments()
    got = {name: [] for name in RUNS}
    for seed in range(options.rounds):
        for name in RUNS:
            with tempfile.TemporaryDirectory() as folder:
                got[name].append(run(options, name, seed, folder))
            print(f"round {seed}, {name}: %.1f steps/s, %.2f %%" % got[name][-1], file=sys.stderr,
                  flush=True)
    rates = {name: statistics.median(r[0] for r in rows) for name, rows in got.items()}
    for name, rows in got.items():
        accuracy = f"{statistics.mean(r[1] for r in rows):.2f} % right" if name != WAITS else ""
        print(f"{name:17} {rates[name]:7.1f} steps/s  {accuracy}")
    disturbed = rates["4 of 5, one slow"]
    for name in ("4 of 4", "4 of 5", WAITS):
        print(f"4 of 5 with a slow one: {disturbed / rates[name]:.2f} of the rate of {name}")


main()
