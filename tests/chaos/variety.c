/* SPDX-License-Identifier: Apache-2.0 */
/* What else programs do: streams, actors that run several calls at a time, placement groups.
 * Nothing of it is in the ledger: what comes is checked here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "account.h"
#include "ledger.h"
#include "load.h"

#define PAUSE_NS    50000000
#define ITEMS       200
#define LARGE_ITEM  (64 << 10) /* bytes of every tenth one: it lies in a store */
#define CROWD       6          /* calls at a time */
#define BUNDLES     2
#define GROUP_MS    3000 /* a group that gets no room by then is given up */
#define TAKE_US_MAX 2000

/* ---------------------------------------------------------------- in the workers */

static void fill_item(unsigned char *bytes, int64_t i)
{
    memset(bytes, (int)(i & 0xff), LARGE_ITEM);
}

static crt_status_t items_run(crt_call_t *call)
{
    static unsigned char bytes[LARGE_ITEM];
    int64_t count;

    CRT_TRY(crt_args(call, &count));
    for (int64_t i = 0; i < count; i++) {
        if (i % 10 != 9) {
            CRT_TRY(crt_yield(call, i));
            continue;
        }
        fill_item(bytes, i);
        CRT_TRY(crt_yield(call, ((crt_bytes_t){bytes, sizeof(bytes)})));
    }
    return CRT_OK;
}
const crt_task_t variety_items =
    CRT_TASK(.name = "items", .run = items_run, .signature = "int");

static crt_status_t twice_run(crt_call_t *call)
{
    int64_t x;

    CRT_TRY(crt_args(call, &x));
    return crt_return(call, 2 * x);
}
const crt_task_t variety_twice =
    CRT_TASK(.name = "twice", .run = twice_run, .signature = "int");

static crt_status_t take_run(void *self, crt_call_t *call)
{
    int64_t x, us;

    CRT_TRY(crt_args(call, &x, &us));
    nanosleep(&(struct timespec){0, us * 1000}, NULL);
    return crt_return(call, x + 1);
}
static const crt_method_t take =
    CRT_METHOD(.name = "take", .run = take_run, .signature = "int, int");
const crt_actor_class_t variety_crowd =
    CRT_ACTOR_CLASS(.name = "Crowd", .methods = CRT_METHODS(&take));

/* ---------------------------------------------------------------- in the driver */

static void check_item(crt_ref_t *ref, int64_t i, load_t *load)
{
    crt_status_t status;
    crt_bytes_t bytes = {NULL, 0};
    int64_t value = i;

    if (i % 10 == 9)
        status = account_get(ref, CRT_OUT(&bytes));
    else
        status = account_get(ref, CRT_OUT(&value));
    load_count(load, "an item", status, crt_error_detail());
    if (status != CRT_OK)
        return;
    if (value != i ||
        (bytes.data &&
         (bytes.size != LARGE_ITEM ||
          ((const unsigned char *)bytes.data)[LARGE_ITEM / 2] != (unsigned char)i)))
        load_finding("wrong: item %lld of a stream is another one", (long long)i);
}

/* As account_get: a signal that goes on is no end. */
static crt_status_t next_item(crt_stream_t *stream, crt_ref_t **ref)
{
    crt_status_t status;

    do
        status = crt_stream_next(stream, CHAOS_PATIENCE_MS, ref);
    while (status == CRT_ERR_INTERRUPTED);
    return status;
}

/* Each item comes once and in order, whatever dies, until the stream ends, or is given up. */
static void use_stream(load_t *load)
{
    int64_t count = (int64_t)load_random(load, ITEMS), i = 0;
    int64_t most = load_random(load, 3) == 0 ? count / 2 : INT64_MAX;
    crt_stream_t *stream =
        crt_submit_stream(&variety_items,
                          CRT_TASK_OPTIONS(.max_attempts = load_random(load, 2) ? 4 : 1,
                                           .generator_backpressure_num_objects =
                                               1 + (int64_t)load_random(load, 20)),
                          count);
    crt_status_t status = CRT_OK;
    crt_ref_t *ref;

    load_beat(load, "a stream");
    while (i < most && (status = next_item(stream, &ref)) == CRT_OK) {
        check_item(ref, i++, load);
        crt_ref_drop(&ref);
        load_beat(load, "a stream");
    }
    if (status == CRT_END_OF_STREAM && i != count)
        load_finding("wrong: a stream of %lld items had %lld", (long long)count,
                     (long long)i);
    load_count(load, "a stream", status == CRT_END_OF_STREAM ? CRT_OK : status,
               crt_error_detail());
    crt_stream_drop(&stream);
}

