#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job in an image that a real podman has, made by `podman import`: its driver and its workers are
in it, and of podman no container is left. Usage: test_images.py IMAGE_PROGRAM"""
import os
import re
import shutil
import subprocess
import sys

import hosts
from crt_cluster import build_folder, source_folder

sys.path.append(os.path.join(source_folder(), "build-kubernetes"))
sys.path.append(os.path.join(source_folder(), "tests", "cli"))
IMAGE = "localhost/tiny:1"
PROGRAM = os.path.abspath(sys.argv[1])


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def write_wrapper(podman, folder):
    """podman as the node finds it, with the options of the test's own."""
    os.mkdir(folder)
    words = " ".join(podman.command[1:])
    variables = " ".join(f"{name}={podman.env[name]}"
                         for name in ("CONTAINERS_CONF", "TMPDIR", "HOME"))
    path = os.path.join(folder, "podman")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec env {variables} {shutil.which("podman")} {words} "$@"\n')
    os.chmod(path, 0o755)


class Crt:
    """The command of the build, for a cluster in the folder."""

    def __init__(self, folder, programs):
        self.env = {**os.environ, "CRT_RUN_DIR": f"{folder}/r", "CRT_STATE_DIR": f"{folder}/s",
                    "PATH": f"{programs}:{os.environ['PATH']}"}

    def run(self, *arguments, status=0):
        done = subprocess.run([os.path.join(build_folder(), "cli", "crt"), *arguments],
                              env=self.env, text=True, timeout=200, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        hosts.check(done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}")
        return done.stdout


def runs_in_the_image(crt, podman):
    environment = ("--runtime-env-json", f'{{"image_uri": "{IMAGE}"}}')
    said = crt.run("job", "submit", *environment, "--", "program", "look")
    hosts.check(f"(crt) podman gives the files of the image {IMAGE}\n" in said, said)
    for who in (r"\(look pid=.*\) task", "driver"):
        hosts.check(re.search(rf"^{who}: {images.SEEN}, ", said, re.MULTILINE), said)
    said = crt.run("job", "submit", "--runtime-env-json", '{"image_uri": "localhost/none:1"}', "--",
                   "program", status=1)
    hosts.check("the image localhost/none:1 can't be had here; podman says why" in said, said)
    hosts.check(podman.run("ps", "--all", "--quiet").split() == [], "a container is left")


def main():
    pods.own_mounts()
    folder = os.path.join(hosts.SPACE, "images")
    os.mkdir(folder)
    podman = pods.Podman(folder)
    why = podman.why_not()
    if why:
        skip(f"needs podman: {why}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    tar = os.path.join(folder, "tiny.tar")
    variables = images.make(os.path.join(folder, "files"), PROGRAM, tar)
    changes = [word for v in variables for word in ("--change", "ENV " + v)]
    podman.run("import", *changes, tar, IMAGE)
    write_wrapper(podman, os.path.join(folder, "bin"))
    crt = Crt(folder, os.path.join(folder, "bin"))
    crt.run("start", "--head", "--num-cpus", "2", "--object-store-memory", "64M")
    try:
        runs_in_the_image(crt, podman)
    finally:
        crt.run("stop")


if __name__ == "__main__":
    try:
        import images
        import pods
    except ImportError:
        skip("needs PyYAML (python3-yaml)")
    if pods.missing():
        skip(pods.missing())
    hosts.run(main)
