/* SPDX-License-Identifier: Apache-2.0 */
/* An actor that is called by HTTP, for test_calls.py: "open" of the namespace "calls", and
 * "closed", whose class says nothing of HTTP. Ends when its standard input does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "crt.h"

static crt_status_t add_run(void *self, crt_call_t *call)
{
    int64_t a, b;

    CRT_TRY(crt_args(call, &a, &b));
    return crt_return(call, a + b);
}

/* A value into another one of the same kind, as deep as it is. */
static crt_arg_t copy(const crt_value_t *value)
{
    size_t count = crt_value_count(value), at = 0;
    bool is_map = crt_value_kind(value) == CRT_KIND_MAP;
    crt_arg_t *items =
        calloc(2 * count + 1, sizeof(*items)); /* the process is short-lived */
    const crt_tensor_t *tensor;
    const char *text;
    bool truth;
    int64_t whole;
    double number;

    switch (crt_value_kind(value)) {
    case CRT_KIND_BOOL: CRT_CHECK(crt_value_read(value, &truth)); return CRT_ARG(truth);
    case CRT_KIND_INT: CRT_CHECK(crt_value_read(value, &whole)); return CRT_ARG(whole);
    case CRT_KIND_FLOAT:
        CRT_CHECK(crt_value_read(value, &number));
        return CRT_ARG(number);
    case CRT_KIND_STRING: CRT_CHECK(crt_value_read(value, &text)); return CRT_ARG(text);
    case CRT_KIND_TENSOR:
        CRT_CHECK(crt_value_read(value, &tensor));
        return CRT_ARG(tensor);
    case CRT_KIND_LIST:
    case CRT_KIND_MAP:
        for (size_t i = 0; i < count; i++) {
            if (is_map)
                items[at++] = crt_arg_string(crt_value_key(value, i));
            items[at++] = copy(crt_value_at(value, i));
        }
        return is_map ? crt_map(items, at) : crt_list(items, at);
    default: return crt_arg_none(NULL);
    }
}

static crt_status_t echo_run(void *self, crt_call_t *call)
{
    const crt_value_t *value;

    CRT_TRY(crt_args(call, &value));
    return crt_return(call, copy(value));
}

/* A tensor as it came: its dtype, shape and sum, or itself twice as large. */
static crt_status_t describe_run(void *self, crt_call_t *call)
{
    const crt_tensor_t *t;
    double sum = 0;
    crt_arg_t shape[CRT_TENSOR_DIMS], items[6];

    CRT_TRY(crt_args(call, &t));
    for (size_t i = 0; i < crt_tensor_count(t); i++)
        sum += t->dtype == CRT_DTYPE_FLOAT32 ? (double)((const float *)t->data)[i]
               : t->dtype == CRT_DTYPE_INT64 ? (double)((const int64_t *)t->data)[i]
                                             : ((const uint8_t *)t->data)[i];
    for (int i = 0; i < t->rank; i++)
        shape[i] = crt_arg_int(t->shape[i]);
    items[0] = crt_arg_string("dtype");
    items[1] = crt_arg_string(crt_dtype_name(t->dtype));
    items[2] = crt_arg_string("shape");
    items[3] = crt_list(shape, (size_t)t->rank);
    items[4] = crt_arg_string("sum");
    items[5] = crt_arg_float(sum);
    return crt_return(call, crt_map(items, 6));
}

static crt_status_t count_bytes_run(void *self, crt_call_t *call)
{
    crt_bytes_t bytes;

    CRT_TRY(crt_args(call, &bytes));
    return crt_return(call, (int64_t)bytes.size);
}

/* So many float32, 0, 1, 2, ... in rows of 2. */
static crt_status_t numbers_run(void *self, crt_call_t *call)
{
    crt_object_t *object;
    crt_tensor_t view;
    int64_t rows;

    CRT_TRY(crt_args(call, &rows));
    CRT_TRY(crt_object_create(CRT_DTYPE_FLOAT32, 2, (const int64_t[]){rows, 2}, &object,
                              &view));
    for (int64_t i = 0; i < 2 * rows; i++)
        ((float *)view.data)[i] = (float)i;
    return crt_return(call, object);
}

static crt_status_t fail_run(void *self, crt_call_t *call)
{
    return crt_fail(call, CRT_ERR_USER, "it was not \"meant\" to work");
}

static crt_status_t die_run(void *self, crt_call_t *call)
{
    _exit(3);
}

/* Of hang: how many run, and have been cancelled. */
static _Atomic int64_t hanging, cancelled;

static crt_status_t hang_run(void *self, crt_call_t *call)
{
    hanging++;
    while (!crt_cancelled(call))
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    cancelled++;
    return CRT_OK;
}

static crt_status_t hanging_run(void *self, crt_call_t *call)
{
    return crt_return(call, hanging - cancelled);
}

static crt_status_t cancelled_run(void *self, crt_call_t *call)
{
    return crt_return(call, (int64_t)cancelled);
}

