#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example in Python: joins a cluster of its own, its arrays lie in shared memory, its task and
its actor answer.
Usage: test_python.py CC SANITIZERS LIBRARY COUNTER PROGRAM FLAG... (FLAG: where the headers are)"""
import os
import shutil
import subprocess
import sys
import tempfile

EXPECTED = """\
100 MB, last element 12499999, read only: True, in shared memory: True
mean by a task in Python: 6249999.5
calls of an actor in C: 20000
"""


def interpreter():
    """One that has what the example imports; None: there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import cffi, numpy, sys; sys.orig_argv"],
                          stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return python
    return None


def servers_without_it(folder):
    """FOLDER, with programs that take the sanitizer from Redis, which has an allocator of its
    own."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            with open(f"{folder}/{name}", "w", encoding="utf-8",
                      opener=lambda path, flags: os.open(path, flags, 0o700)) as file:
                file.write(f'#!/bin/sh\nunset LD_PRELOAD\nexec {found} "$@"\n')
    return folder


def main(cc, sanitizers, library, counter, program, *flags):
    python = interpreter()
    if python is None or "thread" in sanitizers:
        print("skipped: needs Python 3.10 with cffi and numpy, and no thread sanitizer")
        return 77
    environment = {**os.environ, "CC": cc, "CRT_CFLAGS": " ".join(flags), "CRT_LIBRARY": library,
                   "PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1"}
    folder = tempfile.TemporaryDirectory(prefix="crt-python-")
    if "address" in sanitizers: # the interpreter is not built with it
        found = [
            subprocess.check_output([*cc.split(), f"-print-file-name={name}"], text=True).strip()
            for name in ("libasan.so", "libubsan.so")
        ]
        environment["LD_PRELOAD"] = " ".join(os.path.realpath(name) for name in found)
        environment["ASAN_OPTIONS"] = environment.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        environment["PATH"] = servers_without_it(folder.name) + ":" + environment["PATH"]
    done = subprocess.run([python, program, counter], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=200, check=False)
    folder.cleanup()
    print(done.stdout, done.stderr, sep="")
    assert done.returncode == 0, done.returncode
    assert done.stdout == EXPECTED, done.stdout
    assert "get of 100 MB:" in done.stderr, done.stderr
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
