#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Objects that go from host to host, beside iperf3 between the same hosts.

The hosts are namespaces of this machine. Rows:
    link       one object over a link of --rate, encrypted
    plain      one object, no limit, not encrypted
    encrypted  one object, no limit, encrypted (the default of a cluster)
    broadcast  one object to --hosts hosts at once, links of --rate, beside the same to one host
    many       --objects objects at once, no limit, encrypted
Rounds of crt and of iperf3 take turns; a ratio is that of the medians. iperf3 runs as it does best,
with its copying and its zero-copy sending (-Z); the better one counts. Both sides are bound to one
core each, unless --no-pin. The first transfer of a row meets memory that was never used and is told
by itself.
"""
import argparse
import json
import os
import re
import statistics
import sys

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tests", "cluster"))
import hosts  # noqa: E402
from crt_cluster import KEY, PORT  # noqa: E402

ROWS = ("link", "plain", "encrypted", "broadcast", "many")
PROGRAM = "transfer_program"


def read_arguments():
    parser = argparse.ArgumentParser(
        prog="transfer", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"),
                        help="build folder of a release build")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--rate", default="1gbit",
                        help="of each host's link, each way, as tc takes it")
    parser.add_argument("--bytes", type=float, default=1e9, help="of one object (default 1e9)")
    parser.add_argument("--broadcast-bytes", type=float, default=256e6, help="default 256e6")
    parser.add_argument("--hosts", type=int, default=8, help="that a broadcast goes to")
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--object-bytes", type=float, default=256e3,
                        help="of each of many (default 256e3)")
    parser.add_argument("--no-pin", dest="pin", action="store_false", help="bind nothing to a core")
    parser.add_argument("--no-iperf3", dest="iperf3", action="store_false",
                        help="only crt, no ratios")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    given.rows = [r.strip() for r in given.rows.split(",")]
    if not set(given.rows) <= set(ROWS):
        parser.error(f"--rows: not all of {','.join(given.rows)} are of {','.join(ROWS)}")
    given.pin = given.pin and os.cpu_count() > 1
    given.build = os.path.abspath(given.build)
    if not os.path.exists(os.path.join(given.build, "tests", "bench", PROGRAM)):
        parser.error(f"--build: {given.build} has no tests/bench/{PROGRAM}: build crt there first")
    return given


class Farm:
    """A cluster: the driver's host with the head, and hosts host0 (where objects are made), host1,
    ..."""

    def __init__(self, given, lab, name, count, room, rate, encrypt):
        self.given, self.lab, self.rate = given, lab, rate
        room = f"{int(room * 1.1 + 64e6) >> 20}M"
        self.head = lab.host(f"{name[:4]}-head")
        said = self.head.run("crt", "start", "--head", "--node-ip-address", self.head.ip,
                             "--num-cpus", "0", "--object-store-memory", "64M", "--encrypt-streams",
                             encrypt)
        self.address = f"{self.head.ip}:{PORT}"
        key_file = re.search(r"scp \S+?:(\S+)", said)[1]
        self.head.put(os.path.join(given.build, "tests", "bench", PROGRAM), PROGRAM)
        self.hosts = [lab.host(f"{name[:4]}-{number}") for number in range(count)]
        for number, host in enumerate(self.hosts):
            if rate:
                lab.shape(host, rate)
            self.head.give(key_file, host, KEY)
            host.run("crt", "start", "--address", self.address, "--key-file", KEY,
                     "--node-ip-address", host.ip, "--num-cpus", "1", "--resources",
                     f"host{number}=4", "--object-store-memory", room)
        if given.pin and count == 2:
            for core, host in enumerate(self.hosts):
                host.run("taskset", "--all-tasks", "--cpu-list", "--pid", core,
                         host.only_pid("crt-node"))

    def transfer(self, size, objects=1, readers=1):
        """Seconds until all readers can read all objects."""
        driver = self.head.start(f"./{PROGRAM}", "--bytes", int(size), "--objects", objects,
                                 "--readers", readers, env={"CRT_ADDRESS": self.address})
        status = driver.wait(300)
        hosts.check(status == 0, f"transfer: exit status {status}; it said:\n{driver.text}")
        return json.loads(driver.lines[-1][1])["seconds"]

    def iperf3(self, *options):
        """Bits per second that arrive."""
        maker, reader = self.hosts[:2]
        server = reader.start("iperf3", "--server", "--one-off", "--forceflush")
        server.wait_line("Server listening", 10)
        pin = ["--affinity", "0,1"] if self.given.pin else []
        said = maker.run("iperf3", "--client", reader.ip, "--time", "3" if self.rate else "1",
                         "--json", *pin, *options)
        server.wait(10)
        return json.loads(said)["end"]["sum_received"]["bits_per_second"]

    def daemons(self):
        """CPU seconds and private memory in MB of each host's node daemon."""
        found = []
        for host in self.hosts:
            proc = f"/proc/{host.init.pid}/root/proc/{host.only_pid('crt-node')}"
            with open(f"{proc}/stat", encoding="ascii") as file:
                ticks = file.read().rsplit(")", 1)[1].split()[11:13]
            with open(f"{proc}/status", encoding="ascii") as file:
                memory = int(re.search(r"RssAnon:\s+(\d+)", file.read())[1]) / 1024
            found.append((sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"), memory))
        return found

    def stop(self):
        for host in (*self.hosts, self.head):
            host.run("crt", "stop", "--address", self.address)


def measure(farm, given, size, objects=1):
    """Rounds of one size between two hosts, in turns with iperf3."""
    first = farm.transfer(size, objects)
    farm.transfer(size, objects)  # the same memory from here on
    before, ours, bare, zero_copy = farm.daemons(), [], [], []
    for _ in range(given.rounds):
        ours.append(8 * size * objects / farm.transfer(size, objects))
        if given.iperf3:
            bare.append(farm.iperf3())
            zero_copy.append(farm.iperf3("--zerocopy"))
    after, sent = farm.daemons(), size * objects * given.rounds / 1e9
    row = {"bytes": int(size), "objects": objects, "first_gbits": 8 * size * objects / first / 1e9,
           "gbits": statistics.median(ours) / 1e9, "all_gbits": [round(r / 1e9, 3) for r in ours],
           "cpu_seconds_per_gb": [round((b[0] - a[0]) / sent, 3) for a, b in zip(before, after)],
           "memory_grew_mb": [round(b[1] - a[1], 2) for a, b in zip(before, after)]}
    if given.iperf3:
        row["iperf3_gbits"] = statistics.median(bare) / 1e9
        row["iperf3_zero_copy_gbits"] = statistics.median(zero_copy) / 1e9
        row["ratio"] = row["gbits"] / max(row["iperf3_gbits"], row["iperf3_zero_copy_gbits"])
    return row


def measure_pair(given, lab, name):
    objects, size = (given.objects, given.object_bytes) if name == "many" else (1, given.bytes)
    farm = Farm(given, lab, name, 2, size * objects, given.rate if name == "link" else None,
                "off" if name == "plain" else "on")
    row = measure(farm, given, size, objects)
    farm.stop()
    return row


def measure_broadcast(given, lab):
    """The same object to one host and to all, in turns."""
    size = given.broadcast_bytes
    farm = Farm(given, lab, "cast", given.hosts + 1, size, given.rate, "on")
    farm.transfer(size, readers=given.hosts)
    one, everybody = [], []
    for _ in range(given.rounds):
        one.append(farm.transfer(size))
        everybody.append(farm.transfer(size, readers=given.hosts))
    farm.stop()
    return {
        "bytes": int(size), "hosts": given.hosts, "one_seconds": statistics.median(one),
        "all_seconds": statistics.median(everybody),
        "all_of_them": [round(s, 3) for s in everybody],
        "ratio": statistics.median(everybody) / statistics.median(one)
    }


def print_row(name, row):
    if name == "broadcast":
        print(
            f"broadcast: {row['bytes'] / 1e6:g} MB to {row['hosts']} hosts "
            f"{row['all_seconds']:.3f} s, to "
            f"one {row['one_seconds']:.3f} s: {row['ratio']:.2f} x", flush=True)
        return
    bare = (
        f"; iperf3 {row['iperf3_gbits']:.3f}, zero-copy {row['iperf3_zero_copy_gbits']:.3f}: ratio "
        f"{row['ratio']:.3f}") if "ratio" in row else ""
    print(
        f"{name}: {row['objects']} x {row['bytes'] / 1e6:g} MB {row['gbits']:.3f} Gbit/s (first "
        f"{row['first_gbits']:.3f}){bare}; CPU s per GB of the two daemons "
        f"{row['cpu_seconds_per_gb']}, their memory grew by {row['memory_grew_mb']} MB", flush=True)


def main():
    given = read_arguments()
    report = {
        "cpus": os.cpu_count(), "kernel": os.uname().release, "rate": given.rate,
        "pinned": given.pin, "rounds": given.rounds
    }
    with hosts.Lab(given.build, hide=[SOURCE, given.build]) as lab:
        for name in given.rows:
            row = measure_broadcast(given, lab) if name == "broadcast" else measure_pair(
                given, lab, name)
            report[name] = row
            if not given.json:
                print_row(name, row)
    if given.json:
        print(json.dumps(report, indent=1))


if __name__ == "__main__":
    if hosts.INSIDE not in os.environ:
        asked = read_arguments()  # a wrong option is told before namespaces are made
        if asked.iperf3 and not any(os.access(os.path.join(folder, "iperf3"), os.X_OK)
                                    for folder in os.environ["PATH"].split(os.pathsep)):
            sys.exit(
                "transfer: there is no iperf3 to compare with: ./setup.sh --with-iperf3, or "
                "--no-iperf3"
            )
    hosts.run(main)
