# SPDX-License-Identifier: Apache-2.0
"""The pods of packaging/kubernetes, played by `podman kube play`: what Kubernetes would make of the
manifests, in the namespaces of hosts.run, with containers, images and volumes in a folder of the
test.

    head 10.77.0.10, nodes 10.77.0.11 ..., on a network of podman in which the test is 10.77.0.1

What podman does not know is done here from the same documents: a StatefulSet of one becomes a Pod
and a volume, a Deployment several Pods, the Service a name in /etc/hosts of the pods and an address
that stays, the Secret a folder with the owner and mode that the kubelet gives it, status.podIP its
value. Probes and preStop are commands of the manifest that the test runs."""
import contextlib
import copy
import glob
import json
import os
import resource
import shutil
import stat
import subprocess
import tempfile

import hosts
import manifests

SUBNET = "10.77.0.0/24"
HEAD = "10.77.0.10"
NETWORK = "crt"
TOOLS = ("podman", "crun", "busybox")
SETTINGS = """[containers]
default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]
default_sysctls = []
[network]
network_config_dir = "{folder}/networks"
[engine]
runtime = "crun"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
"""


def missing():
    """What this test lacks here, in words; "": nothing."""
    path = f"{hosts.PATH}:{os.environ['PATH']}"
    tools = [tool for tool in TOOLS if not shutil.which(tool, path=path)]
    if tools:
        return f"needs {', '.join(tools)} (setup.sh --with-kubernetes)"
    return "needs root: podman in a mount namespace of its own" if os.geteuid() != 0 else ""


def own_null():
    """crun gives what a container has as its standard streams to the container's user, /dev/null,
    too: it gets one of the test's own."""
    path = os.path.join(hosts.SPACE, "null")
    os.mknod(path, stat.S_IFCHR | 0o666, os.stat(os.devnull).st_rdev)
    os.chmod(path, 0o666)
    subprocess.run(["mount", "--bind", path, os.devnull], check=True)
    stdin = os.open(os.devnull, os.O_RDWR)
    os.dup2(stdin, 0)
    os.close(stdin)


def own_mounts():
    """Files of podman that have fixed places become the test's own. podman takes the controllers
    of a kernel that has some in version 1 when there is no second version beside them."""
    own_null()
    for folder in filter(os.path.isdir, ("/run", "/etc/cni")):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    layers = [os.path.join(hosts.SPACE, name) for name in ("upper", "work")]
    for layer in layers:
        os.mkdir(layer)
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/var/lib,upperdir="
                    f"{layers[0]},workdir={layers[1]}", "/var/lib"], check=True)
    unified = "/sys/fs/cgroup/unified"
    if os.path.ismount(unified):
        subprocess.run(["umount", unified], check=True)


def remove_groups():
    """Those without processes that podman leaves."""
    for top in glob.glob("/sys/fs/cgroup/**/libpod_parent", recursive=True):
        for folder, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)


