/* SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ------------------------------------------------------------------ tasks */

static crt_status_t add_run(crt_call_t *call)
{
    int64_t a, b;

    CRT_TRY(crt_args(call, &a, &b));
    return crt_return(call, a + b);
}
const crt_task_t t_add = CRT_TASK(.name = "add", .run = add_run, .signature = "int, int");

static crt_status_t echo_run(crt_call_t *call)
{
    const crt_value_t *value;

    CRT_TRY(crt_arg_at(call, 0, &value));
    switch (crt_value_kind(value)) {
    case CRT_KIND_INT: {
        int64_t x;

        CRT_TRY(crt_value_read(value, &x));
        return crt_return(call, x);
    }
    case CRT_KIND_FLOAT: {
        double x;

        CRT_TRY(crt_value_read(value, &x));
        return crt_return(call, x);
    }
    case CRT_KIND_STRING: {
        const char *x;

        CRT_TRY(crt_value_read(value, &x));
        return crt_return(call, x);
    }
    case CRT_KIND_BYTES: {
        crt_bytes_t x;

        CRT_TRY(crt_value_read(value, &x));
        return crt_return(call, x);
    }
    case CRT_KIND_TENSOR: {
        const crt_tensor_t *x;

        CRT_TRY(crt_value_read(value, &x));
        return crt_return(call, x);
    }
    default: return CRT_OK;
    }
}
const crt_task_t t_echo = CRT_TASK(.name = "echo", .run = echo_run, .signature = "any");

static crt_status_t sleep_run(crt_call_t *call)
{
    int ms;

    CRT_TRY(crt_args(call, &ms));
    poll(NULL, 0, ms);
    return crt_return(call, ms);
}
const crt_task_t t_sleep =
    CRT_TASK(.name = "sleep", .run = sleep_run, .signature = "int");

static crt_status_t gate_run(crt_call_t *call)
{
    const char *path;
    int fd;

    CRT_TRY(crt_args(call, &path));
    fd = open(path, O_RDONLY | O_CLOEXEC); /* until somebody opens the other end */
    if (fd < 0)
        return crt_fail(call, CRT_ERR_IO, "%s", path);
    close(fd);
    return CRT_OK;
}
const crt_task_t t_gate =
    CRT_TASK(.name = "gate", .run = gate_run, .signature = "string");

static crt_status_t swallow_run(crt_call_t *call)
{
    return CRT_OK;
}
const crt_task_t t_swallow =
    CRT_TASK(.name = "swallow", .run = swallow_run, .signature = "bytes");

static crt_status_t fail_run(crt_call_t *call)
{
    return crt_fail(call, CRT_ERR_USER, "on purpose, %d", 42);
}
const crt_task_t t_fail = CRT_TASK(.name = "fail", .run = fail_run, .signature = "");

static crt_status_t exit_run(crt_call_t *call)
{
    _exit(7);
}
const crt_task_t t_exit = CRT_TASK(.name = "exit", .run = exit_run, .signature = "");

static crt_status_t number_run(crt_call_t *call)
{
    int64_t number;

    CRT_TRY(crt_args(call, &number));
    return (crt_status_t)number;
}
const crt_task_t t_number =
    CRT_TASK(.name = "number", .run = number_run, .signature = "int");

static crt_status_t end_thread_run(crt_call_t *call)
{
    pthread_exit(NULL);
}
const crt_task_t t_end_thread =
    CRT_TASK(.name = "end_thread", .run = end_thread_run, .signature = "");

/* Ends when others of its kind had time to begin elsewhere. */
static crt_status_t print_run(crt_call_t *call)
{
    const char *line;
    int64_t ms;

    CRT_TRY(crt_args(call, &line, &ms));
    puts(line);
    poll(NULL, 0, (int)ms);
    return CRT_OK;
}
const crt_task_t t_print =
    CRT_TASK(.name = "print", .run = print_run, .signature = "string, int");

static crt_status_t segv_run(crt_call_t *call)
{
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
    return CRT_OK;
}
const crt_task_t t_segv = CRT_TASK(.name = "segv", .run = segv_run, .signature = "");

