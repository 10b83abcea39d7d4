#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Drivers side by side on one node of 2 CPUs, or with --nodes on several of one CPU each.

Rows:
    short    a task of 10 ms every 110 ms, less than its driver's share, beside so many drivers that
    each keep ten tasks of 200 ms in flight: the
             time from crt_submit to its result, from the best to the worst. A task that runs is not
             interrupted
    shares   the part of all tasks of 20 ms that each of several such drivers had done, beside what
    its weight says alone    tasks of 20 ms that one such driver had done, beside what 2 CPUs can do
With --nodes:
    at once  shares, counted from the moment that all drivers have begun
    steady   shares, counted from 5 s later
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tests", "tools"))
from real_cluster import Cluster  # noqa: E402

CPUS = 2


def read_arguments():
    parser = argparse.ArgumentParser(
        prog="fairness", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"),
                        help="build folder of a release build")
    parser.add_argument("--greedy", default="1,3,8", help="how many greedy drivers, in turns")
    parser.add_argument("--short", type=int, default=100, help="short tasks beside them")
    parser.add_argument("--pause", type=int, default=100,
                        help="ms between two of them; 0: more than a share")
    parser.add_argument("--seconds", type=float, default=10, help="in which shares are counted")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--nodes", type=int, default=1,
                        help="of one CPU each; the drivers are on the first one")
    given = parser.parse_args()
    given.program = os.path.join(given.build, "tests", "core", "fair_program")
    if not os.path.exists(given.program):
        parser.error(f"--build: there is no {given.program}: build crt there first")
    return given


def driver(given, *words):
    return subprocess.Popen([given.program, *map(str, words)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def short_tasks(given, greedy):
    """Milliseconds of each, sorted, beside so many greedy drivers."""
    with Cluster(os.path.join(given.build, "cli", "crt"), "--num-cpus", CPUS) as cluster:
        others = [driver(given, "between", 200, 1e15) for _ in range(greedy)]
        try:
            cluster.wait_for(lambda: sum(job["status"] == "RUNNING" for job in cluster.status()[
                "jobs"]) == greedy and cluster.free() == 0)
            said, _ = driver(given, "short", given.short,
                             given.pause).communicate(timeout=given.short * 10)
        finally:
            for other in others:
                other.kill()
                other.communicate()
    return sorted(float(ms) for ms in re.findall(r"^short ([\d.]+)$", said, re.M))


def counts(given, weights, seconds, later_ms=0):
    """Tasks that ended in that time, of drivers of these weights."""
    cpus = CPUS if given.nodes == 1 else 1
    with Cluster(os.path.join(given.build, "cli", "crt"), "--num-cpus", cpus) as cluster:
        for _ in range(given.nodes - 1):
            cluster.join("--num-cpus", 1)
        drivers = [
            driver(given, "between", 20, seconds * 1000, weight) for weight in weights
        ]
        for each in drivers:
            if each.stdout.readline() != "begun\n":
                sys.exit("fairness: a driver has ended")
        begin = time.monotonic() * 1000 + later_ms
        for each in drivers:
            each.stdin.write(f"{begin}\n")
            each.stdin.flush()
        return [
            int(re.search(r"^between (\d+)$",
                          each.communicate(timeout=100)[0], re.M)[1]) for each in drivers
        ]


def say_shares(name, weights, done):
    """The part of each, which is told beside what its weight says."""
    parts = [count / sum(done) for count in done]
    print(
        f"{name:8} {':'.join(map(str, weights))}: " +
        ", ".join(f"{part:.3f} (wanted {weight / sum(weights):.3f})"
                  for part, weight in zip(parts, weights)), file=sys.stderr)
    return parts


def on_nodes(given):
    figures = {"nodes": given.nodes}
    for name, later_ms in ("at once", 0), ("steady", 5000):
        figures[name] = {}
        for weights in (1, 1), (1, 4), (1, 2, 5):
            done = counts(given, weights, given.seconds, later_ms)
            figures[name][":".join(map(str, weights))] = say_shares(name, weights, done)
            print(
                f"         {sum(done) / (given.seconds * 1000 / 20 * given.nodes):.3f} of what "
                f"{given.nodes} CPUs can do",
                file=sys.stderr)
    return figures


def main():
    given = read_arguments()
    if given.nodes > 1:
        figures = on_nodes(given)
        if given.json:
            print(json.dumps(figures))
        return
    figures = {"short": {}, "shares": {}}
    for greedy in map(int, given.greedy.split(",")):
        times = short_tasks(given, greedy)
        row = {"count": len(times), "least": times[0], "p50": times[len(times) // 2],
               "p99": times[(len(times) * 99 + 99) // 100 - 1], "most": times[-1]}
        figures["short"][greedy] = row
        print(
            f"short    beside {greedy} greedy: " + ", ".join(f"{key} {value:g}"
                                                             for key, value in row.items()) + " ms",
            file=sys.stderr)
    for weights in (1, 1), (1, 2, 5):
        figures["shares"][":".join(map(str, weights))] = say_shares(
            "shares", weights, counts(given, weights, given.seconds))
    done, = counts(given, (1,), given.seconds)
    figures["alone"] = done / (given.seconds * 1000 / 20 * CPUS)
    print(f"alone    {done} tasks, {figures['alone']:.3f} of what {CPUS} CPUs can do",
          file=sys.stderr)
    if given.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
