#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ends of nodes in a wait set: one that is killed, one that had ended before, and the driver's own.
Usage: test_node_ends.py CRT NODE_END_PROGRAM"""
import os
import signal
import sys
import tempfile
import unittest

from real_cluster import Cluster, Driver

CRT, PROGRAM = sys.argv[1:3]
PATIENCE_MS = 30000


class NodeEnds(unittest.TestCase):
    """Three nodes; the driver is on one, the others are `self.nodes`."""

    def setUp(self):
        self.cluster = Cluster(CRT, "--num-cpus", "1", soon=30)
        self.addCleanup(self.cluster.stop)
        for _ in range(2):
            self.cluster.join("--num-cpus", "1")
        self.driver = Driver(PROGRAM)
        self.addCleanup(self.driver.end)
        self.here = self.driver.ok("node")
        self.nodes = [
            node["node_id"] for node in self.cluster.nodes() if node["node_id"] != self.here
        ]

    def kill(self, node):
        os.kill(next(row["pid"] for row in self.cluster.nodes() if row["node_id"] == node),
                signal.SIGKILL)

    def is_dead(self, node):
        return next(row["state"] for row in self.cluster.nodes()
                    if row["node_id"] == node) == "DEAD"

    def test_each_end_is_told_once_and_that_of_a_call_there_too(self):
        driver = self.driver
        first, second = self.nodes
        for node in (first, second, self.here):
            driver.ok("watch", node)
        with tempfile.TemporaryDirectory() as folder:
            driver.ok("task", first, f"{folder}/begun")
            self.cluster.wait_for(lambda: os.path.exists(f"{folder}/begun"))
        self.assertEqual(driver.ask("next", 0)[0], "CRT_ERR_TIMED_OUT")
        self.kill(first)
        told = sorted(driver.ok("next", PATIENCE_MS) for _ in range(2))
        self.assertEqual(told[0], f"node CRT_ERR_NODE_LOST {first}")
        # Its worker ends with its node, and whichever is heard of first is why.
        self.assertRegex(told[1], f"^ref CRT_ERR_(NODE_LOST|WORKER_DIED) {first}$")
        self.assertEqual(driver.ask("next", 0)[0], "CRT_ERR_TIMED_OUT")
        self.kill(second)
        self.assertEqual(driver.ok("next", PATIENCE_MS), f"node CRT_ERR_NODE_LOST {second}")

    def test_a_node_that_had_ended_before_is_told_at_once(self):
        gone = self.nodes[0]
        self.kill(gone)
        self.cluster.wait_for(lambda: self.is_dead(gone))
        self.driver.ok("watch", gone)
        self.assertEqual(self.driver.ok("next", PATIENCE_MS), f"node CRT_ERR_NODE_LOST {gone}")

    def test_the_end_of_the_drivers_own_node_is_told_with_all_that_waits(self):
        driver = self.driver
        for node in (self.here, self.nodes[0]):
            driver.ok("watch", node)
        self.kill(self.here)
        self.assertEqual({driver.ok("next", PATIENCE_MS) for _ in range(2)},
                         {f"node CRT_ERR_NODE_LOST {node}" for node in (self.here, self.nodes[0])})
        self.assertEqual(driver.ask("next", PATIENCE_MS)[0], "CRT_ERR_NOT_FOUND")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
