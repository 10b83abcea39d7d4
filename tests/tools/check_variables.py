#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a variable CRT_... of the environment is read or set that stands in no list
(runtime/base/variables_list.h, limit_list.h), when a limit is read in another way than by
CRTI_LIMIT, or when one is listed that nothing uses.
Usage: check_variables.py SOURCE_ROOT"""
import re
import sys

from sources import finish, line_of, project_files, read

LISTS = ("runtime/base/variables_list.h", "runtime/base/limit_list.h")
FOLDERS = ("runtime/", "cli/", "collective/", "ml/", "actors/")
# A string that begins with the name of a variable, where the environment is meant: alone as an
# argument of these, with a '=' behind it, or as the value of a macro.
USED = (re.compile(r"\b(?:getenv|setenv|unsetenv|environment|variable|take_variable)\(\s*"
                   r"\"(CRT_[A-Z0-9_]+)\""),
        re.compile(r"\badd_env\(\w+, \"(CRT_[A-Z0-9_]+)\""),
        re.compile(r"\"(CRT_[A-Z0-9_]+)=[%\"]"),
        re.compile(r"\"(CRT_[A-Z0-9_]+_LIBRARY)\""),
        re.compile(r"^#define \w+ +\"(CRT_[A-Z0-9_]+)\"$", re.MULTILINE))


def main(root):
    text = read(root, LISTS[0])
    listed = set(re.findall(r"\bV\((\w+),", text)) - {"name"}
    limits = {"CRT_" + name.upper() for name in re.findall(r"\bL\((\w+), [A-Z]+, [A-Z]+,",
                                                          read(root, LISTS[1]))}
    problems, used = [], set()
    for path in project_files(root, (".c", ".h")):
        if not path.startswith(FOLDERS) or path in LISTS:
            continue
        source = read(root, path)
        for pattern in USED:
            for found in pattern.finditer(source):
                used.add(found[1])
                if found[1] in limits:
                    problems.append(f"{path}:{line_of(source, found.start())}: {found[1]} is a "
                                    "limit: CRTI_LIMIT reads it")
                elif found[1] not in listed:
                    problems.append(f"{path}:{line_of(source, found.start())}: {found[1]} stands "
                                    f"in neither list of {LISTS[0]}")
    problems += [f"{LISTS[0]}: nothing uses {name}"
                 for name in sorted(listed - used) if name.startswith("CRT_")]
    problems += [f"{LISTS[0]}: {name} is a limit, too" for name in sorted(listed & limits)]
    if len(listed) < 30 or len(limits) < 60:
        problems.append(f"{len(listed)} variables and {len(limits)} limits were found")
    finish(problems, "variables")


if __name__ == "__main__":
    main(*sys.argv[1:])
