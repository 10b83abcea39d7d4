#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rows of crt microbenchmark for two commits, in turns on one machine.

    tests/bench/in_turns.py BASE [--rows TEXT,...] [--turns N] [--folder FOLDER] [--tolerance PART]

BASE is built in a worktree of its own, as a release build; it is compared with the build-release
of this source folder. The order changes from turn to turn. Where it is permitted, the programs run
with a higher priority (nice), so that other work on the machine shows less. Exit status 1: a
row's median is lower than BASE's by more than the tolerance.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROWS = "1_1_actor_calls_sync,1_1_actor_calls_async,single_client_tasks_async"
TARGETS = ("cli/crt", "runtime/node/crt-node", "runtime/control/crt-head")


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"in_turns: {' '.join(words)}: status {done.returncode}\n"
                 f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def build(folder):
    build_folder = os.path.join(folder, "build-release")
    if not os.path.exists(os.path.join(build_folder, "build.ninja")):
        run("meson", "setup", build_folder, "-Dbuildtype=release", cwd=folder)
    run("ninja", "-C", build_folder, *TARGETS)
    return build_folder


def measure(build_folder, rows, nice):
    """{row: calls a second}"""
    environment = dict(os.environ, LD_LIBRARY_PATH=build_folder)
    found = {}
    for row in rows:
        said = run(*nice, os.path.join(build_folder, "cli", "crt"), "microbenchmark", "--json",
                   "--filter", row, env=environment)
        found.update((entry["name"], entry["value"]) for entry in json.loads(said))
    return found


def describe(values):
    return f"{statistics.median(values):12,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def compare(base, head, given, nice):
    """Lines for people, and whether a row has lost too much."""
    figures = {"base": {}, "head": {}}
    for turn in range(given.turns):
        order = [("base", base), ("head", head)]
        for name, build_folder in order if turn % 2 == 0 else reversed(order):
            measured = measure(build_folder, given.rows.split(","), nice)
            for row, value in measured.items():
                figures[name].setdefault(row, []).append(value)
        for row, before in figures["base"].items():
            print(f"turn {turn + 1}: {row} {before[-1]:,.0f} -> {figures['head'][row][-1]:,.0f}",
                  file=sys.stderr, flush=True)
    lines, has_lost = [], False
    for row, before in figures["base"].items():
        after = figures["head"][row]
        ratio = statistics.median(after) / statistics.median(before)
        has_lost |= ratio < 1 - given.tolerance
        lines.append(f"{row:32} {describe(before)} -> {describe(after)}: {ratio:.3f}")
    return lines, has_lost


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("base", help="a commit")
    parser.add_argument("--rows", default=ROWS, help=f"default: {ROWS}")
    parser.add_argument("--turns", type=int, default=7, help="of each; default 7")
    parser.add_argument("--folder",
                        help="where BASE is built, and stays (default: a temporary one)")
    parser.add_argument("--tolerance", type=float, default=0.03, help="default 0.03")
    given = parser.parse_args()
    # Not by a real-time policy: workers for tasks choose another policy, and would be left behind.
    nice = ["nice", "-n", "-15"]
    if subprocess.run([*nice, "true"], capture_output=True, text=True, check=False).stderr:
        nice = []
    folder = os.path.abspath(given.folder or tempfile.mkdtemp(prefix="crt-in-turns-"))
    worktree = os.path.join(folder, given.base)
    try:
        if not os.path.exists(worktree):
            run("git", "-C", ROOT, "worktree", "add", "--detach", worktree, given.base)
        lines, has_lost = compare(build(worktree), build(ROOT), given, nice)
    finally:
        if not given.folder:
            subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", worktree],
                           check=False, capture_output=True)
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{given.turns} turns, {'high priority' if nice else 'normal priority'}, calls a "
          f"second: median (least to most) of {given.base} -> this source folder: ratio")
    print("\n".join(lines))
    sys.exit(1 if has_lost else 0)


if __name__ == "__main__":
    main()
