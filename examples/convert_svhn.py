#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes train.bin or test.bin, as crt_images_open reads them, of a file of SVHN ("cropped digits").
Usage: convert_svhn.py train_32x32.mat train.bin

A file of MATLAB's level 5 is a header of 128 bytes, then elements of a type, a size and that many
bytes; an element may be packed by zlib. Arrays lie with their first index running fastest."""
import struct
import sys
import zlib

INT32, MATRIX, COMPRESSED = 5, 14, 15
NUMBERS = {2: "B", 9: "d"}  # of labels: bytes or doubles


def elements(data):
    """(type, bytes) of each element; up to four bytes lie in the tag itself."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind >> 16:
            yield kind & 0xffff, data[at + 4:at + 4 + (kind >> 16)]
            at += 8
            continue
        if at + 8 + size > len(data):
            raise ValueError("cut short")
        yield kind, data[at + 8:at + 8 + size]
        at += 8 + size + (-size % 8 if kind != COMPRESSED else 0)


def arrays(data):
    """{name: (sizes, type of numbers, bytes)}"""
    found = {}
    for kind, body in elements(data[128:]):
        if kind == COMPRESSED:
            kind, body = next(elements(zlib.decompress(body)))
        if kind != MATRIX:
            continue
        _, (_, sizes), (_, name), (numbers, values) = list(elements(body))[:4]
        found[name.decode()] = struct.unpack(f"<{len(sizes) // 4}i", sizes), numbers, values
    return found


def convert(data):
    found = arrays(data)
    if "X" not in found or "y" not in found:
        raise ValueError("no X and y: not a file of SVHN, or not of level 5")
    sizes, _, pixels = found["X"]
    _, kind, labels = found["y"]
    count = sizes[-1]
    if tuple(sizes[:3]) != (32, 32, 3) or len(pixels) != count * 3072:
        raise ValueError(f"images of {sizes[:3]}, not 32 x 32 x 3")
    labels = struct.unpack(f"<{count}{NUMBERS[kind]}", labels)
    for i, label in enumerate(labels):
        planes = pixels[i * 3072:(i + 1) * 3072]
        yield bytes([int(label) % 10])  # 10 stands for the digit 0
        for first in range(0, 3072, 1024):  # columns become rows
            yield b"".join(planes[first + row:first + 1024:32] for row in range(32))


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], "rb") as file:
            records = b"".join(convert(file.read()))
        with open(sys.argv[2], "wb") as file:
            file.write(records)
    except (OSError, ValueError, KeyError, struct.error, zlib.error) as error:
        sys.exit(f"convert_svhn: {sys.argv[1]}: {error}")


if __name__ == "__main__":
    main()
