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

import real_cluster

CRT, PROGRAM = sys.argv[1:3]
PATIENCE = 60


class Cluster(real_cluster.Cluster):
    def __init__(self):
        super().__init__(CRT, "--num-cpus", "4")
        self.owner = self.token()
        self.program = self.start(PROGRAM, says="ready", TALKS="1")

    def crt(self, *arguments, code=0):
        done = subprocess.run([CRT, arguments[0], "--address", self.address, *arguments[1:]],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              check=False, timeout=PATIENCE)
        assert done.returncode == code, (arguments, done)
        return done.stdout if code == 0 else done.stderr

    def rows(self, *arguments):
        return json.loads(self.crt("list", *arguments, "--format", "json"))

    def get(self, path, code=200, is_json=True):
        request = urllib.request.Request(self.url + path,
                                         headers={"Authorization": f"Bearer {self.owner}"})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                assert answer.status == code
                return json.load(answer)
        except urllib.error.HTTPError as error:
            assert error.code == code, (path, error.code, error.read())
            return json.loads(error.read()) if is_json else error.read().decode()

    def end(self):
        self.program.communicate("\n", timeout=PATIENCE)
        self.stop()


class Empty(unittest.TestCase):
    def test_a_cluster_that_nobody_uses_has_empty_lists(self):
        with real_cluster.Cluster(CRT) as cluster:
            for what in "actors", "tasks", "objects", "jobs", "workers", "placement-groups":
                said = subprocess.run([
                    CRT, "list", what, "--address", cluster.address, "--format", "json"
                ], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True,
                                      timeout=PATIENCE)
                self.assertEqual((json.loads(said.stdout), said.stderr), ([], ""), what)


    def test_a_cluster_without_an_autoscaler_says_that_nobody_makes_room(self):
        with real_cluster.Cluster(CRT) as cluster:
            for words, code, text in (("4*CPU=100", 1, "the cluster has no autoscaler"),
                                      ("--none", 0, "")):
                done = subprocess.run([CRT, "request", words, "--address", cluster.address],
                                      text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, check=False, timeout=PATIENCE)
                self.assertEqual(done.returncode, code, done.stdout)
                self.assertIn(text, done.stdout)


class Names(unittest.TestCase):
    def test_commands_that_take_a_node_take_its_name(self):
        with real_cluster.Cluster(CRT, "--num-cpus", "1", "--node-name", "first") as cluster:

            def crt(*arguments, code=0):
                done = subprocess.run([CRT, *arguments, "--address", cluster.address], text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      check=False, timeout=PATIENCE)
                self.assertEqual(done.returncode, code, (arguments, done.stdout))
                return done.stdout

            for name in "second", "third", "twin", "twin":
                crt("start", "--num-cpus", "1", "--object-store-memory", "20M", "--node-name", name)
            ids = {row["node_name"]: row["node_id"]
                   for row in json.loads(crt("list", "nodes", "--format", "json"))}
            for wanted in "second", ids["second"], ids["second"][:8]:
                self.assertEqual([
                    row["node_id"]
                    for row in json.loads(crt("get", "nodes", wanted, "--format", "json"))
                ], [ids["second"]])
            crt("logs", "--node", "second")
            self.assertIn(f"node {ids['second'][:8]} has ended", crt("drain", "second"))
            self.assertIn("Stopped 1 node", crt("stop", "--node", "third"))
            several = "2 nodes have the name or address twin; give the begin of an id"
            self.assertIn(several, crt("drain", "twin", code=1))
            self.assertIn(several, crt("get", "nodes", "twin", code=1))
            self.assertIn(several, crt("logs", "--node", "twin", code=1))
            self.assertIn("2 nodes here have", crt("stop", "--node", "twin", code=1))
            self.assertIn("no node has an id that begins with zz, or that name",
                          crt("get", "nodes", "zz", code=1))
            self.assertIn("No node whose id begins with zz", crt("stop", "--node", "zz"))


