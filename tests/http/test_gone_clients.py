#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that close, reset or send on while they are served: crt-http lets them go, and does not
spin until its next word to them. Usage: test_gone_clients.py CRT"""
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

CRT = sys.argv[1]
PATIENCE = 20
STREAMS = ("/api/v0/logs/stream?submission_id=endless",
           "/api/jobs/endless/logs?offset=1000&wait_ms=20000")
CLIENTS = 5


class GoneClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="crt-gone-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.env = {
            k: v
            for k, v in os.environ.items() if not k.startswith("CRT_") or k == "CRT_LIBEXEC"
        }
        cls.env.update(CRT_RUN_DIR=f"{cls.folder.name}/run",
                       CRT_STATE_DIR=f"{cls.folder.name}/state")
        said = cls.run_crt("start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus",
                           "1")
        cls.addClassCleanup(cls.run_crt, "stop", "--force")
        cls.host, cls.port = re.search(r"http://([0-9.]+):([0-9]+)", said).groups()
        cls.token = cls.run_crt("token").strip()
        cls.run_crt("job", "submit", "--no-wait", "--submission-id", "endless", "--", "/bin/sleep",
                    "1000000")
        cls.server = subprocess.run(["pgrep", "-f", f"^crt-http .*{cls.folder.name}"],
                                    stdout=subprocess.PIPE, text=True, check=True).stdout.split()[0]

    @classmethod
    def run_crt(cls, *words):
        return subprocess.run([CRT, *words], env=cls.env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=True,
                              timeout=PATIENCE).stdout

    def ask(self, path, then=""):
        s = socket.create_connection((self.host, int(self.port)), PATIENCE)
        self.addCleanup(s.close)
        s.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {self.host}\r\nAuthorization: Bearer {self.token}\r\n"
            f"\r\n{then}"
            .encode())
        return s

    def sockets(self):
        folder = f"/proc/{self.server}/fd"
        return sum(
            os.readlink(f"{folder}/{fd}").startswith("socket:") for fd in os.listdir(folder)
            if os.path.lexists(f"{folder}/{fd}"))

    def cpu_seconds(self):
        with open(f"/proc/{self.server}/stat", encoding="ascii") as file:
            words = file.read().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def is_idle(self):
        before = self.cpu_seconds()
        time.sleep(1)
        return self.cpu_seconds() - before < 0.3

    def until(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.05)

    def check(self, leave):
        for path in STREAMS:
            with self.subTest(path=path):
                before = self.sockets()
                clients = [self.ask(path) for _ in range(CLIENTS)]
                self.until(lambda: self.sockets() == before + CLIENTS, "not all of them are served")
                for client in clients:
                    leave(client)
                self.until(lambda: self.sockets() <= before, "those that left keep their places")
                self.until(self.is_idle, "the server spins")

    def test_clients_that_close_have_no_place_any_more(self):
        self.check(socket.socket.close)

    def test_clients_that_reset_have_no_place_any_more(self):
        def reset(client):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        self.check(reset)

    def test_clients_that_send_on_cost_nothing(self):
        for path in STREAMS:
            with self.subTest(path=path):
                clients = [self.ask(path) for _ in range(CLIENTS)]
                for _ in range(2):  # what came before has been read when they are answered
                    self.assertIn(b" 200 ", self.ask("/api/version").recv(100))
                for client in clients:
                    client.sendall(b"GET / HTTP/1.1\r\n")
                self.until(self.is_idle, "the server spins")
                for client in clients:
                    client.close()

    def test_clients_that_send_on_in_the_same_packet_cost_nothing_and_harm_no_others(self):
        for path in STREAMS:
            with self.subTest(path=path):
                others = [self.ask(path) for _ in range(CLIENTS)]
                clients = [self.ask(path, "GET / HTTP/1.1\r\n") for _ in range(CLIENTS)]
                self.until(self.is_idle, "the server spins")
                for client in clients:
                    client.settimeout(PATIENCE)
                    while client.recv(1000):
                        pass  # what came before the end
                for other in others:
                    other.setblocking(False)
                    with self.assertRaises(BlockingIOError,
                                           msg="one that waits in silence is let go, too"):
                        while other.recv(1000):
                            pass
                    other.close()

    def test_requests_in_one_packet_are_answered_in_turn(self):
        with open(f"/proc/{self.server}/maps", encoding="utf-8") as file:
            if "/libwebsockets.so.19" in file.read():
                self.skipTest(
                    "libwebsockets 4.3 closes a connection on which a request comes before the one "
                    "before it is answered"
                )
        two = self.ask(
            "/api/version", f"GET /api/version HTTP/1.1\r\nAuthorization: Bearer {self.token}\r\n"
            f"Host: {self.host}\r\nConnection: close\r\n\r\n")
        two.settimeout(PATIENCE)
        said = b""
        while part := two.recv(1000):
            said += part
        self.assertEqual(said.count(b" 200 "), 2, said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
