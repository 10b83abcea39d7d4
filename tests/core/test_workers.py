#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers as processes: no line that they write is lost at the end, they have nobody's descriptors,
what they start ends with the job, they wait for a debugger, and a driver says when it lost its
node. Usage: test_workers.py CRT WORKER_PROGRAM"""
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

CRT, PROGRAM = map(os.path.abspath, sys.argv[1:3])
PATIENCE = 120


def run(*command, code=0, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=PATIENCE, check=False, **more)
    if done.returncode != code:
        raise AssertionError((command, done.returncode, done.stdout))
    return done.stdout


def sleeps(seconds):
    """Processes `sleep SECONDS`."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found += [pid] if file.read() == b"sleep\0" + seconds.encode() + b"\0" else []
        except OSError:
            pass
    return found


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("too late")
        time.sleep(0.02)


class Workers(unittest.TestCase):
    def expect_lines(self, said, count):
        self.assertEqual(sorted(int(line) for line in re.findall(r"\) line (\d+)$", said, re.M)),
                         list(range(count)), said)

    def test_lines_by_write_are_shown_before_a_private_cluster_ends(self):
        for _ in range(15):
            self.expect_lines(run(PROGRAM, "write", "3"), 3)

    def test_lines_by_write_on_other_nodes_are_shown_before_the_driver_ends(self):
        for _ in range(5):
            self.expect_lines(
                run(CRT, "run", "--nodes", "3", "--num-cpus", "2", "--object-store-memory", "50M",
                    "--", PROGRAM, "write", "12"), 12)

    def test_a_worker_has_no_descriptors_of_its_driver(self):
        count = int(re.search(r"(\d+) descriptors", run(PROGRAM, "files"))[1])
        self.assertLess(count, 40)

    def test_what_a_task_starts_in_a_session_of_its_own_ends_with_the_job(self):
        said = run(CRT, "start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus",
                   "2", "--object-store-memory", "50M")
        address = re.search(r"--address (\S+) --key-file", said)[1]
        self.addCleanup(run, CRT, "stop", "--address", address)
        seconds = str(90000 + os.getpid())
        with subprocess.Popen([PROGRAM, "session", seconds], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True,
                              env=dict(os.environ, CRT_ADDRESS=address)) as driver:
            for line in driver.stdout:
                if line == "started\n":
                    break
            wait_until(lambda: len(sleeps(seconds)) == 1)
            driver.communicate("\n", timeout=PATIENCE)
        wait_until(lambda: not sleeps(seconds))

    @unittest.skipUnless(shutil.which("gdb"), "no gdb here")
    def test_a_worker_waits_for_gdb_before_its_first_call(self):
        with subprocess.Popen([PROGRAM, "debug"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env=dict(os.environ,
                                                  CRT_DEBUG_WORKER="Counter")) as driver:
            for line in driver.stdout:
                found = re.search(r"Counter waits for a debugger: gdb -p (\d+)", line)
                if found:
                    break
            said = run("gdb", "-p", found[1], "-batch", "-ex", "break counter_add", "-ex",
                       "continue", "-ex", "backtrace", "-ex", "delete", "-ex", "detach")
            self.assertRegex(said, r"Breakpoint 1, .*counter_add")
            self.assertIn("counted to 3", driver.communicate(timeout=PATIENCE)[0])

    def test_a_worker_that_waits_goes_on_without_a_debugger(self):
        with subprocess.Popen([PROGRAM, "debug"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env=dict(os.environ,
                                                  CRT_DEBUG_WORKER="Counter.add")) as driver:
            for line in driver.stdout:
                found = re.search(r"Counter.add waits for a debugger: gdb -p (\d+)", line)
                if found:
                    break
            os.kill(int(found[1]), signal.SIGCONT)
            self.assertIn("counted to 3", driver.communicate(timeout=PATIENCE)[0])

    def test_a_driver_says_when_it_lost_its_node(self):
        with subprocess.Popen([PROGRAM, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as driver:
            for line in driver.stdout:
                if line == "counted to 3\n":
                    break
            with open(f"/proc/{driver.pid}/task/{driver.pid}/children",
                      encoding="ascii") as children:
                for child in children.read().split():
                    with open(f"/proc/{child}/comm", encoding="ascii") as name:
                        if name.read() == "crt-node\n":
                            os.kill(int(child), signal.SIGKILL)
            said = ""
            for line in driver.stdout:
                said += line
                if "has ended" in line:
                    break
            self.assertRegex(
                said,
                r"node [0-9a-f]{8} \(127\.0\.0\.1\), by which this driver was in the cluster, has "
                "ended"
            )
            told = driver.communicate("\n", timeout=PATIENCE)[0]
            self.assertIn("by crt_shutdown and crt_init", told)

    def test_a_driver_that_lost_its_node_joins_another_one_of_the_host(self):
        said = run(CRT, "start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus",
                   "1", "--object-store-memory", "50M")
        address, key = re.search(r"--address (\S+) --key-file (\S+)", said).groups()
        self.addCleanup(run, CRT, "stop", "--address", address)
        run(CRT, "start", "--address", address, "--key-file", key, "--num-cpus", "1",
            "--object-store-memory", "50M")
        with subprocess.Popen([PROGRAM, "rejoin"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True,
                              env=dict(os.environ, CRT_ADDRESS=address)) as driver:
            said = ""
            for line in driver.stdout:
                said += line
                if line == "counted to 3\n":
                    break
            first = re.search(r"^node (\S+)$", said, re.M)[1]
            with open(os.path.join(os.environ["CRT_RUN_DIR"], f"node-{first[:8]}", "node.info"),
                      encoding="utf-8") as info:
                os.kill(int(re.search(r"^pid (\d+)$", info.read(), re.M)[1]), signal.SIGKILL)
            ended = (f"node {first[:8]} (127.0.0.1), by which this driver was in the cluster, "
                     "has ended")
            for line in driver.stdout:
                if ended in line:
                    break
            told = driver.communicate("\n", timeout=PATIENCE)[0]
            self.assertEqual(driver.returncode, 0, told)
            self.assertNotEqual(re.search(r"^node (\S+)$", told, re.M)[1], first)
            self.assertIn("counted to 3\n", told)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