static crt_status_t floats_run(crt_call_t *call)
{
    int64_t n;
    float x, *data;
    crt_tensor_t tensor;
    crt_status_t status;

    CRT_TRY(crt_args(call, &n, &x));
    data = malloc((size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        data[i] = x;
    tensor = crt_tensor_floats(data, (size_t)n);
    status = crt_return(call, &tensor);
    free(data);
    return status;
}
const crt_task_t t_floats =
    CRT_TASK(.name = "floats", .run = floats_run, .signature = "int, float");

static crt_status_t sum_run(crt_call_t *call)
{
    double sum = 0;

    for (size_t i = 0; i < crt_arg_count(call); i++) {
        const crt_tensor_t *tensor;

        CRT_TRY(crt_arg_at(call, i, &tensor));
        for (size_t j = 0; j < crt_tensor_count(tensor); j++)
            sum += ((const float *)tensor->data)[j];
    }
    return crt_return(call, sum);
}
const crt_task_t t_sum =
    CRT_TASK(.name = "sum", .run = sum_run, .signature = "tensor...");

static crt_status_t recurse_run(crt_call_t *call)
{
    int64_t n, below;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &n));
    if (n == 0)
        return crt_return(call, 0);
    ref = crt_submit(&t_recurse, NULL, n - 1);
    CRT_TRY(crt_get(ref, &below));
    crt_ref_drop(&ref);
    return crt_return(call, below + 1);
}
const crt_task_t t_recurse =
    CRT_TASK(.name = "recurse", .run = recurse_run, .signature = "int");

static crt_status_t put_list_run(crt_call_t *call)
{
    int64_t n;
    crt_arg_t *items;
    crt_ref_t **refs;
    crt_status_t status;

    CRT_TRY(crt_args(call, &n));
    items = calloc((size_t)n, sizeof(*items));
    refs = calloc((size_t)n, sizeof(crt_ref_t *));
    for (int64_t i = 0; i < n; i++) {
        refs[i] = crt_put(i);
        items[i] = crt_arg_ref(refs[i]);
    }
    status = crt_return(call, crt_list(items, (size_t)n));
    crt_refs_drop(refs, (size_t)n);
    free(items);
    free(refs);
    return status;
}
const crt_task_t t_put_list =
    CRT_TASK(.name = "put_list", .run = put_list_run, .signature = "int");

static crt_status_t sum_refs_run(crt_call_t *call)
{
    const crt_value_t *list;
    int64_t sum = 0;

    CRT_TRY(crt_args(call, &list));
    for (size_t i = 0; i < crt_value_count(list); i++) {
        crt_ref_t *ref;
        int64_t x;

        CRT_TRY(crt_value_read(crt_value_at(list, i), &ref));
        CRT_TRY(crt_get(ref, &x));
        sum += x;
    }
    return crt_return(call, sum);
}
const crt_task_t t_sum_refs =
    CRT_TASK(.name = "sum_refs", .run = sum_refs_run, .signature = "list");

static crt_status_t first_ref_run(crt_call_t *call)
{
    const crt_value_t *list;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &ref));
    return crt_return(call, ref);
}
const crt_task_t t_first_ref =
    CRT_TASK(.name = "first_ref", .run = first_ref_run, .signature = "list");

static crt_status_t object_run(crt_call_t *call)
{
    int64_t n;
    crt_object_t *object;
    crt_tensor_t view;

    CRT_TRY(crt_args(call, &n));
    CRT_TRY(crt_object_create(CRT_DTYPE_INT32, 1, &n, &object, &view));
    for (int64_t i = 0; i < n; i++)
        ((int32_t *)view.data)[i] = (int32_t)i;
    return crt_return(call, object);
}
const crt_task_t t_object =
    CRT_TASK(.name = "object", .run = object_run, .signature = "int");

static crt_status_t big_object_run(crt_call_t *call)
{
    int64_t n;
    crt_object_t *object;
    crt_tensor_t view;

    CRT_TRY(crt_args(call, &n));
    CRT_TRY(crt_object_create(CRT_DTYPE_UINT8, 1, &n, &object, &view));
    crt_object_abort(&object);
    return CRT_OK;
}
const crt_task_t t_big_object =
    CRT_TASK(.name = "big_object", .run = big_object_run, .signature = "int");

static crt_status_t get_ref_run(crt_call_t *call)
{
    crt_ref_t *ref;
    int64_t x;

    CRT_TRY(crt_args(call, &ref));
    CRT_TRY(crt_get(ref, &x));
    return crt_return(call, x);
}
const crt_task_t t_get_ref =
    CRT_TASK(.name = "get_ref", .run = get_ref_run, .signature = "ref");

const crt_task_t t_absent = CRT_TASK(.name = "absent", .run = fail_run, .signature = "");

static crt_status_t pid_run(crt_call_t *call)
{
    return crt_return(call, (int)getpid());
}
const crt_task_t t_pid = CRT_TASK(.name = "pid", .run = pid_run, .signature = "");

/* ------------------------------------------------------------------ Counter */

struct counter {
    int64_t value;
    char text[4096];
    crt_ref_t *kept;
};

