#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes of the autoscaler from a pool of hosts, by real ssh, from Slurm: a real one where it is
installed, and stand-ins for sbatch, squeue and scancel, and from Kubernetes: a stand-in for its API
server. Usage: test_providers.py CRT PROGRAM"""
import errno
import getpass
import glob
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import unittest

import kubernetes_lab
import slurm_lab
import test_up
from autoscaled import Autoscaled

CRT, PROGRAM = (os.path.abspath(path) for path in sys.argv[1:3])
PATIENCE = 180
TYPES = "node-types:\n  small: {max: 3, num-cpus: 1, object-store-memory: 64M}\n"


class Cluster(Autoscaled):
    CRT = CRT

    def setUp(self):
        super().setUp()
        self.environment = dict(os.environ, CRT_RUN_DIR=self.path("r"),
                                CRT_STATE_DIR=self.path("s"))

    def start(self, provider, more="idle-timeout: 2s\n"):
        super().start(f"provider: {provider}\n{more}{TYPES}")

    def message(self):
        return self.state()["autoscaler"]["node_types"][0]["message"]

    def request(self, count):
        self.crt("request", "--address", self.address, *([f"{count}*CPU=1"] if count else
                                                         ["--none"]))

    def run_tasks(self, count):
        done = subprocess.run([PROGRAM, "tasks", str(count), "0.1"], text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=PATIENCE,
                              env=self.environment | {"CRT_ADDRESS": self.address})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, rf"(?m)^done {count} ")


@unittest.skipUnless(test_up.SSHD, "no sshd: apt-get install openssh-server")
class Pool(Cluster):

    def setUp(self):
        super().setUp()
        self.lab = test_up.Lab(3)
        self.addCleanup(self.lab.end)

    def start_pool(self, hosts):
        self.start(f"{{ssh: {{hosts: {hosts}, crt: {CRT}, "
                   f"options: [-F, {self.lab.path('config')}]}}}}")

    def table(self):
        try:
            with open(os.path.join(os.path.dirname(self.key), "pool.json"),
                      encoding="utf-8") as file:
                rows = json.load(file)["hosts"]
        except OSError:
            return {}
        return {host: row["instance"] for host, row in rows.items() if row["instance"]}

    def test_hosts_of_a_pool_come_and_go(self):
        self.start_pool("[\"n[0-2]\"]")
        self.run_tasks(6)
        self.request(3)
        self.until("3 nodes", lambda: len(self.nodes()) == 3)
        self.assertEqual([host.daemons() for host in self.lab.hosts], [["node"]] * 3)
        self.assertEqual(sorted(self.table()), ["n0", "n1", "n2"])
        self.request(0)
        self.until("no node is left", lambda: not self.nodes())
        self.until("all hosts are free", lambda: not self.table())
        for host in self.lab.hosts:
            self.assertEqual(host.daemons(), [])
            self.assertEqual(host.key_files(), [])

    def test_a_host_that_can_not_be_reached_is_told_and_another_one_is_taken(self):
        self.start_pool("[nowhere, n1]")
        self.request(1)
        self.until("a node", lambda: len(self.nodes()) == 1)
        self.assertEqual(list(self.table()), ["n1"])
        said = "\n".join(d["message"] for d in self.state()["autoscaler"]["decisions"])
        self.assertIn("nowhere: ", said)
        self.assertIn("Connection refused", said)

    def test_a_pool_without_a_free_host_says_so(self):
        self.start_pool("[n0]")
        self.request(2)
        self.until("a node", lambda: len(self.nodes()) == 1)
        self.until("it is told", lambda: "all 1 hosts of the pool are taken" in self.message())
        self.assertEqual(len(self.table()), 1)

    def test_a_node_that_is_killed_frees_its_host_for_another_one(self):
        self.start_pool("[n0]")
        self.request(1)
        first = self.until("a node", self.nodes)[0]["node_id"]
        os.kill(self.lab.hosts[0].daemon_pid("node"), signal.SIGKILL)
        self.until("another one", lambda: [n for n in self.nodes() if n["node_id"] != first])
        self.assertEqual(list(self.table()), ["n0"])


@unittest.skipUnless(test_up.SSHD, "no sshd: apt-get install openssh-server")
class Section(unittest.TestCase):
    """The autoscaler of a cluster file."""

    SECTION = """autoscaler:
  provider: local
  idle-timeout: 2s
  node-types:
    small: {max: 2, num-cpus: 2, object-store-memory: 64M}
