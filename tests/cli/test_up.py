#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""crt up, down and exec over real ssh: each host is an sshd of its own on loopback, with a host
key, a home, and run and state directories. Usage: test_up.py CRT [all]
Without `all` the tests that take longest are left out; tests/nightly.sh runs them."""
import fcntl
import getpass
import glob
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

from real_cluster import free_port, until

CRT = os.path.abspath(sys.argv[1])
PATIENCE = 120
SSHD = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
# Of this process, which those of the hosts have, too: what they leave behind is found.
PASSED = ("ASAN_OPTIONS", "UBSAN_OPTIONS", "CRT_TEST_FOLDER", "LD_LIBRARY_PATH", "PATH")
LONG = unittest.skipUnless("all" in sys.argv[2:], "with the argument all")
SECRET = "a-secret-of-the-environment"


def end(pid):
    """A process that was killed keeps its locks until its memory is given back."""
    ended = os.pidfd_open(pid)
    os.kill(pid, signal.SIGKILL)
    select.select([ended], [], [], PATIENCE)
    os.close(ended)


def make_key(path):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


class Host:
    """An sshd that lives until `stop`."""

    def __init__(self, lab, name):
        self.name, self.port = name, free_port()
        self.folder = os.path.join(lab.folder, name)
        self.run = os.path.join(self.folder, "r")
        self.state = os.path.join(self.folder, "s")
        self.handed = self.path("home/.local/share/crt")
        os.makedirs(os.path.join(self.folder, "home"))
        make_key(self.path("host_key"))
        os.makedirs(self.path("bin"))
        passed = {name: os.environ[name] for name in PASSED if name in os.environ}
        passed |= {"HOME": self.path("home"), "CRT_RUN_DIR": self.run, "CRT_STATE_DIR": self.state,
                   "PATH": f"{self.path('bin')}:{os.environ['PATH']}"}
        with open(self.path("sshd_config"), "w", encoding="ascii") as file:
            file.write(f"""Port {self.port}
