/* SPDX-License-Identifier: Apache-2.0 */
/* Inline runtime: the part of crt.h that actors/ and its users need, inside one process.
 *
 * Every call runs at once in the caller's thread. So a failure of an actor's own code is
 * seen without a cluster, under the sanitizers, and the order of everything is known. It
 * stands in for libcrt in the tests that link it (tests/actors/meson.build); the same
 * programs also run on the real one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <crt.h>

#define TEXT 1024

struct crt_value {
    crt_kind_t kind;
    bool boolean;
    int64_t integer;
    double number;
    char *string;
    crt_tensor_t tensor; /* a copy of its own */
    crt_ref_t *ref;      /* a hold of its own */
    struct crt_value *items;
    size_t count;
};

struct crt_ref {
    int holds;
    crt_status_t status;
    char text[TEXT];
    const char *class_name, *method;
    crt_error_t error;
    crt_value_t value;
};

struct crt_object {
    crt_tensor_t view;
};

struct crt_actor {
    int holds;
    const crt_actor_class_t *actor_class;
    void *self;
    crt_status_t status; /* of create */
    char text[TEXT];
};

struct crt_call {
    crt_value_t *args;
    size_t count;
    crt_value_t result;
    bool failed;
};

static crt_tensor_t copy_tensor(const crt_tensor_t *from)
{
    crt_tensor_t to = *from;

    if (!crt_tensor_is_dense(from))
        abort();
    to.data = malloc(crt_tensor_bytes(from) + 1);
    memcpy(to.data, from->data, crt_tensor_bytes(from));
    return to;
}

static void value_fini(crt_value_t *v)
{
    free(v->string);
    free(v->tensor.data);
    crt_ref_drop(&v->ref);
    for (size_t i = 0; i < v->count; i++)
        value_fini(&v->items[i]);
    free(v->items);
    *v = (crt_value_t){0};
}

static crt_value_t value_copy(const crt_value_t *from)
{
    crt_value_t to = *from;

    if (from->string)
        to.string = strdup(from->string);
    if (from->tensor.data)
        to.tensor = copy_tensor(&from->tensor);
    if (from->ref)
        crt_ref_keep(from->ref);
    to.items = from->count ? calloc(from->count, sizeof(*to.items)) : NULL;
    for (size_t i = 0; i < from->count; i++)
        to.items[i] = value_copy(&from->items[i]);
    return to;
}

static crt_value_t value_of(crt_arg_t arg)
{
    crt_value_t v = {.kind = arg.kind};

    switch (arg.kind) {
    case CRT_KIND_BOOL: v.boolean = arg.as.boolean; break;
    case CRT_KIND_INT: v.integer = arg.as.integer; break;
    case CRT_KIND_FLOAT: v.number = arg.as.number; break;
    case CRT_KIND_STRING: v.string = strdup(arg.as.string); break;
    case CRT_KIND_TENSOR: v.tensor = copy_tensor(arg.as.tensor); break;
    case CRT_KIND_REF: v.ref = crt_ref_keep(arg.as.ref); break;
    case CRT_KIND_LIST:
    case CRT_KIND_MAP: /* key, value, key, value, ... */
        v.count = arg.as.list.count;
        v.items = calloc(v.count ? v.count : 1, sizeof(*v.items));
        for (size_t i = 0; i < v.count; i++)
            v.items[i] = value_of(arg.as.list.items[i]);
        break;
    case CRT_KIND_OBJECT:
        v.kind = CRT_KIND_TENSOR;
        v.tensor = arg.as.object->view;
        free(arg.as.object);
        break;
    case CRT_KIND_NONE: break;
    default: abort();
    }
    return v;
}

static crt_status_t wrong_kind(const crt_value_t *v, const char *wanted)
{
    return crt_raise(CRT_ERR_INVALID, "%s where %s is wanted", crt_kind_name(v->kind),
                     wanted);
}

static crt_status_t read_integer(const crt_value_t *v, int64_t low, int64_t high,
                                 int64_t *to)
{
    if (v->kind != CRT_KIND_INT || v->integer < low || v->integer > high)
        return wrong_kind(v, "int");
    *to = v->integer;
    return CRT_OK;
}

