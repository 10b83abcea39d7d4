#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the owner of a cluster waits for while strangers send it large bodies and readers hold
streams.

Strangers (no token) post 1 MiB of JSON to a public method, to one that is not open to them and to
an actor that is not there, each again as soon as it is answered. Readers hold a log open
(/api/v0/logs/stream). Meanwhile the owner calls an actor by HTTP, and runs crt status and crt job
submit --no-wait; beside them, without strangers, the same was measured before. Printed are the
median and the 99th percentile of each, and the memory of crt-http before, at its most, and 10 s
after."""
import argparse
import http.client
import json
import multiprocessing
import os
import re
import socket
import statistics
import sys
import threading
import time

from own_cluster import OwnCluster

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
PATIENCE = 60
MIB = 1 << 20
UNITS = ("0.12345,", "[],", "{},", "0,", '"x",')
TARGETS = ("bench/server/predict_for_all", "bench/server/predict", "bench/nobody/predict")


def read_arguments():
    parser = argparse.ArgumentParser(prog="strangers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"),
                        help="build folder of a release build")
    parser.add_argument("--strangers", type=int, default=64)
    parser.add_argument("--readers", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--limit-ms", type=float, help="fail when a 99th percentile is longer")
    parser.add_argument("--limit-mib", type=float,
                        help="fail when crt-http takes more above before, or does not give it back")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser.parse_args()


class Cluster(OwnCluster):
    def __init__(self, given):
        super().__init__(given.build, "100M")
        self.host, self.port = self.place.split(":")
        self.token = self.run("token").strip()
        self.reader = self.run("token", "--read-only").strip()
        self.program = self.start(
            "pid ", os.path.join(given.build, "tests", "bench", "http_calls_program"))
        self.http = self.find_http()

    def __exit__(self, *error):
        self.program.communicate("")
        super().__exit__(*error)

    def find_http(self):
        """The process that serves, which runs in this cluster's folder."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words[0] == b"crt-http" and any(self.folder.encode() in word for word in words):
                return pid
        sys.exit("crt-http does not run")

    def memory(self):
        with open(f"/proc/{self.http}/status", encoding="ascii") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) / 1024

    def connect(self):
        s = socket.create_connection((self.host, int(self.port)), timeout=PATIENCE)
        s.settimeout(PATIENCE)
        return s


class Strangers:
    """In a process of their own: the owner's commands wait for no lock of this interpreter."""

    def __init__(self, cluster, count):
        forks = multiprocessing.get_context("fork")
        self.cluster, self.sent, self.stops = cluster, {}, forks.Event()
        self.bodies = [("[[" + unit * ((MIB - 8) // len(unit))).rstrip(",").encode() + b"]]"
                       for unit in UNITS]
        self.answered, told = forks.Pipe(duplex=False)
        self.process = forks.Process(target=self.work, args=(count, told), daemon=True)
        self.process.start()

    def work(self, count, told):
        threads = [threading.Thread(target=self.post, args=(i,), daemon=True) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told.send(self.sent)

    def post(self, number):
        while not self.stops.is_set():
            body, target = self.bodies[number % len(UNITS)], TARGETS[number % len(TARGETS)]
            status = "closed"
            try:
                with self.cluster.connect() as s:
                    s.sendall(
                        f"POST /api/actors/{target} HTTP/1.1\r\nHost: {self.cluster.host}\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n"
                        .encode())
                    s.sendall(body)
                    status = s.recv(64)[9:12].decode() or status
            except OSError:
                pass
            self.sent[status] = self.sent.get(status, 0) + 1

    def end(self):
        """Answers by their status."""
        self.stops.set()
        if not self.answered.poll(PATIENCE):
            sys.exit(f"the strangers have not ended after {PATIENCE} s")
        return self.answered.recv()


def hold_stream(cluster):
    s = cluster.connect()
    s.sendall(f"GET /api/v0/logs/stream?submission_id=endless HTTP/1.1\r\nHost: {cluster.host}\r\n"
              f"Authorization: Bearer {cluster.reader}\r\n\r\n".encode())
    return s


def call(cluster, connection):
    connection.request("POST", "/api/actors/bench/server/add", "[1, 2]",
                       {"Authorization": f"Bearer {cluster.token}"})
    assert connection.getresponse().read() == b"3"


def measure(cluster, seconds):
    """{what: milliseconds of each}, and the most memory that crt-http had."""
    connection = http.client.HTTPConnection(cluster.host, int(cluster.port), timeout=PATIENCE)
    tasks = {
        "a call by HTTP": lambda: call(cluster, connection),
        "crt status": lambda: cluster.run("status"),
        "crt job submit": lambda: cluster.run("job", "submit", "--no-wait", "--", "/bin/true")
    }
    took, most, until = {what: [] for what in tasks}, 0, time.monotonic() + seconds
    while time.monotonic() < until or len(took["crt job submit"]) < 2:
        for what, work in tasks.items():
            for _ in range(10 if what == "a call by HTTP" else 1):
                began = time.monotonic()
                work()
                took[what].append(1e3 * (time.monotonic() - began))
            most = max(most, cluster.memory())
    return took, most


def row(times):
    return {
        "median_ms": round(statistics.median(times), 1),
        "p99_ms": round(statistics.quantiles(times, n=100)[98], 1), "count": len(times)
    }


def main():
    given = read_arguments()
    with Cluster(given) as cluster:
        cluster.run("job", "submit", "--no-wait", "--submission-id", "endless", "--", "/bin/sleep",
                    "1000000")
        alone, _ = measure(cluster, given.seconds / 4)
        before = cluster.memory()
        streams = [hold_stream(cluster) for _ in range(given.readers)]
        strangers = Strangers(cluster, given.strangers)
        took, most = measure(cluster, given.seconds)
        sent = strangers.end()
        held = sum(stream.recv(12) == b"HTTP/1.1 200" for stream in streams)
        for stream in streams:
            stream.close()
        time.sleep(10)
        after = cluster.memory()
    rows = {
        what: {"alone": row(alone[what]), "among strangers": row(times)}
        for what, times in took.items()
    }
    memory = {
        "before_mib": round(before, 1), "most_above_mib": round(most - before, 1),
        "after_above_mib": round(after - before, 1)
    }
    if given.json:
        print(
            json.dumps({"strangers": sent, "streams": held, "rows": rows, "memory": memory},
                       indent=2))
    else:
        print(f"{given.strangers} strangers, answered {sent}; {held} streams of readers")
        for what, times in rows.items():
            for when, figures in times.items():
                print(
                    f"{figures['median_ms']:8.1f} ms, 99 of 100 below {figures['p99_ms']:8.1f} ms  "
                    f"{what}, {when} ({figures['count']} times)"
                )
        print(
            f"crt-http: {memory['before_mib']} MiB before, {memory['most_above_mib']} more at "
            f"most, {memory['after_above_mib']} more 10 s after"
        )
    slow = [
        what for what, times in rows.items()
        if given.limit_ms and times["among strangers"]["p99_ms"] > given.limit_ms
    ]
    if slow:
        sys.exit(f"slower than {given.limit_ms} ms: {', '.join(slow)}")
    if given.limit_mib and (most - before > given.limit_mib or
                            after - before > given.limit_mib / 4):
        sys.exit(f"more than {given.limit_mib} MiB, or they do not come back")


if __name__ == "__main__":
    main()
