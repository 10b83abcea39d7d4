#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Values of which two nodes keep the bytes, while nodes are killed, drained and added.
Usage: test_copies.py CRT COPIES_PROGRAM"""
import os
import subprocess
import sys
import tempfile
import unittest

from real_cluster import Cluster, Driver, run

CRT, PROGRAM = sys.argv[1:3]
BYTES = 200 << 10
COUNT = 20


class Copies(unittest.TestCase):
    """The driver's node has no CPU: tasks run on the nodes that join."""

    def setUp(self):
        self.cluster = Cluster(CRT, "--num-cpus", "0", soon=60)
        self.addCleanup(self.cluster.stop)
        self.driver = None

    def start(self, terminal=subprocess.DEVNULL, **variables):
        self.driver = Driver(PROGRAM, terminal, **variables)
        self.addCleanup(self.driver.end)
        self.here = self.driver.ok("node")

    def join(self):
        return self.cluster.add("--num-cpus", 1)

    def used(self):
        return {node["node_id"]: node["store_used"] for node in self.cluster.nodes()
                if node["state"] == "ALIVE"}

    def wait_for_copies(self, *nodes):
        """All values are on these nodes."""
        self.cluster.wait_for(lambda: all(self.used().get(node, 0) >= COUNT * BYTES
                                          for node in nodes))

    def drop(self):
        self.driver.ok("drop")
        self.cluster.wait_for(lambda: all(used < BYTES for used in self.used().values()))

    def test_results_survive_the_node_that_made_them(self):
        self.start()
        maker = self.join()
        self.driver.ok("make", COUNT, maker)
        self.wait_for_copies(maker, self.here)
        self.cluster.kill(maker)
        self.assertEqual(self.driver.ok("check"), "whole")
        other = self.join()
        self.wait_for_copies(self.here, other)
        self.drop()

    def test_what_was_put_is_whole_when_the_other_node_dies_at_any_time(self):
        self.start()
        other = self.join()
        self.driver.ok("put", COUNT)
        self.cluster.kill(other)
        self.assertEqual(self.driver.ok("check"), "whole")
        third = self.join()
        self.wait_for_copies(self.here, third)
        self.assertEqual(self.driver.ok("read", third), "whole")
        self.drop()

    def test_copies_are_made_again_each_time_a_node_dies(self):
        self.start()
        node = self.join()
        self.driver.ok("make", COUNT // 2, node)
        self.driver.ok("put", COUNT // 2)
        for _ in range(4):
            self.wait_for_copies(self.here, node)
            following = self.join()
            self.cluster.kill(node)
            self.assertEqual(self.driver.ok("check"), "whole")
            node = following
        self.wait_for_copies(self.here, node)
        self.assertEqual(self.driver.ok("read", node), "whole")
        self.drop()

    def test_a_drained_node_hands_its_copies_on(self):
        self.start()
        drained = self.join()
        self.driver.ok("put", COUNT)
        self.wait_for_copies(self.here, drained)
        other = self.join()
        run(CRT, "drain", drained[:12], "--deadline", 60)
        self.wait_for_copies(self.here, other)
        self.assertEqual(self.driver.ok("read", other), "whole")
        self.drop()

    def test_a_job_says_how_many_copies_its_values_have(self):
        self.start(CRT_JOB_COPIES="2")
        other = self.join()
        self.driver.ok("plain", COUNT // 2)
        self.driver.ok("plain_make", COUNT // 2, other)
        self.wait_for_copies(self.here, other)
        before = self.used()[other]
        self.driver.ok("one", COUNT)  # these say otherwise
        self.driver.ok("plain", 1)
        self.cluster.wait_for(lambda: self.used()[other] >= before + BYTES)
        self.assertLess(self.used()[other], before + 2 * BYTES)
        self.cluster.kill(other)
        self.assertEqual(self.driver.ok("check"), "whole")
        self.driver.ok("drop")

    def test_a_number_of_copies_that_is_none_is_refused(self):
        for copies in ["0", "5", "two", "1.5"]:
            done = subprocess.run([PROGRAM], env=dict(os.environ, CRT_JOB_COPIES=copies),
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"CRT_JOB_COPIES={copies}: a whole number of 1 to 4 is needed",
                          done.stderr)

    def test_with_one_node_it_is_told_once_and_values_have_one_copy(self):
        terminal = tempfile.TemporaryFile("w+")
        self.addCleanup(terminal.close)
        self.start(terminal)
        self.driver.ok("put", COUNT)
        self.assertEqual(self.driver.ok("check"), "whole")

        def said():
            terminal.seek(0)
            return terminal.read()

        self.cluster.wait_for(lambda: "fewer than they should" in said())
        self.wait_for_copies(self.here, self.join())
        self.assertEqual(said().count("fewer than they should"), 1)
        self.drop()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
