/* SPDX-License-Identifier: Apache-2.0 */
/* Agree: gives all members of a group the same weights, steps and optimizer state.
 *
 *     all: "I have made s steps" -> the lowest rank with the most steps is the source
 *     weights: broadcast by the source
 *     state:   broadcast by the source; sharded: each part by whoever kept it
 *     statistics of batch norms: broadcast by the source, taken by newcomers
 *
 * Where it sits
 *     join, rebuild -> [ actors/agree.c ] -> steps
 * Invariants
 *     A sharded step that was not agreed on is undone here, unless the source has finished it: then
 *     every member had updated its parts, and they stand.
 * Failure
 *     When the group fails meanwhile the replica stays as it is and agrees again after the next
 *     rebuild. Members that came to the end and members that did not may meet then.
 */
#include <stdlib.h>
#include <string.h>

#include <crt_ml_gpu.h>

#include "actors/replica.h"

/* Floats that are exchanged at a time: of a sharded state; of anything, on GPUs. */
#define CHUNK     ((size_t)1 << 18)
#define GPU_CHUNK ((size_t)1 << 22)

/* ---------------------------------------------------------------- undoing a step */

/* Calls `move` with the places of all own parts in weights and states, and in `before`. */
static void each_part(crt_replica_t *r,
                      void (*move)(float *value, float *before, size_t count))
{
    int states = crt_optimizer_states(r->optimizer);
    float *before = r->before;

    for (int s = -1; s < states; s++) {
        const crt_tensor_t *values =
            s < 0 ? crt_model_weights(r->model) : crt_optimizer_state(r->optimizer, s);

        for (size_t i = 0; i < r->owned_count; i++) {
            move((float *)values->data + r->owned[i].first, before, r->owned[i].count);
            before += r->owned[i].count;
        }
    }
}

static void keep_part(float *value, float *before, size_t count)
{
    memcpy(before, value, count * sizeof(float));
}

static void restore_part(float *value, float *before, size_t count)
{
    memcpy(value, before, count * sizeof(float));
}

crt_status_t crti_replica_keep(crt_replica_t *r)
{
    size_t floats = 0;

    if (!r->before) { /* as large as the own parts, which change in take_over only */
        for (size_t i = 0; i < r->owned_count; i++)
            floats += r->owned[i].count;
        floats *= 1 + (size_t)crt_optimizer_states(r->optimizer);
        r->before = malloc((floats + 1) * sizeof(float));
        if (!r->before)
            return crt_raise(CRT_ERR_NO_MEMORY, "copy of %zu floats", floats);
    }
    each_part(r, keep_part);
    r->has_before = true;
    return CRT_OK;
}

static void restore(crt_replica_t *r)
{
    each_part(r, restore_part);
    crt_optimizer_set_steps(r->optimizer, crt_optimizer_steps(r->optimizer) - 1);
    r->has_before = false;
}

/* ---------------------------------------------------------------- who is ahead */

/* The member that all become like, and how far it is. */
typedef struct source {
    int rank;
    uint64_t steps, batches;
} source_t;

static crt_status_t find_source(crt_replica_t *r, source_t *source)
{
    int size = crt_group_size(r->group), rank = crt_group_rank(r->group), best = 0;
    int64_t two = 2, all = 2 * (int64_t)size;
    int64_t(*made)[2] = calloc((size_t)size, sizeof(*made)); /* steps, batches */
    crt_tensor_t own, view;
    crt_status_t status;

    if (!made)
        return crt_raise(CRT_ERR_NO_MEMORY, "steps of %d replicas", size);
    made[rank][0] = (int64_t)r->steps;
    made[rank][1] = (int64_t)r->batches;
    own = crt_tensor_view(CRT_DTYPE_INT64, 1, &two, made[rank]);
    view = crt_tensor_view(CRT_DTYPE_INT64, 1, &all, made);
    status = crt_group_allgather(r->group, &own, &view);
    for (int i = 1; i < size; i++)
        if (made[i][0] > made[best][0])
            best = i;
    *source = (source_t){best, (uint64_t)made[best][0], (uint64_t)made[best][1]};
    free(made);
    return status;
}

/* ---------------------------------------------------------------- what is exchanged */

/* Weights and states as they will be: nothing of the replica changes before all of it is here. */
typedef struct fresh {
    float *values[1 + CRT_OPTIMIZER_STATES_MAX]; /* weights, then the states */
    int count;
    float *statistics; /* of batch norms */
} fresh_t;

