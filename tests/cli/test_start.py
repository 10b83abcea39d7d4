#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crt start as it is typed: addresses by any words, an output that takes nothing, a directory that
is gone; and what a followed job says. Real daemons. Usage: test_start.py CRT"""
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import unittest

CRT = os.path.abspath(sys.argv[1])
PATIENCE = 120
HEAD = ("start", "--head", "--port", "0", "--dashboard-port", "0", "--num-cpus", "1",
        "--object-store-memory", "100M")


def crt(*arguments, code=0, **more):
    done = subprocess.run([CRT, *arguments], text=True, timeout=PATIENCE, check=False,
                          **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **more})
    if code is not None and done.returncode != code:
        raise AssertionError((arguments, done.returncode, done.stdout))
    return done.stdout


def runs_here():
    """What of a cluster is below the run directory."""
    run = os.environ["CRT_RUN_DIR"]
    return [name for name in os.listdir(run)
            if name.startswith(("head-", "node-"))] if os.path.isdir(run) else []


class Start(unittest.TestCase):
    def start(self, *more, **how):
        said = crt(*HEAD, *more, **how)
        address = re.search(r"--address (\S+) --key-file", said)[1]
        self.addCleanup(crt, "stop", "--address", address, code=None)
        return address, re.search(r"--key-file (\S+)", said)[1]

    def test_a_cluster_is_found_by_any_words_for_its_address(self):
        address, key = self.start()
        port = address.rsplit(":", 1)[1]
        words = ["localhost", "LOCALHOST", "[::ffff:127.0.0.1]", "127.1", "[::FFFF:7f00:1]"]
        try:
            if "127.0.0.1" in {
                    entry[4][0]
                    for entry in socket.getaddrinfo(socket.gethostname(), None)
            }:
                words.append(socket.gethostname())
        except OSError:
            pass
        for word in words:
            for command in (("status",), ("list", "nodes"), ("job", "list"), ("token",)):
                crt(*command, "--address", f"{word}:{port}")
            crt("status", env=dict(os.environ, CRT_ADDRESS=f"{word}:{port}"))
        said = crt("start", "--address", f"localhost:{port}", "--key-file", key, "--num-cpus", "1",
                   "--object-store-memory", "50M")
        self.assertIn("joined localhost", said)
        self.assertEqual(len(runs_here()), 3)
        self.assertEqual(crt("list", "nodes", "--address", address).count("ALIVE"), 2)
        self.assertIn("no node", crt("status", "--address", f"127.0.0.2:{port}", code=1))
        self.assertIn("Stopped 2 nodes and the head",
                      crt("stop", "--address", f"[::ffff:127.0.0.1]:{port}"))
        self.assertEqual(runs_here(), [])

    def test_a_dashboard_is_found_by_any_words_for_its_host(self):
        said = crt(*HEAD)
        url = re.search(r"(http://[0-9.:]+)", said)[1]
        self.addCleanup(crt, "stop", code=None)
        for url in (url, url.replace("127.0.0.1",
                                     "localhost"), url.replace("127.0.0.1", "[::ffff:127.0.0.1]")):
            crt("job", "list", "--address", url + "/")

    def test_nodes_of_a_host_have_names_of_their_own(self):
        address, key = self.start("--node-name", "first")
        join = ("start", "--address", address, "--key-file", key, "--num-cpus", "1",
                "--object-store-memory", "50M", "--node-name")
        crt(*join, "second-node_2.x")
        crt(*join, "n" * 63)
        rows = crt("list", "nodes", "--address", address)
        for name in ("first", "second-node_2.x"):
            self.assertEqual(rows.count(f" {name} "), 1, rows)
        self.assertIn("second-node_2.x", crt("status", "--address", address))
        self.assertIn("registered", crt("logs", "--node", "second-node_2.x", "--address", address))
        for name in ("n" * 64, "two words", "two\nlines", "caf\u00e9", "a/b"):
            said = crt(*join, name, code=1)
            self.assertIn("at most 63 letters, digits and . _ -", said)
        self.assertIn("takes a text that is not empty", crt(*join, "", code=2))
        self.assertEqual(crt("list", "nodes", "--address", address).count("ALIVE"), 3)

    def test_an_address_of_no_host_is_no_address_of_a_node(self):
        for ip in ("0.0.0.0", "::", "0", "224.0.0.1", "255.255.255.255", "::ffff:0.0.0.0"):
            self.assertIn("is no address by which others reach this host",
                          crt(*HEAD, "--node-ip-address", ip, code=1))
        self.assertIn("is no IP address", crt(*HEAD, "--node-ip-address", "localhost", code=1))
        address, key = self.start("--node-ip-address", "::ffff:127.0.0.1")
        self.assertRegex(address, r"^127\.0\.0\.1:\d+$")
        for ip in ("0.0.0.0", "::"):
            self.assertIn(
                "is no address by which",
                crt("start", "--address", address, "--key-file", key, "--node-ip-address", ip,
                    code=1))
        self.assertIn(
            "stands for any",
            crt("start", "--address", address.replace("127.0.0.1", "0.0.0.0"), "--key-file", key,
                code=1))
        self.assertEqual(len(runs_here()), 2)

    def test_an_output_that_takes_nothing_leaves_nothing_running(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            for more in ((), ("--block",)):
                done = subprocess.run([CRT, *HEAD, *more], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=PATIENCE, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(
                    done.stderr,
                    "crt start: standard output: No space left on device; nothing is left running\n"
                )
                self.assertEqual(runs_here(), [])
        for close in (">&-", "<&- >&-", "2>&- >&-"):
            done = subprocess.run(["/bin/sh", "-c", f'"$@" {close}', "sh", CRT, *HEAD],
                                  stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 1, done.stderr)
            if "2>" not in close:
                self.assertIn("standard output: Bad file descriptor; nothing is left", done.stderr)
            self.assertEqual(runs_here(), [])
        address, key = self.start()
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([
                CRT, "start", "--address", address, "--key-file", key, "--object-store-memory",
                "50M"
            ], stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, len(runs_here())), (1, 2),
                         done.stderr)  # the cluster that was there goes on
        crt("status", "--address", address)

    def test_a_directory_that_is_gone_is_no_hindrance(self):
        with tempfile.TemporaryDirectory() as place:
            gone = os.path.join(place, "gone")
            os.mkdir(gone)
            command = f'cd {gone} && rmdir {gone} && "$@"'

            def there(*arguments):
                done = subprocess.run(["/bin/sh", "-c", command, "sh", CRT, *arguments],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      timeout=PATIENCE, check=False)
                self.assertEqual(done.returncode, 0, done.stdout)
                os.mkdir(gone)
                return done.stdout

            address = re.search(r"--address (\S+) --key-file", there(*HEAD))[1]
            self.addCleanup(crt, "stop", "--address", address, code=None)
            there("status", "--address", address)
            self.assertIn("succeeded", there("job", "submit", "--address", address, "--", "true"))
            there("stop", "--address", address)

    def test_a_head_has_the_key_that_it_is_given_and_keeps_its_tables_where_it_is_told_to(self):
        with tempfile.TemporaryDirectory() as place:
            mine, other = (os.path.join(place, name) for name in ("mine", "other"))
            for path, digit in ((mine, "7"), (other, "8")):
                with open(path, "w", encoding="ascii") as file:
                    file.write(64 * digit)
                os.chmod(path, 0o600)
            options = ("--key-file", mine, "--keep-tables")
            address, key = self.start(*options)
            port = address.rsplit(":", 1)[1]
            with open(key, encoding="ascii") as file:
                self.assertEqual(file.read().strip(), 64 * "7")
            crt("job", "submit", "--address", address, "--submission-id", "first", "--", "true")
            crt("stop", "--address", address)
            self.assertEqual(runs_here(), [])
            self.assertIn("is not the key of the cluster that was here",
                          crt(*HEAD, "--port", port, "--key-file", other, code=1))
            crt(*HEAD, "--port", port, *options)
            self.assertIn("first", crt("job", "list", "--address", address))

    def test_the_node_of_this_host_says_how_it_is_and_is_drained(self):
        address, _ = self.start()
        self.assertIn("answers", crt("health-check", "--address", address))
        self.assertIn("give NODE or --here", crt("drain", "--here", "abc", code=2))
        self.assertRegex(crt("drain", "--here", "--address", address), "node [0-9a-f]{8} has ended")
        self.assertIn("no node of", crt("health-check", "--address", address, code=1))

    def test_the_dashboard_answers_by_the_name_that_it_is_given(self):
        said = crt(*HEAD, "--dashboard-name", "crt-head")
        self.addCleanup(crt, "stop", code=None)
        host, port = re.search(r"http://([0-9.]+):(\d+)", said).groups()

        def status(name):
            connection = http.client.HTTPConnection(host, int(port), timeout=PATIENCE)
            self.addCleanup(connection.close)
            connection.request("GET", "/api/healthz", headers={"Host": name})
            return connection.getresponse().status

        self.assertEqual([status(name) for name in ("crt-head:8265", "localhost", "evil.example")],
                         [200, 200, 403])

    def test_crt_as_one_file_runs_where_it_is_unpacked(self):
        with tempfile.TemporaryDirectory() as place:
            path = os.path.join(place, "crt.tar.gz")
            env = dict(os.environ, XDG_CACHE_HOME=place)
            self.assertIn("SHA-256", crt("archive", "--without-ml", "--output", path, env=env))
            with tarfile.open(path) as archive:
                names = archive.getnames()
                archive.extractall(place)
            self.assertFalse([name for name in names if "crt_ml" in name or "openblas" in name])
            done = subprocess.run([os.path.join(place, "bin", "crt"), "version"], text=True,
                                  stdout=subprocess.PIPE, timeout=PATIENCE, check=True)
            self.assertRegex(done.stdout, r"^crt \d")
            self.assertIn("No such file", crt("archive", "--output", f"{place}/no/file", code=1))
            os.mkfifo(f"{place}/pipe")
            reader = os.open(f"{place}/pipe", os.O_RDONLY | os.O_NONBLOCK)
            self.assertIn("no regular file", crt("archive", "--output", f"{place}/pipe", code=1))
            os.close(reader)
            self.assertTrue(os.path.exists(f"{place}/pipe"))

    def test_the_output_of_a_failed_job_is_printed_once(self):
        address, _ = self.start()
        said = crt("job", "submit", "--address", address, "--", "sh", "-c",
                   "echo once upon; exit 3", code=3)
        self.assertEqual(said.count("once upon\n"), 1, said)
        self.assertIn("Status message: Job entrypoint command failed with exit code 3\n", said)
        self.assertIn("Driver ended with status 3", said)

    def test_ctrl_c_says_that_the_job_goes_on(self):
        address, _ = self.start()
        with subprocess.Popen([
                CRT, "job", "submit", "--address", address, "--submission-id", "long", "--",
                "sleep", "1000"
        ], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as following:
            for line in following.stdout:
                if line.startswith("Running entrypoint"):
                    break
            following.send_signal(signal.SIGINT)
            said = following.communicate(timeout=PATIENCE)[1]
        self.assertEqual(following.returncode, -signal.SIGINT)
        self.assertIn(
            "The job goes on without this command.\n  Stop it with:\n    crt job stop long\n", said)
        self.assertIn("RUNNING", crt("job", "list", "--address", address))
        crt("job", "stop", "--address", address, "long")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
