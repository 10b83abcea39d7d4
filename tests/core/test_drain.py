#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crt drain: a node ends without loss, or at its deadline.
Usage: test_drain.py CRT DRAIN_PROGRAM"""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from real_cluster import Cluster, Driver, run

CRT, PROGRAM = sys.argv[1:3]


class Drain(unittest.TestCase):
    """Two nodes of 2 CPUs; `self.node` is the one where the driver is not."""

    def setUp(self):
        self.cluster = Cluster(CRT, "--num-cpus", "2", store="100M", soon=30)
        self.cluster.join("--num-cpus", "2")
        self.driver = Driver(PROGRAM)
        self.here = self.driver.ok("node")
        self.node = next(node["node_id"] for node in self.cluster.nodes()
                         if node["node_id"] != self.here)

    def tearDown(self):
        self.driver.end()
        self.cluster.stop()

    def wait_until_busy(self):
        """Its task runs. A processor may be taken by the start of an actor, too."""
        def is_running():
            tasks = json.loads(run(CRT, "list", "tasks", "--filter", "name=slow", "--format",
                                   "json"))
            return any(task["state"] == "RUNNING" and task["node_id"] == self.node
                       for task in tasks)

        self.cluster.wait_for(is_running)

    def begin(self, *options):
        drain = subprocess.Popen([CRT, "drain", self.node[:12], *map(str, options)],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertIn("is drained; it ends in", drain.stdout.readline())
        return drain

    def end(self, drain):
        drain.wait(timeout=60)
        said = drain.stdout.read()  # communicate() would not see what came with the first line
        drain.stdout.close()
        self.assertEqual(drain.returncode, 0, said)
        self.assertEqual(self.cluster.node(self.node)["state"], "DEAD")
        return said

    def test_a_node_ends_when_its_tasks_are_done_and_actors_and_objects_are_elsewhere(self):
        driver = self.driver
        driver.ok("put", self.node, 20 << 20)
        driver.ok("actor", self.node, 1)
        self.assertEqual(driver.ok("where"), self.node)
        driver.ok("slow", self.node, 5000, 0)
        self.wait_until_busy()
        drain = self.begin("--deadline", 60)
        self.assertRegex(run(CRT, "status"), self.node[:8] + r" +ALIVE .*drained, ends within")
        for _ in range(4):
            self.assertEqual(driver.ok("task"), self.here)
        self.cluster.wait_for(lambda: driver.ok("where") == self.here)
        self.assertIsNone(drain.poll())  # the task goes on
        self.assertEqual(driver.ok("result"), self.node)
        self.assertIn("it was drained", self.end(drain))
        self.assertEqual(driver.ok("check"), "whole")
        self.assertEqual(driver.ok("where"), self.here)
        actors = [(actor["state"], actor["num_restarts"])
                  for actor in self.cluster.status()["actors"]]
        self.assertEqual(actors, [("ALIVE", 0)])

    def test_programs_that_start_while_a_node_ends_join_another_one(self):
        for _ in range(2):
            drain = self.begin("--deadline", 60)
            while drain.poll() is None:
                with Driver(PROGRAM) as driver:
                    driver.ok("node")
            self.assertIn("it was drained", self.end(drain))
            self.cluster.join("--num-cpus", "2")
            self.node = next(node["node_id"] for node in self.cluster.nodes()
                             if node["state"] == "ALIVE" and node["node_id"] != self.here)

    def test_its_deadline_ends_it_whatever_it_still_has(self):
        driver = self.driver
        driver.ok("actor", self.node, 0)
        driver.ok("slow", self.node, 60000, 0)
        self.wait_until_busy()
        began = time.monotonic()
        said = self.end(self.begin("--deadline", 1.5))
        self.assertIn("its time was over: it still had 1 tasks, 1 actors, 0 drivers and 0 "
                      "programs of submitted jobs", said)
        self.assertLess(time.monotonic() - began, 10)
        self.assertIn(driver.ask("where")[0], ("CRT_ERR_ACTOR_DIED", "CRT_ERR_NODE_LOST"))
        self.assertNotEqual(driver.ask("result")[0], "CRT_OK")

    def test_the_program_of_a_job_that_its_deadline_ends_is_told(self):
        run(CRT, "job", "submit", "--no-wait", "--submission-id", "long", "--entrypoint-label",
            f"ray.io/node-id={self.node}", "--", "/bin/sleep", "600")
        self.cluster.wait_for(lambda: "RUNNING" in run(CRT, "job", "list"))
        self.assertIn("0 tasks, 0 actors, 0 drivers and 1 programs of submitted jobs",
                      self.end(self.begin("--deadline", 1)))

    def test_a_node_that_is_killed_while_it_is_drained_is_a_node_that_died(self):
        driver = self.driver
        driver.ok("actor", self.node, 0)
        driver.ok("slow", self.node, 1000, 3)
        self.wait_until_busy()
        drain = self.begin("--deadline", 60)
        os.kill(self.cluster.node(self.node)["pid"], signal.SIGKILL)
        self.assertIn("has ended", self.end(drain))
        self.assertEqual(driver.ok("result"), self.here)  # made again
        self.assertNotEqual(driver.ask("where")[0], "CRT_OK")

    def test_a_head_that_is_killed_and_started_again_goes_on_with_it(self):
        driver = self.driver
        driver.ok("put", self.node, 20 << 20)
        driver.ok("actor", self.node, 1)
        driver.ok("slow", self.node, 4000, 0)
        self.wait_until_busy()
        run(CRT, "drain", self.node[:12], "--no-wait", "--deadline", 60)
        self.cluster.kill_head()
        self.cluster.restart_head()
        self.cluster.wait_for(lambda: self.cluster.node(self.node)["state"] == "ALIVE")
        self.assertGreater(self.cluster.node(self.node)["drain_ms"], 30000)
        for _ in range(4):
            self.assertEqual(driver.ok("task"), self.here)
        self.assertEqual(driver.ok("result"), self.node)
        self.cluster.wait_for(lambda: self.cluster.node(self.node)["state"] == "DEAD")
        self.assertIn("it was drained", self.cluster.node(self.node)["state_message"])
        self.assertEqual(driver.ok("check"), "whole")
        self.assertEqual(driver.ok("where"), self.here)

    def test_an_idle_node_ends_at_once_and_a_deadline_may_be_set_anew(self):
        self.driver.ok("actor", self.node, 0)
        run(CRT, "drain", self.node[:8], "--no-wait", "--deadline", 1000)
        self.assertGreater(self.cluster.node(self.node)["drain_ms"], 900000)
        run(CRT, "drain", self.node[:8], "--no-wait", "--deadline", 500)
        self.assertLess(self.cluster.node(self.node)["drain_ms"], 500001)
        self.driver.ok("actor", self.here, 0)  # the other one ends
        began = time.monotonic()
        self.cluster.wait_for(lambda: self.cluster.node(self.node)["state"] == "DEAD")
        self.assertLess(time.monotonic() - began, 10)

    def test_what_can_not_be_drained_is_told(self):
        self.assertIn("no node has an id that begins with zz", run(CRT, "drain", "zz", status=1))
        run(CRT, "drain", status=2)
        for deadline in "0", "-1", "nan", "x", "1e12":
            self.assertIn("--deadline takes",
                          run(CRT, "drain", self.node, "--deadline", deadline, status=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
