#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""word_count and sort with twice as many bytes as the stores of the nodes hold, while a node dies
and another one joins: exact all the same.
Usage: test_map_reduce.py CRT WORD_COUNT SORT"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import map_reduce_data
from real_cluster import Cluster

CRT, WORD_COUNT, SORT = sys.argv[1:4]
MIB = map_reduce_data.MIB
STORE, NODES, DATA = 10, 3, 60  # MiB of a store; MiB of the file


class MapReduce(unittest.TestCase):
    """The driver's node has no CPU, the others have one each."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="crt-map-reduce-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.cluster = Cluster(CRT, "--num-cpus", "0", "--spill-dir", self.dir,
                               store=f"{STORE}M", soon=120)
        self.addCleanup(self.cluster.stop)

    def join(self):
        self.cluster.join("--num-cpus", 1, "--spill-dir", self.dir)

    def spilled(self):
        """Nodes of tasks that have objects on disk."""
        return [node for node in self.cluster.nodes() if node["state"] == "ALIVE" and
                node["resources_total"].get("CPU") and node["spilled_bytes"] > MIB]

    def await_reports(self):
        now = self.cluster.state()["time"]
        self.cluster.wait_for(lambda: all(node["heard_time"] > now + 1000  # heartbeats
                                          for node in self.cluster.nodes()))

    def run_while_nodes_come_and_go(self, *words):
        """What the program prints; a node dies when its store has overflown."""
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
            self.addCleanup(program.kill)
            self.cluster.wait_for(lambda: self.cluster.status()["jobs"])
            program.send_signal(signal.SIGSTOP)
            for _ in range(NODES):  # the driver is at the only one there was
                self.join()
            victim = map_reduce_data.run_until(self.spilled, self.await_reports, program.wait,
                                               program.send_signal)[0]
            self.join()
            os.kill(victim["pid"], signal.SIGKILL)
            program.send_signal(signal.SIGCONT)
            said, _ = program.communicate(timeout=400)
        self.assertEqual(program.returncode, 0)
        return said

    def test_words_are_counted_exactly(self):
        path = os.path.join(self.dir, "words")
        map_reduce_data.write_words(path, DATA)
        said = self.run_while_nodes_come_and_go(WORD_COUNT, "-p", "4", "-r", "32", "-n", "300",
                                                path)
        self.assertEqual(said.splitlines(), map_reduce_data.most_frequent(path, 300))

    def test_records_are_sorted_exactly(self):
        path, folder = os.path.join(self.dir, "records"), os.path.join(self.dir, "sorted")
        map_reduce_data.write_records(path, DATA)
        self.run_while_nodes_come_and_go(SORT, "-p", "4", "-r", "16", path, folder)
        with open(path, "rb") as file:
            wanted = sorted(file)
        found = []
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as file:
                found += file
        self.assertEqual(len(found), len(wanted))
        self.assertTrue(found == wanted, "not in their order")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