crt_status_t crt_value_read_v(const crt_value_t *v, crt_out_t out)
{
    int64_t integer = 0;
    crt_status_t status;

    switch (out.kind) {
    case CRT_OUT_NONE: return CRT_OK;
    case CRT_OUT_INT32:
        status = read_integer(v, INT32_MIN, INT32_MAX, &integer);
        *(int *)out.to = (int)integer;
        return status;
    case CRT_OUT_INT64: return read_integer(v, INT64_MIN, INT64_MAX, out.to);
    case CRT_OUT_UINT64: return read_integer(v, 0, INT64_MAX, out.to);
    case CRT_OUT_DOUBLE:
        if (v->kind != CRT_KIND_FLOAT && v->kind != CRT_KIND_INT)
            return wrong_kind(v, "float");
        *(double *)out.to = v->kind == CRT_KIND_INT ? (double)v->integer : v->number;
        return CRT_OK;
    case CRT_OUT_BOOL:
        *(bool *)out.to = v->boolean;
        return v->kind == CRT_KIND_BOOL ? CRT_OK : wrong_kind(v, "bool");
    case CRT_OUT_STRING:
        *(const char **)out.to = v->string;
        return v->kind == CRT_KIND_STRING ? CRT_OK : wrong_kind(v, "string");
    case CRT_OUT_TENSOR:
        *(const crt_tensor_t **)out.to = &v->tensor;
        return v->kind == CRT_KIND_TENSOR ? CRT_OK : wrong_kind(v, "tensor");
    case CRT_OUT_REF:
        *(crt_ref_t **)out.to = v->ref;
        return v->kind == CRT_KIND_REF ? CRT_OK : wrong_kind(v, "ref");
    case CRT_OUT_VALUE: *(const crt_value_t **)out.to = v; return CRT_OK;
    default: abort();
    }
}

crt_kind_t crt_value_kind(const crt_value_t *v)
{
    return v->kind;
}

size_t crt_value_count(const crt_value_t *v)
{
    return v->count;
}

const crt_value_t *crt_value_at(const crt_value_t *v, size_t index)
{
    return index < v->count ? &v->items[index] : NULL;
}

const crt_value_t *crt_value_find(const crt_value_t *map, const char *key)
{
    for (size_t i = 0; i + 1 < map->count; i += 2)
        if (strcmp(map->items[i].string, key) == 0)
            return &map->items[i + 1];
    return NULL;
}

