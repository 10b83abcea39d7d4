#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crt symmetric-run on three hosts that share no files. Usage: test_symmetric.py"""
import sys
import unittest

import hosts
from crt_cluster import new_lab, nothing_is_left

KEY = "shared.key"
COUNT = ("crt status --json | /usr/bin/python3 -c 'import json, sys; print(sum(n[\"state\"] == "
         "\"ALIVE\" for n in json.load(sys.stdin)[\"cluster\"][\"nodes\"]))'")
LAB = []


class SymmetricRun(unittest.TestCase):
    def setUp(self):
        self.hosts = [LAB[0].host(name) for name in "abc"] if not LAB[1:] else LAB[1]
        LAB[1:] = [self.hosts]
        self.address = f"{self.hosts[0].ip}:6390"
        for host in self.hosts:
            host.run("sh", "-c", f"rm -f {KEY}; umask 077; printf %064d 7 > {KEY}")

    def tearDown(self):
        for host in self.hosts:
            nothing_is_left(host)

    def start(self, host, *program, nodes=3, options=()):
        return host.start("crt", "symmetric-run", "--address", self.address, "--nodes", nodes,
                          "--key-file", KEY, "--object-store-memory", "64M", "--num-cpus", "1",
                          *options, "--", *program)

    def test_the_program_runs_on_the_heads_host_when_all_have_joined_and_all_end_with_it(self):
        head, *others = [self.start(host, "sh", "-c", f"echo nodes: $({COUNT}); exit 7")
                         for host in self.hosts]
        self.assertEqual(head.wait(60), 7, head.text)
        self.assertIn("nodes: 3", head.text)
        for other in others:
            self.assertEqual(other.wait(30), 0, other.text)
            self.assertNotIn("nodes:", other.text)

    def test_a_host_that_does_not_come_is_told_and_the_others_end(self):
        head, other = [self.start(host, "true", options=("--timeout", "3"))
                       for host in self.hosts[:2]]
        self.assertEqual(head.wait(60), 1, head.text)
        self.assertIn(f"2 of 3 nodes joined within 3 s: do they reach {self.address}", head.text)
        self.assertEqual(other.wait(30), 0, other.text)

    def test_without_the_heads_host_the_others_say_so(self):
        other = self.start(self.hosts[1], "true", options=("--timeout", "1"))
        self.assertEqual(other.wait(30), 1, other.text)
        self.assertIn(f"nobody answered at {self.address} within 1 s", other.text)

    def test_the_key_is_made_by_the_heads_host_and_never_of_a_file_that_others_may_read(self):
        head, other = self.hosts[:2]
        head.run("rm", KEY)
        alone = self.start(head, "stat", "-c", "%a %s", KEY, nodes=1)
        self.assertEqual(alone.wait(60), 0, alone.text)
        self.assertIn("600 65", alone.text)
        other.run("chmod", "644", KEY)
        refused = self.start(other, "true")
        self.assertEqual(refused.wait(30), 1, refused.text)
        self.assertIn("chmod 600", refused.text)

    def test_another_key_does_not_join(self):
        other = self.hosts[1]
        other.run("sh", "-c", f"umask 077; printf %064d 8 > {KEY}")
        head, other = [self.start(host, "true", nodes=2, options=("--timeout", "3"))
                       for host in self.hosts[:2]]
        self.assertEqual(other.wait(60), 1, other.text)
        self.assertEqual(head.wait(60), 1, head.text)
        self.assertIn("1 of 2 nodes joined", head.text)

    def test_ctrl_c_ends_the_program_and_all_hosts(self):
        head, *others = [self.start(host, "sh", "-c", "echo begun; exec sleep 1000")
                         for host in self.hosts]
        head.wait_line("begun", 60)
        head.kill(2)
        self.assertNotEqual(head.wait(30), 0, head.text)
        for other in others:
            self.assertEqual(other.wait(30), 0, other.text)

    def test_a_host_that_is_killed_is_lost_and_the_program_goes_on(self):
        head, other, victim = [
            self.start(host, "sh", "-c", f"echo begun; until [ $({COUNT}) = 2 ]; do :; done")
            for host in self.hosts]
        head.wait_line("begun", 60)
        victim.kill()
        self.assertEqual(head.wait(60), 0, head.text)
        self.assertEqual(other.wait(30), 0, other.text)
        self.hosts[2].run("crt", "run", "--", "true")  # removes what was left there


def main():
    with new_lab() as lab:
        LAB.append(lab)
        result = unittest.main(argv=sys.argv, exit=False).result
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    hosts.run(main)
