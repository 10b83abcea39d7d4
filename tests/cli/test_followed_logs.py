#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A followed log comes whole and in order, whatever is cut on its way: the connection of who
follows it, crt-http, the head.
Usage: test_followed_logs.py CRT LOG_PROGRAM [LINES]"""
import glob
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import real_cluster
from forwarder import Forwarder

CRT, PROGRAM = sys.argv[1:3]
LINES = int(sys.argv[3]) if len(sys.argv) > 3 else 100000
LOG_BYTES = sum(len(f"line {n} of a log\n") for n in range(1, LINES + 1))
PATIENCE = 180


class Cluster(real_cluster.Cluster):
    def __init__(self):
        super().__init__(CRT, "--num-cpus", "2", "--no-auth")
        self.http_port = int(self.url.rsplit(":", 1)[1])

    def submit(self, script):
        said = real_cluster.run(CRT, "job", "submit", "--address", self.address, "--no-wait", "--",
                                "/bin/sh", "-c", script)
        return re.search(r"Job '(\S+)' submitted", said)[1]

    @staticmethod
    def pid_of(name):
        mark = f"CRT_RUN_DIR={os.environ['CRT_RUN_DIR']}".encode()
        for path in glob.glob("/proc/[0-9]*"):
            try:
                with open(f"{path}/comm", encoding="ascii") as comm, open(f"{path}/environ",
                                                                          "rb") as environ:
                    if comm.read().strip() == name and mark in environ.read().split(b"\0"):
                        return int(path.split("/")[2])
            except OSError:
                pass  # it has ended
        return None

    def kill(self, name):
        """As soon as there is one."""
        end = time.monotonic() + PATIENCE
        while not (pid := self.pid_of(name)):
            assert time.monotonic() < end, f"no {name}"
            time.sleep(0.02)
        os.kill(pid, signal.SIGKILL)

    def restart_head(self):
        self.kill_head()
        super().restart_head("--no-auth")


class Follower:
    """`crt` with these words; `actions` are run beside it, at equal parts of the log."""

    def __init__(self, *words, env=None, actions=()):
        self.process = subprocess.Popen([CRT, *words], env=env, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.actions = {
            LINES * (i + 1) // (len(actions) + 1): action
            for i, action in enumerate(actions)
        }
        self.rest, self.lines, self.took, self.errors, self.code = [], 0, 0, "", None

    def read(self):
        begun, threads = time.monotonic(), []
        for line in self.process.stdout:
            if line == b"line %d of a log\n" % (self.lines + 1):
                self.lines += 1
            else:
                self.rest.append(line.decode())
            action = self.actions.pop(self.lines, None)
            if action:
                threads.append(threading.Thread(target=action))
                threads[-1].start()
        self.took = time.monotonic() - begun
        self.errors = self.process.stderr.read().decode()
        self.code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()
        for thread in threads:
            thread.join()
        return self


class Followed(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)
        self.script = f"seq -f 'line %.0f of a log' 1 {LINES}"

    def through(self, forwarder, command, *words, **variables):
        """As on another host, over TCP."""
        elsewhere = tempfile.TemporaryDirectory()
        self.addCleanup(elsewhere.cleanup)
        return Follower("job", command, "--address", f"http://127.0.0.1:{forwarder.port}", *words,
                        env=dict(os.environ, CRT_RUN_DIR=elsewhere.name, **variables))

    def assert_whole(self, follower, cuts):
        """All lines in order, and at most one sentence for each cut."""
        wrong = [line for line in follower.rest if line.startswith("line")]
        self.assertEqual((wrong[:3], follower.lines, follower.code), ([], LINES, 0),
                         (follower.errors, follower.rest))
        self.assertLessEqual(follower.errors.count("trying again"), cuts, follower.errors)
        print(f"{self.id().split('.')[-1]}: {LINES / follower.took:.0f} lines/s")

    def test_a_connection_that_is_cut_again_and_again(self):
        forwarder = Forwarder(self.cluster.http_port)
        self.addCleanup(forwarder.close)
        for cuts in (0, 7):
            forwarder.cut_after = [
                forwarder.carried + LOG_BYTES * (n + 1) // (cuts + 1) for n in range(cuts)
            ]
            for words in (("logs", "-f", self.cluster.submit(self.script)),
                          ("submit", "--", "/bin/sh", "-c", self.script)):
                self.assert_whole(self.through(forwarder, *words).read(), cuts)
                self.assertEqual(forwarder.cut_after, [])

    def test_a_connection_that_is_cut_when_the_log_has_ended(self):
        forwarder = Forwarder(self.cluster.http_port)
        self.addCleanup(forwarder.close)
        job = self.cluster.submit(self.script)
        forwarder.cut_at = 2 * [f"GET /api/jobs/{job} ".encode()]  # libcurl itself tries once more
        self.assert_whole(self.through(forwarder, "logs", "-f", job).read(), 1)
        self.assertEqual(forwarder.cut_at, [])

    def test_a_connection_that_does_not_come_back(self):
        forwarder = Forwarder(self.cluster.http_port)
        job = self.cluster.submit("echo begun; exec sleep 600")
        follower = self.through(forwarder, "logs", "-f", job, CRT_FOLLOW_TIMEOUT="3s")
        self.assertIn(b"begun\n", iter(follower.process.stdout.readline, b""))
        forwarder.close()
        follower.read()
        self.assertEqual((follower.lines, follower.code), (0, 1))
        self.assertRegex(
            follower.errors, r"^crt job logs: no answer from \S+: .*; trying again for 3s\n"
            r"crt job logs: no answer from \S+: .*; given up after 3s\n$")
        self.assertLess(follower.took, 18)

    def test_a_head_that_comes_back(self):
        job = self.cluster.submit("echo begun; exec sleep 600")
        follower = Follower("job", "logs", "--address", self.cluster.address, "-f", job)
        self.assertIn(b"begun\n", iter(follower.process.stdout.readline, b""))
        self.cluster.kill_head()
        self.assertIn(b"; trying again for 10m\n", follower.process.stderr.readline())
        real_cluster.Cluster.restart_head(self.cluster, "--no-auth")
        self.assertEqual(follower.process.stderr.readline(),
                         b"crt job logs: is answered again, and goes on\n")
        real_cluster.run(CRT, "job", "stop", "--address", self.cluster.address, job)
        follower.read()
        self.assertEqual((follower.errors, follower.code), ("", 1))

    def test_a_server_that_is_killed_again_and_again(self):
        actions = [lambda: self.cluster.kill("crt-http")] * 3
        job = self.cluster.submit(self.script)
        self.assert_whole(
            Follower("job", "logs", "--address", self.cluster.address, "-f", job,
                     actions=actions).read(), 3)

    def test_a_head_that_is_killed(self):
        for seconds in (0, 1):  # while the job prints, and when it has ended
            job = self.cluster.submit(f"{self.script}; sleep {seconds}")
            self.assert_whole(Follower("job", "logs", "--address", self.cluster.address, "-f", job,
                                       actions=[self.cluster.restart_head]).read(), 1)

    def test_the_log_of_an_actor_whose_head_is_killed(self):
        with subprocess.Popen([PROGRAM, str(LINES)], env=dict(os.environ,
                                                              CRT_ADDRESS=self.cluster.address),
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
            self.assertEqual(program.stdout.readline(), b"ready\n")
            follower = Follower("logs", "--address", self.cluster.address, "-f", "printer",
                                actions=[self.cluster.restart_head])
            program.stdin.write(b"\n")
            program.stdin.flush()
            self.assert_whole(follower.read(), 1)
            program.stdin.close()
            program.stdout.read()
            self.assertEqual(program.wait(PATIENCE), 0)
        self.assert_whole(Follower("logs", "--address", self.cluster.address, "printer").read(),
                          0)  # a dead actor keeps its name


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