static crt_status_t counter_create(void *self, crt_call_t *call)
{
    struct counter *c = self;

    return crt_args(call, &c->value);
}

static void counter_destroy(void *self)
{
    struct counter *c = self;

    crt_ref_drop(&c->kept);
}

static crt_status_t counter_add_run(void *self, crt_call_t *call)
{
    struct counter *c = self;
    int64_t n;

    CRT_TRY(crt_args(call, &n));
    c->value += n;
    return crt_return(call, c->value);
}
const crt_method_t counter_add =
    CRT_METHOD(.name = "add", .run = counter_add_run, .signature = "int");

static crt_status_t counter_get_run(void *self, crt_call_t *call)
{
    return crt_return(call, ((struct counter *)self)->value);
}
const crt_method_t counter_get =
    CRT_METHOD(.name = "get", .run = counter_get_run, .signature = "");

static crt_status_t counter_pid_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int)getpid());
}
const crt_method_t counter_pid =
    CRT_METHOD(.name = "pid", .run = counter_pid_run, .signature = "");

static crt_status_t counter_sleep_run(void *self, crt_call_t *call)
{
    return sleep_run(call);
}
const crt_method_t counter_sleep =
    CRT_METHOD(.name = "sleep", .run = counter_sleep_run, .signature = "int");

static crt_status_t counter_crash_run(void *self, crt_call_t *call)
{
    fprintf(stderr, "going down\n");
    return segv_run(call);
}
const crt_method_t counter_crash =
    CRT_METHOD(.name = "crash", .run = counter_crash_run, .signature = "");

static crt_status_t counter_exit_run(void *self, crt_call_t *call)
{
    _exit(3);
}
const crt_method_t counter_exit =
    CRT_METHOD(.name = "exit", .run = counter_exit_run, .signature = "");

static crt_status_t counter_end_thread_run(void *self, crt_call_t *call)
{
    pthread_exit(NULL);
}
const crt_method_t counter_end_thread =
    CRT_METHOD(.name = "end_thread", .run = counter_end_thread_run, .signature = "");

/* As libraries do that make a daemon of their process; their child keeps what they close. They open
 * `pipes` of their own, which get the same numbers. Ends `ms` later. */
static crt_status_t counter_close_files_run(void *self, crt_call_t *call)
{
    int64_t ms, pipes;
    int ends[2];
    pid_t child;

    CRT_TRY(crt_args(call, &ms, &pipes));
    child = fork();
    if (child == 0) {
        setsid();
        for (;;)
            pause();
    }
    close_range(3, ~0U, 0);
    while (pipes-- > 0)
        if (pipe(ends) != 0)
            abort();
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    return crt_return(call, (int64_t)child);
}
const crt_method_t counter_close_files =
    CRT_METHOD(.name = "close_files", .run = counter_close_files_run,
               .signature = "int, int");

/* The order of calls, as text. */
static crt_status_t counter_append_run(void *self, crt_call_t *call)
{
    struct counter *c = self;
    int64_t n;
    size_t used = strlen(c->text);

    CRT_TRY(crt_args(call, &n));
    snprintf(c->text + used, sizeof(c->text) - used, "%lld,", (long long)n);
    return CRT_OK;
}
const crt_method_t counter_append =
    CRT_METHOD(.name = "append", .run = counter_append_run, .signature = "int");

static crt_status_t counter_text_run(void *self, crt_call_t *call)
{
    return crt_return(call, (const char *)((struct counter *)self)->text);
}
const crt_method_t counter_text =
    CRT_METHOD(.name = "text", .run = counter_text_run, .signature = "");

/* (actor, depth, me): calls the other's call_other with us, depth times; then get. */
static crt_status_t counter_call_other_run(void *self, crt_call_t *call)
{
    crt_actor_t *other, *me;
    int64_t depth, value;
    crt_ref_t *ref;
    crt_status_t status;

    CRT_TRY(crt_args(call, &other, &depth, &me));
    ref = depth ? crt_call(other, &counter_call_other, me, depth - 1, other)
                : crt_call(other, &counter_get);
    status = crt_get(ref, &value);
    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, value) : status;
}
const crt_method_t counter_call_other =
    CRT_METHOD(.name = "call_other", .run = counter_call_other_run,
               .signature = "actor, int, actor");

static crt_status_t counter_call_self_run(void *self, crt_call_t *call)
{
    crt_actor_t *me;
    crt_ref_t *ref;
    int64_t value;
    crt_status_t status;

    CRT_TRY(crt_args(call, &me));
    ref = crt_call(me, &counter_get);
    status = crt_get(ref, &value);
    crt_ref_drop(&ref);
    return status;
}
const crt_method_t counter_call_self =
    CRT_METHOD(.name = "call_self", .run = counter_call_self_run, .signature = "actor");

