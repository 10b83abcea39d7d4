#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The figures of the README's picture: crt beside Ray, Open MPI, Thinc + Ray and spaCy, all in one
run.

    pip install "ray[default]" thinc "spacy==3.8.*" && ./setup.sh --with-mpi
    python3 tests/bench/front_page.py --build build --data DIR --out docs/benchmarks

DIR holds the folders mnist and ner. The two sides of a row take turns on the same machine. Writes
figures.json into the folder --out; `docs/benchmarks/draw.py` draws from it. Nothing else should run
meanwhile; it takes a quarter of an hour.
"""
import argparse
import datetime
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BENCH = os.path.dirname(os.path.abspath(__file__))
ROUNDS = 3
MIB = 1 << 20

CALLS = [
    ("1_1_actor_calls_sync", "actor call, one at a time"),
    ("1_1_actor_calls_async", "actor calls, 1,000 in flight"),
    ("single_client_tasks_sync", "task, one at a time"),
    ("single_client_tasks_async", "tasks, 1,000 in flight"),
]


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="build folder of a release build")
    parser.add_argument("--data", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--ray-timeout", type=int, default=120,
                        help="seconds for each row of Ray's microbenchmark")
    given = parser.parse_args()
    given.build = os.path.abspath(given.build)
    given.crt = os.path.join(given.build, "cli", "crt")
    return given


def row(group, name, ours, theirs, unit, other, command, better):
    """A row of figures.json; `better` is "higher" or "lower", and ratio how many times better crt
    is."""
    ratio = ours / theirs if better == "higher" else theirs / ours
    return {
        "group": group, "name": name, "crt": ours, "other": theirs, "unit": unit, "beside": other,
        "ratio": ratio, "better": better, "command": command
    }


# ---------------------------------------------------------------- processes of one side

def of_mark(mark):
    """Process ids whose environment holds `mark`."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() in file.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass
    return found


