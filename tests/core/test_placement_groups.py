#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Placement groups on real clusters of one host.
Usage: test_placement_groups.py CRT PLACEMENT_PROGRAM"""
import os
import signal
import sys
import time
import unittest

from real_cluster import Cluster, Driver

CRT, PROGRAM = sys.argv[1:3]


class OneNode(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster(CRT, "--num-cpus", "2", "--num-gpus", "4")
        self.driver = Driver(PROGRAM)

    def tearDown(self):
        self.driver.end()
        self.cluster.stop()

    def fails(self, status, text, *words):
        said = self.driver.ask(*words)
        self.assertEqual(said[0], status, said)
        self.assertIn(text, said[1])

    def test_its_bundles_are_reserved_and_used_and_given_back(self):
        driver = self.driver
        identity = driver.ok("new", 0, "PACK", "CPU=1;CPU=1")
        driver.ok("wait", 0, -1)
        self.assertEqual(driver.ok("ready", 0, 1000), "true")
        self.cluster.wait_for(lambda: self.cluster.free() == 0)
        self.assertEqual(self.cluster.state()["placement_groups"], {"CREATED": 1})
        for bundle in 0, 1, -1:
            self.assertEqual(driver.ok("task", 0, bundle, 1).split()[1], identity)
        driver.ok("actor", 0, 1, "CPU=1", 0)
        self.assertEqual(driver.ok("call").split()[1], identity)
        self.assertEqual(driver.ok("task", 0, -1, 1).split()[1], identity)  # the other bundle
        driver.ok("remove", 0)  # the actor hears of it a moment later
        self.cluster.wait_for(lambda: driver.ask("call")[0] == "CRT_ERR_UNSCHEDULABLE")
        self.fails("CRT_ERR_UNSCHEDULABLE", "was removed", "task", 0, 0, 1)
        self.fails("CRT_ERR_UNSCHEDULABLE", "was removed", "wait", 0, -1)
        self.cluster.wait_for(lambda: self.cluster.free() == 2)
        driver.ok("remove", 0)

    def test_what_runs_inside_ends_with_the_group_and_what_waits_fails(self):
        driver = self.driver
        driver.ok("new", 0, "PACK", "CPU=1")
        driver.ok("hold", 0, 0)
        driver.ok("actor", 0, 0, "CPU=1", 0)  # waits for the task
        driver.ok("wait", 0, -1)
        self.cluster.wait_for(lambda: self.cluster.state()["actors"].get("PENDING"))
        driver.ok("remove", 0)
        self.fails("CRT_ERR_WORKER_DIED", "its placement group was removed", "held")
        self.fails("CRT_ERR_UNSCHEDULABLE", "removed", "call")
        self.cluster.wait_for(lambda: self.cluster.free() == 2)

    def test_a_gang_that_can_never_fit_is_told_at_once(self):
        began = time.monotonic()
        self.driver.ok("new", 0, "SPREAD", "CPU=1;CPU=1;CPU=1", "fail")
        self.fails("CRT_ERR_UNSCHEDULABLE", "its 3 bundles need 3 CPU, the cluster has 2 CPU",
                   "wait", 0, -1)
        self.fails("CRT_ERR_UNSCHEDULABLE", "can never be placed", "ready", 0, 1000)
        self.fails("CRT_ERR_UNSCHEDULABLE", "can never be placed", "task", 0, 0, 1)
        self.assertLess(time.monotonic() - began, 5)
        self.driver.ok("new", 1, "PACK", "CPU=3")  # waits for such a node
        self.fails("CRT_ERR_TIMED_OUT", "can never be placed: needs 3 CPU, the cluster has 2",
                   "wait", 1, 500)
        self.cluster.join("--num-cpus", "3")
        self.driver.ok("wait", 1, -1)

    def test_all_bundles_or_none_are_reserved(self):
        driver = self.driver
        driver.ok("new", 0, "PACK", "CPU=1")
        driver.ok("wait", 0, -1)
        driver.ok("new", 1, "PACK", "CPU=1;CPU=1")
        self.fails("CRT_ERR_TIMED_OUT", "no room now", "wait", 1, 500)
        self.cluster.wait_for(lambda: self.cluster.free() == 1)
        driver.ok("new", 2, "PACK", "CPU=1")  # what the second one would need, had it taken half
        driver.ok("wait", 2, -1)
        driver.ok("remove", 0)
        driver.ok("remove", 2)
        driver.ok("wait", 1, -1)

    def test_gpus_of_a_bundle_are_those_of_whom_runs_in_it(self):
        driver = self.driver
        driver.ok("new", 0, "PACK", "GPU=2")
        driver.ok("actor", 0, 0, "GPU=1", 0)
        one = driver.ok("call").split()[2]
        self.fails("CRT_ERR_UNSCHEDULABLE", "has not 1 CPU", "task", 0, 0, 1)
        driver.ok("new", 1, "PACK", "GPU=2;GPU=0.5", "fail")
        self.fails("CRT_ERR_TIMED_OUT", "no room now", "wait", 1, 300)
        driver.ok("new", 2, "PACK", "GPU=2")
        driver.ok("actor", 2, 0, "GPU=2", 0)
        others = driver.ok("call").split()[2].split(",")
        self.assertEqual(len(others), 2)
        self.assertNotIn(one, others)
        driver.ok("remove", 0)
        driver.ok("remove", 2)
        driver.ok("wait", 1, -1)
        driver.ok("actor", 1, 1, "GPU=0.5", 0)
        self.assertEqual(len(driver.ok("call").split()[2]), 1)

    def test_children_are_in_the_group_when_that_is_asked_for(self):
        driver = self.driver
        identity = driver.ok("new", 0, "PACK", "CPU=1")
        self.assertEqual(driver.ok("child", 0, 0, 1).split()[1], identity)
        self.assertEqual(driver.ok("child", 0, 0, 0).split()[1], "none")

    def test_other_drivers_find_it_by_name_and_it_ends_with_its_job_unless_detached(self):
        driver = self.driver
        with Driver(PROGRAM) as other:
            driver.ok("new", 0, "PACK", "CPU=1", "ours")
            identity = driver.ok("new", 1, "PACK", "CPU=1", "lasting", "detached")
            driver.ok("wait", 0, -1)
            driver.ok("wait", 1, -1)
            other.ok("find", 0, "ours")
            self.assertEqual(other.ok("task", 0, 0, 1).split()[1], driver.ok("id", 0))
            said = other.ask("new", 1, "PACK", "CPU=1", "lasting")
            said = other.ask("wait", 1, -1)
            self.assertEqual(said[0], "CRT_ERR_EXISTS")
            self.assertIn('the name "lasting"', said[1])
        with Driver(PROGRAM, CRT_JOB_NAMESPACE="elsewhere") as other:
            self.assertEqual(other.ask("find", 0, "ours")[0], "CRT_ERR_NOT_FOUND")
            other.ok("find", 0, "ours", "groups")
            self.assertEqual(other.ok("id", 0), driver.ok("id", 0))
            other.ok("new", 1, "PACK", "GPU=0.5", "ours")  # a name there is another one
            other.ok("wait", 1, -1)
            self.assertEqual(other.ask("find", 0, "ours", "a/b")[0], "CRT_ERR_NOT_FOUND")
        driver.end()
        self.cluster.wait_for(lambda: self.cluster.free() == 1)
        self.driver = driver = Driver(PROGRAM)
        self.fails("CRT_ERR_NOT_FOUND", 'no placement group "ours"', "find", 0, "ours")
        driver.ok("find", 0, "lasting")
        self.assertEqual(driver.ok("id", 0), identity)
        self.assertEqual(driver.ok("count", 0), "1")
        self.assertEqual(driver.ok("task", 0, -1, 1).split()[1], identity)
        driver.ok("get", 1, identity)
        driver.ok("remove", 1)
        self.cluster.wait_for(lambda: self.cluster.free() == 2)
        self.assertEqual(driver.ask("task", 0, 0, 1)[0], "CRT_ERR_UNSCHEDULABLE")

    def test_what_can_not_be_is_refused(self):
        driver = self.driver
        for words, text in ((("PACK", "-"),
                             "bundle 0: it needs nothing"), (("PACK", "CPU=1;CPU=-1"), "bundle 1"),
                            (("PACK", "CPU=nan"),
                             "bundle 0"), (("LINE", "CPU=1"), "there is no placement strategy 99"),
                            (("PACK", "CPU=1@zone"), "bundle 0: \"zone\" in a label selector"),
                            (("PACK", "CPU=1", "detached"),
                             "a detached placement group needs a name")):
            driver.ok("new", 0, *words)
            self.fails("CRT_ERR_INVALID", text, "wait", 0, -1)
        driver.ok("new", 0, "PACK", "CPU=1")
        self.fails("CRT_ERR_INVALID", "there is no bundle 1: placement group", "task", 0, 1, 1)
        driver.ok("actor", 0, 3, "CPU=1", 0)
        self.fails("CRT_ERR_INVALID", "there is no bundle 3", "call")
        self.fails("CRT_ERR_UNSCHEDULABLE", "has not 2 CPU", "task", 0, 0, 2)
        self.fails("CRT_ERR_INVALID", "32 hex digits", "get", 1, "zz")
        self.fails("CRT_ERR_NOT_FOUND", "there is no placement group", "get", 1, "ab" * 16)
        self.fails("CRT_ERR_INVALID", "is NULL", "wait", 5, 0)

    def test_thousands_leave_nothing_behind(self):
        self.driver.ok("create", 1000, "CPU=0.001")
        self.cluster.wait_for(lambda: self.cluster.free() == 2)
        counts = self.cluster.state()["placement_groups"]
        self.assertEqual(set(counts), {"REMOVED"})
        self.assertLessEqual(counts["REMOVED"], 1000)


class Nodes(unittest.TestCase):
    """Three nodes of 2 CPUs each, in zones a, b and c; the head is on the first."""

    def setUp(self):
        self.cluster = Cluster(CRT, "--num-cpus", "2", "--labels", "zone=a")
        self.cluster.join("--num-cpus", "2", "--labels", "zone=b")
        self.cluster.join("--num-cpus", "2", "--labels", "zone=c")
        self.zone = {node["node_id"]: node["labels"][5] for node in self.cluster.nodes()}
        self.driver = Driver(PROGRAM)

    def tearDown(self):
        self.driver.end()
        self.cluster.stop()

    def zones(self, group, count):
        return "".join(self.zone[self.driver.ok("task", group, i, 1).split()[0]]
                       for i in range(count))

    def kill(self, zone):
        for node in self.cluster.nodes():
            if self.zone[node["node_id"]] == zone:
                os.kill(node["pid"], signal.SIGKILL)

    def remove(self, *groups):
        """They are placed anew where nothing else is."""
        for group in groups:
            self.driver.ok("remove", group)
        self.cluster.wait_for(lambda: self.cluster.free() == 6)

    def test_strategies_say_where_bundles_are(self):
        driver = self.driver
        driver.ok("new", 0, "PACK", "CPU=1;CPU=1")
        self.assertEqual(len(set(self.zones(0, 2))), 1)
        driver.ok("new", 1, "STRICT_SPREAD", "CPU=1;CPU=1", "fail")
        self.assertEqual(len(set(self.zones(1, 2))), 2)
        self.remove(0, 1)
        driver.ok("new", 0, "STRICT_SPREAD", "CPU=1;CPU=1;CPU=1")
        self.assertEqual(set(self.zones(0, 3)), set("abc"))
        self.remove(0)
        driver.ok("new", 0, "SPREAD", "CPU=1;CPU=1;CPU=1;CPU=1")
        self.assertEqual(set(self.zones(0, 4)), set("abc"))
        self.remove(0)
        driver.ok("new", 0, "PACK", "CPU=2;CPU=1;CPU=1")
        self.assertEqual(len(set(self.zones(0, 3))), 2)
        self.remove(0)
        driver.ok("new", 0, "STRICT_PACK", "CPU=2;CPU=1", "fail")
        self.assertIn("need 3 CPU on one node, the largest has 2 CPU", driver.ask("wait", 0, -1)[1])
        driver.ok("new", 0, "STRICT_SPREAD", "CPU=1;CPU=1;CPU=1;CPU=1", "fail")
        self.assertIn("its 4 bundles need a node each, the cluster has 3",
                      driver.ask("wait", 0, -1)[1])
        driver.ok("new", 0, "PACK", "CPU=1@zone=c;CPU=1@zone=b;CPU=1@zone=!b")
        self.assertRegex(self.zones(0, 3), "cb[ac]")
        driver.ok("new", 1, "PACK", "CPU=1@zone=d", "fail")
        self.assertIn("zone=d", driver.ask("wait", 1, -1)[1])

    def test_any_bundle_with_room_serves_a_task(self):
        driver = self.driver
        driver.ok("new", 0, "STRICT_SPREAD", "CPU=1;CPU=1;CPU=1")
        driver.ok("hold", 0, 0)
        for _ in range(3):  # whichever bundle is asked first
            driver.ok("task", 0, -1, 1)
        driver.ok("task_beside", 0, -1, 0.5)  # what it asks for is new: bundle 0 is asked first

    def test_bundles_of_a_node_that_dies_are_reserved_elsewhere(self):
        driver = self.driver
        mine = self.zone[driver.ok("node")]
        others = sorted(set("abc") - {mine})
        driver.ok("new", 0, "PACK", f"CPU=1@zone=in({','.join(others)});CPU=1@zone={mine}")
        driver.ok("actor", 0, 0, "CPU=1", -1)
        first = self.zone[driver.ok("call").split()[0]]
        second = next(zone for zone in others if zone != first)
        self.kill(first)
        # Its workers end a moment after the node, and may answer until then.
        self.cluster.wait_for(lambda: self.zone.get(driver.ask("call")[1].split()[0]) == second)
        self.assertEqual(self.zone[driver.ok("task", 0, 1, 1).split()[0]], mine)
        self.kill(second)
        self.cluster.wait_for(lambda: self.cluster.state()["placement_groups"].get("RESCHEDULING"))
        driver.ok("get", 1, driver.ok("id", 0))
        self.assertEqual(driver.ask("wait", 1, 300)[0], "CRT_ERR_TIMED_OUT")
        self.assertEqual(self.zone[driver.ok("task", 0, 1, 1).split()[0]],
                         mine)  # the others serve on
        self.cluster.join("--num-cpus", "2", "--labels", "zone=" + second)
        driver.ok("wait", 1, -1)
        self.zone.update({node["node_id"]: node["labels"][5] for node in self.cluster.nodes()})
        self.assertEqual(self.zone[driver.ok("call").split()[0]], second)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
