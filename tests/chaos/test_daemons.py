#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""When a chaos run may go on to its end: every daemon is there, and no node is about to leave."""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from types import SimpleNamespace

from chaos import Chaos
from daemons import Daemons
from places import Found, kind_of

HEAD, NODE = Found(10, "head", "a", 0), Found(11, "node", "a", 0)


class Places:
    """One host; `answers` are what crt status says, `then` is what happens while it is asked."""
    has_links, head_ip, port = False, "127.0.0.1", 1

    def __init__(self, nodes, then=lambda places: None):
        self.living, self.started = [HEAD, NODE], []
        self.said, self.then = json.dumps({"cluster": {"nodes": nodes}}), then
        self.hosts = {"a": SimpleNamespace(ip=self.head_ip, run=self._run, start=self._start)}

    def _run(self, *_, **__):
        self.then(self)
        return self.said

    def _start(self, *words):
        command = SimpleNamespace(words=words, text=self.said,
                                  popen=SimpleNamespace(poll=lambda: None))
        self.started.append(command)
        return command

    def processes(self):
        return self.living

    def of_kind(self, kind, place=None):
        return [p for p in self.living if p.kind == kind and place in (None, p.place)]


def ignore(_):
    pass


def daemons(places):
    made = Daemons(places, ignore, ignore)
    made.head.process, made.nodes["a"].process = HEAD, NODE
    return made


def node(**more):
    return {"node_id": "77", "state": "ALIVE", "ip": "127.0.0.1", **more}


def serve(nodes, then=lambda places: None):
    return daemons(Places(nodes, then)).all_serve()


@contextlib.contextmanager
def family(*names, **environment):
    """Processes of these names, each one the child of the one before."""
    below = "import os, subprocess, sys; text, python, *names = sys.argv[1:]; " \
            "print(os.getpid(), flush=True); " \
            "more = [names[0], '-c', text, text, python, *names[1:]] if names else []; " \
            "child = more and subprocess.Popen(more, executable=python, " \
            "stdin=subprocess.PIPE); " \
            "sys.stdin.read(); child and child.communicate()"
    with subprocess.Popen([names[0], "-c", below, below, sys.executable, *names[1:]],
                          executable=sys.executable, env={**os.environ, **environment},
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        yield [int(first.stdout.readline()) for _ in names]
        first.stdin.close()


def what_runs_below_a_program_is_hit_by_no_fault():
    """As LeakSanitizer's helper is: killed, the program would wait for it without end."""
    for names, environment, kinds in (
            (["crt", "crt"], {}, ["command", None]),
            (["chaos_program", "chaos_program"], {}, ["driver", None]),
            (["chaos_program", "chaos_program"], {"CRT_SUBMISSION": "1"}, ["job", None]),
            (["crt-node"] + 3 * ["chaos_program"], {"CRT_ZYGOTE_FD": "3"},
             ["node", "zygote", "worker", None])):
        with family(*names, **environment) as pids:
            found = [kind_of(pid) for pid in pids]
            assert found == kinds, found


def all_serve_when_each_is_there_and_stays():
    assert serve([node()])
    assert serve([node(drain_ms=None)])
    assert not serve([node(drain_ms=500)])
    assert not serve([node(drain_ms=0)])  # it ends now
    assert not serve([node(state="DEAD")])
    assert not serve([node(), node()])


def a_node_that_ends_while_the_head_is_asked_is_not_there():
    assert not serve([node(state="DEAD")], lambda places: places.living.remove(NODE))
    assert not serve([node()], lambda places: places.living.remove(NODE))
    assert not serve([node()], lambda places: places.living.remove(HEAD))


def end(command, status=0):
    command.popen = SimpleNamespace(poll=lambda: status, returncode=status)


def a_drain_is_under_way_until_its_command_has_ended():
    chaos = Chaos.__new__(Chaos)
    chaos.places = Places([node()])
    chaos.daemons, chaos.drains = daemons(chaos.places), []
    getattr(chaos, "_drain")(SimpleNamespace(seconds=3), NODE)
    end(chaos.places.started[0])
    chaos.tend_drains()
    assert chaos.places.started[1].words[:3] == ("crt", "drain", "77") and chaos.drains
    assert NODE.pid in chaos.daemons.killed
    chaos.tend_drains()
    assert chaos.drains
    end(chaos.places.started[1])
    chaos.tend_drains()
    assert not chaos.drains and len(chaos.places.started) == 2


def findings_of_an_end(folder, begun):
    """Of a node that ends unkilled, whose predecessor has left a log."""
    log = os.path.join(folder, "node-1", "node.log")
    os.makedirs(os.path.dirname(log), exist_ok=True)
    with open(log, "w", encoding="utf-8") as file:
        file.write("registered with 127.0.0.1:1\n")
    os.utime(log, (1000, 1000))
    places, found = Places([]), []
    places.hosts["a"].path = lambda _: folder
    made = daemons(places)
    made.finding = found.append
    made.nodes["a"].begun = begun
    places.living.remove(NODE)
    made.tick(now=0.0)
    return found


def a_node_whose_start_failed_is_not_judged_by_the_log_of_the_one_before():
    with tempfile.TemporaryDirectory() as folder:
        assert not findings_of_an_end(folder, begun=2000.0)
        assert len(findings_of_an_end(folder, begun=999.0)) == 1


if __name__ == "__main__":
    all_serve_when_each_is_there_and_stays()
    a_node_that_ends_while_the_head_is_asked_is_not_there()
    a_drain_is_under_way_until_its_command_has_ended()
    what_runs_below_a_program_is_hit_by_no_fault()
    a_node_whose_start_failed_is_not_judged_by_the_log_of_the_one_before()
    print("passed")
