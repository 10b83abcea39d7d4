#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a comment or a page of documentation names a source file that does not exist.
Usage: check_paths.py SOURCE_ROOT"""
import os
import re
import sys

from sources import finish, line_of, project_files, read

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
# A path with a folder ("runtime/net/session.c", "core/execution/call.c"), or a bare name in a
# comment.
NAMED = re.compile(r"(?<![\w./$<*-])((?:[\w-]+/)*[\w-]+\.(?:cpp|hpp|c|h|py|sh|scd))(?![\w/*])")
# Files outside the project that texts may name, by their last part.
FOREIGN = {"app.c", "app.cpp", "main.c", "pthread.h", "cmocka.h", "zmq.h", "ray_perf.py",
           "ray_microbenchmark_helpers.py"}
# "tests/FOLDER/test_MODULE.c" says how names are made.
PATTERN = re.compile(r"[A-Z]{4}")


def spoken_text(path, text):
    """(position, text) of what people read: all of a page, the comments of a C file."""
    if path.endswith((".md", ".scd")):
        return [(0, text)]
    return [(m.start(), m[0]) for m in COMMENT.finditer(text)]


def exists(name, files, own_folder):
    if "/" in name:
        return any(f == name or f.endswith("/" + name) for f in files)
    return any(os.path.basename(f) == name for f in files)


def main(root):
    files = project_files(root)
    problems = []
    for path in project_files(root, (".c", ".h", ".cpp", ".hpp", ".md", ".scd")):
        if path.startswith("CHANGELOG"):
            continue
        text = read(root, path)
        for start, part in spoken_text(path, text):
            for match in NAMED.finditer(part):
                name = match[1]
                if (os.path.basename(name) in FOREIGN or name.startswith("sys/") or
                        PATTERN.search(name)):
                    continue
                if not exists(name, files, os.path.dirname(path)):
                    line = line_of(text, start + match.start())
                    problems.append(f"{path}:{line}: there is no {name}")
    finish(problems, "named files")


if __name__ == "__main__":
    main(sys.argv[1])
