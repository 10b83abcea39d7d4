#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crt job submit --sweep on a real cluster. Usage: test_sweep.py CRT SWEEP_PROGRAM"""
import csv
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree

CRT, PROGRAM = map(os.path.abspath, sys.argv[1:3])
PATIENCE = 120


class Sweep(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        said = subprocess.run([
            CRT, "start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus", "4",
            "--object-store-memory", "50M"
        ], stdout=subprocess.PIPE, text=True, check=True).stdout
        cls.address = re.search(r"--address (\S+) --key-file", said)[1]

    @classmethod
    def tearDownClass(cls):
        subprocess.run([CRT, "stop", "--address", cls.address], stdout=subprocess.DEVNULL,
                       check=True)

    def setUp(self):
        self.place = tempfile.TemporaryDirectory()
        self.out = os.path.join(self.place.name, "results")

    def tearDown(self):
        self.place.cleanup()

    def words(self, *arguments):
        return [CRT, "job", "submit", "--address", self.address, "--out", self.out, *arguments]

    def submit(self, *arguments, code=0):
        done = subprocess.run(self.words(*arguments), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def results(self):
        with open(os.path.join(self.out, "results.json")) as file:
            return json.load(file)

    def test_all_combinations_run_and_their_metrics_are_in_one_summary(self):
        said = self.submit("--sweep", "model=mlp,cnn", "--sweep", "lr=0.5,0.25,0.125",
                           "--sweep-name", "six", "--parallel", "3", "--", PROGRAM, "--lr", "{lr}",
                           "--model", "{model}", "--ms", "10")
        self.assertIn("6 of 6 runs succeeded", said)
        self.assertRegex(said, r"RUN +model +lr +STATE +SECONDS +loss +step")
        self.assertRegex(said, r"5 +cnn +0\.125 +SUCCEEDED +[0-9.]+ +1\.458333333 +3 +<- best")
        results = self.results()
        self.assertEqual((results["sweep"], results["metric"], results["mode"]),
                         ("six", "loss", "min"))
        self.assertEqual([(run["parameters"]["model"], run["parameters"]["lr"])
                          for run in results["runs"]],
                         [(m, lr) for m in ("mlp", "cnn") for lr in ("0.5", "0.25", "0.125")])
        for run in results["runs"]:
            worst = 1 if run["parameters"]["model"] == "cnn" else 2
            self.assertAlmostEqual(run["metrics"]["loss"],
                                   worst + float(run["parameters"]["lr"]) + 1 / 3)
            self.assertEqual(run["history"][-1][0], 3)
        with open(os.path.join(self.out, "results.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["submission_id"] for row in rows], [f"six-{i}" for i in range(6)])
        self.assertEqual({row["state"] for row in rows}, {"SUCCEEDED"})
        self.assertAlmostEqual(float(rows[0]["loss"]), 2.5 + 1 / 3)
        plot = xml.etree.ElementTree.parse(os.path.join(self.out, "plot.svg")).getroot()
        self.assertGreaterEqual(len(plot.findall("{http://www.w3.org/2000/svg}circle")), 6)
        log = subprocess.run([CRT, "job", "logs", "--address", self.address, "six-4"],
                             stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("lr 0.25 model cnn\n", log)

    def test_what_is_wrong_is_told_before_anything_runs(self):
        def refused(text, *arguments):
            self.assertIn(text, self.submit(*arguments, code=2))

        refused("no --sweep gives values to {model}; there is {lr}", "--sweep", "lr=1,2", "--",
                PROGRAM, "--lr", "{lr}", "--model", "{model}")
        refused("no argument has {lr}: all of its runs would be the same", "--sweep", "lr=1,2",
                "--", PROGRAM)
        refused("--sweep takes NAME=VALUE,VALUE", "--sweep", "lr", "--", PROGRAM, "{lr}")
        refused("has an empty value", "--sweep", "lr=1,,2", "--", PROGRAM, "{lr}")
        refused("given twice", "--sweep", "lr=1", "--sweep", "lr=2", "--", PROGRAM, "{lr}")
        refused("go with --sweep", "--parallel", "2", "--", PROGRAM)
        refused("do not go with --sweep", "--no-wait", "--sweep", "lr=1", "--", PROGRAM, "{lr}")
        refused("--early-stop is median or asha", "--early-stop", "luck", "--sweep", "lr=1", "--",
                PROGRAM, "{lr}")
        refused("--mode is min or max", "--mode", "mid", "--sweep", "lr=1", "--", PROGRAM, "{lr}")
        refused("more than 10000 runs", "--sweep", "a=" + ",".join("1" * 200), "--sweep",
                "b=" + ",".join("1" * 200), "--", PROGRAM, "{a}", "{b}")
        self.assertFalse(os.path.exists(self.out))

    def test_results_without_a_place_are_told_before_anything_runs(self):
        open(self.out, "w").close()
        said = self.submit("--sweep", "v=1,2", "--sweep-name", "placeless", "--", "/bin/echo",
                           "{v}", code=1)
        self.assertIn("Not a directory", said)
        self.assertNotIn("SUBMITTED", said)

    def test_a_run_that_fails_is_told_and_run_again_by_resume(self):
        mark = os.path.join(self.place.name, "mark")
        script = f'[ "{{v}}" = 2 ] && [ ! -e {mark} ] && exit 5; echo v {{v}} {{{{}}'
        command = ("--sweep", "v=1,2,3", "--sweep-name", "again", "--", "/bin/sh", "-c", script)
        said = self.submit(*command, code=1)
        self.assertIn("2 of 3 runs succeeded, 0 were stopped early, 1 did not succeed", said)
        self.assertIn("there is a sweep again already: go on with it by --resume",
                      self.submit(*command, code=1))
        open(mark, "w").close()
        said = self.submit("--resume", *command)
        self.assertIn("3 of 3 runs succeeded", said)
        self.assertEqual(said.count(": SUBMITTED"), 1)
        self.assertIn(
            "other parameters",
            self.submit("--resume", "--sweep", "v=7,8,9", "--sweep-name", "again", "--",
                        "/bin/echo", "{v}", code=1))

    def test_an_interrupted_sweep_goes_on(self):
        command = ("--sweep", "lr=1,2,3,4", "--sweep-name", "cut", "--parallel", "2", "--", PROGRAM,
                   "--lr", "{lr}", "--steps", "4", "--ms", "200")
        process = subprocess.Popen(self.words(*command), stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if ": RUNNING" in line:
                break
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        process.stdout.close()
        time.sleep(1.5)  # those that were begun end meanwhile
        said = self.submit("--resume", *command)
        self.assertIn("4 of 4 runs succeeded", said)
        self.assertEqual({run["metrics"]["step"] for run in self.results()["runs"]}, {4})
        self.assertLessEqual(said.count(": SUBMITTED"), 3)

    def test_bad_runs_are_stopped_early(self):
        # The bad run ends in no other way, however seldom the sweep comes to look at it. It is not
        # the first at a rung.
        script = ('exec "$0" --lr {lr} --ms 100 '
                  '$([ {lr} = 100 ] && echo --steps 100000 --load 1500 || echo --steps 40)')
        for rule in ("median", "asha"):
            said = self.submit("--sweep", "lr=1,2,3,100", "--sweep-name", f"early-{rule}",
                               "--early-stop", rule, "--grace", "2", "--metric", "loss", "--",
                               "/bin/sh", "-c", script, PROGRAM)
            runs = self.results()["runs"]
            self.assertEqual(runs[3]["state"], "STOPPED_EARLY", said)
            self.assertEqual(runs[0]["state"], "SUCCEEDED", said)
            self.assertIn("(stopped early)", open(os.path.join(self.out, "plot.svg")).read())
            self.assertGreater(runs[3]["seconds"], 0, said)

    def test_a_gauge_that_is_not_set_yet_has_no_value(self):
        # The best run has no data to load: the others have nothing that it could be worse than.
        script = ('exec "$0" --lr {lr} --steps 20 --ms 50 '
                  '--load $([ {lr} = 1 ] && echo 0 || echo 1000)')
        said = self.submit("--sweep", "lr=2,3,4,5,1", "--parallel", "5", "--sweep-name", "unset",
                           "--early-stop", "median", "--grace", "3", "--metric", "loss", "--",
                           "/bin/sh", "-c", script, PROGRAM)
        runs = self.results()["runs"]
        self.assertEqual(runs[4]["state"], "SUCCEEDED", said)
        self.assertEqual({run["history"][0][0] > 0 and run["history"][0][1] > 0
                          for run in runs}, {True}, runs)

    def test_runs_are_compared_at_equal_steps_however_short_they_are(self):
        # Each run is better at every step than all before it.
        said = self.submit("--sweep", "lr=6,5,4,3,2,1", "--parallel", "1", "--sweep-name", "equal",
                           "--early-stop", "asha", "--grace", "3", "--metric", "loss", "--",
                           PROGRAM, "--lr", "{lr}", "--steps", "25", "--ms", "30")
        self.assertIn("6 of 6 runs succeeded, 0 were stopped early", said)
        for run in self.results()["runs"]:
            lr = float(run["parameters"]["lr"])
            self.assertGreaterEqual(len(run["history"]), 20, run)  # also what was between two looks
            for step, value in run["history"]:
                self.assertAlmostEqual(value, 2 + lr + 1 / step)
        said = self.submit("--sweep", "lr=1,2,3,4,5,6", "--parallel", "1", "--sweep-name", "worse",
                           "--early-stop", "asha", "--grace", "3", "--metric", "loss", "--",
                           PROGRAM, "--lr", "{lr}", "--steps", "50", "--ms", "30")
        self.assertIn("2 of 6 runs succeeded, 4 were stopped early", said)

    def test_a_metric_that_nobody_reports_is_told_at_once_and_fails(self):
        done = subprocess.run(
            self.words("--sweep", "lr=1,2", "--parallel", "1", "--sweep-name", "nobody", "--metric",
                       "los", "--", PROGRAM, "--lr", "{lr}"), capture_output=True, text=True,
            timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("run 0 has not reported the metric los, and has ended", done.stderr)
        self.assertIn("no run reported the metric los (--metric); runs reported: ", done.stderr)

    def test_runs_that_wait_for_tasks_leave_them_the_cpus(self):
        said = self.submit("--sweep", "lr=1,2,3,4,5,6", "--sweep-name", "tasks", "--", PROGRAM,
                           "--lr", "{lr}", "--tasks", "2")
        self.assertIn("6 runs, one at a time until one has shown what it needs", said)
        self.assertIn("6 of 6 runs succeeded", said)
        self.assertEqual(self.most_at_once(), 4)

    def most_at_once(self):
        """Of the runs, by when their jobs began and ended."""
        moments = []
        for run in self.results()["runs"]:
            said = subprocess.run([
                CRT, "job", "list", "--address", self.address, "--format", "json"
            ], stdout=subprocess.PIPE, text=True, check=True).stdout
            job, = [job for job in json.loads(said) if job["job_id"] == run["job_id"]]
            moments += [(job["start_time"], 1), (job["end_time"], -1)]
        running = [sum(step for _, step in sorted(moments)[:i]) for i in range(len(moments) + 1)]
        return max(running)

    def test_runs_that_hold_what_others_wait_for_are_not_begun_beside_these(self):
        # Three CPUs for each of the runs: actors, one after the other; a group behind an actor.
        for name, what in (("actors", ("--actors", "3")), ("group", ("--actors", "1", "--group",
                                                                     "2"))):
            said = self.submit("--sweep", "lr=1,2,3", "--sweep-name", name, "--", PROGRAM, "--lr",
                               "{lr}", *what, "--steps", "10", "--ms", "50")
            self.assertIn("3 of 3 runs succeeded", said)
            self.assertEqual([run["needs"] for run in self.results()["runs"]], [{"CPU": 3.0}] * 3)
            self.assertEqual(self.most_at_once(), 1)

    def test_as_many_runs_as_fit_go_on_at_a_time(self):
        self.submit("--sweep", "lr=1,2,3,4,5", "--sweep-name", "two", "--", PROGRAM, "--lr", "{lr}",
                    "--actors", "2", "--steps", "10", "--ms", "50")
        self.assertEqual(self.most_at_once(), 2)

    def test_programs_that_hold_what_their_tasks_wait_for_are_told(self):
        command = self.words("--sweep", "lr=1,2,3,4", "--sweep-name", "held", "--parallel", "4",
                             "--entrypoint-num-cpus", "1", "--", "/bin/sh", "-c",
                             f'until [ -e {self.place.name}/go ]; do sleep 0.1; done; '
                             'exec "$0" --lr {lr} --tasks 1', PROGRAM)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)
        running = 0
        for line in process.stdout:
            running += line.endswith(": RUNNING\n")
            if running == 4:
                break
        with open(f"{self.place.name}/go", "w"):
            pass  # all of them hold their CPUs
        told = ("the programs of jobs hold it until they end (--entrypoint-num-cpus and the like): "
                "held-0, held-1, held-2 and 1 more")
        deadline = time.monotonic() + PATIENCE
        status = ""
        while told not in status:
            self.assertLess(time.monotonic(), deadline, status)
            status = subprocess.run([CRT, "status", "--address", self.address],
                                    stdout=subprocess.PIPE, text=True, check=True).stdout
        said = subprocess.run([CRT, "job", "stop", "--address", self.address, "held"],
                              stdout=subprocess.PIPE, text=True, timeout=PATIENCE,
                              check=True).stdout
        self.assertIn("Sweep 'held' was stopped", said)
        self.assertIn("4 did not succeed", process.communicate(timeout=PATIENCE)[0])

    def test_a_sweep_that_is_stopped_begins_no_more_runs(self):
        command = ("--sweep", "lr=1,2,3,4,5,6", "--sweep-name", "stopped", "--parallel", "2",
                   "--metadata-json", json.dumps({"long": "x" * 5000}), "--", PROGRAM, "--lr",
                   "{lr}", "--steps", "100", "--ms", "100")
        process = subprocess.Popen(self.words(*command), stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        for line in process.stdout:
            if "run 1 " in line and ": RUNNING" in line:
                break
        said = subprocess.run([CRT, "job", "stop", "--address", self.address, "stopped"],
                              stdout=subprocess.PIPE, text=True, timeout=PATIENCE,
                              check=True).stdout
        self.assertIn("Stopping 2 of the 2 runs of sweep 'stopped' that were begun", said)
        said = process.communicate(timeout=PATIENCE)[0]
        self.assertEqual(process.returncode, 1, said)
        self.assertIn("the sweep was stopped: the runs that had not begun do not", said)
        self.assertEqual([run["state"] for run in self.results()["runs"]],
                         ["STOPPED"] * 2 + ["WAITING"] * 4)
        done = subprocess.run([CRT, "job", "stop", "--address", self.address, "nosuch"],
                              stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr),
                         (1, "crt job stop: Job nosuch does not exist, nor a sweep of that name\n"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
