#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crt job on real clusters: who may use the dashboard's server, and what jobs are told, shown and forgotten.
Usage: test_jobs.py CRT"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

CRT = sys.argv[1]
PATIENCE = 90


class Cluster:
    def __init__(self, *options):
        self.address = None
        said = subprocess.run([CRT, "start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus", "2",
                               "--object-store-memory", "50M", *options], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
        self.address = re.search(r"--address (\S+) --key-file", said)[1]
        self.key = re.search(r"--key-file (\S+)", said)[1]
        self.url = re.search(r"(http://[0-9.:]+)", said)[1]

    def crt(self, *arguments, code=0, address=None, env=None):
        words = [CRT, *arguments]
        at = 3 if arguments[0] == "job" else 2
        words[at:at] = ["--address", address or self.address]
        done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              timeout=PATIENCE, env=env)
        assert done.returncode == code, (words, done)
        return done.stdout

    def job(self, *arguments, **more):
        return self.crt("job", *arguments, **more)

    def token(self, *options):
        return self.crt("token", *options).strip()

    def ask(self, method, path, token=None, body=None, headers=()):
        """The code and the text of an answer."""
        request = urllib.request.Request(self.url + path, method=method, data=body, headers=dict(headers))
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def submit(self, *command, options=()):
        return re.search(r"Job '(\S+)' submitted", self.job("submit", "--no-wait", *options, "--", *command))[1]

    def state(self, job):
        return json.loads(self.job("status", "--format", "json", job))

    def await_state(self, job, *states):
        end = time.monotonic() + PATIENCE
        while True:
            state = self.state(job)
            if state["status"] in states:
                return state
            assert time.monotonic() < end, state
            time.sleep(0.05)

    def end(self):
        subprocess.run([CRT, "stop", "--address", self.address], stdout=subprocess.DEVNULL, check=True)


class WithCluster(unittest.TestCase):
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(*cls.options)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.end()


