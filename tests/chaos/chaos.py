#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Chaos: a cluster of real processes under a checked load, while faults from a seed hit it.

Two drivers call actors and tasks, move objects, use names and values, streams and placement groups;
jobs are submitted. Meanwhile processes of every kind are killed and stopped, nodes are drained,
links are cut and the disk of redis-server is full, as the schedule says. With --hoard each driver
keeps twice what its store holds, and the disk for the rest is full at times, too. At the end: no
wrong sum, every call accounted for (ledgers.py), no hang, and nothing is left: no process, no byte
of a store or of a disk, no row, no socket. Killed daemons are started again, as an operator would
do it."""
import argparse
import fcntl
import os
import signal
import sys
import time

import figures
import places
import stores
from daemons import Daemons
from ledgers import Account
from schedule import KINDS, MORE, schedule

LOST, WRONG = 9, 3  # exit statuses of chaos_program
JOB_EVERY, JOBS_AT_ONCE, JOB_CALLS = 3.0, 2, 20
CALM = 60  # seconds until all is at rest
TICK = 0.02
REPORT_LINES = 60  # of a sanitizer
DISK = "64m"  # of redis-server: twice what it takes before it writes its file anew
SPILL = "spill"  # in the home of each host: a disk of its own for objects
OF = {"link": "link of ", "spill": "spill disk of "}
LOOKS = ["stack", "status", "list tasks --detail -f state!=FINISHED -n 500",
         "list actors --detail -f state!=DEAD -n 500", "list objects --detail -n 500",
         "list workers --detail -n 500"]
SLABS = 64 << 10  # bytes of an empty store that its tables may hold


class Chaos:
    def __init__(self, options):
        self.options = options
        self.findings = []
        self.began = time.monotonic()
        self.places = (places.OneHost if options.one_host else places.Namespaces)(options.build)
        self.daemons = Daemons(self.places, self.say, self.find, *self.store())
        self.drivers, self.jobs, self.due = {}, [], {}
        self.job_count = 0
        self.healing = []  # (time, what to do, text)
        self.drains = [
        ]  # (command, the node's process, seconds; None: the command is the drain itself)
        self.stopped, self.cut, self.is_full = set(), set(), False
        self.hits = {}
        self.is_winding_down = False
        self.jammed = set()
        self.looked_at = []  # drivers
        self.more = {}  # environment of the drivers
        if options.hoard:
            self.more["CHAOS_HOARD_MIB"] = str(options.hoard)

    def store(self):
        """What the stores are, where they are not those of every run."""
        if not self.options.hoard:
            return []
        where = ["--spill-dir", places.hosts.HOME + "/" + SPILL] if self.places.has_links else []
        return [["--object-store-memory", f"{self.options.hoard // 2}M", *where]]

    # ------------------------------------------------------------ telling

    def say(self, text):
        print(f"[{time.monotonic() - self.began:7.2f}] {text}", flush=True)

    def find(self, text):
        self.findings.append(text)
        self.say(f"FINDING {text}")

    # ------------------------------------------------------------ faults

    def hit(self, fault):
        if fault.kind == "disk":
            target = None if self.is_full else "the disk of redis-server"
        elif fault.kind == "spill":
            free = [n for n in sorted(self.places.hosts) if n not in self.jammed]
            target = free[fault.pick % len(free)] if free else None
        elif fault.kind == "link":
            free = [n for n in sorted(self.places.hosts) if n not in self.cut]
            target = free[fault.pick % len(free)] if free else None
        else:
            found = [p for p in self.places.of_kind("node" if fault.kind == "drain" else fault.kind)
                     if fault.act == "kill" or p.pid not in self.stopped]
            target = found[fault.pick % len(found)] if found else None
        if target is None:
            self.say(f"nothing to hit: {fault}")
            return
        self.say(
            f"{fault.act} {OF.get(fault.kind, '')}{target} "
            f"({fault.seconds:.2f} s)"
        )
        getattr(self, "_" + fault.act)(fault, target)
        self.hits[(fault.act, fault.kind)] = self.hits.get((fault.act, fault.kind), 0) + 1

    def _kill(self, fault, process):
        self.daemons.note_kill(process, fault.seconds)
        process.send(signal.SIGKILL)

    def _stop(self, fault, process):
        if process.send(signal.SIGSTOP):
            self.stopped.add(process.pid)
            self.healing.append((time.monotonic() + fault.seconds, self._go_on, process))

    def _drain(self, fault, process):
        """First its id is asked for. The head may be away: nobody waits for it."""
        asked = self.places.hosts["a"].start("crt", "status", "--json", "--address",
                                             self.daemons.address)
        self.drains.append((asked, process, fault.seconds))

    def tend_drains(self):
        """A drain is over when its command has ended: then the head knows of it, or never will."""
        for entry in [d for d in self.drains if d[0].popen.poll() is not None]:
            self.drains.remove(entry)
            asked, process, seconds = entry
            node = seconds is not None and asked.popen.returncode == 0 and self.daemons.node_of(
                process, asked.text)
            if node:
                self.daemons.note_kill(process, 1)
                command = self.places.hosts["a"].start("crt", "drain", node, "--no-wait",
                                                       "--deadline", seconds, "--address",
                                                       self.daemons.address)
                self.drains.append((command, process, None))

    def _go_on(self, process):
        self.stopped.discard(process.pid)
        process.go_on()

    def _cut(self, fault, name):
        self.cut.add(name)
        self.places.cut(name)
        self.healing.append((time.monotonic() + fault.seconds, self._mend, name))

    def _mend(self, name):
        self.cut.discard(name)
        self.places.mend(name)

    def _fill(self, fault, _):
        self.is_full = True
        filler = os.path.join(self.redis_folder, "filler")
        self.places.hosts["a"].run("dd", "if=/dev/zero", f"of={filler}", "bs=64k", status=None)
        self.healing.append((time.monotonic() + fault.seconds, self._make_room, filler))

    def _jam(self, fault, name):
        """No more can be spilled on that host for a while."""
        self.jammed.add(name)
        filler = os.path.join(SPILL, "filler")
        self.places.hosts[name].run("dd", "if=/dev/zero", f"of={filler}", "bs=64k", status=None)
        self.healing.append((time.monotonic() + fault.seconds, self._go_on_spilling, name))

    def _go_on_spilling(self, name):
        self.jammed.discard(name)
        os.remove(self.places.hosts[name].path(os.path.join(SPILL, "filler")))

    def _make_room(self, filler):
        self.is_full = False
        os.remove(self.places.hosts["a"].path(filler))

    @property
    def redis_folder(self):
        return f".local/state/crt/head-{self.places.port}/redis"

    def make_small_disk(self, size):
        """Before the head starts: so that it can be filled."""
        self.places.hosts["a"].run(
            "sh", "-c", f"umask 077; mkdir -p {self.redis_folder} && mount -t tmpfs -o "
            f"size={size},mode=700 tmpfs {self.redis_folder}")

    def make_spill_disks(self):
        for host in self.places.hosts.values():
            host.run("sh", "-c", f"umask 077; mkdir {SPILL} && mount -t tmpfs -o "
                     f"size={4 * self.options.hoard}m,mode=700 tmpfs {SPILL}")

    def bytes_spilled(self, name):
        disk = os.statvfs(self.places.hosts[name].path(SPILL))
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize

    def heal(self, everything=False):
        now = time.monotonic()
        for entry in [h for h in self.healing if everything or h[0] <= now]:
            self.healing.remove(entry)
            entry[1](entry[2])

    # ------------------------------------------------------------ drivers and jobs

    def start_driver(self, name):
        host = self.places.hosts[name]
        self.driver_count = getattr(self, "driver_count", 0) + 1
        self.drivers[name] = host.start(
            "./" + places.PROGRAM, "load", f"driver-{name}", self.options.calls,
            self.options.seed * 1000 + self.driver_count, "stop", env={
                "CRT_ADDRESS": self.daemons.address, "CHAOS_LEDGER": host.path_inside("ledger"),
                **self.more
            })

    def look_at_slow(self, name, driver):
        """Writes down, once for each driver, what the cluster says while a call is slow."""
        slow = [line for _, line in driver.lines if line.startswith("slow:")]
        if not slow or driver in self.looked_at:
            return
        self.looked_at.append(driver)
        self.say(f"driver {name}: {'; '.join(slow)}")
        where = f"slow-{name}-{len(self.looked_at)}"
        looks = "; ".join(f"echo '== crt {look}'; timeout 20 crt {look} --address "
                          f"{self.daemons.address}" for look in LOOKS)
        self.places.hosts["a"].start("sh", "-c", f"({looks}) > {where} 2>&1")

    def tend_driver(self, name):
        """Starts it again when it ended as it may: killed, its node lost, or no node there."""
        driver = self.drivers.get(name)
        if driver:
            self.look_at_slow(name, driver)
        status = driver.popen.poll() if driver else 1
        if status is None or time.monotonic() < self.due.get(name, 0):
            return
        if driver:
            self.judge_driver(name, driver, status)
        self.drivers[name] = None
        if not self.is_winding_down:
            self.due[name] = time.monotonic() + 0.3
            self.start_driver(name)

    def judge_driver(self, name, driver, status):
        text = driver.text
        last = [
            line for line in text.splitlines()
            if line.startswith(("calls", "lost", "chaos_program"))
        ]
        self.say(f"driver {name} ended with {status}: {' | '.join(last[-2:])}")
        lines = text.splitlines()
        for number, line in enumerate(lines):
            if line.startswith(
                    "FINDING") or "ERROR: AddressSanitizer" in line or "runtime error:" in line:
                self.find(f"driver {name}: " + "\n".join(lines[number : number + REPORT_LINES]))
        killed = status in (-signal.SIGKILL, 128 + signal.SIGKILL)
        if not (status in (0, 1, LOST) or killed) or (status
                                                      == 0) != self.is_winding_down and status == 0:
            self.find(f"driver {name} ended with {status}:\n" + "\n".join(text.splitlines()[-40:]))

    def tend_jobs(self):
        now = time.monotonic()
        for job in [j for j in self.jobs if j.popen.poll() is not None]:
            self.jobs.remove(job)
            if "Sanitizer" in job.text or "FINDING" in job.text:
                self.find(f"{job}: {job.text}")
        for job in self.jobs:
            if now - job.began > 2 * places.hosts_patience():
                self.find(f"hang: {job} has not ended: {job.text}")
                job.began = now
        if now >= self.due.get("job", 0) and len(
                self.jobs) < JOBS_AT_ONCE and not self.is_winding_down:
            self.due["job"] = now + JOB_EVERY
            self.submit_job()

    def submit_job(self):
        a = self.places.hosts["a"]
        self.job_count += 1
        job = a.start("crt", "job", "submit", "--address", self.daemons.address, "--submission-id",
                      f"chaos-{self.job_count}", "-e", f"CHAOS_LEDGER={a.path_inside('ledger')}",
                      "--", "./" + places.PROGRAM, "job", f"job-{self.job_count}", JOB_CALLS)
        job.began = time.monotonic()
        self.jobs.append(job)
        return job

    # ------------------------------------------------------------ the run

    def tick(self):
        self.heal()
        now = time.monotonic()
        if now >= self.due.get("daemons", 0):
            self.due["daemons"] = now + 0.1
            self.daemons.tick(now)
        for name in self.driver_places:
            self.tend_driver(name)
        self.tend_jobs()
        self.tend_drains()
        time.sleep(TICK)

    def until(self, what, probe, seconds=CALM):
        end = time.monotonic() + seconds
        while not probe():
            if time.monotonic() > end:
                self.find(f"not within {seconds} s: {what}")
                return False
            self.tick()
        return True

    @property
    def driver_places(self):
        return ["a", "b"] if "b" in self.places.hosts else ["a"]

    def run(self, faults):
        if any(f.kind == "disk" for f in faults):
            self.make_small_disk(DISK)
        if self.options.hoard and self.places.has_links:
            self.make_spill_disks()
        self.daemons.start_all()
        self.say("the cluster runs")
        before = figures.of_daemons(self.places)
        first = time.monotonic()
        for fault in faults:
            while time.monotonic() < first + fault.at:
                self.tick()
            self.hit(fault)
        while time.monotonic() < first + self.options.seconds:
            self.tick()
        self.say("the faults are over")
        self.heal(everything=True)
        self.until("all daemons serve again", lambda: not self.drains and self.daemons.all_serve())
        self.wind_down()
        self.goes_on_as_before()
        self.is_at_rest(before)
        self.account()

    def wind_down(self):
        self.is_winding_down = True
        for host in self.places.hosts.values():
            host.put_text("stop", "")
        if not self.until("the drivers end", lambda: not any(self.drivers.values()), 150):
            self.say_where("driver")
        self.until("the submitted jobs end", lambda: not self.jobs, 150)

    def say_where(self, kind):
        """What processes do that should have ended."""
        for process in self.places.of_kind(kind):
            self.say(f"{process}:")
            for line in places.stacks(process.pid):
                self.say(line)

    def goes_on_as_before(self):
        """A driver and a job, without faults: nothing may fail."""
        for host in self.places.hosts.values():
            os.remove(host.path("stop"))
        job = self.submit_job()
        for name in self.driver_places:
            self.start_driver(name)
        for name in self.driver_places:
            self.drivers[name].wait_line("^serves", 60)
        job.popen.wait(90)
        time.sleep(2)
        for host in self.places.hosts.values():
            host.put_text("stop", "")
        for name in self.driver_places:
            driver = self.drivers[name]
            status = driver.wait(120)
            counts = [line for line in driver.text.splitlines()
                      if line.startswith("calls")][-1].split()
            if status != 0 or set(counts[2::2]) - {"EXISTS", "ACTOR_DIED"}:
                self.find(
                    f"after the faults the driver on {name} ended with {status}:\n{driver.text}")
            self.drivers[name] = None
            self.say(f"afterwards on {name}: {' '.join(counts)}")
        if job.popen.returncode != 0:
            self.find(f"after the faults a job failed:\n{job.text}")
        self.jobs.clear()
        ended = self.places.hosts["a"].start("./" + places.PROGRAM, "end",
                                             env={"CRT_ADDRESS": self.daemons.address})
        if ended.wait(60) != 0:
            self.find(f"named actors can't be ended:\n{ended.text}")

    # ------------------------------------------------------------ what is left

    def is_at_rest(self, before):
        left = []

        def nothing_left():
            left[:] = self.what_is_left()
            return not left
        if not self.until("nothing of the load is left", nothing_left, 30):
            self.find("left: " + "; ".join(left[:20]))
            for line in stores.describe(self.places, self.options.build):
                self.say(line)
        after = figures.of_daemons(self.places)
        for key, value in sorted(after.items()):
            old = before.get(key, {})
            self.say(f"{key[0]} on {key[1]}: " + ", ".join(
                f"{what} {old.get(what)} -> {v}" for what, v in value.items()))
        sanitized = "asan" in self.options.build or "tsan" in self.options.build
        for sentence in figures.grown(before, after, sanitized):
            self.find(sentence)
        self.rows_are_known()
        self.daemons.stop()
        for process in self.places.processes():
            self.find(f"orphan after crt stop: {process}")
        for name, host in self.places.hosts.items():
            folder = self.places.run_folder(name)
            if os.path.isdir(folder) and os.listdir(folder):
                self.find(f"left after crt stop on {name}: {os.listdir(folder)}")

    def what_is_left(self):
        left = [
            str(p) for p in self.places.processes()
            if p.kind in ("worker", "zygote", "driver", "job") or
            (p.kind == "litter" and not self.is_of_living(self.places.node_folder(p)))
        ]
        status = self.daemons.status()
        if not status:
            return ["no status"]
        left += [
            f"actor {a['actor_id'][:8]} {a['state']} {a['name']} {a['message']}"
            for a in status["actors"] if a["state"] != "DEAD"
        ]
        left += [f"job {j['job_id'][:8]} {j['submission_id']} {j['status']}" for j in status["jobs"]
                 if j["status"] in ("PENDING", "RUNNING")]
        for node in status["cluster"]["nodes"]:
            if node["state"] == "ALIVE" and (node["store_used"] > SLABS or node["workers"]):
                left.append(
                    f"node {node['ip']} has {node['workers']} workers, {node['store_used']} bytes "
                    "in its store"
                )
            if node["state"] == "ALIVE" and node["resources_available"].get(
                    "spot") != node["resources_total"].get("spot"):
                left.append(
                    f"node {node['ip']} has given away {node['resources_total']} - "
                    f"{node['resources_available']}"
                )
        if self.options.hoard and self.places.has_links:
            left += [f"{self.bytes_spilled(n)} bytes on the spill disk of {n}"
                     for n in sorted(self.places.hosts) if self.bytes_spilled(n)]
        left += [f"demand: {d}" for d in status["cluster"].get("demand", [])]
        for name in self.places.hosts:
            for where, _, files in os.walk(self.places.run_folder(name)):
                left += [f"socket {f} on {name}" for f in files if f.startswith("p-") and
                         self.is_of_living(where)]
        return left

    def is_of_living(self, folder):
        """The directories of killed nodes go with crt stop."""
        try:
            with open(os.path.join(folder, "lock"), "rb") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except FileNotFoundError:
            pass
        return False

    def rows_are_known(self):
        """Every row belongs to an entry that the head shows, or may remember."""
        state = self.places.hosts["a"].path(
            "state" if self.options.one_host else ".local/state/crt")
        rows = figures.rows(os.path.join(state, f"head-{self.places.port}", "redis"))
        self.say(f"rows: {rows}")
        status = self.daemons.status()
        shown = {"actors": len(status["actors"]), "actor-states": len(status["actors"]),
                 "jobs": len(status["jobs"]), "job-states": len(status["jobs"]), "kv": 0, "meta": 1}
        for table, count in rows.items():
            if count > shown.get(table, 1 << 30):
                self.find(f"leak: {count} rows in {table}, the head shows {shown[table]}")

    def account(self):
        account = Account()
        for name, host in self.places.hosts.items():
            account.add_folder(host.path("ledger"))
        findings = account.check()
        self.say(account.summary())
        for finding in findings[:20]:
            self.find(finding)
        if len(findings) > 20:
            self.find(f"and {len(findings) - 20} more like these")


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1, help="of the faults")
    parser.add_argument("--seconds", type=float, default=30, help="how long faults hit; default 30")
    parser.add_argument("--rate", type=float, default=1, help="faults a second; default 1, 0: none")
    parser.add_argument("--calls", type=float, default=300, help="calls a second of each driver")
    parser.add_argument("--cut", type=float, default=25,
                        help="seconds of the long cut of test_restarts.py")
    parser.add_argument("--kinds", default="", help=f"only these, of {','.join(KINDS | MORE)}")
    parser.add_argument("--hoard", metavar="MIB", type=int, default=0,
                        help="each driver keeps so many MiB of objects; stores hold half of that")
    parser.add_argument("--one-host", action="store_true",
                        help="one node on this host, no namespaces")
    parser.add_argument("--keep", metavar="FOLDER", help="where logs and ledgers go after findings")
    parser.add_argument("--print", action="store_true", help="print the schedule and do nothing")
    parser.add_argument("--build", default=os.environ.get("CRT_TEST_BUILD", "build-asan"),
                        help="build folder")
    options = parser.parse_args(arguments)
    options.build = os.path.abspath(options.build)
    options.kinds = [k for k in options.kinds.split(",") if k]
    return options


def main(options):
    kinds = options.kinds or [*KINDS, *(MORE if options.hoard else ())]
    faults = schedule(options.seed, options.seconds, options.rate, kinds,
                      not options.one_host)
    print("\n".join(f"fault {i}: {f}" for i, f in enumerate(faults)), flush=True)
    if options.print:
        return
    chaos = Chaos(options)
    try:
        chaos.run(faults)
    finally:
        for (act, kind), count in sorted(chaos.hits.items()):
            print(f"{act} {kind}: {count}")
        if chaos.findings:
            print(
                f"{len(chaos.findings)} findings; again with: chaos.py --seed {options.seed} "
                f"--seconds {options.seconds:g} --rate {options.rate:g}" +
                (f" --hoard {options.hoard}" if options.hoard else "") +
                (" --one-host" if options.one_host else ""))
            if options.keep:
                chaos.places.keep(options.keep)
        chaos.places.close()
    if chaos.findings:
        raise places.hosts.TestFailure(chaos.findings[0])


if __name__ == "__main__":
    its_options = parse()
    if its_options.print:
        main(its_options)
    elif its_options.one_host:
        try:
            main(its_options)
            print("passed")
        except places.hosts.TestFailure as failure:
            print(f"FAILED: {failure}")
            sys.exit(1)
    else:
        places.hosts.run(lambda: main(its_options))
