# SPDX-License-Identifier: Apache-2.0
"""The daemons of a chaos run: started, started again after a kill, asked, and at the end gone.

Nothing here waits: `tick` looks at what happened and begins what is due. A daemon that ends
without having been killed is a finding."""
import json
import os
import re
import time

KEY = "cluster.key"  # on the hosts of nodes; the head's host has its own
PATIENCE = 90  # seconds for a start, with faults in between


class Slot:
    """Head, or the node of one host."""

    def __init__(self, kind, place):
        self.kind, self.place = kind, place
        self.process = None  # Found, while it lives
        self.starting = None  # the command that starts it
        self.due = self.since = 0.0  # when to start, down since
        self.begun = 0.0  # by the clock of files: when its last start began

    def __str__(self):
        return f"{self.kind} on {self.place}"


class Daemons:
    def __init__(self, places, say, finding, store=("--object-store-memory", "256M")):
        self.places, self.say, self.finding, self.store = places, say, finding, store
        self.address = f"{places.head_ip}:{places.port}"
        self.head = Slot("head", "a")
        self.nodes = {name: Slot("node", name) for name in places.hosts}
        self.killed = {}  # pid -> seconds until it is started again
        self.key = KEY

    # ------------------------------------------------------------ commands

    def head_command(self):
        cpus = "0" if self.places.has_links else "2"
        spots = [] if self.places.has_links else ["--resources", "spot=60"]
        return [
            "crt", "start", "--head", "--port", self.places.port, "--dashboard-port",
            self.places.http_port, "--node-ip-address", self.places.head_ip, "--num-cpus", cpus,
            *spots, *self.store
        ]

    def node_command(self, name):
        at_head = name == "a" and self.places.has_links
        spots = [] if at_head else ["--resources", "spot=60"]
        key = self.key if name == "a" else KEY
        return ["crt", "start", "--address", self.address, "--key-file", key, "--node-ip-address",
                self.places.hosts[name].ip, "--num-cpus", "0" if at_head else "2", *spots,
                *self.store]

    def start_all(self):
        a = self.places.hosts["a"]
        said = a.run(*self.head_command())
        found = re.search(r"(?:scp \S+?:|--key-file )(\S+)", said)
        self.key = found[1]
        for name, host in self.places.hosts.items():
            if name != "a":
                a.give(self.key, host, KEY)
                host.run(*self.node_command(name))
        for slot in (self.head, *self.nodes.values()):
            slot.process = self._find(slot)

    def crt(self, *words, status=0, seconds=30):
        return self.places.hosts["a"].run("crt", *words, "--address", self.address, status=status,
                                          seconds=seconds)

    def status(self):
        """What `crt status --json` says, None when the head does not answer."""
        text = self.crt("status", "--json", status=None)
        try:
            return json.loads(text)
        except ValueError:
            return None

    # ------------------------------------------------------------ life

    def _find(self, slot):
        found = self.places.of_kind(slot.kind, slot.place)
        return found[0] if found else None

    def tick(self, now):
        living = {(p.kind, p.pid): p for p in self.places.processes() if p.kind in ("head", "node")}
        for slot in (self.head, *self.nodes.values()):
            self._look(slot, living, now)

    def _look(self, slot, living, now):
        if slot.process and ("node" if slot.kind == "node" else "head", slot.process.pid) in living:
            return
        if slot.process:
            if slot.process.pid not in self.killed:
                self._ended_by_itself(slot)
            slot.due = now + self.killed.get(slot.process.pid, 0)
            slot.process, slot.since = None, now
        if slot.starting:
            self._await_start(slot, living, now)
        elif self._is_startable(slot, now):
            there = [p for p in living.values() if p.kind == slot.kind and p.place == slot.place]
            if there:  # the start of the head brought the node
                slot.process = there[0]
                return
            command = self.head_command() if slot.kind == "head" else self.node_command(slot.place)
            slot.begun = time.time()
            slot.starting = self.places.hosts[slot.place].start(*command)

    def _ended_by_itself(self, slot):
        """A finding, but for a node whose start failed and could not say so: its command was
        killed."""
        log = self.log_of(slot)
        if slot.kind == "node" and "registered with" not in log:
            self.say(f"{slot} did not start: {log.strip()}")
            return
        words = "\n".join(log.splitlines()[-15:])
        self.finding(f"{slot} (pid {slot.process.pid}) ended by itself:\n{words}")

    def _is_startable(self, slot, now):
        """A node waits for the head; that of the head's host for the command that starts the head,
        too."""
        return now >= slot.due and (slot is self.head or
                                    (self.head.process and not self.head.starting))

    def _await_start(self, slot, living, now):
        if slot.starting.popen.poll() is None:
            # The daemon serves before the command ends; a fault may hit it already.
            found = [p for p in living.values() if p.kind == slot.kind and p.place == slot.place]
            if not found and now - slot.since > PATIENCE:
                self.finding(f"{slot} was not started within {PATIENCE} s: {slot.starting.text}")
                slot.since = now
            return
        status, text = slot.starting.popen.returncode, slot.starting.text
        slot.starting = None
        slot.process = self._find(slot)
        if slot.process:
            self.say(f"{slot} runs again (pid {slot.process.pid}) after {now - slot.since:.1f} s")
            return
        slot.due = now + 0.3
        self.say(f"{slot} does not start yet (status {status}): {text.strip()}")
        if now - slot.since > PATIENCE:
            self.finding(f"{slot} can't be started: {text}")
            slot.since = now

    def note_kill(self, process, seconds):
        self.killed[process.pid] = seconds

    def all_serve(self):
        """True when every daemon is there and the head says that every node is alive, and no more.

        A node that was drained may end while the head is asked: what is there is looked at
        afterwards."""
        slots = (self.head, *self.nodes.values())
        if not all(s.process and not s.starting for s in slots):
            return False
        status = self.status()
        nodes = [n for n in status["cluster"]["nodes"] if n["state"] == "ALIVE"] if status else []
        living = [p for p in self.places.processes() if p.kind in ("head", "node")]
        return ({s.process.pid for s in slots} <= {p.pid for p in living}
                and len(nodes) == len(self.nodes) == sum(p.kind == "node" for p in living)
                and all(n.get("drain_ms") is None for n in nodes))

    def node_of(self, process, said):
        """The id of the living node that is that process, from the text of crt status; None: it is
        not known."""
        try:
            nodes = json.loads(said)["cluster"]["nodes"]
        except ValueError:
            return None
        ip = self.places.hosts[process.place].ip
        return next((n["node_id"] for n in nodes if n["state"] == "ALIVE" and n["ip"] == ip), None)

    # ------------------------------------------------------------ evidence

    def log_of(self, slot):
        """What the daemon that was started last has written: one whose start failed leaves
        nothing."""
        host = self.places.hosts[slot.place]
        state = host.path("state" if not self.places.has_links else ".local/state/crt")
        said = []
        for where, _, names in os.walk(state):
            if f"{slot.kind}.log" in names:
                path = os.path.join(where, f"{slot.kind}.log")
                said.append((os.path.getmtime(path), path))
        written, path = max(said, default=(-1.0, ""))
        if written < slot.begun:
            return "no log"
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def stop(self):
        """crt stop on every host."""
        for name in reversed(sorted(self.places.hosts)):
            self.places.hosts[name].run("crt", "stop", "--address", self.address, seconds=60)


def now():
    return time.monotonic()
