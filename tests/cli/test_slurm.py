#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crt slurm under a real Slurm with four nodes (slurm_lab.py). Usage: test_slurm.py CRT PROGRAMS
CONTEXT_PROGRAM"""
import os
import re
import signal
import subprocess
import sys
import unittest

import slurm_lab

CRT, PROGRAMS, CONTEXT_PROGRAM = (os.path.abspath(path) for path in sys.argv[1:4])
MARK = f"CRT_TEST_MARK={os.getpid()}"


def marked(name=""):
    """Processes of this test's jobs, of that program name."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                is_marked = MARK.encode() in file.read().split(b"\0")
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                command = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if is_marked and name in command and int(entry) != os.getpid():
            found.append((int(entry), command))
    return found


class UnderSlurm(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.slurm = slurm_lab.Slurm(4)

    @classmethod
    def tearDownClass(cls):
        cls.slurm.end()

    def setUp(self):
        self.runs = self.slurm.path("runs")
        os.makedirs(self.runs, 0o700, exist_ok=True)
        self.env = {"CRT_RUN_DIR": self.runs, "CRT_TEST_MARK": MARK.split("=")[1]}

    def tearDown(self):
        self.doCleanups()
        slurm_lab.until("nothing of the job is left", lambda: not marked("crt"))
        self.assertEqual(os.listdir(self.runs), [])
        slurm_lab.until("all nodes are idle", lambda: self.slurm.run(
            "sinfo", "-h", "-N", "-o", "%t").split() == ["idle"] * 4)

    def crt(self, *arguments, code=0):
        return self.slurm.run(CRT, "slurm", *arguments, code=code, env=self.env)

    def start(self, *arguments):
        run = subprocess.Popen([CRT, "slurm", *arguments], text=True, stdout=subprocess.PIPE,
                               env=self.slurm.environment | self.env)
        self.addCleanup(run.wait, slurm_lab.PATIENCE)
        self.addCleanup(run.kill)
        return run

    def test_a_program_has_the_nodes_of_the_job_and_its_status_is_the_commands(self):
        look = (f'printf "begin\\nno end"; echo " nodes=$({CRT} status | grep -c ALIVE)" >&2; '
                "exit 7")
        said = self.crt("-N", "4", "--", "sh", "-c", look, code=7)
        self.assertIn("begin\nno end", said)
        self.assertIn(" nodes=4\n", said)
        self.assertNotIn("crt-slurm", said)

    def test_a_program_trains_unchanged_by_the_batch_file(self):
        batch = os.path.join(PROGRAMS, "../../examples/slurm/train_mnist.sbatch")
        folder = self.slurm.path("batch")
        os.makedirs(folder)
        os.symlink(os.path.join(PROGRAMS, "train_mnist"), folder + "/train_mnist")
        path = f"{os.path.dirname(CRT)}:{self.slurm.environment['PATH']}"
        self.slurm.run("sbatch", "--wait", f"--chdir={folder}", "--output=out", batch,
                       env=self.env | {"PATH": path})
        with open(folder + "/out", encoding="utf-8") as file:
            said = file.read()
        self.assertRegex(said, r"final accuracy: 0\.[3-9]")
        self.assertIsNone(re.search(r"[0-9a-f]{64}", said), said)

    def test_a_program_takes_a_job_by_its_own_option(self):
        said = self.slurm.run(CONTEXT_PROGRAM, "--cluster", "slurm:3", env=self.env)
        self.assertRegex(said, r"(?m)^http +http://127\.0\.0\.1:\d+", said)
        self.assertIn("nodes 3\n", said)
        self.slurm.run(CONTEXT_PROGRAM, "--cluster", "slurm:2", "fail", code=7, env=self.env)

    def test_a_cancelled_job_leaves_nothing(self):
        begun = self.slurm.path("begun")
        run = self.start("-N", "4", "--", "sh", "-c", f"touch {begun}; exec sleep 1000")
        slurm_lab.until("the program runs", lambda: os.path.exists(begun))
        self.assertEqual(len(marked("crt-node")), 4)
        self.slurm.run("scancel", "-u", "root")
        run.communicate(timeout=slurm_lab.PATIENCE)
        self.assertNotEqual(run.returncode, 0)

    def test_an_interrupted_or_killed_command_ends_its_job(self):
        for number, status in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
            begun = self.slurm.path(f"begun-{number}")
            run = self.start("-N", "2", "--", "sh", "-c", f"touch {begun}; exec sleep 1000")
            slurm_lab.until("the program runs", lambda path=begun: os.path.exists(path))
            run.send_signal(number)
            run.stdout.close()
            self.assertEqual(run.wait(slurm_lab.PATIENCE), status)
            slurm_lab.until("nothing is left", lambda: not marked("crt"))

    def test_a_lost_node_is_survived(self):
        begun, lost = self.slurm.path("begun-lost"), self.slurm.path("lost")
        run = self.start("-N", "4", "--", "sh", "-c",
                         f"touch {begun}; until test -e {lost}; do sleep 0.1; done; echo went on")
        slurm_lab.until("the program runs", lambda: os.path.exists(begun))
        victims = [pid for pid, command in marked("slurm-node")
                   if command.split()[1] == "slurm-node" and self.node_of(pid) == "3"]
        self.assertEqual(len(victims), 1)
        os.kill(victims[0], signal.SIGKILL)
        slurm_lab.until("its daemons have ended", lambda: len(marked("crt-node")) == 3)
        with open(lost, "w", encoding="ascii"):
            pass
        said, _ = run.communicate(timeout=slurm_lab.PATIENCE)
        self.assertIn("went on", said)

    def node_of(self, pid):
        with open(f"/proc/{pid}/environ", "rb") as file:
            found = re.search(rb"SLURM_NODEID=(\d+)", file.read())
        return found[1].decode() if found else ""

    def test_what_the_key_could_leave_by_is_refused(self):
        for option in ("-o", "-ofile", "--output=x", "--input", "--pty"):
            self.assertIn("is what crt slurm sees to", self.crt(option, "--", "true", code=2))
        self.assertIn("which program?", self.crt("-N", "2", code=2))

    def test_a_first_node_that_fails_ends_the_job(self):
        os.chmod(self.runs, 0o777)
        said = self.crt("-N", "4", "--", "true", code=1)
        self.assertIn("can be used by others", said)
        os.chmod(self.runs, 0o700)

    def test_the_key_is_in_no_argument(self):
        begun = self.slurm.path("begun-key")
        run = self.start("-N", "2", "--", "sh", "-c", f'cp "$CRT_KEY_FILE" {begun}.new; '
                         f"mv {begun}.new {begun}; exec sleep 1000")
        slurm_lab.until("the program runs", lambda: os.path.exists(begun))
        with open(begun, encoding="ascii") as file:
            key = file.read().strip()
        self.assertRegex(key, r"^[0-9a-f]{64}$")
        for pid, command in marked():
            self.assertNotIn(key, command)
            with open(f"/proc/{pid}/environ", "rb") as file:
                self.assertNotIn(key.encode(), file.read())
        run.send_signal(signal.SIGTERM)
        said, _ = run.communicate(timeout=slurm_lab.PATIENCE)
        self.assertNotIn(key, said)


if __name__ == "__main__":
    if slurm_lab.missing():
        print(f"skipped: needs {slurm_lab.missing()} (setup.sh --with-slurm)")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
