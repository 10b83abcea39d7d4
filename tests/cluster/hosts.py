# SPDX-License-Identifier: Apache-2.0
"""Hosts for tests, made of namespaces: each has its own network, mounts, processes, ipc and name.

    a, b, c on 10.77.0.1, .2, .3, joined by a bridge; /tmp, /dev/shm, /run, /home, /opt are the
    host's alone, and the source and build folders are hidden, as is a crt that is installed on this
    machine. crt is in /opt/crt, a copy each.

A test calls `run(main)`. It is executed again inside an outer set of namespaces (a user namespace
too, unless it is root), of which it is process 1: whatever way it ends, kill -9 included, the
kernel takes every process, mount, link and address of its hosts away with it.

`main` gets a Lab:
    with Lab(...) as lab:  a = lab.host("a");  a.run("crt", "status");  lab.cut(a)
"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

INSIDE = "CRT_TEST_INSIDE_NAMESPACES"
SPACE = "/mnt"  # a tmpfs of the outer namespaces
PREFIX = "/opt/crt"
HOME = "/home/user"
SHARED = "/srv"  # see share
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
KEPT_VARIABLES = re.compile(r"^(ASAN|UBSAN|TSAN|LSAN)_OPTIONS$|^OPENBLAS_NUM_THREADS$|^CRT_LOG$")


class TestFailure(Exception):
    """What a test expects and did not see."""


def check(condition, what):
    if not condition:
        raise TestFailure(what)


def until(seconds, what, probe):
    """Calls `probe` until it gives something true, and returns that; fails after `seconds`."""
    end = time.monotonic() + seconds
    pause = threading.Event()
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > end:
            raise TestFailure(f"not within {seconds} s: {what}")
        pause.wait(0.02)


def installed_crt():
    """Command, daemons and libraries of a crt that is installed on this machine: what the loader
    and PATH would find."""
    found = {
        os.path.realpath(path)
        for folder in PATH.split(":") if os.path.exists(path := os.path.join(folder, "crt"))
    }
    found |= {
        os.path.join(os.path.dirname(folder.rstrip("/")), "libexec", "crt")
        for folder in PATH.split(":")
    }
    listed = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True,
                            check=False).stdout
    found |= {
        os.path.realpath(path)
        for path in re.findall(r"=> (\S+/libcrt(?:_ml)?\.so\S*)", listed)
    }
    return sorted(filter(os.path.exists, found))


def share(folder=None):
    """Hosts that are made from now on, and the test, see that folder at SHARED; without one a tmpfs
    that goes with them."""
    what = ["--bind", folder] if folder else ["-t", "tmpfs", "tmpfs"]
    subprocess.run(["mount", *what, SHARED], check=True)


def run(main):
    """Runs `main()` inside the outer namespaces; does not come back."""
    if INSIDE not in os.environ:
        os.environ[INSIDE] = str(os.getpid())
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        os.execvp("unshare", ["unshare", *user, "--net", "--mount", "--pid", "--ipc", "--fork",
                              "--kill-child", "--mount-proc", sys.executable, "-B", *sys.argv])
    # As process 1 it would ignore a signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", SPACE], check=True)
    try:
        main()
        print("passed", flush=True)
    except KeyboardInterrupt:
        sys.exit(130)
    except (TestFailure, subprocess.SubprocessError, OSError) as error:
        print(f"FAILED: {error}", flush=True)
        sys.exit(1)
    sys.exit(0)


class Process:
    """A command that runs on a host. Its output is kept, each line with the time it came."""

    def __init__(self, host, argv, env):
        self.host, self.argv = host, argv
        self.lines = []  # (monotonic time, text)
        self._news = threading.Condition()
        pid_read, pid_write = os.pipe()
        # --root: a test that runs in a chroot stays there.
        entered = [
            "nsenter", "--target",
            str(host.init.pid), "--net", "--mount", "--pid", "--ipc", "--uts", "--root", "--wd",
            "bash", "-c", f'echo $$ >&{pid_write}; exec {pid_write}>&-; cd "$HOME"; '
            'exec "$@"', "sh", *argv
        ]
        self.popen = subprocess.Popen(entered, env=env, stdin=subprocess.DEVNULL, text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      errors="replace", pass_fds=[pid_write])
        os.close(pid_write)
        with os.fdopen(pid_read) as pipe:
            self.pid = int(pipe.readline() or 0)  # as the host numbers it
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.popen.stdout:
            with self._news:
                self.lines.append((time.monotonic(), line.rstrip("\n")))
                self._news.notify_all()
        with self._news:
            self._reader = None
            self._news.notify_all()

    @property
    def text(self):
        with self._news:
            return "\n".join(line for _, line in self.lines)

    def wait_line(self, pattern, seconds):
        """(time, match) of the first line that matches; fails after `seconds` or at the end."""
        end, seen = time.monotonic() + seconds, 0
        with self._news:
            while True:
                for at, line in self.lines[seen:]:
                    match = re.search(pattern, line)
                    if match:
                        return at, match
                seen = len(self.lines)
                left = end - time.monotonic()
                if left <= 0 or self._reader is None:
                    break
                self._news.wait(left)
        raise TestFailure(
            f"{self}: no line \"{pattern}\" within {seconds} s; it said:\n{self.text}")

    def wait(self, seconds):
        """The exit status; fails when it still runs after `seconds`."""
        try:
            status = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TestFailure(
                f"{self} still runs after {seconds} s; it said:\n{self.text}") from None
        # A daemon that it left behind may hold the pipe open: the lines so far are enough then.
        reader = self._reader
        if reader is not None:
            reader.join(0.5)
        return status

    def kill(self, signal_number=signal.SIGKILL):
        self.host.kill(self.pid, signal_number)
        if signal_number == signal.SIGCONT:
            self.popen.send_signal(signal_number)  # nsenter stops when its child does

    def __str__(self):
        return f"{self.host.name}: {' '.join(self.argv)}"


class Host:
    """One host of a Lab. Made by Lab.host."""

    def __init__(self, lab, name, number):
        self.lab, self.name = lab, name
        self.ip = f"10.77.0.{number}"
        self.link = f"veth-{name}"  # the bridge's end of the cable
        prefix = os.path.join(SPACE, "prefix") if lab.has_crt else ""
        here = os.path.dirname(os.path.abspath(__file__))
        self.init = subprocess.Popen(
            ["unshare", "--net", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child",
             "--mount-proc", sys.executable, "-B", os.path.join(here, "host_init.py"), name, HOME,
             prefix, PREFIX, *lab.hidden],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        check(self.init.stdout.readline() == "ready\n", f"host {name} did not come up")
        # nsenter needs the process inside, unshare's only child.
        self.init.pid = _only_child(self.init.pid)
        _ip("link", "add", self.link, "type", "veth", "peer", "name", "eth0", "netns",
            str(self.init.pid))
        _ip("link", "set", self.link, "master", "br0", "up")
        self.run("ip", "address", "add", f"{self.ip}/24", "dev", "eth0")
        self.run("ip", "link", "set", "eth0", "up")

    def environment(self, extra=None):
        libraries = [os.path.join(PREFIX, lib) for lib in self.lab.library_folders]
        env = {name: value for name, value in os.environ.items() if KEPT_VARIABLES.match(name)}
        env.update(PATH=f"{PREFIX}/bin:{PATH}", HOME=HOME,
                   LC_ALL="C.UTF-8", LD_LIBRARY_PATH=":".join(libraries))
        env.update(extra or {})
        return env

    def start(self, *argv, env=None):
        """Starts a command in the home folder and gives its Process."""
        process = Process(self, [str(a) for a in argv], self.environment(env))
        self.lab.processes.append(process)
        return process

    def run(self, *argv, seconds=120, status=0, env=None):
        """Runs a command to its end and gives its output. `status` None: any exit status. The time
        is for a busy machine; what has to be faster is timed by the test."""
        process = self.start(*argv, env=env)
        got = process.wait(seconds)
        check(status is None or got == status,
              f"{process}: exit status {got} instead of {status}; it said:\n{process.text}")
        return process.text

    def path(self, path):
        """Where the test itself finds a file of this host."""
        return f"/proc/{self.init.pid}/root{os.path.join(HOME, path)}"

    def put(self, source, path, mode=0o755):
        """Copies a file of the test's machine to this host; the path is relative to its home."""
        os.makedirs(os.path.dirname(self.path(path)), exist_ok=True)
        shutil.copyfile(source, self.path(path))
        os.chmod(self.path(path), mode)

    def give(self, path, other, to):
        """Copies a file of this host to another one, as scp would; only the owner may read it."""
        other.put(self.path(path), to, 0o600)

    def pids(self, name):
        """Host's numbers of the processes of that program name, a list."""
        proc = f"/proc/{self.init.pid}/root/proc"
        found = []
        for entry in os.listdir(proc):
            if entry.isdigit():
                with contextlib.suppress(OSError), open(f"{proc}/{entry}/cmdline", "rb") as file:
                    program = file.read().split(b"\0")[0].decode(errors="replace")
                    if os.path.basename(program) == name:
                        found.append(int(entry))
        return sorted(found)

    def kill(self, pid, signal_number=signal.SIGKILL):
        """Without a command on the host, which takes its time on a busy machine: what follows is
        timed."""
        os.kill(self._number_here(pid), signal_number)

    def _number_here(self, pid):
        """What the test itself calls a process of this host."""
        space = os.readlink(f"/proc/{self.init.pid}/ns/pid")
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{entry}/ns/pid") != space:
                    continue
                with open(f"/proc/{entry}/status", encoding="utf-8", errors="replace") as file:
                    found = re.search(r"^NSpid:.*\t(\d+)$", file.read(), re.MULTILINE)
                if found and int(found[1]) == pid:
                    return int(entry)
        raise TestFailure(f"host {self.name} has no process {pid}")

    def bytes_sent(self):
        """What left this host by its cable so far."""
        return self._counters()[0]

    def bytes_received(self):
        return self._counters()[8]

    def _counters(self):
        """Of the bridge's end: what it receives, this host has sent."""
        with open("/proc/net/dev", encoding="ascii") as file:
            line = next(line for line in file if line.strip().startswith(f"{self.link}:"))
        return [int(number) for number in line.split(":")[1].split()]

    def only_pid(self, name):
        found = self.pids(name)
        check(len(found) == 1, f"host {self.name} has {len(found)} processes {name}, not 1")
        return found[0]

    def lose(self, percent):
        """Drops that share of what comes in, at random; 0 ends it."""
        rules = "table inet loss {}\ndelete table inet loss\n"
        if percent:
            share = f"numgen random mod 100 < {percent}" if percent < 100 else ""
            rules += ("table inet loss { chain in { type filter hook input priority 0; "
                      f'iifname "eth0" {share} drop; }}; }}\n')
        subprocess.run(["nsenter", "--target", str(self.init.pid), "--net", "nft", "-f", "-"],
                       input=rules, text=True, check=True)


