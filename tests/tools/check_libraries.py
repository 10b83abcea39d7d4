#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a shared library exports anything but crt_* with a version, or data (a program copies
them, with the size that they had when it was linked), when libcrt needs a library that is for the
daemons or for ml only, when the command loads at its start what few commands need, or when anything
in the build folder links to CUDA or NCCL.
Usage: check_libraries.py BUILD_ROOT LIBCRT LIBCRT_ML CRT"""
import os
import re
import subprocess
import sys

from sources import finish

NOT_IN_LIBCRT = re.compile(r"ssl|crypto|zmq|hiredis|websockets|jansson|archive|curl|blas|smartcols")
NOT_AT_START = re.compile(r"ssl|crypto|zmq|archive|curl|blas")
VERSIONED = re.compile(r"crt_\w+@@CRT_(ML_)?\d+\.\d+$|crti_\w+@@CRT_PRIVATE$")
GPU = re.compile(r"libcuda|libcudart|libnccl|libcublas|libcudnn|libnvrtc")
# What the sanitizers and gcov put into every library.
TOOL_SYMBOLS = re.compile(r"^(__|_)?(asan|ubsan|tsan|lsan|odr|sancov|gcov|llvm)")


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def exported(library):
    """(kind of nm, symbol)"""
    for line in output_of("nm", "-D", "--defined-only", library).splitlines():
        if line.split()[-2] != "A":  # the name of a version
            yield line.split()[-2:]


def needed(path):
    """Names of the libraries that the file itself asks for."""
    text = output_of("readelf", "-d", path)
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


def elf_files(folder):
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            if name.endswith((".o", ".a")) or os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def main(build, libcrt, libcrt_ml, command):
    problems = []
    for library in (libcrt, libcrt_ml):
        name = os.path.basename(library)
        symbols = [(kind, s) for kind, s in exported(library) if not TOOL_SYMBOLS.match(s)]
        problems += [f"{name} exports {s}" for _, s in symbols if not VERSIONED.match(s)]
        problems += [f"{name} exports the data {s}" for kind, s in symbols if kind not in "TtWwi"]
        if not symbols:
            problems.append(f"{name} exports nothing")
    for line in output_of("ldd", libcrt).splitlines():
        if NOT_IN_LIBCRT.search(line.split("=>")[0]):
            problems.append(f"libcrt loads {line.strip()}")
    for line in output_of("ldd", command).splitlines():
        if NOT_AT_START.search(line.split("=>")[0]):
            problems.append(f"crt loads {line.strip()} at its start")
    if any("not found" in line for line in output_of("ldd", libcrt).splitlines()):
        problems.append("libcrt needs a library that is not found")
    for path in elf_files(build):
        problems += [f"{path} links to {n}" for n in needed(path) if GPU.search(n)]
    finish(problems, "libraries")


if __name__ == "__main__":
    main(*sys.argv[1:])
