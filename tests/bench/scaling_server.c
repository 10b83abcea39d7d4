/* SPDX-License-Identifier: Apache-2.0 */
/* Scaling benchmark with parameter servers: one, or one on each host that holds a part of each
 * bucket. The driver hands refs around, as train_mnist does; a worker's gradient comes in one call
 * per bucket and server, which ends when that bucket is readable. */
#include <stdlib.h>
#include <string.h>

#include "scaling_modes.h"

/* Part `shard` of a bucket. */
static scaling_bucket_t part_of(scaling_bucket_t bucket, int shard, int shards)
{
    size_t from = bucket.count * (size_t)shard / (size_t)shards;
    size_t to = bucket.count * (size_t)(shard + 1) / (size_t)shards;

    return (scaling_bucket_t){bucket.at + from, to - from};
}

static crt_status_t new_floats(size_t count, crt_object_t **object_out,
                               float **floats_out)
{
    int64_t shape = (int64_t)count;
    crt_tensor_t view;
    crt_status_t status =
        crt_object_create(CRT_DTYPE_FLOAT32, 1, &shape, object_out, &view);

    if (status == CRT_OK)
        *floats_out = view.data;
    return status;
}

/* ---------------------------------------------------------------- server */

typedef struct server {
    int shard, shards, bucket_count;
    size_t count;   /* floats of this server */
    float *weights; /* of all floats only its parts are used */
    scaling_bucket_t buckets[SCALING_ARRAYS];
} server_t;

static crt_status_t server_create(void *self, crt_call_t *call)
{
    server_t *s = self;
    int64_t bytes;

    CRT_TRY(crt_args(call, &s->shard, &s->shards, &bytes));
    s->bucket_count = scaling_buckets((size_t)bytes, s->buckets);
    for (int b = 0; b < s->bucket_count; b++)
        s->count += part_of(s->buckets[b], s->shard, s->shards).count;
    s->weights = calloc(SCALING_FLOATS, sizeof(float));
    return s->weights ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "weights");
}

static void server_destroy(void *self)
{
    free(((server_t *)self)->weights);
}

/* All of this server's weights, one part behind the other. */
static crt_status_t return_weights(const server_t *s, crt_call_t *call)
{
    crt_object_t *object;
    float *out = NULL;

    CRT_TRY(new_floats(s->count, &object, &out));
    for (int b = 0; b < s->bucket_count; b++) {
        scaling_bucket_t part = part_of(s->buckets[b], s->shard, s->shards);

        memcpy(out, s->weights + part.at, part.count * sizeof(float));
        out += part.count;
    }
    return crt_return(call, object);
}

/* (bucket, gradient, ...) -> of the last bucket of an update the new weights */
static crt_status_t server_apply_run(void *self, crt_call_t *call)
{
    server_t *s = self;
    scaling_bucket_t part;
    float *weights;
    int bucket;

    CRT_TRY(crt_arg_at(call, 0, &bucket));
    part = part_of(s->buckets[bucket], s->shard, s->shards);
    weights = s->weights + part.at;
    for (size_t i = 1; i < crt_arg_count(call); i++) {
        const crt_tensor_t *gradient;
        const float *from;

        CRT_TRY(crt_arg_at(call, i, &gradient));
        if (crt_tensor_count(gradient) != part.count)
            return crt_raise(CRT_ERR_INVALID, "a gradient of %zu floats, not %zu",
                             crt_tensor_count(gradient), part.count);
        from = gradient->data;
        for (size_t k = 0; k < part.count; k++)
            weights[k] += from[k];
    }
    return bucket == s->bucket_count - 1 ? return_weights(s, call) : CRT_OK;
}

static const crt_method_t server_apply =
    CRT_METHOD(.name = "apply", .run = server_apply_run, .signature = "int, tensor...");

const crt_actor_class_t scaling_server =
    CRT_ACTOR_CLASS(.name = "ScalingServer", .size = sizeof(server_t),
                    .create = server_create, .signature = "int, int, int",
                    .destroy = server_destroy, .methods = CRT_METHODS(&server_apply));

/* ---------------------------------------------------------------- worker */

typedef struct worker {
    int rank, workers, shards, bucket_count;
    scaling_clock_t clock;
    scaling_bucket_t buckets[SCALING_ARRAYS];
} worker_t;

static crt_status_t worker_create(void *self, crt_call_t *call)
{
    worker_t *w = self;
    int64_t bytes;
    double update_ms;

    CRT_TRY(crt_args(call, &w->rank, &w->workers, &w->shards, &bytes, &update_ms));
    w->clock = scaling_clock(update_ms);
    w->bucket_count = scaling_buckets((size_t)bytes, w->buckets);
    return CRT_OK;
}

/* (update, bucket, shard, weights...) -> gradient. The first call of an update brings the weights,
 * none before the first update. */
static crt_status_t worker_gradient_run(void *self, crt_call_t *call)
{
    worker_t *w = self;
    scaling_bucket_t part;
    crt_object_t *object;
    float *out = NULL, value;
    int64_t update;
    int bucket, shard;

    CRT_TRY(crt_arg_at(call, 0, &update));
    CRT_TRY(crt_arg_at(call, 1, &bucket));
    CRT_TRY(crt_arg_at(call, 2, &shard));
    if (bucket == 0 && shard == 0)
        scaling_clock_start(&w->clock);
    for (size_t i = 3; i < crt_arg_count(call); i++) {
        const crt_tensor_t *weights;

        CRT_TRY(crt_arg_at(call, i, &weights));
        CRT_TRY(scaling_check(weights->data, crt_tensor_count(weights),
                              scaling_weight(w->workers, update), "weights"));
    }
    part = part_of(w->buckets[bucket], shard, w->shards);
    CRT_TRY(new_floats(part.count, &object, &out));
    value = scaling_gradient(w->rank, update);
    for (size_t i = 0; i < part.count; i++)
        out[i] = value;
    scaling_clock_wait(&w->clock, w->buckets[bucket].at);
    return crt_return(call, object);
}

