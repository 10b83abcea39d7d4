# SPDX-License-Identifier: Apache-2.0
"""The functions of crt for Python, by cffi: `C` is libcrt, `ffi` knows the types of <crt.h> and
<crt_dlpack.h>.

What is declared is read from the installed headers, by the C compiler's preprocessor, so that it
never differs from the library. CRT_CFLAGS (else pkg-config --cflags crt) says where they are,
CRT_LIBRARY (else libcrt.so.0) what is loaded."""
import os
import re
import shlex
import subprocess
import tempfile

from cffi import FFI


def declarations():
    """The headers without what cffi knows itself: no standard headers, attributes, functions with a
    body."""
    flags = os.environ.get("CRT_CFLAGS") or subprocess.check_output(
        ["pkg-config", "--cflags", "crt"], text=True)
    with tempfile.TemporaryDirectory() as empty:
        for name in ("stdbool.h", "stddef.h", "stdint.h"):
            open(os.path.join(empty, name), "w").close()
        text = subprocess.run([
            *shlex.split(os.environ.get("CC", "cc")), "-E", "-P", "-nostdinc", f"-I{empty}",
            *shlex.split(flags), "-"
        ], input="#include <crt.h>\n#include <crt_dlpack.h>\n", capture_output=True, text=True,
                              check=True).stdout
    text = re.sub(r"__attribute__\(\(.*?\)\)(?=\s*[;\w])", "", text)
    return re.sub(r"static inline[^{;]*\{[^}]*\}", "", text)


ffi = FFI()
ffi.cdef(declarations())
C = ffi.dlopen(os.environ.get("CRT_LIBRARY", "libcrt.so.0"))
kept = []  # what the library borrows for as long as the process lives


def text(value):
    kept.append(ffi.new("char[]", value.encode()))
    return kept[-1]


def pointers(kind, *items):
    """An array that NULL ends, as CRT_TASKS and CRT_CLASSES make them in C."""
    kept.append((items, ffi.new(f"{kind} *[]", [*items, ffi.NULL])))
    return kept[-1][1]


def struct(kind, **members):
    """A struct that says its size, as the option macros make them in C."""
    kept.append((members, ffi.new(f"{kind} *", {"struct_size": ffi.sizeof(kind), **members})))
    return kept[-1][1]


def check(status):
    if status < 0:
        raise RuntimeError(f"{ffi.string(C.crt_status_name(status)).decode()}: "
                           f"{ffi.string(C.crt_error_detail()).decode('utf-8', 'replace')}")


def argument(kind, member, value):
    """One crt_arg_t: argument("INT", "integer", 7)."""
    return {"kind": getattr(C, f"CRT_KIND_{kind}"), "as": {member: value}}


def out(kind, place):
    """Where a value goes: out("INT64", ffi.new("int64_t *"))."""
    return ffi.new("crt_out_t *", [getattr(C, f"CRT_OUT_{kind}"), place])[0]


def hold(ref):
    """A ref that is dropped with its last Python object."""
    return ffi.gc(ref, lambda r: C.crt_ref_drop(ffi.new("crt_ref_t **", r)))
