#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/sort beside `sort --parallel` and a plain copy: seconds until all of it is on the disk,
in turns, from a cold page cache.
Usage: sort_beside.py --crt build-release/cli/crt --sort build-release/examples/sort
           [--mib MIB] [--memory MIB] [--rounds N] [--folder FOLDER]
A cluster of one node with all processors sorts --mib (2048) MiB of records of 100 bytes through a
store of --memory (512) MiB; sort has as many threads, and so much memory for its buffer. The data
lie in FOLDER (/var/tmp), and so does what they write meanwhile. What both wrote has to be the
same."""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "tools"), os.path.join(HERE, "..", "examples")]
import map_reduce_data  # pylint: disable=wrong-import-position
from real_cluster import Cluster  # pylint: disable=wrong-import-position

PART_MIB = 16


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--crt", required=True)
    parser.add_argument("--sort", required=True)
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--memory", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default="/var/tmp")
    return parser.parse_args()


def settle(paths, forget):
    """Until they are on the disk; the page cache may be told to forget them then."""
    for path in paths:
        with open(path, "rb") as file:
            os.fdatasync(file.fileno())
            if forget:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(source, results, command, env=None):
    """Seconds; `results` gives the files that are there afterwards."""
    settle([source], True)
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)
    settle(results(), False)
    return time.monotonic() - began


def by_crt(options, source, folder):
    ranges = max(2, 8 * options.mib // options.memory)
    with Cluster(options.crt, "--spill-dir", os.path.dirname(source),
                 store=f"{options.memory}M", soon=60):
        return timed(source, lambda: [os.path.join(folder, n) for n in sorted(os.listdir(folder))],
                     [options.sort, "-p", str(PART_MIB), "-r", str(ranges), source, folder])


def by_sort(options, source, result):
    return timed(source, lambda: [result],
                 ["sort", f"--parallel={os.cpu_count()}", "-S", f"{options.memory}M", "-T",
                  os.path.dirname(source), "-o", result, source],
                 {**os.environ, "LC_ALL": "C"})


def are_equal(folder, result):
    concatenated = f'cat "{folder}"/* | cmp - "{result}"'
    return subprocess.run(concatenated, shell=True, check=False).returncode == 0


def main(options, directory):
    source, folder, result, copy = (os.path.join(directory, name)
                                    for name in ("source", "sorted", "result", "copy"))
    map_reduce_data.write_records(source, options.mib)
    seconds = {"crt": [], "sort": [], "copy": []}
    for _ in range(options.rounds):
        seconds["crt"].append(by_crt(options, source, folder))
        seconds["sort"].append(by_sort(options, source, result))
        seconds["copy"].append(timed(source, lambda: [copy], ["cp", source, copy]))
        if not are_equal(folder, result):
            raise SystemExit("they are not the same")
        shutil.rmtree(folder)
        os.remove(result)
        os.remove(copy)
        print(", ".join(f"{name} {took[-1]:.2f} s" for name, took in seconds.items()), flush=True)
    took = {name: statistics.median(all_of) for name, all_of in seconds.items()}
    print("medians: " + ", ".join(f"{name} {options.mib * 1.048576 / s:.0f} MB/s"
                                  for name, s in took.items()) +
          f"; crt beside sort {took['sort'] / took['crt']:.2f}, beside the copy "
          f"{took['copy'] / took['crt']:.2f}")


if __name__ == "__main__":
    settings = read_options()
    with tempfile.TemporaryDirectory(prefix="crt-sort-", dir=settings.folder) as space:
        os.environ["CRT_RUN_DIR"] = os.path.join(space, "r")
        os.environ["CRT_STATE_DIR"] = os.path.join(space, "s")
        os.environ.pop("CRT_ADDRESS", None)
        main(settings, space)