static const crt_method_t worker_gradient =
    CRT_METHOD(.name = "gradient", .run = worker_gradient_run,
               .signature = "int, int, int, tensor...");

const crt_actor_class_t scaling_server_worker =
    CRT_ACTOR_CLASS(.name = "ScalingWorker", .size = sizeof(worker_t),
                    .create = worker_create, .signature = "int, int, int, int, float",
                    .methods = CRT_METHODS(&worker_gradient));

/* ---------------------------------------------------------------- driver */

typedef struct run {
    const scaling_options_t *options;
    int shards, buckets;
    crt_actor_t *workers[SCALING_HOSTS], *servers[SCALING_HOSTS];
    crt_ref_t *weights[SCALING_HOSTS]; /* of each server */
    size_t weight_count;
} run_t;

static void start_actors(run_t *r)
{
    const scaling_options_t *o = r->options;

    for (int i = 0; i < o->workers; i++)
        r->workers[i] =
            crt_actor_new(&scaling_server_worker, scaling_place(i), i, o->workers,
                          r->shards, (int64_t)o->bucket_bytes, o->update_ms);
    for (int i = 0; i < r->shards; i++)
        r->servers[i] = crt_actor_new(&scaling_server, scaling_place(i), i, r->shards,
                                      (int64_t)o->bucket_bytes);
    for (int i = 0; i < o->workers; i++)
        scaling_must(crt_actor_ready(r->workers[i], 60000), "worker");
    for (int i = 0; i < r->shards; i++)
        scaling_must(crt_actor_ready(r->servers[i], 60000), "server");
}

/* All calls of one update; nothing is waited for. */
static void submit(run_t *r, int64_t update)
{
    crt_ref_t *gradients[SCALING_HOSTS], *next[SCALING_HOSTS];
    size_t n = (size_t)r->options->workers, count = 0;

    for (int b = 0; b < r->buckets; b++)
        for (int s = 0; s < r->shards; s++) {
            bool first = b == 0 && s == 0;
            crt_arg_t weights = crt_arg_each(r->weights, first ? r->weight_count : 0);

            for (size_t k = 0; k < n; k++)
                gradients[k] =
                    crt_call(r->workers[k], &worker_gradient, update, b, s, weights);
            if (b == r->buckets - 1)
                next[count++] =
                    crt_call(r->servers[s], &server_apply, b, crt_arg_each(gradients, n));
            else /* what fails shows in the weights */
                scaling_must(
                    crt_tell(r->servers[s], &server_apply, b, crt_arg_each(gradients, n)),
                    "apply");
            crt_refs_drop(gradients, n);
        }
    crt_refs_drop(r->weights, r->weight_count);
    memcpy(r->weights, next, count * sizeof(next[0]));
    r->weight_count = count;
}

static void wait_all(crt_ref_t **refs, size_t count)
{
    static size_t ready[SCALING_HOSTS];
    size_t ready_count;

    scaling_must(crt_wait(refs, count, count, 120000, ready, &ready_count), "update");
    for (size_t i = 0; i < count; i++)
        scaling_must_ref(refs[i]);
}

/* At most two updates are under way: the calls of one are made while the other is computed. */
static void updates(run_t *r, int64_t from, int64_t to)
{
    crt_ref_t *before[SCALING_HOSTS] = {NULL};
    size_t count = 0;

    for (int64_t u = from; u < to; u++) {
        submit(r, u);
        wait_all(before, count);
        crt_refs_drop(before, count);
        count = r->weight_count;
        for (size_t i = 0; i < count; i++)
            before[i] = crt_ref_keep(r->weights[i]);
    }
    wait_all(before, count);
    crt_refs_drop(before, count);
}

static void check_weights(run_t *r)
{
    int64_t updates = r->options->warm_up + r->options->updates;

    for (size_t i = 0; i < r->weight_count; i++) {
        const crt_tensor_t *weights = NULL;

        scaling_must(crt_get(r->weights[i], &weights), "weights");
        scaling_must(scaling_check(weights->data, crt_tensor_count(weights),
                                   scaling_weight(r->options->workers, updates),
                                   "weights"),
                     "at the end");
    }
}

scaling_time_t scaling_run_servers(const scaling_options_t *options)
{
    run_t r = {.options = options};
    scaling_bucket_t buckets[SCALING_ARRAYS];
    scaling_time_t start, took;

    r.shards = options->mode == SCALING_SERVER ? 1 : options->workers;
    r.buckets = scaling_buckets(options->bucket_bytes, buckets);
    start_actors(&r);
    updates(&r, 0, options->warm_up);
    start = scaling_time_now();
    updates(&r, options->warm_up, options->warm_up + options->updates);
    took = scaling_time_since(start);
    check_weights(&r);
    crt_refs_drop(r.weights, r.weight_count);
    for (int i = 0; i < options->workers; i++)
        crt_actor_drop(&r.workers[i]);
    for (int i = 0; i < r.shards; i++)
        crt_actor_drop(&r.servers[i]);
    return took;
}
