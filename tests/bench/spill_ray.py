#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bench/spill does, with Ray: objects that are four times its store are put, and read back in
random order, each one checked and dropped, while another thread calls an actor.

Needs Python with ray and numpy. Ray writes what it spills below --dir and reads it from there;
before it reads, the page cache is told to forget those files."""
import argparse
import glob
import os
import random
import threading
import time

import numpy as np
import ray

MIB = 1 << 20


@ray.remote(num_cpus=0)
class Echo:

    def echo(self, number):
        return number


class Calls:
    """Calls of an actor, one each ms, until the block ends; then p99_us is known."""

    def __init__(self, actor, name):
        self.actor, self.name, self.took, self.is_over = actor, name, [], False
        self.thread = threading.Thread(target=self.call)

    def call(self):
        while not self.is_over:
            begin = time.perf_counter()
            ray.get(self.actor.echo.remote(1))
            self.took.append(1e6 * (time.perf_counter() - begin))
            time.sleep(0.001)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()
        self.took.sort()
        self.p99_us = self.took[len(self.took) * 99 // 100]
        print(f"calls  {self.name:12} {len(self.took):7} calls: median "
              f"{self.took[len(self.took) // 2]:.0f} us, p99 {self.p99_us:.0f} us")


def files_of(folder):
    return [path for path in glob.glob(os.path.join(folder, "**"), recursive=True)
            if os.path.isfile(path)]


def forget_pages(folder):
    """Their bytes; (how many, how many files)."""
    found = [0, 0]
    for path in files_of(folder):
        file = os.open(path, os.O_RDONLY)
        os.fdatasync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        found[0] += os.fstat(file).st_size
        found[1] += 1
        os.close(file)
    return found


def pattern(number, given):
    return np.arange(given.object_bytes // 8, dtype=np.uint64) + np.uint64(number << 32)


def put_all(given):
    begin = time.perf_counter()
    refs = [ray.put(pattern(number, given)) for number in range(given.objects)]
    return refs, time.perf_counter() - begin


def read_all(refs, given):
    order = list(range(given.objects))
    random.Random(1).shuffle(order)
    begin = time.perf_counter()
    for number in order:
        found = ray.get(refs[number])
        if not np.array_equal(found, pattern(number, given)):
            raise SystemExit("wrong bytes")
        del found
        refs[number] = None
    return time.perf_counter() - begin


def measure(given):
    spill = os.path.join(given.dir, f"ray-bench-spill-{os.getpid()}")
    os.makedirs(spill)
    ray.init(num_cpus=2, object_store_memory=given.store * MIB, include_dashboard=False,
             logging_level="error", _node_ip_address="127.0.0.1", object_spilling_directory=spill)
    actor = Echo.remote()
    ray.get(actor.echo.remote(1))
    with Calls(actor, "in quiet") as quiet:
        time.sleep(3)
    with Calls(actor, "while put") as put:
        refs, put_s = put_all(given)
    on_disk, files = forget_pages(spill)
    with Calls(actor, "while read") as read:
        read_s = read_all(refs, given)
    total = given.objects * given.object_bytes / 1e6
    print(f"ray    put {total / put_s:.0f} MB/s, read {total / read_s:.0f} MB/s; "
          f"{on_disk / MIB:.0f} MiB in {files} files")
    print(f"calls  p99 beside the quiet one: {put.p99_us / quiet.p99_us:.2f} while put, "
          f"{read.p99_us / quiet.p99_us:.2f} while read")
    time.sleep(3)
    print(f"       left after 3 s: {len(files_of(spill))} files")
    ray.shutdown()


def main():
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--store", type=int, default=1024, help="MiB")
    parser.add_argument("--object-bytes", type=int, default=8 * MIB)
    parser.add_argument("--objects", type=int, default=0)
    parser.add_argument("--dir", default="/var/tmp")
    given = parser.parse_args()
    given.objects = given.objects or 4 * given.store * MIB // given.object_bytes
    print(f"{given.objects} objects of {given.object_bytes} bytes; store {given.store} MiB; ray "
          f"{ray.__version__}", flush=True)
    measure(given)


if __name__ == "__main__":
    main()
