/* SPDX-License-Identifier: Apache-2.0 */
/* Replica: a step of one member's copy of a model.
 *
 * Where it sits
 *     batch -> backward pass -> buckets -> [ actors/replica.c: norms, update ] -> weights
 * Invariants
 *     `steps` and the weights change together, when nothing of the step can fail any more; so after
 *     a failure members are at most one step apart, and agree.c brings them together.
 *     With `sharded` a member updates its parts before it knows that all will get them: it keeps
 *     what they were (crti_replica_keep) until the weights are gathered.
 */
#include "actors/replica.h"
#include "runtime/base/copy_struct.h"

#include <stdlib.h>
#include <string.h>

static crt_status_t read_options(crt_replica_options_t *mine,
                                 const crt_replica_options_t *given)
{
    crt_status_t status = CRTI_COPY_STRUCT(mine, given, "CRT_REPLICA_OPTIONS");

    if (status == CRT_OK && !(mine->clip >= 0))
        status = crt_raise(CRT_ERR_INVALID, "a replica that clips to %g", mine->clip);
    return status;
}

crt_status_t crt_replica_new(crt_group_t *group, crt_model_t *model,
                             const crt_replica_options_t *options,
                             crt_replica_t **replica_out)
{
    crt_replica_options_t mine;
    crt_status_t status = read_options(&mine, options);
    crt_replica_t *r;

    if (status != CRT_OK)
        return status;
    r = calloc(1, sizeof(*r));
    if (!r)
        return crt_raise(CRT_ERR_NO_MEMORY, "replica");
    r->group = group;
    r->model = model;
    r->options = mine;
    status = crt_optimizer_new(model, mine.optimizer, &r->optimizer);
    r->options.optimizer = NULL; /* borrowed for this call only */
    if (status == CRT_OK) {
        r->squares = calloc(crt_model_arrays(model), sizeof(*r->squares));
        status = r->squares ? crti_replica_agree(r)
                            : crt_raise(CRT_ERR_NO_MEMORY, "replica of %zu arrays",
                                        crt_model_arrays(model));
    }
    if (status != CRT_OK) {
        crt_replica_drop(&r);
        return status;
    }
    *replica_out = r;
    return CRT_OK;
}

/* Of batch norms: a crt_norm_sum_t. Every member calls it at the same places of its passes, between
 * the same buckets. */
static crt_status_t sum_norms(void *replica, float *numbers, size_t count)
{
    crt_replica_t *r = replica;
    crt_tensor_t view = crt_tensor_floats(numbers, count);

    return crt_group_allreduce(r->group, &view, &view, CRT_REDUCE_SUM);
}

/* This member's gradient, averaged with those of the others. The first failure counts, but the
 * buckets are finished in any case. */
static crt_status_t average(crt_replica_t *r, const crt_batch_t *batch, double *loss_out)
{
    crt_tensor_t gradients = *crt_buckets_gradients(r->buckets);
    crt_status_t status;

    crt_model_watch_gradients(r->model, crt_buckets_seen, r->buckets);
    crt_model_sync_norms(r->model, r->options.sync_norms ? sum_norms : NULL, r);
    status = crt_model_compute_gradients(r->model, NULL, batch, &gradients, loss_out);
    crt_model_watch_gradients(r->model, NULL, NULL);
    crt_model_sync_norms(r->model, NULL, NULL);
    return status == CRT_OK ? crt_buckets_finish(r->buckets) : status;
}

/* Squares of the norms of whole arrays; with `sharded` each member has those of its parts. */
static crt_status_t measure(crt_replica_t *r)
{
    size_t count, arrays = crt_model_arrays(r->model);
    const crt_part_t *parts = crt_buckets_parts(r->buckets, &count);
    int64_t shape = (int64_t)arrays;
    crt_tensor_t squares = crt_tensor_view(CRT_DTYPE_FLOAT64, 1, &shape, r->squares);
    crt_status_t status =
        crt_optimizer_measure(r->optimizer, r->model, crt_buckets_gradients(r->buckets),
                              parts, count, r->squares);

    if (status == CRT_OK && r->options.sharded)
        status = crt_group_allreduce(r->group, &squares, &squares, CRT_REDUCE_SUM);
    return status;
}

