#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The steps of examples/train_ner/project.mk: each runs when what it depends on has changed, and
the training may be a job of a cluster. Usage: test_project.py CRT TRAIN_NER PROJECT_MK"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import real_cluster

CRT, PROGRAM, PROJECT = (os.path.abspath(path) for path in sys.argv[1:4])
SMALL = ("--training.max_steps=30 --training.eval_frequency=15 "
         "--components.tok2vec.model.encode.width=16 --components.tok2vec.model.embed.rows=200 "
         "--components.tok2vec.model.encode.depth=1")
STEPS = ("convert", "train", "evaluate")


class Project(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        subprocess.run([PROGRAM, "convert", "builtin:300", self.path("all.conll")], check=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def make(self, *words):
        """Which steps were run."""
        folders = f"{os.path.dirname(PROGRAM)}:{os.path.dirname(CRT)}:{os.environ['PATH']}"
        done = subprocess.run(
            ["make", "-f", PROJECT, "CORPUS=all.conll", f"OPTIONS={SMALL}", *words],
            cwd=self.folder, env=dict(os.environ, PATH=folders), text=True, timeout=200,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return [len(re.findall(rf"^(?:crt job submit .* -- | *)train_ner {step} ", done.stdout,
                               re.MULTILINE)) for step in STEPS]

    def change(self, name):
        later = time.time() + 5  # than all that was made
        os.utime(self.path(name), (later, later))

    def test_a_step_runs_when_what_it_depends_on_has_changed(self):
        self.assertEqual(self.make(), [3, 1, 1])
        with open(self.path("metrics.json"), encoding="utf-8") as file:
            self.assertIn("ents_f", json.load(file))
        self.assertEqual(self.make(), [0, 0, 0])
        self.change("corpus/test.conll")
        self.assertEqual(self.make(), [0, 0, 1])
        self.assertEqual(self.make("clean"), [0, 0, 0])
        self.assertEqual(os.listdir(self.folder), ["all.conll"])
        self.assertEqual(self.make("corpus"), [3, 0, 0])

    def test_the_training_may_be_a_job(self):
        cluster = real_cluster.Cluster(CRT, "--num-cpus", "2")
        self.addCleanup(cluster.stop)
        self.assertEqual(self.make(f"RUN=crt job submit --address {cluster.address} --"),
                         [3, 1, 1])
        self.assertIn("train_ner", real_cluster.run(CRT, "job", "list", "--address",
                                                    cluster.address))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
