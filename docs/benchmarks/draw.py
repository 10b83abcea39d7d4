#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws figures.json of this folder as figures.svg: how many times better crt is than what stands
beside it.

    docs/benchmarks/draw.py            writes figures.svg
    docs/benchmarks/draw.py --check    exits with 1 when figures.svg is not what figures.json says
"""
import json
import math
import os
import sys
from xml.sax.saxutils import escape

HERE = os.path.dirname(os.path.abspath(__file__))
WIDTH, LEFT, RIGHT, ROW, HEAD = 860, 236, 300, 22, 30
STYLE = ("text{font:13px system-ui,sans-serif;fill:#1f2328}.g{font-weight:600}"
         ".d{fill:#59636e;font-size:12px}\n"
         ".r{font-weight:600}.b{fill:#2a78d6}.l{stroke:#d1d9e0;stroke-width:1}"
         ".o{stroke:#59636e;stroke-width:1}\n"
         "@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.d{fill:#9198a1}.b{fill:#4493f8}"
         ".l{stroke:#3d444d}.o{stroke:#9198a1}}")


def number(value):
    """1,234,567 as 1.23 M: three digits."""
    for limit, unit in ((1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def figure(value, unit):
    if unit == "us" and value >= 1000:
        value, unit = value / 1000, "ms"
    if unit in ("/s", "words/s"):
        return f"{number(value)}{unit}" if unit == "/s" else f"{value:,.0f} {unit}"
    return f"{value:.3g} {unit}"


def times(ratio):
    return f"{ratio:,.0f} x" if ratio >= 10 else f"{ratio:.1f} x"


def draw(report):
    rows, groups = report["rows"], list(dict.fromkeys(r["group"] for r in report["rows"]))
    most = 10 ** math.ceil(math.log10(max(r["ratio"] for r in rows)))
    scale = (WIDTH - LEFT - RIGHT) / math.log10(most)
    height = HEAD + len(groups) * (ROW + 8) + len(rows) * ROW + 50
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="crt beside Ray, Open MPI, Thinc and spaCy">',
        f"<style>{STYLE}</style>"
    ]
    for power in range(round(math.log10(most)) + 1):
        x = LEFT + power * scale
        out.append(
            f'<line class="{"l" if power else "o"}" x1="{x:.1f}" y1="{HEAD - 6}" x2="{x:.1f}" '
            f'y2="{height - 50}"/>')
        out.append(
            f'<text class="d" x="{x:.1f}" y="{HEAD - 12}" text-anchor="middle">'
            f'{10 ** power:,} x</text>')
    y = HEAD
    for group in groups:
        y += ROW + 8
        out.append(f'<text class="g" x="0" y="{y - 8}">{escape(group)}</text>')
        for r in (r for r in rows if r["group"] == group):
            length = max(1.0, math.log10(max(r["ratio"], 1)) * scale)
            ours, theirs = figure(r["crt"], r["unit"]), figure(r["other"], r["unit"])
            beside = f'{ours} beside {theirs} ({r["beside"]})'
            out.append(f'<text x="12" y="{y + 12}">{escape(r["name"])}</text>')
            out.append(
                f'<rect class="b" x="{LEFT}" y="{y + 1}" width="{length:.1f}" height="14" rx="2"/>')
            out.append(
                f'<text x="{LEFT + length + 6:.1f}" y="{y + 12}">'
                f'<tspan class="r">{times(r["ratio"])}</tspan> '
                f'<tspan class="d">{escape(beside)}</tspan></text>')
            y += ROW
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    said = [
        f'How many times better, logarithmic. {report["date"]}; {report["machine"]}.',
        f"Beside {versions}."
    ]
    out += [
        f'<text class="d" x="0" y="{height - 26 + 16 * i}">{escape(line)}</text>'
        for i, line in enumerate(said)
    ]
    out += ["</svg>", ""]
    return "\n".join(out)


def main():
    with open(os.path.join(HERE, "figures.json"), encoding="utf-8") as file:
        drawn = draw(json.load(file))
    path = os.path.join(HERE, "figures.svg")
    if sys.argv[1:] == ["--check"]:
        with open(path, encoding="utf-8") as file:
            sys.exit(0 if file.read() == drawn else
                     "figures.svg is not what figures.json says: run docs/benchmarks/draw.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(drawn)


if __name__ == "__main__":
    main()