"""

    def setUp(self):
        self.lab = test_up.Lab(2)
        self.addCleanup(self.lab.end)

    def test_a_cluster_file_starts_a_head_that_asks_for_nodes(self):
        file = self.lab.file(hosts="[n1]", more=self.SECTION)
        self.addCleanup(test_up.crt, "down", file, code=None)
        self.assertIn("--autoscaler SECTION", test_up.crt("up", "--dry-run", file))
        test_up.crt("up", file)
        self.assertIn("runs already\n", test_up.crt("up", file))
        test_up.crt("exec", file, "--", CRT, "request", "2*CPU=2")
        alive = lambda count: test_up.crt("exec", file, "--", CRT, "list",
                                          "nodes").count("ALIVE") == count
        test_up.until("2 more nodes", lambda: alive(4))
        test_up.crt("exec", file, "--", CRT, "request", "--none")
        test_up.until("they are gone", lambda: alive(2))
        changed = self.lab.file(hosts="[n1]", more=self.SECTION.replace("max: 2", "max: 3"))
        self.assertIn("n0 (head): runs already, with other options", test_up.crt("up", changed))
        test_up.crt("down", file)
        for host in self.lab.hosts:
            self.assertEqual(host.daemons(), [])
            left = {name for _, _, names in os.walk(host.state) for name in names}
            self.assertEqual(left - {"node.log"}, set()) # those of nodes that have left stay


class StandIn(Cluster):
    """Commands of Slurm that run the job at once, in a process group of its own."""

    SBATCH = """#!/bin/sh
