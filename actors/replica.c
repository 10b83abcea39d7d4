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
 * On a GPU
 *     The gradient stays where the model has it and is summed there, by a group of the backend
 *     "nccl"; the optimizer makes a step as a whole, and says one step later that it did not.
 *     By way of the host (`there`): a second model on the GPU computes the passes alone. Weights go
 *     there before each of them, and the gradient comes back behind it.
 */
#include "actors/replica.h"
#include "runtime/base/copy_struct.h"

#include <crt_ml_gpu.h>

#include <stdlib.h>
#include <string.h>

crt_status_t crti_replica_read(const crt_replica_t *r, const crt_tensor_t *from,
                               float *host)
{
    crt_tensor_t to = crt_tensor_floats(host, crt_tensor_count(from));

    return crt_model_copy_tensor(r->model, from, &to);
}

crt_status_t crti_replica_write(const crt_replica_t *r, const crt_tensor_t *to,
                                const float *host)
{
    crt_tensor_t from = crt_tensor_floats((float *)host, crt_tensor_count(to));
    crt_tensor_t there = *to;

    return crt_model_copy_tensor(r->model, &from, &there);
}

static bool is_on_gpu(const crt_replica_t *r)
{
    return crt_model_gpu(r->model) != CRT_NO_GPU;
}

/* ---------------------------------------------------------------- making */

static crt_status_t read_options(crt_replica_options_t *mine,
                                 const crt_replica_options_t *given)
{
    crt_status_t status = CRTI_COPY_STRUCT(mine, given, "CRT_REPLICA_OPTIONS");

    if (status == CRT_OK && !(mine->clip >= 0))
        status = crt_raise(CRT_ERR_INVALID, "a replica that clips to %g", mine->clip);
    if (status == CRT_OK && mine->checkpoint && !mine->network)
        status = crt_raise(CRT_ERR_INVALID,
                           "a replica with a checkpoint and no name of its network");
    return status;
}

/* Clips as `clip` says also where the optimizer makes its step as a whole. */
static crt_status_t new_optimizer(crt_replica_t *r)
{
    crt_optimizer_options_t mine = crt_adam_options(0.001);
    crt_status_t status = r->options.optimizer
                              ? CRTI_COPY_STRUCT(&mine, r->options.optimizer,
                                                 "crt_adam_options and its like")
                              : CRT_OK;

    if (status == CRT_OK && is_on_gpu(r) && r->options.clip > 0)
        mine.global_clip = r->options.clip;
    if (status == CRT_OK)
        status = crt_optimizer_new(r->model, &mine, &r->optimizer);
    if (status == CRT_OK)
        r->rule_states = crt_optimizer_states(r->optimizer) - (mine.lookahead_steps > 0) -
                         mine.use_averages;
    return status;
}

