#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless every C program in README.md is, word for word, part of a compiled example, and every
file it links to exists. Usage: check_readme.py SOURCE_ROOT"""
import os
import re
import sys

from sources import finish, project_files, read


def main(root):
    text = read(root, "README.md")
    examples = [read(root, p) for p in project_files(root, (".c",)) if p.startswith("examples/")]
    programs = re.findall(r"^```c\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    problems = [f"README.md: no example holds the program that begins with {p.splitlines()[0]}"
                for p in programs if not any(p in e for e in examples)]
    problems += [f"README.md links to {link}, which does not exist"
                 for link in re.findall(r"\]\(([^)#:]+)\)", text)
                 if not os.path.exists(os.path.join(root, link))]
    if not programs:
        problems.append("README.md shows no program")
    finish(problems, "README")


if __name__ == "__main__":
    main(sys.argv[1])