static crt_status_t counter_swallow_run(void *self, crt_call_t *call)
{
    return CRT_OK;
}
const crt_method_t counter_swallow =
    CRT_METHOD(.name = "swallow", .run = counter_swallow_run, .signature = "bytes");

/* Keeps a ref beyond the call. */
static crt_status_t counter_keep_run(void *self, crt_call_t *call)
{
    struct counter *c = self;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &ref));
    crt_ref_drop(&c->kept);
    c->kept = crt_ref_keep(ref);
    return CRT_OK;
}
const crt_method_t counter_keep =
    CRT_METHOD(.name = "keep", .run = counter_keep_run, .signature = "ref");

static crt_status_t counter_kept_run(void *self, crt_call_t *call)
{
    struct counter *c = self;
    const crt_tensor_t *tensor;

    CRT_TRY(crt_get(c->kept, &tensor));
    return crt_return(call, (double)((const float *)tensor->data)[0]);
}
const crt_method_t counter_kept =
    CRT_METHOD(.name = "kept", .run = counter_kept_run, .signature = "");

/* A Counter that came in a list. */
static crt_status_t call_listed(crt_call_t *call, const crt_method_t *method,
                                crt_ref_t **ref_out)
{
    const crt_value_t *list;
    crt_actor_t *actor;

    CRT_TRY(crt_args(call, &list));
    CRT_TRY(crt_value_read(crt_value_at(list, 0), &actor));
    *ref_out = crt_call_v(actor, method, NULL, NULL, 0);
    return CRT_OK;
}

static crt_status_t get_listed_run(crt_call_t *call)
{
    crt_ref_t *ref;
    int64_t value;
    crt_status_t status;

    CRT_TRY(call_listed(call, &counter_get, &ref));
    status = crt_get(ref, &value);
    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, value) : status;
}
const crt_task_t t_get_listed =
    CRT_TASK(.name = "get_listed", .run = get_listed_run, .signature = "list");

static crt_status_t crash_listed_run(crt_call_t *call)
{
    const crt_error_t *error;
    int64_t told = -1;
    crt_ref_t *ref;

    CRT_TRY(call_listed(call, &counter_crash, &ref));
    (void)crt_get(ref, NULL);
    error = crt_ref_error(ref);
    if (error && error->status == CRT_ERR_ACTOR_DIED)
        told = error->may_have_run;
    crt_ref_drop(&ref);
    return crt_return(call, told);
}
const crt_task_t t_crash_listed =
    CRT_TASK(.name = "crash_listed", .run = crash_listed_run, .signature = "list");

const crt_actor_class_t counter_class =
    CRT_ACTOR_CLASS(.name = "Counter", .size = sizeof(struct counter),
                    .create = counter_create, .signature = "int",
                    .destroy = counter_destroy,
                    .methods = CRT_METHODS(
                        &counter_add, &counter_get, &counter_pid, &counter_sleep,
                        &counter_crash, &counter_append, &counter_text,
                        &counter_call_other, &counter_keep, &counter_kept,
                        &counter_call_self, &counter_exit, &counter_swallow,
                        &counter_close_files, &counter_end_thread));

/* ------------------------------------------------------------------ Broken */

static crt_status_t broken_create(void *self, crt_call_t *call)
{
    const char *text;

    CRT_TRY(crt_args(call, &text));
    return crt_fail(call, CRT_ERR_INVALID, "%s", text);
}

static crt_status_t gated_create(void *self, crt_call_t *call)
{
    return gate_run(call);
}

static crt_status_t gated_wait_run(void *self, crt_call_t *call)
{
    return gate_run(call);
}
const crt_method_t gated_wait =
    CRT_METHOD(.name = "wait", .run = gated_wait_run, .signature = "string");

const crt_actor_class_t gated_class =
    CRT_ACTOR_CLASS(.name = "Gated", .size = 1, .create = gated_create,
                    .signature = "string", .methods = CRT_METHODS(&gated_wait));

static crt_status_t broken_get_run(void *self, crt_call_t *call)
{
    return CRT_OK;
}
const crt_method_t broken_get =
    CRT_METHOD(.name = "get", .run = broken_get_run, .signature = "");

const crt_actor_class_t broken_class =
    CRT_ACTOR_CLASS(.name = "Broken", .size = 1, .create = broken_create,
                    .signature = "string", .methods = CRT_METHODS(&broken_get));
