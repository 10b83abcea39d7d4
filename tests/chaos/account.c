/* SPDX-License-Identifier: Apache-2.0 */
#include "account.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ledger.h"

struct account {
    int64_t sum;
    uint64_t id;
    crt_ref_t *kept;
};

#define NOT_STATED INT64_MIN /* the result is not this function's own */

/* ---------------------------------------------------------------- writing down */

static void note_run(uint64_t target, int64_t origin, int64_t number, int64_t value,
                     int64_t result)
{
    ledger_write((ledger_record_t){.kind = LEDGER_RUN,
                                   .origin = (uint64_t)origin,
                                   .number = (uint64_t)number,
                                   .target = target,
                                   .value = value,
                                   .result = result});
}

static int64_t element(uint64_t number, int64_t index)
{
    uint64_t x = number * 0x9e3779b97f4a7c15u + (uint64_t)index * 0xbf58476d1ce4e5b9u;

    return (int64_t)((x ^ (x >> 29)) & 0xffff);
}

int64_t account_sum_of(uint64_t number, int64_t count)
{
    int64_t sum = 0;

    for (int64_t i = 1; i < count; i++)
        sum += element(number, i);
    return sum;
}

void account_fill_in(uint64_t number, int64_t count, int64_t *to)
{
    to[0] = (int64_t)number;
    for (int64_t i = 1; i < count; i++)
        to[i] = element(number, i);
}

static crt_status_t return_filled(crt_call_t *call, int64_t number, int64_t count)
{
    crt_object_t *object = NULL;
    crt_tensor_t view;

    CRT_TRY(crt_object_create(CRT_DTYPE_INT64, 1, &count, &object, &view));
    account_fill_in((uint64_t)number, count, view.data);
    return crt_return(call, object);
}

bool account_sum(const crt_tensor_t *tensor, int64_t *sum_out)
{
    const int64_t *from = tensor->data;
    int64_t sum = 0;

    if (tensor->dtype != CRT_DTYPE_INT64 || tensor->rank != 1 || tensor->shape[0] < 1)
        return false;
    for (int64_t i = 1; i < tensor->shape[0]; i++)
        sum += from[i];
    *sum_out = sum;
    return sum == account_sum_of((uint64_t)from[0], tensor->shape[0]);
}

static crt_status_t total_of(crt_call_t *call, const crt_tensor_t *tensor,
                             int64_t *sum_out)
{
    if (!account_sum(tensor, sum_out))
        return crt_fail(call, CRT_ERR_USER, "WRONG: a tensor is not what was written");
    return CRT_OK;
}

crt_status_t account_get(crt_ref_t *ref, crt_out_t out)
{
    crt_status_t status;

    do
        status = crt_get_v(ref, CHAOS_PATIENCE_MS, out);
    while (status == CRT_ERR_INTERRUPTED);
    return status;
}

/* ---------------------------------------------------------------- the actor */

static crt_status_t account_create(void *self, crt_call_t *call)
{
    struct account *a = self;
    int64_t id;

    CRT_TRY(crt_args(call, &id));
    a->id = (uint64_t)id;
    return CRT_OK;
}

static void account_destroy(void *self)
{
    struct account *a = self;

    crt_ref_drop(&a->kept);
}

static crt_status_t add_run(void *self, crt_call_t *call)
{
    struct account *a = self;
    int64_t origin, number, value;

    CRT_TRY(crt_args(call, &origin, &number, &value));
    a->sum += value;
    note_run(a->id, origin, number, value, a->sum);
    return crt_return(call, a->sum);
}

/* Adds at another account, waits for that and passes its answer or its error on. */
static crt_status_t pass_run(void *self, crt_call_t *call)
{
    struct account *a = self;
    int64_t origin, number, value, target, sum = 0;
    ledger_record_t record = {.kind = LEDGER_ASK};
    const crt_error_t *error;
    crt_actor_t *other;
    crt_status_t status;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &origin, &number, &value, &target, &other));
    note_run(a->id, origin, number, value, NOT_STATED);
    record.origin = ledger_origin();
    record.number = ledger_next();
    record.target = (uint64_t)target;
    record.value = value;
    ledger_write(record);
    ref = crt_call(other, &account_add, (int64_t)record.origin, (int64_t)record.number,
                   value);
    status = account_get(ref, CRT_OUT(&sum));
    error = crt_ref_error(ref);
    record.kind = LEDGER_END;
    record.status = (int32_t)status;
    record.may_have_run = error ? error->may_have_run : status != CRT_OK;
    record.result = sum;
    ledger_write(record);
    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, sum) : status;
}

static crt_status_t fill_run(void *self, crt_call_t *call)
{
    struct account *a = self;
    int64_t origin, number, count;

    CRT_TRY(crt_args(call, &origin, &number, &count));
    note_run(a->id, origin, number, count, NOT_STATED);
    return return_filled(call, number, count);
}