static void use_crowd(load_t *load, crt_actor_t **crowd)
{
    crt_ref_t *refs[4 * CROWD];
    int count = 1 + (int)load_random(load, 4 * CROWD);
    bool is_dead = false;

    if (!*crowd)
        *crowd = crt_actor_new(
            &variety_crowd,
            CRT_ACTOR_OPTIONS(.resources = "spot=1", .max_concurrency = CROWD,
                              .max_restarts = load_random(load, 2) ? -1 : 0,
                              .allow_out_of_order_execution = load_random(load, 2)));
    load_beat(load, "calls that run at a time");
    for (int i = 0; i < count; i++)
        refs[i] = crt_call(*crowd, &take, i, (int64_t)load_random(load, TAKE_US_MAX));
    if (load_random(load, 4) == 0)
        (void)crt_cancel(refs[load_random(load, (uint64_t)count)], NULL);
    for (int i = 0; i < count; i++) {
        int64_t value = i + 1;
        crt_status_t status = account_get(refs[i], CRT_OUT(&value));

        if (status == CRT_OK && value != i + 1)
            load_finding("wrong: call %d of several has the result of another one", i);
        load_count(load, "one of several calls", status, crt_error_detail());
        /* CRT_ERR_IO: it could not be made, its disk being full */
        is_dead |= status == CRT_ERR_ACTOR_DIED || status == CRT_ERR_IO;
        crt_ref_drop(&refs[i]);
    }
    if (is_dead)
        crt_actor_drop(crowd);
}

static void run_inside(load_t *load, crt_placement_group_t *group, int bundle)
{
    int64_t x = (int64_t)load_random(load, 1000), value = 0;
    crt_ref_t *ref =
        crt_submit(&variety_twice,
                   CRT_TASK_OPTIONS(.no_cpus = true, .resources = "spot=0.25",
                                    CRT_IN_BUNDLE(group, bundle)),
                   x);
    crt_status_t status = account_get(ref, CRT_OUT(&value));

    load_count(load, "a task in a placement group", status, crt_error_detail());
    if (status == CRT_OK && value != 2 * x)
        load_finding("wrong: twice %lld is %lld", (long long)x, (long long)value);
    crt_ref_drop(&ref);
}

static void use_group(load_t *load)
{
    crt_bundle_t bundles[BUNDLES] = {CRT_BUNDLE(.resources = "spot=0.5"),
                                     CRT_BUNDLE(.resources = "spot=0.5")};
    crt_placement_group_t *group = crt_placement_group_new(
        bundles, BUNDLES,
        CRT_PLACEMENT_GROUP_OPTIONS(.strategy = load_random(load, 2)
                                                    ? CRT_PLACEMENT_SPREAD
                                                    : CRT_PLACEMENT_PACK));
    crt_status_t status;

    load_beat(load, "crt_placement_group_wait");
    status = crt_placement_group_wait(group, GROUP_MS);
    for (int i = 0; status == CRT_OK && i < BUNDLES; i++)
        run_inside(load, group, i);
    if (status != CRT_ERR_TIMED_OUT)
        load_count(load, "a placement group", status, crt_error_detail());
    load_beat(load, "crt_placement_group_remove");
    status = crt_placement_group_remove(group);
    load_count(load, "crt_placement_group_remove", status, crt_error_detail());
    crt_placement_group_drop(&group);
}

void *variety_main(void *user)
{
    load_t *load = user;
    crt_actor_t *crowd = NULL;

    while (!atomic_load(&load_is_over) && !atomic_load(&load_is_lost)) {
        switch (load_random(load, 3)) {
        case 0: use_stream(load); break;
        case 1: use_crowd(load, &crowd); break;
        default: use_group(load);
        }
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    }
    crt_actor_drop(&crowd);
    load_beat(load, "has ended");
    return NULL;
}
