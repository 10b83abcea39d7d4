#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the examples whose output is not the same each time, on clusters of their own by crt run.
Usage: test_examples.py CRT WAIT_MANY MONTE_CARLO_PI CLUSTER_RESOURCES SHARDED_SERVER RANKS PROGRESS
TRAIN_MNIST SLEEPING_TASKS CHIP_TASKS"""
import contextlib
import os
import pty
import re
import subprocess
import sys
import tempfile
import unittest

(CRT, WAIT_MANY, MONTE_CARLO_PI, CLUSTER_RESOURCES, SHARDED_SERVER, RANKS, PROGRESS,
 TRAIN_MNIST, SLEEPING_TASKS, CHIP_TASKS) = sys.argv[1:11]


def run(*words, on=()):
    """The lines that the program prints on a cluster made with the options `on`."""
    command = [CRT, "run", "--object-store-memory", "50M", *on, "--", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}: {done.stderr}")
    return done.stdout.splitlines()


class Examples(unittest.TestCase):
    def test_every_task_is_waited_for_and_none_twice(self):
        primes = {100000: 9592, 200000: 17984, 300000: 25997, 400000: 33860}
        lines = run(WAIT_MANY, "4", on=["--nodes", "2", "--num-cpus", "2"])
        found = [re.fullmatch(r"task (\d): (\d+) primes below (\d+)", line) for line in lines]
        self.assertEqual(sorted((int(m[1]), int(m[2]), int(m[3])) for m in found),
                         sorted((4 - n // 100000, p, n) for n, p in primes.items()))

    def test_pi_comes_nearer_with_more_points(self):
        line, = run(MONTE_CARLO_PI, "--tasks", "40", "--samples", "50000")
        match = re.fullmatch(
            r"pi is about ([\d.]+), off by \S+: 40 tasks of 50000 samples in \S+ s", line)
        self.assertAlmostEqual(float(match[1]), 3.14159265, delta=0.005)

    def test_each_node_and_their_sum_are_printed(self):
        lines = run(CLUSTER_RESOURCES,
                    on=["--nodes", "3", "--num-cpus", "2", "--resources", "disk=0.5"])
        nodes = [line for line in lines if line.startswith("node ")]
        self.assertEqual(len(nodes), 3)
        self.assertEqual(sum("driver runs" in node for node in nodes), 1)
        self.assertEqual(lines.count("    CPU      2 of 2 free"), 3)
        self.assertEqual(lines[lines.index("the cluster"):][1:3], ["    CPU      6 of 6 free",
                                                                   "    disk     1.5 of 1.5 free"])

    def test_tasks_that_sleep_return_one_each(self):
        self.assertEqual(run(SLEEPING_TASKS, "3", "0.01"), ["[1, 1, 1]"])

    def test_tasks_take_turns_with_the_chips_that_they_need(self):
        line, = run(CHIP_TASKS, "3", "40", on=["--nodes", "2", "--resources", "TPU=4"])
        self.assertRegex(line, r"^3 products of 40 x 40, the sum of all is -?\d+\.\d\d$")
        done = subprocess.run([CRT, "run", "--", CHIP_TASKS, "1"], capture_output=True, text=True,
                              timeout=100)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("needs 4 TPU, the cluster has 0", done.stderr)

    def test_ranks_sum_what_each_has(self):
        lines = run(RANKS, on=["--nodes", "2", "--ranks", "4"])
        self.assertEqual(sorted(lines),
                         [f"rank {r} of 4 has {sum(range(r, 1000, 4))}"
                          for r in range(4)] + ["the sum of all is 499500"])

    def test_one_bar_is_drawn_for_many_workers(self):
        command = [CRT, "run", "--object-store-memory", "50M", "--", PROGRESS, "30"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        self.assertEqual((done.returncode, done.stdout), (0, "4 tasks are done\n"))
        self.assertEqual(done.stderr.splitlines()[-1], "working: 120 of 120 (100 %)")
        ours, theirs = pty.openpty()
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs) as running:
            os.close(theirs)
            drawn = b""
            with contextlib.suppress(OSError):  # it has closed the terminal
                while piece := os.read(ours, 65536):
                    drawn += piece
        os.close(ours)
        self.assertEqual(running.returncode, 0)
        self.assertRegex(drawn.decode(), r"\rworking \[#+\] 100% 120/120 .*\n$")

    def test_a_training_shows_on_a_terminal_how_long_it_will_take(self):
        ours, theirs = pty.openpty()
        with subprocess.Popen([TRAIN_MNIST, "--iterations", "21", "--hidden", "8"],
                              stdout=subprocess.DEVNULL, stderr=theirs) as running:
            os.close(theirs)
            drawn = b""
            with contextlib.suppress(OSError):  # it has closed the terminal
                while piece := os.read(ours, 65536):
                    drawn += piece
        os.close(ours)
        self.assertEqual(running.returncode, 0)
        self.assertRegex(drawn.decode(), r"\r\[#+\.+\] 11 of 21, [\d.]+/s, \d+:\d\d left ")
        self.assertRegex(drawn.decode(), r"\r\[#{30}\] 21 of 21, ")

    def test_trainers_that_can_never_run_together_are_told_at_once(self):
        words = ("--data", "builtin", "--iterations", "5", "--workers")
        for mode in "sync", "allreduce":
            command = [
                CRT, "run", "--object-store-memory", "50M", "--nodes", "2", "--num-cpus", "1", "--",
                TRAIN_MNIST, "--mode", mode, *words, "3"
            ]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 1)
            self.assertIn("a CPU for each worker", done.stderr)
            self.assertIn("its 3 bundles need 3 CPU, the cluster has 2 CPU", done.stderr)
        lines = run(TRAIN_MNIST, "--mode", "allreduce", *words, "2",
                    on=["--nodes", "2", "--num-cpus", "1"])
        self.assertIn("final accuracy", "\n".join(lines))

    def test_every_update_of_every_shard_arrives_exactly_once(self):
        for shards, on in ((1, []), (7, ["--nodes", "2"])):  # 7: not of equal size
            prefix = os.path.join(tempfile.mkdtemp(dir=os.path.dirname(os.environ["CRT_RUN_DIR"])),
                                  "shards")
            lines = run(SHARDED_SERVER, "--shards", str(shards), "--elements", "100001", "--csv",
                        f"{prefix}.csv", "--svg", prefix, on=on)
            self.assertRegex(lines[0],
                             rf"4 workers x 5 iterations on {shards} shards: \S+ s, \S+ GB/s")
            self.assertEqual(lines[1], "0 of 100001 elements are not exactly 21.0")
            late = [tuple(map(int, re.findall(r"\d+", line))) for line in lines[3:]]
            self.assertEqual(sum(count for _, count in late), 21 * shards)
            with open(f"{prefix}.csv", encoding="utf-8") as file:
                self.assertEqual(len(file.readlines()), 6)
            with open(f"{prefix}-throughput.svg", encoding="utf-8") as file:
                self.assertEqual(file.read().count("<polyline"), 2)

    def test_a_configuration_sets_what_the_command_line_does_not(self):
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/server.cfg"
            with open(path, "w", encoding="utf-8") as file:
                file.write(
                    "[server]\nshards = 3\nelements = 10001\n\n[training]\nworkers = 2\n"
                    "iterations = 4\n"
                )
            lines = run(SHARDED_SERVER, path, "--training.iterations=2", "--workers", "3")
            self.assertRegex(lines[0], r"3 workers x 2 iterations on 3 shards: ")
            self.assertEqual(lines[1], "0 of 10001 elements are not exactly 7.0")
            for words, why in ((["--server.shard=3"], "shards"), ([path, "--training.workers=0"],
                                                                  "training.workers is 0"),
                               ([f"{folder}/none.cfg"], "none.cfg"), (["--workers",
                                                                       "2x"], "1 to 64 workers"),
                               ([path, "more"], "no other words")):
                done = subprocess.run([CRT, "run", "--", SHARDED_SERVER, *words],
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(why, done.stderr)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="crt-ex-") as directory:
        os.environ["CRT_RUN_DIR"] = os.path.join(directory, "r")
        os.environ["CRT_STATE_DIR"] = os.path.join(directory, "s")
        os.environ.pop("CRT_ADDRESS", None)
        result = unittest.main(argv=sys.argv[:1], exit=False).result
        left = os.listdir(os.path.join(directory, "r"))
    if left:
        print("left behind:", left, file=sys.stderr)
    sys.exit(0 if result.wasSuccessful() and not left else 1)