static const crt_tensor_t *current(crt_replica_t *r, int index)
{
    return index == 0 ? crt_model_weights(r->model)
                      : crt_optimizer_state(r->optimizer, index - 1);
}

static void fresh_fini(fresh_t *fresh)
{
    for (int i = 0; i < fresh->count; i++)
        free(fresh->values[i]);
    free(fresh->statistics);
}

static crt_status_t fresh_init(fresh_t *fresh, const crt_replica_t *r)
{
    size_t floats = crt_model_parameters(r->model);

    *fresh = (fresh_t){.count = 1 + crt_optimizer_states(r->optimizer)};
    for (int i = 0; i < fresh->count; i++) {
        fresh->values[i] = calloc(floats, sizeof(float));
        if (!fresh->values[i])
            return crt_raise(CRT_ERR_NO_MEMORY, "copy of %zu floats", floats);
    }
    floats = crt_tensor_count(crt_model_statistics(r->model));
    fresh->statistics = calloc(floats + 1, sizeof(float));
    return fresh->statistics ? CRT_OK
                             : crt_raise(CRT_ERR_NO_MEMORY, "%zu statistics", floats);
}

static crt_status_t broadcast_statistics(crt_replica_t *r, fresh_t *fresh, int source)
{
    const crt_tensor_t *own = crt_model_statistics(r->model);
    crt_tensor_t view = crt_tensor_floats(fresh->statistics, crt_tensor_count(own));
    crt_status_t status;

    if (crt_tensor_count(own) == 0)
        return CRT_OK;
    status = crti_replica_read(r, own, fresh->statistics);
    return status == CRT_OK ? crt_group_broadcast(r->group, &view, source) : status;
}

/* For a group on GPUs in chunks, since it takes as much memory there as is sent at once. */
static crt_status_t broadcast(crt_replica_t *r, fresh_t *fresh, int index, int source)
{
    size_t floats = crt_model_parameters(r->model);
    size_t most = crt_model_gpu(r->model) == CRT_NO_GPU ? floats : GPU_CHUNK;
    crt_status_t status = CRT_OK;

    if (crt_group_rank(r->group) == source)
        status = crti_replica_read(r, current(r, index), fresh->values[index]);
    for (size_t at = 0; at < floats && status == CRT_OK; at += most) {
        size_t count = floats - at < most ? floats - at : most;
        crt_tensor_t view = crt_tensor_floats(fresh->values[index] + at, count);

        status = crt_group_broadcast(r->group, &view, source);
    }
    return status;
}

/* Calls for every run of floats in [at, at + count) that lies in one of the parts. */
typedef void visit_t(size_t at, size_t count, float *values, float *chunk);

static void visit(const crt_part_t *parts, size_t part_count, size_t at, size_t count,
                  visit_t *to, float *values, float *chunk)
{
    for (size_t i = 0; i < part_count; i++) {
        size_t end = parts[i].first + parts[i].count;
        size_t from = parts[i].first > at ? parts[i].first : at;

        end = end < at + count ? end : at + count;
        if (from < end)
            to(from, end - from, values, chunk + 2 * (from - at));
    }
}

/* In the chunk every float is followed by the number of members that keep it. */
static void put_in(size_t at, size_t count, float *values, float *chunk)
{
    for (size_t i = 0; i < count; i++) {
        chunk[2 * i] = values[at + i];
        chunk[2 * i + 1] = 1;
    }
}

static void take_out(size_t at, size_t count, float *values, float *chunk)
{
    for (size_t i = 0; i < count; i++)
        if (chunk[2 * i + 1] > 0)
            values[at + i] = chunk[2 * i] / chunk[2 * i + 1];
}

/* A float of a sharded state is kept by one member; by two, if one of them did not come to the end
 * of the last agreement; or by none, if that one died: then it begins anew, with zero, or with the
 * weight when it is a slow weight or an average of a training that has begun. */
