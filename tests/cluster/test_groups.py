#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Groups whose members are on several hosts. Usage: test_groups.py SCENARIO

Limits that a user is promised: of a killed member all others know within 1 s, of a host whose
cable is pulled within 7 s; the bytes of an allreduce between hosts are those of one member each."""
import os
import re
import sys
import time

import hosts
from crt_cluster import Cluster, build_folder, install_train_mnist, new_lab
from hosts import check

RATE = 1e9  # bits per second of the shaped links
COUNT = 8 << 20  # float32: 32 MiB


def group(lab, workers):
    """Head on a, members on the others."""
    a, *others = (lab.host(name) for name in "abcdefgh"[:1 + workers])
    a.put(os.path.join(build_folder(), "tests", "cluster", "group_member"), "group_member")
    return Cluster(lab, a, *others)


def start(cluster, mode, members, per_host, backend, count):
    return cluster.head.start("./group_member", mode, members, per_host, backend, count,
                              env={"CRT_ADDRESS": cluster.address})


def figures(driver):
    check(driver.wait(240) == 0, f"it failed:\n{driver.text}")
    found = {
        name: float(value)
        for name, value in re.findall(r"^(\w+) ([\d.]+) ", driver.text, re.M)
    }
    check(found.keys() >= {"large", "traffic", "small", "echo"}, f"no figures:\n{driver.text}")
    return found


def measured(lab):
    """The time and the bytes of an allreduce on 4 hosts at 1 Gbit/s, and 4 bytes beside a bare
    echo. The limits here leave room for a busy machine; the figures are printed."""
    cluster = group(lab, 4)
    for host in cluster.others:
        lab.shape(host, "1gbit")
    bound = 2 * 3 / 4 * COUNT * 4
    found = figures(start(cluster, "measure", "4", "1", "auto", str(COUNT)))
    seconds = found["large"] / 1e6
    print(
        f"32 MiB over 4 hosts: {seconds:.3f} s, bound {bound * 8 / RATE:.3f} s, "
        f"{seconds / (bound * 8 / RATE):.3f} x; {found['traffic'] / bound:.3f} x its bytes",
        flush=True)
    print(f"4 bytes over 4 hosts: {found['small']:.1f} us, bare echo {found['echo']:.1f} us, "
          f"{found['small'] / found['echo']:.2f} x", flush=True)
    check(seconds < 2 * bound * 8 / RATE, "the large one is slow")
    check(found["traffic"] < 1.15 * bound, "more bytes than the algorithm needs")
    check(found["small"] < 20 * found["echo"], "the small one is slow")
    cluster.stop()


def overlapped(lab):
    """What it saves to sum gradients while the backward pass goes on: both ways in turns, in one
    run, on 2 hosts at 1 Gbit/s."""
    cluster = group(lab, 2)
    install_train_mnist(cluster.head)
    for host in cluster.others:
        lab.shape(host, "1gbit")
    driver = cluster.train("--mode", "allreduce", "--overlap", "both", "--hidden", "1024",
                           "--batch", "512", "--iterations", "40", "--eval-every", "0")
    check(driver.wait(240) == 0, f"it failed:\n{driver.text}")
    found = dict(
        re.findall(r"^median update (with|without) overlap: ([\d.]+) ms", driver.text, re.M))
    check(len(found) == 2, f"no figures:\n{driver.text}")
    print(f"an update with overlap {found['with']} ms, without {found['without']} ms", flush=True)
    check(float(found["with"]) < float(found["without"]), "it saves nothing")
    cluster.stop()


def two_by_two(lab):
    """Two members on each of two hosts send no more than one on each."""
    cluster = group(lab, 2)
    one = figures(start(cluster, "measure", "2", "1", "auto", str(COUNT)))
    two = figures(start(cluster, "measure", "4", "2", "auto", str(COUNT)))
    print(f"bytes between 2 hosts: {one['traffic']:.0f} of one member each, "
          f"{two['traffic']:.0f} of two", flush=True)
    check(two["traffic"] < 1.05 * one["traffic"], "two members of a host send more than one")
    cluster.stop()


def others_know(driver, victim, seconds, began):
    """All but the victim say who is lost, in time, and go on without it."""
    _, match = driver.wait_line(r"^(\d) go on", seconds + 60)
    told = [(at, text) for at, text in driver.lines if "was told" in text]
    check(len(told) == int(match[1]) == 2, f"not two survivors:\n{driver.text}")
    for at, text in told:
        print(f"after {at - began:.3f} s {text}", flush=True)
        check(at - began <= seconds, f"told after {at - began:.3f} s, not within {seconds} s")
        check(f"actor {victim['actor_id']}" in text or victim["actor_id"] in text,
              f"the lost member is not named: {text}")
    check(driver.wait(30) == 0, f"it failed:\n{driver.text}")


def killed(lab):
    cluster = group(lab, 3)
    for count in ("1", str(COUNT)):
        driver = start(cluster, "fail", "3", "1", "auto", count)
        driver.wait_line("^summing", 60)
        victim = cluster.actors("Member")[1]
        began = time.monotonic()
        victim["host"].kill(victim["pid"])
        others_know(driver, victim, 1, began)
    cluster.stop()


def cut(lab):
    cluster = group(lab, 3)
    driver = start(cluster, "fail", "3", "1", "auto", str(COUNT))
    driver.wait_line("^summing", 60)
    victim = cluster.actors("Member")[1]
    began = time.monotonic()
    lab.cut(victim["host"])
    others_know(driver, victim, 7, began)
    lab.mend(victim["host"])
    cluster.stop()


SCENARIOS = {f.__name__: f for f in (measured, overlapped, two_by_two, killed, cut)}


def main():
    with new_lab() as lab:
        SCENARIOS[sys.argv[1]](lab)


if __name__ == "__main__":
    hosts.run(main)
