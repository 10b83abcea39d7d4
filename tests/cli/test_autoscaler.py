#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster that grows and shrinks with its work: nodes of this host, and machines of three
commands that fail, hang and lie. Real daemons. Usage: test_autoscaler.py CRT PROGRAM"""
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
import unittest
import unittest.mock

from autoscaled import Autoscaled

CRT, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
PATIENCE = 120
IDLE_S = 2


def alive(pid):
    """Not a zombie, whose parent may be the test's own."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Cluster(Autoscaled):
    CRT, PATIENCE = CRT, PATIENCE

    def start_local(self, **more):
        types = {"min": 0, "max": 4, "num-cpus": 2, "object-store-memory": "64M", **more}
        self.start(f"provider: local\nidle-timeout: {IDLE_S}s\nnode-types:\n  small:\n" +
                   "".join(f"    {key}: {value}\n" for key, value in types.items()))

    def decisions(self):
        return [d["message"] for d in self.state()["autoscaler"]["decisions"]]

    def run_program(self, *arguments):
        process = subprocess.Popen([PROGRAM, *arguments], text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env=dict(os.environ, CRT_ADDRESS=self.address))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def read(self, process, pattern):
        """The line that matches, of what it says."""
        said = ""
        for line in process.stdout:
            said += line
            if re.search(pattern, line):
                return line
        self.fail(f"{pattern} was not said, but: {said}")


