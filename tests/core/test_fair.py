#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A driver that keeps tasks queued leaves others their share of the workers.
Usage: test_fair.py CRT FAIR_PROGRAM"""
import subprocess
import sys
import unittest

CRT, PROGRAM = sys.argv[1:3]
NAP = 200  # ms: a task that runs is not interrupted


class Fair(unittest.TestCase):
    def run_on(self, cpus, *words, nodes=1):
        done = subprocess.run([CRT, "run", "--nodes", str(nodes), "--num-cpus", str(cpus), "--object-store-memory",
                               "50M", "--", PROGRAM, *map(str, words)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
        self.assertEqual(done.returncode, 0, done.stdout)
        lines = [line.split() for line in done.stdout.splitlines()]
        return ([float(line[1]) for line in lines if line[0] == "short"],
                [(int(line[1]), float(line[2])) for line in lines if line[0] == "greedy"])

    def test_a_short_task_waits_for_a_turn_and_not_for_the_end_of_a_greedy_driver(self):
        short, _ = self.run_on(2, "greedy", NAP, 0, "short", 8)
        print("short tasks of 10 ms beside a greedy driver, ms:", *(f"{ms:.0f}" for ms in short))
        self.assertEqual(len(short), 8)
        self.assertLess(max(short), 900)

    def test_a_greedy_driver_on_another_node_gives_way_too(self):
        short, _ = self.run_on(1, "greedy", NAP, 0, "short", 8, nodes=2)
        print("the same on two nodes of one CPU, ms:", *(f"{ms:.0f}" for ms in short))
        self.assertLess(max(short), 900)

    def test_two_greedy_drivers_get_half_of_one_cpu_each(self):
        _, greedy = self.run_on(1, "greedy", 50, 60, "greedy", 50, 60)
        print("two greedy drivers on one CPU, tasks and ms:", greedy)
        self.assertEqual(len(greedy), 2)
        times = sorted(ms for _, ms in greedy)
        # The second one begins after the first task, and both have the same to do.
        self.assertLess(times[1], times[0] * 1.35)
        self.assertGreater(times[0], 2 * 60 * 50 * 0.75)

    def test_a_driver_that_is_alone_is_not_disturbed(self):
        _, greedy = self.run_on(2, "greedy", 20, 200)
        self.assertLess(greedy[0][1], 200 * 20 / 2 * 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
