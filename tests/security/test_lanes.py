#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A container with the host's network and the cluster's uid, or another one, but neither its files
nor its key, finds the names of all lanes of a training. It is told nothing, and the training does
not wait for it.
Usage: test_lanes.py"""
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))

import hosts  # noqa: E402
from crt_cluster import Cluster, install_train_mnist, new_lab  # noqa: E402
from hosts import check  # noqa: E402

SILENT = 200  # connections to each name
# Prints what it was told in all, and by how many names.
ATTACK = """
import array, json, os, re, select, socket, struct, sys
names = sorted(set(re.findall(r"@(\\S+)$", open("/proc/net/unix").read(), re.MULTILINE)))
files = [name for name in names if os.path.exists(os.path.dirname(name))]
told, open_ends, descriptors = 0, 0, 0

def dial(name):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    s.connect(b"\\0" + name.encode())
    return s

def first(proof):
    return struct.pack("<QQ", 0x334c545243, 1 << 20) + bytes(16) + proof

def attempt(name, data, with_memory):
    global told, open_ends, descriptors
    s = dial(name)
    memory, doorbell = os.memfd_create("crt-lane", os.MFD_ALLOW_SEALING), os.eventfd(0)
    os.truncate(memory, 1 << 20)
    both = array.array("i", [memory, doorbell])
    passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, both)] if with_memory else []
    try:
        s.sendmsg([data], passed)
        got, ancillary, _, _ = s.recvmsg(4096, 4096)
        told, descriptors = told + len(got), descriptors + len(ancillary)
    except ConnectionError:
        pass
    except TimeoutError:
        open_ends += 1
    s.close()
    rung = os.read(doorbell, 8) if select.select([doorbell], [], [], 0)[0] else b""
    written = any(os.pread(memory, 1 << 20, 0))
    told += len(rung) + written
    os.close(memory)
    os.close(doorbell)

held = []
for name in names:
    for data in (first(bytes(16)), first(os.urandom(16)), b"x" * 48, b"\\0" * 48,
                 first(b"")[:40] + b"y" * 100):
        for with_memory in (True, False):
            attempt(name, data, with_memory)
    try:
        held += [dial(name) for _ in range(int(sys.argv[1]))]
    except OSError: # its queue is full
        pass
print(json.dumps({"names": names, "files": files, "told": told, "open": open_ends,
                  "descriptors": descriptors}), flush=True)
sys.stdin.read()
"""


class Stranger:
    """A process of another mount and pid namespace in the host's network."""

    def __init__(self, host, uid):
        user = ["setpriv", f"--reuid={uid}", "--clear-groups"] if uid else []
        self.process = subprocess.Popen([
            "nsenter", "--target",
            str(host.init.pid), "--net", "unshare", "--mount", "--pid", "--fork", "--kill-child",
            "--mount-proc", *user, sys.executable, "-c",
            "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n" + ATTACK,
            str(SILENT)
        ], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def report(self):
        line = self.process.stdout.readline()
        check(line, "the stranger came to nothing")
        return json.loads(line)

    def end(self):
        self.process.stdin.close()
        self.process.wait(20)


def iterations(driver):
    """When each was told."""
    return [at for at, line in driver.lines if re.match(r"^iteration +\d+", line)]


def slowest(driver, began):
    times = [began] + [at for at in iterations(driver) if at > began]
    check(len(times) > 1, "the training does not go on")
    return max(b - a for a, b in zip(times, times[1:]))


def besieged(lab):
    a = lab.host("a")
    install_train_mnist(a)
    cluster = Cluster(lab, a, head_options=("--num-cpus", "2"))
    driver = a.start("./train_mnist", "--data", "builtin", "--workers", "2", "--iterations",
                     "1000000", "--eval-every", "1", env={"CRT_ADDRESS": cluster.address})
    began = time.monotonic()
    driver.wait_line(r"^iteration +20\b", 60)
    undisturbed = slowest(driver, iterations(driver)[5])
    with open("/proc/self/uid_map", encoding="ascii") as uid_map:
        has_users = int(uid_map.read().split()[2]) > 4711  # not so in an ordinary user's namespace
    for uid in (0, 4711) if has_users else (0,):
        began = time.monotonic()
        stranger = Stranger(a, uid)
        report = stranger.report()
        last = len(iterations(driver))
        driver.wait_line(rf"^iteration +{last + 20}\b", 60)
        took = slowest(driver, began)
        print(
            f"uid {uid}: {report}; slowest iteration {took:.3f} s, undisturbed {undisturbed:.3f} s",
            flush=True)
        lanes = [n for n in report["names"] if re.search(r"/p-[0-9a-f]{32}\.ipc$", n)]
        check(len(lanes) >= 3, "it does not see the names of driver and workers")
        check(lanes == report["names"], "there are names of other kinds")
        check(not report["files"], "it sees the cluster's files")
        check(report["told"] == 0 and report["descriptors"] == 0, "it was told something")
        check(report["open"] == 0, "who proved nothing was kept")
        check(took < undisturbed + MORE_S, "the training waited for it")
        stranger.end()
    driver.kill(2)
    driver.wait(20)
    cluster.stop()


# A training that waited for a stranger would do so until the handshake is given up, after 3 s.
MORE_S = 2 if os.environ.get("CRT_TEST_SANITIZED") == "1" else 0.1


def main():
    with new_lab() as lab:
        besieged(lab)


if __name__ == "__main__":
    hosts.run(main)
