# SPDX-License-Identifier: Apache-2.0
"""What tests with real daemons of one host share: a cluster, a driver that does what it is told,
and waiting. Found by tests that run under isolated.py."""
import json
import os
import re
import select
import signal
import socket
import subprocess
import time
import urllib.request


def run(*words, status=0):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=100, check=False)
    if done.returncode != status:
        raise AssertionError(f"{words} exits with {done.returncode}:\n{done.stdout}")
    return done.stdout


def free_port():
    with socket.socket() as s:
        s.bind(("", 0))
        return s.getsockname()[1]


def until(what, holds, seconds=120):
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def dashboard_of(said):
    """The address in what `crt start` says; None: crt is built without it."""
    found = re.search(r"https?://[\w.:]+", said)
    return found and found[0]


def state_of(url, token):
    """What `crt status --json` has of the cluster, without a process: tests ask many times."""
    request = urllib.request.Request(url + "/api/cluster_status",
                                     headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["data"]["clusterStatus"]["crt"]


class Cluster:
    """A head with a node of its own; more nodes join on this host. `soon`: seconds that something
    may take."""

    def __init__(self, crt, *options, store="50M", soon=20):
        self.command, self.soon = crt, soon
        self.store = ("--object-store-memory", store)
        said = run(crt, "start", "--head", "--port", 0, "--dashboard-port", 0, *self.store,
                   *options)
        self.address, self.key = re.search(r"--address (\S+) --key-file (\S+)", said).groups()
        self.url, self.owner = dashboard_of(said), None

    def token(self, *options):
        return run(self.command, "token", "--address", self.address, *options).strip()

    def start(self, *words, says=None, **variables):
        """A driver that reads and prints lines; `says`: the first one."""
        driver = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, CRT_ADDRESS=self.address, **variables))
        said = driver.stdout.readline() if says else ""
        assert not says or said == says + "\n", f"{words[0]} says {said!r}"
        return driver

    def join(self, *options):
        run(self.command, "start", "--address", self.address, "--key-file", self.key, *self.store,
            *options)

    def add(self, *options):
        """The id of a node that joins."""
        before = {node["node_id"] for node in self.nodes()}
        self.join(*options)
        return next(node["node_id"] for node in self.nodes() if node["node_id"] not in before)

    def node(self, node_id):
        return next(node for node in self.nodes() if node["node_id"] == node_id)

    def kill(self, node_id):
        os.kill(self.node(node_id)["pid"], signal.SIGKILL)

    def status(self):
        return json.loads(run(self.command, "status", "--json"))

    def state(self):
        if not self.url:
            return self.status()["cluster"]
        self.owner = self.owner or self.token()
        return state_of(self.url, self.owner)

    def nodes(self):
        return self.state()["nodes"]

    def free(self, name="CPU"):
        return sum(node["resources_available"].get(name, 0) for node in self.nodes()
                   if node["state"] == "ALIVE")

    def wait_for(self, condition):
        deadline = time.monotonic() + self.soon
        while not condition():
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.02)

    def kill_head(self):
        """With its tables in redis as they are."""
        port = self.address.rsplit(":", 1)[1]
        with open(os.path.join(os.environ["CRT_RUN_DIR"], f"head-{port}", "head.info"),
                  encoding="utf-8") as info:
            head = int(re.search(r"^pid[ =:]+(\d+)$", info.read(), re.M)[1])
        ended = os.pidfd_open(head)
        os.kill(head, signal.SIGKILL)
        select.select([ended], [], [], self.soon)
        os.close(ended)

    def restart_head(self, *options):
        self.url = dashboard_of(run(self.command, "start", "--head", "--port",
                                    self.address.rsplit(":", 1)[1], "--dashboard-port", 0,
                                    *options))

    def stop(self):
        run(self.command, "stop", "--address", self.address)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Driver:
    """A program that does what it is told, a line each; its standard error is `terminal`, a
    file."""

    def __init__(self, program, terminal=subprocess.DEVNULL, **variables):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=terminal, text=True,
                                        env=dict(os.environ, **variables))

    def ask(self, *words):
        """(status, text)"""
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        return tuple(self.process.stdout.readline().rstrip("\n").split(" ", 1))

    def ok(self, *words):
        status, text = self.ask(*words)
        if status != "CRT_OK":
            raise AssertionError(f"{words}: {status} {text}")
        return text

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()
        assert self.process.returncode == 0, self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
            self.process.communicate()
        else:
            self.end()
