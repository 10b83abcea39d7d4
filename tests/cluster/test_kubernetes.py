#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests of packaging/kubernetes with real containers (pods.py): a cluster of pods that
trains for somebody outside, while the pod of its head is killed and made again.
Usage: test_kubernetes.py [SANITIZERS]

CRT_TEST_MNIST=FOLDER: train on the four files of MNIST there instead of drawn digits."""
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time

import hosts
from crt_cluster import build_folder, source_folder

sys.path.append(os.path.join(source_folder(), "build-kubernetes"))
NODES = 3
LIMITS = {"head": {"cpu": "1", "memory": "512Mi"}, "node": {"cpu": "1", "memory": "1Gi"}}
ITERATIONS = 1500
IMAGE = "localhost/crt-test:1"
PROGRAMS = ("examples/train_mnist", "examples/sharded_server", "tests/cli/context_program")
PROGRAM = "10.77.0.21"


BEGIN = time.monotonic()


def say(text):
    print(f"{time.monotonic() - BEGIN:6.1f} s: {text}", flush=True)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def build_image(podman, folder):
    programs = [os.path.join(build_folder(), name) for name in PROGRAMS]
    said = subprocess.run(
        [os.path.join(source_folder(), "packaging", "container", "build.sh"), "--with-ml",
         "--crt", os.path.join(build_folder(), "cli", "crt"), "--tag", IMAGE,
         "--engine", " ".join(podman.command), *programs],
        env={**podman.env, "XDG_CACHE_HOME": os.path.join(folder, "cache")}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False)
    hosts.check(said.returncode == 0, said.stdout)
    say(said.stdout.strip().splitlines()[-1])


class Outside:
    """The command on a host that has the key and no node."""

    def __init__(self, folder, key):
        self.key_file = os.path.join(folder, "outside.key")
        fd = os.open(self.key_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(fd, key.encode())
        os.close(fd)
        self.env = {**os.environ, "CRT_HTTP": f"https://{pods.HEAD}:8265",
                    "CRT_KEY_FILE": self.key_file}

    def start(self, *arguments):
        return subprocess.Popen([os.path.join(build_folder(), "cli", "crt"), *arguments],
                                env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def run(self, *arguments, status=0, seconds=120):
        process = self.start(*arguments)
        try:
            said = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            said = process.communicate()[0]
        hosts.check(status is None or process.returncode == status,
                    f"crt {' '.join(arguments)}: {process.returncode}\n{said}")
        return said


def nodes(cluster):
    """ip -> node of the living ones, as the head's pod says."""
    said = cluster.exec("crt-head-0", "crt", "status", "--json", status=None)
    try:
        found = json.loads(said)["cluster"]["nodes"]
    except (ValueError, KeyError):
        return {}
    return {node["ip"]: node for node in found if node["state"] == "ALIVE"}


def wait_nodes(cluster, count, seconds=60):
    return hosts.until(seconds, f"{count} nodes are alive", lambda: (
        found := nodes(cluster)) and len(found) == count and found)


def wait_healthy(cluster, seconds=60):
    """As the probes of the head's manifest ask."""
    probe = cluster.container_of("crt-head")["startupProbe"]["httpGet"]
    url = f'{probe["scheme"].lower()}://{pods.HEAD}:8265{probe["path"]}'
    hosts.until(seconds, "the head is healthy", lambda: subprocess.run(
        ["curl", "-ksf", "--max-time", "5", url], stdout=subprocess.DEVNULL,
        check=False).returncode == 0)


def submit(outside, folder):
    work, data = os.path.join(folder, "work"), os.environ.get("CRT_TEST_MNIST")
    os.mkdir(work)
    shutil.copy(os.path.join(build_folder(), "examples", "train_mnist"), work)
    if data:
        shutil.copytree(data, os.path.join(work, "data"))
    outside.run("job", "submit", "--no-wait", "--submission-id", "train", "--working-dir", work,
                "--entrypoint-num-cpus", "1", "--", "./train_mnist", "--data",
                "data" if data else "builtin", "--workers", str(NODES - 1), "--eval-every", "10",
                "--iterations", str(ITERATIONS))


def limits_are_found(cluster):
    """Those of the pod, not those of the machine."""
    for ip, node in wait_nodes(cluster, 1 + NODES).items():
        total = node["resources_total"]
        if ip != pods.HEAD:
            hosts.check(float(total["CPU"]) == 1, f"a node limited to 1 CPU has {total}")
            hosts.check(0.6 < float(total["memory"]) / 2**30 < 0.75, f"of 1 GiB: {total}")


