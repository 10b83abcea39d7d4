#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of SVHN as MATLAB writes them become records. Usage: test_convert_svhn.py CONVERT_SVHN"""
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

CONVERT = sys.argv[1]


def element(kind, body):
    return struct.pack("<II", kind, len(body)) + body + bytes(-len(body) % 8)


def array(name, sizes, kind, values):
    return element(
        14,
        element(6, struct.pack("<II", 9, 0)) + element(5, struct.pack(f"<{len(sizes)}i", *sizes)) +
        struct.pack("<HH4s", 1, len(name), name) + element(kind, values))


def pixel(image, channel, row, column):
    return (image * 7 + channel * 90 + row * 3 + column) % 256


def images(count):
    """First the rows run, then the columns, channels and images."""
    return bytes(
        pixel(i, c, y, x) for i in range(count) for c in range(3) for x in range(32)
        for y in range(32))


def file_of(*arrays_, packed=True):
    parts = [
        struct.pack("<II", 15, len(zlib.compress(a))) + zlib.compress(a) if packed else a
        for a in arrays_
    ]
    return b"MATLAB 5.0 MAT-file".ljust(124) + b"\0\1IM" + b"".join(parts)


class ConvertSvhn(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def convert(self, data):
        source, target = (os.path.join(self.folder.name, name) for name in ("x.mat", "train.bin"))
        with open(source, "wb") as file:
            file.write(data)
        done = subprocess.run([CONVERT, source, target], capture_output=True, text=True, timeout=60)
        if done.returncode == 0:
            with open(target, "rb") as file:
                return file.read()
        self.assertFalse(os.path.exists(target))
        self.assertIn(f"convert_svhn: {source}: ", done.stderr)
        return done.stderr

    def check(self, records, labels):
        self.assertEqual(len(records), len(labels) * 3073)
        for i, label in enumerate(labels):
            record = records[i * 3073:(i + 1) * 3073]
            self.assertEqual(record[0], label)
            self.assertEqual(
                record[1:],
                bytes(pixel(i, c, y, x) for c in range(3) for y in range(32) for x in range(32)))

    def test_columns_become_rows_and_ten_is_the_digit_zero(self):
        x = array(b"X", (32, 32, 3, 3), 2, images(3))
        self.check(self.convert(file_of(x, array(b"y", (3, 1), 2, bytes([1, 10, 9])))), [1, 0, 9])
        doubles = array(b"y", (3, 1), 9, struct.pack("<3d", 10, 2, 3))
        self.check(self.convert(file_of(x, doubles, packed=False)), [0, 2, 3])

    def test_other_files_are_refused(self):
        self.assertIn("no X and y", self.convert(file_of(array(b"z", (1, 1), 2, b"\0"))))
        small = array(b"X", (16, 16, 3, 1), 2, bytes(768)), array(b"y", (1, 1), 2, b"\1")
        self.assertIn("not 32 x 32 x 3", self.convert(file_of(*small)))
        self.assertIn("cut short",
                      self.convert(file_of(array(b"X", (32, 32, 3, 1), 2, images(1)))[:-9]))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