static crt_status_t share_state(crt_replica_t *r, fresh_t *fresh, int index,
                                bool has_begun, const crt_part_t *parts,
                                size_t part_count)
{
    size_t floats = crt_model_parameters(r->model);
    float *chunk = malloc(2 * CHUNK * sizeof(float));
    crt_status_t status = chunk ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "state");

    if (index > r->rule_states && has_begun)
        memcpy(fresh->values[index], fresh->values[0], floats * sizeof(float));
    for (size_t at = 0; at < floats && status == CRT_OK; at += CHUNK) {
        size_t size = floats - at < CHUNK ? floats - at : CHUNK;
        crt_tensor_t view = crt_tensor_floats(chunk, 2 * size);

        memset(chunk, 0, 2 * size * sizeof(float));
        visit(r->owned, r->owned_count, at, size, put_in, current(r, index)->data, chunk);
        status = crt_group_allreduce(r->group, &view, &view, CRT_REDUCE_SUM);
        if (status == CRT_OK)
            visit(parts, part_count, at, size, take_out, fresh->values[index], chunk);
    }
    free(chunk);
    return status;
}

/* ---------------------------------------------------------------- agreement */

crt_status_t crti_replica_new_buckets(crt_replica_t *r)
{
    const crt_buckets_options_t *options =
        CRT_BUCKETS_OPTIONS(.bucket_bytes = r->options.bucket_bytes,
                            .at_end = r->options.at_end, .bfloat16 = r->options.bfloat16,
                            .scatter = r->options.sharded);

    crt_buckets_drop(&r->buckets);
    r->buckets = NULL;
    if (crt_model_gpu(r->model) != CRT_NO_GPU)
        return crti_buckets_new_at(r->group, crt_model_gradients(r->model), options,
                                   &r->buckets);
    return crt_buckets_new(r->group, crt_model_parameters(r->model), options,
                           &r->buckets);
}

static crt_status_t receive(crt_replica_t *r, fresh_t *fresh, const source_t *source)
{
    size_t count;
    const crt_part_t *parts = crt_buckets_parts(r->buckets, &count);
    crt_status_t status = broadcast(r, fresh, 0, source->rank);

    for (int i = 1; i < fresh->count && status == CRT_OK; i++)
        status = r->options.sharded
                     ? share_state(r, fresh, i, source->steps > 0, parts, count)
                     : broadcast(r, fresh, i, source->rank);
    return status == CRT_OK ? broadcast_statistics(r, fresh, source->rank) : status;
}

/* Weights, the own parts of the states, and of a new one the statistics: the others keep those of
 * their batches. On the host it can't fail. */
static crt_status_t write_fresh(crt_replica_t *r, const fresh_t *fresh)
{
    const crt_tensor_t *statistics = crt_model_statistics(r->model);
    crt_status_t status = crti_replica_write(r, current(r, 0), fresh->values[0]);

    if (status == CRT_OK && r->steps == 0 && crt_tensor_count(statistics) > 0)
        status = crti_replica_write(r, statistics, fresh->statistics);
    for (int i = 1; i < fresh->count; i++)
        for (size_t k = 0; k < r->owned_count && status == CRT_OK; k++) {
            crt_part_t own = r->owned[k];
            crt_tensor_t to = crti_replica_part(current(r, i), own.first, own.count);

            if (own.count > 0)
                status = crti_replica_write(r, &to, fresh->values[i] + own.first);
        }
    return status;
}

/* Takes over what was received; can't fail half way, unless the GPU does. */
static crt_status_t take_over(crt_replica_t *r, const fresh_t *fresh,
                              const source_t *source)
{
    size_t count;
    const crt_part_t *parts = crt_buckets_parts(r->buckets, &count);
    crt_part_t *owned = malloc(count * sizeof(*owned));
    crt_status_t status;

    if (!owned)
        return crt_raise(CRT_ERR_NO_MEMORY, "%zu parts", count);
    memcpy(owned, parts, count * sizeof(*owned));
    free(r->owned);
    free(r->before);
    r->owned = owned;
    r->owned_count = count;
    r->before = NULL;
    r->has_before = false;
    status = write_fresh(r, fresh);
    if (status != CRT_OK)
        return status;
    r->steps = source->steps;
    r->batches = source->batches;
    crt_optimizer_set_steps(r->optimizer, r->steps);
    return CRT_OK;
}

crt_status_t crti_replica_agree(crt_replica_t *r)
{
    fresh_t fresh = {.count = 0};
    source_t source;
    crt_status_t status = crti_replica_new_buckets(r);

    if (status == CRT_OK)
        status = find_source(r, &source);
    if (status != CRT_OK)
        return status;
    if (r->has_before && source.steps == r->steps)
        restore(r);
    status = fresh_init(&fresh, r);
    if (status == CRT_OK)
        status = receive(r, &fresh, &source);
    if (status == CRT_OK)
        status = take_over(r, &fresh, &source);
    fresh_fini(&fresh);
    return status;
}
