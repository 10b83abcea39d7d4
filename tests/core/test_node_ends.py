#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ends and drains of nodes in a wait set, and actors there: a node that is killed, one that had
ended before, the driver's own; what is told when the head was away.
Usage: test_node_ends.py CRT NODE_END_PROGRAM"""
import os
import signal
import subprocess
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

    def test_each_end_is_told_once_and_that_of_a_call_there_too(self):
        driver = self.driver
        first, second = self.nodes
        for node in (first, second, self.here):
            driver.ok("watch", node)
        with tempfile.TemporaryDirectory() as folder:
            driver.ok("task", first, f"{folder}/begun")
            self.cluster.wait_for(lambda: os.path.exists(f"{folder}/begun"))
        self.assertEqual(driver.ask("next", 0)[0], "CRT_ERR_TIMED_OUT")
        self.cluster.kill(first)
        told = sorted(driver.ok("next", PATIENCE_MS) for _ in range(2))
        self.assertEqual(told[0], f"node CRT_ERR_NODE_LOST {first}")
        # Its worker ends with its node, and whichever is heard of first is why.
        self.assertRegex(told[1], f"^ref CRT_ERR_(NODE_LOST|WORKER_DIED) {first}$")
        self.assertEqual(driver.ask("next", 0)[0], "CRT_ERR_TIMED_OUT")
        self.cluster.kill(second)
        self.assertEqual(driver.ok("next", PATIENCE_MS), f"node CRT_ERR_NODE_LOST {second}")

    def test_a_node_that_had_ended_before_is_told_at_once(self):
        gone = self.nodes[0]
        self.cluster.kill(gone)
        self.cluster.wait_for(lambda: self.cluster.node(gone)["state"] == "DEAD")
        self.driver.ok("watch", gone)
        self.assertEqual(self.driver.ok("next", PATIENCE_MS), f"node CRT_ERR_NODE_LOST {gone}")

    def test_the_end_of_the_drivers_own_node_is_told_with_all_that_waits(self):
        driver = self.driver
        for node in (self.here, self.nodes[0]):
            driver.ok("watch", node)
        self.cluster.kill(self.here)
        self.assertEqual({driver.ok("next", PATIENCE_MS) for _ in range(2)},
                         {f"node CRT_ERR_NODE_LOST {node}" for node in (self.here, self.nodes[0])})
        self.assertEqual(driver.ask("next", PATIENCE_MS)[0], "CRT_ERR_NOT_FOUND")

    def drain(self, node):
        drain = subprocess.Popen([CRT, "drain", node[:12], "--deadline", "60"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(drain.wait, 60)

    def test_a_drain_is_told_before_the_end_to_who_watches_the_node_and_an_actor_there(self):
        driver, node = self.driver, self.nodes[0]
        driver.ok("follow", node)
        driver.ok("actor", node, 1)
        driver.ok("hear", node)
        self.assertEqual(driver.ask("next", 0)[0], "CRT_ERR_TIMED_OUT")
        self.drain(node)
        told = [driver.ok("next", PATIENCE_MS) for _ in range(4)]
        self.assertLess(told.index(f"node-drains CRT_OK {node}"),
                        told.index(f"node CRT_ERR_NODE_LOST {node}"))
        self.assertIn(f"moves CRT_OK {node} 0 0", told)
        # That it moves counts as no restart.
        self.assertRegex(" ".join(told), rf"restart CRT_ERR_\w+ {node} 1 0")
        self.assertNotEqual(driver.ok("call"), node)
        self.cluster.wait_for(lambda: driver.ok("heard") == f"2 end {node}")

    def test_who_watches_a_node_that_is_drained_already_is_told_at_once(self):
        driver, node = self.driver, self.nodes[0]
        with tempfile.TemporaryDirectory() as folder:
            driver.ok("task", node, f"{folder}/begun")  # it keeps the node
            self.cluster.wait_for(lambda: os.path.exists(f"{folder}/begun"))
        self.drain(node)
        driver.ok("follow", node)
        self.assertEqual(driver.ok("next", PATIENCE_MS), f"node-drains CRT_OK {node}")
        late = Driver(PROGRAM)
        self.addCleanup(late.end)
        late.ok("follow", node)
        self.assertEqual(late.ok("next", PATIENCE_MS), f"node-drains CRT_OK {node}")
        self.assertEqual(driver.ask("next", 0)[0], "CRT_ERR_TIMED_OUT")
        self.cluster.kill(node)

    def test_what_happens_while_the_head_is_away_is_told_when_it_is_back(self):
        driver = self.driver
        first, second = self.nodes
        driver.ok("actor", first, 3)
        driver.ok("follow", second)
        self.assertEqual(driver.ask("fall")[0], "CRT_ERR_ACTOR_DIED")
        self.assertRegex(driver.ok("next", PATIENCE_MS), rf"restart CRT_ERR_\w+ {first} 1 1")
        driver.ok("call")
        pid = self.cluster.node(second)["pid"]
        self.cluster.kill_head()
        os.kill(pid, signal.SIGKILL)
        self.assertNotEqual(driver.ask("fall")[0], "CRT_OK")
        self.cluster.restart_head()
        told = sorted(driver.ok("next", PATIENCE_MS) for _ in range(2))
        self.assertEqual(told[0], f"node CRT_ERR_NODE_LOST {second}")
        self.assertRegex(told[1], rf"restart CRT_ERR_\w+ {first} 1 2")
        driver.ok("call")
        self.assertEqual(driver.ask("next", 0)[0], "CRT_ERR_TIMED_OUT")

    def test_an_idle_event_loop_is_told_nothing_and_one_with_a_call_what_it_waits_for(self):
        terminal = tempfile.TemporaryFile("w+")
        self.addCleanup(terminal.close)
        loop, node = Driver(PROGRAM, terminal, CRT_TELL_WAITS="0.2"), self.nodes[0]
        self.addCleanup(loop.end)

        def said():
            terminal.seek(0)
            return terminal.read()

        loop.ok("watch", node)
        self.assertEqual(loop.ask("next", 600)[0], "CRT_ERR_TIMED_OUT")
        self.assertNotIn("has waited", said())
        with tempfile.TemporaryDirectory() as folder:
            loop.ok("task", node, f"{folder}/begun")
            self.cluster.wait_for(lambda: os.path.exists(f"{folder}/begun"))
        for _ in range(2):
            self.assertEqual(loop.ask("next", 600)[0], "CRT_ERR_TIMED_OUT")
        self.assertEqual(said().count("has waited 0.2 s for endless: it has run for "), 1, said())
        self.cluster.kill(node)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
