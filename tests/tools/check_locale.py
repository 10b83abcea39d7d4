#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails where a number would be written or read as the locale of the program says: 2,5 for 2.5.
In the libraries, which run in processes of users, by printf and scanf with floating point and by
strtod: runtime/base/number_text.h has what to use instead, and crt_raise and crti_log do. The
daemons and the command line are in the locale "C": they do not call setlocale, but for characters.
Usage: check_locale.py ROOT"""
import re
import sys

from sources import finish, line_of, project_files, read

LIBRARIES = ("runtime/base/", "runtime/net/", "runtime/store/", "runtime/core/", "collective/",
             "ml/", "actors/")
PROGRAMS = ("runtime/node/", "runtime/control/", "runtime/http/", "cli/")
EXEMPT = "runtime/base/number_text.c"
FLOATING = r"%[-+ #0]*[*\d]*(?:\.[*\d]*)?[lL]?[aAeEfFgG]"
READS = re.compile(r"\b(?:strtod|strtof|strtold|atof)\s*\(")
CALL = re.compile(r"\b(?P<name>v?(?:f|s|sn|as|d)?printf|v?[fs]?scanf)\s*\(")
SETS = re.compile(r"\bsetlocale\s*\(\s*(?!LC_CTYPE\b)\w+")


def without_comments(text):
    """Comments as blanks, so that places stay."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: re.sub(r"[^\n]", " ", m[0]), text,
                  flags=re.DOTALL)


def arguments(text, start):
    """What stands between the parentheses behind `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return text[start:at]
    return text[start:]


def of_library(path, text):
    for match in READS.finditer(text):
        yield line_of(
            text,
            match.start()), f"{match[0][:-1].strip()} reads as the locale says: crti_read_number"
    for match in CALL.finditer(text):
        name, literals = match["name"], "".join(
            re.findall(r'"((?:[^"\\]|\\.)*)"', arguments(text,
                                                         match.end() - 1)))
        if name.startswith("v") and path.startswith(("runtime/", "collective/")):
            yield line_of(text, match.start()), f"{name} writes as the locale says: crti_vformat"
        elif re.search(FLOATING, literals.replace("%%", "")):
            yield line_of(
                text, match.start()), f"{name} with floating point: crti_format, crti_read_number"


def main(root):
    problems = []
    for path in project_files(root, (".c", ".h", ".cu")):
        if path == EXEMPT or not path.startswith(LIBRARIES + PROGRAMS):
            continue
        text = without_comments(read(root, path))
        if path.startswith(LIBRARIES):
            problems += [f"{path}:{line}: {what}" for line, what in of_library(path, text)]
        problems += [
            f"{path}:{line_of(text, m.start())}: the decimal point of this process would change"
            for m in SETS.finditer(text)
        ]
    finish(problems, "locale")


if __name__ == "__main__":
    main(sys.argv[1])
