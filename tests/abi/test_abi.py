#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_abi.py BUILD: programs and libraries of different versions, see docs/abi.md."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = sys.argv.pop(1)
HERE = os.path.join(BUILD, "tests", "abi")
TODAY, GROWN = BUILD, HERE
DAEMONS = ("runtime/node/crt-node", "runtime/node/crt-unpack", "runtime/control/crt-head")
CASES = ("tasks", "actors", "groups")


def run(program, library, *words):
    """(status, what it printed) of a program with the library in that folder."""
    with tempfile.TemporaryDirectory() as daemons:
        for path in DAEMONS:
            os.symlink(os.path.join(BUILD, path), os.path.join(daemons, os.path.basename(path)))
        env = dict(os.environ, LD_LIBRARY_PATH=library, CRT_LIBEXEC=daemons)
        loaded = subprocess.run(["ldd", os.path.join(HERE, program)], env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
        assert re.search(rf"libcrt\.so\.0 => {re.escape(os.path.realpath(library))}/", loaded), loaded
        done = subprocess.run([os.path.join(HERE, program), *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=120, check=False)
        return done.returncode, done.stdout


class Versions(unittest.TestCase):
    def works(self, program, library):
        status, said = run(program, library)
        self.assertEqual(status, 0, said)
        self.assertIn("all done", said)

    def test_a_program_runs_with_the_library_of_its_headers(self):
        self.works("abi_today", TODAY)
        self.works("abi_grown_set", GROWN)

    def test_an_older_program_runs_with_a_library_whose_structs_have_grown(self):
        self.works("abi_today", GROWN)

    def test_a_newer_program_that_uses_nothing_new_runs_with_an_older_library(self):
        self.works("abi_grown", TODAY)

    def test_what_an_older_library_does_not_have_is_refused_by_name(self):
        for case in CASES:
            status, said = run("abi_grown_set", TODAY, case)
            self.assertEqual(status, 1, said)
            self.assertRegex(said, r"CRT_ERR_UNSUPPORTED: .*CRT_\w+OPTIONS: a member at byte \d+ is set that crt \S+ does not have")


if __name__ == "__main__":
    unittest.main()
