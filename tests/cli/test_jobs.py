#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crt job on real clusters: who may use the dashboard's server, and what jobs are told, shown and
forgotten.
Usage: test_jobs.py CRT PRINTING_PROGRAM"""
import http.client
import io
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
import zipfile

import real_cluster

CRT, PRINTING_PROGRAM = sys.argv[1:3]
PATIENCE = 90


class Cluster(real_cluster.Cluster):
    def __init__(self, *options):
        super().__init__(CRT, "--num-cpus", "2", *options)

    def crt(self, *arguments, code=0, address=None, env=None):
        words = [CRT, *arguments]
        at = 3 if arguments[0] == "job" else 2
        words[at:at] = ["--address", address or self.address]
        done = subprocess.run(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False, timeout=PATIENCE, env=env)
        assert done.returncode == code, (words, done)
        return done.stdout

    def job(self, *arguments, **more):
        return self.crt("job", *arguments, **more)

    def ask(self, method, path, token=None, body=None, headers=()):
        """The code and the text of an answer."""
        request = urllib.request.Request(self.url + path, method=method, data=body,
                                         headers=dict(headers))
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def submit(self, *command, options=()):
        return re.search(r"Job '(\S+)' submitted",
                         self.job("submit", "--no-wait", *options, "--", *command))[1]

    def job_state(self, job):
        return json.loads(self.job("status", "--format", "json", job))

    def await_status(self, text):
        """The head hears of what its nodes hold a little later."""
        end = time.monotonic() + PATIENCE
        while text not in (said := self.crt("status")):
            assert time.monotonic() < end, said

    def await_state(self, job, *states):
        end = time.monotonic() + PATIENCE
        while True:
            state = self.job_state(job)
            if state["status"] in states:
                return state
            assert time.monotonic() < end, state
            time.sleep(0.05)


class WithCluster(unittest.TestCase):
    options = ()

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(*cls.options)

    @classmethod
    def tearDownClass(cls):
        cls.cluster.stop()


class Jobs(WithCluster):
    def test_the_last_lines_are_shown_and_followed(self):
        c = self.cluster
        job = c.submit("/bin/sh", "-c",
                       "i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done")
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
        directory = os.path.join(os.path.dirname(c.key), "jobs", c.job_state(job)["job_id"])
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
        for method, path in (("POST", f"/api/jobs/{job}/stop"), ("DELETE", f"/api/jobs/{job}"),
                             ("POST", "/api/jobs/"), ("PUT", "/api/packages/crt/" + "0" * 64)):
            code, text = c.ask(method, path, reader, None if method == "DELETE" else b"{}")
            self.assertEqual((code, json.loads(text)),
                             (403, {"error": {"message": "Forbidden: this token is read-only"}}))
        self.assertEqual(c.ask("POST", f"/api/jobs/{job}/stop", owner, b"")[0], 200)
        self.assertEqual(c.ask("POST", "/api/jobs/evil%0aline/stop", owner, b"")[0], 400)
        self.assertIn(c.ask("POST", "/api/jobs/evil%20line/stop", owner, b"")[0], (400, 404))
        server = http.client.HTTPConnection(c.url.split("//")[1], timeout=20)
        server.putrequest("POST", "/api/jobs/")  # without a length
        server.putheader("Authorization", f"Bearer {owner}")
        server.endheaders()
        self.assertEqual(server.getresponse().status, 411)
        server.close()
        c.await_state(job, "STOPPED")
        with open(os.path.join(os.path.dirname(c.key), "audit.log")) as file:
            lines = file.read().splitlines()
        when = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
        for line in lines:
            self.assertRegex(line,
                             rf"^{when} (POST|PUT|DELETE) \S+ \d\d\d (owner|read-only) \S+ \S+$")
        text = "\n".join(lines)
        self.assertRegex(text, rf"POST /api/jobs/ 200 owner local:{os.geteuid()} {job}\n")
        self.assertRegex(text, rf"DELETE /api/jobs/{job} 403 read-only 127\.0\.0\.1:\d+ ")
        self.assertRegex(text, rf"POST /api/jobs/{job}/stop 200 owner 127\.0\.0\.1:\d+ {job}")
        self.assertRegex(text, r"POST /api/jobs/evil\S* 4\d\d owner")
        self.assertRegex(text, r"POST /api/jobs/ 411 owner 127\.0\.0\.1:\d+ -")
        self.assertEqual(
            os.stat(os.path.join(os.path.dirname(c.key), "audit.log")).st_mode & 0o777, 0o600)


def zip_of(*entries):
    """A zip with (name, bytes, mode) entries."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data, mode in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.create_system = mode << 16, 3
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)
    return file.getvalue()


