#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tasks that are slow and are run a second time elsewhere, on real nodes that are killed.
Usage: test_backups.py CRT BACKUP_PROGRAM"""
import json
import os
import signal
import sys
import tempfile
import unittest

from real_cluster import Cluster, Driver, run

CRT, PROGRAM = sys.argv[1:3]


class Backups(unittest.TestCase):
    """The driver's node has no CPU: tasks run on the nodes that join."""

    def setUp(self):
        self.cluster = Cluster(CRT, "--num-cpus", "0", soon=60)
        self.addCleanup(self.cluster.stop)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "runs")

    def start(self):
        driver = Driver(PROGRAM)
        self.addCleanup(driver.end)
        return driver

    def lines(self, suffix=""):
        try:
            with open(self.path + suffix, encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def stall(self, yes):
        if yes:
            with open(self.path + ".stall", "w", encoding="utf-8"):
                pass
        else:
            os.unlink(self.path + ".stall")

    def run_slow(self, driver, stall=False):
        """The node and pid of the first run and of the second one."""
        driver.ok("quick", 3)
        if stall:
            self.stall(True)
        driver.ok("slow", self.path)
        self.cluster.wait_for(lambda: len(self.lines()) == 2)
        return [line.split() for line in self.lines()]

    def test_the_second_run_is_on_another_node_and_wins(self):
        driver = self.start()
        self.cluster.join("--num-cpus", 1)
        self.cluster.join("--num-cpus", 1)
        first, second = self.run_slow(driver)
        self.assertNotEqual(first[0], second[0])
        self.assertEqual(driver.ok("value").split(), second)
        self.cluster.wait_for(lambda: self.lines(".cancelled") == [" ".join(first)])
        self.cluster.wait_for(lambda: self.cluster.free() == 2)

        def attempts():
            rows = json.loads(run(CRT, "list", "tasks", "--format", "json", "--limit", 1000))
            by_id = {}
            for row in rows:
                by_id.setdefault(row["task_id"], []).append(
                    (row["attempt_number"], row["node_id"]))
            return max(by_id.values(), key=len)

        self.cluster.wait_for(
            lambda: sorted(attempts()) == [(0, first[0]), (1, second[0])])

    def test_on_the_only_node_it_is_in_another_process(self):
        driver = self.start()
        self.cluster.join("--num-cpus", 2)
        first, second = self.run_slow(driver)
        self.assertEqual(first[0], second[0])
        self.assertNotEqual(first[1], second[1])
        self.assertEqual(driver.ok("value").split(), second)

    def test_without_room_the_first_run_goes_on_alone(self):
        driver = self.start()
        self.cluster.join("--num-cpus", 1)
        driver.ok("quick", 3)
        driver.ok("slow", self.path)
        self.cluster.wait_for(lambda: len(self.lines()) == 1)
        first = self.lines()[0].split()
        os.kill(int(first[1]), signal.SIGKILL)  # now there is room
        self.assertEqual(driver.ok("value").split(), self.lines()[1].split())
        self.assertEqual(len(self.lines()), 2)

    def test_the_node_of_the_first_run_dies_and_the_second_one_returns(self):
        driver = self.start()
        self.cluster.join("--num-cpus", 1)
        self.cluster.join("--num-cpus", 1)
        first, second = self.run_slow(driver, stall=True)
        self.cluster.kill(first[0])
        self.cluster.wait_for(lambda: self.cluster.free() == 0)
        self.stall(False)
        self.assertEqual(driver.ok("value").split(), second)
        self.assertEqual(len(self.lines()), 2)

    def test_the_nodes_of_both_die_and_it_is_made_again(self):
        driver = self.start()
        self.cluster.join("--num-cpus", 1)
        self.cluster.join("--num-cpus", 1)
        first, second = self.run_slow(driver, stall=True)
        self.cluster.kill(first[0])
        self.cluster.kill(second[0])
        self.stall(False)
        self.cluster.join("--num-cpus", 1)
        self.assertEqual(driver.ok("value").split(), self.lines()[2].split())

    def test_the_node_with_the_result_dies_and_it_is_made_again(self):
        driver = self.start()
        self.cluster.join("--num-cpus", 1)
        self.cluster.join("--num-cpus", 1)
        _, second = self.run_slow(driver)
        driver.ok("done")
        self.cluster.kill(second[0])
        self.assertEqual(driver.ok("value").split(), self.lines()[2].split())

    def test_a_cancel_reaches_both_runs(self):
        driver = self.start()
        self.cluster.join("--num-cpus", 2)
        runs = self.run_slow(driver, stall=True)
        driver.ok("cancel")
        self.assertEqual(driver.ask("value")[0], "CRT_ERR_CANCELLED")
        self.cluster.wait_for(lambda: sorted(self.lines(".cancelled")) == sorted(
            " ".join(one) for one in runs))

    def test_the_driver_ends_while_both_run(self):
        driver = self.start()
        self.cluster.join("--num-cpus", 2)
        self.run_slow(driver, stall=True)
        driver.process.stdin.close()
        self.assertEqual(driver.process.wait(timeout=60), 0)
        self.cluster.wait_for(lambda: self.cluster.free() == 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
