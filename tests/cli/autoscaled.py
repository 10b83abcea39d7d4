# SPDX-License-Identifier: Apache-2.0
"""What tests of the autoscaler share: a cluster that grows and shrinks, and waiting for it."""
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

from real_cluster import dashboard_of, state_of


class Autoscaled(unittest.TestCase):
    """A head whose own node has no CPU to give."""
    CRT = None
    PATIENCE = 180

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="crt-a-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = None  # that of the test

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o600):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def crt(self, *arguments, code=0):
        done = subprocess.run([self.CRT, *arguments], text=True, timeout=self.PATIENCE,
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=self.environment)
        if code is not None and done.returncode != code:
            raise AssertionError((arguments, done.returncode, done.stdout))
        return done.stdout

    def start(self, rules):
        said = self.crt("start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus",
                        "0", "--node-ip-address", "127.0.0.1", "--object-store-memory", "64M",
                        "--autoscaler", self.write("rules.yaml", rules))
        self.address, self.key = re.search(r"--address (\S+) --key-file (\S+)", said).groups()
        self.addCleanup(self.crt, "stop", "--address", self.address, code=None)
        self.url = dashboard_of(said)
        self.token = self.crt("token", "--address", self.address).strip()

    def start_again(self):
        """The head is killed, and started again on its port."""
        port = self.address.rsplit(":", 1)[1]
        run_dir = (self.environment or os.environ)["CRT_RUN_DIR"]
        with open(os.path.join(run_dir, f"head-{port}", "head.info"), encoding="utf-8") as info:
            os.kill(int(re.search(r"^pid (\d+)$", info.read(), re.M)[1]), signal.SIGKILL)
        self.url = dashboard_of(
            self.crt("start", "--head", "--port", port, "--dashboard-port", "0", "--num-cpus", "0",
                     "--node-ip-address", "127.0.0.1", "--object-store-memory", "64M",
                     "--autoscaler", self.path("rules.yaml")))

    def state(self):
        return state_of(self.url, self.token)

    def nodes(self, state="ALIVE"):
        """Those that were asked for."""
        return [n for n in self.state()["nodes"]
                if n["state"] == state and "crt/instance=" in n["labels"]]

    def until(self, what, is_so):
        end = time.monotonic() + self.PATIENCE
        while True:
            found = is_so()
            if found:
                return found
            if time.monotonic() > end:
                self.fail(f"not in {self.PATIENCE} s: {what}\n" +
                          self.crt("status", "-v", "--address", self.address, code=None))
            time.sleep(0.1)
