# SPDX-License-Identifier: Apache-2.0
"""What word_count and sort are tried with, and what they have to say of it."""
import collections
import random
import signal
import subprocess

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


def run_until(found, await_reports, wait, send):
    """What `found` gives as soon as that is something. The driver, which is stopped then, runs for
    a while at a time, however fast it is, and nodes report what they have on disk before the next
    one. `wait(seconds)` waits for its end, `send(signal)` signals it."""
    seconds = 0.2
    while True:
        send(signal.SIGCONT)
        try:
            wait(seconds)
            raise AssertionError("it ended before anything was on disk")
        except subprocess.TimeoutExpired:
            send(signal.SIGSTOP)
        await_reports()
        there = found()
        if there:
            return there
        seconds *= 1.3