def has_no_rights(cluster):
    status = cluster.exec("crt-node-0", "cat", "/proc/1/status")
    for line in ("Uid:\t65532\t65532\t65532\t65532", "CapBnd:\t0000000000000000",
                 "CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
        hosts.check(line in status, f"no {line!r} in:\n{status}")
    for path in ("/usr/bin/x", "/etc/x", "/x", "/etc/crt/key/x"):
        hosts.check("ead-only" in cluster.exec("crt-node-0", "touch", path, status=None), path)


def key_is_nowhere(cluster, key):
    """In the image, what podman knows, arguments and environments."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        for name in ("cmdline", "environ"):
            try:
                with open(f"/proc/{entry}/{name}", "rb") as file:
                    hosts.check(key.encode() not in file.read(), f"/proc/{entry}/{name}")
            except OSError:
                pass  # it has ended
    for said in (cluster.podman.run("inspect", "crt-node-0-node", "crt-head-0-head"),
                 cluster.podman.run("image", "inspect", IMAGE),
                 cluster.podman.run("logs", "crt-head-0-head")):
        hosts.check(key not in said, "the key is shown")
    found = subprocess.run(["grep", "-rlF", key, os.path.join(cluster.podman.folder, "root")],
                           stdout=subprocess.PIPE, text=True, check=False).stdout.split()
    hosts.check(all("/volumes/" in path for path in found), f"the key is in {found}")


def strangers_stay_outside(cluster, folder):
    """A pod of another namespace, which no policy of the network keeps away: with another key."""
    outside = Outside(tempfile.mkdtemp(dir=folder), secrets.token_hex(32) + "\n")
    said = outside.run("job", "list", status=None)
    hosts.check("is not" in said or "certificate" in said, said)
    said = cluster.podman.run(
        "run", "--rm", "--network", pods.NETWORK, "--ip", "10.77.0.99", "--user", "0", "--volume",
        f"{outside.key_file}:/key:ro", "--entrypoint", "/usr/bin/crt", IMAGE, "start", "--address",
        f"{pods.HEAD}:6380", "--key-file", "/key", "--node-ip-address", "10.77.0.99", status=1)
    hosts.check("key" in said, said)
    wait_nodes(cluster, 1 + NODES)


def train_through_the_heads_death(cluster, outside, folder):
    submit(outside, folder)
    following = outside.start("job", "logs", "--follow", "train")
    said = []
    for line in following.stdout:
        said.append(line)
        if re.match(r"iteration +10\b", line):
            break
    hosts.check(said and following.poll() is None, "".join(said))
    begin = time.monotonic()
    cluster.podman.run("pod", "kill", "--signal", "KILL", "crt-head-0")
    cluster.podman.run("pod", "rm", "--force", "--time", "0", "crt-head-0")
    cluster.play_head()
    wait_healthy(cluster)
    say(f"the head was away for {time.monotonic() - begin:.1f} s")
    hosts.check("RUNNING" in outside.run("job", "status", "train"), "it did not train meanwhile")
    said += following.communicate(timeout=400)[0].splitlines(keepends=True)
    text = "".join(said)
    hosts.check(following.returncode == 0, text)
    for number in (10, ITERATIONS - 10):
        hosts.check(len(re.findall(rf"^iteration +{number}\b", text, re.MULTILINE)) == 1, text)
    accuracy = float(re.search(r"final accuracy: ([0-9.]+)", text)[1])
    hosts.check(accuracy > 0.8, text)
    say(f"trained to {accuracy}")
    wait_nodes(cluster, 1 + NODES)


def job_submits(cluster):
    """The Job of the manifests, as one pod of it."""
    job, = pods.manifests.read("job.yaml")
    cluster.play("train-mnist", job, "10.77.0.20")
    code = cluster.podman.run("wait", "train-mnist-submit", seconds=300).strip()
    said = cluster.podman.run("logs", "train-mnist-submit")
    hosts.check(code == "0" and "final accuracy" in said, f"{code}: {said}")
    say("the Job has trained")


def run_program(cluster, name, *command):
    """What a program in a pod of its own has printed: the Job of the manifests, or another command
    in its place."""
    job, = pods.manifests.read("program.yaml")
    if command:
        container, = pods.manifests.containers_of(job)
        container["command"], container["args"] = command[:1], command[1:]
    cluster.play(name, job, PROGRAM)
    code = cluster.podman.run("wait", f"{name}-program", seconds=300).strip()
    said = cluster.podman.run("logs", f"{name}-program")
    hosts.check(code == "0", f"{name}: {code}: {said}")
    cluster.podman.run("pod", "rm", "--force", "--time", "0", name)
    wait_nodes(cluster, 1 + NODES)  # its node has left
    return said


def programs_join_by_the_service(cluster):
    """--cluster kubernetes: the addresses are complete, tasks and actors run on the nodes."""
    said = run_program(cluster, "where", "/app/context_program", "--cluster", "kubernetes")
    told = dict(re.findall(r"^(\w+) (.*)$", said, re.MULTILINE))
    hosts.check((told["address"], told["node_ip"], told["nodes"], told["key_file"]) ==
                (f"{pods.HEAD}:6380", PROGRAM, str(2 + NODES), "/etc/crt/key/cluster.key"), said)
    hosts.check(told["http"].startswith(f"https://{pods.HEAD}:8265"), said)
    for name in ("node", "object_store", "run_dir", "state_dir"):
        hosts.check(told[name], f"no {name}: {said}")
    said = run_program(cluster, "sharded", "/app/sharded_server", "--cluster", "kubernetes",
                       "--shards", "1", "--workers", "2", "--elements", "1000000")
    hosts.check(re.search(r"^0 of 1000000 elements are not exactly", said, re.MULTILINE), said)
    say(re.search(r"^2 workers .*", said, re.MULTILINE)[0])
    said = run_program(cluster, "train-mnist-program")
    hosts.check("final accuracy" in said, said)
    say("a program in a pod has trained")


def ends_in_an_orderly_way(cluster):
    """preStop of a node; a head that is told to end, and made again, knows its jobs."""
    command = cluster.container_of("crt-node")["lifecycle"]["preStop"]["exec"]["command"]
    cluster.exec("crt-node-1", *command, status=None)
    wait_nodes(cluster, NODES)
    code = cluster.podman.run("wait", "crt-node-1-node", seconds=60).strip()
    hosts.check(code == "0", f"a drained node ended with {code}")
    cluster.podman.run("pod", "stop", "--time", "30", "crt-head-0")
    cluster.podman.run("pod", "rm", "--force", "crt-head-0")
    cluster.play_head()
    wait_healthy(cluster)
    wait_nodes(cluster, NODES)


def main():
    outer = os.open(os.devnull, os.O_RDONLY)
    owner = os.fstat(outer).st_uid
    pods.own_mounts()
    folder = os.path.join(hosts.SPACE, "pods")  # in memory: it goes with the namespaces
    os.mkdir(folder)
    podman = pods.Podman(folder)
    why = podman.why_not()
    if why:
        skip(f"needs containers: {why}")
    try:
        play(podman, folder)
    finally:
        podman.run("pod", "rm", "--all", "--force", "--time", "0", status=None)
        pods.remove_groups()
    hosts.check(os.fstat(outer).st_uid == owner, "/dev/null of this machine has another owner")


def play(podman, folder):
    key = secrets.token_hex(32)
    build_image(podman, folder)
    cluster = pods.Pods(podman, IMAGE, key, LIMITS)
    outside = Outside(folder, key)
    cluster.play_head()
    wait_healthy(cluster)
    cluster.play_nodes(NODES)
    say("the pods play")
    limits_are_found(cluster)
    for number in range(NODES):
        probe = cluster.container_of("crt-node")["livenessProbe"]["exec"]["command"]
        cluster.exec(f"crt-node-{number}", *probe)
    has_no_rights(cluster)
    strangers_stay_outside(cluster, folder)
    say("a stranger stayed outside")
    train_through_the_heads_death(cluster, outside, folder)
    job_submits(cluster)
    programs_join_by_the_service(cluster)
    key_is_nowhere(cluster, key)
    ends_in_an_orderly_way(cluster)
    hosts.check("train" in outside.run("job", "list"), "the job is forgotten")


if __name__ == "__main__":
    try:
        import pods
    except ImportError:
        skip("needs PyYAML (python3-yaml)")
    if pods.missing():
        skip(pods.missing())
    if sys.argv[1:] not in ([], ["none"]):
        skip("needs a build without sanitizers: pods of 1 GiB")
    hosts.run(main)
