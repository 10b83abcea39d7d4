#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""2,000 connections that say nothing, or no more than a first byte, to each open port of a cluster:
an honest node joins within a second, training goes on, and no daemon or worker has many descriptors
for it. Usage: test_silent.py SCENARIO"""
import os
import re
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))

import hosts  # noqa: E402
from crt_cluster import Cluster, KEY, install_train_mnist, new_lab  # noqa: E402
from hosts import check  # noqa: E402
from test_three_hosts import listening_ports  # noqa: E402

CONNECTIONS = 2000
# Holds them until it is killed; opens one anew for each that was closed, 100 a second: the attacker
# is to be many, and not to take this machine's processors.
FLOOD = """
import resource, select, socket, sys, time
address = sys.argv[1], int(sys.argv[2])
first, count = bytes.fromhex(sys.argv[3]), int(sys.argv[4])
resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100,) * 2)
poll, held = select.poll(), {}
def one():
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(address)
    held[s.fileno()] = s
    poll.register(s, (select.POLLOUT if first else 0) | select.POLLRDHUP)
for i in range(count): one()
print("open", flush=True)
while True:
    for fd, events in poll.poll():
        if events & (select.POLLRDHUP | select.POLLHUP | select.POLLERR):
            poll.unregister(fd)
            held.pop(fd).close()
            time.sleep(0.01)
            one()
        elif events & select.POLLOUT:
            poll.modify(fd, select.POLLRDHUP)
            try: held[fd].send(first)
            except OSError: pass
"""


def descriptors(host):
    """The most that one of the cluster's processes has open."""
    text = host.run("sh", "-c", "for p in /proc/[0-9]*; do ls $p/fd 2>/dev/null | wc -l; done")
    return max(int(n) for n in text.split())


def joins_within(cluster, host, seconds):
    cluster.head.give(cluster.key_file, host, KEY)
    began = time.monotonic()
    host.run("crt", "start", "--address", cluster.address, "--key-file", KEY, "--node-ip-address",
             host.ip, "--num-cpus", "1", "--object-store-memory", "256M")
    took = time.monotonic() - began
    print(f"{host.name} joined after {took:.2f} s", flush=True)
    check(took < seconds, f"{host.name} joined after {took:.2f} s, not within {seconds} s")


def flood(lab, first):
    a, b, c = (lab.host(name) for name in "abc")
    late, early, stranger = (lab.host(name) for name in "efd")
    install_train_mnist(a)
    cluster = Cluster(lab, a, b, c)
    driver = cluster.train_forever()
    joins_within(cluster, early, 5)
    floods = [stranger.start("/usr/bin/python3", "-c", FLOOD, host.ip, port, first, CONNECTIONS)
              for host in (a, b, c) for port in listening_ports(host)]
    check(len(floods) >= 3, f"only {len(floods)} open ports")
    for one in floods:
        one.wait_line("^open", 60)
    joins_within(cluster, late, LIMIT)
    last = max(int(n) for n in re.findall(r"^iteration +(\d+)", driver.text, re.MULTILINE))
    driver.wait_line(rf"^iteration +{last + 10}\b", 60)
    check(len(cluster.nodes()) == 5, "a node was lost")
    for host in (a, b, c):
        most = descriptors(host)
        print(f"{host.name}: at most {most} descriptors", flush=True)
        # libzmq takes every connection that begins as its own do, and gives it 3 s for the proof of
        # the key.
        check(most < 600 or first == FIRST["a_greeting"],
              f"a process of {host.name} has {most} descriptors")
    for one in floods:
        one.kill()
    driver.kill(2)
    driver.wait(20)
    for host in (late, early):
        host.run("crt", "stop", "--address", cluster.address)
    cluster.stop()


# The sanitizers make the start of a node's processes three times as long.
LIMIT = 3 if os.environ.get("CRT_TEST_SANITIZED") == "1" else 1
FIRST = {"nothing": "", "a_byte": "16", "a_greeting": "ff00000000000000017f"}


def main():
    with new_lab() as lab:
        flood(lab, FIRST[sys.argv[1]])


if __name__ == "__main__":
    hosts.run(main)