static crt_status_t update(crt_replica_t *r)
{
    size_t count;
    const crt_part_t *parts = crt_buckets_parts(r->buckets, &count);
    crt_status_t status = r->options.sharded ? crti_replica_keep(r) : CRT_OK;

    if (status == CRT_OK)
        status = crt_optimizer_update(r->optimizer, r->model,
                                      crt_buckets_gradients(r->buckets), parts, count,
                                      r->squares, r->options.clip);
    if (status != CRT_OK) /* the same numbers, so the same on all members */
        r->has_before = false;
    else
        status = crt_buckets_gather(r->buckets, crt_model_weights(r->model));
    return status;
}

crt_status_t crt_replica_step(crt_replica_t *r, const crt_batch_t *batch,
                              double *loss_out)
{
    crt_status_t status = average(r, batch, loss_out);

    if (status == CRT_OK)
        status = measure(r);
    if (status == CRT_OK)
        status = update(r);
    if (status != CRT_OK)
        return status;
    r->has_before = false;
    r->steps++;
    return CRT_OK;
}

crt_status_t crt_replica_recover(crt_replica_t *r, int size)
{
    crt_status_t status;

    crt_buckets_drop(&r->buckets); /* waits for what is under way */
    status = crt_group_rebuild(r->group, size);
    if (status == CRT_ERR_EXISTS) /* a comparison that counts: nothing is behind */
        return crti_replica_new_buckets(r);
    return status == CRT_OK ? crti_replica_agree(r) : status;
}

/* ---------------------------------------------------------------- comparing */

/* FNV-1a over words of 64 bits, each spread before it is taken in. */
uint64_t crt_replica_hash(const crt_replica_t *r)
{
    const crt_tensor_t *weights = crt_model_weights(r->model);
    const char *at = weights->data;
    size_t bytes = crt_tensor_bytes(weights);
    uint64_t hash = 0xcbf29ce484222325u, word;

    for (size_t i = 0; i < bytes; i += sizeof(word)) {
        size_t left = bytes - i < sizeof(word) ? bytes - i : sizeof(word);

        word = 0;
        memcpy(&word, at + i, left);
        word *= 0x9e3779b97f4a7c15u;
        hash = (hash ^ word ^ word >> 32) * 0x100000001b3u;
    }
    return hash;
}

static crt_status_t compare(crt_replica_t *r)
{
    int size = crt_group_size(r->group), rank = crt_group_rank(r->group);
    int64_t one = 1, all = size, *hashes = calloc((size_t)size, sizeof(*hashes));
    crt_tensor_t own, view;
    crt_status_t status;

    if (!hashes)
        return crt_raise(CRT_ERR_NO_MEMORY, "hashes of %d replicas", size);
    hashes[rank] = (int64_t)crt_replica_hash(r);
    own = crt_tensor_view(CRT_DTYPE_INT64, 1, &one, &hashes[rank]);
    view = crt_tensor_view(CRT_DTYPE_INT64, 1, &all, hashes);
    status = crt_group_allgather(r->group, &own, &view);
    for (int i = 1; i < size && status == CRT_OK; i++)
        if (hashes[i] != hashes[0])
            status =
                crt_raise(CRT_ERR_CORRUPT,
                          "after step %llu the weights of rank %d (hash %016llx) are "
                          "not those of rank 0 (%016llx)",
                          (unsigned long long)r->steps, i, (unsigned long long)hashes[i],
                          (unsigned long long)hashes[0]);
    free(hashes);
    return status;
}

/* Whose comparison succeeded settles it: it has the hashes of all, also of those that were told
 * that a member died. These find that out when they rebuild. */
crt_status_t crt_replica_compare(crt_replica_t *r)
{
    crt_status_t status = CRT_OK;

    if (!r->compares || r->settled == crt_group_settled(r->group)) {
        r->compares = true;
        r->settled = crt_group_settled(r->group);
        status = compare(r);
        if (status == CRT_OK)
            status = crt_group_settle(r->group);
    }
    r->compares = status != CRT_OK;
    return status;
}

uint64_t crt_replica_steps(const crt_replica_t *r)
{
    return r->steps;
}

void crt_replica_set_at_end(crt_replica_t *r, bool at_end)
{
    r->options.at_end = at_end;
    if (r->buckets)
        crti_buckets_set_at_end(r->buckets, at_end);
}

void crt_replica_drop(crt_replica_t **dropped)
{
    crt_replica_t *r = *dropped;

    if (!r)
        return;
    crt_buckets_drop(&r->buckets);
    crt_optimizer_drop(&r->optimizer);
    free(r->owned);
    free(r->before);
    free(r->squares);
    free(r);
    *dropped = NULL;
}
