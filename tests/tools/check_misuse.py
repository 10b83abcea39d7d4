#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless wrong programs are refused by the compiler with a message that helps, and right ones that
use every macro of a definition compile without a warning in each standard, in C and C++.
Usage: check_misuse.py CC CXX HEADER... (paths; all their folders are searched)"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from sources import finish

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
STANDARDS = {"c": ("c11", "c17", "c2x"), "c++": ("c++17", "c++20", "c++2b")}

RIGHT = """
#include <crt_define.h>
typedef struct point { double x, y; } point_t;
CRT_DEFINE_PLAIN_TYPE(point_t)
typedef struct pair { int64_t number; const char *text; } pair_t;
static size_t pair_pack(const void *value, crt_arg_t *items)
{
    items[0] = CRT_ARG(((const pair_t *)value)->number);
    items[1] = CRT_ARG(((const pair_t *)value)->text);
    return 2;
}
static crt_status_t pair_unpack(const crt_value_t *items, void *value)
{
    pair_t *pair = (pair_t *)value;
    CRT_TRY(crt_value_read(crt_value_at(items, 0), &pair->number));
    return crt_value_read(crt_value_at(items, 1), &pair->text);
}
static const crt_type_t pair_type =
    CRT_TYPE(.name = "pair_t", .size = sizeof(pair_t), .pack = pair_pack, .unpack = pair_unpack);

CRT_DECLARE_TASK(hello, (const char *, name), (int64_t, number))
CRT_DEFINE_TASK(hello, (const char *, name), (int64_t, number))
{
    (void)name;
    return crt_return(call, number);
}
CRT_DEFINE_TASK(nothing) { return crt_return(call, "text"); }
CRT_DEFINE_TASK(all, (bool, a), (int, b), (uint16_t, c), (float, d), (double, e), (crt_bytes_t, f),
                (const crt_tensor_t *, g), (crt_ref_t *, h), (crt_actor_t *, i), (const crt_value_t *, j),
                (point_t, k, point_t_type), (pair_t, l, pair_type), (unsigned char, m), (long, n),
                (int8_t, o), (uint64_t, p))
{
    (void)a; (void)b; (void)c; (void)d; (void)e; (void)f; (void)g; (void)h; (void)i; (void)m;
    (void)n; (void)o; (void)p; (void)l;
    CRT_TRY(crt_yield(call, j));
    return crt_return_typed(call, &point_t_type, &k);
}
struct counter { int64_t value; };
CRT_DECLARE_ACTOR(counter, struct counter, (int64_t, start))
CRT_DEFINE_ACTOR(counter, struct counter, (int64_t, start))
{
    (void)call;
    self->value = start;
    return CRT_OK;
}
CRT_DECLARE_METHOD(counter, add, (int64_t, amount))
CRT_DEFINE_METHOD(counter, add, (int64_t, amount)) { return crt_return(call, self->value += amount); }
CRT_DEFINE_TASK_WITH(pinned, (.max_calls = 3, .defaults = CRT_TASK_DEFAULTS(.num_cpus = 2, .limit_ms = 5)),
                     (int64_t, number))
{
    return crt_return(call, number);
}
CRT_DEFINE_ACTOR_WITH(served, (.http = true, .defaults = CRT_ACTOR_DEFAULTS(.max_restarts = 1)), struct counter)
{
    (void)self; (void)call;
    return CRT_OK;
}
CRT_DEFINE_METHOD_WITH(served, ask, (.http_public = true,
                                     .defaults = CRT_CALL_DEFAULTS(.retry_exceptions = CRT_RETRY_ALL)))
{
    return crt_return(call, self->value);
}
CRT_DEFINE_METHOD(counter, get) { return crt_return(call, self->value); }
CRT_DEFINE_DESTROY(counter) { self->value = 0; }
CRT_DEFINE_RESTORE(counter)
{
    (void)size;
    self->value = *(const int64_t *)state;
    return CRT_OK;
}
static crt_status_t by_hand_run(void *self, crt_call_t *call) { (void)self; return crt_return(call, 1); }
static const crt_method_t by_hand = CRT_METHOD(.name = "by_hand", .run = by_hand_run, .signature = "");
static const crt_concurrency_group_t group =
    CRT_CONCURRENCY_GROUP(.name = "group", .max_concurrency = 2, .methods = CRT_METHODS(&by_hand));
static const crt_actor_class_t hand =
    CRT_ACTOR_CLASS(.name = "Hand", .methods = CRT_METHODS(&by_hand),
                    .concurrency_groups = CRT_CONCURRENCY_GROUPS(&group));
static int driver(int argc, char **argv)
{
    crt_actor_t *actor = counter_new(CRT_ACTOR_OPTIONS(.num_cpus = 1), 3), *other = crt_actor_new(&hand, NULL);
    const crt_ref_t *constant;
    const crt_value_t *value;
    crt_ref_t *refs[3] = {hello_submit(CRT_TASK_OPTIONS(.num_cpus = 2), "x", 4), nothing_submit(NULL),
                          counter_add_call(actor, NULL, 5)};
    crt_stream_t *stream = counter_get_call_stream(actor, NULL);
    (void)argc;
    constant = refs[0];
    CRT_CHECK(crt_get(refs[1], &value));
    CRT_CHECK(counter_add_tell(actor, 3));
    CRT_CHECK(crt_tell(other, &by_hand, value, constant, crt_bytes(argv, 3), (const void *)argv == NULL));
    hello_submit_returns(refs, 1, NULL, "x", 4);
    counter_add_call_returns(refs, 1, actor, CRT_CALL_OPTIONS(.name = "n"), 4);
    crt_cancel(refs[0], CRT_CANCEL_OPTIONS(.force = true));
    crt_refs_drop(refs, 3);
    crt_stream_drop(&stream);
    crt_actor_drop(&actor);
    crt_actor_drop(&other);
    return 0;
}
CRT_MAIN(driver, .num_cpus = 2, .no_log_to_driver = true)
"""