class Local(Cluster):
    def test_a_cluster_grows_from_none_to_four_nodes_and_shrinks_to_none(self):
        self.start_local()
        self.assertEqual(self.nodes(), [])
        process = self.run_program("tasks", "50", "0.3")
        self.until("4 nodes are there", lambda: len(self.nodes()) == 4)
        said = self.read(process, "^done")
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertRegex(said, r"^done 50 on [1-4] nodes")
        self.until("no node is left", lambda: not self.nodes())
        self.until("all ended", lambda: len(self.nodes("DEAD")) == 4)
        said = "\n".join(self.decisions())
        self.assertIn("of type small: no room for", said)
        self.assertIn("is drained and ends: idle for 2 s", said)
        self.assertNotIn("is gone", said)
        events = self.crt("list", "cluster-events", "--address", self.address)
        self.assertIn("AUTOSCALER", events)
        self.assertIn("Autoscaler", self.crt("status", "--address", self.address))

    def test_the_min_is_there_and_stays_and_the_dead_are_replaced(self):
        self.start_local(min=2)
        nodes = self.until("2 nodes", lambda: len(self.nodes()) == 2 and self.nodes())
        os.kill(nodes[0]["pid"], signal.SIGKILL)
        self.until("another one", lambda: {n["node_id"] for n in self.nodes()} >
                   {nodes[1]["node_id"]} and nodes[0]["node_id"] not in
                   {n["node_id"] for n in self.nodes()})
        time.sleep(IDLE_S + 1) # they would have gone by now
        self.assertEqual(len(self.nodes()), 2)

    def test_work_goes_on_when_its_nodes_are_killed(self):
        self.start_local()
        process = self.run_program("tasks", "40", "0.5")
        for _ in range(3):
            victim = self.until("a node", self.nodes)[0]
            os.kill(victim["pid"], signal.SIGKILL)
            self.until("it is gone", lambda victim=victim: victim["node_id"] not in
                       {n["node_id"] for n in self.nodes()})
        self.assertRegex(self.read(process, "^done"), r"^done 40 ")
        self.assertEqual(process.wait(PATIENCE), 0)

    def test_a_training_goes_on_with_new_nodes_when_its_own_are_killed(self):
        self.start_local(**{"num-cpus": 1})
        process = self.run_program("train", "3", "200")
        gone = set()
        for step in (20, 60):
            self.read(process, f"^step {step}$")
            victim = self.nodes()[0]
            gone.add(victim["node_id"])
            os.kill(victim["pid"], signal.SIGKILL)
        self.assertEqual(self.read(process, "^weight").strip(), "weight 3.000")
        self.assertEqual(process.wait(PATIENCE), 0)
        said = "\n".join(self.decisions())
        self.assertEqual(said.count("another one comes if it is needed"), 2)
        self.assertFalse(gone & {n["node_id"] for n in self.nodes()})

    def test_a_gang_gets_all_its_nodes_or_none(self):
        self.start_local()
        process = self.run_program("gang", "3", "2")
        self.read(process, "^reserved")
        self.assertEqual(len(self.nodes()), 3)
        time.sleep(IDLE_S + 1) # what is reserved is not idle
        self.assertEqual(len(self.nodes()), 3)
        process.communicate("\n", timeout=PATIENCE)
        self.until("no node is left", lambda: not self.nodes())
        process = self.run_program("gang", "5", "2")
        self.until("it is told that there is no room", lambda: "as many nodes of type small as" in
                   self.state()["autoscaler"]["waits"])
        self.assertEqual(self.nodes(), [])

    def test_what_is_asked_for_is_there_as_long_as_its_program(self):
        self.start_local()
        process = self.run_program("request", "3", "2")
        self.read(process, "^asked")
        self.until("3 nodes", lambda: len(self.nodes()) == 3)
        time.sleep(IDLE_S + 1)
        self.assertEqual(len(self.nodes()), 3)
        process.communicate("\n", timeout=PATIENCE)
        self.until("no node is left", lambda: not self.nodes())
        self.assertIn("room for 2 bundles",
                      self.crt("request", "--address", self.address, "2*CPU=2"))
        self.until("2 nodes", lambda: len(self.nodes()) == 2)
        self.crt("request", "--address", self.address, "--none")
        self.until("no node is left", lambda: not self.nodes())

    def test_crt_down_hears_of_the_nodes_that_ended_before_it(self):
        of_cluster = os.path.join(os.environ["CRT_STATE_DIR"], "up", "lab")
        os.makedirs(of_cluster, 0o700)
        self.addCleanup(shutil.rmtree, of_cluster)
        with unittest.mock.patch.dict(os.environ, CRT_UP="lab"):
            self.start_local()
        self.crt("request", "--address", self.address, "CPU=2")
        node = self.until("a node", self.nodes)[0]["node_id"]
        self.crt("request", "--address", self.address, "--none")
        ended = os.path.join(of_cluster, "ended")
        self.until("its name is there", lambda: os.path.exists(ended))
        with open(ended, encoding="ascii") as names:
            self.assertEqual(names.read(), f"node-{node[:8]}\n")

    def test_what_no_node_type_has_is_told_and_starts_nothing(self):
        self.start_local()
        self.crt("request", "--address", self.address, "CPU=64")
        self.until("it is told", lambda: "no node type has that" in
                   self.state()["autoscaler"]["waits"])
        time.sleep(1)
        self.assertEqual(self.nodes(), [])

    def test_a_head_that_is_started_again_knows_its_nodes(self):
        self.start_local(min=1)
        node = self.until("a node", self.nodes)[0]
        self.start_again()
        self.until("its node is back", lambda: [n["node_id"] for n in self.nodes()] ==
                   [node["node_id"]])
        time.sleep(IDLE_S)
        self.assertEqual([n["node_id"] for n in self.nodes()], [node["node_id"]])

    def test_what_was_asked_for_is_served_by_a_head_that_is_started_again(self):
        self.start_local()
        self.crt("request", "--address", self.address, "2*CPU=2")
        process = self.run_program("request", "1", "1")
        self.read(process, "^asked")
        self.until("3 nodes", lambda: len(self.nodes()) == 3)
        self.start_again()
        requested = [(r["count"], r["resources"]) for r in
                     self.state()["autoscaler"]["requested"]]
        self.assertEqual(sorted(requested), [(1, "1 CPU"), (2, "2 CPU")])
        victim = self.until("they are back", lambda: len(self.nodes()) == 3 and self.nodes())[0]
        os.kill(victim["pid"], signal.SIGKILL)
        ids = lambda: {n["node_id"] for n in self.nodes()}
        self.until("another one", lambda: len(ids() - {victim["node_id"]}) == 3)
        time.sleep(IDLE_S + 1) # they would have gone by now
        self.assertEqual(len(self.nodes()), 3)
        process.communicate("\n", timeout=PATIENCE)
        self.until("its request ended with it",
                   lambda: len(self.state()["autoscaler"]["requested"]) == 1)
        self.until("2 nodes", lambda: len(self.nodes()) == 2)
        self.crt("request", "--address", self.address, "--none")
        self.until("no node is left", lambda: not self.nodes())


