#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How the training of named entities scales from 1 to 16 hosts: the experiment of spacy-ray and its
collective fork, with examples/train_ner and its model of 982,194 parameters.

The hosts are namespaces of this machine with links of a given rate, one member on each. All members
compute on the processors of this machine: beyond as many members as there are processors, the time
grows with the members whatever the exchange costs, so the words per second of all members together
are what tells that. Each member trains on its own part of the documents; all batches have 172
words, the mean of the published experiment, so that fewer updates can stand for 1000. Prints the
published table beside ours, F of the test data, and draws runtime, ratio and scalability as SVG.
"""
import argparse
import csv
import io
import os
import subprocess
import sys
import tempfile

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tests", "cluster"))
import hosts  # noqa: E402
import scaling  # noqa: E402
import scaling_report  # noqa: E402

# of a batch: as many as in the mean of the first 1000 batches of default.cfg, which grow from 100
# by 1.001
WORDS = 172
MODES = ("allreduce", "peer", "shared_optimizer", "head_child")


def read_arguments():
    parser = argparse.ArgumentParser(prog="scaling_ner", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"),
                        help="build folder of a release build")
    parser.add_argument(
        "--data",
        help="folder with btc/train.conll.gz and btc/test.conll.gz; default: drawn sentences")
    parser.add_argument("--modes", default="allreduce,peer", help=f"of {', '.join(MODES)}")
    parser.add_argument("--hosts", default="1,2,4,8,16", help="numbers of hosts")
    parser.add_argument("--rate", default="1gbit",
                        help="of each host's link, each way, as tc takes it; 0: no limit")
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--staleness", type=int, default=2,
                        help="of gradients, where there are owners")
    parser.add_argument("--encrypt", choices=("on", "off"), default="on",
                        help="what goes from host to host")
    parser.add_argument("--out",
                        help="folder for the plots and scaling.json; none are made without it")
    given = parser.parse_args()
    given.modes = [m.strip() for m in given.modes.split(",")]
    given.hosts = sorted({int(n) for n in given.hosts.split(",")})
    given.build = os.path.abspath(given.build)
    if not set(given.modes) <= set(MODES):
        parser.error(f"--modes: not all of {','.join(given.modes)} are of {','.join(MODES)}")
    if given.hosts[0] < 1 or given.hosts[-1] > 64:
        parser.error("--hosts: numbers from 1 to 64")
    if not os.path.exists(os.path.join(given.build, "examples", "train_ner")):
        parser.error(f"--build: {given.build} has no examples/train_ner: build crt there first")
    return given


class Farm(scaling.Farm):
    """Hosts that all have the corpora and the configuration in their homes."""

    def __init__(self, given, lab, files):
        self.files = files
        super().__init__(given, lab, program=os.path.join(given.build, "examples", "train_ner"))

    def _new_host(self, name):
        host = super()._new_host(name)
        for file in self.files:
            host.put(file, os.path.basename(file), 0o644)
        return host

    def train(self, mode, count):
        given = self.given
        # Behind update 0 and behind the last one it is evaluated: what lies between is what is
        # timed.
        driver = self.head.start(
            "./train_ner", "train", "default.cfg", "-o", "output", "--n-workers", count, "--mode",
            mode, f"--distributed.staleness={given.staleness}", "--paths.train=train.conll",
            "--paths.dev=test.conll", f"--training.max_steps={given.updates}",
            f"--training.eval_frequency={given.updates}", "--training.patience=0",
            f"--training.batcher.size.start={WORDS}", f"--training.batcher.size.stop={WORDS}",
            "--training.batcher.size.compound=1", env={"CRT_ADDRESS": self.address})
        status = driver.wait(120 + given.updates * 20)
        hosts.check(status == 0,
                    f"{mode} on {count} hosts: exit status {status}; it said:\n{driver.text}")
        first, last = csv.DictReader(io.StringIO(self.head.run("cat", "output/log.csv")))
        words = int(last["words"]) - int(first["words"])
        used, dropped = int(last["gradients_used"]), int(last["gradients_dropped"])
        return {
            "mode": mode, "workers": count, "words": words,
            "words_per_s": float(last["words_per_s"]),
            "update_ms": 1e3 * words / float(last["words_per_s"]) / given.updates,
            "f": 100 * float(last["f"]),
            "dropped": dropped / (used + dropped) if used + dropped else 0
        }


def make_files(given, folder):
    program = os.path.join(given.build, "examples", "train_ner")
    sources = [os.path.join(given.data, "btc", f"{part}.conll.gz") for part in ("train", "test")] \
        if given.data else ["builtin:4000", "builtin:500:1"]
    paths = [os.path.join(folder, name) for name in ("train.conll", "test.conll")]
    for source, path in zip(sources, paths):
        subprocess.run([program, "convert", source, path], check=True)
    return [*paths, os.path.join(SOURCE, "examples", "train_ner", "default.cfg")]


def print_table(report):
    machine = report["machine"]
    print(
        f"Machine: {machine['cpus']} processors, {machine['model']}, kernel {machine['kernel']}, "
        f"load {machine['load_before']:.1f} before.")
    print(
        f"Links of {report['rate']}, encryption {report['encrypt']}; {report['updates']} updates a "
        "run, seconds scaled to "
        f"1000; gradients may be {report['staleness']} updates late where there are owners.\n")
    print(
        f"{'workers':>7} | {'spacy-ray':>9} | {'its collectives':>15} | {'mode':>16} | "
        f"{'s/1000 updates':>14} | "
        f"{'of one host':>11} | {'words/s':>8} | {'F':>6} | {'dropped':>7}")
    for run in sorted(report["runs"], key=lambda run: (run["workers"], run["mode"])):
        alone = scaling_report.series(report)[run["mode"]].get(1)
        published = scaling_report.PUBLISHED.get(run["workers"], ("-", "-"))
        print(
            f"{run['workers']:>7} | {published[0]:>9} | {published[1]:>15} | {run['mode']:>16} | "
            f"{run['update_ms']:>14.1f} | "
            f"{run['update_ms'] / alone if alone else 0:>11.2f} | {run['words_per_s']:>8.0f} | "
            f"{run['f']:>6.2f} | {100 * run['dropped']:>6.1f}%")


def main():
    given = read_arguments()
    report = {
        "machine": scaling.machine(), "rate": given.rate, "encrypt": given.encrypt,
        "updates": given.updates, "staleness": given.staleness, "runs": []
    }
    with tempfile.TemporaryDirectory() as folder:
        files = make_files(given, folder)
        with hosts.Lab(given.build, hide=[SOURCE, given.build]) as lab:
            farm = Farm(given, lab, files)
            for count in given.hosts:
                farm.grow(count)
                for mode in given.modes:
                    run = farm.train(mode, count)
                    report["runs"].append(run)
                    print(f"{mode}, {count} hosts: {run}", file=sys.stderr, flush=True)
            farm.stop()
    print_table(report)
    if given.out:
        scaling_report.draw(report, given.out)


if __name__ == "__main__":
    if hosts.INSIDE not in os.environ:
        read_arguments()  # a wrong option is told before namespaces are made
    hosts.run(main)
