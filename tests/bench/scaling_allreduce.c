/* SPDX-License-Identifier: Apache-2.0 */
/* Scaling benchmark with collectives: every worker has all weights and sums gradients with the
 * others, either as the published fork did it (a blocking allreduce of each array at the moment it
 * is readable, the backward pass stands still meanwhile) or in buckets beside the backward pass. */
#include <math.h>
#include <stdlib.h>

#include <crt_actors.h>

#include "scaling_modes.h"

typedef struct worker {
    int rank, workers;
    bool overlaps;
    scaling_clock_t clock;
    crt_group_t *group;
    crt_buckets_t *buckets; /* holds the gradient */
    float *gradient, *weights;
    bool has_gradient; /* the sum of an update that is not in the weights yet */
    int64_t updates;
} worker_t;

static crt_status_t worker_create(void *self, crt_call_t *call)
{
    worker_t *w = self;
    double update_ms;

    CRT_TRY(crt_args(call, &w->rank, &w->workers, &w->overlaps, &update_ms));
    w->clock = scaling_clock(update_ms);
    w->weights = calloc(SCALING_FLOATS, sizeof(float));
    return w->weights ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "weights");
}

static void worker_destroy(void *self)
{
    worker_t *w = self;

    crt_buckets_drop(&w->buckets);
    crt_group_drop(&w->group);
    free(w->weights);
}

/* (bucket bytes) */
static crt_status_t worker_join_run(void *self, crt_call_t *call)
{
    worker_t *w = self;
    int64_t bytes;

    CRT_TRY(crt_args(call, &bytes));
    CRT_TRY(crt_group_join(w->workers, w->rank, CRT_GROUP_OPTIONS(.name = "scaling"),
                           &w->group));
    CRT_TRY(crt_buckets_new(w->group, SCALING_FLOATS,
                            CRT_BUCKETS_OPTIONS(.bucket_bytes = (size_t)bytes),
                            &w->buckets));
    w->gradient = crt_buckets_gradients(w->buckets)->data;
    return CRT_OK;
}

static crt_status_t sum_blocking(worker_t *w, const scaling_array_t *array)
{
    crt_tensor_t view = crt_tensor_floats(w->gradient + array->at, array->count);
    uint64_t start = scaling_now_ns();
    crt_status_t status = crt_group_allreduce(w->group, &view, &view, CRT_REDUCE_AVERAGE);

    scaling_clock_delay(&w->clock, scaling_now_ns() - start);
    return status;
}

/* The optimizer: part of what an update computes, so its time is in that of the forward pass. */
static void apply(worker_t *w)
{
    for (size_t i = 0; w->has_gradient && i < SCALING_FLOATS; i++)
        w->weights[i] += w->gradient[i] * (float)w->workers;
    w->has_gradient = false;
}

static crt_status_t update(worker_t *w)
{
    const scaling_array_t *arrays = scaling_arrays();
    float value = scaling_gradient(w->rank, w->updates);

    scaling_clock_start(&w->clock);
    apply(w);
    for (int i = SCALING_ARRAYS - 1; i >= 0; i--) {
        for (size_t k = 0; k < arrays[i].count; k++)
            w->gradient[arrays[i].at + k] = value;
        scaling_clock_wait(&w->clock, arrays[i].at);
        if (w->overlaps)
            crt_buckets_seen(w->buckets, arrays[i].at);
        else
            CRT_TRY(sum_blocking(w, &arrays[i]));
    }
    if (w->overlaps)
        CRT_TRY(crt_buckets_finish(w->buckets));
    w->has_gradient = true;
    w->updates++;
    return CRT_OK;
}

/* (updates) */
static crt_status_t worker_train_run(void *self, crt_call_t *call)
{
    worker_t *w = self;
    const scaling_array_t *arrays = scaling_arrays();
    int64_t updates;

    CRT_TRY(crt_args(call, &updates));
    for (int64_t i = 0; i < updates; i++)
        CRT_TRY(update(w));
    apply(w);
    for (int i = 0; i < SCALING_ARRAYS; i++)
        CRT_TRY(scaling_check(w->weights + arrays[i].at, arrays[i].count,
                              scaling_weight(w->workers, w->updates), arrays[i].name));
    return CRT_OK;
}

static const crt_method_t worker_join =
    CRT_METHOD(.name = "join", .run = worker_join_run, .signature = "int");
static const crt_method_t worker_train =
    CRT_METHOD(.name = "train", .run = worker_train_run, .signature = "int");

const crt_actor_class_t scaling_allreduce_worker =
    CRT_ACTOR_CLASS(.name = "ScalingReplica", .size = sizeof(worker_t),
                    .create = worker_create, .signature = "int, int, bool, float",
                    .destroy = worker_destroy,
                    .methods = CRT_METHODS(&worker_join, &worker_train));

static void call_all(crt_actor_t **workers, int count, const crt_method_t *method,
                     int64_t argument)
{
    crt_ref_t *refs[SCALING_HOSTS];

    for (int i = 0; i < count; i++)
        refs[i] = crt_call(workers[i], method, argument);
    for (int i = 0; i < count; i++) {
        crt_get(refs[i], NULL);
        scaling_must_ref(refs[i]);
    }
    crt_refs_drop(refs, (size_t)count);
}

scaling_time_t scaling_run_allreduce(const scaling_options_t *o)
{
    crt_actor_t *workers[SCALING_HOSTS];
    bool overlaps = o->mode == SCALING_OVERLAPPED;
    scaling_time_t start, took;

    for (int i = 0; i < o->workers; i++)
        workers[i] = crt_actor_new(&scaling_allreduce_worker, scaling_place(i), i,
                                   o->workers, overlaps, o->update_ms);
    call_all(workers, o->workers, &worker_join, (int64_t)o->bucket_bytes);
    call_all(workers, o->workers, &worker_train, o->warm_up);
    start = scaling_time_now();
    call_all(workers, o->workers, &worker_train, o->updates);
    took = scaling_time_since(start);
    for (int i = 0; i < o->workers; i++)
        crt_actor_drop(&workers[i]);
    return took;
}