DEFINED = """
#include <crt_define.h>
CRT_DEFINE_TASK(hello, (const char *, name), (int64_t, number))
{
    (void)name;
    return crt_return(call, number);
}
struct counter { int64_t value; };
CRT_DEFINE_ACTOR(counter, struct counter) { (void)self; (void)call; return CRT_OK; }
CRT_DEFINE_METHOD(counter, add, (int64_t, amount)) { return crt_return(call, self->value += amount); }
"""
BY_HAND = """
#include <crt.h>
"""
WITH_STRING = """
#include <crt.h>
#include <string>
"""
FRAME = """
struct foo { int x; };
void f(crt_stream_t *s, crt_placement_group_t *g, int *ip, foo *fp, void *vp, std::string *sp, std::string text,
       crt_ref_t **refs, const crt_task_t *t, crt_ref_t *ref, int foo::*member, const crt_actor_t *ca);
void f(crt_stream_t *s, crt_placement_group_t *g, int *ip, foo *fp, void *vp, std::string *sp, std::string text,
       crt_ref_t **refs, const crt_task_t *t, crt_ref_t *ref, int foo::*member, const crt_actor_t *ca)
{ (void)s; (void)g; (void)ip; (void)fp; (void)vp; (void)sp; (void)refs; (void)t; (void)ref; (void)member; (void)ca; (void)text;
"""
FRAME_C = """
void f(const crt_task_t *t, const crt_actor_class_t *k, crt_actor_t *a, const crt_method_t *m, crt_ref_t *ref);
void f(const crt_task_t *t, const crt_actor_class_t *k, crt_actor_t *a, const crt_method_t *m, crt_ref_t *ref)
{ (void)t; (void)k; (void)a; (void)m; (void)ref;
"""
NO_OPTIONS = r"_Generic|controlling expression"
# language, what stands before, the wrong line, what the message says
WRONG = [
    *[("c++", WITH_STRING + FRAME, f"crt_submit(t, nullptr, {wrong});", r"deleted function|CRT_ARG")
      for wrong in ("s", "g", "ip", "fp", "vp", "sp", "refs", "f", "text", "member", "ca")],
    ("c++", WITH_STRING + FRAME, "char *out; crt_get(ref, &out);", r"deleted function|CRT_OUT"),
    ("c++", WITH_STRING + FRAME, 'crt_submit(t, "cluster", 1);', r"crt_task_options_t|no matching function"),
    ("c", BY_HAND + FRAME_C, 'crt_submit(t, "cluster", 1);', NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, "crt_submit(t, 1);", NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, "crt_submit_stream(t, 1);", NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, "crt_actor_new(k, 1);", NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, 'crt_call(a, "x");', NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, "crt_tell(a, 3);", NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, "crt_call_with(a, m, 3);", NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, "char *out; crt_get(ref, &out);", r"text_is_read_into_a_const_char_pointer"),
    ("c", BY_HAND + FRAME_C, "crt_submit(t, NULL, &ref);", r"crt_ref"),
    ("c", DEFINED + FRAME_C, 'hello_submit(NULL, 3, 4);', r"\bname\b"),
    ("c", DEFINED + FRAME_C, 'hello_submit(NULL, "x", "y");', r"\bnumber\b"),
    ("c", DEFINED + FRAME_C, 'hello_submit("x", 4);', r"too few|options"),
    ("c", DEFINED + FRAME_C, 'counter_add_call(a, NULL, "x");', r"\bamount\b"),
    ("c++", DEFINED + FRAME_C, 'hello_submit(NULL, 3, 4);', r"\bname\b|invalid conversion|no matching"),
    ("c++", DEFINED + FRAME_C, 'counter_add_call(a, NULL, "x");', r"\bamount\b|invalid conversion|no matching"),
    ("c", BY_HAND, "#include <crt_define.h>\nCRT_DEFINE_TASK(bad, (char *, text)) { return crt_return(call, text);",
     r"not compatible with any"),
]