class Podman:
    def __init__(self, folder):
        self.folder = folder
        settings = os.path.join(folder, "containers.conf")
        with open(settings, "w", encoding="ascii") as file:
            file.write(SETTINGS.format(
                folder=folder, files=resource.getrlimit(resource.RLIMIT_NOFILE)[1],
                processes=resource.getrlimit(resource.RLIMIT_NPROC)[1]))
        self.env = dict(os.environ, CONTAINERS_CONF=settings, TMPDIR=folder, HOME=folder)
        self.command = ["podman", "--root", os.path.join(folder, "root"), "--runroot",
                        os.path.join(folder, "run"), "--tmpdir", os.path.join(folder, "tmp"),
                        "--storage-driver", "vfs"]

    def run(self, *arguments, status=0, text=None, seconds=300):
        done = subprocess.run([*self.command, *arguments], env=self.env, input=text, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds,
                              check=False)
        hosts.check(status is None or done.returncode == status,
                    f"podman {' '.join(arguments)}: {done.returncode}\n{done.stdout}")
        return done.stdout

    def why_not(self):
        """Why no container runs here; None: they do."""
        done = subprocess.run([*self.command, "info"], env=self.env, text=True, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return None if done.returncode == 0 else done.stdout.strip().splitlines()[-1]


class Pods:
    """`limits` take the place of those of a container: {"node": {"cpu": "1", "memory": "1Gi"}}."""

    def __init__(self, podman, image, key, limits):
        self.podman, self.image, self.limits = podman, image, limits
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        podman.run("network", "create", "--disable-dns", "--subnet", SUBNET, NETWORK)
        documents = manifests.overlay("plain")
        self.made = {document["metadata"]["name"]: document for document in documents
                     if manifests.pod_of(document)}
        self.key_folder = os.path.join(podman.folder, "key")
        os.mkdir(self.key_folder, 0o755)
        path = os.path.join(self.key_folder, "cluster.key")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"{key}\n")
        user = manifests.pod_of(self.made["crt-head"])["securityContext"]["fsGroup"]
        os.chown(path, 0, user)  # as the kubelet mounts a Secret for a group
        os.chmod(path, 0o440)

    def _change(self, container, address):
        container["image"] = self.image
        for probe in ("startupProbe", "readinessProbe", "livenessProbe", "lifecycle"):
            container.pop(probe, None)
        # As the kubelet tells each container where the API server is.
        container.setdefault("env", []).append({"name": "KUBERNETES_SERVICE_HOST",
                                                "value": "10.96.0.1"})
        for variable in container["env"]:
            source = variable.pop("valueFrom", None)
            if source:
                hosts.check(source["fieldRef"]["fieldPath"] == "status.podIP", source)
                variable["value"] = address
        values = {v["name"]: v["value"] for v in container["env"]}
        for part in ("command", "args"):
            if part in container:
                container[part] = [_expand(text, values) for text in container[part]]
        if container["name"] in self.limits:
            container["resources"] = {"limits": self.limits[container["name"]]}

    def _pod(self, document, name, address):
        pod = copy.deepcopy(manifests.pod_of(document))
        pod["restartPolicy"] = "Never"  # a pod is made again when the test says so
        pod["hostAliases"] = [{"ip": HEAD, "hostnames": ["crt-head"]}]
        for container in pod.get("initContainers", []) + pod["containers"]:
            self._change(container, address)
        for volume in pod["volumes"]:
            if "emptyDir" in volume:  # podman 4.3 gives one to all pods that call it so
                _rename(pod, volume, f'{volume["name"]}-{name}')
            if "secret" in volume:
                del volume["secret"]
                volume["hostPath"] = {"path": self.key_folder, "type": "Directory"}
        for claim in document["spec"].get("volumeClaimTemplates", []):
            pod["volumes"].append({
                "name": claim["metadata"]["name"],
                "persistentVolumeClaim": {"claimName": f'{claim["metadata"]["name"]}-{name}'}})
        return {"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name,
                             "labels": document["spec"]["template"]["metadata"]["labels"]},
                "spec": pod}

    def play(self, name, document, address):
        pod = self._pod(document, name, address)
        with tempfile.NamedTemporaryFile("w", dir=self.podman.folder, suffix=".yaml",
                                         encoding="utf-8") as file:
            json.dump(pod, file)  # which is YAML, too
            file.flush()
            # The same link address each time: nobody would hear that there is another one.
            link = f"02:00:00:00:00:{int(address.rsplit('.', 1)[1]):02x}"
            return self.podman.run("kube", "play", "--network", NETWORK, "--ip", address,
                                   "--mac-address", link, file.name)

    def play_head(self):
        return self.play("crt-head-0", self.made["crt-head"], HEAD)

    def play_nodes(self, count):
        for number in range(count):
            self.play(f"crt-node-{number}", self.made["crt-node"], f"10.77.0.{11 + number}")

    def exec(self, name, *command, status=0, seconds=120):
        container = "head" if name.startswith("crt-head") else "node"
        return self.podman.run("exec", f"{name}-{container}", *command, status=status,
                               seconds=seconds)

    def container_of(self, name):
        return manifests.pod_of(self.made[name])["containers"][0]


def _rename(pod, volume, name):
    for container in pod["containers"]:
        for mount in container.get("volumeMounts", []):
            if mount["name"] == volume["name"]:
                mount["name"] = name
    volume["name"] = name


def _expand(text, values):
    for name, value in values.items():
        text = text.replace(f"$({name})", value)
    return text
