#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crt run --ranks on a cluster of several hosts. Usage: test_ranks.py SCENARIO"""
import os
import re
import sys

import hosts
from crt_cluster import Cluster, build_folder, new_lab
from hosts import check

RANKS = 6


def cluster(lab):
    """Head on a, ranks on all three; the program lies on a only."""
    a, *others = (lab.host(name) for name in "abc")
    a.put(os.path.join(build_folder(), "tests", "cli", "rank_program"), "rank_program")
    return Cluster(lab, a, *others)


def start(cluster, *mode):
    return cluster.head.start("crt", "run", "--ranks", RANKS, "--address", cluster.address,
                              "--tag-output", "--", "./rank_program", *mode)


def sums(lab):
    c = cluster(lab)
    driver = start(c, "world")
    check(driver.wait(60) == 0, f"it failed:\n{driver.text}")
    wanted = {f"[1,{r}]<stdout>:{r} of {RANKS}: {sum(range(RANKS))}" for r in range(RANKS)}
    found = {line for _, line in driver.lines if line.startswith("[1,")}
    check(found == wanted, f"not the lines of all ranks:\n{driver.text}")
    c.stop()


def stay(c):
    """The driver, when all ranks have said that they stay; they are on several hosts."""
    driver = start(c, "stay")
    for rank in range(RANKS):
        driver.wait_line(rf"rank {rank} stays", 60)
    ranks = c.actors("crt.Rank")
    check(len(ranks) == RANKS, f"{len(ranks)} ranks run")
    check(len({r["host"].name for r in ranks}) > 1, "all ranks are on one host")
    return driver, ranks


def none_is_left(c):
    hosts.until(10, "all ranks have ended",
                lambda: not any(h.pids("rank_program") for h in (c.head, *c.others)))
    c.stop()


def killed_rank(lab):
    c = cluster(lab)
    driver, ranks = stay(c)
    victim = next(r for r in ranks if r["host"] is not c.head)
    victim["host"].kill(victim["pid"])
    check(driver.wait(30) == 128 + 9, f"not the status of a killed process:\n{driver.text}")
    check(
        re.search(
            rf"rank \d of {RANKS} failed, which ends all: .*pid {victim['pid']}\b.*killed by "
            "signal 9",
            driver.text), f"the rank is not named:\n{driver.text}")
    none_is_left(c)


def killed_driver(lab):
    c = cluster(lab)
    driver, _ = stay(c)
    driver.kill()
    none_is_left(c)


def killed_host(lab):
    c = cluster(lab)
    driver, ranks = stay(c)
    victim = next(r["host"] for r in ranks if r["host"] is not c.head)
    for pid in victim.pids("crt-node"):
        victim.kill(pid)
    check(driver.wait(30) == 1, f"it did not fail:\n{driver.text}")
    check(f"of {RANKS} failed, which ends all" in driver.text, f"no rank is named:\n{driver.text}")
    hosts.until(10, "all ranks have ended",
                lambda: not any(h.pids("rank_program") for h in (c.head, *c.others)))


SCENARIOS = {f.__name__: f for f in (sums, killed_rank, killed_driver, killed_host)}


def main():
    with new_lab() as lab:
        SCENARIOS[sys.argv[1]](lab)


if __name__ == "__main__":
    hosts.run(main)
