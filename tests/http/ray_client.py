#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ray's unmodified client against a cluster of crt: `ray job`, JobSubmissionClient, `ray
list|get|summary` of every resource, and `ray logs`; with the token and with --no-auth.
Usage: ray_client.py [--no-install] CRT STATE_PROGRAM [PYTHON]   PYTHON: one that can import
ray[default]; also of CRT_RAY_PYTHON. Where none can, the client is installed into a private
environment from the Python registry, unless --no-install is given; without a client the test says
"skipped" and exits with 77.

`ray logs` asks Ray's own control service by gRPC for the address of the dashboard before it speaks
HTTP; a stand-in for that one answer (GCS below) is a part of this test and of no cluster."""
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap

FAILURES = []
INSTALLS_NOTHING = "--no-install" in sys.argv
sys.argv = [word for word in sys.argv if word != "--no-install"]


def run(command, env, status=0, within=120):
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=within)
    assert done.returncode == status, (
        f"{command}: status {done.returncode}, not {status}:\n{done.stdout}")
    return done.stdout


def has_client(python):
    return subprocess.run([python, "-c", "import ray.job_submission, aiohttp"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def find_python(given, directory):
    for python in filter(None, [given, os.environ.get("CRT_RAY_PYTHON"), sys.executable]):
        if has_client(python):
            return python
    venv = os.path.join(directory, "venv")
    if INSTALLS_NOTHING:
        print("skipped: no Python here can import ray[default] (CRT_RAY_PYTHON names one)")
        sys.exit(77)
    try:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([f"{venv}/bin/pip", "install", "-q", "ray[default]==2.60.*"], check=True,
                       timeout=600)
    except (subprocess.SubprocessError, OSError):
        print("skipped: neither is ray[default] importable nor can the Python registry be reached")
        sys.exit(77)
    return f"{venv}/bin/python3"


SDK = textwrap.dedent("""
    import asyncio, sys
    from ray.job_submission import JobSubmissionClient
    client = JobSubmissionClient(sys.argv[1])
    job = client.submit_job(entrypoint="cat data; sh -c 'i=0; while [ $i -lt 2000 ]; do "
                                       "echo line $i; i=$((i+1)); done'",
                            runtime_env={"working_dir": sys.argv[2], "env_vars": {"K": "V"}},
                            metadata={"m": "n"})
    async def follow():
        text = ""
        async for part in client.tail_job_logs(job):
            text += part
        return text
    text = asyncio.run(follow())
    assert "from the folder" in text and text.endswith("line 1999\\n"), text[-200:]
    assert text.count("\\nline ") == 2000, text.count("\\nline ")
    assert client.get_job_status(job) == "SUCCEEDED", client.get_job_status(job)
    assert client.get_job_logs(job) == text
    info = client.get_job_info(job)
    assert info.metadata == {"m": "n"} and info.runtime_env["env_vars"] == {"K": "V"}, info
    assert job in [j.submission_id for j in client.list_jobs()]
    assert client.stop_job(job) is False
    assert client.delete_job(job) is True
    for call in (client.get_job_status, client.get_job_logs, client.stop_job, client.delete_job):
        try:
            call(job)
            raise AssertionError(call)
        except RuntimeError as error:
            assert "404" in str(error) and "does not exist" in str(error), error
    try:
        asyncio.run(follow())
        raise AssertionError("a log of nothing")
    except Exception as error:
        assert "404" in str(error), error
""")

# What `ray logs` asks before it speaks HTTP: the cluster's id, then where the dashboard is.
GCS = textwrap.dedent("""
    import sys
    from concurrent.futures import ThreadPoolExecutor
    import grpc
    from ray.core.generated import gcs_service_pb2 as pb

    def answer(method, request):
        if method.endswith("/GetClusterId"):
            return pb.GetClusterIdReply(cluster_id=b"1" * 28)
        if method.endswith("/InternalKVGet"):
            return pb.InternalKVGetReply(value=sys.argv[1].encode())
        if method.endswith("/CheckAlive"):
            return pb.CheckAliveReply(ray_version="2.60.0")
        print("asked for", method, file=sys.stderr, flush=True)
        return None

    class Handler(grpc.GenericRpcHandler):
        def service(self, details):
            def serve(request, context):
                reply = answer(details.method, request)
                if reply is None:
                    context.abort(grpc.StatusCode.UNIMPLEMENTED, details.method)
                return reply.SerializeToString()
            return grpc.unary_unary_rpc_method_handler(serve)

    server = grpc.server(ThreadPoolExecutor(4), handlers=(Handler(),))
    print(server.add_insecure_port("0.0.0.0:0"), flush=True)
    server.start()
    sys.stdin.read()
""")


def check(name, function, *arguments):
    """Every failure is told, not the first one alone."""
    try:
        function(*arguments)
    except (AssertionError, subprocess.TimeoutExpired, ValueError, KeyError, IndexError,
            TypeError) as error:
        FAILURES.append(name)
        print(f"FAILED: {name}\n{error}", flush=True)


class Client:
    """Commands of Ray's client."""

    def __init__(self, ray, url, env, folder):
        self.ray, self.url, self.env, self.folder = ray, url, env, folder

    def job(self, command, *arguments, status=0):
        return run([self.ray, "job", command, "--address", self.url, *arguments], self.env, status)

    def says(self, expected, *arguments, status=0):
        text = self.job(*arguments, status=status)
        assert expected in text, (arguments, expected, text)

    def state(self, command, *arguments, status=0):
        return run([self.ray, command, *arguments[:1], "--address", self.url, *arguments[1:]],
                   self.env, status)

    def rows(self, resource, *arguments):
        text = self.state("list", resource, "--format", "json", *arguments)
        assert "[" in text or "No resource" in text, text
        return json.loads(text[text.index("["):]) if "[" in text else []

    # ---- ray job

    def jobs_are_submitted_and_followed(self):
        text = self.job("submit", "--", "sh", "-c", "echo hi $((6*7))")
        assert "hi 42" in text and "succeeded" in text, text
        text = self.job("submit", "--", "sh", "-c", "exit 3", status=1)
        assert "failed" in text and "exit code 3" in text, text
        text = self.job("submit", "--working-dir", self.folder, "--", "./prog")
        assert "I run" in text and "from the folder" in text and "succeeded" in text, text
        text = self.job("submit", "--working-dir", self.folder, "--runtime-env-json",
                        '{"env_vars": {"K": "V"}}', "--entrypoint-num-cpus", "1", "--metadata-json",
                        '{"who": "me"}', "--", "sh", "-c", "echo $K; cat data")
        assert "V\nfrom the folder" in text, text

    def jobs_are_watched_and_stopped(self):
        self.job("submit", "--no-wait", "--submission-id", "long", "--", "sh", "-c",
                 "echo starts; sleep 600")
        text = self.job("submit", "--no-wait", "--submission-id", "long", "--", "true", status=1)
        assert "already exists" in text, text
        text = self.job("status", "long")
        assert "Status for job 'long'" in text, text
        follower = subprocess.Popen([self.ray, "job", "logs", "-f", "--address", self.url, "long"],
                                    env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True)
        text = ""
        while "starts" not in text:
            line = follower.stdout.readline()
            assert line, text
            text += line
        self.says("was stopped", "stop", "long")
        assert follower.wait(60) == 0
        self.says("stopped", "status", "long")
        self.says("starts", "logs", "long")
        self.says("submission_id='long'", "list")
        self.says("deleted successfully", "delete", "long")
        self.says("does not exist", "status", "long", status=1)
        self.says("does not exist", "delete", "long", status=1)

    # ---- ray list, get, summary

    def state_of(self, resource, some, key):
        """`some`: a filter that holds for a row; `key`: the column of its id, as `ray get` takes
        it."""
        name, value = some.split("=")
        rows = self.rows(resource)
        chosen = self.rows(resource, "--filter", some)
        others = self.rows(resource, "--filter", f"{name}!={value}")
        assert chosen and all(str(row[name]).lower() == value.lower()
                              for row in chosen), (resource, some, chosen)
        assert all(str(row[name]).lower() != value.lower()
                   for row in others), (resource, some, others)
        assert len(self.rows(resource, "--limit", "1")) == 1, resource
        detailed = self.rows(resource, "--filter", some, "--detail")
        assert len(detailed[0]) >= len(rows[0]), (rows[0], detailed[0])
        assert "Stats:" in self.state("list", resource), resource
        if key:
            text = self.state("get", resource, detailed[0][key])
            assert detailed[0][key] in text, text

    def nothing_is_a_list_too(self):
        for resource in ("runtime-envs", "cluster-events"):
            self.state("list", resource, "--detail")

    def filters_that_are_none_are_refused(self):
        text = self.state("list", "tasks", "--filter", "colour=red", status=2)
        assert "colour" in text, text

    def summaries(self):
        assert "Counter.add" in self.state("summary", "tasks"), "summary tasks"
        assert "Counter" in self.state("summary", "actors"), "summary actors"
        assert "state_program.c:" in self.state("summary", "objects"), "summary objects"


def all_commands(client, python):
    check("ray job submit", client.jobs_are_submitted_and_followed)
    check("ray job", client.jobs_are_watched_and_stopped)
    check("JobSubmissionClient", run, [python, "-c", SDK, client.url, client.folder], client.env)
    check("nodes", client.state_of, "nodes", "state=ALIVE", "node_id")
    check("actors", client.state_of, "actors", "class_name=Counter", "actor_id")
    check("tasks", client.state_of, "tasks", "name=Counter.add", "task_id")
    check("objects", client.state_of, "objects", "reference_type=LOCAL_REFERENCE", "object_id")
    check("workers", client.state_of, "workers", "worker_type=WORKER", "worker_id")
    check("jobs", client.state_of, "jobs", "type=DRIVER", None)
    check("placement-groups", client.state_of, "placement-groups", "state=CREATED",
          "placement_group_id")
    check("empty lists", client.nothing_is_a_list_too)
    check("filters", client.filters_that_are_none_are_refused)
    check("ray summary", client.summaries)


def logs(client, gcs, job):
    def ask(*arguments, status=0):
        return run([client.ray, "logs", *arguments, "--address", f"127.0.0.1:{gcs}"], client.env,
                   status)

    actor = client.rows("actors")[0]
    node = client.rows("nodes")[0]["node_id"]
    text = ask("cluster", "--node-id", node)
    assert "actor_out" in text and actor["actor_id"] in text, text
    assert "an actor says so" in ask("actor", "--id", actor["actor_id"], "--node-id",
                                     node), "ray logs actor"
    assert "an actor says so" in ask("cluster", actor["actor_id"], "--node-id", node, "--tail",
                                     "-1"), "ray logs cluster"
    assert "an actor says so" in ask("worker", "--pid", str(actor_pid(client, actor)), "--node-id",
                                     node), "ray logs worker"
    text = ask("job", "--id", job)
    assert "hi from a job" in text, text
    text = ask("job", "--id", job, "--follow")  # to its end
    assert "hi from a job" in text, text
    ask("actor", "--id", "0" * 32, status=1)


def actor_pid(client, actor):
    rows = client.rows("actors", "--filter", f"actor_id={actor['actor_id']}", "--detail")
    return rows[0]["pid"]


@contextlib.contextmanager
def cluster(crt, program, directory, env, options):
    text = run([
        crt, "start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus", "4", *options
    ], env)
    try:
        address = re.search(r"--address (\S+) --key-file", text)[1]
        running = subprocess.Popen([program], env=dict(env, CRT_ADDRESS=address,
                                                       SAYS="1"), stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while running.stdout.readline() != "ready\n":
            assert running.poll() is None, "the program ended"
        yield re.search(r"(http://[0-9.:]+)", text)[1], run([crt, "token"], env).strip()
        running.communicate("\n", timeout=60)
    finally:
        run([crt, "stop"], env)


@contextlib.contextmanager
def stand_in(python, url, env):
    process = subprocess.Popen([python, "-c", GCS, url.split("//")[1]], env=env,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline())
    finally:
        process.communicate("", timeout=60)


def main():
    crt, program = map(os.path.abspath, sys.argv[1:3])
    with tempfile.TemporaryDirectory(prefix="crt-ray-") as directory:
        python = find_python(sys.argv[3] if len(sys.argv) > 3 else None, directory)
        ray = os.path.join(os.path.dirname(python), "ray")
        folder = os.path.join(directory, "folder")
        os.mkdir(folder)
        with open(os.path.join(folder, "data"), "w") as file:
            file.write("from the folder\n")
        with open(os.path.join(folder, "prog"), "w") as file:
            file.write("#!/bin/sh\necho I run; cat data\n")
        os.chmod(os.path.join(folder, "prog"), 0o755)
        for mode, options in (("token", ()), ("disabled", ("--no-auth",))):
            env = {k: v for k, v in os.environ.items() if not k.startswith(("CRT_", "RAY_"))}
            env.update(CRT_RUN_DIR=f"{directory}/run", CRT_STATE_DIR=f"{directory}/state",
                       RAY_AUTH_MODE=mode, HOME=directory, PYTHONWARNINGS="ignore")
            print(f"== RAY_AUTH_MODE={mode}", flush=True)
            with cluster(crt, program, directory, env, options) as (url, token):
                if mode == "token":
                    env["RAY_AUTH_TOKEN"] = token
                client = Client(ray, url, env, folder)
                all_commands(client, python)
                client.job("submit", "--submission-id", f"said-{mode}", "--", "echo",
                           "hi from a job")
                with stand_in(python, url, env) as gcs:
                    check("ray logs", logs, client, gcs, f"said-{mode}")
                if mode == "token":
                    env["RAY_AUTH_TOKEN"] = "0" * 64
                    check("wrong token", lambda: client.job("list", status=1).index("Forbidden"))
    if FAILURES:
        sys.exit(f"{len(FAILURES)} failed: {', '.join(FAILURES)}")
    print("every command of Ray's client passed")


main()
