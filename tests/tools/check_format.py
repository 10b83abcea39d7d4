#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when clang-format would change a C file. Usage: check_format.py SOURCE_ROOT"""
import os
import shutil
import subprocess
import sys

from sources import finish, project_files, skip

# One version decides, because each formats a little differently; setup.sh installs it where there
# is a package.
VERSION = "14"
PROGRAMS = ("clang-format-14", "clang-format")


def is_it(program):
    if not shutil.which(program):
        return False
    said = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True,
                          check=False).stdout
    return f"version {VERSION}." in said


def main(root):
    program = next(filter(is_it, PROGRAMS), None)
    if program is None:
        skip(f"clang-format of version {VERSION}")
    files = project_files(root, (".c", ".h", ".cc"))
    result = subprocess.run([program, "--dry-run", "--Werror", "--ferror-limit=1", *files],
                            cwd=root, stderr=subprocess.PIPE, text=True, check=False)
    problems = [line for line in result.stderr.splitlines() if "error:" in line]
    if result.returncode != 0 and not problems:
        problems = [result.stderr.strip()]
    problems = [p.replace(root + os.sep, "") for p in problems]
    if problems:
        problems.append("cure: clang-format-14 -i FILE")
    finish(problems, "format")


if __name__ == "__main__":
    main(sys.argv[1])
