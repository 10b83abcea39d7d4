#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a test leaves behind under isolated.py, however it ends. Usage: test_isolated.py"""
import os
import select
import signal
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ISOLATED = [sys.executable, "-IS", os.path.join(HERE, "isolated.py")]
PATIENCE = 30
# A program that waits for ever, once it has said its process id and its folder.
WAITS = ["/bin/sh", "-c", "echo $$ $CRT_RUN_DIR; exec sleep 1000000"]
# Starts a test as meson does, and is killed when it has begun.
RUNNER = """
import subprocess, sys
test = subprocess.Popen(sys.argv[1:], start_new_session=True, stdout=subprocess.PIPE, text=True)
print(test.stdout.readline(), end="", flush=True)
sys.stdin.read()
"""


def wait_for_end(pid):
    """Of a process that is nobody's child here."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([fd], [], [], PATIENCE)[0])
    finally:
        os.close(fd)


class Isolated(unittest.TestCase):
    def test_a_run_that_is_killed_takes_its_tests_along(self):
        with subprocess.Popen([sys.executable, "-c", RUNNER, *ISOLATED, *WAITS],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
            pid, folder = run.stdout.readline().split()
            run.send_signal(signal.SIGKILL)
        self.assertTrue(folder.endswith("/r"))
        self.assertTrue(wait_for_end(int(pid)))

    def test_a_signal_that_comes_while_the_program_begins_is_handed_on(self):
        """Of many at once: some are signalled before isolated.py knows that the program runs."""
        tests = [subprocess.Popen([*ISOLATED, *WAITS], stdout=subprocess.PIPE, text=True)
                 for _ in range(20)]
        for test in tests:
            self.assertTrue(test.stdout.readline())
            test.send_signal(signal.SIGTERM)
        for test in tests:
            with test:
                self.assertEqual(test.wait(PATIENCE), 128 + signal.SIGTERM)

    def test_the_status_is_that_of_the_program(self):
        for words, status in (["true"], 0), (["sh", "-c", "exit 7"], 7), \
                (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL):
            self.assertEqual(subprocess.run([*ISOLATED, *words], check=False).returncode, status)


if __name__ == "__main__":
    unittest.main(verbosity=2)
