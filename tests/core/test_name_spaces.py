#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names of actors are those of a namespace, and each job has one of its own unless it says
otherwise.
Usage: test_name_spaces.py CRT NAME_SPACE_PROGRAM"""
import json
import os
import re
import subprocess
import sys
import unittest

CRT, PROGRAM = sys.argv[1:3]


def run(*words, status=0, **variables):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=100, check=False,
                          env=dict(os.environ, **variables))
    if done.returncode != status:
        raise AssertionError(f"{words} exits with {done.returncode}:\n{done.stdout}")
    return done.stdout


class NameSpaces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        said = run(CRT, "start", "--head", "--port", 0, "--dashboard-port", 0, "--num-cpus", 2,
                   "--object-store-memory", "50M")
        cls.address = re.search(r"--address (\S+) --key-file", said)[1]

    @classmethod
    def tearDownClass(cls):
        run(CRT, "stop", "--address", cls.address)

    def says(self, *words, **variables):
        """{what: status}, all of it"""
        said = run(PROGRAM, *words, **variables)
        return dict(re.findall(r"^(make|find|task|kill) (CRT_\w+)", said, re.M)), said

    def test_a_job_has_a_namespace_of_its_own(self):
        found, said = self.says("-", "make", "alone")
        self.assertEqual(found, {"make": "CRT_OK"}, said)
        job = re.search(r"^namespace ([0-9a-f]{32})$", said, re.M)[1]
        found, said = self.says("-", "find", "alone")
        self.assertEqual(found, {"find": "CRT_ERR_NOT_FOUND", "task": "CRT_ERR_NOT_FOUND"}, said)
        self.assertIn('no actor is named "alone" in the namespace "', said)
        self.assertEqual(self.says("-", "make", "alone")[0], {"make": "CRT_OK"})  # another one
        found, said = self.says("-", "find", "alone", job)
        self.assertEqual(found, {"find": "CRT_OK", "task": "CRT_OK"}, said)
        shown = [actor["namespace"] for actor in json.loads(run(CRT, "status", "--json"))["actors"]
                 if actor["name"] == "alone"]
        self.assertEqual(len(set(shown)), 2)
        self.assertIn(job, shown)

    def test_jobs_of_one_namespace_find_each_others_actors(self):
        self.assertEqual(self.says("team", "make", "shared")[0], {"make": "CRT_OK"})
        found, said = self.says("team", "find", "shared")
        self.assertEqual(found, {"find": "CRT_OK", "task": "CRT_OK"}, said)
        found, said = self.says("team", "make", "shared")
        self.assertEqual(found, {"make": "CRT_ERR_EXISTS"}, said)
        self.assertEqual(self.says("-", "kill", "shared")[0], {"kill": "CRT_ERR_NOT_FOUND"})
        self.assertEqual(self.says("-", "kill", "shared", "team")[0], {"kill": "CRT_OK"})
        self.assertEqual(self.says("team", "find", "shared")[0]["task"], "CRT_ERR_NOT_FOUND")

    def test_the_environment_says_it_before_the_program_does(self):
        found, said = self.says("-", "make", "by-variable", CRT_JOB_NAMESPACE="other")
        self.assertEqual(found, {"make": "CRT_OK"}, said)
        self.assertIn("namespace other\n", said)
        found, said = self.says("ignored", "find", "by-variable", CRT_JOB_NAMESPACE="other")
        self.assertEqual(found, {"find": "CRT_OK", "task": "CRT_OK"}, said)

    def test_an_actor_may_be_in_another_namespace_than_its_job(self):
        self.assertEqual(self.says("here", "make", "away", "there")[0], {"make": "CRT_OK"})
        self.assertEqual(self.says("here", "find", "away")[0]["find"], "CRT_ERR_NOT_FOUND")
        self.assertEqual(self.says("there", "find", "away")[0]["task"], "CRT_OK")

    def test_what_is_no_namespace_is_refused(self):
        for name in "a/b", "x" * 128:
            said = run(PROGRAM, name, "find", "x", status=1)
            self.assertIn("a namespace has 1 to 127 bytes, none of them /", said)
            said = run(PROGRAM, "-", "find", "x", status=1, CRT_JOB_NAMESPACE=name)
            self.assertIn("a namespace has 1 to 127 bytes", said)
            found, said = self.says("-", "make", "x", name)
            self.assertEqual(found, {"make": "CRT_ERR_INVALID"}, said)
            self.assertIn("--namespace",
                          run(CRT, "job", "submit", "--namespace", name, "--", PROGRAM, status=2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
