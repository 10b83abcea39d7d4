#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls from host to host, beside the bare ZeroMQ echo between the same hosts.

The hosts are namespaces of this machine; calls are encrypted (CURVE), as a cluster's always are.
Rows:
    sync    one call after the other, beside the bare echo with CURVE and beside the plain one
    async   1000 calls, then 1000 answers, beside the bare echo with CURVE, one message each
Rounds take turns; a ratio is that of the medians, below 1 is faster. Caller and server are bound to
one core each, unless --no-pin. Processor time is that of the whole machine.
"""
import argparse
import contextlib
import json
import os
import statistics
import sys

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tests", "cluster"))
import hosts  # noqa: E402
from crt_cluster import Cluster  # noqa: E402

PROGRAM = "calls_program"
PAIRS = (("sync beside CURVE", "sync_bare_curve", "sync_actor"),
         ("sync beside plain", "sync_bare_plain", "sync_actor"),
         ("async beside CURVE", "async_bare_curve", "async_actor"))


def read_arguments():
    parser = argparse.ArgumentParser(
        prog="calls", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"),
                        help="build folder of a release build")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--calls", type=int, default=1000, help="of a round, one after the other")
    parser.add_argument("--batches", type=int, default=20, help="of 1000 calls each, of a round")
    parser.add_argument("--row", choices=("sync", "async"), default="", help="that row alone")
    parser.add_argument("--no-pin", dest="pin", action="store_false", help="bind nothing to a core")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    given.pin = given.pin and os.cpu_count() > 1
    given.build = os.path.abspath(given.build)
    if not os.path.exists(os.path.join(given.build, "tests", "bench", PROGRAM)):
        parser.error(f"--build: {given.build} has no tests/bench/{PROGRAM}: build crt there first")
    return given


def start_bare_server(host, bound):
    """The echo servers on that host; gives the driver's options."""
    place = json.loads(
        host.start(*bound, f"./{PROGRAM}", "--serve", host.ip).wait_line("^{.*}", 10)[1][0])
    return ["--plain", place["plain"], "--curve", place["curve"], "--key", place["key"]]


def measure(given, lab):
    """Row of the program -> its figures."""
    caller, server = lab.host("caller"), lab.host("server")
    cluster = Cluster(lab, caller, server, numbered=True)
    for host in (caller, server):
        host.put(os.path.join(given.build, "tests", "bench", PROGRAM), PROGRAM)
    if given.pin:  # the node's workers inherit it
        server.run("taskset", "--all-tasks", "--cpu-list", "--pid", "1",
                   server.only_pid("crt-node"))
    bound = [["taskset", "--cpu-list", str(core)] if given.pin else [] for core in (0, 1)]
    places = start_bare_server(server, bound[1])
    said = caller.run(*bound[0], f"./{PROGRAM}", *places, "--rounds", given.rounds, "--calls",
                      given.calls, "--batches", given.batches, "--row", given.row, seconds=240,
                      env={"CRT_ADDRESS": cluster.address})
    for host in (server, caller):
        host.run("crt", "stop", "--address", cluster.address)
    found = {}
    for line in said.splitlines():
        with contextlib.suppress(ValueError):
            row = json.loads(line)
            found[row["row"]] = row
    return found


def summarize(row):
    summary = {"us": statistics.median(row["us"]), "busy_us": row["busy_us"]}
    if row["single_us"]:
        summary["p99_us"] = sorted(row["single_us"])[len(row["single_us"]) * 99 // 100]
    return summary


def compare(name, bare, actor):
    return {"row": name, "bare": summarize(bare), "actor": summarize(actor),
            "ratio": statistics.median(actor["us"]) / statistics.median(bare["us"])}


def print_row(row):
    bare, actor = row["bare"], row["actor"]
    p99 = f"; p99 {bare['p99_us']:.0f} / {actor['p99_us']:.0f} us" if "p99_us" in bare else ""
    print(
        f"{row['row']}: bare {bare['us']:.3f} us, actor {actor['us']:.3f} us "
        f"({1e6 / actor['us']:.0f}/s): ratio "
        f"{row['ratio']:.3f}; processor {bare['busy_us']:.2f} / {actor['busy_us']:.2f} us{p99}",
        flush=True)


def main():
    given = read_arguments()
    with hosts.Lab(given.build, hide=[SOURCE, given.build]) as lab:
        found = measure(given, lab)
    rows = [
        compare(name, found[bare], found[actor]) for name, bare, actor in PAIRS if actor in found
    ]
    if given.json:
        print(json.dumps({"cpus": os.cpu_count(), "kernel": os.uname().release, "pinned": given.pin,
                          "rounds": given.rounds, "rows": rows}, indent=1))
        return
    for row in rows:
        print_row(row)


if __name__ == "__main__":
    if hosts.INSIDE not in os.environ:
        read_arguments()  # a wrong option is told before namespaces are made
    hosts.run(main)