class State(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.end()

    def test_every_resource_is_listed(self):
        c = self.cluster
        self.assertEqual(sorted(row["class_name"] for row in c.rows("actors")),
                         ["Counter", "Counter"])
        self.assertEqual([row["state"] for row in c.rows("nodes")], ["ALIVE"])
        self.assertEqual(sum(row["worker_type"] == "DRIVER" for row in c.rows("workers")), 1)
        self.assertEqual([row["type"] for row in c.rows("jobs")], ["DRIVER"])
        self.assertEqual([row["state"] for row in c.rows("placement-groups")], ["CREATED"])
        self.assertEqual([row["object_size"] >= 1 << 20 for row in c.rows("objects")][0], True)
        self.assertEqual(c.rows("runtime-envs"), [])
        self.assertIn("has joined", c.rows("cluster-events")[-1]["message"])
        self.assertEqual({row["state"]
                          for row in c.rows("tasks", "--filter", "name=waits")}, {"RUNNING"})

    def test_filters_and_limits_choose_rows(self):
        c = self.cluster
        self.assertEqual(
            len(c.rows("tasks", "--filter", "name=Counter.add", "--filter", "state=FINISHED")), 6)
        self.assertEqual(len(c.rows("tasks", "--filter", "name=Counter.add", "--limit", "2")), 2)
        self.assertEqual({row["name"]
                          for row in c.rows("tasks", "--filter", "state=FAILED")}, {"fails"})
        self.assertNotIn("fails",
                         {row["name"]
                          for row in c.rows("tasks", "--filter", "name!=fails")})
        for detail in ("False", "crt"):
            actors = c.get(f"/api/v0/actors?limit=1&detail={detail}")["data"]["result"]
            self.assertEqual((len(actors["result"]), actors["total"], actors["num_filtered"],
                              actors["num_after_truncation"]), (1, 2, 2, 1))
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
        self.assertEqual(
            json.loads(c.crt("get", "actors", actor, "--format", "json"))[0]["num_restarts"], 0)
        self.assertIn("queue_length: 0\n", c.crt("list", "actors", "--detail"))
        self.assertEqual(len(c.rows("actors", "--filter", "queue_length=0")), 2)

    def read(self, path):
        request = urllib.request.Request(self.cluster.url + path,
                                         headers={"Authorization": f"Bearer {self.cluster.owner}"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read().decode()

    def log_of(self, task, *more):
        """By HTTP, and by the command."""
        text = self.read(f"/api/v0/logs/file?task_id={task}&lines=-1&attempt_number=0")
        self.assertEqual(self.cluster.crt("logs", "--task", task, *more), text)
        return text

    def test_the_log_of_a_task_is_what_it_has_printed(self):
        c = self.cluster
        calls = c.rows("tasks", "--filter", "name=Counter.add", "--detail")
        printed = sorted((call["actor_id"], self.log_of(call["task_id"])) for call in calls)
        actors = sorted({call["actor_id"] for call in calls})
        self.assertEqual(printed, [(actor, f"call {i}\n") for actor in actors for i in (1, 2, 3)])
        self.assertEqual(self.log_of(c.rows("tasks", "--filter", "name=fails")[0]["task_id"]), "")
        says = c.rows("tasks", "--filter", "name=says", "--detail")[0]
        where = says["task_log_info"]
        text = self.log_of(says["task_id"], "--follow")
        self.assertEqual(where["stdout_end"] - where["stdout_start"], len(text))
        self.assertEqual(where["stdout_file"], says["worker_id"])
        self.assertEqual(self.read(f"/api/v0/logs/stream?task_id={says['task_id']}&lines=-1"), text)
        self.assertEqual(self.read(f"/api/v0/logs/file?task_id={says['task_id']}&lines=2"),
                         "line 998\nline 999\n")
        answer = c.get(f"/api/v0/logs/file?task_id={'0' * 48}", code=404, is_json=False)
        self.assertIn("no task", answer)
        self.assertIn("48 hex digits", c.get("/api/v0/logs/file?task_id=x", code=400,
                                             is_json=False))
        self.assertIn(
            "no such attempt",
            c.get(f"/api/v0/logs/file?task_id={says['task_id']}&attempt_number=7", code=404,
                  is_json=False))

    def test_the_log_of_a_task_that_runs_is_what_it_has_printed_so_far(self):
        task = self.cluster.rows("tasks", "--filter", "name=waits")[0]["task_id"]
        deadline = time.monotonic() + PATIENCE
        while self.log_of(task) != "it waits\n":
            self.assertLess(time.monotonic(), deadline)
        self.assertEqual(self.cluster.crt("logs", "--task", task, "--tail", "1"), "it waits\n")

    def test_who_follows_a_task_reads_until_it_has_ended(self):
        c = Cluster()
        task = c.rows("tasks", "--filter", "name=waits")[0]["task_id"]
        request = urllib.request.Request(c.url + f"/api/v0/logs/stream?task_id={task}",
                                         headers={"Authorization": f"Bearer {c.owner}"})
        command = [CRT, "logs", "--address", c.address, "--task", task, "--follow"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follow, \
                urllib.request.urlopen(request, timeout=PATIENCE) as stream:
            self.assertEqual(follow.stdout.readline(), "it waits\n")
            self.assertEqual(stream.readline(), b"it waits\n")
            self.assertIsNone(follow.poll())
            c.program.communicate("\n", timeout=PATIENCE)
            self.assertEqual(follow.communicate(timeout=PATIENCE)[0], "")
            self.assertEqual(follow.returncode, 0)
            self.assertEqual(stream.read(), b"")
        c.stop()

    def test_logs_are_found_by_what_one_knows(self):
        c = self.cluster
        actor = c.rows("actors")[0]
        node = c.rows("nodes")[0]["node_id"]
        worker = [row for row in c.rows("workers", "--detail") if row["worker_type"] == "WORKER"][0]
        task = c.rows("tasks", "--filter", "name=says")[0]["task_id"]
        lines = [f"line {i}" for i in range(1000)]
        self.assertEqual(c.crt("logs", "--task", task).splitlines(), lines)
        self.assertEqual(c.crt("logs", "--task", task, "--tail", "3").splitlines(), lines[-3:])
        self.assertEqual(c.crt("logs", "--task", task, "--tail", "0"), "")
        self.assertEqual(c.crt("logs", "--actor", actor["actor_id"]),
                         c.crt("logs", actor["actor_id"]))
        c.crt("logs", "--pid", str(worker["pid"]))
        c.crt("logs", "--pid", str(worker["pid"]), "--node", node)
        for name in (node, node[:10]):
            self.assertIn("registered with", c.crt("logs", "--node", name))
        self.assertEqual(len(c.crt("logs", "--head", "--tail", "1").splitlines()), 1)
        self.assertIn("serves http://", c.crt("logs", "--http"))
        self.assertIn("no task", c.crt("logs", "--task", "0" * 48, code=1))
        self.assertIn("process id 1", c.crt("logs", "--pid", "1", code=1))
        self.assertIn("that begins with nowhere",
                      c.crt("logs", "--node", "nowhere", code=1))
        self.assertIn("one log at a time", c.crt("logs", "--head", "--http", code=2))
        for trick in ("head:../../x", "head:6379/../..", "node:../../../", "http:999999",
                      "../node.log", "job:../x"):
            self.assertIn("crt logs: ", c.crt("logs", trick, code=1))

    def test_daemons_log_json_when_asked(self):
        said = subprocess.run([
            CRT, "start", "--head", "--port", "0", "--dashboard-port", "0", "--log-format", "json"
        ], stdout=subprocess.PIPE, text=True, check=True).stdout
        address = re.search(r"--address (\S+) --key-file", said)[1]
        for which in ("--head", "--http"):
            lines = subprocess.run([CRT, "logs", "--address", address, which],
                                   stdout=subprocess.PIPE, text=True, check=True).stdout
            self.assertEqual({tuple(json.loads(line))
                              for line in lines.splitlines()},
                             {("time", "level", "module", "pid", "text")})
        subprocess.run([CRT, "stop", "--address", address], stdout=subprocess.DEVNULL, check=True)
        self.assertIn(
            "one of text|json",
            subprocess.run([CRT, "start", "--head", "--log-format", "xml"], stderr=subprocess.PIPE,
                           text=True, check=False).stderr)

    def test_a_live_view(self):
        for _ in range(20):  # those who were started last are busy with that at first
            text = self.cluster.crt("top", "--count", "2")
            self.assertEqual(text.count("crt top: "), 2)
            self.assertIn("Counter", text)
            busiest = text.rsplit("CPU %", 1)[1].splitlines()[1].split()
            if busiest[2] == "tasks":
                break
        self.assertEqual(busiest[2], "tasks")  # waits turns round
        self.assertIn("--sort is cpu or memory", self.cluster.crt("top", "--sort", "size", code=2))
        self.assertIn("--interval", self.cluster.crt("top", "--interval", "0", code=2))
        with subprocess.Popen(
            [CRT, "status", "--address", self.cluster.address, "--watch", "--interval", "1"],
                stdout=subprocess.PIPE, text=True) as watch:
            heads = 0
            while heads < 2:
                heads += watch.stdout.readline().startswith("======== Cluster ")
            watch.terminate()

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
        table = self.cluster.crt("summary", "tasks")
        self.assertRegex(table, r"Counter\.add .* FINISHED 6")
        self.assertNotIn("{", table)
        self.assertIn("summary of tasks", self.cluster.crt("summary", "nodes", code=2))

    def test_memory_tells_who_holds_what_and_where_it_was_made(self):
        c = self.cluster
        answer = json.loads(c.crt("memory", "--format", "json"))
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                               "state_program.c")) as file:
            lines = file.read().splitlines()
        made = {}  # the line of the program, by a word in it
        for number, line in enumerate(lines, 1):
            for word in ("*object = crt_put", "*inner = crt_put", "*given = crt_put",
                         "waiting = crt_submit"):
                if word in line:
                    made[word.split()[0].strip("*")] = f"state_program.c:{number}"
        kinds = {}
        for row in answer["refs"]:
            kinds.setdefault(os.path.basename(row["call_site"]), []).append(row)
        self.assertEqual([row["kind"] for row in kinds[made["object"]]], ["LOCAL_REFERENCE"])
        self.assertEqual([row["kind"] for row in kinds[made["inner"]]], ["CAPTURED_IN_OBJECT"])
        self.assertEqual({(row["kind"], row["worker_type"]) for row in kinds[made["given"]]},
                         {("USED_BY_PENDING_TASK", "DRIVER"), ("BORROWED_REFERENCE", "WORKER")})
        self.assertEqual([row["content"] for row in kinds[made["waiting"]]], ["PENDING"])
        sizes = [row["size"] for row in answer["refs"]]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        self.assertTrue(1 << 20 <= sizes[0] < 2 << 20)
        self.assertEqual(answer["count"], len(sizes))
        self.assertGreater(answer["stores"][0]["used"], 1500000)

    def test_memory_is_sorted_grouped_and_cut(self):
        c = self.cluster
        groups = json.loads(c.crt("memory", "--group-by", "place", "--format", "json"))["groups"]
        self.assertEqual([group["bytes"] for group in groups],
                         sorted((group["bytes"] for group in groups), reverse=True))
        calls = [group for group in groups if len(group["refs"]) == 6]
        self.assertEqual(len(calls), 1)  # those of Counter.add
        hosts = json.loads(c.crt("memory", "--group-by", "address", "--format", "json"))["groups"]
        self.assertEqual([group["count"] for group in hosts],
                         [sum(group["count"] for group in groups)])
        kinds = [
            row["kind"]
            for row in json.loads(c.crt("memory", "--sort-by", "kind", "--format", "json"))["refs"]
        ]
        self.assertEqual(kinds, sorted(kinds))
        text = c.crt("memory", "--limit", "1")
        self.assertIn("1.0 MB", text)
        self.assertEqual(text.count("state_program.c:"), 1)
        self.assertIn("bytes of its store are used", text)
        self.assertIn("refs: ", c.crt("memory", "--format", "yaml").replace("refs:\n", "refs: "))
        for wrong in (["--sort-by", "colour"], ["--group-by", "colour"], ["--format", "xml"]):
            self.assertIn("crt memory: --", c.crt("memory", *wrong, code=2))
        objects = c.rows("objects", "--filter", "reference_type=LOCAL_REFERENCE")
        self.assertIn("state_program.c:", objects[0]["call_site"])
        summary = json.loads(c.crt("summary", "objects", "--format", "json"))[0]["summary"]
        self.assertIn(
            "1", {
                str(group["total_objects"])
                for place, group in summary.items() if "state_program.c:" in place
            })

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
