#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that hold resources and wait for what another one holds are found, told and, where that is
wanted, set free; those that are only slow are left alone.
Usage: test_resource_deadlocks.py CRT DEADLOCK_PROGRAM"""
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import real_cluster

CRT, PROGRAM = sys.argv[1:3]
FOUND = "resource deadlock: none of these jobs can go on before another one ends"


class Driver:
    """deadlock_program, which has what it begins with."""

    def __init__(self, *words, **variables):
        self.terminal = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([PROGRAM, *(str(word) for word in words)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.terminal, text=True,
                                        env=dict(os.environ, **variables))
        assert self.process.stdout.readline() == "holds\n", self.said()

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        """What it prints last."""
        last = self.process.stdout.readline().strip()
        self.process.communicate()
        return last

    def said(self):
        self.terminal.seek(0)
        return self.terminal.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self.terminal.close()


def deadlock(cluster):
    return cluster.state()["resource_deadlock"]


class ResourceDeadlocks(unittest.TestCase):
    def find(self, cluster, since):
        cluster.wait_for(lambda: deadlock(cluster))
        found = deadlock(cluster)
        print(f"found after {found['start_time'] / 1000 - since:.2f} s:", found["message"])
        return found

    def test_two_drivers_that_want_each_others_cpus_are_told_so_until_one_dies(self):
        with real_cluster.Cluster(CRT, "--num-cpus", "4") as cluster, \
             Driver("actors", 2, 1) as one, Driver("actors", 2, 1) as two:
            self.assertIsNone(deadlock(cluster))
            one.go_on()
            two.go_on()
            found = self.find(cluster, time.time())
            self.assertTrue(found["message"].startswith(FOUND))
            self.assertEqual([job["holds"] for job in found["jobs"]], ["2 CPU"] * 2)
            self.assertEqual([job["waits_for"] for job in found["jobs"]],
                             ["1 CPU (actor holder)"] * 2)
            for driver in (one, two):
                self.assertTrue(any(f"pid {driver.process.pid} " in job["name"]
                                    for job in found["jobs"]), found)
                cluster.wait_for(lambda d=driver: FOUND in d.said())
            self.assertIn("holds 2 CPU and waits for 1 CPU (actor holder)",
                          real_cluster.run(CRT, "status"))
            cluster.kill_head()
            cluster.restart_head()
            self.find(cluster, time.time())
            one.process.kill()
            self.assertEqual(two.end(), "done")
            cluster.wait_for(lambda: deadlock(cluster) is None)

    def test_the_youngest_request_fails_where_that_is_wanted_and_the_others_go_on(self):
        with real_cluster.Cluster(CRT, "--num-cpus", "4", "--resources", "token=1",
                                  "--on-resource-deadlock", "fail-youngest") as cluster:
            for words in (("actors", 2, 1), ("group", 1, 3)):
                with self.subTest(words), Driver(*words) as one, Driver(*words) as two:
                    one.go_on()
                    two.go_on()
                    self.assertEqual({one.end(), two.end()},
                                     {"done", "CRT_ERR_RESOURCE_DEADLOCK"})
                    cluster.wait_for(lambda: cluster.free() == 4)
            with Driver("task") as alone:
                alone.go_on()
                self.assertEqual(alone.end(), "CRT_ERR_RESOURCE_DEADLOCK")
                self.assertIn("waits for what only itself holds", alone.said())

    def test_who_only_computes_is_left_alone(self):
        with real_cluster.Cluster(CRT, "--num-cpus", "2", "--on-resource-deadlock",
                                  "fail-youngest") as cluster, \
             Driver("slow", 1, 3000, CRT_TELL_WAITS="0.5") as slow, \
             Driver("actors", 1, 1, CRT_TELL_WAITS="0.5") as other, \
             Driver("group", 0, 2, CRT_TELL_WAITS="0.5") as third:
            third.go_on()
            other.go_on()
            slow.go_on()
            self.assertEqual(slow.end(), "done")
            self.assertEqual(other.end(), "done")
            self.assertEqual(third.end(), "done")
            self.assertNotIn("resource deadlock", slow.said() + other.said())
            self.assertIsNone(deadlock(cluster))
            # What each has waited for is told once, by its own driver.
            self.assertEqual(slow.said().count("has waited 0.5 s for holder.compute: "), 1)
            self.assertRegex(
                slow.said(), r"it has run for \d+\.\d s in process \d+ of node [0-9a-f]{8}")
            self.assertEqual(other.said().count("has waited 0.5 s for holder.compute: actor "
                                                "holder is PENDING: "), 1)
            self.assertRegex(third.said(),
                             r"has waited 0\.5 s for a placement group: .*(room|CPU)")

    def test_a_loop_with_long_steps_is_told_of_its_first_one(self):
        with real_cluster.Cluster(CRT, "--num-cpus", "1"), \
             Driver("steps", 1, 500, CRT_TELL_WAITS="0.1") as loop:
            loop.go_on()
            self.assertEqual(loop.end(), "done")
            # On a busy machine it waits for the start of the actor first, and is told so.
            told = re.findall(r"has waited 0\.1 s for holder\.compute: it has run", loop.said())
            self.assertEqual(len(told), 1, loop.said())

    def test_a_limit_that_is_no_number_of_seconds_is_refused(self):
        done = subprocess.run([PROGRAM, "task"], env=dict(os.environ, CRT_TELL_WAITS="soon"),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("CRT_TELL_WAITS=soon: a time from 0 to ", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
