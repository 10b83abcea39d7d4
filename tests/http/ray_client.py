#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ray's unmodified jobs client against a cluster of crt: every command of `ray job` and JobSubmissionClient.
Usage: ray_client.py CRT [RAY]   CRT: the command; RAY: a Python that can import ray[default]. Without RAY, and where
this Python can't, the client is installed into a private environment from the Python registry; where that can't be
reached either the test says "skipped" and exits with 77. It is no part of the default suite."""
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import textwrap


def run(command, env, status=0, within=120):
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=within)
    assert done.returncode == status, f"{command}: status {done.returncode}, not {status}:\n{done.stdout}"
    return done.stdout


def has_client(python):
    return subprocess.run([python, "-c", "import ray.job_submission, aiohttp"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def find_python(given, directory):
    for python in [given] if given else [sys.executable]:
        if has_client(python):
            return python
    venv = os.path.join(directory, "venv")
    try:
        subprocess.run([sys.executable, "-m", "venv", venv], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([f"{venv}/bin/pip", "install", "-q", "ray[default]==2.60.*"], check=True, timeout=600)
    except (subprocess.SubprocessError, OSError):
        print("skipped: neither is ray[default] importable nor can the Python registry be reached")
        sys.exit(77)
    return f"{venv}/bin/python3"


SDK = textwrap.dedent("""
    import asyncio, sys
    from ray.job_submission import JobSubmissionClient
    client = JobSubmissionClient(sys.argv[1])
    job = client.submit_job(entrypoint="cat data; sh -c 'i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done'",
                            runtime_env={"working_dir": sys.argv[2], "env_vars": {"K": "V"}}, metadata={"m": "n"})
    async def follow():
        text = ""
        async for part in client.tail_job_logs(job):
            text += part
        return text
    text = asyncio.run(follow())
    assert "from the folder" in text and text.endswith("line 1999\\n"), text[-200:]
    assert text.count("line ") == 2000, text.count("line ")
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


def commands(ray, url, env, folder):
    job = [ray, "job"]
    text = run(job + ["submit", "--address", url, "--", "sh", "-c", "echo hi $((6*7))"], env)
    assert "hi 42" in text and "succeeded" in text, text
    run(job + ["submit", "--address", url, "--", "sh", "-c", "exit 3"], env, status=1)
    text = run(job + ["submit", "--address", url, "--working-dir", folder, "--", "./prog"], env)
    assert "I run" in text and "from the folder" in text and "succeeded" in text, text
    run(job + ["submit", "--address", url, "--no-wait", "--submission-id", "long", "--", "sh -c 'echo starts; sleep 600'"], env)
    assert "Job submission server" in run(job + ["status", "--address", url, "long"], env)
    stopped = subprocess.Popen(job + ["logs", "-f", "--address", url, "long"], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
    text = ""
    while "starts" not in text:
        line = stopped.stdout.readline()
        assert line, text
        text += line
    run(job + ["stop", "--address", url, "long"], env)
    assert stopped.wait(60) == 0
    assert "STOPPED" in run(job + ["status", "--address", url, "long"], env)
    assert "starts" in run(job + ["logs", "--address", url, "long"], env)
    assert "long" in run(job + ["list", "--address", url], env)
    run(job + ["delete", "--address", url, "long"], env)
    assert "does not exist" in run(job + ["status", "--address", url, "long"], env, status=1)


def main():
    crt = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="crt-ray-") as directory:
        python = find_python(sys.argv[2] if len(sys.argv) > 2 else None, directory)
        ray = os.path.join(os.path.dirname(python), "ray")
        folder = os.path.join(directory, "folder")
        os.mkdir(folder)
        open(os.path.join(folder, "data"), "w").write("from the folder\n")
        open(os.path.join(folder, "prog"), "w").write("#!/bin/sh\necho I run; cat data\n")
        os.chmod(os.path.join(folder, "prog"), 0o755)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("CRT_", "RAY_"))}
        env.update(CRT_RUN_DIR=f"{directory}/run", CRT_STATE_DIR=f"{directory}/state", RAY_AUTH_MODE="token",
                   HOME=directory)
        text = run([crt, "start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus", "2"], env)
        try:
            url, token = re.search(r"(http://[0-9.:]+)/#token=([0-9a-f]+)", text).groups()
            env["RAY_AUTH_TOKEN"] = token
            commands(ray, url, env, folder)
            run([python, "-c", SDK, url, folder], env)
            env["RAY_AUTH_TOKEN"] = "0" * 64
            assert "Forbidden" in run([ray, "job", "list", "--address", url], env, status=1)
        finally:
            run([crt, "stop"], env)
    print("every command of Ray's client passed")


main()
