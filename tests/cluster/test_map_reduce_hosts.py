#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""word_count and sort on three hosts, with more data than their stores hold, while one of them
loses its node and another one joins: exact all the same.
Usage: test_map_reduce_hosts.py [--mib MIB] [--store SIZE] [--folder FOLDER] words|records
    --mib 4096 --store 512M --folder /var/tmp: as much as you like, by hand
"""
import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile

import hosts
from crt_cluster import Cluster, build_folder, new_lab
from hosts import SHARED, check, until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
import map_reduce_data  # pylint: disable=wrong-import-position

SOURCE = f"{SHARED}/source"
LINES = 300
SPILL = ("--spill-dir", SHARED)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--mib", type=int, default=45)
    parser.add_argument("--store", default="10M")
    parser.add_argument("--folder", help="where the data lies; without it in memory")
    parser.add_argument("scenario", choices=SCENARIOS)
    return parser.parse_args()


def await_reports(cluster):
    now = cluster.status()["cluster"]["time"]
    until(120, "all nodes have reported", lambda: all(
        node["heard_time"] > now + 1000 for node in cluster.nodes().values()))


def spilled(cluster):
    """Hosts that have objects on disk."""
    nodes = cluster.nodes()
    return [host for host in cluster.others
            if nodes[host.ip]["spilled_bytes"] > map_reduce_data.MIB]


def start_cluster(lab, options, head, *others):
    # Heartbeats of a busy machine are late.
    cluster = Cluster(lab, head, store=options.store, head_options=SPILL,
                      env={"CRT_HEARTBEAT_TIMEOUT": "15s"})
    cluster.others = others
    for host in others:
        cluster.join(host, *SPILL)
    cluster.wait_nodes(1 + len(others))
    return cluster


def run_while_hosts_come_and_go(lab, options, program, *arguments):
    """What the program prints: the node of a host is killed when its store has overflown, and
    another host joins."""
    a, b, c, d, late = (lab.host(name) for name in "abcde")
    a.put(os.path.join(build_folder(), "examples", program), program)
    cluster = start_cluster(lab, options, a, b, c, d)
    driver = a.start(f"./{program}", *arguments, env={"CRT_ADDRESS": cluster.address})
    victim = map_reduce_data.run_until(lambda: spilled(cluster), lambda: await_reports(cluster),
                                       driver.popen.wait, driver.kill)[0]
    victim.kill(victim.only_pid("crt-node"))
    cluster.join(late, *SPILL)
    driver.kill(signal.SIGCONT)
    check(driver.wait(400 + options.mib) == 0, f"it failed:\n{driver.text}")
    check(victim.ip in cluster.nodes("DEAD"), f"{victim.name} was not lost")
    cluster.others = (*cluster.others, late)
    cluster.join(victim, *SPILL)
    cluster.wait_nodes(5, 30)
    cluster.stop()
    return driver.text


def words(lab, options):
    map_reduce_data.write_words(SOURCE, options.mib)
    said = run_while_hosts_come_and_go(lab, options, "word_count", "-p", "4", "-r", "32", "-n",
                                       LINES, SOURCE)
    wanted = map_reduce_data.most_frequent(SOURCE, LINES)
    counted = re.findall(r"^\d+ word\d+$", said, re.MULTILINE)  # the rest is what crt tells
    check(counted == wanted, f"other words than\n{wanted}\nin\n{said}")


def records(lab, options):
    map_reduce_data.write_records(SOURCE, options.mib)
    run_while_hosts_come_and_go(lab, options, "sort", "-p", "4", "-r", "16", SOURCE,
                                f"{SHARED}/sorted")
    subprocess.run(["sort", "-T", SHARED, "-o", f"{SHARED}/wanted", SOURCE], check=True,
                   env={**os.environ, "LC_ALL": "C"})
    subprocess.run(f"cat {SHARED}/sorted/* | cmp - {SHARED}/wanted", shell=True, check=True)


SCENARIOS = {f.__name__: f for f in (words, records)}


def main():
    options = read_options()
    if not options.folder:
        hosts.share()
        with new_lab() as lab:
            SCENARIOS[options.scenario](lab, options)
        return
    with tempfile.TemporaryDirectory(prefix="crt-map-reduce-", dir=options.folder) as folder:
        hosts.share(folder)
        with new_lab() as lab:
            SCENARIOS[options.scenario](lab, options)


if __name__ == "__main__":
    hosts.run(main)
