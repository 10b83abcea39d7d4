# SPDX-License-Identifier: Apache-2.0
"""Where the cluster of a chaos run lives: hosts in namespaces, or this host; and its processes."""
import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cluster"))
import hosts  # noqa: E402

PROGRAM = "chaos_program"
DAEMONS = {
    "crt-head": "head", "crt-node": "node", "crt-http": "http", "redis-server": "redis-server",
    "valkey-server": "redis-server", "crt-watchdog": "watchdog", "crt": "command",
    "chaos-litter": "litter"
}


class Found:
    """A process: its number here, its kind, and the name of its host."""

    def __init__(self, pid, kind, place, start):
        self.pid, self.kind, self.place, self.start = pid, kind, place, start

    def __str__(self):
        return f"{self.kind} {self.pid} on {self.place}"

    def send(self, signal_number):
        """False: it was gone already."""
        try:
            if start_of(self.pid) != self.start:
                return False
            os.kill(self.pid, signal_number)
        except (ProcessLookupError, FileNotFoundError):
            return False
        return True


    def go_on(self):
        """nsenter, which waits for a command on a host, stops itself with it."""
        try:
            parent = int(stat_of(self.pid)[1])
            with open(f"/proc/{parent}/comm", encoding="ascii", errors="replace") as comm:
                if comm.read() == "nsenter\n":
                    os.kill(parent, signal.SIGCONT)
        except OSError:
            pass
        self.send(signal.SIGCONT)


def stat_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()


def start_of(pid):
    return int(stat_of(pid)[19])


def read(path):
    with open(path, "rb") as file:
        return file.read()


def parts_of(pid):
    """(name of the program, environment) of a process."""
    argv = read(f"/proc/{pid}/cmdline").split(b"\0")
    environment = read(f"/proc/{pid}/environ").split(b"\0")
    return os.path.basename(argv[0].decode(errors="replace")), environment


def has(environment, name):
    return any(e.startswith(name.encode() + b"=") for e in environment)


def stacks(pid):
    """Where its threads are, told by gdb, or by the kernel where there is none."""
    if shutil.which("gdb"):
        told = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"],
                              capture_output=True, text=True, errors="replace", timeout=60,
                              check=False, stdin=subprocess.DEVNULL)
        return [line for line in told.stdout.splitlines() if line.startswith(("#", "Thread"))]
    lines = []
    for task in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
        folder = f"/proc/{pid}/task/{task}/"
        lines.append(" ".join(read(folder + name).decode(errors="replace").strip()
                              for name in ("comm", "wchan", "syscall")))
    return lines


def kind_above(parent, name):
    """What a parent is that runs the same program; None: another one, or it can't be looked at."""
    try:
        return kind_of(parent) if parts_of(parent)[0] == name else None
    except OSError:
        return None


def kind_of(pid):
    """What a process is to the cluster; None: none of its, or gone. What runs below a command, a
    driver, a job or a worker is LeakSanitizer's helper, which looks at a program that ends: the
    program would wait for it without end if it were killed."""
    try:
        name, environment = parts_of(pid)
        stat = stat_of(pid)
        if stat[0] in "ZX":
            return None
        if name not in DAEMONS and name != PROGRAM:
            return None
        above = kind_above(int(stat[1]), name)
        if above in ("command", "driver", "job", "worker"):
            return None
        if name in DAEMONS:
            return DAEMONS[name]
        if not has(environment, "CRT_ZYGOTE_FD"):
            return "job" if has(environment, "CRT_SUBMISSION") else "driver"
        return "worker" if above == "zygote" else "zygote"
    except (OSError, ValueError, IndexError):
        return None


class ChaosHost(hosts.Host):
    def path_inside(self, path):
        return os.path.join(hosts.HOME, path)

    def put_text(self, path, text):
        with open(self.path(path), "w", encoding="utf-8") as file:
            file.write(text)


class Places:
    """What the two kinds of places have in common. `hosts` name -> host of hosts.py's interface."""

    def processes(self):
        """All that belong to the cluster, in an order that does not depend on their numbers."""
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                place = self.place_of(int(entry))
                kind = place and kind_of(int(entry))
                if kind:
                    found.append(Found(int(entry), kind, place, start_of(int(entry))))
            except (OSError, ValueError, IndexError):
                continue
        return sorted(found, key=lambda p: (p.place, p.start, p.pid))

    def keep(self, folder):
        """Copies logs and ledgers away, to be looked at."""
        for name, host in self.hosts.items():
            shutil.copytree(
                host.path("."), os.path.join(folder, name), symlinks=True, dirs_exist_ok=True,
                ignore=shutil.ignore_patterns(PROGRAM, "*.sock", "*.ipc", "programs", "run",
                                              "redis"))

    def node_folder(self, process):
        """Run directory of the node that a process belongs to; "nowhere" when it has ended."""
        try:
            environment = read(f"/proc/{process.pid}/environ")
        except OSError:
            return "nowhere"
        for entry in environment.split(b"\0"):
            name, _, value = entry.decode(errors="replace").partition("=")
            if name in ("CRT_NODE_DIR", "CRT_NODE_SOCKET"):
                folder = value if name == "CRT_NODE_DIR" else os.path.dirname(value)
                return os.path.join(self.run_folder(process.place), os.path.basename(folder))
        return "nowhere"

    def of_kind(self, kind, place=None):
        return [p for p in self.processes() if p.kind == kind and place in (None, p.place)]


