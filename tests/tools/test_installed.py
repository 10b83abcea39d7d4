#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_installed.py MESON BUILD CC [TEST...]

Runs tests on a machine where another crt is installed, which ends every process that uses a part of
it: its libraries are in the loader's cache, its command and its daemons in their places, its
headers, manual pages and the files by which pkg-config and CMake find it. Without TEST the tests
that could fall back to what is installed; "all": all of them. The installation is seen in a mount
namespace only.
"""
import os
import subprocess
import sys
import tempfile

MESON, BUILD, CC, *TESTS = sys.argv[1:]
INSIDE = "CRT_TEST_INSTALLED"
PREFIX = "/usr/local"
WORDS = "the installed crt was used"
# A library that is taken away, one outside the tree, headers, pkg-config, CMake, man; programs and
# jobs elsewhere.
SOME = [
    "cluster/missing_library", "an installation serves a program outside",
    "libraries export and link what they should", "public headers compile alone", "tools/cmake",
    "core/which_cluster", "examples/hello_task", "cli/jobs"
]
TRAP = f"""
#include <unistd.h>
__attribute__((constructor)) static void trap(void)
{{
    _exit(write(2, "{WORDS}\\n", {len(WORDS) + 1}) > 0 ? 99 : 98);
}}
"""
FILES = {
    "include/crt-0/{}": ("#error " + WORDS, ["crt.h", "crt_base.h", "crt_ml.h", "crt_actors.h"]),
    "share/man/man3/{}.3": (WORDS, ["crt_get", "crt_get_v", "crt_model_new"]),
    "lib/pkgconfig/{}.pc": (f"Name: {{0}}\nDescription: {WORDS}\nVersion: 0.2.0\nLibs: -l{{0}}\n",
                            ["crt", "crt_ml"]),
    "lib/cmake/crt/{}.cmake": (f'message(FATAL_ERROR "{WORDS}")', ["crtConfig"]),
}
PROGRAMS = ["bin/crt"
            ] + [f"libexec/crt/crt-{name}" for name in ("head", "node", "http", "unpack", "stack")]


def write(folder, path, text, mode=0o644):
    os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
    with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(os.path.join(folder, path), mode)


def make_trap(folder):
    for pattern, (text, names) in FILES.items():
        for name in names:
            write(folder, pattern.format(name), text.replace("{0}", name) + "\n")
    for path in PROGRAMS:
        write(folder, path, f"#!/bin/sh\necho {WORDS} >&2\nexit 99\n", 0o755)
    write(folder, "trap.c", TRAP)
    for name, version in (("crt", "0"), ("crt_ml", "0.2")):
        subprocess.run([
            *CC.split(), "-shared", "-fPIC", f"-Wl,-soname,lib{name}.so.{version}", "-o",
            f"{folder}/lib/lib{name}.so.{version}", f"{folder}/trap.c"
        ], check=True)
        os.symlink(f"lib{name}.so.{version}", f"{folder}/lib/lib{name}.so")


def install(folder):
    """What is in PREFIX stays, below it; the loader learns of the libraries."""
    trap = os.path.join(folder, "trap")
    make_trap(trap)
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={trap}:{PREFIX}", PREFIX],
                   check=True)
    cache = os.path.join(folder, "ld.so.cache")
    write(folder, "ld.so.conf", f"{PREFIX}/lib\ninclude /etc/ld.so.conf\n")
    subprocess.run(["/sbin/ldconfig", "-f",
                    os.path.join(folder, "ld.so.conf"), "-C", cache], check=True)
    subprocess.run(["mount", "--bind", cache, "/etc/ld.so.cache"], check=True)
    listed = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    assert f"{PREFIX}/lib/libcrt_ml.so.0.2" in listed, listed
    assert subprocess.run(["crt"], check=False, stderr=subprocess.DEVNULL,
                          env={"PATH": f"{PREFIX}/bin"}).returncode == 99


def main():
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        os.execvp("unshare", ["unshare", *user, "--mount", sys.executable, "-B", *sys.argv])
    with tempfile.TemporaryDirectory(prefix="crt-installed-") as folder:
        install(folder)
        names = [] if TESTS == ["all"] else TESTS or SOME
        done = subprocess.run(
            [MESON, "test", "-C", BUILD, "--no-rebuild", "--logbase", "installedlog", *names],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        with open(f"{BUILD}/meson-logs/installedlog.txt", encoding="utf-8",
                  errors="replace") as file:
            log = file.read()
        subprocess.run(["umount", "/etc/ld.so.cache", PREFIX], check=True)
    assert done.returncode == 0, done.stdout
    assert WORDS not in log, log
    print(done.stdout[-300:])


if __name__ == "__main__":
    main()