const char *crt_kind_name(crt_kind_t kind)
{
    static const char *const names[] = {"none",   "bool",  "int",    "float",
                                        "string", "bytes", "tensor", "ref",
                                        "actor",  "list",  "map"};

    return kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

/* ---------------------------------------------------------------- arguments */

crt_arg_t crt_arg_bool(bool value)
{
    return (crt_arg_t){.kind = CRT_KIND_BOOL, .as.boolean = value};
}

crt_arg_t crt_arg_int(int64_t value)
{
    return (crt_arg_t){.kind = CRT_KIND_INT, .as.integer = value};
}

crt_arg_t crt_arg_unsigned(uint64_t value)
{
    return crt_arg_int((int64_t)value);
}

crt_arg_t crt_arg_float(double value)
{
    return (crt_arg_t){.kind = CRT_KIND_FLOAT, .as.number = value};
}

crt_arg_t crt_arg_string(const char *value)
{
    return (crt_arg_t){.kind = CRT_KIND_STRING, .as.string = value};
}

crt_arg_t crt_arg_bytes(crt_bytes_t value)
{
    return (crt_arg_t){.kind = CRT_KIND_BYTES, .as.bytes = value};
}

crt_arg_t crt_arg_tensor(const crt_tensor_t *value)
{
    return (crt_arg_t){.kind = CRT_KIND_TENSOR, .as.tensor = value};
}

crt_arg_t crt_arg_ref(const crt_ref_t *value)
{
    return (crt_arg_t){.kind = CRT_KIND_REF, .as.ref = (crt_ref_t *)(uintptr_t)value};
}

crt_arg_t crt_arg_object(crt_object_t *value)
{
    return (crt_arg_t){.kind = CRT_KIND_OBJECT, .as.object = value};
}

crt_arg_t crt_arg_self(crt_arg_t value)
{
    return value;
}

crt_arg_t crt_list(const crt_arg_t *items, size_t count)
{
    return (crt_arg_t){.kind = CRT_KIND_LIST, .as.list = {items, count}};
}

crt_arg_t crt_map(const crt_arg_t *items, size_t count)
{
    return (crt_arg_t){.kind = CRT_KIND_MAP, .as.list = {items, count}};
}

crt_arg_t crt_arg_each(crt_ref_t *const *refs, size_t count)
{
    return (crt_arg_t){.kind = CRT_KIND_SPREAD, .as.spread = {refs, count}};
}

/* Which argument of a signature is passed as a ref. */
static bool passes_ref(const char *signature, size_t index)
{
    const char *at = signature ? signature : "";

    while (index-- > 0 && strchr(at, ','))
        at = strchr(at, ',') + 1;
    return strncmp(at + strspn(at, " "), "ref", 3) == 0;
}

/* Adds an argument; the failure of a ref is the failure of the call. */
static crt_status_t add_arg(crt_call_t *call, crt_arg_t arg, const char *signature)
{
    crt_value_t *to;

    if (arg.kind == CRT_KIND_REF && !passes_ref(signature, call->count)) {
        if (arg.as.ref->status != CRT_OK)
            return crt_raise(arg.as.ref->status, "%s", arg.as.ref->text);
    }
    call->args = realloc(call->args, (call->count + 1) * sizeof(*call->args));
    to = &call->args[call->count];
    if (arg.kind == CRT_KIND_REF && !passes_ref(signature, call->count))
        *to = value_copy(&arg.as.ref->value);
    else
        *to = value_of(arg);
    call->count++;
    return CRT_OK;
}

static crt_status_t add_args(crt_call_t *call, const crt_arg_t *args, size_t count,
                             const char *signature)
{
    crt_status_t status = CRT_OK;

    for (size_t i = 0; i < count && status == CRT_OK; i++) {
        if (args[i].kind != CRT_KIND_SPREAD) {
            status = add_arg(call, args[i], signature);
            continue;
        }
        for (size_t k = 0; k < args[i].as.spread.count && status == CRT_OK; k++)
            status = add_arg(call, crt_arg_ref(args[i].as.spread.refs[k]), signature);
    }
    return status;
}

static void call_fini(crt_call_t *call)
{
    for (size_t i = 0; i < call->count; i++)
        value_fini(&call->args[i]);
    free(call->args);
    value_fini(&call->result);
}

size_t crt_arg_count(const crt_call_t *call)
{
    return call->count;
}

crt_status_t crt_arg_at_v(crt_call_t *call, size_t index, crt_out_t out)
{
    if (index >= call->count)
        return crt_raise(CRT_ERR_INVALID, "no argument %zu", index);
    return crt_value_read_v(&call->args[index], out);
}

crt_status_t crt_args_v(crt_call_t *call, const crt_out_t *outs, size_t count)
{
    crt_status_t status = CRT_OK;

    if (count != call->count)
        return crt_raise(CRT_ERR_INVALID, "%zu arguments, not %zu", call->count, count);
    for (size_t i = 0; i < count && status == CRT_OK; i++)
        status = crt_arg_at_v(call, i, outs[i]);
    return status;
}

crt_status_t crt_return_v(crt_call_t *call, const crt_arg_t *value)
{
    call->result = value_of(*value);
    return CRT_OK;
}

crt_status_t crt_fail(crt_call_t *call, crt_status_t status, const char *format, ...)
{
    char text[TEXT];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    call->failed = true;
    return crt_raise(status < 0 ? status : CRT_ERR_USER, "%s", text);
}

/* ---------------------------------------------------------------- refs and objects */

static crt_ref_t *new_ref(crt_status_t status)
{
    crt_ref_t *ref = calloc(1, sizeof(*ref));

    ref->holds = 1;
    ref->status = status;
    ref->class_name = ref->method = "";
    if (status != CRT_OK)
        snprintf(ref->text, sizeof(ref->text), "%s", crt_error_detail());
    return ref;
}

crt_ref_t *crt_ref_at(crt_ref_t *ref, const char *place)
{
    return ref;
}

crt_ref_t *crt_put_v(const crt_arg_t *value)
{
    crt_ref_t *ref = new_ref(CRT_OK);

    ref->value = value_of(*value);
    return ref;
}

crt_status_t crt_get_v(crt_ref_t *ref, int64_t timeout_ms, crt_out_t out)
{
    if (ref->status != CRT_OK)
        return crt_raise(ref->status, "%s", ref->text);
    return crt_value_read_v(&ref->value, out);
}

crt_status_t crt_wait(crt_ref_t *const *refs, size_t count, size_t want,
                      int64_t timeout_ms, size_t *ready, size_t *ready_count)
{
    for (size_t i = 0; i < count; i++)
        ready[i] = i;
    *ready_count = count;
    return CRT_OK;
}

crt_ref_t *crt_ref_keep(crt_ref_t *ref)
{
    ref->holds++;
    return ref;
}

void crt_ref_drop(crt_ref_t **ref)
{
    if (*ref && --(*ref)->holds == 0) {
        value_fini(&(*ref)->value);
        free(*ref);
    }
    *ref = NULL;
}

void crt_refs_drop(crt_ref_t **refs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        crt_ref_drop(&refs[i]);
}

const crt_error_t *crt_ref_error(crt_ref_t *ref)
{
    ref->error = (crt_error_t){.status = ref->status,
                               .text = ref->text,
                               .class_name = ref->class_name,
                               .method = ref->method,
                               .actor = "",
                               .node = ""};
    return ref->status == CRT_OK ? NULL : &ref->error;
}

crt_status_t crt_object_create(crt_dtype_t dtype, int rank, const int64_t *shape,
                               crt_object_t **object_out, crt_tensor_t *view_out)
{
    crt_object_t *object = calloc(1, sizeof(*object));

    object->view = crt_tensor_view(dtype, rank, shape, NULL);
    object->view.data = malloc(crt_tensor_bytes(&object->view) + 1);
    *object_out = object;
    *view_out = object->view;
    return CRT_OK;
}

void crt_object_abort(crt_object_t **object_take)
{
    free((*object_take)->view.data);
    free(*object_take);
    *object_take = NULL;
}

/* ---------------------------------------------------------------- tasks and actors */

crt_ref_t *crt_submit_v(const crt_task_t *task, const crt_task_options_t *options,
                        const crt_arg_t *args, size_t count)
{
    crt_call_t call = {0};
    crt_status_t status = add_args(&call, args, count, task->signature);
    crt_ref_t *ref;

    if (status == CRT_OK)
        status = task->run(&call);
    ref = new_ref(status);
    ref->method = task->name;
    if (status == CRT_OK)
        ref->value = value_copy(&call.result);
    call_fini(&call);
    return ref;
}

crt_actor_t *crt_actor_new_v(const crt_actor_class_t *actor_class,
                             const crt_actor_options_t *options, const crt_arg_t *args,
                             size_t count)
{
    crt_actor_t *actor = calloc(1, sizeof(*actor));
    crt_call_t call = {0};

    actor->holds = 1;
    actor->actor_class = actor_class;
    actor->self = calloc(1, actor_class->size);
    actor->status = add_args(&call, args, count, actor_class->signature);
    if (actor->status == CRT_OK && actor_class->create)
        actor->status = actor_class->create(actor->self, &call);
    if (actor->status != CRT_OK)
        snprintf(actor->text, sizeof(actor->text), "%s", crt_error_detail());
    call_fini(&call);
    return actor;
}

crt_ref_t *crt_call_v(crt_actor_t *actor, const crt_method_t *method,
                      const crt_call_options_t *options, const crt_arg_t *args,
                      size_t count)
{
    crt_call_t call = {0};
    crt_status_t status = actor->status;
    crt_ref_t *ref;

    if (status != CRT_OK)
        crt_raise(status, "%s", actor->text);
    else
        status = add_args(&call, args, count, method->signature);
    if (status == CRT_OK)
        status = method->run(actor->self, &call);
    ref = new_ref(status);
    ref->class_name = actor->actor_class->name;
    ref->method = method->name;
    if (status == CRT_OK) {
        ref->value = call.result;
        call.result = (crt_value_t){0};
    }
    call_fini(&call);
    return ref;
}

crt_status_t crt_actor_ready(crt_actor_t *actor, int64_t timeout_ms)
{
    return actor->status == CRT_OK ? CRT_OK : crt_raise(actor->status, "%s", actor->text);
}

void crt_actor_drop(crt_actor_t **actor)
{
    crt_actor_t *a = *actor;

    *actor = NULL;
    if (!a || --a->holds > 0)
        return;
    if (a->actor_class->destroy)
        a->actor_class->destroy(a->self);
    free(a->self);
    free(a);
}

/* There is room for any group. */
struct crt_placement_group {
    int unused;
};

crt_placement_group_t *
crt_placement_group_new(const crt_bundle_t *bundles, size_t count,
                        const crt_placement_group_options_t *options)
{
    return calloc(1, sizeof(crt_placement_group_t));
}

crt_status_t crt_placement_group_wait(crt_placement_group_t *group, int64_t timeout_ms)
{
    return CRT_OK;
}

void crt_placement_group_drop(crt_placement_group_t **group)
{
    free(*group);
    *group = NULL;
}

/* ---------------------------------------------------------------- metrics: nobody reads them */

crt_status_t crt_gauge(const char *name, const char *help, const char *labels,
                       crt_gauge_t **gauge_out)
{
    *gauge_out = NULL;
    return CRT_OK;
}

void crt_gauge_set(crt_gauge_t *gauge, double value)
{
}

crt_status_t crt_histogram(const char *name, const char *help, const char *labels,
                           const double *bounds, size_t count,
                           crt_histogram_t **histogram_out)
{
    *histogram_out = NULL;
    return CRT_OK;
}

void crt_histogram_observe(crt_histogram_t *histogram, double value)
{
}

bool crt_cancelled(const crt_call_t *call)
{
    return false;
}

int crt_main(int argc, char **argv, const crt_options_t *options,
             int (*driver)(int argc, char **argv))
{
    return driver(argc, argv);
}
