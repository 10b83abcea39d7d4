#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The hosts themselves: they reach each other, a pulled cable cuts, and nothing of them is left.

Usage: test_hosts.py; it calls itself with "inside" (in the namespaces) and "stay"."""
import os
import signal
import socket
import subprocess
import sys
import time

import hosts

LISTEN = """
import socket
s = socket.create_server(("0.0.0.0", 7000)); print("listening", flush=True)
c, _ = s.accept(); c.sendall(c.recv(64)[::-1])
"""
SPEAK = """
import socket, sys
s = socket.create_connection((sys.argv[1], 7000), 3); s.sendall(b"olleh")
print(s.recv(64).decode())
"""


def python(host, program, *arguments):
    return host.start("/usr/bin/python3", "-c", program, *arguments)


def ping(host, other):
    return host.start("ping", "-c", "1", "-W", "1", other.ip).wait(5) == 0


def hosts_reach_each_other(a, b, c):
    for one in (a, b, c):
        for other in (a, b, c):
            hosts.check(ping(one, other), f"{one.name} does not reach {other.name}")
    server = python(b, LISTEN)
    server.wait_line("listening", 20)
    client = python(c, SPEAK, b.ip)
    client.wait_line("^hello$", 20)
    hosts.check(client.wait(20) == 0 and server.wait(20) == 0, "the speakers failed")


def a_pulled_cable_cuts_and_a_mended_one_joins(lab, a, b, c):
    lab.cut(b)
    hosts.check(not ping(a, b) and not ping(b, c), "b is still reached")
    hosts.check(ping(a, c), "a no longer reaches c")
    lab.mend(b)
    hosts.until(5, "b is back", lambda: ping(a, b))


def loss_loses(a, b):
    b.lose(100)
    hosts.check(not ping(a, b), "nothing was lost")
    b.lose(0)
    hosts.check(ping(a, b), "b is not back")


def a_host_sees_its_own_files_and_processes_only(lab, a, b):
    hosts.check(a.run("hostname") == "a", "wrong name")
    a.run("sh", "-c", "echo secret > /tmp/note; echo secret > $HOME/note")
    b.run("sh", "-c", "test ! -e /tmp/note && test ! -e $HOME/note")
    for path in ("/mnt", lab.hidden[0]):
        a.run("sh", "-c", f"test ! -e {path} || test -z \"$(ls -A {path})\"")
    sleeper = a.start("sleep", "1000")
    hosts.until(5, "a has the process", lambda: a.pids("sleep") == [sleeper.pid])
    hosts.check(b.pids("sleep") == [], "b sees a process of a")
    sleeper.kill()
    hosts.check(sleeper.wait(5) != 0, "the killed process says it went well")
    a.give("note", b, "notes/copy")
    hosts.check(b.run("cat", "notes/copy") == "secret", "the copy differs")


def inside():
    here = os.path.dirname(os.path.abspath(__file__))
    with hosts.Lab(hide=[here]) as lab:
        a, b, c = (lab.host(name) for name in "abc")
        hosts_reach_each_other(a, b, c)
        a_pulled_cable_cuts_and_a_mended_one_joins(lab, a, b, c)
        loss_loses(a, b)
        lab.shape(b, "10mbit")
        hosts.check(ping(a, b), "a shaped link does not carry")
        a_host_sees_its_own_files_and_processes_only(lab, a, b)
        print("inside: passed", flush=True)
        if sys.argv[2:] == ["stay"]:
            signal.pause()


def marked():
    """Processes that carry this test's mark in their environment, this one apart."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if entry.isdigit() and MARK.encode() in file.read() and int(entry) != os.getpid():
                    found.append(int(entry))
        except OSError:
            continue
    return found


def traces():
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = len(file.readlines())
    return mounts, sorted(name for _, name in socket.if_nameindex())


def nothing_is_left_however_it_ends():
    before = traces()
    environment = dict(os.environ, CRT_TEST_MARK=MARK.split("=")[1])
    for ending in (None, signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
        command = [sys.executable, "-B", __file__, "inside", *(["stay"] if ending else [])]
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True,
                                   start_new_session=True)
        said = []
        for line in process.stdout:
            said.append(line)
            if ending and "inside: passed" in line:
                # As a terminal or Meson does it: to the whole group; kill -9 hits one process.
                if ending == signal.SIGKILL:
                    process.kill()
                else:
                    os.killpg(process.pid, ending)
        status = process.wait()
        hosts.check("inside: passed\n" in said,
                    f"ended by {ending}, status {status}:\n{''.join(said)}")
        hosts.check(ending or status == 0, f"exit status {status}")
        began = time.monotonic()
        hosts.until(5, f"every process is gone after {ending}", lambda: not marked())
        hosts.check(traces() == before, f"mounts or links are left: {before} and {traces()}")
        print(f"ended by {ending}: nothing left after {time.monotonic() - began:.2f} s", flush=True)


MARK = f"CRT_TEST_MARK={os.getpid()}-{time.time_ns()}"

if __name__ == "__main__":
    if sys.argv[1:2] == ["inside"]:
        hosts.run(inside)
    nothing_is_left_however_it_ends()
