#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Configuration files: what counts, and what is told of a mistake. Real daemons.
Usage: test_config.py CRT"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

CRT = os.path.abspath(sys.argv[1])
PATIENCE = 100


class Config(unittest.TestCase):
    """`self.home` has a file of the user's; CRT_CONFIG names another one where a test sets it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = folder.name
        self.environment = {name: value for name, value in os.environ.items()
                            if name not in ("CRT_CONFIG", "XDG_CONFIG_HOME")}
        self.environment["HOME"] = self.home

    def write(self, text, name=".config/crt/crt.conf", mode=0o644):
        path = os.path.join(self.home, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def crt(self, *arguments, code=0, **environment):
        done = subprocess.run([CRT, *arguments], text=True, timeout=PATIENCE, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=self.environment | environment)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def test_an_option_counts_before_the_environment_and_that_before_the_file(self):
        self.write("# mine\n[start]\nnum-cpus = 3\n  labels=zone=eu\nhead = yes\nport = 0\n"
                   "dashboard-port = 0\nobject-store-memory = 50M\n\n"
                   "[status]\njson = yes\naddress = 10.9.9.9:1\n"
                   "[environment]\nCRT_LOG = debug\nCRT_MEMORY_LIMIT = 90\n")
        said = self.crt("start", "--num-cpus", "2")
        address = re.search(r"--address (\S+) --key-file", said)[1]
        self.addCleanup(self.crt, "stop", "--address", address)
        self.assertIn("10.9.9.9:1", self.crt("status", code=1))
        for given in ({"CRT_ADDRESS": address}, {}):
            words = () if given else ("--address", address)
            node = json.loads(self.crt("status", *words, **given))["cluster"]["nodes"][0]
            self.assertEqual(node["resources_total"]["CPU"], 2)
            self.assertEqual(node["labels"], "zone=eu")
        with open(f"/proc/{node['pid']}/environ", "rb") as file:
            self.assertIn(b"CRT_MEMORY_LIMIT=90", file.read().split(b"\0"))

    def test_what_counts_and_where_it_comes_from_is_shown(self):
        first = self.write("[start]\nnum-cpus = 4\n[environment]\nCRT_LOG=trace\n", "a.conf")
        second = self.write("[start]\nnum-cpus = 5\nkey-file = /k\n", "b.conf")
        said = self.crt("config", CRT_CONFIG=f"{first}:{second}:/nowhere/c.conf", CRT_LOG="info",
                        CRT_KEY_FILE="/other")
        rows = [re.split(r"\s{2,}", row.strip())
                for row in said.split("\n\n", maxsplit=1)[0].splitlines()[1:]]
        self.assertEqual(rows, [
            ["start", "num-cpus", "4", f"{first}:2", "no: a later file"],
            ["environment", "CRT_LOG", "trace", f"{first}:4", "no: CRT_LOG is set"],
            ["start", "num-cpus", "5", f"{second}:2", "yes"],
            ["start", "key-file", "/k", f"{second}:3", "no: CRT_KEY_FILE is set"]
        ])
        self.assertIn("No configuration file has a setting", self.crt("config", CRT_CONFIG=""))

    def limits(self, *words, **environment):
        """{name: [value, from, range, obeyed by]} that is shown."""
        said = self.crt("config", *words, **environment)
        table = said if words else said.split("\n\n")[1]
        return {cells[0]: cells[1:5] for cells in
                (re.split(r"\s{2,}", row.strip()) for row in table.splitlines()[1:])}

    def test_limits_are_shown_with_where_they_come_from(self):
        path = self.write("[limits]\nheartbeat_timeout = 1.5m\nlog_limit = 1K\n"
                          "tell_waits = 3\n[environment]\nCRT_ENDED_JOBS = 7\n")
        limits = self.limits(CRT_LOG_LIMIT="2048", CRT_LEASE_DEPTH="5")
        self.assertEqual(limits, {
            "heartbeat_timeout": ["90s", f"{path}:2", "1s to 1h", "cluster"],
            "log_limit": ["2K", "environment", "1K to 1024T", "node"],
            "tell_waits": ["3s", f"{path}:4", "0 to 1000000s", "program"],
            "ended_jobs": ["7", f"{path}:6", "1 to 1000000", "head"],
            "lease_depth": ["5", "environment", "1 to 100000", "program"]})
        every = self.limits("--limits")
        self.assertGreater(len(every), 60)
        self.assertEqual(every["session_timeout"], ["30s", "default", "1s to 1h", "cluster"])
        self.assertEqual(every["heartbeat_timeout"], limits["heartbeat_timeout"])
        self.assertIn("All limits have their defaults", self.crt("config", CRT_CONFIG=""))

    def test_a_wrong_limit_of_the_environment_is_told_and_the_table_printed(self):
        said = self.crt("config", "--limits", code=1, CRT_LEASE_DEPTH="many")
        self.assertIn("CRT_LEASE_DEPTH=many: a whole number from 1 to 100000 is needed", said)
        self.assertIn("session_timeout", said)

    def test_a_limit_of_a_file_reaches_the_daemons(self):
        self.write("[limits]\nmemory_limit = 91\n[start]\nhead = yes\nport = 0\n"
                   "dashboard-port = 0\nobject-store-memory = 50M\n")
        said = self.crt("start")
        address = re.search(r"--address (\S+) --key-file", said)[1]
        self.addCleanup(self.crt, "stop", "--address", address)
        node = json.loads(self.crt("status", "--json", "--address", address))["cluster"]["nodes"][0]
        with open(f"/proc/{node['pid']}/environ", "rb") as file:
            self.assertIn(b"CRT_MEMORY_LIMIT=91", file.read().split(b"\0"))

    def test_a_mistake_is_told_with_its_file_and_line(self):
        for text, command, part in (
            ("[strat]\n", "version", ":1: there is no command \"strat\""),
            ("num-cpus = 4\n", "version", ":1: a setting needs its section"),
            ("[start]\n\nnum-cpus\n", "version", ":3: a setting is NAME = VALUE"),
            ("[start\n", "version", ":1: a section is [COMMAND]"),
            ("[limits]\nheartbeat_timeot = 5s\n", "version",
             ":2: there is no limit \"heartbeat_timeot\"; the nearest one is heartbeat_timeout"),
            ("[limits]\nheartbeat_timeout = 2h\n", "version",
             ":2: heartbeat_timeout=2h: a time from 1s to 1h is needed"),
            ("[start]\nnum-cpu = 4\n", "start", ":2: there is no option --num-cpu; the nearest one "
             "is --num-cpus"),
            ("[start]\nhead = true\n", "start", ":2: head takes yes or no, not \"true\""),
            ("[start]\nport = 70000\n", "start", ":2: port takes a port from 0 to 65535"),
            ("[environment]\nA=B=C\n=x\n", "version", ":3: a setting is NAME = VALUE"),
            ("[start]\nx = " + "y" * 5000 + "\n", "version", ":2: the line is too long"),
            ("[start]\n" + "num-cpus = 1\n" * 1001, "version", ":1002: more than 1000 settings"),
        ):
            with self.subTest(text[:30]):
                path = self.write(text)
                self.assertIn(path + part, self.crt(command, code=2))

    def test_a_file_that_others_may_write_is_refused(self):
        path = self.write("[start]\nnum-cpus = 4\n", mode=0o664)
        self.assertIn(f"{path} is not obeyed: others than you can write it",
                      self.crt("version", code=2))
        os.remove(path)
        os.mkdir(path)
        self.assertIn("Is a directory", self.crt("version", code=2))

    def test_settings_of_one_command_are_none_of_another_one(self):
        self.write("[job submit]\nno-wait = yes\n[job list]\nno-such = 1\n")
        self.crt("version")
        self.assertIn("there is no option --no-such", self.crt("job", "list", code=2))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