class Folding(WithCluster):
    def printed(self, wanted, *options):
        """What two actors of a job print, who print the same: the lines that are shown, and those
        of them that count others."""
        c, env = self.cluster, {k: v for k, v in os.environ.items() if k != "CRT_DEDUP_LOGS"}
        if wanted:
            env["CRT_DEDUP_LOGS"] = wanted
        said = c.job("submit", *options, "--", PRINTING_PROGRAM, "2", "2", "same", env=env)
        lines = re.findall(r"^\(Printer pid=.*\) ((?:first|second|third) of 0.*)$", said, re.M)
        logged = c.job("logs", re.search(r"Job '(\S+)' submitted", said)[1])
        self.assertEqual(
            re.findall(r"^\(Printer pid=.*\) ((?:first|second|third) of 0.*)$", logged, re.M),
            lines)
        return len(lines), sum(
            line.endswith(" [repeated 1 times across cluster]") for line in lines)

    def test_equal_lines_of_a_jobs_workers_are_shown_once_if_that_is_wanted(self):
        whole, folded = (6, 0), (6, 3)
        self.assertEqual(self.printed(None), whole)
        self.assertEqual(self.printed(None, "--env", "CRT_DEDUP_LOGS=1"), folded)
        self.assertEqual(self.printed("1"), folded)
        self.assertEqual(self.printed("1", "--env", "CRT_DEDUP_LOGS=0"), whole)
        self.assertEqual(
            self.printed(None, "--runtime-env-json", '{"env_vars": {"CRT_DEDUP_LOGS": "1"}}'),
            folded)


class BadInput(WithCluster):
    def test_a_folder_that_is_none_fails_its_job_and_no_other(self):
        c, token = self.cluster, self.cluster.token()
        good = zip_of(("prog", b"#!/bin/sh\necho good\n", 0o100755))
        cases = {
            "a1": good[:-30], "a2": b"no zip at all", "a3": zip_of(("../out", b"x", 0o100644)),
            "a4": zip_of(("/tmp/out", b"x", 0o100644)), "a5": zip_of(
                ("link", b"/etc/passwd", 0o120777))
        }
        for name, data in cases.items():
            package = f"_ray_pkg_{name}.zip"
            self.assertEqual(c.ask("PUT", f"/api/packages/gcs/{package}", token, data)[0], 200)
            body = {"entrypoint": "./prog", "submission_id": f"bad-{name}",
                    "runtime_env": {"working_dir": f"gcs://{package}"}}
            self.assertEqual(c.ask("POST", "/api/jobs/", token, json.dumps(body).encode())[0], 200)
            state = c.await_state(f"bad-{name}", "FAILED", "SUCCEEDED")
            self.assertEqual((state["status"], state["error_type"]),
                             ("FAILED", "RUNTIME_ENV_SETUP_FAILURE"), (name, state))
            self.assertTrue(state["message"].startswith("runtime_env setup failed: "), state)
        self.assertFalse(os.path.exists("/tmp/out"))
        self.assertEqual(c.ask("PUT", "/api/packages/gcs/_ray_pkg_b.zip", token, good)[0], 200)
        body = {
            "entrypoint": "./prog", "submission_id": "good",
            "runtime_env": {"working_dir": "gcs://_ray_pkg_b.zip"}
        }
        self.assertEqual(c.ask("POST", "/api/jobs/", token, json.dumps(body).encode())[0], 200)
        self.assertEqual(c.await_state("good", "FAILED", "SUCCEEDED")["status"], "SUCCEEDED")

    def test_codes_and_texts_are_rays(self):
        c, token = self.cluster, self.cluster.token()

        def ask(code, text, method, path, body=None, given=token):
            answer = c.ask(method, path, given, body)
            self.assertEqual(answer[0], code, answer)
            if code < 400:
                self.assertIn(text, answer[1])
                return
            error = json.loads(answer[1])  # whatever the path
            self.assertIn(text, error["msg"] if "msg" in error else error["error"]["message"])

        ended = c.submit("/bin/true", options=("--submission-id", "ended"))
        c.await_state(ended, "SUCCEEDED")
        ask(404, "Job nothing does not exist", "GET", "/api/jobs/nothing")
        ask(404, "Job nothing does not exist", "POST", "/api/jobs/nothing/stop", b"")
        ask(404, "Job nothing does not exist", "DELETE", "/api/jobs/nothing")
        ask(404, "does not exist", "GET", "/api/jobs/nothing/logs")
        ask(200, '{"stopped":false}', "POST", "/api/jobs/ended/stop", b"")
        ask(400, "already exists. Please use a different submission_id.", "POST", "/api/jobs/",
            b'{"entrypoint": "true", "submission_id": "ended"}')
        ask(400, "not JSON", "POST", "/api/jobs/", b'{"entrypoint": ')
        ask(400, '"entrypoint" must be', "POST", "/api/jobs/", b'{"entrypoint": 7}')
        ask(400, "must be a JSON object", "POST", "/api/jobs/", b"[]")
        ask(400, "name of a package", "PUT", "/api/packages/gcs/..zip", b"x")
        ask(404, "does not exist", "GET", "/api/packages/gcs/_ray_pkg_dead.zip")
        ask(404, "", "GET", "/api/v0/logs/file?filename=..%2F..%2Fetc%2Fpasswd")
        ask(400, "there is no parameter", "GET", "/api/v0/tasks?colour=red")
        ask(401, "Missing authentication token", "GET", "/api/jobs/ended", None, None)
        ask(403, "Invalid authentication token", "GET", "/api/jobs/ended", None, "0" * 64)
        self.assertEqual(c.job_state("ended")["status"], "SUCCEEDED")


