#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scale.py PROGRAM [NODES]: whether costs of the head grow with the nodes and not with their
square.

Runs crt-scale with NODES (1000) simulated nodes and with four times as many. Fails when these take
more than 6 times as long to register, when actors are placed at less than 0.7 of the rate, or when
a link is lost."""
import json
import subprocess
import sys


def measure(program, nodes):
    out = subprocess.run([program, "--nodes", str(nodes), "--json"], check=True,
                         stdout=subprocess.PIPE, timeout=600)
    rows = {row["name"]: row["value"] for row in json.loads(out.stdout)}
    print(
        f"{nodes} nodes: registered in {rows['all_nodes_registered']:.2f} s, "
        f"{rows['actors_placed']:.0f} actors/s, "
        f"{rows['links_lost_at_rest']:.0f} links lost", flush=True)
    return rows


def main():
    program, nodes = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    few, many = measure(program, nodes), measure(program, 4 * nodes)
    time = many["all_nodes_registered"] / few["all_nodes_registered"]
    rate = many["actors_placed"] / few["actors_placed"]
    print(f"4 times the nodes: {time:.2f} times the time, {rate:.2f} of the rate")
    is_lost = few["links_lost_at_rest"] or many["links_lost_at_rest"] or many[
        "living_nodes_taken_for_dead"]
    sys.exit(bool(time > 6 or rate < 0.7 or is_lost))


main()