static crt_status_t check_gpu(crt_replica_t *r)
{
    size_t floats = crt_model_parameters(r->model);

    if (!is_on_gpu(r))
        return CRT_OK;
    if (r->options.sharded || r->options.bfloat16 || r->options.sync_norms)
        return crt_raise(CRT_ERR_UNSUPPORTED,
                         "a replica on a GPU: neither a sharded optimizer, nor gradients "
                         "as bfloat16, nor batch norms over all members");
    if (strcmp(crt_group_backend(r->group), "nccl") != 0)
        return crt_raise(CRT_ERR_INVALID,
                         "a replica on a GPU needs a group of the backend nccl, this is "
                         "%s",
                         crt_group_backend(r->group));
    r->host = malloc(floats * sizeof(float));
    return r->host ? CRT_OK
                   : crt_raise(CRT_ERR_NO_MEMORY, "host memory for %zu floats", floats);
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
    status = check_gpu(r);
    if (status == CRT_OK)
        status = new_optimizer(r);
    if (status == CRT_OK && mine.checkpoint)
        status = crti_replica_resume(r, mine.checkpoint, mine.network);
    r->options.optimizer = NULL; /* borrowed for this call only */
    r->options.checkpoint = r->options.network = NULL;
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

/* ---------------------------------------------------------------- by way of the host */

void crti_replica_compute_on(crt_replica_t *r, crt_model_t *there)
{
    r->there = there;
}

crt_status_t crti_replica_send(crt_replica_t *r)
{
    const crt_tensor_t *own = crt_model_statistics(r->model);
    crt_tensor_t statistics;
    crt_status_t status;

    if (!r->there)
        return CRT_OK;
    status = crt_model_set_weights(r->there, crt_model_weights(r->model));
    if (status != CRT_OK || crt_tensor_count(own) == 0)
        return status;
    statistics = *crt_model_statistics(r->there);
    return crt_model_copy_tensor(r->there, own, &statistics);
}

static crt_status_t pass_there(crt_replica_t *r, const crt_batch_t *batch,
                               crt_tensor_t *gradients, double *loss_out)
{
    crt_tensor_t statistics = *crt_model_statistics(r->model);
    crt_status_t status = crti_replica_send(r);

    if (status == CRT_OK)
        status = crt_model_compute_gradients(r->there, NULL, batch, NULL, loss_out);
    if (status == CRT_OK)
        status =
            crt_model_copy_tensor(r->there, crt_model_gradients(r->there), gradients);
    if (status == CRT_OK && crt_tensor_count(&statistics) > 0)
        status =
            crt_model_copy_tensor(r->there, crt_model_statistics(r->there), &statistics);
    return status;
}

/* ---------------------------------------------------------------- gradients */

/* A pass of training, whose gradient `seen` watches. */
static crt_status_t pass(crt_replica_t *r, const crt_batch_t *batch,
                         crt_gradients_seen_t *seen, crt_tensor_t *gradients,
                         double *loss_out)
{
    crt_status_t status;

    if (r->there) {
        status = pass_there(r, batch, gradients, loss_out);
        if (status == CRT_OK && seen)
            seen(r, 0);
        return status;
    }
    crt_model_watch_gradients(r->model, seen, r);
    crt_model_sync_norms(r->model, r->options.sync_norms ? sum_norms : NULL, r);
    status = crt_model_compute_gradients(r->model, NULL, batch, gradients, loss_out);
    crt_model_watch_gradients(r->model, NULL, NULL);
    crt_model_sync_norms(r->model, NULL, NULL);
    return status;
}

crt_status_t crt_replica_accumulate(crt_replica_t *r, const crt_batch_t *batch,
                                    double *loss_out)
{
    crt_tensor_t gradients = *crt_buckets_gradients(r->buckets);
    size_t count = crt_model_parameters(r->model);
    const float *from = r->host ? r->host : gradients.data;
    crt_status_t status;

    if (!r->held)
        r->held = malloc(count * sizeof(float));
    if (!r->held)
        return crt_raise(CRT_ERR_NO_MEMORY, "gradient of %zu floats", count);
    status = pass(r, batch, NULL, &gradients, loss_out);
    if (status == CRT_OK && r->host)
        status = crti_replica_read(r, &gradients, r->host);
    if (status != CRT_OK) {
        r->held_count = 0;
        return status;
    }
    if (r->held_count == 0)
        memcpy(r->held, from, count * sizeof(float));
    for (size_t i = 0; i < count && r->held_count > 0; i++)
        r->held[i] += from[i];
    r->held_count++;
    return CRT_OK;
}

/* Adds what is held to the gradient from float `first` on, as far as that was not done yet. */
static void add_held(crt_replica_t *r, float *gradient, size_t first)
{
    float share = 1.0f / (float)(r->held_count + 1);

    for (size_t i = first; i < r->final && r->held_count > 0; i++)
        gradient[i] = (gradient[i] + r->held[i]) * share;
    r->final = first < r->final ? first : r->final;
}

/* Of the last batch of a step: the floats that have become final get those that were held, before
 * their buckets are summed. */
static void seen(void *replica, size_t first)
{
    crt_replica_t *r = replica;

    if (!is_on_gpu(r))
        add_held(r, crt_buckets_gradients(r->buckets)->data, first);
    crt_buckets_seen(r->buckets, first);
}

/* On a GPU after the pass, by way of the host. */
static crt_status_t add_held_there(crt_replica_t *r, const crt_tensor_t *gradients)
{
    crt_status_t status = crti_replica_read(r, gradients, r->host);

    if (status != CRT_OK)
        return status;
    add_held(r, r->host, 0);
    return crti_replica_write(r, gradients, r->host);
}

/* This member's gradient, averaged with those of the others. The first failure counts, but the
 * buckets are finished in any case. */
static crt_status_t average(crt_replica_t *r, const crt_batch_t *batch, double *loss_out)
{
    crt_tensor_t gradients = *crt_buckets_gradients(r->buckets);
    bool adds_there = is_on_gpu(r) && r->held_count > 0;
    crt_status_t status;

    r->final = crt_model_parameters(r->model);
    status = pass(r, batch, adds_there ? NULL : seen, &gradients, loss_out);
    if (status == CRT_OK && adds_there)
        status = add_held_there(r, &gradients);
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
    uint64_t batches = (uint64_t)crt_group_size(r->group) * (uint64_t)(r->held_count + 1);

    r->held_count = 0;
    if (status == CRT_OK && !is_on_gpu(r))
        status = measure(r);
    if (status == CRT_OK)
        status = is_on_gpu(r) ? crt_optimizer_step(r->optimizer, r->model) : update(r);
    if (status != CRT_OK)
        return status;
    r->has_before = false;
    r->steps++;
    r->batches += batches;
    return CRT_OK;
}

crt_status_t crt_replica_recover(crt_replica_t *r, int size)
{
    crt_status_t status;

    crt_buckets_drop(&r->buckets); /* waits for what is under way */
    r->held_count = 0;
    status = crt_group_rebuild(r->group, size);
    if (status == CRT_ERR_EXISTS) /* a comparison that counts: nothing is behind */
        return crti_replica_new_buckets(r);
    return status == CRT_OK ? crti_replica_agree(r) : status;
}

/* ---------------------------------------------------------------- comparing */

/* FNV-1a over words of 64 bits, each spread before it is taken in. */
uint64_t crti_replica_hash_floats(const crt_tensor_t *weights, size_t count)
{
    const char *at = weights->data;
    size_t bytes = count * sizeof(float);
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

static crt_status_t hash_weights(const crt_replica_t *r, uint64_t *hash_out)
{
    const crt_tensor_t *weights = crt_model_weights(r->model);
    size_t count = crt_model_parameters(r->model);
    crt_tensor_t copy;

    if (is_on_gpu(r)) {
        CRT_TRY(crti_replica_read(r, weights, r->host));
        copy = crt_tensor_floats(r->host, count);
        weights = &copy;
    }
    *hash_out = crti_replica_hash_floats(weights, count);
    return CRT_OK;
}

uint64_t crt_replica_hash(const crt_replica_t *r)
{
    uint64_t hash = 0;

    return hash_weights(r, &hash) == CRT_OK ? hash : 0;
}

crt_status_t crti_replica_average_statistics(crt_replica_t *r)
{
    const crt_tensor_t *statistics = crt_model_statistics(r->model);

    if (crt_tensor_count(statistics) == 0 || r->options.sync_norms)
        return CRT_OK;
    return crt_group_allreduce(r->group, statistics, statistics, CRT_REDUCE_AVERAGE);
}

/* A number that all members should have: `own` of this one, called `what`. */
static crt_status_t compare(crt_replica_t *r, uint64_t number, const char *what)
{
    int size = crt_group_size(r->group), rank = crt_group_rank(r->group);
    int64_t one = 1, all = size, *hashes = calloc((size_t)size, sizeof(*hashes));
    crt_tensor_t own, view;
    crt_status_t status;

    if (!hashes)
        return crt_raise(CRT_ERR_NO_MEMORY, "hashes of %d replicas", size);
    hashes[rank] = (int64_t)number;
    own = crt_tensor_view(CRT_DTYPE_INT64, 1, &one, &hashes[rank]);
    view = crt_tensor_view(CRT_DTYPE_INT64, 1, &all, hashes);
    status = crt_group_allgather(r->group, &own, &view);
    for (int i = 1; i < size && status == CRT_OK; i++)
        if (hashes[i] != hashes[0])
            status =
                crt_raise(CRT_ERR_CORRUPT,
                          "after step %llu the %s of rank %d (%016llx) are not those "
                          "of rank 0 (%016llx)",
                          (unsigned long long)r->steps, what, i,
                          (unsigned long long)hashes[i], (unsigned long long)hashes[0]);
    free(hashes);
    return status;
}

/* Whose comparison succeeded settles it: it has the hashes of all, also of those that were told
 * that a member died. These find that out when they rebuild. */
static crt_status_t settle(crt_replica_t *r, bool weights)
{
    crt_status_t status = CRT_OK;
    uint64_t number = r->steps;

    if (!r->compares || r->settled == crt_group_settled(r->group)) {
        r->compares = true;
        r->settled = crt_group_settled(r->group);
        if (weights)
            status = hash_weights(r, &number);
        if (status == CRT_OK)
            status = compare(r, number, weights ? "weights" : "steps");
        if (status == CRT_OK)
            status = crt_group_settle(r->group);
    }
    r->compares = status != CRT_OK;
    return status;
}

crt_status_t crt_replica_compare(crt_replica_t *r)
{
    return settle(r, true);
}

crt_status_t crti_replica_meet(crt_replica_t *r)
{
    return settle(r, false);
}

uint64_t crt_replica_steps(const crt_replica_t *r)
{
    return r->steps;
}

uint64_t crt_replica_batches(const crt_replica_t *r)
{
    return r->batches;
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
    free(r->held);
    free(r->host);
    free(r->squares);
    free(r);
    *dropped = NULL;
}