class Namespaces(Places):
    """Hosts a, b and c of hosts.py."""
    has_links = True

    def __init__(self, build):
        self.lab = hosts.Lab(build)
        self.hosts = {name: ChaosHost(self.lab, name, i + 1) for i, name in enumerate("abc")}
        self.lab.hosts = self.hosts
        self.head_ip, self.port, self.http_port = self.hosts["a"].ip, 6380, 8265
        self.by_namespace = {os.readlink(f"/proc/{host.init.pid}/ns/pid"): name
                             for name, host in self.hosts.items()}
        for host in self.hosts.values():
            host.put(os.path.join(build, "tests", "chaos", PROGRAM), PROGRAM)
            os.makedirs(host.path("ledger"))

    def place_of(self, pid):
        return self.by_namespace.get(os.readlink(f"/proc/{pid}/ns/pid"))

    def cut(self, name):
        self.lab.cut(self.hosts[name])

    def mend(self, name):
        self.lab.mend(self.hosts[name])

    def run_folder(self, name):
        return self.hosts[name].path("/tmp/crt-0") if os.path.isdir(
            self.hosts[name].path("/tmp/crt-0")) else self.hosts[name].path("/run/crt-0")

    def close(self):
        self.lab.__exit__(None, None, None)


class LocalProcess(hosts.Process):
    """A command on this host, with what hosts.Process gives."""

    def __init__(self, host, argv, env):  # pylint: disable=super-init-not-called
        self.host, self.argv, self.lines = host, argv, []
        self._news = threading.Condition()
        self.popen = subprocess.Popen(argv, env=env, cwd=host.folder, stdin=subprocess.DEVNULL,
                                      text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      errors="replace", start_new_session=True)
        self.pid = self.popen.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()


class LocalHost:
    """This host, with directories of its own."""

    def __init__(self, build, folder):
        self.name, self.ip, self.build, self.folder = "a", "127.0.0.1", build, folder
        os.makedirs(os.path.join(folder, "ledger"))
        os.symlink(os.path.join(build, "tests", "chaos", PROGRAM), os.path.join(folder, PROGRAM))

    def environment(self, extra=None):
        env = {
            name: value
            for name, value in os.environ.items() if hosts.KEPT_VARIABLES.match(name)
        }
        env.update(PATH=f"{self.build}/cli:/usr/local/bin:/usr/bin:/bin", HOME=self.folder,
                   LC_ALL="C.UTF-8", CRT_RUN_DIR=os.path.join(self.folder, "run"),
                   CRT_STATE_DIR=os.path.join(self.folder, "state"))
        env.update(extra or {})
        return env

    def start(self, *argv, env=None):
        return LocalProcess(self, [str(a) for a in argv], self.environment(env))

    run = hosts.Host.run
    put_text = ChaosHost.put_text

    def path(self, path):
        return os.path.join(self.folder, path)

    path_inside = path

    def kill(self, pid, signal_number=signal.SIGKILL):
        os.kill(pid, signal_number)


class OneHost(Places):
    """No namespaces: one node on this host; its processes are known by their environment."""
    has_links = False

    def __init__(self, build):
        self.folder = tempfile.TemporaryDirectory(prefix="crt-ch-", ignore_cleanup_errors=True)
        self.hosts = {"a": LocalHost(build, self.folder.name)}
        self.head_ip, self.port, self.http_port = "127.0.0.1", hosts_free_port(), 0
        self.mark = f"CRT_RUN_DIR={self.folder.name}/run".encode()

    def place_of(self, pid):
        return "a" if self.mark in read(f"/proc/{pid}/environ").split(b"\0") else None

    def run_folder(self, name):
        return os.path.join(self.folder.name, "run")

    def close(self):
        for process in self.processes():
            process.send(signal.SIGKILL)
        self.folder.cleanup()


def hosts_patience():
    """Seconds after which a call that has not ended is a hang (account.h)."""
    return 90


def hosts_free_port():
    """For a head that is killed and started again. Outside of the range in which the system
    chooses: there anybody's connection may take it while the head is away."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        low, high = map(int, file.read().split())
    others = [port for port in range(10000, 65536) if not low <= port <= high]
    while True:
        with socket.socket() as s, contextlib.suppress(OSError):
            port = random.choice(others)
            s.bind(("127.0.0.1", port))
            return port