class Lab:
    """A bridge and the hosts on it. `build` is the build folder crt is installed from, or None."""

    def __init__(self, build=None, hide=()):
        self.has_crt = build is not None
        self.hosts, self.processes, self.library_folders = {}, [], ["lib"]
        self.hidden = [os.path.abspath(p) for p in hide] + installed_crt()
        _ip("link", "add", "br0", "type", "bridge")
        _ip("link", "set", "br0", "up")
        _ip("link", "set", "lo", "up")
        if build:
            self._install(build)

    def _install(self, build):
        stage = os.path.join(SPACE, "stage")
        subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--destdir", stage],
                       check=True, stdout=subprocess.DEVNULL)
        bottom = next(where for where, folders, _ in os.walk(stage) if "include" in folders)
        os.rename(bottom, os.path.join(SPACE, "prefix"))
        self.library_folders = sorted({
            os.path.relpath(where, os.path.join(SPACE, "prefix"))
            for where, _, names in os.walk(os.path.join(SPACE, "prefix")) if "libcrt.so" in names})

    def host(self, name):
        self.hosts[name] = Host(self, name, len(self.hosts) + 1)
        return self.hosts[name]

    def cut(self, host):
        """Pulls the host's cable: nothing in, nothing out, and nobody is told."""
        _ip("link", "set", host.link, "down")

    def mend(self, host):
        _ip("link", "set", host.link, "up")

    def shape(self, host, rate):
        """Limits what leaves and what reaches the host ("100mbit"). The burst holds whole packets
        of the virtual link (64 KiB and their headers): smaller, each would be cut up by the
        processor, which on real links the card does, and 4 hosts on 2 cores would come to 0.55
        Gbit/s each."""
        limit = ["root", "tbf", "rate", rate, "burst", "256kb", "latency", "50ms"]
        subprocess.run(["tc", "qdisc", "replace", "dev", host.link, *limit], check=True)
        host.run("tc", "qdisc", "replace", "dev", "eth0", *limit)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            for process in self.processes[-12:]:
                print(f"---- {process}: exit status {process.popen.poll()}\n{process.text}")
        for host in self.hosts.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(host.init.pid, signal.SIGTERM)


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def _only_child(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        children = file.read().split()
    check(len(children) == 1, f"process {pid} has {len(children)} children")
    return int(children[0])
