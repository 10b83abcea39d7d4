#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Limits in a cluster: what the head was started with counts on every node and in every program;
what is no value is refused by what would obey it.
Usage: test_limits.py CRT LIMITS_PROGRAM"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

from real_cluster import Cluster, Driver, run

CRT, PROGRAM = sys.argv[1:3]


class environment:
    """Variables of what is started meanwhile."""

    def __init__(self, **variables):
        self.variables = variables

    def __enter__(self):
        os.environ.update(self.variables)

    def __exit__(self, *_):
        for name in self.variables:
            del os.environ[name]


def start_cluster(case, **variables):
    with environment(**variables):
        cluster = Cluster(CRT, "--num-cpus", "2", soon=60)
    case.addCleanup(cluster.stop)
    return cluster


class Limits(unittest.TestCase):
    def driver(self, **variables):
        terminal = tempfile.TemporaryFile("w+")
        self.addCleanup(terminal.close)
        driver = Driver(PROGRAM, terminal, **variables)
        self.addCleanup(driver.end)
        return driver, terminal

    def said(self, terminal):
        terminal.seek(0)
        return terminal.read()

    def test_the_head_s_limit_counts_in_a_driver_and_in_its_workers(self):
        start_cluster(self, CRT_RECORD_LIMIT="4M")
        driver, terminal = self.driver(CRT_RECORD_LIMIT="8M")
        self.assertEqual(driver.ok("send", 10), "600000")
        status, text = driver.ask("send", 75)
        self.assertEqual(status, "CRT_ERR_TOO_LARGE")
        self.assertIn("4M (record_limit)", text)
        self.assertEqual(driver.ask("pass", 75)[0], "CRT_ERR_TOO_LARGE")
        self.assertIn("CRT_RECORD_LIMIT=8M does not count: the cluster was started with 4M",
                      self.said(terminal))

    def test_without_it_the_same_calls_succeed(self):
        start_cluster(self)
        driver, _ = self.driver()
        self.assertEqual(driver.ok("send", 75), "4500000")
        self.assertEqual(driver.ok("pass", 75), "4500000")

    def test_a_node_of_another_host_takes_what_the_head_has(self):
        cluster = start_cluster(self, CRT_SESSION_TIMEOUT="45")
        with environment(CRT_SESSION_TIMEOUT="50"):
            cluster.join("--num-cpus", "0")
        told = 0
        for folder, _, names in os.walk(os.environ["CRT_STATE_DIR"]):
            if "node.log" in names:
                with open(os.path.join(folder, "node.log"), encoding="utf-8") as log:
                    told += log.read().count("CRT_SESSION_TIMEOUT=50s does not count: the cluster "
                                             "was started with 45s")
        self.assertEqual(told, 1)

    def test_a_wrong_value_is_refused_by_daemons_and_programs(self):
        with environment(CRT_HEARTBEAT_TIMEOUT="now"):
            said = run(CRT, "start", "--head", "--port", 0, "--dashboard-port", 0, status=1)
        self.assertIn("CRT_HEARTBEAT_TIMEOUT=now: a time from 1s to 1h is needed", said)
        done = subprocess.run([PROGRAM], env=dict(os.environ, CRT_LEASE_DEPTH="0"),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("CRT_LEASE_DEPTH=0: a whole number from 1 to 100000 is needed", done.stderr)

    def test_a_node_is_dead_after_the_head_s_time(self):
        cluster = start_cluster(self, CRT_HEARTBEAT_TIMEOUT="1.5", CRT_HEARTBEAT_INTERVAL="100ms",
                                CRT_LOG="info")
        cluster.join("--num-cpus", "0")
        victim = next(node for node in cluster.nodes()
                      if node["resources_total"].get("CPU", 0) == 0)
        os.kill(victim["pid"], 19)
        self.addCleanup(os.kill, victim["pid"], 9)

        def text():
            return cluster.node(victim["node_id"])["state_message"] or ""
        cluster.wait_for(lambda: re.search(r"nothing was heard of it for 1500ms", text()))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
