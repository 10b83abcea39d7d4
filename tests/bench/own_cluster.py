# SPDX-License-Identifier: Apache-2.0
"""A cluster of its own for a benchmark, also where its user runs one."""
import os
import re
import shutil
import subprocess
import tempfile

PATIENCE = 600


class OwnCluster:
    """A head with a node of two CPUs, in a folder that goes with it."""

    def __init__(self, build, store):
        self.command = os.path.join(build, "cli", "crt")
        self.folder = tempfile.mkdtemp(prefix="crt-bench-")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("CRT_")}
        self.env.update(CRT_RUN_DIR=f"{self.folder}/run", CRT_STATE_DIR=f"{self.folder}/state")
        said = self.run("start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus",
                        "2", "--object-store-memory", store)
        self.env["CRT_ADDRESS"] = self.address = re.search(r"--address (\S+) --key-file", said)[1]
        self.place = re.search(r"http://([0-9.:]+)", said)[1]  # of the dashboard

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        if os.path.isdir(self.folder):
            self.run("stop", "--force")
            shutil.rmtree(self.folder)

    def run(self, *words):
        return subprocess.run([self.command, *words], env=self.env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=True,
                              timeout=PATIENCE).stdout

    def start(self, says, *words):
        """A program that is told and tells by lines; its first one begins with `says`."""
        try:
            program = subprocess.Popen(words, env=self.env, stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            assert program.stdout.readline().startswith(says), f"{words[0]} ended"
        except (OSError, AssertionError):
            self.end()  # a constructor may have called, before there is anybody else who would
            raise
        return program
