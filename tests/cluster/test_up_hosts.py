#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crt up on hosts that have nothing of crt, each with an sshd of its own: to a trained model by one
command line, at once and with all in place; a host that dies is shown; down leaves nothing.

Usage: test_up_hosts.py [HOSTS]; CRT_TEST_BUILD names the build folder. It prints how long each
takes: with 8 hosts, a release build and an idle machine they are what users see."""
import os
import signal
import sys
import time

import crt_cluster
import hosts
import ssh_hosts

FILE = "lab.yaml"
DAEMONS = ("crt-head", "crt-node", "crt-http", "redis-server", "train_mnist")
TRAIN = "crt up {0} && crt exec {0} -- ./train_mnist --data builtin --workers {1} --iterations 60"


def file_of(names, hosts_key):
    return f"""head:
  host: {names[0]}
  num-cpus: 1
  dashboard-port: 0
  object-store-memory: 128M
groups:
  others:
    {hosts_key}
    num-cpus: 1
    object-store-memory: 128M
ssh:
  options: [-F, {ssh_hosts.HOME}/{ssh_hosts.CONFIG}]
environment: {{OPENBLAS_NUM_THREADS: "1"}}
folder: program
"""


def trains(desk, count, what):
    """The command line that a user types, timed."""
    begin = time.monotonic()
    said = desk.host.run("sh", "-c", TRAIN.format(FILE, count), seconds=400)
    print(f"{what}: {time.monotonic() - begin:.2f} s", flush=True)
    hosts.check("accuracy" in said, f"no model was trained:\n{said}")
    return said


def nothing_is_left(desk):
    for host in desk.hosts:
        for name in DAEMONS:
            hosts.check(not host.pids(name), f"{host.name}: {name} still runs")
        for folder in ("/tmp", "/dev/shm", "/run"):
            left = [n for n in os.listdir(host.path(folder)) if "crt" in n]
            hosts.check(not left, f"{host.name}: {folder} still has {left}")
        state = host.path("/root/.local/state/crt")
        hosts.check(not os.path.exists(state), f"{host.name}: {state} is left")


def a_dead_host_is_shown(desk, count):
    """Its node and its sshd end at once, and nothing of it answers any more."""
    victim = desk.hosts[-1]
    desk.lab.cut(victim)
    hosts.until(60, "the dead host is shown",
                lambda: desk.crt("status", FILE).count("ALIVE") == count - 1)
    said = desk.crt("up", FILE, status=1)
    hosts.check(f"{victim.name}: failed: " in said, said)
    hosts.check(f"1 of {count} hosts failed" in said, said)
    desk.lab.mend(victim)


def sixteen_hosts_in_one_range(desk):
    """As a loop over h1 to h15 by ssh started them, with the port and the store of each."""
    desk.write("sixteen.yaml", "head: {host: h0, port: 6380}\ngroups:\n"
               '  others: {hosts: "h[1-15]", object-store-memory: 32359738368}\n')
    said = desk.crt("up", "--dry-run", "sixteen.yaml")
    hosts.check(said.count("--object-store-memory 32359738368") == 15, said)


def hosts_address_works_as_it_is(desk, names):
    """A list of addresses, one a line, as seeds of this kind have it; the first is the head."""
    desk.write("hosts_address", "".join(f"{h.ip}\n" for h in desk.hosts))
    desk.write("addresses.yaml", file_of([desk.hosts[0].ip], "hosts-address: hosts_address"))
    said = desk.crt("up", "--check", "addresses.yaml")
    hosts.check(said.count("would start") == len(names), said)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    names = [f"h{i}" for i in range(count)]
    with crt_cluster.new_lab() as lab:
        desk = ssh_hosts.Desk(lab, names)
        desk.write(FILE, file_of(names, f'hosts: "h[1-{count - 1}]"'))
        desk.host.put(os.path.join(crt_cluster.build_folder(), "examples", "train_mnist"),
                      "program/train_mnist")
        begin = time.monotonic()
        desk.crt("up", "--check", FILE)
        print(f"crt packed: {time.monotonic() - begin:.2f} s", flush=True)
        said = trains(desk, count, f"{count} bare hosts to a trained model")
        hosts.check(said.count("is handed crt") == count, said)
        hosts_down(desk)
        said = trains(desk, count, "the second time")
        hosts.check("is handed crt" not in said, said)
        a_dead_host_is_shown(desk, count)
        hosts_down(desk)
        hosts_address_works_as_it_is(desk, names)
        sixteen_hosts_in_one_range(desk)


def hosts_down(desk):
    said = desk.crt("down", FILE)
    hosts.check("failed" not in said, said)
    nothing_is_left(desk)


if __name__ == "__main__":
    if os.geteuid() != 0 or not os.path.exists(ssh_hosts.SSHD):
        print("skipped: needs root and sshd")
        sys.exit(77)
    signal.alarm(1000)
    hosts.run(main)
