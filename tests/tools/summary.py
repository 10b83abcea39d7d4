#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the logs of failed tests and, last, "N passed, N failed, N skipped".

Reads Meson's testlog.json files (one JSON object per line). A test is skipped when it prints
"skipped: needs WHAT" or is of suite "gpu"; a skip without a reason is a failure, and so is a build
folder that did not build or a run without a log.
Usage: summary.py [--broken "BUILD FOLDERS"] TESTLOG.json...
"""
import json
import re
import sys

LINES_SHOWN = 120


def tests_of(path):
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def suites_of(test):
    """Meson writes the name as "project:suite+suite / name", newer ones (1.12) as
    "suite+suite - project:name"."""
    if " / " in test["name"]:
        return test["name"].partition(" / ")[0].partition(":")[2].split("+")
    return test["name"].partition(" - ")[0].split("+")


def outcome_of(test):
    result = test["result"]
    if result in ("OK", "EXPECTEDFAIL"):
        return "passed"
    if result == "SKIP" and ("gpu" in suites_of(test) or need_of(test)):
        return "skipped"
    return "failed"


def need_of(test):
    """What it says that it misses; "": nothing."""
    found = re.search(r"^skipped: needs (.+)$", f"{test.get('stdout')}\n{test.get('stderr')}",
                      re.MULTILINE)
    return found[1] if found else ""


def show_failure(test, path):
    why = "skipped without a word of what it needs" if test["result"] == "SKIP" else test["result"]
    print(f"\n==== failed: {test['name']} ({why}, exit status {test.get('returncode')}, "
          f"{path.split('/')[0]})")
    for stream in ("stdout", "stderr"):
        lines = (test.get(stream) or "").rstrip().splitlines()
        if len(lines) > LINES_SHOWN:
            print(f"---- {stream}, the last {LINES_SHOWN} of {len(lines)} lines")
        elif lines:
            print(f"---- {stream}")
        print("\n".join(lines[-LINES_SHOWN:]))


def main(arguments):
    broken = []
    if arguments[:1] == ["--broken"]:
        broken = arguments[1].split()
        arguments = arguments[2:]
    counts = {"passed": 0, "failed": len(broken), "skipped": 0}
    for folder in broken:
        print(f"\n==== failed: {folder} did not build")
    for path in arguments:
        try:
            tests = list(tests_of(path))
        except (OSError, ValueError) as error:
            print(f"\n==== failed: no result of {path}: {error}")
            counts["failed"] += 1
            continue
        for test in tests:
            outcome = outcome_of(test)
            counts[outcome] += 1
            if outcome == "failed":
                show_failure(test, path)
            elif outcome == "skipped" and need_of(test):
                print(f"skipped: {test['name']} needs {need_of(test)}")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**counts))
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
