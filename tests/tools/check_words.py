#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails on words that promise something later, that tell how the text came about, or that name a
place on somebody's machine; and on a file without licence line. Usage: check_words.py ROOT"""
import re
import sys

from sources import finish, line_of, project_files, read

# Written in halves, so that this file does not find itself.
WORDS = re.compile("|".join([
    r"\bTO" r"DO\b", r"\bFIX" r"ME\b", r"\bX" r"XX\b", r"\bHA" r"CK\b",
    r"\bfor " r"now\b", r"\bnot " r"implemented\b", r"\bplace" r"holder\b",
    r"\bas per the " r"brief\b", r"\bissue " r"#?\d", r"\bsub" r"agent", r"\bclau" r"de\b",
    r"\ban" r"thropic\b", r"\bchat" r"gpt\b", r"\bthis " r"session of work\b",
    r"/wo" r"rk/",
]), re.IGNORECASE)
# X?X?X as in mkdtemp templates is longer than three, so that \b keeps them out.
SUFFIXES = (".c", ".h", ".cc", ".cpp", ".hpp", ".py", ".sh", ".md", ".scd", ".js", ".css", ".html",
            ".build", ".txt")
LICENSED = (".c", ".h", ".cc", ".cpp", ".hpp", ".py", ".sh")


def main(root):
    problems = []
    for path in project_files(root, SUFFIXES):
        text = read(root, path)
        for match in WORDS.finditer(text):
            problems.append(f"{path}:{line_of(text, match.start())}: \"{match[0]}\"")
        if path.endswith(LICENSED) and "SPDX-License-Identifier: Apache-2.0" not in text[:300]:
            problems.append(f"{path}: no line \"SPDX-License-Identifier: Apache-2.0\"")
    finish(problems, "words")


if __name__ == "__main__":
    main(sys.argv[1])
