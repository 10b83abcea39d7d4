#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Submitted jobs on a cluster of two CPUs.

  latency   from `crt job submit` to the first line of output, alone and with a folder of 1 MB that
  the cluster has not seen many      small jobs in a row, each a program of crt with a task: memory,
  open files of the daemons, and files that are left
            when all jobs are deleted
  at_once   jobs submitted at the same time, each with tasks: all succeed
  log       a log is followed while it is written: each line comes, in order; and once more while
  crt-http is killed under it
"""
import argparse
import glob
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from own_cluster import OwnCluster

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
ROWS = ("latency", "many", "at_once", "log")
DAEMONS = ("crt-head", "crt-node", "crt-http", "redis-server", "valkey-server")
PATIENCE = 600


def read_arguments():
    parser = argparse.ArgumentParser(prog="jobs", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"),
                        help="build folder of a release build")
    parser.add_argument("--row", choices=ROWS, action="append", help="only this; may be repeated")
    parser.add_argument("--rounds", type=int, default=20, help="of latency")
    parser.add_argument("--jobs", type=int, default=1000, help="of many")
    parser.add_argument("--at-once", type=int, default=100)
    parser.add_argument("--lines", type=int, default=1000000, help="of log")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args()
    given.program = os.path.join(given.build, "examples", "hello_task")
    return given


class Cluster(OwnCluster):
    def __init__(self, given):
        super().__init__(given.build, "50M")

    def follow(self, *words, options=(), cwd=None):
        return subprocess.Popen(
            [self.command, "job", "submit", "--address", self.address, *options, "--", *words],
            env=self.env, cwd=cwd, stdout=subprocess.PIPE)

    def jobs(self):
        return json.loads(self.run("job", "list", "--address", self.address, "--format", "json"))

    def daemons(self):
        """{name: pid}, by the run directory that they were given."""
        found, mark = {}, f"CRT_RUN_DIR={self.folder}/run".encode()
        for path in glob.glob("/proc/[0-9]*"):
            try:
                with open(f"{path}/comm") as comm, open(f"{path}/environ", "rb") as environ:
                    name = comm.read().strip()
                    if name in DAEMONS and mark in environ.read().split(b"\0"):
                        found[name] = int(path.split("/")[2])
            except OSError:
                pass  # it has ended
        return found

    def kill(self, name):
        """As soon as there is one: the head starts a dead one again, after a while if it died
        often."""
        end = time.monotonic() + PATIENCE
        while name not in (daemons := self.daemons()):
            assert time.monotonic() < end, f"no {name} for {PATIENCE} s"
            time.sleep(0.02)
        os.kill(daemons[name], signal.SIGKILL)

    def figures(self):
        """{daemon: (KiB that are its own, open files)}"""
        return {
            name: (private_kib(pid), len(os.listdir(f"/proc/{pid}/fd")))
            for name, pid in sorted(self.daemons().items())
        }

    def files(self):
        return {os.path.join(at, name) for at, _, names in os.walk(self.folder) for name in names}


def private_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_"))


def first_output(process, wanted):
    """Seconds until that line."""
    begun = time.monotonic()
    for line in process.stdout:
        if line == wanted:
            took = time.monotonic() - begun
            process.stdout.read()
            process.stdout.close()
            assert process.wait(PATIENCE) == 0
            return took
    raise AssertionError("the job ended without its line")


def spread(times):
    ms = sorted(t * 1000 for t in times)
    return {
        "median_ms": round(statistics.median(ms), 1), "least_ms": round(ms[0], 1),
        "most_ms": round(ms[-1], 1)
    }


def latency(given):
    with Cluster(given) as cluster, tempfile.TemporaryDirectory() as folder:
        alone, with_folder = [], []
        for turn in range(given.rounds + 1):
            alone.append(first_output(cluster.follow("/bin/echo", "here"), b"here\n"))
            for part in range(16):
                with open(os.path.join(folder, f"part{part}"), "wb") as file:
                    file.write(os.urandom(1 << 16))
            with_folder.append(
                first_output(cluster.follow("/bin/echo", "here", options=("--working-dir", folder)),
                             b"here\n"))
        return {"alone": spread(alone[1:]), "with a folder of 1 MB": spread(with_folder[1:])}


def many(given):
    with Cluster(given) as cluster:
        def one():
            process = cluster.follow(given.program)
            process.stdout.read()
            process.stdout.close()
            assert process.wait(PATIENCE) == 0

        def delete_all():
            for job in cluster.jobs():
                if job["submission_id"]:
                    cluster.run("job", "delete", "--address", cluster.address, job["submission_id"])

        one()
        delete_all()
        files, figures = cluster.files(), {0: cluster.figures()}
        begun = time.monotonic()
        for n in range(1, given.jobs + 1):
            one()
            if n % max(1, given.jobs // 5) == 0:
                figures[n] = cluster.figures()
        took = time.monotonic() - begun
        delete_all()
        end = time.monotonic() + 30
        while (left := cluster.files() - files) and time.monotonic() < end:
            time.sleep(0.1)
        figures["deleted"] = cluster.figures()
        return {
            "seconds": round(took, 1), "jobs per second": round(given.jobs / took, 1),
            "private KiB and open files after": figures,
            "files left": sorted(os.path.relpath(path, cluster.folder) for path in left)
        }


def at_once(given):
    with Cluster(given) as cluster:
        begun = time.monotonic()
        running = [cluster.follow(given.program) for _ in range(given.at_once)]
        for process in running:
            process.stdout.read()
            process.stdout.close()
        succeeded = sum(process.wait(PATIENCE) == 0 for process in running)
        return {
            "succeeded": succeeded, "of": given.at_once,
            "seconds": round(time.monotonic() - begun, 1)
        }


def follow_log(given, cluster, cuts):
    """Cut off so many times, at equal parts of the log."""
    cuts = [given.lines * (i + 1) // (cuts + 1) for i in range(cuts)]
    process = cluster.follow("/usr/bin/seq", "-f", "line %.0f of a log", "1", str(given.lines))
    begun, next_line = time.monotonic(), 1
    for line in process.stdout:
        if not line.startswith(b"line "):
            continue
        assert line == b"line %d of a log\n" % next_line, (line, next_line)
        if cuts and next_line == cuts[0]:
            cuts.pop(0)
            cluster.kill("crt-http")
        if next_line == given.lines:
            took = time.monotonic() - begun
        next_line += 1
    assert process.wait(PATIENCE) == 0 and next_line == given.lines + 1, next_line
    process.stdout.close()
    return {
        "lines": given.lines, "seconds": round(took, 2),
        "lines per second": round(given.lines / took)
    }


def log(given):
    with Cluster(given) as cluster:
        return {
            "uncut": follow_log(given, cluster, 0),
            "crt-http killed 3 times": follow_log(given, cluster, 3)
        }


def main():
    given = read_arguments()
    figures = {}
    for row in given.row or ROWS:
        figures[row] = globals()[row](given)
        if not given.json:
            print(row, json.dumps(figures[row], indent=1), flush=True)
    if given.json:
        print(json.dumps(figures))
    bad = figures.get("many", {}).get("files left") or figures.get("at_once", {}).get(
        "succeeded", 0) != figures.get("at_once", {}).get("of", 0)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
