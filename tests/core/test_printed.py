#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What actors print is on the driver's terminal before a get or a wait tells of the result.
Usage: test_printed.py CRT PRINTING_PROGRAM"""
import os
import re
import signal
import subprocess
import sys
import unittest

CRT, PROGRAM = sys.argv[1:3]
ROUNDS = 100


def command(nodes, rounds, actors, *words):
    return [
        CRT, "run", "--nodes",
        str(nodes), "--num-cpus",
        str(actors // nodes), "--object-store-memory", "50M", "--", PROGRAM,
        str(rounds),
        str(actors), *words
    ]


def daemons_of(pid):
    """The node daemons among its descendants."""
    found = []
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        for child in children.read().split():
            with open(f"/proc/{child}/comm", encoding="ascii") as name:
                found += [int(child)] if name.read() == "crt-node\n" else []
            found += daemons_of(child)
    return found


class Printed(unittest.TestCase):
    def expect_in_order(self, lines, rounds):
        """Lines of a round, in any order among stdout and stderr, before the driver's."""
        at = {line: i for i, line in enumerate(lines)}
        for number in range(rounds):
            driver = next(i for i, line in enumerate(lines)
                          if line.startswith(f"driver has {number} "))
            for text in (f"first of {number}", f"second of {number}",
                         f"third of {number}, unfinished"):
                shown = [
                    i for line, i in at.items()
                    if re.fullmatch(rf"\(Printer pid=\d+, ip=\S+\) {text}", line)
                ]
                self.assertEqual(len(shown), 1, f"{text}: {lines}")
                self.assertLess(shown[0], driver, f"{text} comes behind the driver's line")

    def prints(self, nodes, actors):
        patient = dict(os.environ, CRT_PRINT_TIMEOUT="60s")  # on a busy machine, too
        done = subprocess.run(command(nodes, ROUNDS, actors), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=100, env=patient)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.expect_in_order(done.stdout.splitlines(), ROUNDS)

    def test_all_of_it_on_one_node(self):
        self.prints(1, 1)

    def test_all_of_it_on_several_nodes(self):
        self.prints(2, 2)

    def folds(self, wanted):
        done = subprocess.run(command(1, 3, 3,
                                      "same"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=100, env=dict(os.environ, CRT_DEDUP_LOGS=wanted))
        self.assertEqual(done.returncode, 0, done.stdout)
        return [
            re.sub(r"^\(Printer pid=\d+, ip=\S+\) ", "", line) for line in done.stdout.splitlines()
            if line.startswith("(")
        ]

    def test_the_same_lines_of_several_actors_are_shown_once_if_that_is_wanted(self):
        lines = ("first of 0", "second of 0", "third of 0, unfinished")
        self.assertEqual(
            sorted(self.folds("1")),
            sorted(line + more for line in lines
                   for more in ("", " [repeated 2 times across cluster]")))
        self.assertEqual(sorted(self.folds("0")), sorted(3 * lines))

    def test_a_wish_that_is_none_is_refused(self):
        done = subprocess.run([PROGRAM, "1", "1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=100, check=False,
                              env=dict(os.environ, CRT_DEDUP_LOGS="perhaps"))
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("CRT_DEDUP_LOGS=perhaps is neither 0 nor 1", done.stdout)

    def test_a_daemon_that_stands_still_delays_no_result_for_long(self):
        run = subprocess.Popen(command(2, 6, 2, "hold"), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in run.stdout:
            if line == "driver waits\n":
                break
        daemons = daemons_of(run.pid)
        self.assertEqual(len(daemons), 2)
        for pid in daemons:
            os.kill(pid, signal.SIGSTOP)
        run.stdin.write("\n")
        run.stdin.flush()
        try:
            for number in (4, 5):
                line = next(line for line in run.stdout if line.startswith("driver has"))
                match = re.fullmatch(r"driver has (\d) after (\S+) s\n", line)
                self.assertEqual(int(match[1]), number)
                self.assertGreater(float(match[2]), 0.15)  # it was waited for
                self.assertLess(float(match[2]), 1)
        finally:
            for pid in daemons:
                os.kill(pid, signal.SIGCONT)
        run.communicate(timeout=50)
        self.assertEqual(run.returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
