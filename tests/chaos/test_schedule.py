#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same seed gives the same faults, another one others; and the ledgers' checks find what is
wrong."""
from ledgers import ASK, END, NOT_STATED, RUN, Account, Entry
from schedule import KINDS, schedule


def lines(*arguments):
    return [str(f) for f in schedule(*arguments)]


def a_seed_gives_the_same_faults_each_time():
    assert lines(7, 60, 1) == lines(7, 60, 1)
    assert lines(7, 60, 1) != lines(8, 60, 1)
    # What comes later does not change what comes first.
    assert lines(7, 600, 1)[:20] == lines(7, 60, 1)[:20]


def every_kind_is_hit_in_a_long_run():
    faults = schedule(1, 600, 1)
    assert {f.kind for f in faults} == set(KINDS)
    assert {f.act for f in faults} == {"kill", "stop", "cut", "fill", "drain"}
    assert 500 < len(faults) < 700
    assert not any(f.kind in ("link", "disk") for f in schedule(1, 600, 1, has_links=False))
    assert schedule(1, 60, 0) == []


def entry(kind, number, value=0, result=0, status=0, may=0, origin=1, target=9):
    return Entry(kind, origin, number, target, value, result, status, may, 0)


def findings(*ledgers):
    account = Account()
    for i, entries in enumerate(ledgers):
        account.add_entries(f"process-{i}", entries)
    return account.check()


def finds(word, *ledgers):
    found = findings(*ledgers)
    assert len(found) == 1 and found[0].startswith(word), found


def what_is_as_it_should_be_is_no_finding():
    caller = [entry(ASK, 1, 5), entry(END, 1, 5, 5), entry(ASK, 2, 3), entry(END, 2, 3, 0, -50, 1),
              entry(ASK, 3, 4), entry(END, 3, 4, 0, -50, 0), entry(ASK, 4, 1)]
    assert findings(caller, [entry(RUN, 1, 5, 5), entry(RUN, 2, 3, 8), entry(RUN, 4, 1, 9)]) == []


def every_wrong_is_found():
    ask = [entry(ASK, 1, 5), entry(END, 1, 5, 5)]
    finds("untrue", ask, [])
    finds("twice", ask, [entry(RUN, 1, 5, 5)], [entry(RUN, 1, 5, 5)])
    finds("wrong", ask, [entry(RUN, 1, 5, 5), entry(RUN, 2, 1, 7)], [entry(ASK, 2, 1)])
    finds("wrong", [entry(ASK, 1, 5), entry(END, 1, 5, 6)], [entry(RUN, 1, 5, 5)])
    finds("wrong", [entry(ASK, 1, 5), entry(END, 1, 5, 5)], [entry(RUN, 1, 5, 5, target=8)])
    finds("untrue", [entry(ASK, 1, 5), entry(END, 1, 5, 0, -50, 0)], [entry(RUN, 1, 5, 5)])
    finds("invented", [], [entry(RUN, 1, 5, NOT_STATED)])
    asks = [entry(ASK, 1, 1), entry(ASK, 2, 2)]
    finds("order", asks, [entry(RUN, 2, 2, 2), entry(RUN, 1, 1, 3)])


if __name__ == "__main__":
    a_seed_gives_the_same_faults_each_time()
    every_kind_is_hit_in_a_long_run()
    what_is_as_it_should_be_is_no_finding()
    every_wrong_is_found()
    print("passed")
