# SPDX-License-Identifier: Apache-2.0
"""Reads what ledger.h writes, and compares what callers were told with what ran."""
import collections
import os
import struct

RECORD = struct.Struct("=QQQQqqiiQ")
ASK, END, RUN = 1, 2, 3
NOT_STATED = -(1 << 63)

Entry = collections.namedtuple(
    "Entry", "kind origin number target value result status may_have_run at_ns")


def read_file(path):
    with open(path, "rb") as file:
        data = file.read()
    whole = len(data) - len(data) % RECORD.size
    return [Entry(*fields) for fields in RECORD.iter_unpack(data[:whole])]


class Account:
    """All calls of a run."""

    def __init__(self):
        self.asked, self.ended = {}, {}
        self.ran = collections.defaultdict(list)  # call -> [(file, entry)]
        self.findings = []

    def add_folder(self, folder):
        for name in sorted(os.listdir(folder)):
            self.add_entries(name, read_file(os.path.join(folder, name)))

    def add_entries(self, name, entries):
        """The records of one process, in the order in which it wrote them."""
        sums = collections.defaultdict(int)  # of the accounts that it hosted
        last = {}  # (caller, target) -> the last number that ran
        for e in entries:
            call = (e.origin, e.number)
            if e.kind == ASK:
                self.asked[call] = e
            elif e.kind == END:
                self.ended[call] = e
            elif e.kind == RUN:
                self.ran[call].append((name, e))
                self._check_order(name, e, last)
                self._check_sum(name, e, sums)

    def _check_order(self, name, e, last):
        if e.target and last.get((e.origin, e.target), 0) >= e.number:
            self.findings.append(f"order: in {name} call {e.origin:x}/{e.number} ran after "
                                 f"{last[(e.origin, e.target)]}")
        last[(e.origin, e.target)] = e.number

    def _check_sum(self, name, e, sums):
        """Only `add` states a result and has a value, of an actor."""
        if e.target and e.result != NOT_STATED and e.value:
            sums[e.target] += e.value
            if sums[e.target] != e.result:
                self.findings.append(f"wrong: in {name} the sum after {e.origin:x}/{e.number} is "
                                     f"{e.result}, the calls add up to {sums[e.target]}")

    def check(self):
        """Compares; gives the findings."""
        for call, runs in self.ran.items():
            if len(runs) > 1:
                self.findings.append(f"twice: call {_name(call)} ran in "
                                     + ", ".join(name for name, _ in runs))
            if call not in self.asked:
                self.findings.append(f"invented: call {_name(call)} ran and nobody made it")
        for call, end in self.ended.items():
            runs = self.ran.get(call, [])
            if end.status == 0:
                self._check_success(call, end, runs)
            elif not end.may_have_run and runs:
                self.findings.append(
                    f"untrue: call {_name(call)} ran in {runs[0][0]}, and its caller "
                    f"was told that it did not (status {end.status})")
        return self.findings

    def _check_success(self, call, end, runs):
        if not runs:
            self.findings.append(f"untrue: call {_name(call)} succeeded and did not run")
            return
        run = runs[0][1]
        if run.target != end.target:
            self.findings.append(
                f"wrong: call {_name(call)} to {end.target:x} ran at {run.target:x}")
        if run.result != NOT_STATED and run.result != end.result:
            self.findings.append(
                f"wrong: call {_name(call)} gave {end.result}, it returned {run.result}")

    def summary(self):
        good = sum(e.status == 0 for e in self.ended.values())
        may = sum(e.status != 0 and e.may_have_run for e in self.ended.values())
        cut = len(self.asked) - len(self.ended)
        return (f"{len(self.asked)} calls: {good} gave results, {may} may have run, "
                f"{len(self.ended) - good - may} did not run, {cut} lost their caller; "
                f"{sum(map(len, self.ran.values()))} ran")


def _name(call):
    return f"{call[0]:x}/{call[1]}"
