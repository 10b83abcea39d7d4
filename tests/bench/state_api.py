#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long the HTTP server of a cluster with many actors and ended tasks takes for the answers of
its state API.

The actors wait for a resource that no node has, so that they cost no processes: their rows are
those of others. Each path is asked in turns, by one connection that is kept; what is printed is the
median, and the slowest, of a whole answer."""
import argparse
import http.client
import json
import os
import statistics
import sys
import time

from own_cluster import OwnCluster

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PATHS = ("/api/v0/actors",
         "/api/v0/actors?filter_keys=state&filter_predicates=%3D&filter_values=ALIVE",
         "/api/v0/actors?detail=True", "/api/v0/actors/summarize", "/api/v0/tasks",
         "/api/v0/tasks?filter_keys=state&filter_predicates=%21%3D&filter_values=FINISHED",
         "/api/v0/tasks/summarize", "/api/v0/objects/summarize", "/api/v0/objects",
         "/api/v0/objects?filter_keys=call_site&filter_predicates=%21%3D&filter_values=unknown",
         "/api/v0/objects?limit=10000", "/api/v0/objects?limit=10000&detail=crt",
         "/api/v0/actors?limit=10000", "/api/v0/workers", "/api/v0/nodes", "/api/v0/jobs",
         "/api/v0/placement_groups", "/api/cluster_status", "/api/jobs/",
         "/api/v0/jobs?limit=10000", "/api/v0/runtime_envs", "/api/v0/cluster_events",
         "/api/v0/cluster_events?limit=10000")
COMMANDS = (("status", ), ("job", "list"), ("job", "list", "--all"), ("list", "jobs"), ("list",
                                                                                        "actors"),
            ("list", "tasks"), ("list", "objects"), ("list", "nodes"), ("list", "workers"),
            ("list", "placement-groups"), ("list", "runtime-envs"), ("list", "cluster-events"))
# 20 kB in as few lines as a last line is taken from, and then the mistake.
FAILING = "head -c 20000 /dev/zero | tr '\\0' x; exit 1"
PATIENCE = 300


def read_arguments(name, what, rounds):
    parser = argparse.ArgumentParser(prog=name, description=what,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"),
                        help="build folder of a release build")
    parser.add_argument("--actors", type=int, default=10000)
    parser.add_argument("--tasks", type=int, default=100000)
    parser.add_argument("--objects", type=int, default=0, help="that lie in the store")
    parser.add_argument("--dead", type=int, default=0, help="actors that have died")
    parser.add_argument("--jobs", type=int, default=0,
                        help="submitted ones, that fail after printing 20 kB")
    parser.add_argument("--commands", action="store_true",
                        help="measure commands, too, each with its start")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--limit-ms", type=float, help="fail when a median is longer")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser.parse_args()


class Cluster(OwnCluster):
    def __init__(self, given):
        super().__init__(given.build, str(50_000_000 + 10_000 * given.objects))
        self.token = self.run("token").strip()
        self.program = self.start(
            "ready", os.path.join(given.build, "tests", "bench", "state_api_program"),
            str(given.actors), str(given.tasks), str(given.objects), str(given.dead))

    def __exit__(self, *error):
        self.program.kill()
        self.program.communicate()
        super().__exit__(*error)

    def sign_in_code(self):
        """Of a link that signs a browser in."""
        connection = http.client.HTTPConnection(self.place, timeout=PATIENCE)
        connection.request("POST", "/api/authenticate/code",
                           headers={"Authorization": f"Bearer {self.token}"})
        return json.loads(connection.getresponse().read())["code"]


class Asker:
    def __init__(self, cluster):
        self.connection = http.client.HTTPConnection(cluster.place, timeout=PATIENCE)
        self.headers = {"Authorization": f"Bearer {cluster.token}"}

    def ask(self, path):
        began = time.monotonic()
        self.connection.request("GET", path, headers=self.headers)
        answer = self.connection.getresponse()
        text = answer.read()
        took_ms = 1e3 * (time.monotonic() - began)
        assert answer.status == 200, (path, answer.status, text[:200])
        return took_ms, text

    def submit(self, count):
        """Jobs that fail, and waits until all have."""
        for i in range(count):
            self.connection.request(
                "POST", "/api/jobs/",
                json.dumps({"submission_id": f"failing-{i}", "entrypoint": FAILING}), self.headers)
            answer = self.connection.getresponse()
            assert (answer.status, answer.read()[:1]) == (200, b"{")
        until = time.monotonic() + PATIENCE
        while any(job["status"] in ("PENDING", "RUNNING")
                  for job in json.loads(self.ask("/api/jobs/")[1]) if job["submission_id"]):
            assert time.monotonic() < until, "the jobs have not ended"
            time.sleep(1)

    def wait_for_actors(self, count):
        """The head has heard of all of them."""
        until = time.monotonic() + PATIENCE
        while json.loads(self.ask("/api/v0/actors?limit=1")[1])["data"]["result"]["total"] < count:
            assert time.monotonic() < until, "the actors have not come"


def run_command(cluster, arguments):
    began = time.monotonic()
    cluster.run(*arguments)
    return 1e3 * (time.monotonic() - began)


def main():
    given = read_arguments("state_api", __doc__, 20)
    with Cluster(given) as cluster:
        asker = Asker(cluster)
        asker.wait_for_actors(given.actors)
        asker.submit(given.jobs)
        commands = COMMANDS if given.commands else ()
        took = {
            path: []
            for path in PATHS + tuple("crt " + " ".join(command) for command in commands)
        }
        for _ in range(given.rounds):
            for path in PATHS:
                took[path].append(asker.ask(path)[0])
            for command in commands:
                took["crt " + " ".join(command)].append(run_command(cluster, command))
    rows = [{
        "path": path, "median_ms": round(statistics.median(times), 2),
        "slowest_ms": round(max(times), 2)
    } for path, times in took.items()]
    if given.json:
        print(json.dumps({"actors": given.actors, "tasks": given.tasks, "rows": rows}, indent=2))
    else:
        print(
            f"{given.actors} actors, {given.dead} dead ones, {given.tasks} ended tasks, "
            f"{given.objects} objects, {given.jobs} failed jobs, "
            f"{given.rounds} rounds")
        for row in rows:
            print(
                f"{row['median_ms']:10.2f} ms, at most {row['slowest_ms']:8.2f} ms  {row['path']}")
    slow = [row["path"] for row in rows if given.limit_ms and row["median_ms"] > given.limit_ms]
    if slow:
        sys.exit(f"slower than {given.limit_ms} ms: {', '.join(slow)}")


if __name__ == "__main__":
    main()
