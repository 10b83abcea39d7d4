#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the manual pages of section 3 from the comments of the public headers: one for each group
of declarations below one comment, and for every other name of it a page that refers to that one.
Usage: functions.py VERSION FOLDER HEADER... (the folder is emptied first)"""
import os
import re
import shutil
import sys

# What a program includes and is linked with, by the header's name.
PLACES = {
    "crt_base.h": ("crt.h", "crt"),
    "crt_printable.h": ("crt_printable.h", "crt"),
    "crt.h": ("crt.h", "crt"),
    "crt_actor.h": ("crt.h", "crt"),
    "crt_cluster.h": ("crt.h", "crt"),
    "crt_cluster_view.h": ("crt.h", "crt"),
    "crt_context.h": ("crt.h", "crt"),
    "crt_dlpack.h": ("crt_dlpack.h", "crt"),
    "crt_job.h": ("crt.h", "crt"),
    "crt_kv.h": ("crt.h", "crt"),
    "crt_define.h": ("crt_define.h", "crt"),
    "crt_metrics.h": ("crt.h", "crt"),
    "crt_placement_group.h": ("crt.h", "crt"),
    "crt_program.h": ("crt.h", "crt"),
    "crt_stream.h": ("crt.h", "crt"),
    "crt_wait.h": ("crt.h", "crt"),
    "crt_watch.h": ("crt_watch.h", "crt"),
    "crt_util.h": ("crt_util.h", "crt"),
    "crt_collective.h": ("crt_collective.h", "crt"),
    "crt_ml.h": ("crt_ml.h", "crt_ml"),
    "crt_ml_gpu.h": ("crt_ml_gpu.h", "crt_ml"),
    "crt_checkpoint.h": ("crt_checkpoint.h", "crt_ml"),
    "crt_images.h": ("crt_images.h", "crt_ml"),
    "crt_configuration.h": ("crt_configuration.h", "crt_ml"),
    "crt_networks.h": ("crt_networks.h", "crt_ml"),
    "crt_ner.h": ("crt_ner.h", "crt_ml"),
    "crt_compression.h": ("crt_compression.h", "crt_ml"),
    "crt_actors.h": ("crt_actors.h", "crt_ml"),
    "crt_fit.h": ("crt_fit.h", "crt_ml"),
}
SEE_ALSO = {"crt_collective.h": "crt-collective"}


class Group:
    """Declarations below one comment: functions {name: type}, macros {name: parameters}."""

    def __init__(self, header, comment, code):
        self.header = header
        self.text = text_of(comment)
        self.notes = re.findall(r"(\w+)\([^;]*;\s*/\* (.*?) \*/", code, re.DOTALL)
        self.code = re.sub(r"/\*.*?\*/", "", code, flags=re.DOTALL)
        self.functions, self.declarations, self.macros = {}, [], {}
        for declaration in re.findall(r"^CRT_API\s+([^;{]*);", self.code, re.MULTILINE):
            found = re.match(r"(.*?)(\w+)\(", declaration, re.DOTALL)
            if found:
                self.functions[found[2]] = " ".join(found[1].split())
                self.declarations.append(" ".join(declaration.split()))
        for name, parameters in re.findall(r"^#define (crt_\w+)\(([^)]*)\)", self.code,
                                           re.MULTILINE):
            self.macros[name] = parameters

    def names(self):
        return [*self.macros, *self.functions]


def text_of(comment):
    """The lines of a comment without what makes them one."""
    lines = comment.strip()[2:-2].strip("\n").split("\n")
    return [re.sub(r"^ ?\* ?", "", lines[0] if i else lines[0].lstrip()) if not i
            else re.sub(r"^ \* ?", "", line) for i, line in enumerate(lines)]


def groups_of(path):
    """All of a header that declare a function, or a macro that is used like one."""
    with open(path, encoding="utf-8") as file:
        source = file.read()
    # A comment at the beginning of a line, or nothing, then lines without a blank one or the next.
    pattern = re.compile(r"(?:^(/\*(?:(?!\*/).)*\*/)\n)?((?:^(?!/\*)[^\n]+\n)+)",
                         re.MULTILINE | re.DOTALL)
    header = os.path.basename(path)
    groups = [Group(header, found[1] or "/**/", found[2]) for found in pattern.finditer(source)]
    return [group for group in groups if group.names()]


def macros_of(path, groups):
    """Macros that stand for a function with an array in place of its last arguments: crt_get for
    crt_get_v. They are told of on its page."""
    with open(path, encoding="utf-8") as file:
        source = file.read().split("#else /* __cplusplus */")[0]
    of = {name: group for group in groups for name in group.functions}
    for name, parameters, body in re.findall(
            r"^#define (crt_\w+)\(([^)]*)\)\s*(?:\\\n)?(.*)$", source, re.MULTILINE):
        called = re.match(r"\s*(?:CRTI_HERE\()?(crt_\w+_v)\(", body)
        if called and called[1] in of:
            group = of[called[1]]
            group.macros[name] = parameters
            group.declarations.append(f"{group.functions[called[1]]} {name}({parameters})")


# ------------------------------------------------------------------ roff

def escaped(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def bold_names(line, names):
    line = escaped(line)
    return re.sub(r"\b(" + "|".join(map(re.escape, names)) +
                  r")\b", r"\\fB\1\\fP", line) if names else line


def body(lines, names):
    """Paragraphs; what is indented is code, what begins with "NAME   text" too."""
    out, in_code = [], False
    for line in lines:
        is_code = line.startswith("    ") and line.strip() != ""
        if is_code != in_code:
            out.append(".PP\n.in +4n\n.EX" if is_code else ".EE\n.in\n.PP")
            in_code = is_code
        if is_code:
            out.append(escaped(line[4:]))
        elif line.strip():
            out.append(bold_names(line.strip(), names))
        elif out and not out[-1].endswith(".PP"):
            out.append(".PP")
    if in_code:
        out.append(".EE\n.in")
    return out


def summary(group):
    """The first sentence, or what of it is enough to tell the page from others."""
    text = " ".join(" ".join(group.text).split()).removeprefix("Collective. ")
    ends = (
        end.start() for end in re.finditer(r"(?<!e\.g)[.;:](?= |$)", text)
        if end.start() >= 20 and text.count("(", 0, end.start()) == text.count(")", 0, end.start()))
    sentence = text[:next(ends, len(text))].rstrip(".")
    is_name = sentence[:2].isupper()
    return sentence if is_name else sentence[:1].lower() + sentence[1:]


RETURNS = {
    "crt_status_t": "CRT_OK, or a negative status; \\fBcrt_error_detail\\fP(3) has the text.",
    "crt_ref_t *": "A ref. What failed is a failed ref: whoever gets it sees the error "
                   "(\\fBcrt_ref_error\\fP(3)).",
}


def returns(group):
    kinds = list(dict.fromkeys(group.functions.values()))
    told = [RETURNS[kind] for kind in kinds if kind in RETURNS]
    others = [name for name, kind in group.functions.items()
              if kind not in RETURNS and kind != "void"]
    if others:
        told.append("As described above" + (" by " + ", ".join(
            f"\\fB{name}\\fP" for name in others) if told else "") + ".")
    if not told and "void" in kinds:
        told.append("Nothing.")
    return told or ["As described above."]


def errors(group, statuses):
    """[(name, sentence)] of the statuses that the comment names."""
    named = re.findall(r"\bCRT_(ERR_\w+)", " ".join(group.text))
    return [(f"CRT_{name}", statuses[name]) for name in dict.fromkeys(named) if name in statuses]


def page(group, version, statuses):
    names = group.names()
    include, library = PLACES[group.header]
    out = [
        f'.TH {names[0]} 3 "" "crt {version}" "crt functions"', ".SH NAME",
        escaped(", ".join(names) + " - ") + escaped(summary(group)).removeprefix("\\&"),
        ".SH LIBRARY", f"{library} (\\-l{library})", ".PP", ".in +4n", ".EX",
        escaped(f"cc app.c $(pkg-config --cflags --libs {library})"), ".EE", ".in", ".SH SYNOPSIS",
        ".nf", f".B #include <{include}>", ".PP"
    ]
    for declaration in group.declarations or [f"{n}({p})" for n, p in group.macros.items()]:
        out.append(f".B {escaped(declaration)};")
    out += [".fi", ".SH DESCRIPTION", *body(group.text, names)]
    for name, note in group.notes:
        out += [".TP", f"\\fB{name}\\fP", escaped(" ".join(note.split()))]
    out += [".SH RETURN VALUE", *returns(group)]
    named = errors(group, statuses)
    if named:
        out.append(".SH ERRORS")
    for name, sentence in named:
        out += [".TP", f".B {escaped(name)}", escaped(sentence)]
    also = ["crt(7)", "crt-errors(7)"]
    if group.header in SEE_ALSO:
        also.append(SEE_ALSO[group.header] + "(7)")
    out += [".SH SEE ALSO", ", ".join(f"\\fB{escaped(a[:-3])}\\fP(7)" for a in also)]
    return "\n".join(out) + "\n"


# ------------------------------------------------------------------ all of them

def pages_of(headers, version):
    """{name: text} of all pages, and the groups that have no comment."""
    groups = [
        group for path in headers if os.path.basename(path) in PLACES for group in groups_of(path)
    ]
    for path in headers:
        if os.path.basename(path) == "crt_arguments.h":
            macros_of(path, groups)
    statuses = {}
    for path in headers:
        if os.path.basename(path) == "crt_base.h":
            with open(path, encoding="utf-8") as file:
                statuses = dict(
                    re.findall(r'^ +X\((\w+), -?\d+, +"(.*)"\)', file.read(), re.MULTILINE))
    pages = {}
    for group in groups:
        # Who is written out is a function that a program calls by this name.
        first = group.names()[0]
        pages[first] = page(group, version, statuses)
        for name in group.names()[1:]:
            pages[name] = f".so man3/{first}.3\n"
    return pages, [group for group in groups if not "".join(group.text).strip()]


def main(version, folder, *headers):
    pages, bare = pages_of(headers, version)
    if bare:
        sys.exit("no comment: " + ", ".join(name for group in bare for name in group.names()))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name, text in pages.items():
        with open(os.path.join(folder, name + ".3"), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
