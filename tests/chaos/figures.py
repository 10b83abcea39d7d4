# SPDX-License-Identifier: Apache-2.0
"""What a cluster at rest holds: memory, descriptors, threads, rows, sockets; to be compared."""
import os
import re
import shutil
import subprocess
import tempfile

# At rest, beyond what the same kind of process held before the load: what may be left in caches.
MORE = {"memory": 24 << 20, "files": 12, "threads": 2}


def anonymous(pid):
    """Bytes of private memory; with a sanitizer they say nothing."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        text = file.read()
    return sum(int(kb) << 10 for kb in re.findall(r"^Private_Dirty: +(\d+) kB", text, re.M))


def of_process(pid):
    return {"memory": anonymous(pid), "files": len(os.listdir(f"/proc/{pid}/fd")),
            "threads": len(os.listdir(f"/proc/{pid}/task"))}


def of_daemons(places):
    """(kind, place) -> figures."""
    found = {}
    for p in places.processes():
        if p.kind in ("head", "node", "http", "redis-server"):
            found[(p.kind, p.place)] = of_process(p.pid)
    return found


def grown(before, after, sanitized):
    """Sentences about what grew by more than it may."""
    said = []
    for key, figures in after.items():
        for what, value in figures.items():
            old = before.get(key, figures)[what]
            if what == "memory" and sanitized:
                continue
            if value > old + MORE[what]:
                said.append(f"leak: {what} of {key[0]} on {key[1]} went from {old} to {value}")
    return said


def rows(folder):
    """Table -> rows, of a copy of the files in which redis-server keeps them."""
    with tempfile.TemporaryDirectory(prefix="crt-rows-") as copy:
        shutil.copytree(folder, os.path.join(copy, "data"))
        socket = os.path.join(copy, "redis.sock")
        names = os.listdir(folder)
        more = ["--appenddirname", next(n for n in names if n.startswith("append"))]
        server = subprocess.Popen([
            shutil.which("redis-server") or "valkey-server", "--port", "0", "--unixsocket", socket,
            "--dir",
            os.path.join(copy, "data"), "--appendonly", "yes", *more
        ], stdout=subprocess.DEVNULL)
        try:
            return _ask(socket)
        finally:
            server.kill()
            server.wait()


def _ask(socket):
    def redis(*words):
        for _ in range(200):
            done = subprocess.run([shutil.which("redis-cli") or "valkey-cli", "-s", socket, *words],
                                  capture_output=True, text=True)
            if done.returncode == 0 and not done.stdout.startswith(("LOADING", "Could not")):
                return done.stdout.split()
            import time
            time.sleep(0.05)
        raise OSError(f"redis-server does not answer: {done.stdout}{done.stderr}")

    return {key.split(":", 1)[1]: int(redis("HLEN", key)[0]) for key in redis("KEYS", "*")}
