#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Values whose node dies: what tasks have made is made again, whoever wants it; and if it is not,
the error says why.
Usage: test_lineage.py CRT LINEAGE_PROGRAM"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from real_cluster import Cluster, Driver, run

CRT, PROGRAM = sys.argv[1:3]


class Lineage(unittest.TestCase):
    """The driver's node has no CPU: all tasks run on the node that joins last."""

    def setUp(self):
        self.cluster = Cluster(CRT, "--num-cpus", "0", soon=60)
        self.addCleanup(self.cluster.stop)

    def start(self, terminal=subprocess.DEVNULL, **variables):
        driver = Driver(PROGRAM, terminal, **variables)
        self.addCleanup(driver.end)
        return driver

    def join(self, cpus):
        return self.cluster.add("--num-cpus", cpus)

    def test_a_chain_of_a_hundred_tasks_is_made_again(self):
        driver, victim = self.start(), self.join(2)
        self.assertEqual(driver.ok("chain", 100), "100")
        self.join(2)
        self.cluster.kill(victim)
        byte, took_ms = driver.ok("value").split()
        self.assertEqual(byte, "100")
        print(f"a chain of 100 tasks was made again within {took_ms} ms", file=sys.stderr)

    def test_a_borrower_on_another_node_gets_what_was_made_again(self):
        driver, victim = self.start(), self.join(1)
        self.assertEqual(driver.ok("chain", 5), "5")
        driver.ok("lent", self.join(0))
        self.join(1)
        self.cluster.kill(victim)
        self.assertEqual(driver.ok("read"), "5")
        self.assertEqual(driver.ok("value").split()[0], "5")

    def test_a_reduction_over_a_dead_node_is_exact(self):
        driver, victim = self.start(), self.join(2)
        driver.ok("pieces", 60)
        self.join(1)  # fewer CPUs: what waits for values must not be in the way of their makers
        self.cluster.kill(victim)
        self.assertEqual(driver.ok("sum"), str(sum(range(60))))

    def test_what_was_made_from_values_that_were_put_is_made_again(self):
        driver, victim = self.start(), self.join(2)
        driver.ok("puts", 10)
        self.join(2)
        self.cluster.kill(victim)
        self.assertEqual(driver.ok("sum"), str(sum(range(1, 11))))

    def test_items_of_a_stream_that_has_ended_are_made_again(self):
        driver, victim = self.start(), self.join(2)
        driver.ok("stream", 60)
        self.join(1)
        self.cluster.kill(victim)
        self.assertEqual(driver.ok("sum"), str(sum(range(60))))

    def test_items_of_a_stream_that_goes_on_are_made_again(self):
        driver, victim = self.start(), self.join(2)
        driver.ok("open", 20)
        self.join(3)
        self.cluster.kill(victim)
        self.assertEqual(driver.ok("sum"), str(sum(range(20))))

    def test_a_stream_that_yields_fewer_items_again_fails_those_that_lack(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        driver, victim = self.start(), self.join(1)
        driver.ok("fewer", 10, os.path.join(directory.name, "has-run"))
        self.join(1)
        self.cluster.kill(victim)
        self.assertEqual(driver.ok("at", 6), "6")
        status, text = driver.ask("at", 8)
        self.assertEqual(status, "CRT_ERR_USER")
        self.assertIn("fewer yielded 7 results when it was run again since some were lost, and "
                      "more before: this one was number 9", text)

    def test_an_item_of_a_task_that_may_run_once_is_lost_with_that_reason(self):
        driver, victim = self.start(), self.join(1)
        driver.ok("once", 3)
        self.join(1)
        self.cluster.kill(victim)
        status, text = driver.ask("at", 1)
        self.assertEqual(status, "CRT_ERR_OBJECT_LOST")
        self.assertIn("yields made it, which may run once (max_attempts)", text)

    def test_who_waits_for_long_is_told_that_the_value_is_made_again(self):
        terminal = tempfile.TemporaryFile("w+")
        self.addCleanup(terminal.close)
        driver, victim = self.start(terminal, CRT_TELL_WAITS="0.3"), self.join(1)
        driver.ok("chain", 2)
        self.cluster.kill(victim)  # no other node has a CPU
        self.cluster.wait_for(lambda: victim not in [
            node["node_id"] for node in self.cluster.nodes() if node["state"] == "ALIVE"])
        driver.process.stdin.write("value\n")
        driver.process.stdin.flush()

        def said():
            terminal.seek(0)
            return terminal.read()

        self.cluster.wait_for(lambda: re.search(
            r"has waited 0\.3 s for \w+, which is made again: ", said()))
        self.join(1)
        status, value = driver.process.stdout.readline().split(" ", 1)
        self.assertEqual((status, value.split()[0]), ("CRT_OK", "2"))

    def test_who_waits_for_a_transfer_is_told_how_far_it_is(self):
        terminal = tempfile.TemporaryFile("w+")
        self.addCleanup(terminal.close)
        driver, maker = self.start(terminal, CRT_TELL_WAITS="0.3"), self.join(1)
        driver.ok("chain", 2)
        pid = self.cluster.node(maker)["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        driver.process.stdin.write("value\n")
        driver.process.stdin.flush()

        def said():
            terminal.seek(0)
            return terminal.read()

        self.cluster.wait_for(lambda: "has waited" in said())
        self.assertRegex(said(), r"has waited 0\.3 s for a ref: 0\.0 of its 0\.1 MiB have come "
                                 rf"from node {maker[:8]} in \d\.\d s, 0\.00 MiB/s")
        os.kill(pid, signal.SIGCONT)
        status, value = driver.process.stdout.readline().split(" ", 1)
        self.assertEqual((status, value.split()[0]), ("CRT_OK", "2"))

    def test_status_says_how_much_is_kept_and_of_how_much(self):
        driver = self.start(CRT_LINEAGE_LIMIT="1048576")
        self.join(2)
        driver.ok("chain", 20)
        self.cluster.wait_for(lambda: any(node["lineage_bytes"] for node in self.cluster.nodes()))
        self.assertRegex(run(CRT, "status"),
                         r"\(CRT_LINEAGE_LIMIT\)\n [0-9a-f]{8} [1-9][0-9.]* \S+/1\.0 MiB\n")
        node = next(node for node in self.cluster.nodes() if node["lineage_bytes"])
        self.assertEqual((node["lineage_limit"], node["lineage_forgotten"]), (1048576, 0))
        self.assertLess(node["lineage_bytes"], 20 * 400)

    def test_a_limit_that_is_no_number_of_bytes_is_refused(self):
        for limit in ["64X", "-1", "much"]:
            done = subprocess.run([PROGRAM], env=dict(os.environ, CRT_LINEAGE_LIMIT=limit),
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"CRT_LINEAGE_LIMIT={limit}: a number of bytes from 0 to 1024T",
                          done.stderr)

    def test_an_error_says_that_the_limit_was_reached(self):
        driver, victim = self.start(CRT_LINEAGE_LIMIT="100"), self.join(2)
        driver.ok("chain", 3)
        self.cluster.wait_for(lambda: any(node["lineage_forgotten"]
                                          for node in self.cluster.nodes()))
        self.assertRegex(run(CRT, "status"), r"\(CRT_LINEAGE_LIMIT\)\n .*lack of room: \d+\n")
        self.join(2)
        self.cluster.kill(victim)
        status, text = driver.ask("value")
        self.assertEqual(status, "CRT_ERR_OBJECT_LOST")
        self.assertRegex(text, rf"^node {victim[:8]}, which had the last copy of the object, has "
                               r"died; \w+ made it, .*100 bytes \(CRT_LINEAGE_LIMIT\)")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
