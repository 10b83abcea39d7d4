# SPDX-License-Identifier: Apache-2.0
"""A crt cluster on the hosts of hosts.py: its start, what its status says, and its end."""
import json
import os
import re

import hosts

PORT = 6380
HTTP_PORT = 8265
KEY = "cluster.key"
DAEMONS = ("crt-head", "crt-node", "crt-http", "redis-server", "valkey-server")


class Cluster:
    """Head on the first host, which has no CPU to give; one CPU on each of the others. Each of
    these may have a resource of its own: host0, host1, ..."""

    def __init__(self, lab, head, *others, numbered=False, head_options=(), env=None,
                 store="256M"):
        self.lab, self.head, self.others = lab, head, others
        self.store = ("--object-store-memory", store)
        said = head.run("crt", "start", "--head", "--node-ip-address", head.ip, "--num-cpus", "0",
                        *self.store, *head_options, env=env)
        self.address = f"{head.ip}:{PORT}"
        hosts.check(self.address in said, f"crt start does not name {self.address}:\n{said}")
        # The join line names the key file, as a user would copy it.
        found = re.search(r"scp \S+?:(\S+)", said)
        hosts.check(found, f"crt start says no line to join with:\n{said}")
        self.key_file = found[1]
        for number, host in enumerate(others):
            self.join(host, *(["--resources", f"host{number}=4"] if numbered else []))
        self.wait_nodes(1 + len(others))

    def join(self, host, *options):
        self.head.give(self.key_file, host, KEY)
        host.run("crt", "start", "--address", self.address, "--key-file", KEY, "--node-ip-address",
                 host.ip, "--num-cpus", "1", *self.store, *options)

    def status(self):
        """What `crt status --json` says on the head's host."""
        return json.loads(self.head.run("crt", "status", "--json"))

    def nodes(self, state="ALIVE"):
        """ip -> node, of those in that state."""
        return {n["ip"]: n for n in self.status()["cluster"]["nodes"] if n["state"] == state}

    def wait_nodes(self, count, seconds=10):
        hosts.until(seconds, f"{count} nodes are alive", lambda: len(self.nodes()) == count)

    def actors(self, class_name):
        """Living actors of a class, each with the "host" it runs on added."""
        by_id = {n["node_id"]: n["ip"] for n in self.nodes().values()}
        by_ip = {h.ip: h for h in (self.head, *self.others)}
        found = [a for a in self.status()["actors"]
                 if a["class_name"] == class_name and a["state"] == "ALIVE"]
        for actor in found:
            actor["host"] = by_ip.get(by_id.get(actor["node_id"]))
        return found

    def train(self, *options):
        """Starts the training program as a driver on the head's host."""
        return self.head.start("./train_mnist", "--data", "builtin", "--workers",
                               str(len(self.others)), *options,
                               env={"CRT_ADDRESS": self.address})

    def train_forever(self):
        """A driver that would train for hours, when its first iterations are done."""
        driver = self.train("--iterations", "1000000", "--eval-every", "5")
        driver.wait_line(r"^iteration +5\b", 60)
        return driver

    def stop(self):
        """crt stop everywhere; nothing of the cluster may be left on any host."""
        for host in (*self.others, self.head):
            host.run("crt", "stop", "--address", self.address)
        for host in (*self.others, self.head):
            nothing_is_left(host)


def install_train_mnist(host):
    """The program lies on that host only."""
    host.put(os.path.join(build_folder(), "examples", "train_mnist"), "train_mnist")


def build_folder():
    return os.environ.get("CRT_TEST_BUILD", os.path.join(source_folder(), "build-asan"))


def source_folder():
    return os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def new_lab():
    return hosts.Lab(build_folder(), hide=[source_folder(), build_folder()])


def nothing_is_left(host):
    """Fails when a process, a socket or shared memory of a cluster is left on the host."""
    for name in (*DAEMONS, "train_mnist", "transfer_program", "word_count", "sort"):
        hosts.check(not host.pids(name), f"host {host.name}: {name} still runs")
    for folder in ("/tmp", "/dev/shm", "/run"):
        left = [n for n in os.listdir(host.path(folder)) if "crt" in n]
        hosts.check(not left, f"host {host.name}: {folder} still has {left}")
