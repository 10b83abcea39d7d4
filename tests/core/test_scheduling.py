#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where work runs, and what becomes of work that can run nowhere.
Usage: test_scheduling.py CRT SCHEDULING_PROGRAM STAND_IN_FOR_NVML"""
import os
import re
import sys
import unittest
import unittest.mock

import real_cluster
from real_cluster import run

CRT, PROGRAM, NVML = sys.argv[1:4]
TIMED_OUT, UNSCHEDULABLE = -3, -21


class Cluster(real_cluster.Cluster):
    def __init__(self, *options):
        super().__init__(CRT, *options)

    def program(self, *words):
        """The lines of a driver, each as (what it did, status, text)."""
        said = run(PROGRAM, *words)
        found = [
            line.split(" ", 2) for line in said.splitlines()
            if re.match(r"(task|actor) -?\d+ ", line)
        ]
        return {what: (int(status), text) for what, status, text in found}, said

    def wait_until_idle(self):
        """What the last program had may be given back a moment after its end."""
        self.wait_for(lambda: all(node["resources_available"] == node["resources_total"]
                                  for node in self.nodes()))


class Infeasible(unittest.TestCase):
    def test_what_no_node_has_fails_when_it_says_so_and_waits_else(self):
        with Cluster("--num-cpus", "1", "--resources", "disk=2") as cluster:
            ended, _ = cluster.program("infeasible", 1, "dsik=1")
            for what in "task", "actor":
                self.assertEqual(ended[what][0], UNSCHEDULABLE, ended)
                self.assertIn("needs 1 dsik, the cluster has 0", ended[what][1])
                self.assertIn("which no node has ever had; the nearest name is disk",
                              ended[what][1])
            waits, said = cluster.program("waits", 0, "dsik=1")
            self.assertEqual([status for status, _ in waits.values()], [TIMED_OUT, TIMED_OUT], said)
            self.assertIn("the nearest name is disk", said)  # the warning of who waits
            done, _ = cluster.program("infeasible", 1, "disk=1")
            self.assertEqual([status for status, _ in done.values()], [0, 0])
            ended, _ = cluster.program("infeasible", 7, "disk=1")
            self.assertIn("if_infeasible is no crt_infeasible_t: 7", ended["task"][1])
            self.assertIn("if_infeasible is no crt_infeasible_t: 7", ended["actor"][1])

    def test_the_cluster_says_what_becomes_of_those_that_do_not_say_it(self):
        with Cluster("--num-cpus", "1", "--fail-if-infeasible", "on") as cluster:
            ended, _ = cluster.program("infeasible", 0, "CPU=2")
            self.assertEqual([status for status, _ in ended.values()], [UNSCHEDULABLE] * 2)
            self.assertIn("needs 2 CPU, the cluster has 1", ended["task"][1])
            waits, said = cluster.program("waits", 2, "CPU=2")
            self.assertEqual([status for status, _ in waits.values()], [TIMED_OUT, TIMED_OUT], said)


class Implicit(unittest.TestCase):
    """What a node has without being told."""

    def test_memory_is_there_and_counted_and_may_be_said(self):
        with Cluster("--num-cpus", "2") as cluster:
            node = cluster.nodes()[0]
            memory = node["resources_total"]["memory"]
            self.assertLess(0, memory)
            self.assertLessEqual(memory, node["memory_bytes"] - node["store_bytes"])
            self.assertIn("memory", run(CRT, "status"))
            done, _ = cluster.program("infeasible", 1, "memory=1048576")
            self.assertEqual([status for status, _ in done.values()], [0, 0])
            ended, _ = cluster.program("infeasible", 1, f"Memory={int(memory) + 1}")
            self.assertEqual([status for status, _ in ended.values()], [UNSCHEDULABLE] * 2)
            self.assertRegex(ended["task"][1],
                             r"needs [\d.e+]+ MiB memory, the cluster has [\d.e+]+ MiB memory")
        with Cluster("--resources", "memory=2000000") as cluster:
            self.assertEqual(cluster.nodes()[0]["resources_total"]["memory"], 2000000)

    def test_each_node_is_a_resource_by_its_address(self):
        with Cluster("--num-cpus", "2", "--node-ip-address", "127.0.0.2") as cluster:
            cluster.join("--num-cpus", "2", "--node-ip-address", "127.0.0.3")
            for node in cluster.nodes():
                self.assertEqual(node["resources_total"]["node:" + node["ip"]], 1)
                _, said = cluster.program("on", f"node:{node['ip']}=0.01")
                self.assertEqual(re.findall(r"(task|actor)-at (\w+)", said),
                                 [("task", node["node_id"]), ("actor", node["node_id"])], said)
            self.assertNotRegex(run(CRT, "status"), r"Resources[^W]*node:")
            ended, _ = cluster.program("infeasible", 1, "node:127.0.0.4=0.01")
            self.assertEqual(
                ended["task"],
                (UNSCHEDULABLE, "needs 0.01 node:127.0.0.4, the cluster has 0 node:127.0.0.4"))


class Gpus(unittest.TestCase):
    def gpus(self, cluster, amount, count):
        """What each task and the actor had: lists of (ids, began, ended)."""
        _, said = cluster.program("gpus", amount, count)
        found = {"actor": [], "task": [], "none": []}
        for what, ids, visible, began, ended in re.findall(r"^(\w+)-gpus (\S+) (\S+) (\S+) (\S+)$",
                                                           said, re.M):
            self.assertEqual(visible, "unset" if ids == "none" else ids)
            found[what].append((ids.split(","), float(began), float(ended)))
        self.assertEqual((len(found["task"]), len(found["actor"]), len(found["none"])),
                         (count, 2, 1), said)
        self.assertEqual(found["none"][0][0], ["none"])
        self.assertEqual(found["actor"][0][0], found["actor"][1][0])  # it keeps them
        return found

    def most_at_a_time(self, tasks):
        """Of each GPU: how many tasks had it at a moment."""
        names = {name for ids, _, _ in tasks for name in ids}
        return {name: max(sum(name in ids and began <= at < ended for ids, began, ended in tasks)
                          for _, at, _ in tasks) for name in names}

    def test_whole_gpus_are_nobody_elses_and_cuda_is_told_which(self):
        with Cluster("--num-cpus", "2", "--num-gpus", "4") as cluster:
            found = self.gpus(cluster, 1, 8)
            actor = found["actor"][0][0]
            self.assertEqual(len(actor), 1)
            most = self.most_at_a_time(found["task"])
            self.assertEqual(set(most) | set(actor), set("0123"))
            self.assertNotIn(actor[0], most)
            self.assertEqual(set(most.values()), {1})
            pairs = self.gpus(cluster, 2, 3)
            self.assertTrue(all(len(ids) == 2 for ids, _, _ in pairs["task"] + pairs["actor"]))
            self.assertEqual(set(self.most_at_a_time(pairs["task"]).values()), {1})
            self.assertFalse({name
                              for ids, _, _ in pairs["task"]
                              for name in ids} & set(pairs["actor"][0][0]))

    def test_parts_of_a_gpu_are_shared_and_never_more_than_one(self):
        with Cluster("--num-cpus", "2", "--resources", "gpu=2") as cluster:
            found = self.gpus(cluster, 0.5, 8)
            most = self.most_at_a_time(found["task"])
            self.assertLessEqual(most.pop(found["actor"][0][0][0], 0),
                                 1)  # the actor has the other half
            self.assertTrue(all(count <= 2 for count in most.values()), most)
            _, said = cluster.program("gpus", 1.5, 1)
            self.assertIn("1.5 GPU: a part of a GPU, or whole ones, but not both", said)
            ended, _ = cluster.program("infeasible", 1, "GPU=3")
            self.assertEqual([status for status, _ in ended.values()], [UNSCHEDULABLE] * 2)
            for name in "gpu=2", "GPU=0.5", "Gpu=1":
                done, _ = cluster.program("infeasible", 1, name)
                self.assertEqual([status for status, _ in done.values()], [0, 0])

    def test_the_driver_says_how_many_gpus_there_are_and_of_which_type(self):
        with unittest.mock.patch.dict(os.environ, CRT_NVML_LIBRARY=NVML,
                                      FAKE_NVML="NVIDIA H100 80GB HBM3|NVIDIA H100 80GB HBM3"):
            os.environ.pop("CUDA_VISIBLE_DEVICES", None)
            cluster = Cluster("--num-cpus", "1", "--labels", "zone=a")
        with cluster:
            node = cluster.nodes()[0]
            self.assertEqual(node["resources_total"]["GPU"], 2)
            self.assertEqual(node["labels"], "zone=a,ray.io/accelerator-type=H100")
            _, said = cluster.program("where", 1, 0, "-", 0,
                                      "ray.io/accelerator-type=in(H100,H200)", "-")
            self.assertIn(f"task-at {node['node_id']}", said)
            self.assertIn("GPUs 0,1, labels", run(CRT, "logs", "--node", node["node_id"]))
            with unittest.mock.patch.dict(os.environ,
                                          CRT_NVML_LIBRARY=NVML):  # whose driver is not loaded
                cluster.join("--num-gpus", "1")
            other, = [n for n in cluster.nodes() if n["node_id"] != node["node_id"]]
            self.assertEqual((other["resources_total"]["GPU"], other["labels"]), (1, ""))
            self.assertRegex(run(CRT, "logs", "--node", other["node_id"]),
                             "Driver Not Loaded; this node has 1 GPUs, of unknown type")

    def test_a_worker_computes_with_as_many_threads_as_it_has_cpus(self):
        with Cluster("--num-cpus", "3") as cluster:
            with unittest.mock.patch.dict(os.environ,
                                          OPENBLAS_NUM_THREADS="2"):  # the user's: nothing is set
                self.assertIn("threads 1\n", cluster.program("threads", 3)[1])
                del os.environ["OPENBLAS_NUM_THREADS"]
                for cpus, threads in (1, 1), (3, 3), (2.5, 2):
                    self.assertIn(f"threads {threads}\n", cluster.program("threads", cpus)[1])

    def test_a_task_that_wakes_up_preempts_nobody_who_answers_others(self):
        with Cluster("--num-cpus", "2") as cluster:
            _, said = cluster.program("policies")
            self.assertRegex(said, "(?m)^task( batch)+$")
            self.assertRegex(said, "(?m)^actor( other)+$")


class Locality(unittest.TestCase):
    def test_a_task_runs_where_its_large_argument_is(self):
        # Nodes of its own: those of others may still think that the node is full, for a moment
        # after its work has ended.
        with Cluster("--num-cpus", "2") as cluster:
            cluster.join("--num-cpus", "2")
            nodes = [node["node_id"] for node in cluster.nodes()]
            _, said = cluster.program("locality", *nodes, 8 << 20)
            made = re.search(r"made-at (\w+)", said)[1]
            self.assertEqual(re.findall(r"task-at (\w+)", said), [made] * 4, said)
            _, said = cluster.program("locality", *nodes, 200 << 10)
            made = re.search(r"made-at (\w+)", said)[1]
            self.assertNotIn(made, re.findall(r"task-at (\w+)",
                                              said))  # what is small goes to the task


class Nodes(unittest.TestCase):
    """Three nodes of two CPUs, in the zones a (of the head), b and c."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("--num-cpus", "2", "--labels", "zone=a")
        cls.cluster.join("--num-cpus", "2", "--labels", "zone=b,disk=ssd")
        cls.cluster.join("--num-cpus", "2", "--labels", "zone=c")
        cls.zone = {node["labels"][5]: node["node_id"] for node in cls.cluster.nodes()}

    @classmethod
    def tearDownClass(cls):
        cls.cluster.__exit__()

    def where(self, count, strategy, node="-", soft=0, selector="-", fallback="-"):
        """The zones of the tasks and of the actors, or what the errors say."""
        _, said = self.cluster.program("where", count, strategy, node, soft, selector, fallback)
        zones = {node: zone for zone, node in self.zone.items()}
        tasks, actors = [[zones[node] for node in re.findall(what + r"-at (\w+)", said)]
                         for what in ("task", "actor")]
        return "".join(sorted(tasks)), "".join(sorted(actors)), said

    def test_labels_are_shown(self):
        self.assertEqual(set(self.zone), set("abc"))

    def test_spread_uses_all_nodes_alike(self):
        tasks, actors, said = self.where(6, 1)
        self.assertEqual((tasks, actors), ("aabbcc", "aabbcc"), said)

    def test_affinity_is_to_one_node_and_fails_without_it_unless_soft(self):
        self.assertEqual(self.where(4, 2, self.zone["c"])[:2], ("cccc", "cccc"))
        tasks, actors, said = self.where(1, 2, "ab" * 16)
        self.assertEqual((tasks, actors), ("", ""))
        self.assertIn("task-failed", said)
        self.assertEqual(said.count("on node abababab"), 2, said)
        tasks, actors, said = self.where(1, 2, "ab" * 16, 1)
        self.assertEqual((len(tasks), len(actors)), (1, 1), said)

    def test_a_selector_chooses_by_labels_and_falls_back(self):
        self.assertEqual(self.where(2, 0, selector="zone=b")[:2], ("bb", "bb"))
        self.assertEqual(self.where(1, 0, selector="disk=ssd,zone=in(b,c)")[:2], ("b", "b"))
        self.assertEqual(self.where(1, 0, selector="zone=!in(a,b)")[:2], ("c", "c"))
        self.assertEqual(self.where(4, 0, selector="zone=b", fallback="zone=c")[0], "bbcc")
        self.assertEqual(self.where(1, 0, selector="zone=x", fallback="zone=c")[:2], ("c", "c"))

    def test_what_can_not_be_is_refused_in_one_sentence(self):
        for strategy, node, selector, fallback, text in (
            (7, "-", "-", "-", "there is no scheduling strategy 7"),
            (2, "-", "-", "-", "CRT_SCHEDULE_NODE_AFFINITY needs a node_id of 32 hex digits"),
            (2, "xyz", "-", "-", "CRT_SCHEDULE_NODE_AFFINITY needs a node_id of 32 hex digits"),
            (1, "ab" * 16, "-", "-",
             "node_id and node_is_soft need .scheduling = CRT_SCHEDULE_NODE_AFFINITY"),
            (0, "-", "zone=in(", "-", "is none of key=value"),
            (0, "-", "-", "zone=a", "fallback_selectors need a label_selector"), (0, "-", "a" * 600,
                                                                                  "-", "at most")):
            tasks, actors, said = self.where(1, strategy, node, 0, selector, fallback)
            self.assertEqual((tasks, actors, said.count(text)), ("", "", 2), said)

    def test_labels_that_can_not_be_are_refused(self):
        said = run(CRT, "start", "--address", self.cluster.address, "--key-file", self.cluster.key,
                   "--labels", "zone=a,zone=b", status=1)
        self.assertIn("label \"zone\" is given twice", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
