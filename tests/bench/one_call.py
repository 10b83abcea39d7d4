#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which files one call goes through: a call of an actor on one node, with a number and a number as
its result, in the caller and in the worker, by what the coverage counts between its two ends.
Usage: one_call.py [--ref] [--functions] [--build FOLDER]
    With --ref: which files a ref goes through beside those of a call, from its put of 1 MiB, by an
    actor that keeps it, reads it in another call and lets it go, to where it is freed.
    FOLDER (build-coverage) is made when it is not there. Headers are counted apart: most of their
    functions are a line. Files of libraries are not counted, files of base/ are."""
import argparse
import collections
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SIDES = ("caller", "worker")


def build(folder):
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        subprocess.run(["meson", "setup", folder, ROOT, "-Doptimization=1", "-Ddebug=true",
                        "-Db_coverage=true"], check=True, stdout=subprocess.DEVNULL)
    programs = ["tests/bench/one_call", "runtime/control/crt-head", "runtime/node/crt-node"]
    subprocess.run(["ninja", "-C", folder, *programs], check=True, stdout=subprocess.DEVNULL)


def functions_in(report):
    """(file, function) that ran, of one line of what gcov prints."""
    for file in report["files"]:
        for function in file["functions"]:
            if function["execution_count"]:
                yield file["file"], function["name"]
        for line in file["lines"]:  # a function that was inlined is counted by its lines only
            if line["count"] and "function_name" in line:
                yield file["file"], line["function_name"]


def read_counters(folder, counters):
    """The functions of each side, by file."""
    seen = collections.defaultdict(set)
    for side in SIDES:
        of_side = os.path.join(counters, side)
        for data in glob.glob(f"{of_side}/**/*.gcda", recursive=True):
            notes = data[len(of_side):-len("gcda")] + "gcno"
            shutil.copy(notes, os.path.dirname(data))
            printed = subprocess.run(["gcov", "--json-format", "--stdout", data], check=True,
                                     capture_output=True, text=True, cwd=folder).stdout
            for report in printed.splitlines():
                for file, function in functions_in(json.loads(report)):
                    path = os.path.relpath(os.path.join(folder, file), ROOT)
                    if path.startswith("runtime/"):
                        seen[path].add((side, function))
    return seen


def run(folder, *what):
    with tempfile.TemporaryDirectory() as counters:
        subprocess.run([os.path.join(folder, "tests", "bench", "one_call"), counters, *what],
                       check=True, timeout=60)
        return read_counters(folder, counters)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--ref", action="store_true", help="of a ref, beside those of a call")
    parser.add_argument("--functions", action="store_true", help="name them")
    parser.add_argument("--build", default=os.path.join(ROOT, "build-coverage"))
    options = parser.parse_args()
    folder = os.path.realpath(options.build)
    build(folder)
    seen = run(folder)
    if options.ref:
        of_call = seen
        seen = {path: functions - of_call.get(path, set())
                for path, functions in run(folder, "ref").items()}
        seen = {path: functions for path, functions in seen.items() if functions}
    for path, functions in sorted(seen.items()):
        sides = " and ".join(side for side in SIDES if any(f[0] == side for f in functions))
        print(f"{path:44} {len(functions):3} of {sides}")
        if options.functions:
            print("    " + " ".join(sorted({name for _, name in functions})))
    sources = sum(path.endswith(".c") for path in seen)
    print(f"{sources} files, {len(seen) - sources} headers")
    return 0 if sources else 1


if __name__ == "__main__":
    sys.exit(main())
