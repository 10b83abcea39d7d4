#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""/metrics of a real cluster: what it says of the cluster and of a program; where promtool is
installed it finds nothing to complain of, and where Prometheus is, it scrapes it by the target file
and the rules of packaging/.
Usage: test_metrics.py CRT METRICS_PROGRAM SOURCE_ROOT"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import real_cluster

CRT, PROGRAM, ROOT = sys.argv[1:4]
PATIENCE = 60


class Cluster(real_cluster.Cluster):
    def __init__(self):
        super().__init__(CRT, "--num-cpus", "2")
        self.owner = self.token()
        self.target = os.path.join(os.path.dirname(self.key), "prometheus.json")
        self.program = self.start(PROGRAM, says="counted")

    def metrics(self):
        with open(self.target) as file:
            target = json.load(file)[0]
        request = urllib.request.Request(
            f"{target['labels']['__scheme__']}://{target['targets'][0]}"
            f"{target['labels']['__metrics_path__']}",
            headers={"Authorization": f"Bearer {self.owner}"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read().decode()

    def tell(self):
        self.program.stdin.write("\n")
        self.program.stdin.flush()

    def end(self):
        self.program.communicate("\n\n", timeout=PATIENCE)
        self.stop()


def value(text, name, *labels):
    """The sum of the samples of that name that have these labels; None: there is none."""
    found = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
             if re.match(rf"{name}[{{ ]", line) and all(label in line for label in labels)]
    return sum(found) if found else None


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster()

    @classmethod
    def tearDownClass(cls):
        cls.cluster.end()
        assert not os.path.exists(cls.cluster.target)

    def test_1_the_cluster_and_the_program_are_shown(self):
        text = self.cluster.metrics()
        self.assertEqual(value(text, "crt_nodes", 'state="ALIVE"'), 1)
        self.assertEqual(value(text, "crt_actors", 'state="ALIVE"'), 2)
        self.assertEqual(value(text, "crt_node_resources", 'resource="CPU"'), 2)
        self.assertGreater(value(text, "crt_store_bytes"), 10e6)
        self.assertGreaterEqual(value(text, "crt_calls_made_total"), 4)
        self.assertGreaterEqual(value(text, "crt_calls_failed_total"), 1)
        self.assertGreaterEqual(value(text, "crt_calls_run_total"), 4)
        self.assertEqual(value(text, "crt_processes", 'kind="driver"'), 1)
        self.assertEqual(value(text, "crt_processes", 'kind="actor"'), 2)
        self.assertEqual(value(text, "crt_nodes_silent"), 0)
        self.assertEqual(
            value(text, "crt_user_images_total", 'set="\\"train\\\\"', 'class_name="Model"'), 24.5)
        self.assertEqual(value(text, "crt_user_rounds_total", 'class_name=""'), 7)
        self.assertEqual(value(text, "crt_user_loss"), 0.05 + 0.25)
        self.assertEqual(value(text, "crt_user_step_seconds_bucket", 'le="0.1"'), 0)
        self.assertEqual(value(text, "crt_user_step_seconds_bucket", 'le="1"'), 1)
        self.assertEqual(value(text, "crt_user_town_total", 'town="Köln"'), 1)
        self.assertEqual(value(text, "crt_user_town_total", 'town="Käln"'), 10)
        self.assertRegex(text, r"\ncrt_user_low\{.*\} -Inf\n")
        self.assertEqual(value(text, "crt_user_step_seconds_bucket", 'le="+Inf"'), 3)
        self.assertEqual(value(text, "crt_user_step_seconds_sum"), 24.5)
        self.assertEqual(len(re.findall("^# TYPE crt_user_images_total counter$", text, re.M)), 1)
        samples = [line.rsplit(" ", 1)[0] for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(len(samples), len(set(samples)))
        self.assertIsNone(value(text, "crt_rounds_total"))

    def test_2_promtool_has_nothing_to_complain_of(self):
        if not shutil.which("promtool"):
            self.skipTest("promtool is not installed")
        done = subprocess.run(["promtool", "check", "metrics"], input=self.cluster.metrics(),
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        subprocess.run(["promtool", "check", "rules", f"{ROOT}/packaging/prometheus/alerts.yml"],
                       stdout=subprocess.DEVNULL, check=True)

    def test_3_prometheus_scrapes_it(self):
        if not shutil.which("prometheus"):
            self.skipTest("prometheus is not installed")
        port = real_cluster.free_port()
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(f"{ROOT}/packaging/prometheus/alerts.yml", folder)
            with open(f"{ROOT}/packaging/prometheus/prometheus.yml") as file:
                config = re.sub(r"files: \[.*\]", f"files: [{self.cluster.target}]", file.read())
            with open(f"{folder}/prometheus.yml", "w") as file:
                file.write(config.replace("interval: 5s", "interval: 200ms"))
            with open(f"{folder}/token", "w") as file:
                file.write(self.cluster.owner)
            server = subprocess.Popen([
                "prometheus", f"--config.file={folder}/prometheus.yml",
                f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"
            ], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                self.wait_for_value(port)
            finally:
                server.terminate()
                server.wait(PATIENCE)

    def wait_for_value(self, port):
        query = urllib.parse.quote('sum(crt_user_images_total) + 100 * sum(up{job="crt"})')
        end = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={query}",
                                            timeout=5) as answer:
                    result = json.load(answer)["data"]["result"]
            except OSError:
                result = []
            if result and float(result[0]["value"][1]) == 124.5:
                return
            self.assertLess(time.monotonic(), end, result)
            time.sleep(0.1)

    def test_4_what_a_dead_actor_has_counted_stays(self):
        self.cluster.tell()
        self.assertEqual(self.cluster.program.stdout.readline(), "ended\n")
        end = time.monotonic() + PATIENCE
        while value(self.cluster.metrics(), "crt_processes", 'kind="actor"') != 1:
            self.assertLess(time.monotonic(), end)
        text = self.cluster.metrics()
        self.assertEqual(value(text, "crt_user_images_total"), 24.5)
        self.assertEqual(value(text, "crt_user_step_seconds_count"), 3)
        self.assertEqual(value(text, "crt_user_loss"), 0.05)
        self.assertGreaterEqual(value(text, "crt_processes_ended_total"), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
