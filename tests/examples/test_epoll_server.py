#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The server with one epoll for clients and results: several clients at once, one that leaves, the
end by a signal.
Usage: test_epoll_server.py EPOLL_SERVER"""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

SERVER = sys.argv[1]
PRIMES = {10: 4, 100: 25, 1000: 168, 10000: 1229, 100000: 9592}


class EpollServer(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "socket")
        self.server = subprocess.Popen([SERVER, self.path], stderr=subprocess.DEVNULL)
        self.clients = []
        deadline = time.monotonic() + 60
        while not os.path.exists(self.path):
            self.assertIsNone(self.server.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def tearDown(self):
        for client in self.clients:
            client.close()
        self.server.kill()
        self.server.wait()
        self.folder.cleanup()

    def connect(self):
        deadline = time.monotonic() + 60
        while True:
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(60)
            self.clients.append(client)
            try:
                client.connect(self.path)
                return client
            except ConnectionRefusedError:  # bound, and not listening yet
                self.assertLess(time.monotonic(), deadline)

    def lines(self, client, count):
        text = b""
        while text.count(b"\n") < count:
            text += client.recv(4096)
        return sorted(text.decode().splitlines())

    def test_clients_get_their_own_results_and_a_signal_ends_it(self):
        leaver = self.connect()
        leaver.sendall(b"300000\n" * 5)
        leaver.close()
        clients = [self.connect() for _ in range(4)]
        for client in clients:
            client.sendall("".join(f"{n}\n" for n in PRIMES).encode())
        for client in clients:
            self.assertEqual(self.lines(client, len(PRIMES)),
                             sorted(f"{n} {p}" for n, p in PRIMES.items()))
        clients[0].sendall(b"10\n")
        self.assertEqual(self.lines(clients[0], 1), ["10 4"])
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(timeout=60), 0)
        self.assertFalse(os.path.exists(self.path))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
