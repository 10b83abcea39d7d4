#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a function is longer than 80 lines: there is more than one thought in it.
Usage: check_size.py SOURCE_ROOT"""
import sys

from sources import finish, project_files, read

FUNCTION_LINES = 80


def long_functions(text):
    """(line, length) of top-level blocks: the format puts their braces in the first column."""
    start = None
    for number, line in enumerate(text.splitlines(), 1):
        if line == "{":
            start = number
        elif line.startswith("}") and start is not None:
            if number - start > FUNCTION_LINES:
                yield start, number - start
            start = None


def main(root):
    problems = []
    for path in project_files(root, (".c", ".h")):
        text = read(root, path)
        for start, length in long_functions(text):
            problems.append(
                f"{path}:{start}: a function of {length} lines, at most {FUNCTION_LINES}")
    finish(problems, "sizes")


if __name__ == "__main__":
    main(sys.argv[1])
