#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cluster of a program by one option: nodes of this host, an address, a cluster file by real
ssh, and a Slurm whose srun is a stand-in (test_slurm.py has a real one).
Usage: test_contexts.py CRT PROGRAM"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import test_up
from real_cluster import free_port, until

CRT, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
PATIENCE = 120
ADDRESSES = ("address", "node", "node_ip", "http", "object_store", "control_store", "run_dir",
             "head_dir", "state_dir", "key_file")
OWN = ("CRT_ADDRESS", "CRT_KEY_FILE", "CRT_NODE_DIR", "CRT_JOB", "CRT_CONTEXT", "CRT_RUN_DIR",
       "CRT_STATE_DIR")


class Host:
    """Run and state directories, as another host has them."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="crt-c-")
        self.run, self.state = self.path("r"), self.path("s")
        self.environment = {k: v for k, v in os.environ.items() if k not in OWN} | {
            "CRT_RUN_DIR": self.run, "CRT_STATE_DIR": self.state}

    def path(self, name):
        return os.path.join(self.folder, name)

    def execute(self, *command, code=0, **more):
        done = subprocess.run(command, text=True, timeout=PATIENCE, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env=self.environment | more)
        if done.returncode != code:
            raise AssertionError((command, done.returncode, done.stdout))
        return done.stdout

    def program(self, cluster, *arguments, code=0, **more):
        return self.execute(PROGRAM, "--cluster", cluster, *arguments, code=code, **more)

    def left(self):
        """Directories of daemons."""
        return glob.glob(self.run + "/*-*")

    def processes(self):
        """Those that have a run directory of this host in their environment or arguments."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/environ", "rb") as file:
                    text = file.read()
            except OSError:
                continue
            if f"CRT_RUN_DIR={self.run}".encode() in text.split(b"\0"):
                found.append(int(entry))
        return found

    def end(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def addresses(said):
    return dict(re.findall(r"^(\w+) (.*)$", said, re.MULTILINE))


class Here(unittest.TestCase):
    """On this host."""

    def setUp(self):
        self.host = Host()
        self.addCleanup(self.host.end)

    def assert_nothing_is_left(self):
        until("no process is left", lambda: not self.host.processes())
        self.assertEqual(self.host.left(), [])

    def start_head(self, host=None):
        host = host or self.host
        said = host.execute(CRT, "start", "--head", "--port", "0", "--dashboard-port", "0",
                            "--num-cpus", "2", "--object-store-memory", "64M")
        self.addCleanup(host.execute, CRT, "stop")
        return re.search(r"--address (\S+) --key-file (\S+)", said).groups()

    def test_local_nodes_run_the_program_and_end_with_it(self):
        said = self.host.program("local:3x1")
        info = addresses(said)
        self.assertEqual(info["nodes"], "3", said)
        self.assertEqual(set(ADDRESSES) - set(info), set())
        self.assertRegex(info["address"], r"^127\.0\.0\.1:\d+$")
        self.assertRegex(info["http"], r"^http://127\.0\.0\.1:\d+")
        self.assertTrue(info["object_store"].startswith(info["run_dir"]), said)
        self.assertTrue(info["control_store"].startswith(info["head_dir"]), said)
        self.assert_nothing_is_left()
        self.assertEqual(addresses(self.host.program("local"))["nodes"], "1")
        self.host.program("local:2", "fail", code=7)
        self.assert_nothing_is_left()

    def test_each_of_more_nodes_than_cpus_can_run_a_task(self):
        self.assertEqual(addresses(self.host.program("local:4", "few"))["nodes"], "4")

    def test_addresses_are_those_that_crt_status_tells(self):
        address, key_file = self.start_head()
        told = json.loads(self.host.execute(CRT, "status", "--json"))["addresses"]
        info = addresses(self.host.program(address))
        self.assertEqual(info["key_file"], key_file)
        self.assertEqual({name: told[name] for name in ADDRESSES},
                         {name: info[name] for name in ADDRESSES})
        self.assertTrue(os.path.exists(told["object_store"]))
        self.assertTrue(os.path.exists(told["control_store"]))

    def test_jobs_can_be_submitted_to_a_local_cluster(self):
        """What is uploaded by its dashboard lies where its node looks for it."""
        with subprocess.Popen([PROGRAM, "--cluster", "local:2", "wait"], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env=self.host.environment) as run:
            said = ""
            while "nodes 2" not in said:
                line = run.stdout.readline()
                self.assertTrue(line, said)
                said += line
            submit = [CRT, "job", "submit", "--address", addresses(said)["address"]]
            self.assertIn("a program\n", self.host.execute(*submit, "--", "/bin/echo", "a program"))
            os.makedirs(self.host.path("folder"))
            with open(self.host.path("folder/data"), "w", encoding="utf-8") as file:
                file.write("of the folder\n")
            self.assertIn("of the folder\n", self.host.execute(
                *submit, "--working-dir", self.host.path("folder"), "--", "/bin/cat", "data"))
            run.stdin.close()
        self.assertEqual(run.returncode, 0)
        self.assert_nothing_is_left()

    def test_a_killed_program_leaves_no_process(self):
        with subprocess.Popen([PROGRAM, "--cluster", "local:2", "wait"], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env=self.host.environment) as run:
            for line in run.stdout:
                if line.startswith("nodes "):
                    break
            self.assertGreater(len(self.host.processes()), 4)
            run.kill()
        self.assert_nothing_is_left()

    def test_a_program_that_exits_in_the_middle_leaves_nothing(self):
        self.host.program("local:2", "leave")
        self.assert_nothing_is_left()

    def test_a_second_start_finds_the_first_and_a_stop_ends_all(self):
        said = self.host.program("local:2", "twice").splitlines()
        self.assertEqual(said[0], "info_before CRT_ERR_NOT_FOUND")
        self.assertEqual(said[-1], "info_after CRT_ERR_NOT_FOUND")
        for line, count in (("start CRT_OK", 2), ("again CRT_OK", 2), ("any CRT_OK", 2),
                            ("other CRT_ERR_EXISTS", 2), ("nodes 2", 2), ("stop CRT_OK", 2),
                            ("stopped CRT_OK", 2)):
            self.assertEqual(said.count(line), count, (line, said))
        self.assert_nothing_is_left()

    def test_an_address_is_joined_by_its_node_here(self):
        address, _ = self.start_head()
        self.assertEqual(addresses(self.host.program(address))["address"], address)
        self.assertEqual(addresses(self.host.execute(PROGRAM))["address"], address)

    def test_a_host_without_a_node_joins_for_the_program_with_the_key(self):
        address, key_file = self.start_head()
        other = Host()
        self.addCleanup(other.end)
        said = other.program(address, code=1)
        self.assertIn(f"crt: no node of the cluster {address} runs on this host", said)
        self.assertIn("CRT_KEY_FILE", said)
        info = addresses(other.program(address, CRT_KEY_FILE=key_file))
        self.assertEqual((info["address"], info["nodes"]), (address, "2"))
        self.assertTrue(info["run_dir"].startswith(other.run))
        until("its node has left", lambda: not other.processes())
        self.assertEqual(other.left(), [])

    def test_kubernetes_is_the_service_of_the_head_with_the_mounted_key(self):
        address, key_file = self.start_head()
        other = Host()
        self.addCleanup(other.end)
        pod = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "CRT_KEY_FILE": key_file}
        port = {"LOCALHOST_SERVICE_PORT": address.rsplit(":", 1)[1]} # a name that resolves
        info = addresses(other.program("kubernetes:localhost", **pod, **port))
        self.assertEqual(info["nodes"], "2")
        self.assertTrue(info["run_dir"].startswith(other.run))
        self.assertIn("this is no pod of Kubernetes", other.program("kubernetes", code=1))
        self.assertIn("CRT_KEY_FILE is not set: mount the Secret",
                      other.program("kubernetes", code=1, KUBERNETES_SERVICE_HOST="10.96.0.1"))
        for text, name in (("kubernetes", "crt-head"), ("kubernetes:h.nowhere", "h.nowhere")):
            said = other.program(text, code=1, **pod)
            self.assertIn(f"crt: no Service of Kubernetes is at {name}:6380 (", said)
            self.assertEqual(said.count("\n"), 1, said)
        until("its node has left", lambda: not other.processes())
        self.assertEqual(other.left(), [])

    def test_a_dead_address_is_told(self):
        key_file = self.host.path("key")
        with open(key_file, "w", encoding="ascii") as file:
            file.write("ab" * 32 + "\n")
        os.chmod(key_file, 0o600)
        dead = f"127.0.0.1:{free_port()}"
        said = self.host.program(dead, code=1, CRT_KEY_FILE=key_file)
        self.assertRegex(said, rf"crt: .*{dead}.*\n")
        self.assertEqual(said.count("\n"), 1, said)
        self.assert_nothing_is_left()

    def test_the_key_of_another_cluster_is_refused(self):
        address, _ = self.start_head()
        key_file = self.host.path("key")
        with open(key_file, "w", encoding="ascii") as file:
            file.write("ab" * 32 + "\n")
        os.chmod(key_file, 0o600)
        said = self.host.program(address, code=1, CRT_KEY_FILE=key_file)
        self.assertIn("is not the key of the cluster", said)

    def test_what_is_no_cluster_is_refused_and_starts_nothing(self):
        for text in ("yarn:4", "", "local:0", "local:65"):
            said = self.host.program(text, code=1)
            self.assertIn(f'crt: "{text}" is no cluster: give local', said)
        said = self.host.execute(PROGRAM, "--cluster", code=1)
        self.assertIn('crt: "" is no cluster', said)
        self.assertIn("crt: can't read the cluster file nowhere.yaml: No such file",
                      self.host.program("file:nowhere.yaml", code=1))
        self.assertIn("crt: srun is not in PATH: this is no host of Slurm",
                      self.host.program("slurm:2", code=1, PATH="/nowhere"))
        self.assert_nothing_is_left()

    def test_a_program_that_a_cluster_has_started_stays_in_it(self):
        said = self.host.execute(CRT, "run", "--nodes", "2", "--", PROGRAM, "--cluster", "local:4")
        self.assertEqual(addresses(said)["nodes"], "2", said)
        said = self.host.execute(CRT, "run", "--nodes", "2", "--", PROGRAM, "--cluster", "yarn:4",
                                 code=1)
        self.assertIn("is no cluster", said)
        self.assert_nothing_is_left()

    def test_slurm_runs_the_program_on_the_first_node_of_a_job(self):
        os.mkdir(self.host.path("bin"))
        srun = self.host.path("bin/srun")
        with open(srun, "w", encoding="ascii") as file:
            file.write(f"""#!/bin/sh
echo "$@" >{self.host.path("given")}
while test "$2" != slurm-node; do shift; done
SLURM_JOB_ID=1 SLURM_NODEID=0 SLURM_STEP_NUM_NODES=1 SLURM_CPUS_ON_NODE=2 exec "$@"
""")
        os.chmod(srun, 0o755)
        path = f"{self.host.path('bin')}:{os.environ['PATH']}"
        info = addresses(self.host.program("slurm:1", PATH=path))
        self.assertEqual(info["nodes"], "1")
        with open(self.host.path("given"), encoding="ascii") as file:
            self.assertIn(" -N 1 ", file.read())
        self.host.program("slurm", "fail", code=7, PATH=path)
        with open(self.host.path("given"), encoding="ascii") as file:
            self.assertNotIn(" -N ", file.read())
        self.assert_nothing_is_left()


