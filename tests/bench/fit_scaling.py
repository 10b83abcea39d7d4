#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A program's own model, trained by crt_fit on 1, 2 and 4 members of a CPU each: images per second
beside the ideal. The work is the same for all: so many epochs of the same images.

    tests/bench/fit_scaling.py --program build-release/examples/own_model [--members 1,2,4]
    [--epochs 40] [--turns 5]

The ideal is the rate of one member times the members, but not times more than there are processors.
All are run in turns; a row has the best of them, and the worst for what else the machine did.
"""
import argparse
import os
import re
import subprocess

RATE = re.compile(r"^(\d+) devices, \d+ steps: .* told right, (\d+) images/s$", re.M)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--members", default="1,2,4")
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--turns", type=int, default=5)
    return parser.parse_args()


def rate(program, members, epochs):
    done = subprocess.run([program, str(members), str(epochs)], capture_output=True, text=True,
                          timeout=600)
    found = RATE.search(done.stdout)
    if done.returncode != 0 or not found or int(found[1]) != members:
        raise SystemExit(f"{program} {members} {epochs}: {done.stdout}{done.stderr}")
    return int(found[2])


def main():
    a = arguments()
    counts = [int(count) for count in a.members.split(",")]
    processors = len(os.sched_getaffinity(0))
    rates = {count: [] for count in counts}
    for _ in range(a.turns):
        for count in counts:
            rates[count].append(rate(a.program, count, a.epochs))
    one = max(rates[counts[0]]) / counts[0]
    print(f"{processors} processors, {a.turns} turns of {a.epochs} epochs; images/s")
    print("| members | best | worst | ideal | of it |\n|---|---|---|---|---|")
    for count in counts:
        best, ideal = max(rates[count]), one * min(count, processors)
        print(f"| {count} | {best} | {min(rates[count])} | {ideal:.0f} | {best / ideal:.2f} |")


if __name__ == "__main__":
    main()
