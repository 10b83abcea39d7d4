#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py OUTPUT.c FILE...: the files, one after the other, as the text that NVRTC compiles."""
import sys


def main(output, paths):
    data = b"".join(open(path, "rb").read() for path in paths) + b"\0"
    lines = [
        "/* Made by ml/cuda/embed.py. */", '#include "ml/cuda/kernels.h"', "",
        "const char crti_cuda_source[] = {"
    ]
    for at in range(0, len(data), 20):
        lines.append("    " + ", ".join(map(str, data[at:at + 20])) + ",")
    lines += ["};", ""]
    with open(output, "w", encoding="ascii") as target:
        target.write("\n".join(lines))


main(sys.argv[1], sys.argv[2:])
