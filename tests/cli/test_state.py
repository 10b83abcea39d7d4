#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crt list, get, summary and timeline, and /api/v0 beneath them, on a real cluster.
Usage: test_state.py CRT STATE_PROGRAM"""
import json
import os
import re
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

CRT, PROGRAM = sys.argv[1:3]
PATIENCE = 60


class Cluster:
    def __init__(self):
        said = subprocess.run([CRT, "start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus", "4",
                               "--object-store-memory", "50M"], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.address = re.search(r"--address (\S+) --key-file", said)[1]
        self.token = subprocess.run([CRT, "token", "--address", self.address], stdout=subprocess.PIPE, text=True,
                                    check=True).stdout.strip()
        key = re.search(r"--key-file (\S+)", said)[1]
        with open(os.path.join(os.path.dirname(key), "prometheus.json")) as file:
            self.url = "http://" + json.load(file)[0]["targets"][0]
        self.program = subprocess.Popen([PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, CRT_ADDRESS=self.address))
        assert self.program.stdout.readline() == "ready\n"

    def crt(self, *arguments, code=0):
        done = subprocess.run([CRT, arguments[0], "--address", self.address, *arguments[1:]], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=PATIENCE)
        assert done.returncode == code, (arguments, done)
        return done.stdout if code == 0 else done.stderr

    def rows(self, *arguments):
        return json.loads(self.crt("list", *arguments, "--format", "json"))

    def get(self, path, code=200):
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {self.token}"})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                assert answer.status == code
                return json.load(answer)
        except urllib.error.HTTPError as error:
            assert error.code == code, (path, error.code, error.read())
            return json.loads(error.read())

    def end(self):
        self.program.communicate("\n", timeout=PATIENCE)
        subprocess.run([CRT, "stop", "--address", self.address], stdout=subprocess.DEVNULL, check=True)


class State(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.end()

    def test_every_resource_is_listed(self):
        c = self.cluster
        self.assertEqual(sorted(row["class_name"] for row in c.rows("actors")), ["Counter", "Counter"])
        self.assertEqual([row["state"] for row in c.rows("nodes")], ["ALIVE"])
        self.assertEqual(sum(row["worker_type"] == "DRIVER" for row in c.rows("workers")), 1)
        self.assertEqual([row["type"] for row in c.rows("jobs")], ["DRIVER"])
        self.assertEqual([row["state"] for row in c.rows("placement-groups")], ["CREATED"])
        self.assertEqual([row["object_size"] >= 1 << 20 for row in c.rows("objects")][0], True)
        self.assertEqual(c.rows("runtime-envs"), [])
        self.assertIn("has joined", c.rows("cluster-events")[-1]["message"])
        self.assertEqual({row["state"] for row in c.rows("tasks", "--filter", "name=waits")}, {"RUNNING"})

    def test_filters_and_limits_choose_rows(self):
        c = self.cluster
        self.assertEqual(len(c.rows("tasks", "--filter", "name=Counter.add", "--filter", "state=FINISHED")), 6)
        self.assertEqual(len(c.rows("tasks", "--filter", "name=Counter.add", "--limit", "2")), 2)
        self.assertEqual({row["name"] for row in c.rows("tasks", "--filter", "state=FAILED")}, {"fails"})
        self.assertNotIn("fails", {row["name"] for row in c.rows("tasks", "--filter", "name!=fails")})
        said = c.crt("list", "tasks", "--filter", "colour=red", code=1)
        self.assertIn("crt list: the filter's key \"colour\" is no column of tasks", said)
        self.assertIn("KEY=VALUE", c.crt("list", "tasks", "--filter", "colour", code=2))
        self.assertIn("there is no list of weather", c.crt("list", "weather", code=2))
        self.assertIn("table, json or yaml", c.crt("list", "tasks", "--format", "xml", code=2))

    def test_one_is_shown_with_everything(self):
        c = self.cluster
        task = c.rows("tasks", "--filter", "name=fails")[0]
        shown = json.loads(c.crt("get", "tasks", task["task_id"], "--format", "json"))
        self.assertEqual(len(shown), 1)
        self.assertIn("as it should", shown[0]["error_message"])
        self.assertEqual(shown[0]["events"][-1]["state"], "FAILED")
        text = c.crt("get", "tasks", task["task_id"])  # as YAML
        self.assertIn("error_type: CRT_ERR_USER", text)
        self.assertIn("there is none of tasks", c.crt("get", "tasks", "0" * 48, code=1))
        actor = c.rows("actors")[0]["actor_id"]
        self.assertEqual(json.loads(c.crt("get", "actors", actor, "--format", "json"))[0]["num_restarts"], 0)
        self.assertIn("queue_length: 0\n", c.crt("list", "actors", "--detail"))
        self.assertEqual(len(c.rows("actors", "--filter", "queue_length=0")), 2)

    def test_tables_are_for_people(self):
        text = self.cluster.crt("list", "actors")
        self.assertIn("actor_id", text)
        self.assertEqual(len(re.findall("Counter", text)), 2)
        self.assertEqual(self.cluster.crt("list", "runtime-envs"), "None.\n")

    def test_summaries_count(self):
        tasks = json.loads(self.cluster.crt("summary", "tasks", "--format", "json"))[0]
        self.assertEqual(tasks["summary"]["Counter.add"]["state_counts"], {"FINISHED": 6})
        self.assertEqual(tasks["total_actor_scheduled"], 2)
        actors = json.loads(self.cluster.crt("summary", "actors", "--format", "json"))[0]
        self.assertEqual(actors["summary"]["Counter"]["state_counts"], {"ALIVE": 2})
        objects = json.loads(self.cluster.crt("summary", "objects", "--format", "json"))[0]
        self.assertGreaterEqual(objects["total_size_mb"], 1)
        self.assertIn("Counter.add", self.cluster.crt("summary", "tasks"))
        self.assertIn("summary of tasks", self.cluster.crt("summary", "nodes", code=2))

    def test_the_timeline_has_slices_and_arrows(self):
        path = f"timeline-{os.getpid()}.json"
        try:
            self.cluster.crt("timeline", "-o", path)
            with open(path) as file:
                trace = json.load(file)
        finally:
            os.unlink(path)
        runs = [event for event in trace if event["ph"] == "X" and event["cat"] == "task"]
        self.assertEqual(sum(event["name"] == "Counter.add" for event in runs), 6)
        self.assertTrue(all(event["dur"] >= 0 for event in runs))
        starts = {event["id"]: event["ts"] for event in trace if event["ph"] == "s"}
        ends = {event["id"]: event["ts"] for event in trace if event["ph"] == "f"}
        self.assertTrue(ends and set(ends) == set(starts))
        self.assertTrue(all(ends[key] >= starts[key] for key in ends))
        self.assertEqual(json.loads(self.cluster.crt("timeline", "--job", "0" * 32)), [])

    def test_what_is_not_known_is_refused(self):
        get = self.cluster.get
        for query in ["colour=red", "limit=x", "limit=10001", "detail=maybe", "filter_keys=state",
                      "filter_keys=state&filter_predicates=%3E&filter_values=1", "timeout=0"]:
            self.assertFalse(get(f"/api/v0/tasks?{query}", 400)["result"])
        self.assertFalse(get("/api/v0/tasks/summarize?summary_by=lineage", 400)["result"])
        self.assertFalse(get("/api/v0/tasks/summarize?summary_by=colour", 400)["result"])
        logs = get("/api/v0/logs?glob=*")["data"]["result"]
        self.assertEqual(len(logs["actor_out"]), 2)
        self.assertEqual(get("/api/v0/logs?glob=nothing*")["data"]["result"], {})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
