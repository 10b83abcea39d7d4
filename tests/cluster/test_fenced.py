#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A fenced actor on hosts that are cut off from each other. Usage: test_fenced.py SCENARIO

The head is on a, the actor on one of b and c; callers on its own host and on a call it all the
time. Every run is written down where it happens, by one clock: the old process and the new one
never run at once."""
import os
import re
import shutil
import subprocess
import sys
import time

import hosts
from crt_cluster import Cluster, build_folder, new_lab
from hosts import check, until

FENCE = 4.0  # seconds that a caller may be served after the last heartbeat that was answered
RAN = r"^ran ([\d.]+)"
REFUSED = r"^failed ([\d.]+) CRT_ERR_HEAD_LOST did not run (Ledger.add did not run.* is fenced.*)"


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def say(what):
    print(what, flush=True)


def runs(host):
    """When the method began to run there."""
    try:
        with open(host.path("ledger"), encoding="ascii") as file:
            return [float(line.split()[1]) for line in file]
    except FileNotFoundError:
        return []


class Ledger:
    """A cluster with the actor and its two callers, all of them at work."""

    def __init__(self, lab, kind="fenced", head_options=()):
        self.lab = lab
        self.a, self.b, self.c = (lab.hosts.get(name) or lab.host(name) for name in "abc")
        self.cluster = Cluster(lab, self.a, self.b, self.c, head_options=head_options)
        for host in (self.a, self.b, self.c):
            host.put(os.path.join(build_folder(), "tests", "cluster", "fenced_member"),
                     "fenced_member")
        env = {"CRT_ADDRESS": self.cluster.address}
        self.a.run("./fenced_member", "make", kind, env=env)
        shown = self.a.run("crt", "status")
        check((re.search(r" Ledger +ledger +ALIVE .* fenced$", shown, re.M)
               is not None) == (kind == "fenced"), f"crt status does not say what it is:\n{shown}")
        self.old = self.cluster.actors("Ledger")[0]["host"]
        self.other = self.c if self.old is self.b else self.b
        self.near = self.old.start("./fenced_member", "call", env=env)
        self.far = self.a.start("./fenced_member", "call", env=env)
        for caller in (self.near, self.far):
            caller.wait_line(RAN, 30)

    def is_moved(self, began, at_least, at_most, within=FENCE):
        """Waits until the new process has run and checks all that was promised since `began`."""
        _, match = self.near.wait_line(REFUSED, 30)
        refused = float(match[1])
        until(60, "the actor runs on the other host", lambda: runs(self.other))
        last, first = max(runs(self.old)), min(runs(self.other))
        say(f"last run of the old process {last - began:+.3f} s, first refusal "
            f"{refused - began:+.3f} s, "
            f"first run of the new one {first - began:+.3f} s: \"{match[2]}\"")
        check(last <= began + within, f"the old process was served for longer than {within} s")
        check(last < first, "both processes were served at once")
        check(at_least <= first - began <= at_most, f"moved after {first - began:.3f} s")
        return first

    def goes_on(self, first):
        until(30, "the caller beside the head goes on", lambda: any(
            float(t) >= first for t in re.findall(RAN, self.far.text, re.M)))

    def end(self):
        count = len(runs(self.old))
        self.near.kill()
        self.far.kill()
        self.near.wait(10)
        self.far.wait(10)
        self.lab.mend(self.old)
        self.allow()
        self.cluster.wait_nodes(3, 30)
        until(10, "the old process is gone", lambda: not self.old.pids("fenced_member"))
        check(len(runs(self.old)) == count, "the old process ran after the cut")
        self.cluster.stop()

    def reset(self):
        """The head's connections to the old host break, and no new ones come up."""
        self.nft(f"table inet fence {{ chain out {{ type filter hook output priority 0; "
                 f"ip daddr {self.old.ip} meta l4proto tcp reject with tcp reset; }}; }}\n")

    def allow(self):
        self.nft("table inet fence {}\ndelete table inet fence\n")

    def nft(self, rules):
        subprocess.run(["nsenter", "--target", str(self.a.init.pid), "--net", "nft", "-f", "-"],
                       input=rules, text=True, check=True)


def cut(lab):
    """The actor's host is cut off: it is silent."""
    ledger = Ledger(lab)
    began = now()
    lab.cut(ledger.old)
    ledger.goes_on(ledger.is_moved(began, 4.0, 15))
    ledger.end()


def broken(lab):
    """The head's connection to the actor's node breaks: the node is dead within a second, but the
    actor waits, because its node may not know."""
    ledger = Ledger(lab)
    began = now()
    ledger.reset()
    until(5, "the node is dead", lambda: ledger.old.ip in ledger.cluster.nodes("DEAD"))
    say(f"the node was dead after {now() - began:.3f} s")
    check(not runs(ledger.other), "the actor was moved at once")
    ledger.goes_on(ledger.is_moved(began, 4.0, 15))
    ledger.end()


def head_restarted(lab):
    """The head dies with the cut: its successor does not know when the node was heard last."""
    ledger = Ledger(lab)
    began = now()
    lab.cut(ledger.old)
    a = ledger.a
    a.kill(a.only_pid("crt-head"))
    until(10, "the head is gone", lambda: not a.pids("crt-head"))
    a.run("crt", "start", "--head", "--node-ip-address", a.ip, "--num-cpus", "0")
    ledger.goes_on(ledger.is_moved(began, 5.0, 40))
    ledger.end()


def redis_lost(lab):
    """The head is cut off from an external redis-server, from which another head, with a node of
    its own, takes the tables. The nodes of the first head are fine, and so is their link to it."""
    a, d = lab.host("a"), lab.host("d")
    for host in (a, d):
        with open(host.path("password"), "w", encoding="ascii",
                  opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write("secret")
    program = shutil.which("redis-server") or "valkey-server"
    server = d.start(program, "--bind", d.ip, "--requirepass", "secret", "--appendonly", "yes",
                     "--appendfsync", "always", "--save", "", "--dir", "/tmp")
    server.wait_line("eady to accept connections", 20)
    options = ("--redis-address", f"{d.ip}:6379", "--redis-password-file", "password",
               "--redis-plaintext-ok")
    ledger = Ledger(lab, head_options=options)
    d.put(os.path.join(build_folder(), "tests", "cluster", "fenced_member"), "fenced_member")
    ledger.other = d
    began = now()
    ledger.nft(
        f"table inet fence {{ chain out {{ type filter hook output priority 0; ip daddr {d.ip} "
        f"drop; }}; }}\n"
    )
    d.run("crt", "start", "--head", "--node-ip-address", d.ip, "--num-cpus", "1",
          "--object-store-memory", "256M", *options)
    third = d.start("./fenced_member", "call", env={"CRT_ADDRESS": f"{d.ip}:6380"})
    ledger.is_moved(began, 12.0, 60, within=12.0)
    check(len(ledger.cluster.nodes()) == 3, "the first head lost its nodes")
    ledger.allow()
    until(30, "the first head ends", lambda: not ledger.a.pids("crt-head"))
    for caller in (ledger.near, ledger.far, third):
        caller.kill()
        caller.wait(10)
    for host in (ledger.a, ledger.b, ledger.c, d):
        host.run("crt", "stop")
        check(not host.pids("fenced_member"), f"the actor is left on {host.name}")


SCENARIOS = {f.__name__: f for f in (cut, broken, head_restarted, redis_lost)}


def main():
    with new_lab() as lab:
        SCENARIOS[sys.argv[1]](lab)


if __name__ == "__main__":
    hosts.run(main)