ListenAddress 127.0.0.1
HostKey {self.path("host_key")}
AuthorizedKeysFile {lab.path("id.pub")}
StrictModes no
UsePAM no
PasswordAuthentication no
PidFile none
SetEnv {" ".join(f'"{name}={value}"' for name, value in passed.items())}
""")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)  # where init has not started one
        self.log = open(self.path("sshd.log"), "wb")
        self.sshd = subprocess.Popen([SSHD, "-D", "-e", "-f", self.path("sshd_config")],
                                     stderr=self.log)
        until(f"sshd of {name} listens", self.listens)

    def path(self, name):
        return os.path.join(self.folder, name)

    def listens(self):
        if self.sshd.poll() is not None:
            raise AssertionError(text_of(self.path("sshd.log")))
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def public_key(self):
        return text_of(self.path("host_key.pub"))

    def daemons(self):
        """Names of the directories of its daemons."""
        return sorted(os.path.basename(d).split("-")[0] for d in glob.glob(self.run + "/*-*"))

    def fake(self, name, text):
        """A program that is found there before the system's."""
        with open(self.path("bin/" + name), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(self.path("bin/" + name), 0o755)

    def trees(self):
        """What was handed over."""
        return sorted(os.listdir(self.handed)) if os.path.isdir(self.handed) else []

    def daemon_pid(self, kind):
        [info] = glob.glob(f"{self.run}/{kind}-*/{kind}.info")
        return int(re.search(r"^pid (\d+)$", text_of(info), re.MULTILINE)[1])

    def key_files(self):
        return [os.path.join(folder, name) for folder, _, names in os.walk(self.state)
                for name in names if name.startswith("cluster.key")]

    def stop(self):
        self.sshd.terminate()
        self.sshd.wait(PATIENCE)
        self.log.close()


class Lab:
    """Hosts n0, n1 ..., the configuration of ssh for them, and cluster files."""

    def __init__(self, count):
        self.folder = tempfile.mkdtemp(prefix="crt-up-")
        make_key(self.path("id"))
        self.hosts = [Host(self, f"n{i}") for i in range(count)]
        self.head_port = free_port()
        with open(self.path("config"), "w", encoding="ascii") as file:
            file.write(f"""Host *
  User {getpass.getuser()}
  HostName 127.0.0.1
  IdentityFile {self.path("id")}
  IdentitiesOnly yes
  UserKnownHostsFile {self.path("known_hosts")}
  GlobalKnownHostsFile /dev/null
""")
            for host in self.hosts:
                file.write(f"Host {host.name}\n  Port {host.port}\n  HostKeyAlias {host.name}\n")
            file.write(f"Host nowhere\n  Port {free_port()}\n")
        self.accept({host.name: host.public_key() for host in self.hosts})

    def path(self, name):
        return os.path.join(self.folder, name)

    def accept(self, keys):
        with open(self.path("known_hosts"), "w", encoding="ascii") as file:
            file.writelines(f"{name} {key}" for name, key in keys.items())

    def file(self, hosts="[n1, n2]", more="", crt=CRT, options=""):
        """A cluster file; each cluster of a lab has the same name."""
        path = tempfile.mktemp(suffix=".yaml", dir=self.folder)
        with open(path, "w", encoding="utf-8") as file:
            file.write("" if crt is None else f"crt: {crt}\n")
            file.write(f"""name: lab
ssh:
  options: [-F, {self.path("config")}{options}]
environment:
  TOLD: {SECRET}
head:
  host: n0
  port: {self.head_port}
  dashboard-port: 0
  num-cpus: 1
  object-store-memory: 64M
groups:
  others:
    hosts: {hosts}
    num-cpus: 1
    object-store-memory: 64M
    labels: {{rack: r1}}
{more}""")
        return path

    def end(self):
        for host in self.hosts:
            host.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def crt(*arguments, code=0, stdin=None, patience=PATIENCE):
    done = subprocess.run([CRT, *arguments], text=True, timeout=patience, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, input=stdin)
    if code is not None and done.returncode != code:
        raise AssertionError((arguments, done.returncode, done.stdout))
    return done.stdout


class Up(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(3)
        cls.file = cls.lab.file()

    @classmethod
    def tearDownClass(cls):
        cls.lab.end()

    def setUp(self):
        self.addCleanup(crt, "down", self.file, code=None)

    def assert_nothing_is_left(self):
        for host in self.lab.hosts:
            self.assertEqual(host.daemons(), [], host.name)
            left = [name for _, _, names in os.walk(host.state) for name in names]
            self.assertEqual(left, [], host.name)

    def test_up_starts_what_is_missing_and_down_leaves_nothing(self):
        said = crt("up", self.file)
        self.assertIn("n0 (head): started\n", said)
        self.assertIn("n1: started\n", said)
        self.assertIn("n2: started\n", said)
        self.assertIn(f"The cluster lab runs: 127.0.0.1:{self.lab.head_port}, 3 hosts.", said)
        self.assertEqual([host.daemons() for host in self.lab.hosts],
                         [["head", "node"], ["node"], ["node"]])
        self.assertEqual(crt("exec", self.file, "--", CRT, "list", "nodes").count("ALIVE"), 3)
        self.assertEqual(crt("up", self.file).count("runs already\n"), 3)
        text = text_of(self.file)
        for old, new, what in (("rack: r1", "rack: r2", "n1: runs already, with other options"),
                               (SECRET, "other", "n2: runs already, with another environment")):
            with open(self.file + ".changed", "w", encoding="ascii") as file:
                file.write(text.replace(old, new))
            self.assertIn(what, crt("up", self.file + ".changed"))
        for host in self.lab.hosts[:2]:
            end(host.daemon_pid("node"))
        said = crt("up", self.file)
        self.assertIn("n0 (head): started its node\n", said)
        self.assertIn("n1: started\n", said)
        self.assertIn("n2: runs already\n", said)
        said = crt("down", self.file)
        self.assertEqual(said.count(": stopped\n"), 3, said)
        self.assert_nothing_is_left()
        self.assertEqual(crt("down", self.file).count("had nothing"), 3)

    def test_exec_runs_with_the_environment_of_the_cluster(self):
        crt("up", self.file)
        address = f"127.0.0.1:{self.lab.head_port}"
        said = crt("exec", self.file, "--", "sh", "-c", 'echo "$CRT_ADDRESS $TOLD"; echo "a  b"')
        self.assertEqual(said, f"{address} {SECRET}\na  b\n")
        said = crt("exec", self.file, "--all", "--", "sh", "-c", "echo $CRT_ADDRESS; printf end")
        self.assertEqual(sorted(said.splitlines()),
                         sorted(f"n{i}: {text}" for i in range(3) for text in (address, "end")))
        self.assertEqual(crt("exec", self.file, "--", "sh", "-c", "exit 7", code=7), "")
        self.assertIn("n2: ended with status 3",
                      crt("exec", self.file, "--all", "--", "sh", "-c", "exit 3", code=1))
        self.assertIn("can't execute no-such-program",
                      crt("exec", self.file, "--", "no-such-program", code=127))

    def test_key_and_environment_are_in_no_argument_and_no_file_of_others(self):
        look = self.lab.path("look")
        with open(look, "w", encoding="ascii") as file:
            file.write('cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" "\\n" >>"$1"\n'
                       'cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n" >>"$1.environ"\n'
                       "exit 0\n")
        seen = self.lab.path("seen")
        crt("up", self.lab.file(more=f"setup: sh {look} {seen}\n"))
        subprocess.run(["sh", look, seen], check=True)
        keys = {path: text_of(path).strip() for host in self.lab.hosts
                for path in host.key_files() if path.endswith("cluster.key")}
        self.assertEqual(len(keys), 3)
        [key] = set(keys.values())
        self.assertRegex(key, r"^[0-9a-f]{64}$")
        for path in keys:
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600, path)
        said = text_of(seen)
        self.assertIn("crt-node", said)
        self.assertNotIn(key, said)
        self.assertNotIn(SECRET, said)
        self.assertNotIn(key, text_of(seen + ".environ"))
        for host in self.lab.hosts:
            for folder, _, names in os.walk(host.folder):
                for name in names:
                    path = os.path.join(folder, name)
                    if path not in keys and stat.S_ISREG(os.lstat(path).st_mode):
                        self.assertNotIn(key, text_of(path), path)
        crt("down", self.file)
        self.assert_nothing_is_left()

    def test_a_host_that_is_unreachable_does_not_hold_up_the_others(self):
        file = self.lab.file(hosts="[n1, nowhere]")
        said = crt("up", file, code=1)
        self.assertIn("n0 (head): started\n", said)
        self.assertIn("n1: started\n", said)
        self.assertRegex(said, r"nowhere: failed: .*Connection refused")
        self.assertIn("1 of 3 hosts failed", said)
        said = crt("down", file, code=1)
        self.assertEqual(said.count(": stopped\n"), 2, said)
        self.assert_nothing_is_left()

    def test_a_host_key_is_never_accepted_unasked(self):
        keys = {host.name: host.public_key() for host in self.lab.hosts}
        self.addCleanup(self.lab.accept, keys)
        self.lab.accept(keys | {"n1": keys["n2"]})
        said = crt("up", self.file, code=1)
        self.assertIn("n1: failed: its host key is not the one that was accepted before", said)
        self.assertIn("n2: started\n", said)
        known = {name: key for name, key in keys.items() if name != "n1"}
        self.lab.accept(known)
        said = crt("up", self.file, code=1)
        self.assertIn("n1: failed: its host key is unknown here", said)
        self.assertIn("accept it once by ssh n1", said)
        hosts = [line.split()[0] for line in text_of(self.lab.path("known_hosts")).splitlines()]
        self.assertEqual(sorted(hosts), ["n0", "n2"])
        self.lab.accept(keys)
        self.assertIn("n1: started\n", crt("up", self.file))

    def test_a_node_with_the_key_of_an_earlier_head_is_told(self):
        head = self.lab.hosts[0]
        crt("up", self.file)
        for kind in ("node", "head"):
            end(head.daemon_pid(kind))
        shutil.rmtree(head.state)
        said = crt("up", self.file, code=1)
        self.assertIn("n0 (head): started\n", said)
        self.assertEqual(said.count("failed: its node has the key of an earlier head"), 2, said)
        crt("down", self.file)
        self.assert_nothing_is_left()
        self.assertEqual(crt("up", self.file).count(": started\n"), 3)

    def test_a_setup_that_fails_is_told_with_its_last_line(self):
        more = "    setup: ['true', 'echo first; echo no luck >&2; exit 3']\n"
        said = crt("up", self.lab.file(more=more), code=1)
        self.assertIn("n0 (head): started\n", said)
        self.assertRegex(said, r'n1: failed: setup "echo first.*" ended with status 3: no luck\n')
        self.assertEqual(self.lab.hosts[1].daemons(), [])
        self.assertEqual(self.lab.hosts[1].key_files(), [])

    def test_what_an_interrupted_up_began_is_ended(self):
        mark = self.lab.path("begun")
        more = f"    setup: ['touch {mark}; exec sleep 1000']\n"
        up = subprocess.Popen([CRT, "up", self.lab.file(hosts="n1", more=more)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        until("the setup runs", lambda: os.path.exists(mark))
        up.send_signal(signal.SIGINT)
        said, _ = up.communicate(timeout=PATIENCE)
        self.assertEqual(up.returncode, 130, said)
        self.assertIn("n1: failed: interrupted", said)
        self.assertIn("crt up goes on from here", said)
        said = crt("up", self.file)
        self.assertIn("n0 (head): runs already\n", said)
        self.assertIn("n1: started\n", said)

    def test_an_interrupted_exec_ends_its_command(self):
        mark = self.lab.path("pid")
        run = subprocess.Popen([CRT, "exec", self.file, "--", "sh", "-c",
                                f"echo $$ >{mark}.new; mv {mark}.new {mark}; sleep 1000; exit 0"])
        until("the command runs", lambda: os.path.exists(mark))
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(PATIENCE), 130)
        pid = int(text_of(mark))
        until("the command has ended", lambda: not os.path.exists(f"/proc/{pid}"))

    def test_the_input_of_exec_is_that_of_its_command(self):
        said = crt("exec", self.file, "--", "wc", "-c", stdin="x" * 300000)
        self.assertEqual(said, "300000\n")
        self.assertEqual(crt("exec", self.file, "--", "cat", stdin="a\nb"), "a\nb")
        self.assertEqual(crt("exec", self.file, "--", "head", "-c", "3", stdin="y" * 300000), "yyy")
        self.assertEqual(crt("exec", self.file, "--all", "--", "cat", stdin="no"), "")
        # A command that reads nothing is ended all the same.
        mark = self.lab.path("reads-nothing")
        run = subprocess.Popen([CRT, "exec", self.file, "--", "sh", "-c",
                                f"echo $$ >{mark}.new; mv {mark}.new {mark}; sleep 1000; exit 0"],
                               stdin=subprocess.PIPE)
        until("the command runs", lambda: os.path.exists(mark))
        os.set_blocking(run.stdin.fileno(), False)
        until("all is full", lambda: run.stdin.raw.write(b"z" * 65536) is None)
        run.send_signal(signal.SIGINT)
        self.assertEqual(run.wait(PATIENCE), 130)
        run.stdin.raw.close()
        pid = int(text_of(mark))
        until("the command has ended", lambda: not os.path.exists(f"/proc/{pid}"))

    def test_the_folder_goes_to_all_hosts_and_nothing_there_is_removed(self):
        folder = self.lab.path("program")
        os.makedirs(folder + "/data/deep")
        with open(folder + "/run", "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho here: $(cat data/deep/a) >>own; cat own\n")
        os.chmod(folder + "/run", 0o755)
        for name, text in (("data/deep/a", "first"), ("empty", ""), ("big", "b" * 200000),
                           (".gitignore", "big.log\n"), ("big.log", "none")):
            with open(f"{folder}/{name}", "w", encoding="ascii") as file:
                file.write(text)
        os.symlink("big", folder + "/link")
        os.symlink("/nowhere", folder + "/dangling")
        file = self.lab.file(hosts="n1", more=f"folder: {folder}\nsetup: test -x run\n")
        there = self.lab.hosts[1].path("home/crt/lab")
        crt("up", file)
        self.assertEqual(crt("exec", file, "--all", "--", "./run").count(": here: first\n"), 2)
        self.assertEqual(sorted(os.listdir(there)),
                         [".gitignore", "big", "data", "empty", "link", "own", "run"])
        self.assertEqual(text_of(there + "/link"), "b" * 200000)
        with open(folder + "/data/deep/a", "w", encoding="ascii") as a:
            a.write("other")
        os.unlink(folder + "/big")
        os.unlink(folder + "/link")
        before = os.stat(there + "/run").st_ino
        self.assertEqual(crt("rsync", file).count(": 1 files, 0.0 MB\n"), 2)
        self.assertEqual(crt("rsync", file).count(": had all files\n"), 2)
        self.assertEqual(os.stat(there + "/run").st_ino, before)
        self.assertEqual(text_of(there + "/data/deep/a"), "other")
        self.assertTrue(os.path.exists(there + "/big"))
        self.assertIn("here: first\nhere: other\n", crt("exec", file, "--", "./run"))
        os.rename(there, there + ".away")
        with open(there, "w", encoding="ascii"):
            self.assertRegex(crt("rsync", file, code=1), "n1: failed: the folder .*Not a directory")
        self.assertIn("names no folder", crt("rsync", self.file, code=1))

    def test_names_that_lead_out_of_the_folder_are_refused(self):
        version = crt("version").split()[1]
        for name in ("../x", "/x", "a/../x", "a//x", "", "a/.."):
            line = json.dumps({"version": version, "do": "rsync", "name": "x", "folder": "crt/x",
                               "files": [[name, 1, True, "0" * 64]]})
            done = subprocess.run([CRT, "host"], input=line + "\n", text=True, check=False,
                                  stdout=subprocess.PIPE, timeout=PATIENCE,
                                  env=os.environ | {"HOME": self.lab.folder,
                                                    "CRT_STATE_DIR": self.lab.path("state")})
            self.assertIn("no list of files", done.stdout, name)

    def test_a_host_without_crt_is_told(self):
        said = crt("up", self.lab.file(crt="/nowhere/crt"), code=1)
        self.assertIn("n0 (head): failed: there is no /nowhere/crt: install crt there", said)
        self.assertIn("nothing was begun on other hosts", said)
        self.assert_nothing_is_left()

    def test_shared_connections_that_stay_open_hold_up_nothing(self):
        options = ", -oControlMaster=auto, -oControlPersist=yes"
        options += f", -oControlPath={self.lab.folder}/c-%n"
        file = self.lab.file(hosts="n1", options=options)
        try:
            self.assertEqual(crt("up", file).count(": started\n"), 2)
            self.assertTrue(os.path.exists(self.lab.path("c-n1")))
            self.assertEqual(crt("exec", "--all", file, "--", "echo", "a").count(": a\n"), 2)
            self.assertEqual(crt("down", file).count(": stopped\n"), 2)
        finally:
            for name in ("n0", "n1"):
                subprocess.run(["ssh", "-F", self.lab.path("config"), "-O", "exit",
                                f"-oControlPath={self.lab.folder}/c-%n", name], check=False,
                               stderr=subprocess.DEVNULL)
        self.assert_nothing_is_left()

    def test_a_check_says_what_would_be_done_and_does_nothing(self):
        self.assertEqual(crt("up", "--check", self.file).count(": would start\n"), 3)
        self.assert_nothing_is_left()
        crt("up", self.lab.file(hosts="n1"))
        self.assertEqual(sorted(crt("up", "--check", self.file).splitlines()),
                         ["n0 (head): runs already", "n1: runs already", "n2: would start"])
        self.assertEqual(self.lab.hosts[2].daemons(), [])

    def test_status_and_dashboard_are_reached_by_ssh(self):
        self.assertIn("no head of this cluster runs there", crt("dashboard", self.file, code=1))
        crt("up", self.lab.file(hosts="n1"))
        nodes = json.loads(crt("status", "--json", self.file))["cluster"]["nodes"]
        self.assertEqual(len(nodes), 2)
        self.assertEqual(crt("status", self.file).count("ALIVE"), 2)
        way = subprocess.Popen([CRT, "dashboard", self.file], stdout=subprocess.PIPE, text=True)
        try:
            link = way.stdout.readline().strip()
            self.assertRegex(link, r"^http://127\.0\.0\.1:\d+$")
            with urllib.request.urlopen(link + "/", timeout=PATIENCE) as page:
                self.assertIn(b"<html", page.read())
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(link + "/api/jobs/", timeout=PATIENCE)
            self.assertEqual(refused.exception.code, 401)
        finally:
            way.send_signal(signal.SIGINT)
            way.communicate(timeout=PATIENCE)
        self.assertEqual(way.returncode, 130)

    def test_attach_opens_a_terminal_on_the_head(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(CRT, [CRT, "attach", self.file])
        said = b""
        os.write(terminal, b"echo here=$CRT_STATE_DIR; exit 5\n")
        try:
            while select.select([terminal], [], [], PATIENCE)[0]:
                said += os.read(terminal, 65536)
        except OSError:  # its other end is closed
            pass
        os.close(terminal)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 5, said)
        self.assertIn(f"here={self.lab.hosts[0].state}".encode(), said)

    def test_the_path_of_crt_is_one_word_for_the_shell_there(self):
        folder = self.lab.path("it's $(touch gone) & here")
        os.makedirs(folder, exist_ok=True)
        os.symlink(CRT, os.path.join(folder, "crt"))
        said = crt("up", "--check", self.lab.file(crt=f'"{folder}/crt"'))
        self.assertEqual(said.count(": would start\n"), 3)

    def test_what_hosts_answer_is_printed_and_does_nothing_else(self):
        fake = self.lab.path("fake")
        with open(fake, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\nread line\necho welcome\n"
                       "echo 'crt-host {\"error\": \"an \\u001b[2Jerror\"}'\n")
        os.chmod(fake, 0o755)
        said = crt("up", self.lab.file(crt=fake), code=1)
        self.assertIn("n0 (head): failed: an ", said)
        self.assertNotIn("\x1b", said)

    def test_a_request_that_is_not_understood_changes_nothing(self):
        version = crt("version").split()[1]
        for request, why in (("", "no request of crt up"), ("{}", "need the same version"),
                             ({"version": "0.0.1"}, f"crt there is {version}, here is 0.0.1"),
                             ({"version": version, "do": "up", "name": "../x"}, "no request"),
                             ({"version": version, "do": "fly", "name": "x"}, "no request"),
                             ({"version": version, "do": "up", "name": "x", "options": [1]},
                              "options are texts"),
                             ({"version": version, "do": "up", "name": "x", "key": "x"},
                              "a key has 64 hexadecimal digits")):
            line = request if isinstance(request, str) else json.dumps(request)
            done = subprocess.run([CRT, "host"], input=line + "\n", text=True, check=False,
                                  stdout=subprocess.PIPE, timeout=PATIENCE)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(why, done.stdout)

    def test_a_dry_run_asks_no_host(self):
        self.lab.accept({})
        self.addCleanup(self.lab.accept, {h.name: h.public_key() for h in self.lab.hosts})
        said = crt("up", "--dry-run", self.lab.file(more="setup: make\n"))
        self.assertIn(f"n0 (head):\n  make\n  crt start --head --port {self.lab.head_port}", said)
        self.assertIn("n2:\n  make\n  crt start --address HEAD --key-file KEY --num-cpus 1 "
                      "--object-store-memory 64M --labels rack=r1\n", said)
        self.assert_nothing_is_left()


class HandOver(unittest.TestCase):
    """Hosts without crt: it comes along."""

    @classmethod
    def setUpClass(cls):
        cls.lab = Lab(2)
        cls.file = cls.lab.file(hosts="n1", crt=None)
        os.environ["XDG_CACHE_HOME"] = cls.lab.path("cache")
        crt("up", "--check", cls.file, patience=300)  # packs crt

    @classmethod
    def tearDownClass(cls):
        del os.environ["XDG_CACHE_HOME"]
        cls.lab.end()

    def setUp(self):
        self.addCleanup(crt, "down", self.file, code=None)
        shutil.rmtree(self.lab.hosts[1].handed, ignore_errors=True)
        for host in self.lab.hosts:
            shutil.rmtree(host.path("bin"))
            os.makedirs(host.path("bin"))

    def assert_handed(self, said, *names):
        self.assertEqual(sorted(re.findall(r"^(\w+): is handed crt$", said, re.MULTILINE)),
                         sorted(names), said)

    def test_crt_is_handed_over_once(self):
        shutil.rmtree(self.lab.hosts[0].handed, ignore_errors=True)
        said = crt("up", "--check", self.file)
        self.assertEqual(said.count(": would get crt, and start\n"), 2, said)
        self.assertEqual([host.trees() for host in self.lab.hosts], [[], []])
        self.assertEqual(crt("down", self.file).count("had nothing"), 2)
        self.assertEqual([host.trees() for host in self.lab.hosts], [[], []])
        self.assert_handed(crt("up", self.file), "n0", "n1")
        [tree] = self.lab.hosts[0].trees()
        [name] = os.listdir(self.lab.path("cache/crt"))
        self.assertIn(tree, name)
        self.assertEqual(stat.S_IMODE(os.stat(self.lab.path("cache/crt/" + name)).st_mode), 0o600)
        self.assertEqual(self.lab.hosts[1].trees(), [tree])
        self.assertEqual(os.readlink(f"/proc/{self.lab.hosts[1].daemon_pid('node')}/exe"),
                         f"{self.lab.hosts[1].handed}/{tree}/libexec/crt/crt-node")
        said = crt("exec", self.file, "--", "sh", "-c", "command -v crt; crt list nodes")
        self.assertIn(f"{tree}/bin/crt", said)
        self.assertEqual(said.count("ALIVE"), 2, said)
        self.assertEqual(crt("down", self.file).count(": stopped\n"), 2)
        said = crt("up", self.file)
        self.assert_handed(said)
        self.assertEqual(said.count(": started\n"), 2)

    def test_what_a_killed_command_had_begun_to_pack_is_removed(self):
        folder = self.lab.path("cache/crt")
        given_up, written = (os.path.join(folder, name) for name in ("new.1", "new.2"))
        with open(given_up, "wb"), open(written, "wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            crt("up", "--check", self.file)
            self.assertFalse(os.path.exists(given_up))
            self.assertTrue(os.path.exists(written))
        crt("up", "--check", self.file)
        self.assertFalse(os.path.exists(written))

    @LONG
    def test_a_crt_of_the_same_version_is_taken_one_of_another_is_not(self):
        host = self.lab.hosts[1]
        host.fake("crt", f'exec {CRT} "$@"\n')
        self.assertNotIn("n1: is handed crt", crt("up", self.file))
        self.assertEqual(host.trees(), [])
        crt("down", self.file)
        host.fake("crt", "echo crt 0.0.9\n")
        self.assert_handed(crt("up", self.file), "n1")

    def test_a_host_that_cannot_run_it_is_told_before_anything_is_sent(self):
        host = self.lab.hosts[1]
        for name, text, why in (
                ("uname", "echo riscv64", "its processor is riscv64, crt here is for "),
                ("getconf", "echo glibc 2.17", "its C library is glibc 2.17, crt here needs 2."),
                ("getconf", "exit 1", "its C library is not glibc"),
                ("mkdir", "echo mkdir: Permission denied >&2; exit 1",
                 "crt can't be put into .*/crt: mkdir: Permission denied")):
            host.fake(name, text)
            said = crt("up", self.file, code=1)
            self.assertRegex(said, "n1: failed: " + why)
            self.assertNotIn("n1: is handed", said)
            os.unlink(host.path("bin/" + name))
        self.assertEqual(host.trees(), [])

    @LONG
    def test_what_fails_in_the_middle_leaves_nothing_and_a_second_up_mends_it(self):
        host = self.lab.hosts[1]
        for name, text, why in (
                ("head", "/usr/bin/head -c 1000", "crt did not arrive whole"),
                ("head", "/usr/bin/head -c 1000; echo No space left >&2; exit 1",
                 "crt can't be put into .*: No space left"),
                ("tar", "echo tar: No space left on device >&2; exit 2",
                 "crt can't be put into .*: tar: No space left on device"),
                ("mv", "exit 1", "crt can't be put into ")):
            host.fake(name, text)
            self.assertRegex(crt("up", self.file, code=1), "n1: failed: " + why)
            self.assertEqual(host.trees(), [], name)
            os.unlink(host.path("bin/" + name))
        self.assert_handed(crt("up", self.file), "n1")

    @LONG
    def test_one_that_is_interrupted_and_two_at_once(self):
        host, mark = self.lab.hosts[1], self.lab.path("begun")
        host.fake("head", f"/usr/bin/head -c 1000; touch {mark}; exec cat >/dev/null")
        up = subprocess.Popen([CRT, "up", self.file], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        until("crt is handed over", lambda: os.path.exists(mark))
        up.send_signal(signal.SIGINT)
        said, _ = up.communicate(timeout=PATIENCE)
        self.assertEqual(up.returncode, 130, said)
        until("what was begun is gone", lambda: host.trees() == [])
        os.unlink(host.path("bin/head"))
        ups = [subprocess.Popen([CRT, "up", self.file], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT) for _ in range(2)]
        said = [up.communicate(timeout=PATIENCE)[0] for up in ups]
        self.assertEqual([up.returncode for up in ups], [0, 0], said)
        self.assertEqual("".join(said).count("n1: started\n"), 1, said)
        self.assertEqual(len(host.trees()), 1)


if __name__ == "__main__":
    if not SSHD or not shutil.which("ssh"):
        print("skipped: needs sshd and ssh")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
