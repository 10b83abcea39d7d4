#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each compression of gradients in a training over links: bytes, time of a step, accuracy.

    tests/bench/compression_links.py --build build [--data DIR with MNIST] [--rate 1gbit] [--workers
    2]

The hosts are namespaces of this machine (root or user namespaces), one worker on each, the server
beside the driver; each link is limited each way by a token bucket. "in pieces": layers go as soon
as they are final.
"""
import argparse
import os
import re
import sys

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "tests", "cluster"))
import hosts  # noqa: E402
from crt_cluster import KEY, PORT  # noqa: E402

METHODS = ("none", "lz4", "float16", "bfloat16", "top_k", "one_bit")
END = re.compile(r"(\d+) steps in ([\d.]+) s .*bytes: (\d+)")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--data", default="builtin")
    parser.add_argument("--network", default="lenet")
    parser.add_argument("--rate", default="1gbit",
                        help="of each host's link, each way; 0: no limit")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--learn-rate", type=float, default=0.02)
    parser.add_argument("--keep", type=float, default=0.05, help="the part that top_k sends")
    parser.add_argument("--piece-kb", type=int, default=128)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--pieces", default="none,float16,one_bit",
                        help="of these methods also in pieces")
    return parser.parse_args()


class Farm:
    """The driver's host, with the head and the server, and hosts with a worker each."""

    def __init__(self, given, lab):
        self.given, self.lab = given, lab
        self.head = self._new_host("head")
        said = self.head.run("crt", "start", "--head", "--node-ip-address", self.head.ip,
                             "--num-cpus", "0", "--object-store-memory", "512M")
        self.address = f"{self.head.ip}:{PORT}"
        key_file = re.search(r"scp \S+?:(\S+)", said)[1]
        self.head.put(os.path.join(given.build, "examples", "train_images"), "train_images")
        self.workers = [self._new_host(f"h{i}") for i in range(given.workers)]
        for host in self.workers:
            self.head.give(key_file, host, KEY)
            host.run("crt", "start", "--address", self.address, "--key-file", KEY,
                     "--node-ip-address", host.ip, "--num-cpus", "1", "--object-store-memory",
                     "512M")

    def _new_host(self, name):
        host = self.lab.host(name)
        if self.given.rate != "0":
            self.lab.shape(host, self.given.rate)
        return host

    def train(self, method, pieces):
        """(milliseconds of a step, MB of a gradient, MB that reached the head for each step, per
        cent right)"""
        given, env = self.given, {"CRT_ADDRESS": self.address, "OPENBLAS_NUM_THREADS": "1"}
        folder = f"{method}-{pieces}"
        common = [
            f"--data.source={given.data}", f"--network.name={given.network}",
            f"--checkpoints.folder={folder}"
        ]
        before = self.head.bytes_received()
        text = self.head.run("./train_images", "train", *common, f"--data.batch={given.batch}",
                             f"--training.steps={given.steps}",
                             f"--training.workers={given.workers}",
                             f"--training.piece_kb={given.piece_kb if pieces else 0}",
                             f"--optimizer.learn_rate={given.learn_rate}",
                             f"--compression.method={method}", f"--compression.keep={given.keep}",
                             f"--checkpoints.every={given.steps}", "--output.log_every=0",
                             seconds=600, env=env)
        moved = self.head.bytes_received() - before
        end = END.search(text)
        hosts.check(end, text)
        scores = self.head.run("./train_images", "evaluate", *common, seconds=120, env=env)
        right = float(re.findall(r"Prec@1: ([\d.]+)", scores)[-1])
        steps = int(end[1])
        return (1e3 * float(end[2]) / steps, int(end[3]) / steps / given.workers / 1e6,
                moved / steps / 1e6, right)

    def stop(self):
        for host in (*self.workers, self.head):
            host.run("crt", "stop", "--address", self.address)


def main():
    given = arguments()
    with hosts.Lab(os.path.abspath(given.build), hide=[SOURCE,
                                                       os.path.abspath(given.build)]) as lab:
        farm = Farm(given, lab)
        print(
            f"{given.network}, {given.workers} workers, links of {given.rate}, {given.steps} steps")
        print(
            "| method | ms per step | MB of a gradient | MB to the server per step | % right |\n"
            "|---|---|---|---|---|"
        )
        for method in given.methods.split(","):
            for pieces in (False, True) if method in given.pieces.split(",") else (False,):
                ms, gradient, moved, right = farm.train(method, pieces)
                print(
                    f"| {method}{', in pieces' if pieces else ''} | {ms:.1f} | {gradient:.3f} | "
                    f"{moved:.3f} | {right:.2f} |",
                    flush=True)
        farm.stop()


if __name__ == "__main__":
    if hosts.INSIDE not in os.environ:
        arguments()  # a wrong option is told before namespaces are made
    hosts.run(main)
