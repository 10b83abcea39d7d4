#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless each public header compiles alone, and twice, as C11 and as C++17, with warnings
as errors, so does a program in C++17 and C++20, and one argument too many is told in one sentence.
Headers in .hpp are compiled as C++ only; with CXX "none" nothing is.
Usage: check_headers.py CC CXX PROGRAM HEADER... (paths; all their folders are searched)"""
import os
import re
import shutil
import subprocess
import sys

from sources import finish

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
# Only the common prefix of the dialects: what a user's compiler line may look like.
DIALECTS = [("c11", ["-xc", "-std=c11"]), ("c++17", ["-xc++", "-std=c++17"])]


# 64 is the most that is counted.
TOO_MANY = "at most 16 arguments: "
CALLS = ["crt_ref_t *r = crt_submit(task, NULL{values}); crt_ref_drop(&r);",
         "crt_ref_t *r = crt_call(actor, method{values}); crt_ref_drop(&r);",
         "crt_tell(actor, method{values});",
         "int x = 0; crt_args(call{outs}); (void)x;"]


def check_argument_counts(problems, compiler, include):
    for call in CALLS:
        for count in (0, 16, 17, 40, 63):
            body = call.format(values=", 1" * count, outs=", &x" * count)
            program = ("#include <crt.h>\nvoid f(crt_call_t *call, const crt_task_t *task, "
                       "crt_actor_t *actor, const crt_method_t *method);\n"
                       "void f(crt_call_t *call, const crt_task_t *task, "
                       "crt_actor_t *actor, const crt_method_t *method)\n"
                       f"{{ (void)call; (void)task; (void)actor; (void)method; {body} }}\n")
            result = subprocess.run(
                [*compiler.split(), "-xc", "-std=c11", *WARNINGS, *include, "-fsyntax-only", "-"],
                input=program, capture_output=True, text=True, check=False)
            errors = re.findall(r"error: (.*)", result.stderr)
            if count <= 16 and errors:
                problems.append(f"{compiler}: {count} arguments: {body}\n{result.stderr}")
            if count > 16 and (len(errors) != 1 or TOO_MANY not in errors[0]):
                problems.append(f"{compiler}: {count} arguments are not one sentence: {body}\n"
                                f"{result.stderr}")


def main(arguments):
    compilers, program_in_cxx, headers = arguments[:2], arguments[2], arguments[3:]
    folders = sorted({os.path.dirname(os.path.abspath(h)) for h in headers})
    include = [f"-I{folder}" for folder in folders]
    problems = []
    for header in headers:
        name = os.path.basename(header)
        program = f"#include <{name}>\n#include <{name}>\nint main(void) {{ return 0; }}\n"
        for compiler, (dialect, flags) in zip(compilers, DIALECTS):
            if compiler == "none" or (name.endswith(".hpp") and dialect == "c11"):
                continue
            result = subprocess.run(
                [*compiler.split(), *flags, *WARNINGS, *include, "-fsyntax-only", "-"],
                input=program, capture_output=True, text=True, check=False)
            if result.returncode != 0:
                problems.append(f"{name} alone, {dialect}:\n{result.stderr}")
    for compiler in {compilers[1], *filter(shutil.which, ("g++", "clang++"))} - {"none"}:
        for dialect in ("c++17", "c++20"):
            result = subprocess.run(
                [*compiler.split(), f"-std={dialect}", *WARNINGS, *include, "-fsyntax-only",
                 program_in_cxx], capture_output=True, text=True, check=False)
            if result.returncode != 0:
                problems.append(f"{program_in_cxx}, {compiler}, {dialect}:\n{result.stderr}")
    for compiler in {compilers[0], *filter(shutil.which, ("gcc", "clang"))}:
        check_argument_counts(problems, compiler, include)
    if not headers:
        problems.append("no headers given")
    finish(problems, "public headers")


if __name__ == "__main__":
    main(sys.argv[1:])
