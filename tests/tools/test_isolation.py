#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_isolation.py MESON BUILD            (a test: some of each kind of test beside a user's
cluster) test_isolation.py MESON BUILD COMMAND...    (any command, for example tests/run.sh, beside
a busy one)

Starts a cluster as a user has one, in the default directories and named by the environment, runs
the command with that environment, and checks that the cluster was neither used nor changed: no job
but its own, the same processes, the same files. With a COMMAND a job of the cluster keeps all CPUs
of the host and of the cluster busy meanwhile.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

MESON, BUILD = sys.argv[1:3]
COMMAND = sys.argv[3:]
CRT = os.path.join(BUILD, "cli", "crt")
EXAMPLES = os.path.join(BUILD, "examples")
# Tests whose drivers start a cluster of their own where they find none, and one that looks for
# clusters.
SOME = ["core/cluster", "core/few_files", "core/which_cluster", "examples/on clusters of their own"]
BUSY = "while :; do {examples}/monte_carlo_pi --tasks {cpus} --samples 100000000; done"


def run(*words, env, **more):
    done = subprocess.run(words, env=env, text=True, **more)
    if done.returncode != 0:
        raise AssertionError(f"{words} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Cluster:
    """A user's, below `folder`, and what is seen of it."""

    def __init__(self, folder):
        self.folder = folder
        self.runtime = os.path.join(folder, "run")
        self.state = os.path.join(folder, "state")
        self.env = {
            name: value
            for name, value in os.environ.items() if not name.startswith("CRT_")
        }
        self.env |= {"XDG_RUNTIME_DIR": self.runtime, "XDG_STATE_HOME": self.state}
        os.mkdir(self.runtime, 0o700)
        cpus = ["--num-cpus", "1"] if not COMMAND else []
        said = self.crt("start", "--head", "--port", "0", "--dashboard-port", "0",
                        "--object-store-memory", "50M", *cpus)
        self.env["CRT_ADDRESS"] = said.split()[2]
        self.env["CRT_KEY_FILE"] = glob.glob(f"{self.state}/crt/head-*/cluster.key")[0]

    def crt(self, *words):
        return run(CRT, *words, env=self.env, capture_output=True)

    def status(self):
        return json.loads(self.crt("status", "--json"))

    def job_ids(self):
        return sorted(job["job_id"] for job in self.status()["jobs"])

    def processes(self):
        """Of the cluster: the node's and the head's directory is in the environment of what they
        executed."""
        found = set()
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as file:
                    if f"DIR={self.runtime}/crt-".encode() in file.read():
                        found.add(path.split("/")[2])
            except OSError:  # it has ended, or is another user's
                pass
        for info in glob.glob(f"{self.runtime}/crt-*/*/*.info"):
            with open(info, encoding="utf-8") as file:
                found |= {line.split()[1] for line in file if line.startswith("pid ")}
        return found

    def files(self):
        """Those of crt: a compiler that a test runs may put its own beside them."""
        found = glob.glob("run/crt*/**", root_dir=self.folder, recursive=True, include_hidden=True)
        found += glob.glob("state/**", root_dir=self.folder, recursive=True, include_hidden=True)
        return sorted(name for name in found if not os.path.isdir(os.path.join(self.folder, name)))

    def stop(self):
        self.crt("stop", "--force")


def keep_busy(cluster):
    """The job that its owner has on it; it takes more work than there are CPUs, for ever."""
    script = BUSY.format(examples=EXAMPLES, cpus=2 * os.cpu_count())
    cluster.crt("job", "submit", "--no-wait", "--submission-id", "busy", "--", "/bin/sh", "-c",
                script)
    deadline = time.monotonic() + 60
    while not any(actor for actor in cluster.job_ids()):
        assert time.monotonic() < deadline, "the busy job does not begin"
        time.sleep(0.05)


def suite(cluster):
    inner = [MESON, "test", "-C", BUILD, "--no-rebuild", "--logbase", "isolation",
             "--print-errorlogs", *SOME]
    run(*inner, env=cluster.env, capture_output=True)
    # What the suite's longest example does, in short: it joins a cluster where it finds one.
    isolated = os.path.join(os.path.dirname(os.path.abspath(__file__)), "isolated.py")
    run(isolated, os.path.join(EXAMPLES, "train_mnist"), "--iterations", "1", "--hidden", "8",
        "--workers", "2", env=cluster.env, capture_output=True)


def check(cluster):
    if COMMAND:
        keep_busy(cluster)
    before = cluster.job_ids(), cluster.processes(), cluster.files()
    if COMMAND:
        status = subprocess.run(COMMAND, env=cluster.env).returncode
        assert cluster.job_ids() == before[0], ("foreign jobs", cluster.job_ids(), before[0])
        print(
            f"the cluster {cluster.env['CRT_ADDRESS']} has no job but its own; the command ended "
            f"with {status}"
        )
        return status
    suite(cluster)
    assert cluster.job_ids() == before[0] == [], cluster.job_ids()
    assert cluster.processes() == before[1] != set(), (cluster.processes(), before[1])
    assert cluster.files() == before[2] != [], set(cluster.files()) ^ set(before[2])
    # Whoever does join is seen.
    run(os.path.join(EXAMPLES, "monte_carlo_pi"), "--tasks", "1", "--samples", "10",
        env=cluster.env, capture_output=True)
    assert len(cluster.job_ids()) == 1, cluster.job_ids()
    return 0


def main():
    folder = tempfile.mkdtemp(prefix="crt-user-", dir="/tmp")  # short: sockets lie below it
    cluster = None
    try:
        cluster = Cluster(folder)
        return check(cluster)
    finally:
        if cluster:
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
