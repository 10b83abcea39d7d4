#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a file includes what its folder may not use: folders are layers, includes go
downward only. Usage: check_layers.py SOURCE_ROOT"""
import os
import re
import sys

from sources import finish, line_of, project_files, read

# Public headers, written by their name alone: the folder each one belongs to.
PUBLIC = {
    "crt_base.h": "runtime/base",
    "crt.h": "runtime/core",
    "crt_arguments.h": "runtime/core",
    "crt_collective.h": "collective",
    "crt_ml.h": "ml",
    "crt_actors.h": "actors",
}
PUBLIC_PATHS = {"runtime/crt.h": "runtime/core", "runtime/crt_arguments.h": "runtime/core"}

LIBRARY = ["runtime/base", "runtime/net", "runtime/store", "runtime/core"]
# folder -> folders whose private headers it may include (its own is always allowed)
PRIVATE = {
    "runtime/base": [],
    "runtime/net": LIBRARY[:1],
    "runtime/store": LIBRARY[:2],
    "runtime/core": LIBRARY[:3],
    "runtime/node": LIBRARY,
    "runtime/control": LIBRARY + ["runtime/node"],
    "runtime/http": LIBRARY + ["runtime/node", "runtime/control"],
    "collective": LIBRARY,
    "ml": [],
    "actors": [],
    "cli": [],
    "examples": [],
}
# folder -> public headers it may include, where that is more than the folders above tell
PUBLIC_OF = {
    "ml": ["crt_base.h"],
    "actors": ["crt_base.h", "crt.h", "crt_arguments.h", "crt_collective.h", "crt_ml.h"],
    "cli": list(PUBLIC),
    "examples": list(PUBLIC),
}
# Libraries of which only these folders know.
FOREIGN = {
    "hiredis/": ["runtime/control"],
    "libwebsockets.h": ["runtime/http"],
    "cblas.h": ["ml", "actors"],
    "msgpack.h": LIBRARY + ["runtime/node", "runtime/control"],
}
GENERATED = {"crt_config.h"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def folder_of(path):
    path = PUBLIC_PATHS.get(path, path)
    return next((f for f in PRIVATE if path == f or path.startswith(f + "/")), None)


def may_use_public(folder, header):
    if folder in PUBLIC_OF:
        return header in PUBLIC_OF[folder] or PUBLIC[header] == folder
    return PUBLIC[header] == folder or PUBLIC[header] in PRIVATE[folder]


def is_allowed(root, path, folder, quote, target):
    """Returns None, or why the include is wrong."""
    for prefix, folders in FOREIGN.items():
        if target.startswith(prefix) and folder not in folders:
            return f"only {', '.join(folders)} may use {target}"
    if target in GENERATED or os.path.basename(target) in PUBLIC:
        header = os.path.basename(target)
        if target in GENERATED or may_use_public(folder, header):
            return None
        return f"{folder}/ may not use {header}"
    if quote == "<":
        return None
    if not os.path.exists(os.path.join(root, target)):
        return None if folder == "examples" else f"there is no {target}; write the path from the root"
    other = folder_of(target)
    if other == folder or other in PRIVATE[folder]:
        return None
    return f"{folder}/ may not use {target}"


def main(root):
    problems = []
    for path in project_files(root, (".c", ".h", ".cc")):
        folder = folder_of(path)
        if folder is None:
            if not path.startswith("tests/"):
                problems.append(f"{path}: belongs to no layer")
            continue
        text = read(root, path)
        for match in INCLUDE.finditer(text):
            why = is_allowed(root, path, folder, match[1], match[2])
            if why:
                problems.append(f"{path}:{line_of(text, match.start())}: {why}")
    finish(problems, "layers")


if __name__ == "__main__":
    main(sys.argv[1])
