/* SPDX-License-Identifier: Apache-2.0 */
/* Trainer: the actor that trains its own copy of a model together with others.
 *
 * Where it sits
 *     driver -> join, train -> [ actors/trainer.c ] -> feed -> replica -> collective
 * Ownership
 *     The actor owns model, feed, replica and its membership in the group.
 * Failure
 *     A member's death fails the step of all others. They rebuild the group here, without the
 *     driver: without the dead one, or with one that the driver makes and lets join. An error of
 *     this trainer's own makes it leave the group, so that the others are told at once.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "actors/feed.h"
#include "actors/spec.h"
#include "runtime/base/copy_struct.h"
#include <crt_actors.h>

#define JOIN_MS   60000
#define OWN_ITEMS 12 /* options of a replica in the create arguments: keys and values */

typedef struct trainer {
    crt_model_t *model;
    crti_feed_t feed;
    crt_optimizer_options_t optimizer;
    crt_replica_options_t options;
    crt_group_t *group;
    crt_replica_t *replica;
    int recoveries;
} trainer_t;

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---------------------------------------------------------------- create */

static crt_status_t read_options(trainer_t *t, const crt_value_t *map)
{
    crt_replica_options_t *o = &t->options;
    uint64_t bucket_bytes = 0;
    crt_status_t status = crti_spec_optimizer(map, &t->optimizer);

    o->struct_size = sizeof(*o);
    status = status == CRT_OK ? CRTI_SPEC_READ(map, "clip", &o->clip) : status;
    status = status == CRT_OK ? CRTI_SPEC_READ(map, "sharded", &o->sharded) : status;
    status = status == CRT_OK ? CRTI_SPEC_READ(map, "at_end", &o->at_end) : status;
    status = status == CRT_OK ? CRTI_SPEC_READ(map, "bfloat16", &o->bfloat16) : status;
    status =
        status == CRT_OK ? CRTI_SPEC_READ(map, "sync_norms", &o->sync_norms) : status;
    status =
        status == CRT_OK ? CRTI_SPEC_READ(map, "bucket_bytes", &bucket_bytes) : status;
    o->bucket_bytes = bucket_bytes;
    o->optimizer = &t->optimizer;
    return status;
}

static crt_status_t create(void *self, crt_call_t *call)
{
    trainer_t *t = self;
    const crt_value_t *widths, *options;
    crti_feed_spec_t data;
    double dropout;
    crt_status_t status =
        crt_args(call, &widths, &dropout, &data.seed, &data.features, &data.labels,
                 &data.classes, &data.shard, &data.shards, &data.batch, &options);

    if (status == CRT_OK)
        status = read_options(t, options);
    if (status == CRT_OK)
        status = crti_spec_model(widths, dropout, data.seed, &t->model);
    if (status == CRT_OK)
        status = crti_feed_init(&t->feed, &data, t->model);
    return status;
}

static void leave(trainer_t *t)
{
    crt_replica_drop(&t->replica);
    crt_group_drop(&t->group);
}

/* Leaves because of a failure, which is what is told. */
static crt_status_t leave_failed(trainer_t *t, crt_status_t status)
{
    char text[1024];

    snprintf(text, sizeof(text), "%s", crt_error_detail());
    leave(t);
    return crt_raise(status, "%s", text);
}

static void destroy(void *self)
{
    trainer_t *t = self;

    leave(t);
    crti_feed_fini(&t->feed);
    crt_model_drop(&t->model);
}

/* ---------------------------------------------------------------- join */

static crt_status_t join(void *self, crt_call_t *call)
{
    trainer_t *t = self;
    const char *name;
    int size, rank;
    crt_status_t status = crt_args(call, &name, &size, &rank);

    if (status != CRT_OK)
        return status;
    leave(t);
    status = crt_group_join(
        size, rank, CRT_GROUP_OPTIONS(.name = name, .limit_ms = JOIN_MS), &t->group);
    if (status == CRT_OK)
        status = crt_replica_new(t->group, t->model, &t->options, &t->replica);
    if (status == CRT_OK)
        return crt_return(call, crt_group_rank(t->group));
    return leave_failed(t, status);
}

