#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a line of a text file has more than 100 columns. Not looked at: pictures, data, kept
headers of older versions, rows of Markdown tables, and lines that are one word, such as an address.
Usage: check_columns.py SOURCE_ROOT"""
import os
import re
import shutil
import subprocess
import sys

from sources import finish, project_files, read

COLUMNS = 100
DATA = re.compile(r"\.(svg|png|json|lock|patch)$|^tests/ml/recorded_|^tests/abi/[^/]+/")


def files_of(root):
    """Those that git knows, and new ones that it does not ignore; outside a checkout all."""
    if not shutil.which("git"):
        return project_files(root)
    listed = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    return [path for path in listed.split("\0")
            if os.path.isfile(os.path.join(root, path))] or project_files(root)


def may_be_long(path, line):
    return len(line.split()) == 1 or (path.endswith(".md") and line.startswith("|"))


def main(root):
    problems = []
    for path in files_of(root):
        if DATA.search(path):
            continue
        for number, line in enumerate(read(root, path).split("\n"), 1):
            if len(line) > COLUMNS and not may_be_long(path, line):
                problems.append(f"{path}:{number}: {len(line)} columns, at most {COLUMNS}")
    finish(problems, "columns")


if __name__ == "__main__":
    main(sys.argv[1])
