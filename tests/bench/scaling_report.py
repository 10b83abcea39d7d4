# SPDX-License-Identifier: Apache-2.0
"""Table and plots of the scaling benchmark."""
import json
import os
import shutil
import subprocess

# Seconds for 1000 updates, workers on one host each: spacy-ray, and its fork with collectives
# (github.com/MccRee177/spacy_ray_nccl, README).
PUBLISHED = {1: (137.5, 116.7), 2: (354.1, 171.1), 4: (523.9, 179.6), 8: (710.1, 205.8),
             16: (1296.1, 248.3)}
TITLES = {"server": "one server", "sharded": "sharded servers", "blocking": "allreduce, blocking",
          "overlapped": "allreduce, overlapped"}
COLORS = {"server": "#b03a2e", "sharded": "#ca6f1e", "blocking": "#2471a3", "overlapped": "#1e8449"}


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
    columns = [{n: times[i] for n, times in PUBLISHED.items()} for i in (0, 1)] + list(ours.values())
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
    """runtime, ratio and scalability, each .svg and .png, and the figures as scaling.json."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "scaling.json"), "w", encoding="utf-8") as file:
        json.dump(report, file, indent=1)
    if not shutil.which("gnuplot"):
        print("no plots: gnuplot is not installed (./setup.sh --with-plots)")
        return
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
        for kind, terminal in (("svg", "svg size 720,480 font 'sans,12'"),
                               ("png", "pngcairo size 1080,720 font 'sans,14'")):
            path = os.path.join(folder, f"{name}.{kind}")
            subprocess.run(["gnuplot", "-"], input=script(path, terminal, label, value, ideal, lines),
                           text=True, check=True)
            print(f"drew {path}")


def script(path, terminal, label, value, ideal, lines):
    text = [f"set terminal {terminal}", f"set output '{path}'", "set logscale x 2",
            "set xlabel 'workers, one on each host'", f"set ylabel '{label}'", "set yrange [0:]",
            "set key top left", "set grid"]
    drawn = [f"{ideal} with lines dashtype 2 lc rgb '#000000' title 'ideal'"] if ideal == "x" else []
    drawn += [f"{ideal} with lines dashtype 2 lc rgb '#000000' notitle"] if ideal == "1" else []
    for number, (title, color, times) in enumerate(lines):
        points = [(n, value(times, n)) for n in sorted(times)]
        text.append(f"$d{number} << E")
        text += [f"{n} {y}" for n, y in points if y is not None]
        text.append("E")
        if any(y is not None for _, y in points):
            drawn.append(f"$d{number} with linespoints pt 7 lw 2 lc rgb '{color}' title '{title}'")
    text.append("plot [1:16] " + ", ".join(drawn))
    return "\n".join(text) + "\n"