/* ---------------------------------------------------------------- train */

/* The group, not this trainer, is why a step failed. */
static bool group_has_failed(const trainer_t *t)
{
    return crt_group_last_error(t->group) != NULL;
}

/* What a dead member does not hinder. A member that dies meanwhile fails this too: then once more,
 * at most as often as there are members. */
static crt_status_t recover(trainer_t *t, int on_death, crt_status_t why)
{
    int size = crt_group_size(t->group);
    uint64_t incarnation = crt_group_incarnation(t->group);
    crt_status_t status = why;

    if (on_death == CRT_DEATH_FAILS || why == CRT_ERR_TIMED_OUT)
        return why;
    for (int i = 0; i < size && status != CRT_OK; i++) {
        status =
            crt_replica_recover(t->replica, on_death == CRT_DEATH_REPLACES ? size : 0);
        if (status == CRT_ERR_TIMED_OUT)
            on_death = CRT_DEATH_SHRINKS; /* nobody came */
    }
    t->recoveries += status == CRT_OK && incarnation != crt_group_incarnation(t->group);
    return status;
}

typedef struct progress {
    double loss;
    uint64_t batches;
} progress_t;

static crt_status_t step(trainer_t *t, progress_t *progress)
{
    double loss;
    crt_status_t status =
        crt_replica_step(t->replica, crt_batches_next(t->feed.batches), &loss);

    if (status == CRT_OK) {
        progress->loss += loss;
        progress->batches++;
    }
    return status;
}

static crt_status_t train_until(trainer_t *t, crt_call_t *call, uint64_t steps,
                                int on_death, progress_t *progress)
{
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && crt_replica_steps(t->replica) < steps) {
        if (crt_cancelled(call))
            return crt_raise(CRT_ERR_CANCELLED, "nobody waits for the training any more");
        status = step(t, progress);
        if (status != CRT_OK && group_has_failed(t))
            status = recover(t, on_death, status);
    }
    if (status == CRT_OK)
        status = crt_replica_compare(t->replica);
    return status;
}

/* A death between the last step and the comparison: once more. */
static crt_status_t train_and_compare(trainer_t *t, crt_call_t *call, uint64_t steps,
                                      int on_death, progress_t *progress)
{
    crt_status_t status = train_until(t, call, steps, on_death, progress);

    while (status != CRT_OK && t->group && group_has_failed(t)) {
        status = recover(t, on_death, status);
        if (status != CRT_OK)
            break;
        status = train_until(t, call, steps, on_death, progress);
    }
    return status;
}

static crt_status_t answer(trainer_t *t, crt_call_t *call, const progress_t *progress,
                           double seconds)
{
    char hash[17];
    double batches = progress->batches ? (double)progress->batches : 1;

    snprintf(hash, sizeof(hash), "%016llx",
             (unsigned long long)crt_replica_hash(t->replica));
    crt_arg_t items[] = {
        crt_arg_string("steps"),      crt_arg_unsigned(crt_replica_steps(t->replica)),
        crt_arg_string("loss"),       crt_arg_float(progress->loss / batches),
        crt_arg_string("seconds"),    crt_arg_float(seconds),
        crt_arg_string("hash"),       crt_arg_string(hash),
        crt_arg_string("size"),       crt_arg_int(crt_group_size(t->group)),
        crt_arg_string("recoveries"), crt_arg_int(t->recoveries)};

    return crt_return(call, crt_map(items, sizeof(items) / sizeof(items[0])));
}

static crt_status_t train(void *self, crt_call_t *call)
{
    trainer_t *t = self;
    progress_t progress = {.loss = 0};
    uint64_t steps;
    int on_death;
    bool at_end;
    double start = now_s();
    crt_status_t status = crt_args(call, &steps, &on_death, &at_end);

    if (status != CRT_OK)
        return status;
    if (!t->replica)
        return crt_raise(CRT_ERR_INVALID, "a trainer that is in no group");
    crt_replica_set_at_end(t->replica, at_end);
    status = train_and_compare(t, call, steps, on_death, &progress);
    if (status == CRT_OK)
        return answer(t, call, &progress, now_s() - start);
    return leave_failed(t, status);
}