/* 0, 1, ... one by one; below 0: fails after so many. */
static crt_status_t stream_run(void *self, crt_call_t *call)
{
    int64_t count;

    CRT_TRY(crt_args(call, &count));
    for (int64_t i = 0; i < llabs(count); i++)
        CRT_TRY(crt_yield(call, i));
    return count < 0 ? crt_fail(call, CRT_ERR_IO, "no more of them") : CRT_OK;
}

/* Of an actor that is not ready for as long as its job runs. */
static crt_status_t wait_create(void *self, crt_call_t *call)
{
    pause();
    return CRT_OK;
}

static const crt_method_t add =
    CRT_METHOD(.name = "add", .run = add_run, .signature = "int, int", .http = true);
static const crt_method_t echo =
    CRT_METHOD(.name = "echo", .run = echo_run, .http = true);
static const crt_method_t describe = CRT_METHOD(.name = "describe", .run = describe_run,
                                                .signature = "tensor", .http = true);
static const crt_method_t count_bytes =
    CRT_METHOD(.name = "count_bytes", .run = count_bytes_run, .signature = "bytes",
               .http = true);
static const crt_method_t numbers =
    CRT_METHOD(.name = "numbers", .run = numbers_run, .signature = "int", .http = true);
static const crt_method_t fail =
    CRT_METHOD(.name = "fail", .run = fail_run, .signature = "", .http = true);
static const crt_method_t die =
    CRT_METHOD(.name = "die", .run = die_run, .signature = "", .http = true);
static const crt_method_t hang =
    CRT_METHOD(.name = "hang", .run = hang_run, .signature = "", .http = true);
static const crt_method_t count_hanging =
    CRT_METHOD(.name = "hanging", .run = hanging_run, .http = true);
static const crt_method_t count_cancelled =
    CRT_METHOD(.name = "cancelled", .run = cancelled_run, .http = true);
static const crt_method_t stream =
    CRT_METHOD(.name = "stream", .run = stream_run, .signature = "int", .http = true);
static const crt_method_t hidden =
    CRT_METHOD(.name = "hidden", .run = add_run, .signature = "int, int");
static const crt_method_t die_for_all = CRT_METHOD(.name = "die_for_all", .run = die_run,
                                                   .signature = "", .http_public = true);
static const crt_method_t describe_for_all =
    CRT_METHOD(.name = "describe_for_all", .run = describe_run, .signature = "tensor",
               .http_public = true);
static const crt_method_t for_all =
    CRT_METHOD(.name = "for_all", .run = add_run, .signature = "int, int",
               .http_public = true);

static const crt_concurrency_group_t aside =
    CRT_CONCURRENCY_GROUP(.name = "aside", .max_concurrency = 1,
                          .methods = CRT_METHODS(&hang));
static const crt_actor_class_t open_class =
    CRT_ACTOR_CLASS(.name = "Open", .size = 1,
                    .methods = CRT_METHODS(&add, &echo, &describe, &count_bytes, &numbers,
                                           &fail, &die, &hang, &count_hanging,
                                           &count_cancelled, &stream, &hidden, &for_all,
                                           &die_for_all, &describe_for_all),
                    .concurrency_groups = CRT_CONCURRENCY_GROUPS(&aside));
static const crt_actor_class_t closed_class =
    CRT_ACTOR_CLASS(.name = "Closed", .size = 1, .methods = CRT_METHODS(&hidden));

static const crt_actor_class_t waiting_class =
    CRT_ACTOR_CLASS(.name = "Secret", .size = 1, .create = wait_create,
                    .methods = CRT_METHODS(&hidden));

static int driver(int argc, char **argv)
{
    crt_actor_t *open_actor =
        crt_actor_new(&open_class, CRT_ACTOR_OPTIONS(.name = "open", .max_restarts = -1));
    crt_actor_t *closed_actor =
        crt_actor_new(&closed_class, CRT_ACTOR_OPTIONS(.name = "closed"));
    crt_actor_t *short_lived =
        crt_actor_new(&open_class, CRT_ACTOR_OPTIONS(.name = "a/short/life"));
    crt_actor_t *pending = crt_actor_new(
        &waiting_class, CRT_ACTOR_OPTIONS(.name = "pending", .resources = "nosuch=1"));
    crt_actor_t *starting =
        crt_actor_new(&waiting_class, CRT_ACTOR_OPTIONS(.name = "starting"));
    char line[16];

    CRT_CHECK(crt_actor_ready(open_actor, -1));
    CRT_CHECK(crt_actor_ready(closed_actor, -1));
    CRT_CHECK(crt_actor_ready(short_lived, -1));
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin))
        if (line[0] == 'd') { /* nobody in the cluster has a handle of it any more */
            crt_actor_drop(&short_lived);
            puts("dropped");
            fflush(stdout);
        }
    crt_actor_drop(&open_actor);
    crt_actor_drop(&closed_actor);
    crt_actor_drop(&short_lived);
    crt_actor_drop(&pending);
    crt_actor_drop(&starting);
    return 0;
}

int main(int argc, char **argv)
{
    return crt_main(
        argc, argv,
        CRT_OPTIONS(.classes = CRT_CLASSES(&open_class, &closed_class, &waiting_class),
                    .name_space = "calls"),
        driver);
}
