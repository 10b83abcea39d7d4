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


class Cluster:
    """A head with a node of its own; more nodes join on this host. `soon`: seconds that something
    may take."""

    def __init__(self, crt, *options, store="50M", soon=20):
        self.command, self.soon = crt, soon
        self.store = ("--object-store-memory", store)
        said = run(crt, "start", "--head", "--port", 0, "--dashboard-port", 0, *self.store,
                   *options)
        self.address, self.key = re.search(r"--address (\S+) --key-file (\S+)", said).groups()
        self.url = re.search(r"https?://[\w.:]+", said)[0]  # of the dashboard

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

    def status(self):
        return json.loads(run(self.command, "status", "--json"))

    def state(self):
        return self.status()["cluster"]

    def nodes(self):
        return self.state()["nodes"]

    def free(self, name="CPU"):
        return sum(node["resources_available"].get(name, 0) for node in self.nodes()
                   if node["state"] == "ALIVE")

    def wait_for(self, condition):
        deadline = time.monotonic() + self.soon
        while not condition():
            assert time.monotonic() < deadline, self.status()

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
        run(self.command, "start", "--head", "--port",
            self.address.rsplit(":", 1)[1], "--dashboard-port", 0, *options)

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