class Queue(WithCluster):
    options = ("--max-running-jobs", "2", "--labels", "zone=a")

    def test_no_more_run_than_may_and_the_highest_priority_begins_first(self):
        c = self.cluster
        running = [c.submit("/bin/sleep", "600") for _ in range(2)]
        for job in running:
            c.await_state(job, "RUNNING")
        low, high = (c.submit("/bin/sleep", "600", options=("--priority", priority))
                     for priority in ("2", "9"))
        self.assertIn("2 jobs run, and no more may", c.job_state(low)["message"])
        c.job("stop", running[0])
        c.await_state(high, "RUNNING")
        self.assertEqual(c.job_state(low)["status"], "PENDING")
        c.job("stop", running[1])
        c.await_state(low, "RUNNING")
        for job in (low, high):
            c.job("stop", job)

    def test_what_a_driver_holds_decides_when_it_begins(self):
        c = self.cluster
        first = c.submit("/bin/sleep", "600", options=("--entrypoint-num-cpus", "2"))
        c.await_state(first, "RUNNING")
        c.await_status("2/2 CPU")
        second = c.submit("/bin/true", options=("--entrypoint-num-cpus", "1.5"))
        self.assertIn("needs 1.5 CPU", c.await_state(second, "PENDING")["message"])
        follower = subprocess.Popen(
            [CRT, "job", "logs", "--address", c.address, "--follow", second], text=True,
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
            env=dict(os.environ, CRT_TELL_WAITS="0.2"))
        self.assertRegex(follower.stderr.readline(),
                         rf"^Job '{second}' is still waiting to start: .*needs 1.5 CPU")
        c.job("stop", first)
        self.assertEqual(follower.communicate(timeout=PATIENCE)[1], "")
        c.await_state(second, "SUCCEEDED")
        c.await_status("0/2 CPU")
        self.assertIn("--retries takes", c.job("submit", "--retries", "0.5", "--", "x", code=2))
        self.assertIn("--entrypoint-num-cpus takes",
                      c.job("submit", "--entrypoint-num-cpus", "x", "--", "x", code=2))

    def test_a_job_that_fails_is_run_again(self):
        c = self.cluster
        with tempfile.TemporaryDirectory() as directory:
            mark = os.path.join(directory, "mark")
            script = (f"echo attempt; [ $(cat {mark} | wc -l) -ge 3 ] && echo at last && exit 0; "
                      f"echo x >>{mark}; exit 7")
            open(mark, "w").close()
            said = c.job("submit", "--submission-id", "stubborn", "--retries", "5", "--", "/bin/sh",
                         "-c", script)
            self.assertIn("\nattempt\nat last\n",
                          said)  # of attempts that end at once not each one is seen
            self.assertIn("Job 'stubborn' succeeded", said)
            jobs = {row["submission_id"]: row for row in json.loads(c.job("list", "--json"))}
            self.assertEqual(jobs["stubborn"]["attempt_number"], 3)
            for attempt in (1, 2, 3):
                failed = jobs[f"stubborn.attempt-{attempt}"]
                self.assertEqual((failed["status"], failed["driver_exit_code"]), ("FAILED", 7))
            self.assertNotIn("at last\n", c.job("logs", "--tail", "1", "stubborn.attempt-1"))
            said = c.job("submit", "--retries", "1", "--", "/bin/sh", "-c", "exit 3", code=3)
            self.assertLessEqual(said.count("it is run again"), 1)
            slow = c.job("submit", "--retries", "2", "--", "/bin/sh", "-c",
                         "echo attempt; sleep 1; exit 3", code=3)
            self.assertIn("Attempt 1 of job", slow)
            self.assertIn("Attempt 2 of job", slow)
            self.assertGreaterEqual(slow.count("\nattempt\n"),
                                    3)  # the message has the last one, too


