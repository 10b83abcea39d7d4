#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when files of the core, of the node daemon or of the head see more of each other than they
need: the headers of that folder that a .c of it sees, directly or not, are at most SEEN_MAX in the
median; the inside of a module is included by its own files, and by the one that puts the parts
together, only; and what a state machine of the core keeps is written by the machine's own file
only. Prints the counts.
Usage: check_inside.py SOURCE_ROOT"""
import os
import re
import statistics
import sys

from sources import finish, project_files, read

CORE = "runtime/core"
SEEN_MAX = 15
# folder -> the file that puts its parts together
PUTS_TOGETHER = {CORE: f"{CORE}/client/parts.c", "runtime/node": "runtime/node/parts.c",
                "runtime/control": "runtime/control/control.c"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
WRITE = r"\s*(?:=[^=]|[-+|&]=|\+\+|--)"
STORE = r"_store\w*\(&\w+"
# What is written -> the files that may, one of which does.
WRITERS = {
    r"(?:\battempt->|[>.]attempt\.)\w+": ["calls/attempt.c"],
    r"->content": ["refs/refs.c"],
    r"(?:\bowned->|[>.]owned\.)\w+": ["refs/ownership.c", "refs/ownership.h"],
    r"(?:\bborrow->|[>.]borrow\.)\w+": ["refs/borrow.c", "refs/borrow.h"],
}


def seen_from(path, includes):
    seen, open_ends = set(), [path]
    while open_ends:
        new = includes[open_ends.pop()] - seen
        seen |= new
        open_ends += new
    return seen


def check_includes(folder, texts):
    includes = {path: set(INCLUDE.findall(text)) & set(texts) for path, text in texts.items()}
    for path in texts:
        for target in includes[path]:
            if (target.endswith("_int.h") and path != PUTS_TOGETHER[folder]
                    and os.path.dirname(path) != os.path.dirname(target)):
                yield f"{path}: includes the inside of another module, {target}"
    counts = {path: len(seen_from(path, includes)) for path in texts if path.endswith(".c")}
    median = statistics.median(counts.values())
    print(f"headers of {folder} that its .c files see: {median} in the median, "
          f"{max(counts.values())} at most")
    if median > SEEN_MAX:
        yield f"{median} headers of {folder} are seen in the median, not {SEEN_MAX}"


def check_writers(texts):
    for what, owners in WRITERS.items():
        writes = re.compile(f"{what}{WRITE}|{STORE}{what}")
        writers = {path for path, text in texts.items() if writes.search(text)}
        print(f"{what}: written by {len(writers)} file(s)")
        if not writers:
            yield f"nobody writes {what}: it has another name now, and is not looked for"
        for path in sorted(writers - {f"{CORE}/{owner}" for owner in owners}):
            yield (f"{path}: writes what {owners[0]} keeps: "
                   f"{writes.search(texts[path])[0].strip()}")


def main(root):
    problems = []
    for folder in PUTS_TOGETHER:
        texts = {
            path: COMMENT.sub("", read(root, path))
            for path in project_files(root, (".c", ".h")) if path.startswith(folder + "/")
        }
        problems += check_includes(folder, texts)
        if folder == CORE:
            problems += check_writers(texts)
    finish(problems, "inside")


if __name__ == "__main__":
    main(sys.argv[1])
