#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a file includes what its folder may not use: folders are layers, includes go
downward only; when a module of a folder includes or calls one above it, or writes what another one
owns; and when files of a folder call each other in a circle of more than CIRCLE_MAX.
Usage: check_layers.py SOURCE_ROOT"""
import os
import re
import sys

from sources import finish, line_of, project_files, read

# Those of the core are the headers that stand in runtime/ itself.
CORE = sorted(name for name in os.listdir(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../runtime"))
              if name.endswith(".h"))
# Public headers, written by their name alone: the folder each one belongs to.
PUBLIC = {
    **{name: "runtime/core" for name in CORE},
    "crt_base.h": "runtime/base",
    "crt_printable.h": "runtime/base",
    "crt_collective.h": "collective",
    "crt_ml.h": "ml",
    "crt_networks.h": "ml",
    "crt_configuration.h": "ml",
    "crt_ner.h": "ml",
    "crt_images.h": "ml",
    "crt_checkpoint.h": "ml",
    "crt_ml_gpu.h": "ml",
    "crt_actors.h": "actors",
    "crt_compression.h": "actors",
    "crt_fit.h": "actors",
}
PUBLIC_PATHS = {
    f"runtime/{name}": folder
    for name, folder in PUBLIC.items() if folder in ("runtime/core", "runtime/util")
}

LIBRARY = ["runtime/base", "runtime/net", "runtime/store", "runtime/daemon", "runtime/core"]
# folder -> folders whose private headers it may include (its own is always allowed)
PRIVATE = {
    "runtime/base": [],
    "runtime/net": LIBRARY[:1],
    "runtime/store": LIBRARY[:2],
    "runtime/daemon": LIBRARY[:2],
    "runtime/core": LIBRARY[:4],
    "runtime/util": [],
    "runtime/node": LIBRARY,
    "runtime/control": LIBRARY + ["runtime/node"],
    "runtime/http": LIBRARY + ["runtime/node", "runtime/control"],
    "collective": LIBRARY,
    "ml": [],
    "actors": [],
    "cli": [],
    "examples": [],
}
# folder -> its modules (sub-folders), from below to above. What stands in the folder itself puts
# them together: it is above all, but its headers may be included by all. In the core there are only
# names of types.
MODULES = {
    "runtime/core": ["values", "process", "refs", "calls", "execution", "client"],
    "runtime/control": ["placement", "store", "autoscale"],
    "runtime/node": [
        "host", "process", "links", "watches", "leases", "objects", "actors", "logs", "jobs",
        "lifecycle", "dispatch"
    ],
}
# folder -> the variable that its state is reached by, and which module writes which part of it
STATE = {
    "runtime/core": ("core", {
        "link": "process",
        "timer": "process",
        "printed": "process",
        "remotes": "process",
        "blocking": "process",
        "frees": "process",
        "refs": "refs",
        "calls": "calls",
        "execution": "execution",
        "waits": "client",
    }),
    "runtime/node": ("node", {
        "processes": "process",
        "memory": "process",
        "locals": "links",
        "head": "links",
        "peers": "links",
        "watches": "watches",
        "leases": "leases",
        "pulls": "objects",
        "owners": "objects",
        "actors": "actors",
        "fence": "actors",
        "logs": "logs",
        "jobs": "jobs",
        "submissions": "jobs",
        "lifecycle": "lifecycle",
        "drain": "lifecycle",
        "registration": "dispatch",
        "questions": "dispatch",
    }),
}
# folder -> public headers it may include, where that is more than the folders above tell
PUBLIC_OF = {
    "ml": ["crt_base.h"],
    "runtime/util": [*CORE, "crt_base.h", "crt_printable.h"],
    "actors": [
        name for name, folder in PUBLIC.items() if folder != "actors" and name != "crt_tools.h"
    ],
    "cli": list(PUBLIC),
    "examples": list(PUBLIC),
}
# Libraries of which only these folders know.
FOREIGN = {
    "hiredis/": ["runtime/control"],
    "libwebsockets.h": ["runtime/http"],
    "archive.h": ["runtime/node", "cli"],
    "cblas.h": ["ml", "actors"],
    "lz4.h": ["actors"],
    "elfutils/": ["runtime/node"],
    "msgpack.h": LIBRARY + ["runtime/node", "runtime/control"],
}
GENERATED = {"crt_config.h", "crt_version.h"}
# Inline functions without a symbol of the library, for any folder: everything that people write or
# type is read by them, numbers of 16 bits are rounded by them, answers of the head and the clock
# are read.
INLINE = {
    "runtime/base/clock.h",
    "runtime/base/half.h",
    "runtime/base/json_find.h",
    "runtime/base/plain_text.h",
    "runtime/base/whole_options.h",
}
# What is compiled into several libraries and programs: folders of them that include it.
IN_BOTH = {
    "runtime/base/copy_struct.h": ["ml", "actors"],
    "runtime/base/late_library.h": ["cli"],
    "runtime/base/limit.h": ["cli"],
    "runtime/base/path_search.h": ["cli"],
    "runtime/base/rundir.h": ["cli"],
    "runtime/base/secret_file.h": ["cli"],
    "runtime/base/spawn_attributes.h": ["cli"],
    "runtime/base/spelling.h": ["cli"],
    "runtime/base/variables_list.h": ["cli"],
    "runtime/daemon/option.h": ["cli"],
    "runtime/daemon/option_list.h": ["cli"],
    "runtime/daemon/private_start.h": ["cli"],
    "runtime/daemon/ready.h": ["cli"],
    "runtime/daemon/starter.h": ["cli"],
}
CIRCLE_MAX = 2  # files that call each other
# folder -> the file that sets handlers. One that is set to a function of the same module is a call.
HANDLERS_SET = {"runtime/core": "runtime/core/client/parts.c",
                "runtime/node": "runtime/node/parts.c"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def folder_of(path):
    path = PUBLIC_PATHS.get(path, path)
    return next((f for f in PRIVATE if path == f or path.startswith(f + "/")), None)


def may_use_public(folder, header):
    if folder in PUBLIC_OF:
        return header in PUBLIC_OF[folder] or PUBLIC[header] == folder
    return PUBLIC[header] == folder or PUBLIC[header] in PRIVATE[folder]


def is_allowed(root, path, folder, quote, target):
    """Returns None, or why the include is wrong."""
    for prefix, folders in FOREIGN.items():
        if target.startswith(prefix) and folder not in folders:
            return f"only {', '.join(folders)} may use {target}"
    if target in GENERATED or os.path.basename(target) in PUBLIC:
        header = os.path.basename(target)
        if target in GENERATED or may_use_public(folder, header):
            return None
        return f"{folder}/ may not use {header}"
    if quote == "<":
        return None
    if not os.path.exists(os.path.join(root, target)):
        return (None if folder == "examples" else
                f"there is no {target}; write the path from the root")
    if target in INLINE or folder in IN_BOTH.get(target, []):
        return None
    other = folder_of(target)
    if is_above(path, target) and ("/" in target[len(folder) + 1:] or folder == "runtime/core" and
                                   target != "runtime/core/types.h"):
        return f"{target} is in a module above"
    if other == folder or other in PRIVATE[folder]:
        return None
    return f"{folder}/ may not use {target}"


COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"')
DEFINED = re.compile(r"^(?!static|typedef)\w[\w \t*]*?\b(crti?_\w+)\([^;{]*?\)\n\{", re.MULTILINE)
NAME = re.compile(r"\bcrti?_\w+")
HANDLER = re.compile(r"(?:\.|->)(\w+)\s*=\s*(crti_\w+)\s*[,;}]")
CALLED = re.compile(r"(?:\.|->)(\w+)\(")


def calls_of(root, folder):
    """Of each file of the folder: those whose functions it calls, by handlers within a module,
    too."""
    texts = {
        path: TEXT.sub("", COMMENT.sub("", read(root, path)))
        for path in project_files(root, (".c", )) if folder_of(path) == folder
    }
    owner = {name: path for path, text in texts.items() for name in DEFINED.findall(text)}
    handlers = {
        name: owner[function]
        for name, function in HANDLER.findall(texts.get(HANDLERS_SET.get(folder), ""))
        if function in owner
    }
    return {
        path: ({owner[name] for name in NAME.findall(text) if name in owner} |
               {handlers[name] for name in CALLED.findall(text)
                if name in handlers and module_of(handlers[name]) == module_of(path)}) - {path}
        for path, text in texts.items()
    }


def reached_from(calls, start):
    seen, open_ends = set(), [start]
    while open_ends:
        new = calls[open_ends.pop()] - seen
        seen |= new
        open_ends += new
    return seen


def circles_of(calls):
    reached = {path: reached_from(calls, path) for path in calls}
    return {frozenset(b for b in reached[a] if a in reached[b]) for a in calls}


def check_circles(root):
    for folder in PRIVATE:
        for circle in circles_of(calls_of(root, folder)):
            if len(circle) > CIRCLE_MAX:
                yield (f"{folder}: {len(circle)} files call each other in a circle, "
                       f"at most {CIRCLE_MAX} may: {', '.join(sorted(circle))}")


def module_of(path):
    """The folder that has modules, and the rank of the file's one in it."""
    for folder, modules in MODULES.items():
        if path.startswith(folder + "/"):
            name = path[len(folder) + 1:].split("/")[0]
            return folder, modules.index(name) if name in modules else len(modules)
    return None, 0


