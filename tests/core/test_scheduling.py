#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where work runs, and what becomes of work that can run nowhere.
Usage: test_scheduling.py CRT SCHEDULING_PROGRAM"""
import json
import re
import subprocess
import sys
import unittest

CRT, PROGRAM = sys.argv[1:3]
TIMED_OUT, UNSCHEDULABLE = -3, -21
STORE = ("--object-store-memory", "50M")


def run(*words, status=0):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=100, check=False)
    if done.returncode != status:
        raise AssertionError(f"{words} exits with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Cluster:
    """A head with a node of its own; more nodes join on this host."""

    def __init__(self, *options):
        said = run(CRT, "start", "--head", "--port", 0, "--dashboard-port", "0", *STORE, *options)
        self.address, self.key = re.search(r"--address (\S+) --key-file (\S+)", said).groups()

    def join(self, *options):
        run(CRT, "start", "--address", self.address, "--key-file", self.key, *STORE, *options)

    def program(self, *words):
        """The lines of a driver, each as (what it did, status, text)."""
        said = run(PROGRAM, *words)
        found = [line.split(" ", 2) for line in said.splitlines() if re.match(r"(task|actor) -?\d+ ", line)]
        return {what: (int(status), text) for what, status, text in found}, said

    def nodes(self):
        return json.loads(run(CRT, "status", "--json"))["cluster"]["nodes"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        run(CRT, "stop", "--address", self.address)


class Infeasible(unittest.TestCase):
    def test_what_no_node_has_fails_when_it_says_so_and_waits_else(self):
        with Cluster("--num-cpus", "1", "--resources", "disk=1") as cluster:
            ended, _ = cluster.program("infeasible", 1, "dsik=1")
            for what in "task", "actor":
                self.assertEqual(ended[what][0], UNSCHEDULABLE, ended)
                self.assertIn("needs 1 dsik, the cluster has 0", ended[what][1])
                self.assertIn("which no node has ever had; the nearest name is disk", ended[what][1])
            waits, said = cluster.program("infeasible", 0, "dsik=1")
            self.assertEqual([status for status, _ in waits.values()], [TIMED_OUT, TIMED_OUT], said)
            self.assertIn("the nearest name is disk", said)  # the warning of who waits
            done, _ = cluster.program("infeasible", 1, "disk=1")
            self.assertEqual([status for status, _ in done.values()], [0, 0])
            ended, _ = cluster.program("infeasible", 2, "disk=1")
            self.assertIn("fail_if_infeasible is 1 (fail), -1 (wait) or 0", ended["task"][1])
            self.assertIn("fail_if_infeasible is 1 (fail), -1 (wait) or 0", ended["actor"][1])

    def test_the_cluster_says_what_becomes_of_those_that_do_not_say_it(self):
        with Cluster("--num-cpus", "1", "--fail-if-infeasible", "on") as cluster:
            ended, _ = cluster.program("infeasible", 0, "CPU=2")
            self.assertEqual([status for status, _ in ended.values()], [UNSCHEDULABLE] * 2)
            self.assertIn("needs 2 CPU, the cluster has 1", ended["task"][1])
            waits, said = cluster.program("infeasible", -1, "CPU=2")
            self.assertEqual([status for status, _ in waits.values()], [TIMED_OUT, TIMED_OUT], said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