def memory_of(mark, but=()):
    """Bytes of all processes that `mark` names, what they share counted once."""
    total = 0
    for pid in of_mark(mark):
        if pid in but:
            continue
        try:
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
                total += next(
                    int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
        except (OSError, StopIteration):
            pass
    return total


class Side:
    """A system whose cluster is started and stopped in an environment of its own."""

    def __init__(self, name, start, stop, extra):
        self.name, self.start_command, self.stop_command = name, start, stop
        self.mark = f"FRONT_PAGE_SIDE={name}-{os.getpid()}"
        key, value = self.mark.split("=")
        self.environment = {**os.environ, key: value, **extra}

    def run(self, command, **more):
        return subprocess.run(command, env=self.environment, check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, **more).stdout

    def start(self):
        """Seconds until the command that starts a cluster comes back."""
        began = time.monotonic()
        self.run(self.start_command)
        return time.monotonic() - began

    def stop(self):
        self.run(self.stop_command)
        until = time.monotonic() + 30
        while of_mark(self.mark):
            if time.monotonic() > until:
                sys.exit(f"{self.name}: processes are left: {of_mark(self.mark)}")
            time.sleep(0.1)


def settled(side):
    """Memory of a cluster that has come to rest: the same within 1 % twice, a second apart."""
    before, until = 0, time.monotonic() + 60
    while time.monotonic() < until:
        now = memory_of(side.mark)
        if before and abs(now - before) < 0.01 * before:
            return now
        before = now
        time.sleep(1)
    return before


def sides(given, folder):
    ray = shutil.which("ray") or sys.exit("ray is not in PATH")
    state = {"CRT_RUN_DIR": os.path.join(folder, "r"), "CRT_STATE_DIR": os.path.join(folder, "s")}
    for path in state.values():
        os.mkdir(path, 0o700)
    return (Side("crt",
                 [given.crt, "start", "--head", "--port", "26977", "--dashboard-port", "28977"],
                 [given.crt, "stop"], state),
            Side("Ray", [ray, "start", "--head", "--port", "26978", "--disable-usage-stats"],
                 [ray, "stop", "--force"], {}))


def clusters(given):
    """Start of a head with dashboard, and what its processes hold at rest."""
    with tempfile.TemporaryDirectory() as folder:
        both, seconds, memory = sides(given, folder), {}, {}
        for _ in range(ROUNDS):
            for side in both:
                seconds.setdefault(side.name, []).append(side.start())
                memory.setdefault(side.name, []).append(settled(side))
                side.stop()
    command = "crt start --head; ray start --head"
    yield row("a cluster", "start with dashboard", statistics.median(seconds["crt"]),
              statistics.median(seconds["Ray"]), "s", "Ray", command, "lower")
    yield row("a cluster", "its memory at rest", statistics.median(memory["crt"]) / MIB,
              statistics.median(memory["Ray"]) / MIB, "MiB", "Ray", command, "lower")


# ---------------------------------------------------------------- the other rows

def calls(given):
    for name, text in CALLS:
        command = [
            given.crt, "microbenchmark", "--json", "--compare-ray", "--ray-timeout",
            str(given.ray_timeout), "--filter", name
        ]
        said = json.loads(
            subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        found = next(r for r in said if r["name"] == name)
        if not found.get("ray"):
            sys.exit(f"Ray gave no figure for {name}: {found.get('ray_error')}")
        yield row("calls and tasks", text, found["value"], found["ray"], "/s", "Ray",
                  f"crt microbenchmark --compare-ray --filter {name}", "higher")


def allreduce(given):
    for size, text in (65536, "64 KiB"), (1 << 20, "1 MiB"), (64 << 20, "64 MiB"):
        said = json.loads(
            subprocess.run([
                os.path.join(given.build, "tests", "bench", "collective"), "--json", "--ranks", "2",
                "--bytes",
                str(size)
            ], check=True, stdout=subprocess.PIPE, text=True).stdout)
        found = next(r for r in said if r["buffers"] == "shared")
        if not found["openmpi_us"]:
            sys.exit("no Open MPI: ./setup.sh --with-mpi and build again")
        yield row("allreduce", f"{text}, 2 ranks", found["us"], found["openmpi_us"], "us",
                  "Open MPI", f"collective --ranks 2 --bytes {size}", "lower")


def training(given, folder):
    run = lambda script, *more: subprocess.run([
        sys.executable,
        os.path.join(BENCH, script), "--build", given.build, "--out", folder, *more
    ], check=True, stdout=sys.stderr)
    run("mnist_thinc_ray.py", "--data", os.path.join(given.data, "mnist"))
    with open(os.path.join(folder, "mnist_thinc_ray.json"), encoding="utf-8") as file:
        rounds = json.load(file)["rounds"]
    for mode in "sync", "async":
        seconds = [
            statistics.median(turn[side][mode]["seconds"] for turn in rounds)
            for side in ("crt", "thinc")
        ]
        yield row("training", f"MNIST, 200 {mode} rounds", *seconds, "s", "Thinc + Ray",
                  "mnist_thinc_ray.py", "lower")
    run("ner_spacy.py", "--data", os.path.join(given.data, "ner"), "--corpora", "wikigold",
        "--seeds", "1")
    with open(os.path.join(folder, "ner_spacy.json"), encoding="utf-8") as file:
        runs = json.load(file)["corpora"]["wikigold"]
    rates = [
        sum(r["words"] for r in runs[side]) / sum(r["seconds"] for r in runs[side])
        for side in ("crt", "spaCy")
    ]
    yield row("training", "named entities, one core", *rates, "words/s", "spaCy",
              "ner_spacy.py --corpora wikigold", "higher")


def version_of(command):
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False).stdout
    return said.splitlines()[0].strip() if said else ""


def main():
    given = read_arguments()
    with open("/proc/cpuinfo", encoding="ascii") as file:
        processor = next(
            line.split(":")[1].strip() for line in file if line.startswith("model name"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for part in clusters(given), calls(given), allreduce(given), training(given, folder):
            for found in part:
                rows.append(found)
                print(
                    f"{found['name']:32} {found['crt']:12.4g} {found['other']:12.4g} "
                    f"{found['unit']:8} {found['ratio']:8.1f} x {found['beside']}", flush=True)
    from importlib.metadata import version
    report = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{os.cpu_count()} cores, {processor}", "system": platform.platform(terse=True),
        "crt": version_of([given.crt, "version"]),
        "versions": {name: version(name.lower())
                     for name in ("Ray", "Thinc", "spaCy")}
        | {"Open MPI": version_of(["mpirun", "--version"]).split()[-1]}, "rows": rows
    }
    os.makedirs(given.out, exist_ok=True)
    with open(os.path.join(given.out, "figures.json"), "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
