#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the loss of a node costs a program: its time on a cluster of one host undisturbed, and with
the daemon of one node killed after half of that time and another node started.
Usage: node_lost.py --crt CRT [--nodes N] [--store SIZE] [--rounds N] -- PROGRAM...
    1,000 tasks on 3 nodes: node_lost.py --crt build-release/cli/crt -- \
        build-release/tests/bench/map_reduce
The node of the driver has no CPU, the others have one each. The program is given a line when they
are there. What it prints has to be the same each time."""
import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from real_cluster import Cluster  # pylint: disable=wrong-import-position


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--crt", required=True)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--store", default="512M")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("program", nargs="+")
    return parser.parse_args()


class Nodes:
    """A cluster whose nodes join when the driver is there: it is at the first one then."""

    def __init__(self, options, folder):
        self.spill = ("--spill-dir", folder)
        self.cluster = Cluster(options.crt, "--num-cpus", "0", *self.spill, store=options.store,
                               soon=60)

    def join(self):
        self.cluster.join("--num-cpus", "1", *self.spill)

    def lose_one(self):
        victim = next(node for node in self.cluster.nodes()
                      if node["state"] == "ALIVE" and node["resources_total"].get("CPU"))
        os.kill(victim["pid"], signal.SIGKILL)

    def spilled_bytes(self):
        return sum(node["spilled_bytes"] for node in self.cluster.nodes())


def run(options, lose_after=None):
    """(seconds, what it printed, most bytes on disk)"""
    with tempfile.TemporaryDirectory(prefix="crt-node-lost-", dir="/var/tmp") as folder:
        nodes = Nodes(options, folder)
        with nodes.cluster, subprocess.Popen(options.program, stdin=subprocess.PIPE,
                                             stdout=subprocess.PIPE) as program:
            nodes.cluster.wait_for(lambda: nodes.cluster.status()["jobs"])
            for _ in range(options.nodes):
                nodes.join()
            program.stdin.write(b"\n")
            program.stdin.close()
            began, spilled, ended = time.monotonic(), 0, threading.Event()
            said = []
            reader = threading.Thread(
                target=lambda: (said.append(program.stdout.read()), ended.set()))
            reader.start()
            while not ended.wait(0.1):
                spilled = max(spilled, nodes.spilled_bytes())
                if lose_after and time.monotonic() - began >= lose_after:
                    nodes.lose_one()
                    nodes.join()
                    lose_after = None
            reader.join()
            took = time.monotonic() - began
            if program.wait() != 0:
                raise SystemExit(f"{options.program[0]} ended with {program.returncode}")
    return took, said[0], spilled


def main():
    options = read_options()
    quiet, lost, printed = [], [], set()
    for _ in range(options.rounds):
        took, said, on_disk = run(options)
        quiet.append(took)
        printed.add(said)
        print(f"undisturbed {took:.2f} s, at most {on_disk / 2**20:.0f} MiB on disk", flush=True)
        took, said, on_disk = run(options, took / 2)
        lost.append(took)
        printed.add(said)
        print(f"one node killed {took:.2f} s, at most {on_disk / 2**20:.0f} MiB on disk",
              flush=True)
    if len(printed) != 1:
        raise SystemExit("it did not print the same each time")
    quiet, lost = statistics.median(quiet), statistics.median(lost)
    print(f"medians {quiet:.2f} and {lost:.2f} s, ratio {lost / quiet:.2f}; printed the same")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="crt-node-lost-") as directory:
        os.environ["CRT_RUN_DIR"] = os.path.join(directory, "r")
        os.environ["CRT_STATE_DIR"] = os.path.join(directory, "s")
        os.environ.pop("CRT_ADDRESS", None)
        main()