class TwoHosts(WithCluster):
    options = ("--labels", "zone=a")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # Its own directories: nothing of the head's host is to be found there.
        cls.place = tempfile.TemporaryDirectory()
        cls.env = dict(os.environ, CRT_RUN_DIR=f"{cls.place.name}/run",
                       CRT_STATE_DIR=f"{cls.place.name}/state")
        subprocess.run([
            CRT, "start", "--address", cls.cluster.address, "--key-file", cls.cluster.key,
            "--labels", "zone=b", "--resources", "far=1,tape=0.1", "--num-cpus", "3",
            "--object-store-memory", "50M"
        ], env=cls.env, check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        subprocess.run([CRT, "stop"], env=cls.env, check=True, stdout=subprocess.DEVNULL)
        super().tearDownClass()
        cls.place.cleanup()

    def test_amounts_are_printed_as_they_were_given(self):
        for command in (("list", "nodes"), ("list", "nodes", "--format", "json"),
                        ("list", "nodes", "--detail"), ("status", "--json")):
            self.assertRegex(self.cluster.crt(*command), r'"?tape"?: ?0\.1\b', command)

    def test_a_driver_runs_on_the_node_that_has_what_it_asks_for(self):
        c = self.cluster
        nodes = {row["labels"].get("zone"): row["node_id"]
                 for row in json.loads(c.crt("list", "nodes", "--format", "json"))}
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "data"), "w") as file:
                file.write("from the folder\n")
            with open(os.path.join(folder, "prog"), "w") as file:
                file.write("#!/bin/sh\necho $0; cat data\n")
            os.chmod(os.path.join(folder, "prog"), 0o755)
            for options in (("--entrypoint-resources", "far=1"), ("--entrypoint-label", "zone=b"),
                            ("--entrypoint-label", "zone=!a"), ("--entrypoint-num-cpus", "3")):
                said = c.job("submit", "--working-dir", folder, *options, "--", "./prog")
                self.assertIn("./prog\nfrom the folder\n", said)
                job = re.search(r"Job '(\S+)' submitted", said)[1]
                self.assertEqual(c.job_state(job)["driver_node_id"], nodes["b"], options)
                self.assertIn("from the folder", c.job("logs", job))
            said = c.job("submit", "--entrypoint-resources", "far=1", "--",
                         os.path.join(folder, "prog"), code=1)
            self.assertIn("prog\n", said)  # the script alone, without the folder
        here = c.submit("/bin/true")
        self.assertEqual(c.await_state(here, "SUCCEEDED")["driver_node_id"], nodes["a"])
        directory = f"{self.place.name}/state/node-{nodes['b'][:8]}/jobs"
        self.assertIn(c.job_state(job)["job_id"], os.listdir(directory))
        c.job("delete", job)
        end = time.monotonic() + PATIENCE
        while len(os.listdir(directory)) != 4:
            assert time.monotonic() < end, os.listdir(directory)
            time.sleep(0.02)

    def test_what_no_node_has_waits_with_the_reason(self):
        c = self.cluster
        job = c.submit("/bin/true", options=("--entrypoint-resources", "moon=1"))
        self.assertIn("moon", c.job_state(job)["message"])
        c.job("stop", job)
        self.assertEqual(c.job_state(job)["status"], "STOPPED")


class NoToken(WithCluster):
    options = ("--no-auth",)

    def test_everybody_of_this_host_may_and_other_sites_may_not(self):
        c = self.cluster
        self.assertEqual(
            json.loads(c.ask("GET", "/api/authentication_mode")[1])["authentication_mode"],
            "disabled")
        self.assertEqual(c.ask("GET", "/api/version")[0], 200)
        body = json.dumps({"entrypoint": "echo open", "submission_id": "open"}).encode()
        self.assertEqual(
            c.ask("POST", "/api/jobs/", None, body, {"Origin": "http://evil.example"})[0], 405)
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
        done = subprocess.run([
            CRT, "start", "--head", "--port", "0", "--dashboard-port", "0", "--no-auth",
            "--dashboard-host", "0.0.0.0"
        ], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--no-auth needs a dashboard that listens on loopback only", done.stdout)
        done = subprocess.run([CRT, "start", "--address", "127.0.0.1:1", "--no-auth"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        self.assertIn("--no-auth belongs to the head", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
