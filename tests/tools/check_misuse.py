#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails unless wrong programs are refused by the compiler with a message that helps, and right ones
that use every public macro compile without a warning in each standard, in C and C++ (CXX "none": C
only).
Usage: check_misuse.py CC CXX HEADER... (paths; all their folders are searched)"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from sources import finish, read

HERE = os.path.dirname(os.path.abspath(__file__))
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]
# crt.hpp promises more.
WARNINGS_HPP = ["-Wshadow", "-Wsign-conversion", "-fno-rtti"]
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
                (const crt_tensor_t *, g), (crt_ref_t *, h), (crt_actor_t *, i),
                (const crt_value_t *, j), (point_t, k, point_t_type), (pair_t, l, pair_type),
                (unsigned char, m), (long, n), (int8_t, o), (uint64_t, p))
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
CRT_DEFINE_METHOD(counter, add, (int64_t, amount))
{
    return crt_return(call, self->value += amount);
}
CRT_DEFINE_TASK_WITH(pinned, (.max_calls = 3,
                              .defaults = CRT_TASK_DEFAULTS(.num_cpus = 2, .limit_ms = 5)),
                     (int64_t, number))
{
    return crt_return(call, number);
}
CRT_DEFINE_ACTOR_WITH(served, (.http = true, .defaults = CRT_ACTOR_DEFAULTS(.max_restarts = 1)),
                      struct counter)
{
    (void)self; (void)call;
    return CRT_OK;
}
CRT_DEFINE_METHOD_WITH(served, ask,
                       (.http_public = true,
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
static crt_status_t by_hand_run(void *self, crt_call_t *call)
{
    (void)self;
    return crt_return(call, 1);
}
static const crt_method_t by_hand =
    CRT_METHOD(.name = "by_hand", .run = by_hand_run, .signature = "");
static const crt_concurrency_group_t group =
    CRT_CONCURRENCY_GROUP(.name = "group", .max_concurrency = 2, .methods = CRT_METHODS(&by_hand));
static const crt_actor_class_t hand =
    CRT_ACTOR_CLASS(.name = "Hand", .methods = CRT_METHODS(&by_hand),
                    .concurrency_groups = CRT_CONCURRENCY_GROUPS(&group));
static int driver(int argc, char **argv)
{
    crt_actor_t *actor = counter_new(CRT_ACTOR_OPTIONS(.num_cpus = 1), 3);
    crt_actor_t *other = crt_actor_new(&hand, NULL);
    const crt_ref_t *constant;
    const crt_value_t *value;
    crt_ref_t *refs[3] = {hello_submit(CRT_TASK_OPTIONS(.num_cpus = 2), "x", 4),
                          nothing_submit(NULL), counter_add_call(actor, NULL, 5)};
    crt_stream_t *stream = counter_get_call_stream(actor, NULL);
    (void)argc;
    constant = refs[0];
    CRT_CHECK(crt_get(refs[1], &value));
    CRT_CHECK(counter_add_tell(actor, 3));
    CRT_CHECK(crt_tell(other, &by_hand, value, constant, crt_bytes(argv, 3),
                       (const void *)argv == NULL));
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

# Every macro of libcrt_ml, in C and C++.
RIGHT_ML = """
#include <crt_actors.h>
#include <crt_configuration.h>
#include <crt_fit.h>
#include <crt_ml_gpu.h>
#include <crt_ner.h>
#include <crt_networks.h>
static crt_status_t make_one(crt_configuration_t *c, const char *section, void *made)
{
    (void)c; (void)section; (void)made;
    return CRT_OK;
}
static const crt_factory_t factories[] = {
    CRT_FACTORY(.registry = "r", .name = "one", .make = make_one),
    CRT_FACTORY(.make = make_one, .name = NULL)};
static int use_models(crt_tensor_t inputs, crt_tensor_t labels, int width)
{
    crt_layer_t layers[] = {
        CRT_DENSE(width), CRT_DENSE_ZERO(2), CRT_RELU(), CRT_DROPOUT(0.1),
        CRT_HASH_EMBED(4, 10, 1u, 0, 1), CRT_MAXOUT(3, 2), CRT_EXPAND_WINDOW(1), CRT_LAYER_NORM(),
        CRT_ADD(2), CRT_CONCATENATE(2), CRT_CONVOLUTION(4, 3, 1, 1),
        CRT_CONVOLUTION_PLAIN(4, 3, 1, 1), CRT_MAX_POOL(2, 2), CRT_AVERAGE_POOL(2, 2),
        CRT_GLOBAL_POOL(), CRT_BATCH_NORM(), CRT_FLATTEN(), CRT_GELU(), CRT_MISH(),
        CRT_ATTENTION(2, 0.1), CRT_PATCHES(4), CRT_TOKEN(), CRT_POSITIONS(), CRT_PARAMETERS(2, 3),
        CRT_LAYER(.kind = CRT_LAYER_SUBSAMPLE, .stride = 2, .width = 8)};
    crt_input_t input = CRT_INPUT(.height = 28, .width = 28, .channels = 1);
    crt_batch_t batch = CRT_BATCH(.inputs = inputs, .labels = labels);
    crt_optimizer_options_t options[] = {crt_adam_options(0.1), crt_adamw_options(0.1),
                                         crt_radam_options(0.1), crt_sgd_options(0.1, 0.9)};
    crt_schedule_t rates[] = {crt_schedule_constant(1), crt_schedule_compounding(1, 2, 1.1),
                              crt_schedule_warmup_linear(1, 2, 3), crt_schedule_cosine(1, 0, 10),
                              crt_schedule_step(1, 0.5, 10)};
    crt_model_t *model;
    crt_model_array_t array;
    crt_optimizer_t *optimizer;
    double rate;
    CRT_CHECK(crt_model_new(&input, layers, sizeof(layers) / sizeof(*layers), 1, &model));
    CRT_CHECK(crt_model_array(model, 0, sizeof(array), &array));
    CRT_CHECK(crt_optimizer_new(model, options, &optimizer));
    CRT_CHECK(crt_adam_new(model, 0.1, &optimizer));
    CRT_CHECK(crt_sgd_new(model, 0.1, 0.9, &optimizer));
    CRT_CHECK(crt_schedule_at(rates, 0, &rate));
    CRT_CHECK(crt_model_compute_gradients(model, NULL, &batch, NULL, &rate));
    crt_optimizer_drop(&optimizer);
    crt_model_drop(&model);
    return factories[1].name == NULL && layers[2].kind == CRT_LAYER_RELU;
}
static int use_data(const crt_dataset_t *set, const crt_ner_corpus_t *corpus,
                    const size_t *documents)
{
    crt_image_format_t format = CRT_IMAGE_FORMAT(.name = "f", .height = 8, .width = 8,
                                                 .channels = 1, .classes = 2, .mean[0] = 0.5f);
    crt_ner_options_t options = crt_ner_options();
    crt_ner_batching_t batching = crt_ner_batching(1);
    crt_ner_selection_t selection = CRT_NER_SELECTION(.limit = 10);
    crt_ner_batch_t batch = CRT_NER_BATCH(.documents = documents, .count = 1);
    crt_checkpoint_t checkpoint = CRT_CHECKPOINT(.network = "mlp", .step = 3);
    crt_image_batches_t *batches;
    (void)options; (void)batching; (void)selection; (void)batch; (void)corpus; (void)checkpoint;
    CRT_CHECK(crt_image_batches_new(&format, set,
                                    CRT_IMAGE_BATCHES_OPTIONS(.batch_size = 4, .training = true),
                                    &batches));
    crt_image_batches_drop(&batches);
    return 0;
}
static int use_fit(const crt_dataset_t *set, const crt_model_spec_t *model)
{
    crt_fit_result_t result;
    CRT_CHECK(crt_fit(CRT_FIT(.model = model, .train = set, .devices = 2, .batch_size = 8,
                              .report = crt_fit_print),
                      sizeof(result), &result));
    return result.devices;
}
static int use_actors(crt_ref_t *features, crt_ref_t *labels, crt_group_t *group,
                      crt_model_t *model)
{
    static const int widths[] = {3, 4, 2, 0};
    crt_model_spec_t spec = CRT_MODEL_SPEC(.widths = widths, .dropout = 0.1);
    crt_data_spec_t data =
        CRT_DATA_SPEC(.features = features, .labels = labels, .classes = 2, .batch_size = 8);
    crt_image_worker_spec_t images =
        CRT_IMAGE_WORKER_SPEC(.features = features, .labels = labels, .batch_size = 8);
    crt_actor_t *actors[] = {
        crt_parameter_server_new(NULL, &spec, NULL),
        crt_data_worker_new(CRT_ACTOR_OPTIONS(.num_cpus = 1), &spec, &data),
        crt_image_worker_new(NULL, &spec, &images),
        crt_trainer_new(NULL, &spec, &data, CRT_REPLICA_OPTIONS(.clip = 1.0))};
    crt_ref_t *weights = crt_call(actors[0], crt_parameter_server_get_weights());
    crt_buckets_t *buckets;
    crt_replica_t *replica;
    CRT_CHECK(crt_tell(actors[1], crt_data_worker_compute_gradients(), weights));
    CRT_CHECK(crt_actor_find("x", CRT_FIND_OPTIONS(.name_space = "s"), crt_trainer_class(),
                             &actors[3]));
    CRT_CHECK(crt_buckets_new(group, 10, CRT_BUCKETS_OPTIONS(.bucket_bytes = 1024), &buckets));
    CRT_CHECK(crt_replica_new(group, model, CRT_REPLICA_OPTIONS(.sharded = true), &replica));
    crt_buckets_drop(&buckets);
    crt_replica_drop(&replica);
    crt_ref_drop(&weights);
    return 0;
}
int main(int argc, char **argv)
{
    float one = 1;
    crt_tensor_t tensor = crt_tensor_floats(&one, 1);
    (void)argv;
    return use_models(tensor, tensor, argc) + use_data(NULL, NULL, NULL) + use_fit(NULL, NULL) +
           use_actors(NULL, NULL, NULL, NULL);
}
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
CRT_DEFINE_METHOD(counter, add, (int64_t, amount))
{
    return crt_return(call, self->value += amount);
}
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
void f(crt_stream_t *s, crt_placement_group_t *g, int *ip, foo *fp, void *vp, std::string *sp,
       std::string text, crt_ref_t **refs, const crt_task_t *t, crt_ref_t *ref, int foo::*member,
       const crt_actor_t *ca);
void f(crt_stream_t *s, crt_placement_group_t *g, int *ip, foo *fp, void *vp, std::string *sp,
       std::string text, crt_ref_t **refs, const crt_task_t *t, crt_ref_t *ref, int foo::*member,
       const crt_actor_t *ca)
{
    (void)s; (void)g; (void)ip; (void)fp; (void)vp; (void)sp; (void)refs; (void)t; (void)ref;
    (void)member; (void)ca; (void)text;
"""
FRAME_C = """
void f(const crt_task_t *t, const crt_actor_class_t *k, crt_actor_t *a, const crt_method_t *m,
       crt_ref_t *ref);
void f(const crt_task_t *t, const crt_actor_class_t *k, crt_actor_t *a, const crt_method_t *m,
       crt_ref_t *ref)
{
    (void)t; (void)k; (void)a; (void)m; (void)ref;
"""
HPP = """
#include <crt.hpp>
static std::string hello(const std::string &name, int number)
{
    return name + std::to_string(number);
}
static void by_reference(int &number) { number = 1; }
static void by_rvalue(int &&number) { (void)number; }
static int *to_pointer() { return nullptr; }
static crt_status_t with_status() { return CRT_OK; }
static void yields(crt::yield<int> &yield) { yield(1); }
static void takes(const std::vector<float> &numbers, bool flag) { (void)numbers; (void)flag; }
class counter {
public:
    explicit counter(int start) : value(start) {}
    int add(int amount) { return value += amount; }
    int hidden() { return value; }
private:
    int value;
};
template <> struct crt::actor_class<counter> : crt::define_actor<counter(int), &counter::add> {};
class other { public: other() = default; int get() { return 1; } };
class wrong { public: wrong() = default; };
template <> struct crt::actor_class<wrong> : crt::define_actor<wrong(int)> {};
void use(crt::actor<counter> &a);
void use(crt::actor<counter> &a)
{
    (void)a; (void)hello; (void)by_reference; (void)to_pointer; (void)with_status; (void)yields;
    (void)takes;
"""
PARAMETER = r"an argument is of another type than the parameter"
FRAME_ML = """
#include <crt_actors.h>
void f(crt_model_t *m, crt_optimizer_t *o, crt_model_spec_t *s, crt_data_spec_t *d, crt_actor_t *a,
       crt_group_t *g, crt_buckets_t *b);
void f(crt_model_t *m, crt_optimizer_t *o, crt_model_spec_t *s, crt_data_spec_t *d, crt_actor_t *a,
       crt_group_t *g, crt_buckets_t *b)
{
    (void)m; (void)o; (void)s; (void)d; (void)a; (void)g; (void)b;
"""
NO_OPTIONS = r"_Generic|controlling expression"
# language, what stands before, the wrong line, what the message says
WRONG = [
    *[("c++", WITH_STRING + FRAME, f"crt_submit(t, nullptr, {wrong});", r"deleted function|CRT_ARG")
      for wrong in ("s", "g", "ip", "fp", "vp", "sp", "refs", "f", "text", "member", "ca")],
    ("c++", WITH_STRING + FRAME, "char *out; crt_get(ref, &out);", r"deleted function|CRT_OUT"),
    ("c++", WITH_STRING + FRAME, 'crt_submit(t, "cluster", 1);',
     r"crt_task_options_t|no matching function"),
    ("c", BY_HAND + FRAME_C, 'crt_submit(t, "cluster", 1);', NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, "crt_submit(t, 1);", NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, "crt_submit_stream(t, 1);", NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, "crt_actor_new(k, 1);", NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, 'crt_call(a, "x");', NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, "crt_tell(a, 3);", NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, "crt_call_with(a, m, 3);", NO_OPTIONS),
    ("c", BY_HAND + FRAME_C, "char *out; crt_get(ref, &out);",
     r"text_is_read_into_a_const_char_pointer"),
    ("c", BY_HAND + FRAME_C, "crt_submit(t, NULL, &ref);", r"crt_ref"),
    ("c", DEFINED + FRAME_C, 'hello_submit(NULL, 3, 4);', r"\bname\b"),
    ("c", DEFINED + FRAME_C, 'hello_submit(NULL, "x", "y");', r"\bnumber\b"),
    ("c", DEFINED + FRAME_C, 'hello_submit("x", 4);', r"too few|options"),
    ("c", DEFINED + FRAME_C, 'counter_add_call(a, NULL, "x");', r"\bamount\b"),
    ("c++", DEFINED + FRAME_C, 'hello_submit(NULL, 3, 4);',
     r"\bname\b|invalid conversion|no matching"),
    ("c++", DEFINED + FRAME_C, 'counter_add_call(a, NULL, "x");',
     r"\bamount\b|invalid conversion|no matching"),
    ("c", BY_HAND,
     "#include <crt_define.h>\n"
     "CRT_DEFINE_TASK(bad, (char *, text)) { return crt_return(call, text);",
     r"not compatible with any"),
    ("c++", HPP, 'crt::submit<hello>(3, 4);', PARAMETER),
    ("c++", HPP, 'crt::submit<hello>("x", "y");', PARAMETER),
    ("c++", HPP, 'crt::submit<hello>("x", 4.5);', PARAMETER),
    ("c++", HPP, 'crt::submit<hello>("x", true);', PARAMETER),
    ("c++", HPP, 'crt::submit<hello>("x", crt::put("y"));', PARAMETER),
    ("c++", HPP, 'crt::submit<takes>(std::vector<double>(), true);', PARAMETER),
    ("c++", HPP, 'crt::submit<takes>(std::vector<float>(), 1);', PARAMETER),
    ("c++", HPP, 'crt::submit<takes>(std::vector<float>(), &a);', r"no argument and no result"),
    ("c++", HPP, 'crt::submit<hello>("x");', r"more or fewer arguments"),
    ("c++", HPP, 'crt::submit<by_reference>(1);', r"a value or a reference to const"),
    ("c++", HPP, 'crt::submit<by_rvalue>(1);', r"a value or a reference to const"),
    ("c++", HPP, 'crt::submit<to_pointer>();', r"no argument and no result"),
    ("c++", HPP, 'crt::submit<with_status>();', r"fails by an exception"),
    ("c++", HPP, 'crt::submit<yields>();', r"use submit_stream"),
    ("c++", HPP, 'crt::submit_stream<hello>("x", 1);', r"first parameter of a stream is"),
    ("c++", HPP, 'crt::put("x").get<std::string_view>();', r"keep the ref in a variable"),
    ("c++", HPP, 'crt::put(crt::put(1));', r"a ref is put inside of another value"),
    ("c++", HPP, 'crt::create<counter>("x");', PARAMETER),
    ("c++", HPP, 'crt::create<other>();', r"the class is no actor"),
    ("c++", HPP, 'crt::create<wrong>(1);', r"no constructor with the parameters"),
    ("c++", HPP, 'a.call<&counter::add>("x");', PARAMETER),
    ("c++", HPP, 'a.call<&counter::hidden>();', r"does not list this method"),
    ("c++", HPP, 'crt::object<float> o({1}); crt::put(o);', r"give std::move\(object\)"),
    *[(language, FRAME_ML, line, text) for language in ("c", "c++") for line, text in (
        ("crt_optimizer_new(m, &o);", r"too few|no matching|cannot convert"),
        ("crt_optimizer_new(m, s, &o);", r"crt_optimizer_options|incompatible|no matching"),
        ("crt_parameter_server_new(s, NULL);", r"too few|no matching|cannot convert"),
        ("crt_parameter_server_new(NULL, d, NULL);", r"crt_model_spec|incompatible|no matching"),
        ("crt_data_worker_new(NULL, d, s);", r"crt_model_spec|incompatible|no matching"),
        ("crt_buckets_new(g, 3, CRT_REPLICA_OPTIONS(.clip = 1), &b);",
         r"crt_buckets_options|incompatible|no matching"),
        ("crt_model_drop(m);", r"crt_model_t \*\*|incompatible|no matching"),
        ("crt_call(a, crt_trainer_class());",
         r"_Generic|controlling|no matching|cannot convert|crt_method"))],
]
MACRO = re.compile(r"^# *define ((?:CRT|crt)_\w+)\(", re.MULTILINE)
# Parts of others.
PARTS = {"CRT_STATUS_ENUM", "CRT_STATUS_MAP"}


def compiled(compiler, language, standard, include, program, *flags):
    """From a file: messages show the line, with a mark at the place."""
    with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
        file.write(program)
        file.flush()
        return subprocess.run([
            *compiler.split(), f"-x{language}", f"-std={standard}", *WARNINGS, *flags, *include,
            "-fsyntax-only", file.name
        ], capture_output=True, text=True, check=False)


def check_right(problems, compiler, language, include, programs):
    for name, (program, flags) in programs.items():
        for standard in STANDARDS[language]:
            result = compiled(compiler, language, standard, include, program, *flags)
            if result.returncode != 0:
                problems.append(f"{compiler} {standard}: {name}\n{result.stderr}")


def check_wrong(problems, compiler, language, include, is_first):
    """What crt.hpp says is the same text of every compiler: the first one is enough for it."""
    standard = STANDARDS[language][0]
    lines = [wrong for wrong in WRONG if wrong[0] == language and (is_first or wrong[1] is not HPP)]
    for before in {before for _, before, _, _ in lines}:
        # The function that the wrong line would stand in has an end here, too.
        right = compiled(compiler, language, standard, include,
                         before + "}\n" * (before.count("{") - before.count("}")))
        if right.returncode != 0:
            problems.append(f"{compiler}: without the wrong line\n{right.stderr}")
    for _, before, line, text in lines:
        wrong = compiled(compiler, language, standard, include, before + line + "\n}\n")
        if wrong.returncode == 0 or not re.search(text, wrong.stderr):
            problems.append(f"{compiler}: {line} is not refused with \"{text}\"\n{wrong.stderr}")


def check_every_macro(problems, headers, used):
    for header in headers:
        with open(header, encoding="utf-8") as file:
            for macro in sorted(set(MACRO.findall(file.read())) - PARTS):
                if not re.search(rf"\b{macro}\b", used):
                    problems.append(f"{os.path.basename(header)}: no program here uses {macro}")


def different(first, others):
    """`first` and those of `others` that are there and no other name of one before them."""
    found = {}
    for compiler in [first, *filter(None, map(shutil.which, others))]:
        said = subprocess.run([*compiler.split(), "--version"], capture_output=True, text=True,
                              check=True).stdout
        found.setdefault(said.split(maxsplit=1)[1], compiler)  # without the name it was called by
    return list(found.values())


def main(arguments):
    (cc, cxx), headers = arguments[:2], arguments[2:]
    include = [
        f"-I{folder}" for folder in sorted({os.path.dirname(os.path.abspath(h))
                                            for h in headers})
    ]
    problems = [] if headers else ["no headers given"]
    macros, hpp = read(HERE, "every_macro.c"), read(HERE, "../cpp/test_hpp.cpp")
    check_every_macro(problems, headers, RIGHT + RIGHT_ML + macros)
    programs = {"the right program": (RIGHT, []), "the right program of libcrt_ml": (RIGHT_ML, []),
                "every_macro.c": (macros, [])}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = []
        for language, first, others in ("c", cc, ("gcc", "clang")), ("c++", cxx, ("g++",
                                                                                  "clang++")):
            for compiler in different(first, others) if first != "none" else []:
                made.append(
                    pool.submit(check_right, problems, compiler, language, include, programs))
                made.append(
                    pool.submit(check_wrong, problems, compiler, language, include,
                                compiler == first))
                if language == "c++":
                    made.append(pool.submit(check_right, problems, compiler, language, include,
                                            {"test_hpp.cpp": (hpp, WARNINGS_HPP)}))
        for future in made:
            future.result()
    finish(problems, "misuse of public headers")


if __name__ == "__main__":
    main(sys.argv[1:])
