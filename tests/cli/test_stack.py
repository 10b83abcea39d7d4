#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crt stack on a real cluster: stacks with names and lines, and what threads wait for.
Usage: test_stack.py CRT STACK_PROGRAM"""
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest

CRT, PROGRAM = sys.argv[1:3]
PATIENCE = 60


def frames_of(process):
    return [frame for thread in process["stack"]["threads"] for frame in thread["frames"]]


class Stack(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        said = subprocess.run([
            CRT, "start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus", "4",
            "--object-store-memory", "50M"
        ], stdout=subprocess.PIPE, text=True, check=True).stdout
        cls.address = re.search(r"--address (\S+) --key-file", said)[1]
        cls.program = subprocess.Popen([PROGRAM], stdout=subprocess.PIPE, text=True,
                                       env=dict(os.environ, CRT_ADDRESS=cls.address))
        assert cls.program.stdout.readline() == "ready\n"
        deadline = time.monotonic() + PATIENCE
        while not any(p["running"] == "turns" for p in cls.stacks()):
            assert time.monotonic() < deadline, cls.stacks()

    @classmethod
    def tearDownClass(cls):
        cls.program.kill()
        cls.program.communicate()
        subprocess.run([CRT, "stop", "--address", cls.address], stdout=subprocess.DEVNULL,
                       check=True)

    @classmethod
    def crt(cls, *arguments, code=0):
        done = subprocess.run([CRT, "stack", "--address", cls.address, *arguments], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              timeout=PATIENCE)
        assert done.returncode == code, (arguments, done)
        return done.stdout if code == 0 else done.stderr

    @classmethod
    def stacks(cls, *arguments):
        return json.loads(cls.crt(*arguments, "--format", "json"))

    def one(self, **what):
        found = [p for p in self.stacks() if all(p[key] == value for key, value in what.items())]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def test_functions_and_lines_of_all_threads(self):
        frames = frames_of(self.one(running="turns"))
        self.assertTrue(
            any(re.fullmatch(r"turns_run \(stack_program\.c:\d+\)", frame) for frame in frames),
            frames)
        self.assertTrue(
            any(
                frame.startswith("main (stack_program.c:")
                for frame in frames_of(self.one(worker_type="DRIVER"))))
        self.assertTrue(
            any(
                frame.startswith("wait_deep_inside (stack_program.c:")
                for frame in frames_of(self.one(running="Asker.ask"))))

    def test_what_is_waited_for(self):
        driver, asker, turns = self.one(worker_type="DRIVER"), self.one(
            running="Asker.ask"), self.one(running="turns")
        wait = driver["said"]["waits"][0]
        self.assertEqual((wait["call"], wait["worker_id"], wait["tid"]),
                         ("Asker.ask", asker["worker_id"], driver["pid"]))
        self.assertEqual(wait["actor_id"], asker["actor_id"])
        wait = asker["said"]["waits"][0]
        self.assertEqual((wait["call"], wait["worker_id"], wait["call_state"]),
                         ("turns", turns["worker_id"], "SUBMITTED_TO_WORKER"))
        self.assertGreaterEqual(wait["for_ms"], 0)
        self.assertEqual(turns["said"]["waits"], [])

    def test_text_for_people(self):
        text = self.crt()
        turns = self.one(running="turns")
        self.assertRegex(
            text,
            rf"waits for a ref since [\d.]+ s: [0-9a-f]{{48}}, the result of turns, "
            rf"SUBMITTED_TO_WORKER to {turns['worker_id'][:8]} \(pid {turns['pid']}, 127.0.0.1\)")
        self.assertRegex(text, r"the result of Asker.ask of actor [0-9a-f]{8}")
        self.assertIn("runs turns", text)
        self.assertRegex(text, r"#\d+ turns_run \(stack_program.c:\d+\)")

    def test_some_are_chosen(self):
        asker, turns = self.one(running="Asker.ask"), self.one(running="turns")
        for wanted in (asker["actor_id"], "the-asker", asker["worker_id"]):
            self.assertEqual([p["pid"] for p in self.stacks(wanted)], [asker["pid"]], wanted)
        self.assertEqual([p["pid"] for p in self.stacks("--pid", str(turns["pid"]))],
                         [turns["pid"]])
        for wanted in (turns["node_id"], turns["node_id"][:10], "127.0.0.1"):
            self.assertGreaterEqual(len(self.stacks(wanted)), 3)
        self.assertIn("no node, worker or actor nobody", self.crt("nobody", code=1))
        self.assertIn("no such process", self.crt("--pid", "1", code=1))
        self.assertIn("text, json or yaml", self.crt("--format", "xml", code=2))
        self.assertIn("one node", self.crt("a", "b", code=2))

    def test_a_stopped_process_is_read_and_stays_as_it_is(self):
        turns = self.one(running="turns")
        os.kill(turns["pid"], signal.SIGSTOP)
        try:
            stopped = self.one(running="turns")
            self.assertTrue(any(frame.startswith("turns_run") for frame in frames_of(stopped)),
                            stopped)
            self.assertIsNone(stopped["said"])
        finally:
            os.kill(turns["pid"], signal.SIGCONT)
        self.assertEqual(self.one(running="turns")["said"]["waits"], [])

    def test_everybody_goes_on_when_many_ask_at_once(self):
        asked = [
            subprocess.Popen([CRT, "stack", "--address", self.address, "--format", "json"],
                             stdout=subprocess.PIPE, text=True) for _ in range(5)
        ]
        for process in asked:
            text, _ = process.communicate(timeout=PATIENCE)
            self.assertEqual(process.returncode, 0)
            self.assertGreaterEqual(len(json.loads(text)), 3)
        for process in self.stacks():
            with open(f"/proc/{process['pid']}/stat") as file:
                self.assertNotIn(file.read().rsplit(")", 1)[1].split()[0], "Tt")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
