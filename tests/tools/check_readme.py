#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless every C program in README.md and in the guides is, word for word, part of a compiled
example, in the guides of one that is a test, every file they link to exists, and each version in
CHANGELOG.md has few lines. Usage: check_readme.py SOURCE_ROOT"""
import os
import re
import sys

from sources import finish, project_files, read

README = "README.md"
GUIDES = ("docs/from-ray.md", "docs/from-mpi.md")
CHANGES = "CHANGELOG.md"
CHANGES_MAX = 40  # lines of a version, its title too
RUN_BY_SCRIPT = (
    "examples/ranks.c", "examples/progress.c", "examples/wait_many.c", "examples/own_model.c",
    # tests/examples
    "examples/hello_cpp.cpp", "examples/counter_cpp.cpp")  # beside the output of those in C


def is_run(root, path):
    return path in RUN_BY_SCRIPT or os.path.exists(os.path.join(root, path[:-2] + ".expected"))


def check_links(root, page):
    links = re.findall(r"\]\(([^)#:]+)\)", read(root, page))
    return [f"{page} links to {link}, which does not exist" for link in links
            if not os.path.exists(os.path.join(root, os.path.dirname(page), link))]


def check(root, page, examples):
    programs = re.findall(r"^```c(?:pp)?\n(.*?)^```$", read(root, page), re.MULTILINE | re.DOTALL)
    yield from (f"{page}: no example holds the program that begins with {p.splitlines()[0]}"
                for p in programs if not any(p in e for e in examples))
    yield from check_links(root, page)
    if not programs:
        yield f"{page} shows no program"


def check_changes(root):
    for version in re.split(r"^(?=## )", read(root, CHANGES), flags=re.MULTILINE)[1:]:
        lines = version.rstrip().splitlines()
        if len(lines) > CHANGES_MAX:
            yield f"{CHANGES}: {lines[0]} has {len(lines)} lines, at most {CHANGES_MAX}"
    yield from check_links(root, CHANGES)


def main(root):
    paths = [p for p in project_files(root, (".c", ".cpp")) if p.startswith("examples/")]
    problems = list(check(root, README, [read(root, p) for p in paths]))
    run = [read(root, p) for p in paths if is_run(root, p)]
    for page in GUIDES:
        problems += check(root, page, run)
    problems += check_changes(root)
    finish(problems, "README")


if __name__ == "__main__":
    main(sys.argv[1])
