# SPDX-License-Identifier: Apache-2.0
"""A cluster of its own and strangers who wait for its token."""
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time

STRANGER = 65534  # nobody
SECONDS = 30


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def until(what, condition, seconds=SECONDS):
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        check(time.monotonic() < end, f"not within {seconds} s: {what}")
        time.sleep(0.002)


class Cluster:
    """crt start --head in directories of its own; ended with the block."""

    def __init__(self, *options):
        self.crt = os.path.join(os.environ["CRT_TEST_BUILD"], "cli", "crt")
        self.folder = tempfile.mkdtemp(prefix="crt-trust-", dir="/tmp")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("CRT_")}
        self.environment.update(CRT_RUN_DIR=f"{self.folder}/r", CRT_STATE_DIR=f"{self.folder}/s")
        self.said = ""
        self.options = options

    def __enter__(self):
        self.said = self.good("start", "--head", "--port", "0", "--dashboard-port", "0",
                              "--num-cpus", "1", "--object-store-memory", "50M", *self.options)
        self.port = re.search(r"The cluster \S+:(\d+) runs", self.said)[1]
        link = re.search(r"(https?)://(\S+):(\d+)$", self.said, re.M)
        self.scheme, self.host, self.http_port = link[1], link[2], int(link[3])
        self.token = self.good("token").strip()
        return self

    def __exit__(self, *error):
        self.run("stop", "--force")
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *words, **variables):
        return subprocess.run([self.crt, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60, check=False,
                              env={**self.environment, **variables})

    def start(self, *words):
        return subprocess.Popen([self.crt, *words], stdout=subprocess.DEVNULL, env=self.environment)

    def good(self, *words, **variables):
        result = self.run(*words, **variables)
        check(result.returncode == 0,
              f"crt {' '.join(words)} ended with {result.returncode}:\n{result.stdout}")
        return result.stdout

    def refused(self, text, *words, **variables):
        """The command fails and says `text`."""
        result = self.run(*words, **variables)
        check(
            result.returncode not in (0, -11, -6) and text in result.stdout,
            f"crt {' '.join(words)} ended with {result.returncode} and does not say \"{text}\":\n"
            f"{result.stdout}"
        )
        return result.stdout

    def head_dir(self):
        return f"{self.folder}/r/head-{self.port}"

    def info(self, key):
        return read_info(f"{self.head_dir()}/head.info", key)


class Elsewhere(Cluster):
    """What has directories of its own, and its own node of a cluster, is another host to the
    command."""

    def __init__(self, cluster, address):
        super().__init__()
        self.key_file, self.address = f"{self.folder}/cluster.key", address
        shutil.copy(cluster.info("key_file"), self.key_file)

    def __enter__(self):
        self.good("start", "--address", self.address, "--key-file", self.key_file,
                  "--node-ip-address",
                  self.address.rsplit(":", 1)[0], "--num-cpus", "1", "--object-store-memory", "50M")
        return self

    def node_info(self, key):
        node = [name for name in os.listdir(f"{self.folder}/r") if name.startswith("node-")][0]
        return read_info(f"{self.folder}/r/{node}/node.info", key)


def read_info(path, key):
    with open(path, encoding="ascii") as file:
        found = re.search(rf"^{key} ?(.*)$", file.read(), re.M)
    return found[1] if found else ""


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


class Stranger:
    """Listens and keeps every byte that comes; as another user where the test may become one."""

    def __init__(self, family, address, user=None):
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(address)
        if family == socket.AF_UNIX:
            os.chmod(address, 0o666)
        self.bytes, self.connections = b"", 0
        self.port = self.socket.getsockname()[1] if family == socket.AF_INET else 0
        if user is None:
            self.socket.listen(16)
        else:  # who listens is whom the kernel names
            pid = os.fork()
            if pid == 0:
                os.setresuid(user, user, user)
                self.socket.listen(16)
                os._exit(0)
            check(os.waitpid(pid, 0)[1] == 0, "the stranger could not listen")
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            self.connections += 1
            threading.Thread(target=self.keep, args=(connection,), daemon=True).start()

    def greet(self, connection):
        return connection

    def keep(self, connection):
        connection.settimeout(1)
        try:
            connection = self.greet(connection)
            while part := connection.recv(4096):
                self.bytes += part
                if b"\r\n\r\n" in self.bytes:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")
        except OSError:
            pass
        connection.close()


class TlsStranger(Stranger):
    """The same behind TLS, with a certificate: what it keeps is what came after the handshake."""

    def __init__(self, chain, key, address=("127.0.0.1", 0)):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(chain, key)
        super().__init__(socket.AF_INET, address)

    def greet(self, connection):
        return self.context.wrap_socket(connection, server_side=True)


def make_certificate(folder, name, names):
    """FOLDER/NAME.crt, self-signed, and FOLDER/NAME.key."""
    chain, key = f"{folder}/{name}.crt", f"{folder}/{name}.key"
    subprocess.run([
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-days", "1", "-subj", f"/O={name}", "-addext", f"subjectAltName={names}", "-keyout", key,
        "-out", chain
    ], check=True, capture_output=True)
    return chain, key


def shown_certificate(host, port):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, port), 20) as raw, context.wrap_socket(raw) as connection:
        return connection.getpeercert(binary_form=True)
