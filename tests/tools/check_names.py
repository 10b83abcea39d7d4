#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when two files of production code define an external function, or a type, of one name: a
reader who searches for it finds the wrong one, and the two can't be linked together.
Usage: check_names.py SOURCE_ROOT"""
import collections
import re
import sys

from sources import finish, project_files, read

FOLDERS = ("runtime/", "collective/", "ml/", "actors/", "cli/")
# Names that the node daemon shares with the library or the head. The list only shrinks.
NODE = "runtime/node/"
SHARED = {
    "crti_actor_process_died", "crti_actor_state", "crti_lease",
    "crti_lease_state", "crti_lease_state_t", "crti_lease_t", "crti_node_ask",
    "crti_node_died", "crti_process_died", "crti_process_watch",
}

# The format puts what is defined at the top level into the first column.
FUNCTION = re.compile(r"^(?!static\b|typedef\b)[a-zA-Z][^;{}()=#]*?\b(crti?_\w+)\([^;{}]*\)\s*\n\{",
                      re.M)
TYPE = re.compile(r"^(?:typedef )?(?:struct|union|enum) (crti?_\w+)\s*\{"  # a tag
                  r"|\} (crti?_\w+);"                                        # the typedef of a body
                  r"|^typedef [^;{}()]*?\b(crti?_\w+)(?:\[\w+\])?;"          # of another type
                  r"|^typedef [^;{}()]*?\b(crti?_\w+)\(", re.M)              # of a function


def names(text, pattern):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    return {next(filter(None, match.groups())) for match in pattern.finditer(text)}


def main(root):
    problems, found = [], set()
    for kind, pattern in ("function", FUNCTION), ("type", TYPE):
        places = collections.defaultdict(list)
        for path in project_files(root, (".c", ".h")):
            if path.startswith(FOLDERS):
                for name in names(read(root, path), pattern):
                    places[name].append(path)
        for name, paths in sorted(places.items()):
            if len(paths) == 1:
                continue
            found.add(name)
            if name not in SHARED or len(paths) > 2 or not any(p.startswith(NODE) for p in paths):
                problems.append(f"{kind} {name} is defined {len(paths)} times: {', '.join(paths)}")
    for name in sorted(SHARED - found):
        problems.append(f"{name} is defined once: remove it from SHARED")
    finish(problems, "names")


if __name__ == "__main__":
    main(sys.argv[1])
