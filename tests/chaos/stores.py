# SPDX-License-Identifier: Apache-2.0
"""Names the objects that are left in the stores of living nodes, and what the logs say of their
owners."""
import os
import subprocess

MOST = 12  # objects, and lines of logs for each owner


def objects_of(build, process):
    """One line for each object in the store of a node daemon (store_objects.c)."""
    tool = os.path.join(build, "tests", "chaos", "store_objects")
    files = f"/proc/{process.pid}/fd"
    for number in sorted(os.listdir(files), key=int):
        path = os.path.join(files, number)
        if not os.readlink(path).endswith(" (deleted)"):  # the arena has no name
            continue
        done = subprocess.run([tool, path], capture_output=True, text=True, check=False)
        if done.returncode != 2:
            return done.stdout.splitlines() + done.stderr.splitlines()
    return ["no store"]


def words_about(places, owner):
    """Lines of any log that name a process; logs write the first 8 digits."""
    said = []
    for name, host in places.hosts.items():
        state = host.path(".local/state/crt" if places.has_links else "state")
        for where, _, files in os.walk(state):
            for file in files:
                if not file.endswith(".log"):
                    continue
                with open(os.path.join(where, file), encoding="utf-8", errors="replace") as log:
                    said += [
                        f"{name}/{os.path.basename(where)}/{file}: {line.strip()}" for line in log
                        if owner[:8] in line
                    ]
    return said[:MOST]


def describe(places, build):
    """What is left, in lines."""
    said = []
    for process in places.of_kind("node"):
        objects = objects_of(build, process)
        if not objects:
            continue
        said.append(f"store of {process}: {len(objects)} objects")
        said += ["  " + line for line in objects[:MOST]]
        for owner in sorted({line.split("/", 1)[0] for line in objects[:MOST] if "/" in line}):
            said += [f"    {owner[:8]}: {line}" for line in words_about(places, owner)]
    return said
