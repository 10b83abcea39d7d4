#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How training scales from 1 to 16 hosts: the experiment of spacy-ray and its collective fork.

The hosts are namespaces of this machine with links of a given rate, one worker on each. What an
update sends is real (982,194 floats in 31 arrays, checked to be summed right); what it computes is
emulated by waiting. Prints the published table beside ours, and draws runtime, ratio and
scalability as SVG.
"""
import argparse
import json
import os
import re
import sys

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tests", "cluster"))
import hosts  # noqa: E402
import scaling_report  # noqa: E402
from crt_cluster import KEY, PORT  # noqa: E402

MODES = ("server", "sharded", "blocking", "overlapped")


def read_arguments():
    parser = argparse.ArgumentParser(
        prog="scaling", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"),
                        help="build folder of a release build")
    parser.add_argument(
        "--modes", default=",".join(MODES),
        help="of server (one parameter server), sharded (one on each host), blocking "
        "(an allreduce per array, as published), overlapped (buckets during the "
        "backward pass)")
    parser.add_argument("--hosts", default="1,2,4,8,16", help="numbers of hosts")
    parser.add_argument("--rate", default="1gbit",
                        help="of each host's link, each way, as tc takes it; 0: no limit")
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--quick", action="store_true", help="40 updates instead")
    parser.add_argument("--update-ms", type=float, default=117.0, help="what an update computes")
    parser.add_argument("--bucket-bytes", type=int, default=0,
                        help="default 1 MiB, from 16 hosts on 64 KiB for each")
    parser.add_argument("--encrypt", choices=("on", "off"), default="on",
                        help="what goes from host to host")
    parser.add_argument("--out",
                        help="folder for the plots and scaling.json; none are made without it")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    given.modes = [m.strip() for m in given.modes.split(",")]
    given.hosts = sorted({int(n) for n in given.hosts.split(",")})
    if not set(given.modes) <= set(MODES):
        parser.error(f"--modes: not all of {','.join(given.modes)} are of {','.join(MODES)}")
    if given.hosts[0] < 1 or given.hosts[-1] > 64:
        parser.error("--hosts: numbers from 1 to 64")
    if given.quick:
        given.updates = min(given.updates, 40)
    given.build = os.path.abspath(given.build)
    if not os.path.exists(os.path.join(given.build, "tests", "bench", "scaling_program")):
        parser.error(
            f"--build: {given.build} has no tests/bench/scaling_program: build crt there first")
    return given


class Farm:
    """A cluster that grows: the driver's host with the head, and hosts with one worker each."""

    def __init__(self, given, lab, program=None):
        program = program or os.path.join(given.build, "tests", "bench", "scaling_program")
        self.given, self.lab, self.workers = given, lab, []
        self.head = self._new_host("head")
        said = self.head.run("crt", "start", "--head", "--node-ip-address", self.head.ip,
                             "--num-cpus", "0", "--object-store-memory", "64M", "--encrypt-streams",
                             given.encrypt)
        self.address = f"{self.head.ip}:{PORT}"
        self.key_file = re.search(r"scp \S+?:(\S+)", said)[1]
        self.head.put(program, os.path.basename(program))

    def _new_host(self, name):
        host = self.lab.host(name)
        if self.given.rate != "0":
            self.lab.shape(host, self.given.rate)
        return host

    def grow(self, count):
        while len(self.workers) < count:
            number = len(self.workers)
            host = self._new_host(f"h{number}")
            self.head.give(self.key_file, host, KEY)
            host.run("crt", "start", "--address", self.address, "--key-file", KEY,
                     "--node-ip-address", host.ip, "--num-cpus", "1", "--resources",
                     f"host{number}=4", "--object-store-memory", "128M")
            self.workers.append(host)
        hosts.until(30, f"{count} hosts serve", lambda: self._alive() == count + 1)

    def _alive(self):
        nodes = json.loads(self.head.run("crt", "status", "--json"))["cluster"]["nodes"]
        return sum(node["state"] == "ALIVE" for node in nodes)

    def train(self, mode, count):
        given = self.given
        driver = self.head.start("./scaling_program", "--mode", mode, "--workers", count,
                                 "--updates", given.updates, "--update-ms", given.update_ms,
                                 "--bucket-bytes", given.bucket_bytes,
                                 env={"CRT_ADDRESS": self.address})
        status = driver.wait(120 + given.updates * 20)
        hosts.check(status == 0,
                    f"{mode} on {count} hosts: exit status {status}; it said:\n{driver.text}")
        return json.loads(driver.lines[-1][1])

    def stop(self):
        for host in (*self.workers, self.head):
            host.run("crt", "stop", "--address", self.address)


def machine():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
        found = re.search(r"^model name\s*: (.*)$", file.read(), re.MULTILINE)
        model = found[1] if found else model
    return {"cpus": os.cpu_count(), "model": model, "kernel": os.uname().release,
            "load_before": os.getloadavg()[0]}


def main():
    given = read_arguments()
    report = {"machine": machine(), "rate": given.rate, "encrypt": given.encrypt,
              "update_ms": given.update_ms, "updates": given.updates,
              "bucket_bytes": given.bucket_bytes, "runs": []}
    with hosts.Lab(given.build, hide=[SOURCE, given.build]) as lab:
        farm = Farm(given, lab)
        for count in given.hosts:
            farm.grow(count)
            for mode in given.modes:
                result = farm.train(mode, count)
                report["runs"].append(result)
                print(f"{mode}, {count} hosts: {result['update_ms']:.1f} ms per update, "
                      f"{result['cpu_ms']:.0f} ms of the CPUs", file=sys.stderr, flush=True)
        farm.stop()
    if given.json:
        print(json.dumps(report, indent=1))
    else:
        scaling_report.print_table(report)
    if given.out:
        scaling_report.draw(report, given.out)


if __name__ == "__main__":
    if hosts.INSIDE not in os.environ:
        read_arguments()  # a wrong option is told before namespaces are made
    hosts.run(main)
