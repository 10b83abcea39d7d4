#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless each public header compiles alone, and twice, as C11 and as C++17, with warnings
as errors, and a program in C++20 that uses their macros.
Usage: check_headers.py CC CXX PROGRAM HEADER... (paths; all their folders are searched)"""
import os
import subprocess
import sys

from sources import finish

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
# Only the common prefix of the dialects: what a user's compiler line may look like.
DIALECTS = [("c11", ["-xc", "-std=c11"]), ("c++17", ["-xc++", "-std=c++17"])]


def main(arguments):
    compilers, program_in_cxx, headers = arguments[:2], arguments[2], arguments[3:]
    folders = sorted({os.path.dirname(os.path.abspath(h)) for h in headers})
    include = [f"-I{folder}" for folder in folders]
    problems = []
    for header in headers:
        name = os.path.basename(header)
        program = f"#include <{name}>\n#include <{name}>\nint main(void) {{ return 0; }}\n"
        for compiler, (dialect, flags) in zip(compilers, DIALECTS):
            result = subprocess.run(
                [*compiler.split(), *flags, *WARNINGS, *include, "-fsyntax-only", "-"],
                input=program, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                problems.append(f"{name} alone, {dialect}:\n{result.stderr}")
    result = subprocess.run(
        [*compilers[1].split(), "-std=c++20", "-Wall", "-Werror", *include, "-fsyntax-only",
         program_in_cxx], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        problems.append(f"{program_in_cxx}:\n{result.stderr}")
    if not headers:
        problems.append("no headers given")
    finish(problems, "public headers")


if __name__ == "__main__":
    main(sys.argv[1:])
