# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Kubernetes on this host: an API server over TLS that knows the scale of one
Deployment and its pods, a controller that makes and deletes pods as that of a ReplicaSet does, and
a kubelet that runs a process for each and starts it again when it ends."""
import http.server
import json
import os
import ssl
import subprocess
import threading
import urllib.parse

COST = "controller.kubernetes.io/pod-deletion-cost"
SPACE = "lab"


def make_certificates(folder):
    """A CA, a server's certificate of it for 127.0.0.1, and another CA."""
    def run(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    for name in ("ca", "other"):
        run("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
            f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt")
    run("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=kubernetes", "-keyout",
        "server.key", "-out", "server.csr")
    with open(os.path.join(folder, "names"), "w", encoding="ascii") as file:
        file.write("subjectAltName=IP:127.0.0.1\n")
    run("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
        "-CAcreateserial", "-days", "1", "-extfile", "names", "-out", "server.crt")


class Pod:
    def __init__(self, name):
        self.name = name
        self.annotations = {}
        self.is_going = False
        self.process = None

    def json(self):
        metadata = {"name": self.name, "namespace": SPACE, "annotations": self.annotations}
        if self.is_going:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return {"metadata": metadata, "status": {"phase": "Running", "podIP": "127.0.0.1"}}


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """Of clients that go away, or do not believe the certificate."""


class Kubernetes:
    """`start_pod(name)` starts the process of a pod."""

    def __init__(self, folder, deployment, start_pod):
        self.folder = folder
        self.deployment = deployment
        self.start_pod = start_pod
        self.token = "token-" + os.urandom(16).hex()
        self.lock = threading.RLock()
        self.replicas = 0
        self.version = 1
        self.count = 0
        self.pods = {}
        self.deleted = []
        self.conflicts = 0
        self.makes_pods = True
        self.answer = None # (status, text) of all requests; "hang"
        self.hung = threading.Event()
        self.is_over = threading.Event()
        self.threads = []
        make_certificates(folder)
        self.account = os.path.join(folder, "account")
        os.mkdir(self.account, 0o700)
        self.put("token", self.token)
        self.put("namespace", SPACE)
        self.trust("ca")
        self.server = Server(("127.0.0.1", 0), make_handler(self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(folder, "server.crt"),
                                os.path.join(folder, "server.key"))
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True,
                                                 do_handshake_on_connect=False)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        self.run(self.server.serve_forever)

    def run(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        thread.start()
        self.threads.append(thread)

    def put(self, name, text):
        path = os.path.join(self.account, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o600)

    def trust(self, name):
        with open(os.path.join(self.folder, f"{name}.crt"), encoding="ascii") as file:
            self.put("ca.crt", file.read())

    def end(self):
        self.is_over.set()
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            pods = list(self.pods.values())
        for pod in pods:
            pod.process.kill()
            pod.process.wait()

    # ------------------------------------------------------------ the controller, the kubelet

    def live(self):
        return [pod for pod in self.pods.values() if not pod.is_going]

    def follow(self):
        """As many pods as there are replicas; of too many the cheapest one goes first."""
        with self.lock:
            while len(self.live()) < self.replicas and self.makes_pods:
                self.count += 1
                pod = Pod(f"{self.deployment}-5d9c-{self.count:05d}")
                self.pods[pod.name] = pod
                pod.process = self.start_pod(pod.name)
                self.run(self.keep, pod)
            while len(self.live()) > self.replicas:
                cheapest = min(self.live(), key=lambda p: int(p.annotations.get(COST, 0)))
                self.delete(cheapest)

    def delete(self, pod):
        pod.is_going = True
        self.deleted.append(pod.name)
        pod.process.terminate()

    def evict(self, name):
        """Somebody deletes the pod: another one takes its place."""
        with self.lock:
            self.delete(self.pods[name])
        self.follow()

    def keep(self, pod):
        while True:
            pod.process.wait()
            with self.lock:
                if self.is_over.is_set():
                    return
                if pod.is_going:
                    del self.pods[pod.name]
                    return
                pod.process = self.start_pod(pod.name)

    # ------------------------------------------------------------ the API

    def scale(self):
        return {"kind": "Scale", "metadata": {"name": self.deployment,
                                              "resourceVersion": str(self.version)},
                "spec": {"replicas": self.replicas} if self.replicas else {},
                "status": {"replicas": len(self.pods), "selector": "app=crt,part in (node)"}}

    def request(self, method, path, query, change):
        """(status, object)"""
        of_space = f"/namespaces/{SPACE}/"
        scale = f"/apis/apps/v1{of_space}deployments/{self.deployment}/scale"
        pods = f"/api/v1{of_space}pods"
        with self.lock:
            if path == scale and method == "GET":
                return 200, self.scale()
            if path == scale and method == "PATCH":
                return self.patch_scale(change)
            if path == pods and method == "GET":
                if query.get("labelSelector") != ["app=crt,part in (node)"]:
                    return 400, {"message": f"a wrong selector: {query}"}
                return 200, {"items": [pod.json() for pod in self.pods.values()]}
            pod = self.pods.get(path[len(pods) + 1:]) if path.startswith(pods + "/") else None
            if pod and method == "PATCH":
                pod.annotations.update(change["metadata"]["annotations"])
                return 200, pod.json()
        return 404, {"message": f"{method} {path} not found"}

    def patch_scale(self, change):
        if self.conflicts:
            self.conflicts -= 1
            self.version += 1
        if change["metadata"]["resourceVersion"] != str(self.version):
            return 409, {"message": "the object has been modified"}
        self.replicas = change["spec"]["replicas"]
        self.version += 1
        self.run(self.follow)
        return 200, self.scale()


def make_handler(lab):
    class Handler(http.server.BaseHTTPRequestHandler):
        def send(self, status, text):
            data = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if status == 302:
                self.send_header("Location", lab.url + "/elsewhere")
            self.end_headers()
            self.wfile.write(data)

        def answer(self):
            url = urllib.parse.urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if lab.answer == "hang":
                lab.hung.set()
                lab.is_over.wait(60)
                return
            if lab.answer:
                self.send(*lab.answer)
                return
            if self.headers.get("Authorization") != f"Bearer {lab.token}":
                self.send(401, '{"message": "Unauthorized"}')
                return
            status, said = lab.request(self.command, url.path, urllib.parse.parse_qs(url.query),
                                       json.loads(body) if body else None)
            self.send(status, json.dumps(said))

        def do_GET(self):
            self.answer()

        def do_PATCH(self):
            if self.headers.get("Content-Type") != "application/merge-patch+json":
                self.send(415, '{"message": "not a merge patch"}')
            else:
                self.answer()

        def log_message(self, *_):
            pass

    return Handler