class Commands(Cluster):
    """Machines are folders; a node is started there as a machine that boots would."""

    ASK = """#!/bin/sh
env | grep '^CRT_' >"$MACHINES/env-ask"
mode=$(cat "$MACHINES/mode")
case $mode in
    fail) echo "no machines today" >&2; exit 3;;
    hang) trap '' TERM; echo $$ >"$MACHINES/hung"; while :; do sleep 1; done;;
esac
mkdir "$MACHINES/$CRT_INSTANCE" || exit 1
test $mode = lie && exit 0
setsid "$CRT" start --address "$CRT_ADDRESS" --key-file "$CRT_KEY_FILE" \\
    $CRT_NODE_OPTIONS >"$MACHINES/$CRT_INSTANCE/log" 2>&1 &
"""
    LIST = """#!/bin/sh
cd "$MACHINES" && ls -d *-*-* 2>/dev/null
test "$(cat mode)" = lie && echo small-made-up-by-somebody
exit 0
"""
    END = """#!/bin/sh
test "$(cat "$MACHINES/mode")" = stuck && exit 1
rm -rf "$MACHINES/$CRT_INSTANCE"
test -n "$CRT_NODE" && "$CRT" stop --address "$CRT_ADDRESS" --node "$CRT_NODE" --force
exit 0
"""

    def start_commands(self, mode, **more):
        machines = self.path("machines")
        os.mkdir(machines)
        self.machines = machines
        self.mode(mode)
        commands = {}
        for name, text in (("ask", self.ASK), ("list", self.LIST), ("end", self.END)):
            script = self.write(name, text, 0o700)
            commands[name] = f"export MACHINES={shlex.quote(machines)} CRT={shlex.quote(CRT)}; " \
                             f"exec {shlex.quote(script)}"
        rules = {"idle-timeout": "2s", "start-timeout": "20s", "command-timeout": "3s", **more}
        self.start("provider:\n" + "".join(f"  {k}: {json.dumps(v)}\n"
                                           for k, v in commands.items()) +
                   "".join(f"{k}: {v}\n" for k, v in rules.items()) +
                   "node-types:\n  small: {max: 2, num-cpus: 2, object-store-memory: 64M}\n")

    def mode(self, mode):
        path = self.write("machines/mode.new", mode)
        os.rename(path, os.path.join(self.machines, "mode"))

    def machines_now(self):
        return [name for name in os.listdir(self.machines) if name.startswith("small-")]

    def type_state(self):
        return self.state()["autoscaler"]["node_types"][0]

    def test_machines_of_commands_come_and_go(self):
        self.start_commands("well")
        process = self.run_program("tasks", "10", "0.2")
        self.assertRegex(self.read(process, "^done"), "^done 10 ")
        self.until("no node is left", lambda: not self.nodes())
        self.until("no machine is left", lambda: not self.machines_now())
        with open(os.path.join(self.machines, "env-ask"), encoding="utf-8") as file:
            given = file.read()
        self.assertIn(f"CRT_KEY_FILE={self.key}", given)
        self.assertEqual(stat.S_IMODE(os.stat(self.key).st_mode), 0o600)
        with open(self.key, encoding="ascii", errors="replace") as file:
            secret = file.read().strip()
        log = os.path.join(os.path.dirname(self.key), "scaler.log")
        with open(log, encoding="utf-8", errors="replace") as file:
            given += file.read()
        given += json.dumps(self.state())
        for hidden in (secret, self.token):
            self.assertGreater(len(hidden), 16)
            self.assertNotIn(hidden, given)

    def test_a_provider_that_fails_is_asked_again_later_and_says_why(self):
        self.start_commands("fail")
        process = self.run_program("tasks", "2", "0.1")
        self.until("two failures", lambda: self.type_state()["failures"] >= 2)
        self.assertIn("no machines today", self.type_state()["message"])
        self.assertIn("no machines today", self.crt("status", "--address", self.address))
        self.mode("well")
        self.assertRegex(self.read(process, "^done"), "^done 2 ")

    def test_a_provider_that_hangs_holds_up_nobody_and_is_ended(self):
        self.start_commands("hang")
        process = self.run_program("tasks", "2", "0.1")
        self.until("it hangs", lambda: os.path.exists(os.path.join(self.machines, "hung")))
        begin = time.monotonic()
        self.crt("status", "--address", self.address)
        self.assertLess(time.monotonic() - begin, 20)
        with open(os.path.join(self.machines, "hung"), encoding="ascii") as file:
            pid = int(file.read())
        self.until("it is killed", lambda: not alive(pid))
        self.until("it is told", lambda: "did not end within 3 s" in self.type_state()["message"])
        self.mode("well")
        self.assertRegex(self.read(process, "^done"), "^done 2 ")

    def test_machines_that_never_join_are_ended_and_asked_for_again(self):
        self.start_commands("lie", **{"start-timeout": "3s"})
        process = self.run_program("tasks", "2", "0.1")
        self.until("it is told", lambda: "did not join within 3 s" in self.type_state()["message"])
        self.mode("well")
        self.assertRegex(self.read(process, "^done"), "^done 2 ")
        self.until("no machine is left", lambda: not self.machines_now())

    def test_a_machine_that_can_not_be_ended_is_tried_again_and_counts(self):
        self.start_commands("well")
        process = self.run_program("tasks", "2", "0.1")
        self.mode("stuck")
        self.assertRegex(self.read(process, "^done"), "^done 2 ")
        self.until("it is told", lambda: any("failed 2 times in a row" in d
                                             for d in self.decisions()))
        self.assertTrue(self.machines_now())
        self.mode("well")
        self.until("no machine is left", lambda: not self.machines_now())

    def test_a_scaler_that_is_killed_is_started_again(self):
        self.start_commands("hang")
        process = self.run_program("tasks", "2", "0.1")
        self.until("it hangs", lambda: os.path.exists(os.path.join(self.machines, "hung")))
        with open(os.path.join(self.machines, "hung"), encoding="ascii") as file:
            pid = int(file.read())
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            scaler = int(file.read().rsplit(")", 1)[1].split()[1])
        self.mode("well")
        os.kill(scaler, signal.SIGKILL)
        os.kill(pid, signal.SIGKILL) # it ignores the SIGTERM that it got with that
        self.assertRegex(self.read(process, "^done"), "^done 2 ")


class Files(Cluster):
    def test_rules_that_are_wrong_start_nothing(self):
        for text, said in (("provider: local\nnode-type: {}\n",
                            'rules.yaml:2:1: unknown key "node-type"; the nearest one is '
                            "node-types"),
                           ("provider: local\n", "no node-types"),
                           ("", "rules.yaml"), ("provider:\tlocal\n", "rules.yaml")):
            path = self.write("rules.yaml", text)
            self.assertIn(said, self.crt("start", "--head", "--port", "0", "--dashboard-port", "0",
                                         "--autoscaler", path, code=1))
        path = self.path("none.yaml")
        self.assertIn("No such file", self.crt("start", "--head", "--autoscaler", path, code=1))
        self.assertIn("belongs to the head", self.crt("start", "--address", "127.0.0.1:1",
                                                      "--autoscaler", path, code=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
