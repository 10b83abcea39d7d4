#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A practical as students of a course do it, with the programs of examples/: tasks in parallel, at
home and as a job, what the cluster has, a bar of progress, a job that is stopped, and a sweep over
networks and learning rates.
Usage: test_practical.py CRT EXAMPLES_FOLDER"""
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

CRT, EXAMPLES = map(os.path.abspath, sys.argv[1:3])
PATIENCE = 120
PROGRAMS = ("wait_many", "monte_carlo_pi", "cluster_resources", "progress", "train_images")
# Small data: what is tested is the way from the command to the summary.
TRAINING = ("./train_images", "train", "--data.limit=96", "--data.test_limit=32", "--data.batch=16",
            "--network.name={model}", "--optimizer.learn_rate={lr}", "--training.steps=6",
            "--training.workers=1", "--output.log_every=1")


class Practical(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        said = subprocess.run([
            CRT, "start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus", "8",
            "--object-store-memory", "100M"
        ], stdout=subprocess.PIPE, text=True, check=True).stdout
        cls.address = re.search(r"--address (\S+) --key-file", said)[1]
        cls.url = re.search(r"(http://[0-9.:]+)", said)[1]
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = os.path.join(cls.place.name, "practical")
        os.mkdir(cls.folder)
        for name in PROGRAMS:
            shutil.copy(os.path.join(EXAMPLES, name), cls.folder)

    @classmethod
    def tearDownClass(cls):
        subprocess.run([CRT, "stop", "--address", cls.address], stdout=subprocess.DEVNULL,
                       check=True)
        cls.place.cleanup()

    def run_here(self, *command, code=0):
        """As a student types it, in the folder with the programs, the cluster being CRT_ADDRESS."""
        done = subprocess.run(command, cwd=self.folder, env=dict(os.environ,
                                                                 CRT_ADDRESS=self.address),
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, code, (command, done.stdout))
        return done.stdout

    def submit(self, *command, options=()):
        """The folder goes along; followed to its end."""
        said = self.run_here(CRT, "job", "submit", "--address", self.url, "--working-dir", ".",
                             *options, "--", *command)
        self.assertIn("succeeded", said)
        return said

    def status(self, job):
        return json.loads(
            self.run_here(CRT, "job", "status", "--address", self.url, "--format", "json", job))

    def test_tasks_in_parallel_here_and_as_a_job(self):
        for said in (self.run_here("./wait_many", "4"), self.submit("./wait_many", "4")):
            self.assertIn("9592", said)  # primes below 100,000
            self.assertIn("33860", said)  # and below 400,000
        estimates = set()
        for said in (self.run_here("./monte_carlo_pi", "--tasks", "10", "--samples", "100000"),
                     self.submit("./monte_carlo_pi", "--tasks", "10", "--samples", "100000")):
            estimates.add(re.search(r"pi is about (\d\.\d+),", said)[1])
        self.assertEqual(len(estimates), 1, "the same points wherever the program runs")

    def test_variables_of_a_job_may_name_those_of_its_node(self):
        variables = {
            "env_vars": {
                "PATH": "/opt/x:${PATH}", "MINE": "<${HOME}/lib> ${NO_SUCH_VARIABLE}$HOME ${1-2} ${"
            }
        }
        said = self.submit("/bin/sh", "-c",
                           'echo "PATH=$PATH"; echo "MINE=$MINE"; ls / >/dev/null && echo found',
                           options=("--runtime-env-json", json.dumps(variables)))
        self.assertIn(f"PATH=/opt/x:{os.environ['PATH']}\n", said)
        self.assertIn(f"MINE=<{os.environ['HOME']}/lib> $HOME ${{1-2}} ${{\n", said)
        self.assertIn("found", said)

    def test_what_the_cluster_has(self):
        for said in (self.run_here("./cluster_resources"), self.submit("./cluster_resources")):
            self.assertRegex(said, r"CPU +\d+(\.5)? of 8 free")
        self.assertRegex(self.run_here(CRT, "status"), r"/8 CPU")
        nodes = json.loads(
            self.run_here(CRT, "list", "nodes", "--address", self.address, "--format", "json"))
        self.assertEqual([node["resources_total"]["CPU"] for node in nodes], [8])

    def test_who_stops_following_leaves_the_job_and_stop_ends_it(self):
        following = subprocess.Popen([
            CRT, "job", "submit", "--address", self.url, "--working-dir", ".", "--submission-id",
            "long", "--", "/bin/sh", "-c", "echo begun; ./progress 1000000"
        ], cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        with following.stdout:
            said = ""
            while "begun\n" not in said:
                line = following.stdout.readline()
                self.assertTrue(line, said)
                said += line
            following.send_signal(signal.SIGINT)
            following.stdout.read()
        following.wait(PATIENCE)
        self.assertEqual(self.status("long")["status"], "RUNNING")
        self.assertIn("stopped", self.run_here(CRT, "job", "stop", "--address", self.url, "long"))
        self.assertEqual(self.status("long")["status"], "STOPPED")
        self.assertIn("begun\n", self.run_here(CRT, "job", "logs", "--address", self.url, "long"))

    def test_a_sweep_over_networks_and_learning_rates(self):
        out = os.path.join(self.place.name, "results")
        said = self.run_here(CRT, "job", "submit", "--address", self.url, "--working-dir", ".",
                             "--sweep", "model=mlp,lenet", "--sweep", "lr=0.001,0.01,0.1",
                             "--sweep-name", "practical", "--parallel", "2", "--metric",
                             "train_loss", "--out", out, "--", *TRAINING)
        self.assertIn("6 of 6 runs succeeded", said)
        with open(os.path.join(out, "results.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(row["model"], row["lr"]) for row in rows],
                         [(model, lr) for model in ("mlp", "lenet")
                          for lr in ("0.001", "0.01", "0.1")])
        self.assertEqual({float(row["train_step"]) for row in rows}, {6})
        self.assertEqual({float(row["step"]) for row in rows}, {6})
        with open(os.path.join(out, "results.json")) as file:
            histories = [run["history"] for run in json.load(file)["runs"]]
        self.assertEqual({history[-1][0] for history in histories}, {6}, histories)
        losses = [float(row["train_loss"]) for row in rows]
        self.assertTrue(all(0 < loss < 10 for loss in losses), losses)
        self.assertEqual(len(set(losses)), 6, losses)
        self.assertIn("<- best", said)
        self.assertTrue(os.path.exists(os.path.join(out, "plot.svg")))
        log = self.run_here(CRT, "job", "logs", "--address", self.url, "practical-3")
        self.assertIn("6 steps in", log)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
