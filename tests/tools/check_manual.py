#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless the manual says what the program says: the options of each command in crt.1 are
those of its --help, the environment variables too, and crt-errors.7 has the statuses of
crt_base.h. Usage: check_manual.py CRT SOURCE_ROOT"""
import re
import subprocess
import sys

from sources import finish, read

ANYWHERE = {"--help"}  # said once in the manual, for every command


def help_of(crt, *words):
    return subprocess.run([crt, *words, "--help"], capture_output=True, text=True,
                          check=True).stdout


def listed_commands(crt, *words):
    """Names under "Commands:" in a --help, () for a command that has none."""
    match = re.search(r"^Commands:\n((?:  .*\n)+)", help_of(crt, *words), re.MULTILINE)
    return re.findall(r"^  ([a-z-]+) ", match[1], re.MULTILINE) if match else []


def options_of_help(text):
    """{"--name": "ARGUMENT"} of the lines like "  -a, --address HOST:PORT   text"."""
    found = re.findall(r"^ {2,6}(?:-\w, )?(--[\w-]+)(?: ([^\s ]+))?(?:  |\n| |$)", text, re.MULTILINE)
    arguments = {name: argument for name, argument in found}
    # A long line has one space before its text: an argument is written in capitals or on|off.
    return {n: a if re.fullmatch(r"[A-Z][A-Z:=,|.-]*|on\|off|K=V,\.\.\.", a) else ""
            for n, a in arguments.items()}


def options_of_manual(section):
    found = re.findall(r"^(?:\*-\w\*, )?\*(--[\w-]+)\*(?: _(.+)_)?$", section, re.MULTILINE)
    return dict(found)


def sections_of(text):
    parts = re.split(r"^# (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def compare(problems, where, said, written):
    for name in sorted(said.keys() - written.keys() - ANYWHERE):
        problems.append(f"crt.1, {where}: {name} is missing")
    for name in sorted(written.keys() - said.keys()):
        problems.append(f"crt.1, {where}: there is no {name}")
    for name in said.keys() & written.keys():
        if said[name] != written[name]:
            problems.append(f"crt.1, {where}: {name} takes \"{said[name]}\", not \"{written[name]}\"")


def check_commands(problems, crt, manual):
    commands = [(c,) for c in listed_commands(crt) if c != "job"]
    commands += [("job", c) for c in listed_commands(crt, "job")]
    for words in commands:
        where = " ".join(words).upper()
        if where not in manual:
            problems.append(f"crt.1: no section {where}")
            continue
        compare(problems, where, options_of_help(help_of(crt, *words)),
                options_of_manual(manual[where]))
    said = dict.fromkeys(re.findall(r"^  (CRT_\w+) ", help_of(crt), re.MULTILINE), "")
    written = dict.fromkeys(re.findall(r"^(CRT_\w+)$", manual["ENVIRONMENT"], re.MULTILINE), "")
    compare(problems, "ENVIRONMENT", said, written)


def check_statuses(problems, header, manual):
    said = re.findall(r"^ +X\((\w+), (-?\d+), +\"(.*)\"\)", header, re.MULTILINE)
    written = re.findall(r"^\*CRT_(\w+)\* \((-?\d+)\): (.*)$", manual, re.MULTILINE)
    problems += [f"crt-errors.7: no line of CRT_{n} ({v}): {t}" for n, v, t in said
                 if (n, v, t) not in written]
    problems += [f"crt-errors.7: no such status: CRT_{n} ({v}): {t}" for n, v, t in written
                 if (n, v, t) not in said]
    if not said:
        problems.append("crt_base.h: no status found")


def main(crt, root):
    problems = []
    check_commands(problems, crt, sections_of(read(root, "docs/man/crt.1.scd")))
    check_statuses(problems, read(root, "runtime/base/crt_base.h"),
                   read(root, "docs/man/crt-errors.7.scd"))
    finish(problems, "manual")


if __name__ == "__main__":
    main(*sys.argv[1:])
