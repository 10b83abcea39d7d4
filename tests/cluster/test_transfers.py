#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Objects that go from host to host while hosts die, and to many at once. Usage:
test_transfers.py SCENARIO

Readers check every word. What a link carried shows where the bytes came from."""
import json
import os
import signal
import sys
import time

import hosts
from crt_cluster import Cluster, build_folder, new_lab
from hosts import check, until

PROGRAM = "transfer_program"
SIZE = 48 << 20


def start_cluster(lab, count, rate=None):
    """Head on a, made at the first of the others, read at the rest."""
    a, *others = (lab.host(name) for name in "abcdefgh"[:count + 2])
    a.put(os.path.join(build_folder(), "tests", "bench", PROGRAM), PROGRAM)
    if rate:
        for host in others:
            lab.shape(host, rate)
    # Links that are full and a machine that is busy keep heartbeats waiting.
    return Cluster(lab, a, *others, numbered=True, env={"CRT_HEARTBEAT_TIMEOUT": "15s"})


def transfer(cluster, *options, size=SIZE):
    return cluster.head.start(f"./{PROGRAM}", "--bytes", size, *options,
                              env={"CRT_ADDRESS": cluster.address})


def ends_well(driver, seconds=60):
    check(driver.wait(seconds) == 0, f"{driver}: it said:\n{driver.text}")
    return json.loads(driver.lines[-1][1])


def source_lost(lab, lose):
    """A second host reads what two have; the one it reads from is lost in the middle."""
    cluster = start_cluster(lab, 2, "100mbit")
    maker, first, second = cluster.others
    driver = transfer(cluster, "--readers", "2", "--in-turns")
    driver.wait_line("reader 1 has it", 60)
    sent = {host: host.bytes_sent() for host in (maker, first)}
    came = second.bytes_received()
    until(60, "a third of it has come", lambda: second.bytes_received() - came > SIZE / 3)
    source = max((maker, first), key=lambda host: host.bytes_sent() - sent[host])
    check(source.bytes_sent() - sent[source] > SIZE / 4, "it comes from both")
    check("reader 2" not in driver.text, "it is there already")
    began = time.monotonic()
    lose(source)
    at, _ = driver.wait_line("reader 2 has it", 40)
    received = second.bytes_received() - came
    print(
        f"{at - began:.2f} s after the loss of {source.name} it was there; {received / SIZE:.2f} "
        "of its "
        "size came in all", flush=True)
    check(received < 1.5 * SIZE, f"it began anew: {received} bytes came for {SIZE}")
    ends_well(driver)
    return cluster, source


def killed_source(lab):
    cluster, source = source_lost(lab, lambda host: host.kill(host.only_pid("crt-node")))
    cluster.join(source)
    cluster.wait_nodes(4)
    cluster.stop()


def stopped_source(lab):
    """Its connections stay open, and nothing comes by them."""
    cluster, source = source_lost(
        lab, lambda host: host.kill(host.only_pid("crt-node"), signal.SIGSTOP))
    source.kill(source.only_pid("crt-node"), signal.SIGCONT)
    cluster.wait_nodes(4, 30)
    cluster.stop()


def cut_source(lab):
    cluster, source = source_lost(lab, lab.cut)
    lab.mend(source)
    cluster.wait_nodes(4, 30)
    cluster.stop()


def lost_source(lab):
    """The only host that has it dies while another one reads it: there may be another copy for all
    the owner knows, and still the driver hears of the loss in time."""
    cluster = start_cluster(lab, 1, "100mbit")
    maker, reader = cluster.others
    came = reader.bytes_received()
    driver = transfer(cluster, "--readers", "1")
    until(60, "a third of it has come", lambda: reader.bytes_received() - came > SIZE / 3)
    check("reader 1" not in driver.text, "it is there already")
    began = time.monotonic()
    maker.kill(maker.only_pid("crt-node"))
    at, match = driver.wait_line(r"^transfer: read .* lost", 30)
    print(f"the driver knew after {at - began:.3f} s: {match.string}", flush=True)
    check(at - began <= 1, f"told after {at - began:.3f} s, not within 1 s")
    check(driver.wait(20) != 0, "the driver ended as if nothing had happened")
    cluster.join(maker)
    cluster.wait_nodes(3)
    cluster.stop()


def broadcast(lab):
    """Five hosts read at once: the one that has it sends it about once."""
    cluster = start_cluster(lab, 5, "200mbit")
    maker = cluster.others[0]
    before = maker.bytes_sent()
    result = ends_well(transfer(cluster, "--readers", "5"))
    sent = maker.bytes_sent() - before
    print(f"to 5 hosts in {result['seconds']:.2f} s; the first sent {sent / SIZE:.2f} of its size",
          flush=True)
    # On a busy host a reader may find that the others have nothing yet, and ask the first.
    check(sent < 2.5 * SIZE, f"{sent} bytes were sent by the host that had the {SIZE}")
    cluster.stop()


def broadcast_loses_one(lab):
    """The host that hands it on to all others dies in the middle."""
    cluster = start_cluster(lab, 4, "100mbit")
    maker, *readers = cluster.others
    before = {host: host.bytes_sent() for host in readers}
    driver = transfer(cluster, "--readers", "4", "--may-fail", "1")
    until(60, "one of them hands on a quarter of it", lambda: any(
        host.bytes_sent() - before[host] > SIZE / 4 for host in readers))
    victim = max(readers, key=lambda host: host.bytes_sent() - before[host])
    victim.kill(victim.only_pid("crt-node"))
    result = ends_well(driver)
    print(f"{victim.name} was lost; the others had it after {result['seconds']:.2f} s", flush=True)
    check(result["failed"] == 1, f"{result['failed']} readers failed, and one host was lost")
    cluster.join(victim)
    cluster.wait_nodes(6)
    cluster.stop()


def copied_meanwhile(lab):
    """Two hosts read at once what a third one has. It is lost when one of them has it and the other
    has not: that one was told of a single source, and asks the owner again."""
    cluster = start_cluster(lab, 2)
    maker, quick, slow = cluster.others
    ends_well(transfer(cluster, "--readers", "2", size=8))  # the program is everywhere now
    lab.shape(slow, "2mbit")
    size = 3 << 20  # less than what is handed on from reader to reader
    before = quick.bytes_sent()
    driver = transfer(cluster, "--readers", "2", "--tell", size=size)
    driver.wait_line("reader 1 has it", 60)
    check(quick.bytes_sent() - before < size, "the first reader hands it on")
    check("reader 2" not in driver.text, "the second one has it already")
    lab.cut(maker)  # a kill would leave to the kernel what it has to send
    lab.shape(slow, "1gbit")
    ends_well(driver)
    lab.mend(maker)
    cluster.wait_nodes(4, 30)
    cluster.stop()


def many(lab):
    """Hundreds of objects at once, several times the bytes that may be under way."""
    cluster = start_cluster(lab, 2)
    readers = cluster.others[1:]
    memory = [node_memory(host) for host in readers]
    ends_well(transfer(cluster, "--readers", "2", "--objects", "400", size=400_000))
    ends_well(transfer(cluster, "--readers", "2", "--objects", "20", size=8 << 20))
    for host, before in zip(readers, memory):
        grown = node_memory(host) - before
        print(f"the node daemon of {host.name} grew by {grown / 1024:.1f} MB", flush=True)
        # What 64 MiB under way would take if they went through its own memory.
        check(grown < 32 << 10, f"the node daemon of {host.name} grew by {grown} KiB")
    cluster.stop()


def node_memory(host):
    """Private KiB of its node daemon."""
    with open(f"/proc/{host.init.pid}/root/proc/{host.only_pid('crt-node')}/status",
              encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon:"))


SCENARIOS = {
    f.__name__: f
    for f in (killed_source, stopped_source, cut_source, lost_source, broadcast,
              broadcast_loses_one, copied_meanwhile, many)
}


def main():
    with new_lab() as lab:
        SCENARIOS[sys.argv[1]](lab)


if __name__ == "__main__":
    hosts.run(main)
