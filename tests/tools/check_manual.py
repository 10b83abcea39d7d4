#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless the manual says what the program says: the options of each command in crt.1 are
those of its --help, the environment variables too, crt-errors.7 has the statuses of crt_base.h,
crt-limits.7 has what `crt config --limits` says, and every public function has a page in section 3.
Usage: check_manual.py CRT SOURCE_ROOT"""
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile

from sources import finish, project_files, read

ANYWHERE = {"--help"}  # said once in the manual, for every command


def help_of(crt, *words):
    return subprocess.run([crt, *words, "--help"], capture_output=True, text=True,
                          check=True).stdout


def listed_commands(crt, *words):
    """Names under "Commands:" in a --help, () for a command that has none."""
    match = re.search(r"^Commands:\n((?:  .*\n)+)", help_of(crt, *words), re.MULTILINE)
    return re.findall(r"^  ([a-z-]+) ", match[1], re.MULTILINE) if match else []


def options_of_help(text):
    """{"--name": "ARGUMENT"} of the lines like "  -a, --address HOST:PORT   text"."""
    found = re.findall(r"^ {2,6}(?:-\w, )?(--[\w-]+)(?: ([^\s ]+))?(?:  |\n| |$)", text,
                       re.MULTILINE)
    arguments = {name: argument for name, argument in found}
    # A long line has one space before its text: an argument is written in capitals or on|off.
    return {n: a if re.fullmatch(r"[A-Z][A-Z:=,|.-]*|[a-z-]+\|[a-z-]+|K=V,\.\.\.", a) else ""
            for n, a in arguments.items()}


def options_of_manual(section):
    found = re.findall(r"^(?:\*-\w\*, )?\*(--[\w-]+)\*(?: _(.+)_)?$", section, re.MULTILINE)
    return dict(found)


def sections_of(text):
    parts = re.split(r"^# (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def compare(problems, where, said, written):
    for name in sorted(said.keys() - written.keys() - ANYWHERE):
        problems.append(f"crt.1, {where}: {name} is missing")
    for name in sorted(written.keys() - said.keys()):
        problems.append(f"crt.1, {where}: there is no {name}")
    for name in said.keys() & written.keys():
        if said[name] != written[name]:
            problems.append(
                f"crt.1, {where}: {name} takes \"{said[name]}\", not \"{written[name]}\"")


def check_commands(problems, crt, manual):
    families = ("job", "data")
    commands = [(c,) for c in listed_commands(crt) if c not in families]
    commands += [(family, c) for family in families for c in listed_commands(crt, family)]
    for words in commands:
        where = " ".join(words).upper()
        if where not in manual:
            problems.append(f"crt.1: no section {where}")
            continue
        compare(problems, where, options_of_help(help_of(crt, *words)),
                options_of_manual(manual[where]))
    said = dict.fromkeys(re.findall(r"^  ([A-Z]+_\w+) ", help_of(crt), re.MULTILINE), "")
    titles = re.findall(r"^([A-Z]+_\w+(?:, CRT_\w+)*)$", manual["ENVIRONMENT"], re.MULTILINE)
    written = dict.fromkeys((name for title in titles for name in title.split(", ")), "")
    compare(problems, "ENVIRONMENT", said, written)


def check_limits(problems, crt, root):
    """crt-limits.7 is made from the list; here the command says what it has compiled."""
    spec = importlib.util.spec_from_file_location("limits",
                                                  os.path.join(root, "docs/man/limits.py"))
    limits = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(limits)
    written, orders = limits.read_list(os.path.join(root, "runtime/base/limit_list.h"))
    environment = {n: v for n, v in os.environ.items() if not n.startswith("CRT_")}
    said = subprocess.run([crt, "config", "--limits"], capture_output=True, text=True, check=True,
                          env=environment | {"CRT_CONFIG": ""}).stdout
    rows = [re.split(r"\s{2,}", row.strip()) for row in said.splitlines()[1:]]
    for name, _, _, default, least, most, meaning in written:
        row = next((r for r in rows if r[0] == name), None)
        if row is None or row[1:4] != [default, "default", f"{least} to {most}"] or \
                row[-1] != meaning:
            problems.append(f"crt-limits.7: {name} is {row} in crt config --limits")
    listed = len(re.findall(r"^ *L\(\w+, [A-Z]+, [A-Z]+,", read(root, "runtime/base/limit_list.h"),
                            re.MULTILINE))
    if not len(rows) == len(written) == listed or not orders:
        problems.append(f"crt-limits.7: {len(written)} limits of {len(rows)}")


def check_statuses(problems, header, manual):
    said = re.findall(r"^ +X\((\w+), (-?\d+), +\"(.*)\"\)", header, re.MULTILINE)
    written = re.findall(r"^\*CRT_(\w+)\* \((-?\d+)\): (.*)$", manual, re.MULTILINE)
    problems += [f"crt-errors.7: no line of CRT_{n} ({v}): {t}" for n, v, t in said
                 if (n, v, t) not in written]
    problems += [f"crt-errors.7: no such status: CRT_{n} ({v}): {t}" for n, v, t in written
                 if (n, v, t) not in said]
    if not said:
        problems.append("crt_base.h: no status found")


# ------------------------------------------------------------------ section 3

def headers_of_project(root):
    """Not those that tests keep of earlier versions."""
    return [path for path in project_files(root, (".h",)) if not path.startswith("tests/")]


def sections_of_page(pages, name):
    """{title: text} of the page that `man NAME` shows, {} when there is none."""
    text = pages.get(name, "")
    other = re.match(r"\.so man3/(\w+)\.3$", text.strip())
    parts = re.split(r"^\.SH (.+)\n",
                     pages.get(other[1], "") if other else text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def plain(roff):
    return " ".join(re.sub(r"\\f.|^\.\w+ ?|\\&", "", roff.replace("\\-", "-").replace("\\e", "\\"),
                           flags=re.MULTILINE).split())


def check_function(problems, pages, name, declaration, comment):
    sections = {title: plain(text) for title, text in sections_of_page(pages, name).items()}
    if not sections:
        problems.append(f"section 3: no page {name}")
        return
    for title in ("NAME", "SYNOPSIS", "DESCRIPTION", "RETURN VALUE"):
        if not sections.get(title):
            problems.append(f"{name}.3: nothing under {title}")
    if not re.search(rf"\b{name}\b.* - \S", sections.get("NAME", "")):
        problems.append(f"{name}.3: its NAME does not name it, or not what it does")
    if declaration not in sections.get("SYNOPSIS", ""):
        problems.append(f"{name}.3: its SYNOPSIS is not: {declaration}")
    for status in set(re.findall(r"CRT_ERR_\w+", comment)):
        if f"{status} " not in sections.get("ERRORS", ""):
            problems.append(f"{name}.3: {status} is not among its ERRORS")
    for word in re.sub(r"[^\w\s]", " ", comment).split():
        if word not in sections.get("DESCRIPTION", ""):
            problems.append(f"{name}.3: \"{word}\" of the header is not in its DESCRIPTION")
            break


def comment_above(text, position):
    """Of a declaration: what stands in front of it, with no line left free."""
    above = text[:position].split("\n\n")[-1]
    comments = re.findall(r"^/\*(.*?)\*/", above, re.DOTALL | re.MULTILINE)
    return re.sub(r"^ \* ?", "", comments[-1], flags=re.MULTILINE) if comments else ""


def check_functions(problems, root, pages):
    count = 0
    for path in headers_of_project(root):
        if path == "runtime/crt_tools.h":  # not installed
            continue
        text = read(root, path).replace("\n *\n", "\n * \n")
        for found in re.finditer(r"^CRT_API\s+([^;{]*?\b(\w+)\([^;{]*\));?", text, re.MULTILINE):
            declaration = " ".join(re.sub(r"/\*.*?\*/", "", found[1], flags=re.DOTALL).split())
            comment = comment_above(text, found.start())
            if not comment:
                problems.append(f"{path}: {found[2]} has no comment")
            check_function(problems, pages, found[2], declaration, comment)
            count += 1
        if os.path.basename(path) == "crt_arguments.h":
            for name in re.findall(r"^#define (crt_\w+)\(", text, re.MULTILINE):
                check_function(problems, pages, name, f"{name}(", "")
    if count < 100:
        problems.append(f"only {count} public functions were found")


def check_roff(problems, pages):
    """As groff reads them."""
    with tempfile.TemporaryDirectory(prefix="crt-man-") as folder:
        os.mkdir(os.path.join(folder, "man3"))
        paths = []
        for name, text in pages.items():
            if not text.startswith(".so "):
                paths.append(os.path.join(folder, "man3", name + ".3"))
                with open(paths[-1], "w", encoding="utf-8") as file:
                    file.write(text)
        said = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", *paths], cwd=folder,
                              capture_output=True, text=True, check=False)
        problems += said.stderr.splitlines()[:10]


def check_section_3(problems, root):
    spec = importlib.util.spec_from_file_location("functions",
                                                  os.path.join(root, "docs/man/functions.py"))
    functions = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(functions)
    headers = [os.path.join(root, path) for path in headers_of_project(root)
               if os.path.basename(path) in (*functions.PLACES, "crt_arguments.h")]
    pages, bare = functions.pages_of(headers, "0")
    problems += [f"{group.header}: no comment above {group.names()[0]}" for group in bare]
    check_functions(problems, root, pages)
    if shutil.which("groff"):
        check_roff(problems, pages)


def main(crt, root):
    problems = []
    check_commands(problems, crt, sections_of(read(root, "docs/man/crt.1.scd")))
    check_statuses(problems, read(root, "runtime/base/crt_base.h"),
                   read(root, "docs/man/crt-errors.7.scd"))
    check_limits(problems, crt, root)
    check_section_3(problems, root)
    finish(problems, "manual")


if __name__ == "__main__":
    main(*sys.argv[1:])
