#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Installs into a temporary folder, checks that everything is in its place, that the command finds
its library there by itself, and builds and runs a program outside the tree with `cc app.c
$(pkg-config --cflags --libs crt)`.
Usage: check_install.py BUILD_ROOT APP_C CC SANITIZERS"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from sources import finish

EXPECTED = [
    "include/crt-0/crt.h",
    "include/crt-0/crt_version.h",
    "include/crt-0/crt_base.h",
    "include/crt-0/crt_arguments.h",
    "include/crt-0/crt_actor.h",
    "include/crt-0/crt_cluster.h",
    "include/crt-0/crt_printable.h",
    "include/crt-0/crt_metrics.h",
    "include/crt-0/crt_options.h",
    "include/crt-0/crt_cluster_view.h",
    "include/crt-0/crt_context.h",
    "include/crt-0/crt_dlpack.h",
    "include/crt-0/crt_job.h",
    "include/crt-0/crt_kv.h",
    "include/crt-0/crt_placement_group.h",
    "include/crt-0/crt_define.h",
    "include/crt-0/crt_program.h",
    "include/crt-0/crt_stream.h",
    "include/crt-0/crt_util.h",
    "include/crt-0/crt_wait.h",
    "include/crt-0/crt_watch.h",
    "include/crt-0/crt.hpp",
    "include/crt-0/crt_values.hpp",
    "include/crt-0/crt_ml.h",
    "include/crt-0/crt_images.h",
    "include/crt-0/crt_actors.h",
    "bin/crt",
    "libexec/crt/crt-head",
    "libexec/crt/crt-node",
    "lib/libcrt.so",
    "lib/libcrt_ml.so",
    "lib/pkgconfig/crt.pc",
    "lib/pkgconfig/crt_ml.pc",
]


def run(problems, *command, **options):
    """Output of the command; a failure becomes a problem and gives ""."""
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if result.returncode != 0:
        problems.append(f"{' '.join(command)}: exit {result.returncode}\n"
                        f"{result.stdout}{result.stderr}")
        return ""
    return result.stdout


def installed_files(prefix):
    """Paths below the prefix; lib/TRIPLET/ and lib64/ are written lib/."""
    found = set()
    for folder, _, names in os.walk(prefix):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), prefix)
            found.add(re.sub(r"^lib(/\w+-linux-gnu\w*|64)/", "lib/", path))
    return found


def build_and_run(problems, folder, prefix, app, compiler, sanitizers):
    libraries = next(os.path.dirname(os.path.join(where, "libcrt.so"))
                     for where, _, names in os.walk(prefix) if "libcrt.so" in names)
    environment = dict(os.environ, PKG_CONFIG_PATH=os.path.join(libraries, "pkgconfig"),
                       LD_LIBRARY_PATH=libraries)
    flags = run(problems, "pkg-config", f"--define-variable=prefix={prefix}", "--cflags", "--libs",
                "crt", env=environment).split()
    # The program is built as the library was, or the sanitizer's own library comes too late.
    if sanitizers != "none":
        flags.append(f"-fsanitize={sanitizers}")
    source = shutil.copy(app, os.path.join(folder, "app.c"))
    program = os.path.join(folder, "app")
    run(problems, *compiler.split(), "-o", program, source, *flags, cwd=folder, env=environment)
    if not problems:
        said = run(problems, program, cwd=folder, env=environment)
        if "24 bytes, invalid argument: asked for" not in said:
            problems.append(f"the program said: {said}")


def exported(problems, prefix, library):
    path = next(
        os.path.join(where, f"lib{library}.so") for where, _, names in os.walk(prefix)
        if f"lib{library}.so" in names)
    return {
        line.split()[-1].split("@")[0]
        for line in run(problems, "nm", "-D", "--defined-only", path).splitlines()
    }


def check_link_lines(problems, prefix):
    """The line on each page links what the page is about."""
    symbols = {library: exported(problems, prefix, library) for library in ("crt", "crt_ml")}
    folder = os.path.join(prefix, "share/man/man3")
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read().replace("\\-", "-")
        if text.startswith(".so "):
            continue
        said = re.search(r"cc app\.c \$\(pkg-config --cflags --libs (\w+)\)", text)
        names = re.search(r"(?m)^(crt\w+(?:, crt\w+)*) - ", text)
        if not said or not names:
            problems.append(f"{name}: no line that compiles and links, or no names")
            continue
        for function in names[1].split(", "):
            if function in symbols["crt"] | symbols["crt_ml"] and function not in symbols[said[1]]:
                problems.append(f"{name}: {function} is not in {said[1]}")


def check_manual(problems, prefix, there):
    """The pages of section 3, where the build makes a manual at all: read by name."""
    if not any(path.startswith("share/man/") for path in there):
        return
    for name in ("crt_get", "crt_get_v", "crt_group_allreduce", "crt_model_new",
                 "crt_parameter_server_new"):
        if f"share/man/man3/{name}.3" not in there:
            problems.append(f"not installed: share/man/man3/{name}.3")
        elif shutil.which("man"):
            said = run(problems, "man", "-M", os.path.join(prefix, "share/man"), "3", name,
                       env=dict(os.environ, MANPAGER="cat", LC_ALL="C.UTF-8"))
            if name not in said:
                problems.append(f"man {name} does not show it: {said[:200]}")
    check_link_lines(problems, prefix)


def main(build, app, compiler, sanitizers):
    problems = []
    with tempfile.TemporaryDirectory(prefix="crt-install-") as folder:
        staged = os.path.join(folder, "stage")
        run(problems, "meson", "install", "-C", build, "--no-rebuild", "--destdir", staged)
        bottom = next((where for where, folders, _ in os.walk(staged) if "include" in folders),
                      None)
        if bottom is None:
            finish(problems + ["nothing was installed"], "installation")
        there = installed_files(bottom)
        problems += [f"not installed: {path}" for path in EXPECTED if path not in there]
        check_manual(problems, bottom, there)
        if not problems:
            bare = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
            run(problems, os.path.join(bottom, "bin", "crt"), "version", env=bare)
        if not problems:
            build_and_run(problems, folder, bottom, app, compiler, sanitizers)
    finish(problems, "installation")


if __name__ == "__main__":
    main(*sys.argv[1:])