def compiled(compiler, language, standard, include, program):
    """From a file: messages show the line, with a mark at the place."""
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(program)
        file.flush()
        return subprocess.run([*compiler.split(), f"-x{language}", f"-std={standard}", *WARNINGS, *include,
                               "-fsyntax-only", file.name], capture_output=True, text=True, check=False)


def check(problems, compiler, language, include):
    for standard in STANDARDS[language]:
        result = compiled(compiler, language, standard, include, RIGHT)
        if result.returncode != 0:
            problems.append(f"{compiler} {standard}: the right program\n{result.stderr}")
    for of, before, line, text in WRONG:
        if of != language:
            continue
        right = compiled(compiler, language, STANDARDS[language][0], include, before + (
            "}\n" if "{ (void)" in before else ""))
        wrong = compiled(compiler, language, STANDARDS[language][0], include, before + line + "\n}\n")
        if right.returncode != 0:
            problems.append(f"{compiler}: without the wrong line\n{right.stderr}")
        if wrong.returncode == 0 or not re.search(text, wrong.stderr):
            problems.append(f"{compiler}: {line} is not refused with \"{text}\"\n{wrong.stderr}")


def main(arguments):
    (cc, cxx), headers = arguments[:2], arguments[2:]
    include = [f"-I{folder}" for folder in sorted({os.path.dirname(os.path.abspath(h)) for h in headers})]
    problems = [] if headers else ["no headers given"]
    for language, first, others in ("c", cc, ("gcc", "clang")), ("c++", cxx, ("g++", "clang++")):
        for compiler in sorted({first, *filter(shutil.which, others)}):
            check(problems, compiler, language, include)
    finish(problems, "misuse of public headers")


if __name__ == "__main__":
    main(sys.argv[1:])
