#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Restarts and cuts one by one, under the load of the chaos test. Usage: test_restarts.py SCENARIO

What docs/design/recovery.md promises: calls go on without a head and without redis-server, over a
cut of 3 s, and while the disk under redis-server is full; a long cut is clear errors, and the node
comes back with its old workers gone."""
import os
import sys
import time

import places
from chaos import Chaos, parse
from schedule import Fault

from hosts import TestFailure  # found by places

BY_ITSELF = {"ACTOR_DIED", "EXISTS"}  # the load ends its actors under its own calls
WARM = 300  # calls
DISK = "24m"  # of redis-server, when it is to be full


class Restarts(Chaos):
    def counts(self, name):
        """(calls that ended, {what failed: how many}) as the driver said last."""
        said = [
            line.split() for line in self.drivers[name].text.splitlines()
            if line.startswith("calls")
        ]
        words = said[-1] if said else ["calls", "0"]
        return int(words[1]), dict(zip(words[2::2], map(int, words[3::2])))

    def pass_time(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tick()

    def until_more(self, calls, seconds=60):
        """Every driver ends so many more calls."""
        before = {name: self.counts(name)[0] for name in self.driver_places}
        done = self.until(f"{calls} more calls of each driver", lambda: all(
            self.counts(name)[0] >= before[name] + calls for name in self.driver_places), seconds)
        for name in self.driver_places:
            self.say(f"driver {name}: {before[name]} -> {self.counts(name)[0]} calls")
        return done

    def strike(self, act, kind, seconds, place=None):
        """One fault, at that place."""
        if kind == "link":
            fault = Fault(0, act, kind, sorted(self.places.hosts).index(place), seconds)
        else:
            found = self.places.of_kind(kind)
            fault = Fault(0, act, kind,
                          next(i for i, p in enumerate(found) if place in (None, p.place)), seconds)
        self.hit(fault)

    def nothing_failed(self, what, but=()):
        for name in self.driver_places:
            failed = {
                k: v
                for k, v in self.counts(name)[1].items() if k not in BY_ITSELF and k not in but
            }
            if failed:
                self.find(
                    f"{what} failed calls of the driver on {name}: {failed}\n"
                    f"{self.drivers[name].text}"
                )

    def crt_fails(self, *words):
        """What a command says that must not succeed."""
        process = self.places.hosts["a"].start("crt", *words)
        if process.wait(60) == 0:
            self.find(f"{words} succeeded: {process.text}")
        return process.text

    def failed(self, what):
        """How many requests of all drivers failed like that."""
        return sum(self.counts(name)[1].get(what, 0) for name in self.driver_places)

    def scenario(self, strike):
        if strike is disk_full:
            self.make_small_disk(DISK)
        self.daemons.start_all()
        if strike in (head_killed, disk_full):
            self.more["CHAOS_LASTING"] = "1"
        for name in self.driver_places:
            self.start_driver(name)
        self.until_more(WARM)
        strike(self)
        self.heal(everything=True)
        self.until("all daemons serve again", self.daemons.all_serve)
        self.wind_down()
        self.goes_on_as_before()
        self.is_at_rest({})
        self.account()


def head_killed(chaos):
    """Calls between processes go on without a head; all that is asked of it waits for the next
    one."""
    chaos.strike("kill", "head", 3600)  # ended below
    chaos.until_more(WARM)
    if chaos.daemons.head.process:
        chaos.find("the head was there again too soon to see anything")
    chaos.daemons.head.due = 0
    chaos.until("the head is back",
                lambda: chaos.daemons.head.process and not chaos.daemons.head.starting, 30)
    chaos.until_more(WARM)
    chaos.nothing_failed("the head's restart")


def redis_killed(chaos):
    """The head starts redis-server again; nobody notices."""
    for _ in range(3):
        old = chaos.places.of_kind("redis-server")[0].pid
        chaos.strike("kill", "redis-server", 0)
        chaos.until("another redis-server", lambda old=old: any(
            p.pid != old for p in chaos.places.of_kind("redis-server")), 20)
        chaos.until_more(WARM)
    chaos.nothing_failed("kills of redis-server")


def short_cut(chaos):
    """A cut of 3 s delays calls, and that is all."""
    chaos.strike("cut", "link", 3.0, "b")
    chaos.pass_time(3.2)
    chaos.until_more(WARM, 20)
    chaos.nothing_failed("a cut of 3 s")


def long_cut(chaos):
    """A node that was cut off is dead; it comes back as a new one and has ended what ran there."""
    old = {p.pid for p in chaos.places.of_kind("worker", "c")}
    status = chaos.daemons.status()
    node = next(n for n in status["cluster"]["nodes"] if n["ip"] == chaos.places.hosts["c"].ip)
    began = time.monotonic()
    chaos.strike("cut", "link", 10 * chaos.options.cut, "c")  # healed below
    chaos.until("the head says that it is dead", lambda: any(
        n["node_id"] == node["node_id"] and n["state"] == "DEAD"
        for n in (chaos.daemons.status() or {"cluster": {"nodes": []}})["cluster"]["nodes"]), 10)
    chaos.say(f"dead after {time.monotonic() - began:.1f} s")
    chaos.pass_time(chaos.options.cut - (time.monotonic() - began))
    chaos.heal(everything=True)
    chaos.until("it is back", chaos.daemons.all_serve, 30)
    chaos.until("its old workers are gone",
                lambda: not old & {p.pid
                                   for p in chaos.places.of_kind("worker", "c")}, 10)
    chaos.until_more(WARM)


def node_killed(chaos):
    """A node daemon that is killed takes its workers along; another one serves in its place."""
    old = {p.pid for p in chaos.places.of_kind("worker", "c")}
    chaos.strike("kill", "node", 1.0, "c")
    chaos.until("its workers are gone",
                lambda: not old & {p.pid
                                   for p in chaos.places.of_kind("worker", "c")}, 10)
    chaos.until("a node is there again", chaos.daemons.all_serve, 30)
    chaos.until_more(WARM)


def disk_full(chaos):
    """Changes fail and say why, calls go on, the head lives; with room again all is as before."""
    a, filler = chaos.places.hosts["a"], os.path.join(chaos.redis_folder, "filler")
    head, before = chaos.places.of_kind("head")[0].pid, chaos.failed("IO")
    a.run("dd", "if=/dev/zero", f"of={filler}", "bs=64k", status=None)
    chaos.until("changes fail", lambda: chaos.failed("IO") > before, 30)
    chaos.until_more(WARM)
    said = chaos.crt_fails("job", "submit", "--address", chaos.daemons.address, "--", "true")
    if "disk" not in said and "No space" not in said:
        chaos.find(f"a submission does not say that the disk is full: {said}")
    if not chaos.daemons.status():
        chaos.find("the head does not answer while the disk is full")
    chaos.pass_time(10)
    chaos.until_more(WARM)
    os.remove(a.path(filler))
    last = [chaos.failed("IO"), time.monotonic()]

    def is_quiet():
        if chaos.failed("IO") != last[0]:
            last[:] = [chaos.failed("IO"), time.monotonic()]
        return time.monotonic() - last[1] > 5
    chaos.until("changes are taken again", is_quiet, 30)
    chaos.until_more(WARM)
    if [p.pid for p in chaos.places.of_kind("head")] != [head]:
        chaos.find("the head did not live through a full disk")
    chaos.nothing_failed("a full disk", ("IO",))


SCENARIOS = {
    f.__name__: f
    for f in (head_killed, redis_killed, short_cut, long_cut, node_killed, disk_full)
}


def main(options, strike):
    chaos = Restarts(options)
    try:
        chaos.scenario(strike)
    finally:
        if chaos.findings and options.keep:
            chaos.places.keep(options.keep)
        chaos.places.close()
    if chaos.findings:
        raise TestFailure(chaos.findings[0])


if __name__ == "__main__":
    scenario = SCENARIOS[sys.argv[1]]
    its_options = parse(sys.argv[2:])
    places.hosts.run(lambda: main(its_options, scenario))