/* ---------------------------------------------------------------- weights */

static crt_status_t get_weights(void *self, crt_call_t *call)
{
    trainer_t *t = self;

    return crt_return(call, crt_model_weights(t->model));
}

static crt_status_t set_weights(void *self, crt_call_t *call)
{
    trainer_t *t = self;
    const crt_tensor_t *weights;
    crt_status_t status = crt_args(call, &weights);

    if (status == CRT_OK && t->replica)
        return crt_raise(CRT_ERR_INVALID,
                         "weights for a trainer that is in a group already");
    return status == CRT_OK ? crt_model_set_weights(t->model, weights) : status;
}

/* ---------------------------------------------------------------- class */

CRTI_SPEC_METHOD(crt_trainer_join, .name = "join", .run = join,
                 .signature = "string, int, int")
CRTI_SPEC_METHOD(crt_trainer_train, .name = "train", .run = train,
                 .signature = "int, int, bool")
CRTI_SPEC_METHOD(crt_trainer_get_weights, .name = "get_weights", .run = get_weights,
                 .signature = "")
CRTI_SPEC_METHOD(crt_trainer_set_weights, .name = "set_weights", .run = set_weights,
                 .signature = "tensor")

CRTI_SPEC_CLASS(crt_trainer, .name = "Trainer", .size = sizeof(trainer_t),
                .create = create,
                .signature = "list, float, int, ref, ref, int, int, int, int, map",
                .destroy = destroy,
                .methods = CRT_METHODS(&crt_trainer_join_method,
                                       &crt_trainer_train_method,
                                       &crt_trainer_get_weights_method,
                                       &crt_trainer_set_weights_method))

static crt_actor_t *new_trainer(const crt_actor_options_t *options,
                                const crt_model_spec_t *model,
                                const crt_data_spec_t *data,
                                const crt_replica_options_t *r,
                                crt_arg_t items[CRTI_SPEC_OPTIMIZER_ITEMS + OWN_ITEMS])
{
    crt_arg_t room[CRTI_SPEC_ITEMS_MAX];
    const crt_arg_t own[OWN_ITEMS] = {
        crt_arg_string("clip"),         crt_arg_float(r->clip),
        crt_arg_string("sharded"),      crt_arg_bool(r->sharded),
        crt_arg_string("at_end"),       crt_arg_bool(r->at_end),
        crt_arg_string("bfloat16"),     crt_arg_bool(r->bfloat16),
        crt_arg_string("sync_norms"),   crt_arg_bool(r->sync_norms),
        crt_arg_string("bucket_bytes"), crt_arg_unsigned(r->bucket_bytes)};

    memcpy(items + CRTI_SPEC_OPTIMIZER_ITEMS, own, sizeof(own));
    return crt_actor_new(&crt_trainer_descriptor, options, crti_spec_widths(model, room),
                         model->dropout, model->seed, data->features, data->labels,
                         data->classes, data->shard, data->shards, data->batch_size,
                         crt_map(items, CRTI_SPEC_OPTIMIZER_ITEMS + OWN_ITEMS));
}

crt_actor_t *crt_trainer_new(const crt_actor_options_t *options,
                             const crt_model_spec_t *model, const crt_data_spec_t *data,
                             const crt_replica_options_t *replica)
{
    crt_arg_t items[CRTI_SPEC_OPTIMIZER_ITEMS + OWN_ITEMS];
    crt_model_spec_t spec;
    crt_data_spec_t feed;
    crt_replica_options_t mine;
    crt_status_t status = crti_spec_copy(&spec, model);

    if (status == CRT_OK)
        status = crti_spec_data(&feed, data);
    if (status == CRT_OK)
        status = CRTI_COPY_STRUCT(&mine, replica, "CRT_REPLICA_OPTIONS");
    if (status == CRT_OK)
        status = crti_spec_optimizer_items(mine.optimizer, items);
    return status == CRT_OK ? new_trainer(options, &spec, &feed, &mine, items)
                            : crti_spec_refuse(&crt_trainer_descriptor, options, status);
}
