#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes crt-limits.7.scd from the list of limits. Usage: limits.py LIMIT_LIST_H TEMPLATE"""
import re
import sys

US, MS, S = 1000, 1000000, 1000000000
KIB, HOUR = 1024, 3600 * S
VALUES = {"CRTI_US": US, "CRTI_MS": MS, "CRTI_S": S, "CRTI_HOUR": HOUR, "CRTI_DAY": 24 * HOUR,
          "CRTI_KIB": KIB, "CRTI_MIB": KIB**2, "CRTI_GIB": KIB**3, "CRTI_TIB": KIB**4}
UNITS = {"TIME": [("d", 24 * HOUR), ("h", HOUR), ("m", 60 * S), ("s", S), ("ms", MS), ("us", US),
                  ("ns", 1)],
         "BYTES": [("T", KIB**4), ("G", KIB**3), ("M", KIB**2), ("K", KIB), ("", 1)]}
TITLES = {"CLUSTER": ("OF THE CLUSTER",
                      "As *crt start --head* was told. The head hands these to its nodes, and a "
                      "node to its processes; what another host has set does not count, and is "
                      "logged."),
          "HEAD": ("OF THE HEAD", "As *crt start --head* was told."),
          "NODE": ("OF A NODE", "As the *crt start* of each host was told."),
          "PROGRAM": ("OF A PROGRAM", "As its driver was started; its workers have the same."),
          "HTTP": ("OF HTTP", "Of the dashboard and the REST API: as *crt start --head* was told."),
          "EACH": ("OF EACH PROCESS", "Daemons, drivers and workers, as each was started.")}


def number(text):
    """The value of an expression of the list: numbers and units, and * between them."""
    value = 1
    for factor in text.split("*"):
        factor = factor.strip()
        value *= VALUES[factor] if factor in VALUES else int(factor)
    return value


def shown(unit, value):
    """As crti_limit_write shows it."""
    if value == 0:
        return "0"
    name, size = next((n, s) for n, s in UNITS.get(unit, [("", 1)]) if value % s == 0)
    return f"{value // size}{name}"


def read_list(path):
    """Of each limit: name, scope, unit, default, least, most (as shown), meaning."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r" *\\\n *", " ", file.read())
    limits = []
    for row in re.finditer(r"\bL\((\w+), (\w+), (\w+), ([^,]+), ([^,]+), ([^,]+), "
                           r"((?:\"[^\"]*\" ?)+)\)", text):
        name, scope, unit = row[1], row[2], row[3]
        values = [shown(unit, number(row[i])) for i in (4, 5, 6)]
        limits.append((name, scope, unit, *values, "".join(re.findall(r"\"([^\"]*)\"", row[7]))))
    orders = re.findall(r"\bO\((\w+), (\d+), (\w+)\)", text)
    return limits, orders


def escaped(text):
    return text.replace("_", "\\_")


def page_of(limits, orders, template):
    parts = []
    for scope, (title, text) in TITLES.items():
        parts += [f"# {title}", "", text, ""]
        for name, _, unit, default, least, most, meaning in (x for x in limits if x[1] == scope):
            percent = " percent" if unit == "PERCENT" else ""
            parts += [f"*{escaped(name)}*",
                      f"\t{meaning[0].upper()}{escaped(meaning[1:])}.",
                      f"\tDefault {default}{percent}, from {least} to {most}.", ""]
    times = {"1": "at least"}
    said = [f"*{escaped(more)}* is {times.get(n, f'at least {n} times')} *{escaped(less)}*."
            for less, n, more in orders]
    return template.replace("@ORDERS@", "++\n".join(said)).replace("@SCOPES@",
                                                                   "\n".join(parts).strip())


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as source:
        sys.stdout.write(page_of(*read_list(sys.argv[1]), source.read()))
