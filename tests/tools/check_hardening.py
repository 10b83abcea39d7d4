#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a daemon, the command or libcrt was built without what turns a defect into an end of
the process: position independence, tables that are read-only after the start, stack protectors,
assertions, and, where the optimizer runs and no sanitizer does the same, the checks of the C
library.
Usage: check_hardening.py IS_FORTIFIED FILE..."""
import os
import re
import subprocess
import sys

from sources import finish


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def problems_of(path, is_fortified):
    name = os.path.basename(path)
    header = output_of("readelf", "-hW", path)
    dynamic = output_of("readelf", "-dW", path)
    symbols = output_of("nm", "-D", "--undefined-only", path)
    if "DYN" not in header:
        yield f"{name} lies at a fixed address"
    if "BIND_NOW" not in dynamic and not re.search(r"FLAGS_1.*NOW", dynamic):
        yield f"{name} binds its symbols late: its table stays writable"
    if "GNU_RELRO" not in output_of("readelf", "-lW", path):
        yield f"{name} has tables that stay writable"
    if "__stack_chk_fail" not in symbols:
        yield f"{name} has no stack protectors"
    if name != "crt" and "__assert_fail" not in symbols: # the command has none
        yield f"{name} has no assertions"
    if is_fortified and not re.search(r"__\w+_chk\b", symbols.replace("__stack_chk_fail", "")):
        yield f"{name} has no checked functions of the C library"


def main(is_fortified, *paths):
    finish([problem for path in paths for problem in problems_of(path, is_fortified == "true")],
           "hardening")


if __name__ == "__main__":
    main(*sys.argv[1:])