def is_above(path, other):
    folder, rank = module_of(path)
    return folder is not None and module_of(other)[0] == folder and module_of(other)[1] > rank


def check_modules(root):
    for folder in MODULES:
        for path, called in calls_of(root, folder).items():
            for other in sorted(called):
                if is_above(path, other):
                    yield f"{path}: calls {other}, which is in a module above"


def check_state(root):
    for folder, (name, owners) in STATE.items():
        written = re.compile(
            rf"\b{name}->(\w+)(?:\.|->)[\w.]+\s*(?:=[^=]|[-+|&]=|\+\+|--)"
            rf"|(?:\+\+|--){name}->(\w+)(?:\.|->)")
        for path in project_files(root, (".c",)):
            if not path.startswith(folder + "/"):
                continue
            for match in written.finditer(COMMENT.sub("", read(root, path))):
                owner = owners.get(match[1] or match[2])
                if owner and not path.startswith(f"{folder}/{owner}/"):
                    yield f"{path}: writes {match[0].strip()}, which is {owner}'s"


def main(root):
    problems = list(check_circles(root)) + list(check_modules(root)) + list(check_state(root))
    for path in project_files(root, (".c", ".h", ".cc")):
        folder = folder_of(path)
        if folder is None:
            if not path.startswith("tests/"):
                problems.append(f"{path}: belongs to no layer")
            continue
        text = read(root, path)
        for match in INCLUDE.finditer(text):
            why = is_allowed(root, path, folder, match[1], match[2])
            if why:
                problems.append(f"{path}:{line_of(text, match.start())}: {why}")
    finish(problems, "layers")


if __name__ == "__main__":
    main(sys.argv[1])
