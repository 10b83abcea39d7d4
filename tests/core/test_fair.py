#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A driver that keeps tasks queued leaves others their share of the workers.
Usage: test_fair.py CRT FAIR_PROGRAM [SECONDS that shares are measured]"""
import os
import re
import subprocess
import sys
import time
import unittest

import real_cluster

CRT, PROGRAM = sys.argv[1:3]
SECONDS = float(sys.argv[3]) if len(sys.argv) > 3 else 5
NAP = 200  # ms: a task that runs is not interrupted


class Cluster(real_cluster.Cluster):
    warnings = ()  # how often each driver said that its tasks wait

    def __init__(self, cpus, nodes=1):
        super().__init__(CRT, "--num-cpus", cpus)
        for _ in range(nodes - 1):
            self.join("--num-cpus", cpus)

    @staticmethod
    def until_begun(driver):
        """What it printed before the end of its first tasks."""
        lines = []
        for line in driver.stdout:
            if line == "begun\n":
                return "".join(lines)
            lines.append(line)
        raise AssertionError("a driver has ended: " + "".join(lines))

    def shares(self, quotas, seconds, task_ms=20):
        """Greedy drivers side by side: the part of all tasks that each had done, in so many
        seconds. A quota is (priority, share) by option, or variables of the environment."""
        drivers = []
        for quota in quotas:
            is_option = isinstance(quota, tuple)
            drivers.append(
                subprocess.Popen([
                    PROGRAM, "between",
                    str(task_ms),
                    str(seconds * 1000), *(map(str, quota) if is_option else ())
                ], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 text=True, env=dict(os.environ, **({} if is_option else quota))))
        said = [self.until_begun(driver) for driver in drivers]
        begin = time.monotonic() * 1000
        for driver in drivers:
            driver.stdin.write(f"{begin}\n")
            driver.stdin.flush()
        said = [text + driver.communicate(timeout=100)[0] for text, driver in zip(said, drivers)]
        self.warnings = [len(re.findall("tasks? waits?: ", text)) for text in said]
        counts = [int(re.search(r"between (\d+)", text)[1]) for text in said]
        return [count / sum(counts) for count in counts]


class Weights(unittest.TestCase):
    def assert_shares(self, cluster, quotas, wanted):
        """A machine that is busy otherwise starts tasks late: shares that are wrong are wrong three
        times."""
        for _ in range(3):
            found = cluster.shares(quotas, SECONDS)
            print("shares of greedy drivers, wanted", *(f"{part:.3f}" for part in wanted), "found",
                  *(f"{part:.3f}" for part in found))
            if all(abs(part - want) < max(0.05, want / 10) for part, want in zip(found, wanted)):
                return
        self.fail(f"{found}, not {wanted}")

    def test_two_greedy_drivers_of_one_weight_get_half_each(self):
        with Cluster(2) as cluster:
            self.assert_shares(cluster, [(1,), (1,)], [1 / 2, 1 / 2])
            # They wait for a turn many times a second: that is told once in ten seconds.
            self.assertLessEqual(max(cluster.warnings), 1 + SECONDS // 10, cluster.warnings)

    def test_drivers_get_their_shares_by_weight(self):
        with Cluster(2) as cluster:
            self.assert_shares(cluster, [(1,), (2,), (5,)], [1 / 8, 2 / 8, 5 / 8])

    def test_drivers_get_their_shares_of_several_nodes(self):
        with Cluster(1, nodes=3) as cluster:
            self.assert_shares(cluster, [(1,), (4,)], [1 / 5, 4 / 5])
            self.assert_shares(cluster, [(1,), (2,), (5,)], [1 / 8, 2 / 8, 5 / 8])

    def test_what_the_submission_says_counts_and_a_share_is_capped(self):
        with Cluster(4) as cluster:
            quotas = [{"CRT_JOB_PRIORITY": "1000", "CRT_JOB_MAX_SHARE": "0.25"}, (1, )]
            self.assert_shares(cluster, quotas, [1 / 4, 3 / 4])

    def test_quotas_that_can_not_be_are_refused(self):
        for variables, text in (({"CRT_JOB_PRIORITY": "0"},
                                 "CRT_JOB_PRIORITY=0: a whole number of 1 to 1000"),
                                ({"CRT_JOB_PRIORITY": "1.5"}, "CRT_JOB_PRIORITY=1.5"),
                                ({"CRT_JOB_PRIORITY": "nan"}, "CRT_JOB_PRIORITY=nan"),
                                ({"CRT_JOB_PRIORITY": "1001"}, "CRT_JOB_PRIORITY=1001"), ({
                                    "CRT_JOB_MAX_SHARE": "1.1"
                                }, "CRT_JOB_MAX_SHARE=1.1: a part of 0.0001 to 1"),
                                ({"CRT_JOB_MAX_SHARE": "-0.5"}, "CRT_JOB_MAX_SHARE=-0.5"),
                                ({"CRT_JOB_MAX_SHARE": "inf"}, "CRT_JOB_MAX_SHARE=inf")):
            done = subprocess.run([PROGRAM, "short", "1"], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True,
                                  env=dict(os.environ, **variables), timeout=60, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stdout)
        for quota in (-1,), (2000,), (1, -0.5), (1, 2):
            done = subprocess.run([PROGRAM, "between", "1", "0", *map(str, quota)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=60, check=False)
            self.assertEqual(done.returncode, 1, done.stdout)


class Fair(unittest.TestCase):
    def run_on(self, cpus, *words, nodes=1):
        done = subprocess.run([
            CRT, "run", "--nodes",
            str(nodes), "--num-cpus",
            str(cpus), "--object-store-memory", "50M", "--", PROGRAM, *map(str, words)
        ], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
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