static crt_status_t total_run(void *self, crt_call_t *call)
{
    struct account *a = self;
    int64_t origin, number, sum = 0;
    const crt_tensor_t *tensor;

    CRT_TRY(crt_args(call, &origin, &number, &tensor));
    CRT_TRY(total_of(call, tensor, &sum));
    note_run(a->id, origin, number, 0, sum);
    return crt_return(call, sum);
}

static crt_status_t keep_run(void *self, crt_call_t *call)
{
    struct account *a = self;
    int64_t origin, number;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &origin, &number, &ref));
    note_run(a->id, origin, number, 0, NOT_STATED);
    crt_ref_drop(&a->kept);
    a->kept = crt_ref_keep(ref);
    return CRT_OK;
}

static crt_status_t recall_run(void *self, crt_call_t *call)
{
    struct account *a = self;
    int64_t origin, number, sum = 0;
    const crt_tensor_t *tensor;

    CRT_TRY(crt_args(call, &origin, &number));
    if (a->kept) {
        crt_status_t status = account_get(a->kept, CRT_OUT(&tensor));

        if (status != CRT_OK)
            return status;
        CRT_TRY(total_of(call, tensor, &sum));
    }
    note_run(a->id, origin, number, 0, sum);
    return crt_return(call, sum);
}

/* Ours to end whatever way this worker ends: it has left group and session. */
static crt_status_t litter_run(void *self, crt_call_t *call)
{
    struct account *a = self;
    int64_t origin, number;
    posix_spawnattr_t attributes;
    pid_t pid;

    CRT_TRY(crt_args(call, &origin, &number));
    note_run(a->id, origin, number, 0, NOT_STATED);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    posix_spawn(&pid, "/bin/sleep", NULL, &attributes,
                (char *[]){"chaos-litter", "1000", NULL}, environ);
    posix_spawnattr_destroy(&attributes);
    return CRT_OK;
}

const crt_method_t account_add =
    CRT_METHOD(.name = "add", .run = add_run, .signature = "int, int, int");
const crt_method_t account_pass =
    CRT_METHOD(.name = "pass", .run = pass_run, .signature = "int, int, int, int, actor");
const crt_method_t account_fill =
    CRT_METHOD(.name = "fill", .run = fill_run, .signature = "int, int, int");
const crt_method_t account_total =
    CRT_METHOD(.name = "total", .run = total_run, .signature = "int, int, tensor");
const crt_method_t account_keep =
    CRT_METHOD(.name = "keep", .run = keep_run, .signature = "int, int, ref");
const crt_method_t account_recall =
    CRT_METHOD(.name = "recall", .run = recall_run, .signature = "int, int");
const crt_method_t account_litter =
    CRT_METHOD(.name = "litter", .run = litter_run, .signature = "int, int");
const crt_actor_class_t account_class =
    CRT_ACTOR_CLASS(.name = "Account", .size = sizeof(struct account),
                    .create = account_create, .signature = "int",
                    .destroy = account_destroy,
                    .methods = CRT_METHODS(&account_add, &account_pass, &account_fill,
                                           &account_total, &account_keep, &account_recall,
                                           &account_litter));

/* ---------------------------------------------------------------- tasks */

static crt_status_t triple_run(crt_call_t *call)
{
    int64_t origin, number, value;

    CRT_TRY(crt_args(call, &origin, &number, &value));
    note_run(0, origin, number, value, 3 * value + 1);
    return crt_return(call, 3 * value + 1);
}
const crt_task_t task_triple =
    CRT_TASK(.name = "triple", .run = triple_run, .signature = "int, int, int");

static crt_status_t task_fill_run(crt_call_t *call)
{
    int64_t origin, number, count;

    CRT_TRY(crt_args(call, &origin, &number, &count));
    note_run(0, origin, number, count, NOT_STATED);
    return return_filled(call, number, count);
}
const crt_task_t task_fill =
    CRT_TASK(.name = "fill", .run = task_fill_run, .signature = "int, int, int");

static crt_status_t task_total_run(crt_call_t *call)
{
    int64_t origin, number, sum = 0;
    const crt_tensor_t *tensor;

    CRT_TRY(crt_args(call, &origin, &number, &tensor));
    CRT_TRY(total_of(call, tensor, &sum));
    note_run(0, origin, number, 0, sum);
    return crt_return(call, sum);
}
const crt_task_t task_total =
    CRT_TASK(.name = "total", .run = task_total_run, .signature = "int, int, tensor");

static crt_status_t nest_run(crt_call_t *call)
{
    int64_t origin, number, depth, below = 0;
    crt_status_t status;
    crt_ref_t *ref;

    CRT_TRY(crt_args(call, &origin, &number, &depth));
    if (number) /* the tasks below are not in the ledger */
        note_run(0, origin, number, depth, NOT_STATED);
    if (depth == 0)
        return crt_return(call, 0);
    ref = crt_submit(&task_nest, NULL, (int64_t)0, (int64_t)0, depth - 1);
    status = account_get(ref, CRT_OUT(&below));
    crt_ref_drop(&ref);
    return status == CRT_OK ? crt_return(call, below + 1) : status;
}
const crt_task_t task_nest =
    CRT_TASK(.name = "nest", .run = nest_run, .signature = "int, int, int");
