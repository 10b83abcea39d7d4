#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""grow.py SOURCE OUT HEADER...

Copies public headers below SOURCE to the same places below OUT, as a later version could have them:
each struct that begins with its size has three more members at its end, and one that the library
fills. Those that the build has made are left out. Prints the folders."""
import os
import re
import sys

GROWN = """    /* Aligned, so that no member lies where an older version had only padding. */
    _Alignas(size_t) int grown_number;
    const char *grown_text;
    bool grown_flag;
"""
STRUCT = re.compile(
    r"(typedef struct (?:crt_model_array \{\n|"
    r"\w+ \{\n(?:    /\*(?:(?!\*/).)*\*/\n)?    size_t struct_size;).*?\n)(\} crt_\w+_t;)",
    re.DOTALL)


def grow(text):
    return STRUCT.subn(lambda m: m[1] + GROWN + m[2], text)


def main(source, out, *headers):
    folders, count = set(), 0
    for header in map(os.path.abspath, headers):
        place = os.path.relpath(header, source)
        with open(header, encoding="utf-8") as file:
            text, found = grow(file.read())
        if (not header.startswith(os.path.abspath(source) + os.sep) or
                header.startswith(os.path.abspath(out))):
            continue
        count += found
        folders.add(os.path.dirname(place))
        path = os.path.join(out, place)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path) or open(path, encoding="utf-8").read() != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    if count < 30:
        sys.exit(f"grow.py: only {count} structs begin with struct_size")
    with open(os.path.join(out, "grown.h"), "w", encoding="utf-8") as file:
        file.write(f"/* {count} structs */\n")
    print("\n".join(sorted(folders)))


if __name__ == "__main__":
    main(*sys.argv[1:])
