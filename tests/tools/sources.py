# SPDX-License-Identifier: Apache-2.0
"""What the lint tests share: which files the project consists of, and how failures are told."""
import os
import sys

# Build folders and what git or an editor keep are no part of the project.
def _is_foreign(name):
    return name.startswith((".", "build")) or name in ("subprojects", "__pycache__")


def project_files(root, suffixes=()):
    """Paths relative to `root`, sorted. `suffixes` such as (".c", ".h"); () for all files."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [n for n in folders if not _is_foreign(n)]
        for name in names:
            if name.endswith(tuple(suffixes)) if suffixes else not name.startswith("."):
                found.append(os.path.relpath(os.path.join(folder, name), root))
    return sorted(found)


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def finish(problems, what):
    """Prints the problems and ends the program: status 0 when there are none."""
    for problem in problems:
        print(problem)
    print(f"{what}: {len(problems)} problem(s)")
    sys.exit(1 if problems else 0)


def skip(what):
    """Ends the program as a test that can't be had without `what`."""
    print(f"skipped: needs {what}")
    sys.exit(77)
