#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when clang-format would change a C file. Usage: check_format.py SOURCE_ROOT"""
import os
import shutil
import subprocess
import sys

from sources import finish, project_files

# One version decides, because each formats a little differently; setup.sh installs it.
PROGRAMS = ("clang-format-14", "clang-format")


def main(root):
    program = next((p for p in PROGRAMS if shutil.which(p)), None)
    if program is None:
        finish(["clang-format is not installed: run setup.sh"], "format")
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
