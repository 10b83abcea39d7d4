# SPDX-License-Identifier: Apache-2.0
"""What word_count and sort are tried with, and what they have to say of it."""
import collections
import random

MIB = 1 << 20


def _write(path, mib, piece):
    with open(path, "wb") as file:
        while file.tell() < mib * MIB:
            file.write(piece())


def write_words(path, mib):
    """Every second word comes once, the others often."""
    source = random.Random(7)
    words = [b"word%d" % min(int(source.paretovariate(0.5)), 10**9) for _ in range(20000)]
    _write(path, mib, lambda: b"%s %0200x\n" % (source.choice(words), source.getrandbits(800)))


def write_records(path, mib):
    source = random.Random(8)
    _write(path, mib, lambda: b"%099x\n" % source.getrandbits(396))


def most_frequent(path, count):
    """The lines that word_count prints of that file."""
    counted = collections.Counter()
    with open(path, "rb") as file:
        for line in file:
            counted.update(line.split())
    found = sorted(counted.items(), key=lambda item: (-item[1], item[0]))[:count]
    return [f"{times} {word.decode()}" for word, times in found]
