#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The curves of the notebook "Parallel training with Thinc and Ray" beside those of train_mnist.

    python3 tests/bench/notebook_curves.py --build build --data DIR --out examples/curves

DIR holds MNIST. Runs the notebook's configuration (200 rounds, 2 workers, 128 images each),
synchronous and asynchronous, and writes mnist-sync.svg, mnist-async.svg and the CSV files of
train_mnist.
"""
import argparse
import csv
import os
import subprocess

import scaling_report

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
# Accuracy behind updates 0, 10, 20 ..., as printed there.
PUBLISHED = {
    "sync": [
        .107, .291, .538, .648, .492, .590, .508, .382, .317, .356, .387, .296, .317, .443, .392,
        .368, .407, .492, .546, .561
    ], "async": [
        .566, .615, .664, .699, .724, .753, .773, .744, .776, .748, .673, .694, .715, .713, .701,
        .693, .717, .725, .686, .674, .707, .745, .759, .745, .695, .663, .672, .693, .717, .745,
        .737, .701, .688, .697, .719, .730, .709, .682, .689, .689
    ]
}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--data", default="builtin")
    parser.add_argument("--out", default=os.path.join(SOURCE, "examples", "curves"))
    given = parser.parse_args()
    os.makedirs(given.out, exist_ok=True)
    for mode, published in PUBLISHED.items():
        log = os.path.join(given.out, f"mnist-{mode}.csv")
        subprocess.run([
            os.path.join(given.build, "examples", "train_mnist"), "--mode", mode, "--data",
            given.data, "--csv", log
        ], check=True, stdout=subprocess.DEVNULL)
        with open(log, encoding="utf-8") as file:
            ours = {int(row["update"]): float(row["accuracy"]) for row in csv.DictReader(file)}
        lines = [("published", "#b03a2e", {10 * i: y
                                           for i, y in enumerate(published)}),
                 ("train_mnist", "#1e8449", ours)]
        path = os.path.join(given.out, f"mnist-{mode}.svg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                scaling_report.picture("accuracy", None, lines, "updates",
                                       list(range(0,
                                                  len(published) * 10 + 1, 50))))
        print(
            f"{mode}: published {published[-1]:.3f} at the end, train_mnist {ours[max(ours)]:.3f}; "
            f"drew {path}"
        )


if __name__ == "__main__":
    main()
