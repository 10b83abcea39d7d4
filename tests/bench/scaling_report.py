# SPDX-License-Identifier: Apache-2.0
"""Table and plots of the scaling benchmark."""
import json
import math
import os

# Seconds for 1000 updates, workers on one host each: spacy-ray, and its fork with collectives
# (github.com/MccRee177/spacy_ray_nccl, README).
PUBLISHED = {1: (137.5, 116.7), 2: (354.1, 171.1), 4: (523.9, 179.6), 8: (710.1, 205.8),
             16: (1296.1, 248.3)}
TITLES = {
    "server": "one server", "sharded": "sharded servers", "blocking": "allreduce, blocking",
    "overlapped": "allreduce, overlapped", "allreduce": "allreduce",
    "peer": "peer-owned parameters", "shared_optimizer": "shared optimizer",
    "head_child": "head and children"
}
COLORS = {
    "server": "#b03a2e", "sharded": "#ca6f1e", "blocking": "#2471a3", "overlapped": "#1e8449",
    "allreduce": "#1e8449", "peer": "#2471a3", "shared_optimizer": "#b03a2e",
    "head_child": "#ca6f1e"
}


def series(report, what="update_ms"):
    """mode -> {hosts: seconds per 1000 updates}, in the order of TITLES."""
    found = {}
    for run in report["runs"]:
        found.setdefault(run["mode"], {})[run["workers"]] = run[what]
    return {mode: found[mode] for mode in TITLES if mode in found}


def print_table(report):
    ours, machine = series(report), report["machine"]
    counts = sorted({n for figures in ours.values() for n in figures})
    print(f"Machine: {machine['cpus']} CPUs, {machine['model']}, kernel {machine['kernel']}, load "
          f"{machine['load_before']:.1f} before.")
    print(f"Links of {report['rate']}, encryption {report['encrypt']}; an update computes for "
          f"{report['update_ms']:g} ms; {report['updates']} updates a run.\n")
    print("Seconds for 1000 updates, and in brackets the same divided by the time on one host")
    names = ["spacy-ray", "its collectives", *(TITLES[m] for m in ours)]
    print(f"{'workers':>7} | " + " | ".join(f"{name:>21}" for name in names))
    columns = [{n: times[i]
                for n, times in PUBLISHED.items()} for i in (0, 1)] + list(ours.values())
    for n in counts:
        print(f"{n:>7} | " + " | ".join(f"{figure(c, n):>21}" for c in columns))
    print("\nScalability: workers x (time on one host) / time")
    for n in counts:
        print(f"{n:>7} | " + " | ".join(f"{scalability(c, n):>21}" for c in columns))

    print("\nTime of all CPUs together for an update, milliseconds")
    cpu = series(report, "cpu_ms")
    for n in counts:
        print(f"{n:>7} | " + " | ".join(f"{text:>21}" for text in (
            "-", "-", *(f"{times[n]:.0f}" if n in times else "-" for times in cpu.values()))))


def figure(times, n):
    if n not in times:
        return "-"
    return f"{times[n]:.1f} ({times[n] / times[1]:.2f})" if 1 in times else f"{times[n]:.1f}"


def scalability(times, n):
    return f"{n * times[1] / times[n]:.2f}" if n in times and 1 in times else "-"


def draw(report, folder):
    """runtime, ratio and scalability as .svg, and the figures as scaling.json."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "scaling.json"), "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    lines = [("spacy-ray", "#808080", {n: t[0] for n, t in PUBLISHED.items()}),
             ("its collectives", "#b0b0b0", {n: t[1] for n, t in PUBLISHED.items()})]
    lines += [(TITLES[mode], COLORS[mode], times) for mode, times in series(report).items()]
    slowest = lines[2][2] if "server" in series(report) else lines[0][2]
    plots = {
        "runtime": ("seconds for 1000 updates", lambda times, n: times[n], None),
        "ratio": (f"times as fast as {'one server' if slowest is not lines[0][2] else 'spacy-ray'}",
                  lambda times, n: slowest[n] / times[n] if n in slowest else None, "1"),
        "scalability": ("workers x (time on one host) / time",
                        lambda times, n: n * times[1] / times[n] if 1 in times else None, "x"),
    }
    for name, (label, value, ideal) in plots.items():
        drawn = [(title, color,
                  {n: value(times, n)
                   for n in sorted(times) if value(times, n) is not None})
                 for title, color, times in lines]
        with open(os.path.join(folder, f"{name}.svg"), "w", encoding="utf-8") as file:
            file.write(picture(label, ideal, [line for line in drawn if line[2]]))
        print(f"drew {os.path.join(folder, name)}.svg")


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 480, 70, 560, 20, 430


def picture(label, ideal, lines, across="workers, one on each host", marks=None):
    """An SVG file: lines of (title, color, {x: y}). Without `marks` x are numbers of workers, which
    double with each step; else they lie evenly, and `marks` are those that are named."""
    counts = marks or sorted({n for _, _, points in lines for n in points} | {1})
    most = max(y for _, _, points in lines for y in points.values())
    step = tick(most / 5)
    top = step * math.ceil(most / step)
    widest = counts[-1] if marks else math.log2(max(counts[-1], 2))

    def at(n, y):
        share = (n if marks else math.log2(n)) / widest
        height = (BOTTOM - TOP) * min(y, top) / top
        return f"{LEFT + (RIGHT - LEFT) * share:.1f},{BOTTOM - height:.1f}"

    text = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{(LEFT + RIGHT) / 2}" y="{HEIGHT - 12}" text-anchor="middle">{across}</text>',
        f'<text transform="translate(18 {(TOP + BOTTOM) / 2}) rotate(-90)" '
        f'text-anchor="middle">{label}</text>'
    ]
    for i in range(round(top / step) + 1):
        y = float(at(counts[0], i * step).split(",")[1])
        text += [f'<line x1="{LEFT}" x2="{RIGHT}" y1="{y}" y2="{y}" stroke="#ddd"/>',
                 f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{i * step:g}</text>']
    text += [
        f'<text x="{at(n, 0).split(",")[0]}" y="{BOTTOM + 18}" text-anchor="middle">{n}</text>'
        for n in counts
    ]
    if ideal:
        points = {n: n if ideal == "x" else 1 for n in counts if ideal == "1" or n <= top}
        text.append(f'<polyline fill="none" stroke="black" stroke-dasharray="6 4" points="'
                    f'{" ".join(at(n, y) for n, y in points.items())}"/>')
    for number, (title, color, points) in enumerate(lines):
        text.append(f'<polyline fill="none" stroke="{color}" stroke-width="2" points="'
                    f'{" ".join(at(n, y) for n, y in points.items())}"/>')
        text += [
            f'<circle r="3.5" fill="{color}" cx="{at(n, y).split(",")[0]}" '
            f'cy="{at(n, y).split(",")[1]}"/>'
            for n, y in points.items()
        ]
        text.append(
            f'<text x="{RIGHT + 16}" y="{TOP + 16 + 20 * number}" fill="{color}">{title}</text>')
    return "\n".join([*text, "</svg>\n"])


def tick(rough):
    """The next of 1, 2 and 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