echo "$@" >>"$JOBS/given"
test -e "$JOBS/fail" && { echo "sbatch: error: invalid partition" >&2; exit 1; }
for word do
    case $word in --job-name=*) name=${word#--job-name=};; esac
    test "$last" = --wrap && wrap=$word
    last=$word
done
setsid sh -c "$wrap" >"$JOBS/$name.log" 2>&1 </dev/null &
echo $! >"$JOBS/$name.job"
"""
    SQUEUE = """#!/bin/sh
for job in "$JOBS"/*.job; do
    test -e "$job" && kill -0 "$(cat "$job")" 2>/dev/null && basename "$job" .job
done
exit 0
"""
    SCANCEL = """#!/bin/sh
for word do
    case $word in --name=*) name=${word#--name=};; esac
done
test -e "$JOBS/$name.job" || exit 0
kill -TERM -- "-$(cat "$JOBS/$name.job")" 2>/dev/null
rm "$JOBS/$name.job"
"""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("bin"))
        os.mkdir(self.path("jobs"))
        for name, text in (("sbatch", self.SBATCH), ("squeue", self.SQUEUE),
                           ("scancel", self.SCANCEL)):
            with open(self.path(f"bin/{name}"), "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(self.path(f"bin/{name}"), 0o755)
        self.environment |= {"JOBS": self.path("jobs"),
                             "PATH": f"{self.path('bin')}:{os.environ['PATH']}"}
        self.addCleanup(self.end_jobs)

    def jobs(self):
        return glob.glob(self.path("jobs/*.job"))

    def end_jobs(self):
        for job in self.jobs():
            with open(job, encoding="ascii") as file:
                try:
                    os.killpg(int(file.read()), signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def test_jobs_of_one_node_come_and_go(self):
        self.start("{slurm: {options: [\"--partition=all\", \"--comment=a b\"]}}")
        self.run_tasks(4)
        self.request(2)
        self.until("2 nodes", lambda: len(self.nodes()) == 2)
        self.request(0)
        self.until("no node is left", lambda: not self.nodes())
        self.until("no job is left", lambda: not self.jobs())
        with open(self.path("jobs/given"), encoding="ascii") as file:
            given = file.read()
        self.assertIn("--nodes=1 --ntasks=1 --no-requeue --output=/dev/null --cpus-per-task=1 "
                      "--partition=all --comment=a b --wrap", given)
        self.assertIn(self.key, given)
        with open(self.key, encoding="ascii") as file:
            self.assertNotIn(file.read().strip(), given)

    def test_a_job_that_is_refused_is_told_and_asked_for_again(self):
        with open(self.path("jobs/fail"), "w", encoding="ascii"):
            pass
        self.start("slurm")
        self.request(1)
        self.until("it is told", lambda: "invalid partition" in self.message())
        os.unlink(self.path("jobs/fail"))
        self.until("a node", self.nodes)

    def test_a_host_without_slurm_says_so(self):
        os.mkdir(self.path("bare"))
        os.symlink(shutil.which("redis-server"), self.path("bare/redis-server"))
        self.environment["PATH"] = self.path("bare")
        self.start("slurm")
        self.request(1)
        self.until("it is told", lambda: "sbatch can't be executed" in self.message())


@unittest.skipIf(slurm_lab.missing(), f"not installed: {slurm_lab.missing()}")
class Slurm(Cluster):
    """Under a real slurmctld with three nodes."""

    def setUp(self):
        super().setUp()
        self.slurm = slurm_lab.Slurm(3)
        self.addCleanup(self.slurm.end)
        self.environment = self.slurm.environment | {
            name: self.environment[name] for name in ("CRT_RUN_DIR", "CRT_STATE_DIR")}

    def jobs(self):
        return self.slurm.run("squeue", "-h", "-u", getpass.getuser(), "-o", "%j").split()

    def test_nodes_are_jobs_of_a_real_slurm(self):
        self.start("{slurm: {options: [\"--partition=all\"]}}")
        self.run_tasks(4)
        self.request(3)
        nodes = self.until("3 nodes", lambda: len(self.nodes()) == 3 and self.nodes())
        self.assertEqual(len(self.jobs()), 3)
        os.kill(nodes[0]["pid"], signal.SIGKILL)
        self.until("another one", lambda: len(self.nodes()) == 3 and nodes[0]["node_id"] not in
                   {n["node_id"] for n in self.nodes()})
        self.request(0)
        self.until("no node is left", lambda: not self.nodes())
        self.until("no job is left", lambda: not self.jobs())


@unittest.skipUnless(shutil.which("openssl"), "no openssl")
class Kubernetes(Cluster):
    """Pods of a Deployment, each a node of this host."""

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("k"))
        self.lab = kubernetes_lab.Kubernetes(self.path("k"), "crt-small", self.start_pod)
        self.addCleanup(self.lab.end)

    def start_pod(self, name):
        with open(self.path("pods.log"), "ab") as log:
            return subprocess.Popen([CRT, "start", "--block", "--address", self.address,
                                     "--key-file", self.key, "--num-cpus", "1",
                                     "--object-store-memory", "64M", "--labels",
                                     f"crt/pod={name}"], env=self.environment, stdout=log,
                                    stderr=log, stdin=subprocess.DEVNULL)

    def where(self):
        return f"{{server: '{self.lab.url}', service-account: {self.lab.account}}}"

    def start_pods(self):
        self.start(f"{{kubernetes: {self.where()}}}")

    def nodes(self):
        return [n for n in self.state()["nodes"]
                if n["state"] == "ALIVE" and "crt/pod=" in n["labels"]]

    def instances(self, state):
        return [i for i in self.state()["autoscaler"]["instances"] if i["state"] == state]

    def pod_of(self, node):
        return re.search(r"crt/pod=([^,]*)", node["labels"])[1]

    def run_command(self, verb, **more):
        """crt kubernetes as crt-scaler runs it."""
        where = {"server": self.lab.url, "service_account": self.lab.account,
                 "deployments": {"small": "crt-small"}}
        given = {"CRT_KUBERNETES": json.dumps(where), "CRT_INSTANCE": "small-0a0b0c0d-1",
                 "CRT_NODE_TYPE": "small", "CRT_MACHINE": "", "CRT_CLUSTER": "0a0b0c0d",
                 "CRT_KEY_FILE": self.path("key")}
        return subprocess.run([CRT, "kubernetes", verb], text=True, timeout=PATIENCE, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=self.environment | given | more)

    def test_pods_of_a_deployment_come_and_go(self):
        self.start_pods()
        self.run_tasks(6)
        self.request(3)
        self.until("3 nodes", lambda: len(self.instances("RUNNING")) == 3 ==
                   len(self.nodes()))
        self.assertEqual(self.lab.replicas, 3)
        names = {pod.annotations["crt/instance"] for pod in self.lab.live()}
        self.assertEqual(names, {i["name"] for i in self.instances("RUNNING")})
        self.request(0)
        self.until("no pod is left", lambda: self.lab.replicas == 0 and not self.lab.pods)
        self.until("no node is left", lambda: not self.nodes())
        self.until("all are forgotten", lambda: not self.state()["autoscaler"]["instances"])

    def test_exactly_the_pod_of_the_node_that_was_drained_goes(self):
        self.start_pods()
        self.request(3)
        nodes = self.until("3 nodes", lambda: len(self.instances("RUNNING")) == 3 and
                           self.nodes())
        hold = subprocess.Popen([PROGRAM, "tasks", "2", "20"], text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env=self.environment | {"CRT_ADDRESS": self.address})
        self.addCleanup(hold.stdout.close)
        busy = lambda: {n["node_id"] for n in self.nodes()
                        if n["resources_available"].get("CPU", 0) == 0}
        self.until("2 are busy", lambda: len(busy()) == 2)
        idle = [n for n in nodes if n["node_id"] not in busy()]
        self.request(0)
        self.until("one pod has gone", lambda: self.lab.deleted)
        self.assertEqual(self.lab.deleted, [self.pod_of(idle[0])])
        self.assertRegex(hold.communicate(timeout=PATIENCE)[0], r"(?m)^done 2 ")

    def test_a_head_that_is_started_again_knows_its_pods(self):
        self.start_pods()
        self.request(2)
        before = self.until("2 nodes", lambda: len(self.instances("RUNNING")) == 2 and
                            self.instances("RUNNING"))
        self.start_again()
        self.until("they are known", lambda: {i["name"] for i in self.instances("RUNNING")} ==
                   {i["name"] for i in before})
        self.assertEqual(self.lab.replicas, 2)
        self.request(0)
        self.until("no pod is left", lambda: not self.lab.pods)

    def test_a_pod_that_somebody_deletes_is_replaced_and_nothing_is_left(self):
        self.start_pods()
        self.request(2)
        nodes = self.until("2 nodes", lambda: len(self.instances("RUNNING")) == 2 and
                           self.nodes())
        self.lab.evict(self.pod_of(nodes[0]))
        self.until("2 others", lambda: len(self.instances("RUNNING")) == 2 and
                   nodes[0]["node_id"] not in {n["node_id"] for n in self.nodes()} and
                   len(self.nodes()) == 2 == self.lab.replicas)
        self.request(0)
        self.until("no pod is left", lambda: not self.lab.pods)

    def test_wrong_answers_are_sentences_and_change_nothing(self):
        for answer, said in (((401, "{}"), "does not take the token of"),
                             ((403, '{"message": "deployments.apps is forbidden"}'),
                              "deployments.apps is forbidden (403); the service account needs"),
                             ((404, '{"message": "no crt-small"}'), "no crt-small (404)"),
                             ((409, '{"message": "modified"}'), "modified (409)"),
                             ((500, "<html>"), "it gave no reason (500)"),
                             ((302, "{}"), "it gave no reason (302)"),
                             ((200, "<html>"), "did not answer with JSON"),
                             ((200, "[]"), "has no selector"),
                             ("hang", "no answer from https://127.0.0.1:")):
            self.lab.answer = answer
            for verb in ("ask", "list") if answer != "hang" else ("ask",):
                done = self.run_command(verb)
                self.assertEqual(done.returncode, 1, (answer, done.stdout))
                self.assertIn(said, done.stdout)
                self.assertEqual(done.stdout.count("\n"), 1)
                self.assertNotIn(self.lab.token, done.stdout)
        self.lab.answer = None
        self.lab.trust("other")
        self.assertIn("does not prove by", self.run_command("ask").stdout)
        self.lab.trust("ca")
        self.lab.put("token", "")
        self.assertIn("The head needs a service account", self.run_command("ask").stdout)
        self.lab.put("token", "another")
        self.assertIn("(401)", self.run_command("ask").stdout)
        self.assertEqual(self.lab.replicas, 0)

    def test_somebody_else_who_scales_at_the_same_time_is_passed(self):
        self.lab.start_pod = lambda name: subprocess.Popen(["sleep", "60"])
        self.lab.conflicts = 2
        done = self.run_command("ask")
        self.assertEqual(done.stdout, "small-0a0b0c0d-1=crt-small-5d9c-00001\n")
        self.assertEqual(self.lab.replicas, 1)
        self.lab.conflicts = 100
        done = self.run_command("ask", CRT_INSTANCE="small-0a0b0c0d-2")
        self.assertIn("the object has been modified (409)", done.stdout)
        self.assertEqual(self.lab.replicas, 1)

    def test_a_pod_of_which_it_is_not_known_whether_it_is_a_node_is_told_first(self):
        self.lab.start_pod = lambda name: subprocess.Popen(["sleep", "60"])
        self.run_command("ask")
        done = self.run_command("end")
        self.assertEqual(done.returncode, 1)
        self.assertIn("small-0a0b0c0d-1=crt-small-5d9c-00001\n", done.stdout)
        self.assertEqual(self.lab.replicas, 1)
        done = self.run_command("end", CRT_MACHINE="crt-small-5d9c-00001")
        self.assertEqual((done.returncode, self.lab.replicas), (0, 0), done.stdout)
        self.assertEqual(self.run_command("end").returncode, 0)

    def test_pods_that_are_nobodys_get_a_name_and_another_clusters_too(self):
        self.lab.start_pod = lambda name: subprocess.Popen(["sleep", "60"])
        self.run_command("ask")
        said = self.run_command("list", CRT_CLUSTER="ffffffff").stdout
        self.assertRegex(said, r"^small-ffffffff-[0-9a-f]{8}=crt-small-5d9c-00001\n$")
        self.assertEqual(self.run_command("list", CRT_CLUSTER="ffffffff").stdout, said)

    def test_a_server_that_refuses_is_told_and_asked_again_and_nobody_sees_the_token(self):
        self.lab.answer = (403, '{"message": "not allowed"}')
        self.start_pods()
        self.request(1)
        said = lambda: self.state()["autoscaler"]["provider_message"]
        self.until("it is told", lambda: "not allowed (403)" in said())
        self.lab.answer = None
        self.until("a node", self.nodes)
        self.lab.answer = "hang"
        self.request(2)
        self.until("a request hangs", self.lab.hung.is_set)
        self.assertEqual(self.seen_in_processes(self.lab.token), [])
        self.lab.answer = None
        self.until("2 nodes", lambda: len(self.nodes()) == 2)
        logs = ""
        for folder, _, names in os.walk(self.path("s")):
            for name in names:
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    logs += file.read()
        self.assertIn("403", logs)
        self.assertNotIn(self.lab.token, logs + json.dumps(self.state()))

    @staticmethod
    def seen_in_processes(secret):
        """Paths of arguments and variables that have it."""
        found, seen = [], 0
        for path in glob.glob("/proc/[0-9]*/cmdline") + glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as file:
                    text = file.read()
            except OSError:
                continue
            seen += b"CRT_KUBERNETES=" in text
            found += [path] if secret.encode() in text else []
        return found if seen else ["no crt kubernetes runs"]


class Command(unittest.TestCase):
    """crt-scaler as crt-head starts it, with commands of the user's."""
    HEAD_FD = 3

    def setUp(self):
        self.head, its = socket.socketpair()
        self.head.settimeout(PATIENCE)
        self.answers = self.head.makefile(encoding="utf-8")
        self.addCleanup(self.head.close)
        self.addCleanup(self.answers.close)
        scaler = os.path.join(os.path.dirname(CRT), "..", "runtime", "control", "crt-scaler")
        self.scaler = subprocess.Popen([scaler], stdin=subprocess.DEVNULL, close_fds=False,
                                       preexec_fn=lambda: os.dup2(its.fileno(), self.HEAD_FD))
        self.addCleanup(self.scaler.wait)
        self.addCleanup(self.scaler.kill)
        its.close()

    def say(self, **line):
        self.head.sendall(json.dumps(line).encode() + b"\n")

    def order(self, verb):
        self.say(verb=verb, instance="small-1", type="small", node="", machine="", cluster="")
        return json.loads(self.answers.readline())

    def test_why_a_command_does_not_begin(self):
        self.say(address="127.0.0.1:1", key_file="none",
                 file={"provider": "commands", "command_timeout": PATIENCE, "ask": "true"})
        self.assertTrue(self.order("ask")["done"])
        resource.prlimit(self.scaler.pid, resource.RLIMIT_NOFILE, (self.HEAD_FD + 1,) * 2)
        answer = self.order("ask")
        self.assertFalse(answer["done"])
        self.assertEqual(answer["text"], os.strerror(errno.EMFILE))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