@unittest.skipUnless(test_up.SSHD, "no sshd: apt-get install openssh-server")
class ByFile(unittest.TestCase):
    """Hosts that ssh reaches."""

    def setUp(self):
        self.lab = test_up.Lab(2)
        self.addCleanup(self.lab.end)
        self.host = Host()
        self.addCleanup(self.host.end)
        self.file = self.lab.file(hosts="[n1]")
        self.addCleanup(test_up.crt, "down", self.file, code=None)

    def test_a_program_runs_on_the_head_of_a_cluster_file(self):
        info = addresses(self.host.program(f"file:{self.file}"))
        self.assertEqual(info["nodes"], "2")
        self.assertEqual(info["address"], f"127.0.0.1:{self.lab.head_port}")
        self.assertTrue(info["run_dir"].startswith(self.lab.hosts[0].run))
        self.assertEqual(self.host.left(), [])
        said = self.host.program(f"file:{self.file}", "fail", code=7)
        self.assertIn("runs already", said)

    def test_a_cluster_that_does_not_come_up_is_told(self):
        file = self.lab.file(hosts="[nowhere]")
        self.addCleanup(test_up.crt, "down", file, code=None)
        said = self.host.program(f"file:{file}", code=1)
        self.assertIn("nowhere: failed: ", said)
        self.assertIn(f"crt: the cluster of {file} does not run: crt up has failed", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