class Jobs(WithCluster):
    def test_the_last_lines_are_shown_and_followed(self):
        c = self.cluster
        job = c.submit("/bin/sh", "-c", "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done")
        c.await_state(job, "SUCCEEDED")
        self.assertEqual(c.job("logs", "--tail", "2", job), "line 4998\nline 4999\n")
        self.assertEqual(c.job("logs", "--tail", "0", job), "")
        self.assertEqual(c.job("logs", job).count("\nline "), 5000)
        followed = c.job("logs", "-f", "--tail", "3", job)
        self.assertTrue(followed.startswith("line 4997\nline 4998\nline 4999\n"), followed[:200])
        self.assertIn("succeeded", followed)
        self.assertIn("up to 999999", c.job("logs", "--tail", "1.5", job, code=2))
        code, text = c.ask("GET", f"/api/jobs/{job}/logs?tail=1", c.token())
        self.assertEqual((code, json.loads(text)["logs"]), (200, "line 4999\n"))
        self.assertEqual(c.ask("GET", f"/api/jobs/{job}/logs?tail=x", c.token())[0], 400)
        self.assertEqual(c.ask("GET", f"/api/jobs/{job}/logs?tail=1&offset=1", c.token())[0], 400)

    def test_a_job_that_has_ended_is_deleted_with_its_files(self):
        c = self.cluster
        job = c.submit("/bin/sleep", "600", options=("--submission-id", "sleeper"))
        c.await_state(job, "RUNNING")
        self.assertIn("non-terminal state RUNNING", c.job("delete", job, code=1))
        c.job("stop", job)
        self.assertIn("had ended: STOPPED", c.job("stop", job))
        directory = os.path.join(os.path.dirname(c.key), "jobs", c.state(job)["job_id"])
        self.assertTrue(os.path.exists(directory))
        self.assertEqual(c.job("delete", job), "Job 'sleeper' deleted successfully\n")
        end = time.monotonic() + PATIENCE
        while os.path.exists(directory):
            assert time.monotonic() < end
            time.sleep(0.02)
        for command in ("status", "logs", "stop", "delete"):
            self.assertIn("Job sleeper does not exist", c.job(command, job, code=1))

    def test_lists_have_formats(self):
        c = self.cluster
        job = c.submit("/bin/true")
        c.await_state(job, "SUCCEEDED")
        rows = json.loads(c.job("list", "--format", "json"))
        self.assertIn(job, [row["submission_id"] for row in rows])
        self.assertEqual(rows, json.loads(c.job("list", "--json")))
        self.assertIn(f"submission_id: {job}", c.job("list", "--format", "yaml"))
        self.assertRegex(c.job("list", "--format", "table"), "JOB +TYPE +STATE")
        self.assertIn("status: SUCCEEDED", c.job("status", "--format", "yaml", job))
        self.assertIn("--format is table, json or yaml", c.job("list", "--format", "xml", code=2))

    def test_a_url_of_this_host_means_its_socket_and_others_get_no_token(self):
        c = self.cluster
        self.assertIn("succeeded", c.job("submit", "--", "/bin/true", address=c.url))
        port = c.url.rsplit(":", 1)[1]
        self.assertIn("JOB", c.job("list", address=f"http://localhost:{port}/"))
        elsewhere = dict(os.environ, CRT_RUN_DIR=tempfile.mkdtemp())  # as on another host
        try:
            said = c.job("list", address=c.url, code=1, env=elsewhere)
            self.assertIn("wants a token, which goes over https only", said)
        finally:
            os.rmdir(elsewhere["CRT_RUN_DIR"])
        self.assertIn("HOST:PORT", c.job("list", address="ftp://127.0.0.1:1", code=2))
        self.assertIn("no answer", c.job("list", address="http://127.0.0.1:1", code=1))

    def test_a_read_only_token_sees_and_changes_nothing_and_changes_are_recorded(self):
        c = self.cluster
        reader, owner = c.token("--read-only"), c.token()
        self.assertNotEqual(reader, owner)
        job = c.submit("/bin/sleep", "600")
        c.await_state(job, "RUNNING")
        self.assertEqual(c.ask("GET", f"/api/jobs/{job}", reader)[0], 200)
        self.assertEqual(c.ask("GET", "/api/v0/nodes", reader)[0], 200)
        for method, path in (("POST", f"/api/jobs/{job}/stop"), ("DELETE", f"/api/jobs/{job}"), ("POST", "/api/jobs/"),
                             ("PUT", "/api/packages/crt/" + "0" * 64)):
            code, text = c.ask(method, path, reader, None if method == "DELETE" else b"{}")
            self.assertEqual((code, text), (403, "Forbidden: this token is read-only"))
        self.assertEqual(c.ask("POST", f"/api/jobs/{job}/stop", owner, b"")[0], 200)
        self.assertIn(c.ask("POST", "/api/jobs/evil%0aline/stop", owner, b"")[0], (400, 404, 405))
        c.await_state(job, "STOPPED")
        with open(os.path.join(os.path.dirname(c.key), "audit.log")) as file:
            lines = file.read().splitlines()
        when = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
        for line in lines:
            self.assertRegex(line, rf"^{when} (POST|PUT|DELETE) \S+ \d\d\d (owner|read-only) \S+ \S+$")
        text = "\n".join(lines)
        self.assertRegex(text, rf"POST /api/jobs/ 200 owner local:{os.geteuid()} {job}\n")
        self.assertRegex(text, rf"DELETE /api/jobs/{job} 403 read-only 127\.0\.0\.1:\d+ ")
        self.assertRegex(text, rf"POST /api/jobs/{job}/stop 200 owner 127\.0\.0\.1:\d+ {job}")
        self.assertRegex(text, r"POST /api/jobs/evil\S* 4\d\d owner")
        self.assertEqual(os.stat(os.path.join(os.path.dirname(c.key), "audit.log")).st_mode & 0o777, 0o600)


class NoToken(WithCluster):
    options = ("--no-auth",)

    def test_everybody_of_this_host_may_and_other_sites_may_not(self):
        c = self.cluster
        self.assertEqual(json.loads(c.ask("GET", "/api/authentication_mode")[1])["authentication_mode"], "disabled")
        self.assertEqual(c.ask("GET", "/api/version")[0], 200)
        body = json.dumps({"entrypoint": "echo open", "submission_id": "open"}).encode()
        self.assertEqual(c.ask("POST", "/api/jobs/", None, body, {"Origin": "http://evil.example"})[0], 405)
        self.assertEqual(c.ask("POST", "/api/jobs/", None, body)[0], 200)
        self.assertEqual(c.await_state("open", "SUCCEEDED", "FAILED")["status"], "SUCCEEDED")
        elsewhere = dict(os.environ, CRT_RUN_DIR=tempfile.mkdtemp())
        try:
            self.assertIn("open", c.job("logs", "open", address=c.url, env=elsewhere))
        finally:
            os.rmdir(elsewhere["CRT_RUN_DIR"])
        with open(os.path.join(os.path.dirname(c.key), "audit.log")) as file:
            self.assertRegex(file.read(), r" POST /api/jobs/ 200 open 127\.0\.0\.1:\d+ open\n")

    def test_it_is_for_loopback_only(self):
        done = subprocess.run([CRT, "start", "--head", "--port", "0", "--dashboard-port", "0", "--no-auth",
                               "--dashboard-host", "0.0.0.0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--no-auth needs a dashboard that listens on loopback only", done.stdout)
        done = subprocess.run([CRT, "start", "--address", "127.0.0.1:1", "--no-auth"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        self.assertIn("--no-auth belongs to the head", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
