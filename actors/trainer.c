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
#include <crt_ml_gpu.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "actors/evaluate.h"
#include "actors/feed.h"
#include "actors/replica.h"
#include "actors/spec.h"
#include "actors/trainer.h"
#include "runtime/base/clock.h"
#include "runtime/base/copy_struct.h"
#include <crt_actors.h>

#define JOIN_MS 60000
/* Keys and values in the create arguments: options of a replica, and of batches by numbers. */
#define OWN_ITEMS 28

typedef struct trainer {
    crt_model_t *model;
    crt_model_t *there; /* computes the passes by way of the host; NULL: `model` does */
    crti_feed_t feed;
    crt_optimizer_options_t optimizer;
    crt_replica_options_t options;
    uint64_t seed;
    int64_t limit_ms;       /* of its groups */
    int accumulate;         /* batches by numbers: of each step; else 0 */
    char *format, *network; /* of them; of a checkpoint, */
    char *checkpoint;       /* which the group begins with; NULL: none */
    crt_group_t *group;
    crt_replica_t *replica;
    int recoveries;
} trainer_t;

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

/* A text that stays; "" and none are NULL. */
static crt_status_t read_text(const crt_value_t *map, const char *key, char **text_out)
{
    const char *text = "";
    crt_status_t status = CRTI_SPEC_READ(map, key, &text);

    if (status != CRT_OK || !*text)
        return status;
    *text_out = strdup(text);
    return *text_out ? CRT_OK : crt_raise(CRT_ERR_NO_MEMORY, "%s", key);
}

static crt_status_t read_numbered(trainer_t *t, const crt_value_t *map,
                                  crti_feed_spec_t *data)
{
    crt_status_t status = CRTI_SPEC_READ(map, "accumulate", &t->accumulate);

    if (status == CRT_OK)
        status = CRTI_SPEC_READ(map, "limit_ms", &t->limit_ms);
    t->limit_ms = t->limit_ms ? t->limit_ms : JOIN_MS;
    if (status == CRT_OK)
        status = CRTI_SPEC_READ(map, "ahead", &data->ahead);
    if (status == CRT_OK)
        status = read_text(map, "format", &t->format);
    if (status == CRT_OK)
        status = read_text(map, "network", &t->network);
    if (status == CRT_OK)
        status = read_text(map, "checkpoint", &t->checkpoint);
    data->is_numbered = t->accumulate > 0;
    data->format = t->format ? t->format : "";
    t->options.checkpoint = t->checkpoint;
    t->options.network = t->network;
    return status;
}

static crt_model_t *computer(const trainer_t *t)
{
    return t->there ? t->there : t->model;
}

/* To the first GPU that the actor has: the model, or, by way of the host, a second one. */
static crt_status_t choose_device(trainer_t *t, const crt_value_t *map,
                                  const crt_value_t *widths, double dropout)
{
    const char *name = "";
    bool by_host = false;
    crt_precision_t precision;
    crt_status_t status = CRTI_SPEC_READ(map, "precision", &name);

    if (status != CRT_OK || !*name)
        return status;
    status = crt_precision_parse(name, &precision);
    if (status == CRT_OK)
        status = CRTI_SPEC_READ(map, "by_host", &by_host);
    if (status == CRT_OK && by_host)
        status = crti_spec_model(widths, dropout, t->seed, &t->there);
    return status == CRT_OK ? crt_model_to_gpu(computer(t), 0, precision) : status;
}

static crt_status_t create(void *self, crt_call_t *call)
{
    trainer_t *t = self;
    const crt_value_t *widths, *options;
    crti_feed_spec_t data = {.shard = 0};
    double dropout;
    crt_status_t status =
        crt_args(call, &widths, &dropout, &data.seed, &data.features, &data.labels,
                 &data.classes, &data.shard, &data.shards, &data.batch, &options);

    if (status == CRT_OK)
        status = read_options(t, options);
    if (status == CRT_OK)
        status = read_numbered(t, options, &data);
    if (status == CRT_OK)
        status = crti_spec_model(widths, dropout, data.seed, &t->model);
    if (status == CRT_OK)
        status = crti_feed_init(&t->feed, &data, t->model);
    t->seed = data.seed;
    return status == CRT_OK ? choose_device(t, options, widths, dropout) : status;
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
    crt_model_drop(&t->there);
    crt_model_drop(&t->model);
    free(t->format);
    free(t->network);
    free(t->checkpoint);
}

/* ---------------------------------------------------------------- join */

static crt_status_t join(void *self, crt_call_t *call)
{
    trainer_t *t = self;
    crt_group_options_t options = {.struct_size = sizeof(options),
                                   .limit_ms = t->limit_ms};
    const char *name;
    int size, rank;
    crt_status_t status = crt_args(call, &name, &size, &rank);

    if (status != CRT_OK)
        return status;
    leave(t);
    if (crt_model_gpu(t->model) != CRT_NO_GPU) {
        options.backend = "nccl";
        options.device = crt_model_gpu(t->model);
        options.stream = crt_model_stream(t->model);
    }
    options.name = name;
    status = crt_group_join(size, rank, &options, &t->group);
    if (status == CRT_OK)
        status = crt_replica_new(t->group, t->model, &t->options, &t->replica);
    if (status != CRT_OK)
        return leave_failed(t, status);
    crti_replica_compute_on(t->replica, t->there);
    return crt_return(call, crt_group_rank(t->group));
}

/* ---------------------------------------------------------------- train */

/* The group, not this trainer, is why a step failed. */
static bool group_has_failed(const trainer_t *t)
{
    return crt_group_last_error(t->group) != NULL;
}

/* How far a call trains, and what becomes of the group when a member dies. */
typedef struct plan {
    crt_call_t *call;
    uint64_t steps;
    int on_death, size, least; /* size: of the group; 0: as it is */
    bool compares;
} plan_t;

/* A group of `size` members (0: of those that live). A member that dies meanwhile fails this too:
 * then once more, at most as often as there are members. */
static crt_status_t rebuild(trainer_t *t, int size)
{
    int tries = crt_group_size(t->group);
    crt_status_t status;

    do {
        status = crt_replica_recover(t->replica, size);
        if (status == CRT_ERR_TIMED_OUT)
            size = 0; /* nobody came */
    } while (status != CRT_OK && --tries > 0);
    return status;
}

/* What a dead member does not hinder. */
static crt_status_t recover(trainer_t *t, const plan_t *p, crt_status_t why)
{
    int size = crt_group_size(t->group);
    uint64_t incarnation = crt_group_incarnation(t->group);
    crt_status_t status;

    if (p->on_death == CRT_DEATH_FAILS || why == CRT_ERR_TIMED_OUT)
        return why;
    status = rebuild(t, p->on_death == CRT_DEATH_REPLACES ? size : 0);
    if (status == CRT_OK && crt_group_size(t->group) < p->least)
        status = crt_replica_recover(t->replica, p->least);
    t->recoveries += status == CRT_OK && incarnation != crt_group_incarnation(t->group);
    return status;
}

typedef struct progress {
    double loss;
    uint64_t batches, samples;
} progress_t;

/* One batch of a step by numbers, the last of which makes it. */
static crt_status_t numbered_batch(trainer_t *t, uint64_t number, uint64_t size,
                                   bool is_last, progress_t *progress)
{
    const crt_batch_t *batch;
    double loss;
    crt_status_t status = crti_feed_batch(&t->feed, number, size, &batch);

    if (status != CRT_OK)
        return status;
    crt_model_set_seed(computer(t), t->seed + number * 0x9e3779b97f4a7c15u);
    status = is_last ? crt_replica_step(t->replica, batch, &loss)
                     : crt_replica_accumulate(t->replica, batch, &loss);
    progress->loss += loss;
    progress->batches++;
    progress->samples += (uint64_t)batch->labels.shape[0];
    return status;
}

static crt_status_t numbered_step(trainer_t *t, progress_t *progress)
{
    uint64_t size = (uint64_t)crt_group_size(t->group);
    uint64_t number =
        crt_replica_batches(t->replica) + (uint64_t)crt_group_rank(t->group);
    progress_t now = *progress; /* a step that fails leaves none */
    crt_status_t status = CRT_OK;

    for (int i = 1; i <= t->accumulate && status == CRT_OK; i++, number += size)
        status = numbered_batch(t, number, size, i == t->accumulate, &now);
    if (status == CRT_OK)
        *progress = now;
    return status;
}

static crt_status_t step(trainer_t *t, progress_t *progress)
{
    double loss;
    crt_status_t status;

    if (t->accumulate > 0)
        return numbered_step(t, progress);
    status = crt_replica_step(t->replica, crt_batches_next(t->feed.batches), &loss);
    if (status == CRT_OK) {
        progress->loss += loss;
        progress->batches++;
    }
    return status;
}

static crt_status_t train_until(trainer_t *t, const plan_t *p, progress_t *progress)
{
    crt_status_t status = CRT_OK;

    if (p->size > 0 && p->size != crt_group_size(t->group) && !group_has_failed(t))
        status = rebuild(t, p->size);
    while (status == CRT_OK && crt_replica_steps(t->replica) < p->steps) {
        if (crt_cancelled(p->call))
            return crt_raise(CRT_ERR_CANCELLED, "nobody waits for the training any more");
        status = step(t, progress);
        if (status != CRT_OK && group_has_failed(t))
            status = recover(t, p, status);
    }
    if (status == CRT_OK && p->compares && t->accumulate > 0)
        status = crti_replica_average_statistics(t->replica);
    if (status == CRT_OK)
        status =
            p->compares ? crt_replica_compare(t->replica) : crti_replica_meet(t->replica);
    return status;
}

/* A death between the last step and the comparison: once more. */
static crt_status_t train_and_compare(trainer_t *t, plan_t *p, progress_t *progress)
{
    crt_status_t status = train_until(t, p, progress);

    while (status != CRT_OK && t->group && group_has_failed(t)) {
        p->size = 0; /* that there was, or that nobody came for */
        status = recover(t, p, status);
        if (status != CRT_OK)
            break;
        status = train_until(t, p, progress);
    }
    return status;
}

static crt_status_t answer(trainer_t *t, const plan_t *p, const progress_t *progress,
                           double seconds)
{
    char hash[17];
    double batches = progress->batches ? (double)progress->batches : 1;

    snprintf(hash, sizeof(hash), "%016llx",
             p->compares ? (unsigned long long)crt_replica_hash(t->replica) : 0);
    crt_arg_t items[] = {
        crt_arg_string("steps"),      crt_arg_unsigned(crt_replica_steps(t->replica)),
        crt_arg_string("loss"),       crt_arg_float(progress->loss / batches),
        crt_arg_string("seconds"),    crt_arg_float(seconds),
        crt_arg_string("hash"),       crt_arg_string(hash),
        crt_arg_string("size"),       crt_arg_int(crt_group_size(t->group)),
        crt_arg_string("recoveries"), crt_arg_int(t->recoveries),
        crt_arg_string("batches"),    crt_arg_unsigned(crt_replica_batches(t->replica)),
        crt_arg_string("samples"),    crt_arg_unsigned(progress->samples),
        crt_arg_string("taken"),      crt_arg_unsigned(progress->batches)};

    return crt_return(p->call, crt_map(items, sizeof(items) / sizeof(items[0])));
}

static crt_status_t carry_out(trainer_t *t, plan_t *p)
{
    progress_t progress = {.loss = 0};
    double start = crti_now_s();
    crt_status_t status = train_and_compare(t, p, &progress);

    if (status == CRT_OK)
        return answer(t, p, &progress, crti_now_s() - start);
    return leave_failed(t, status);
}

static crt_status_t check_joined(const trainer_t *t)
{
    return t->replica ? CRT_OK
                      : crt_raise(CRT_ERR_INVALID, "a trainer that is in no group");
}

static crt_status_t train(void *self, crt_call_t *call)
{
    trainer_t *t = self;
    plan_t plan = {.call = call, .compares = true};
    bool at_end;
    crt_status_t status = crt_args(call, &plan.steps, &plan.on_death, &at_end);

    if (status == CRT_OK)
        status = check_joined(t);
    if (status != CRT_OK)
        return status;
    crt_replica_set_at_end(t->replica, at_end);
    return carry_out(t, &plan);
}

static crt_status_t fit(void *self, crt_call_t *call)
{
    trainer_t *t = self;
    plan_t plan = {.call = call};
    crt_status_t status = crt_args(call, &plan.steps, &plan.on_death, &plan.size,
                                   &plan.least, &plan.compares);

    if (status == CRT_OK)
        status = check_joined(t);
    return status == CRT_OK ? carry_out(t, &plan) : status;
}

static crt_status_t evaluate(void *self, crt_call_t *call)
{
    trainer_t *t = self;
    crti_evaluation_t e = {.format = t->format ? t->format : ""};
    crt_status_t status =
        crt_args(call, &e.features, &e.labels, &e.classes, &e.part, &e.parts);

    if (status == CRT_OK && t->replica)
        status = crti_replica_send(t->replica);
    return status == CRT_OK ? crti_evaluate(call, computer(t), NULL, &e) : status;
}

static crt_status_t save(void *self, crt_call_t *call)
{
    trainer_t *t = self;
    crt_checkpoint_t checkpoint = CRT_CHECKPOINT(.step = 0);
    const char *folder;
    int keep;
    crt_status_t status = crt_args(call, &folder, &checkpoint.network, &checkpoint.seed,
                                   &checkpoint.is_last, &keep, &checkpoint.batch_size);

    if (status == CRT_OK)
        status = check_joined(t);
    return status == CRT_OK ? crt_replica_save(t->replica, folder, &checkpoint, keep)
                            : status;
}

/* ---------------------------------------------------------------- weights */

static crt_status_t get_weights(void *self, crt_call_t *call)
{
    trainer_t *t = self;

    return crt_return(call, crt_model_weights(t->model));
}

static crt_status_t hello(void *self, crt_call_t *call)
{
    return CRT_OK;
}

static crt_status_t get_all(void *self, crt_call_t *call)
{
    trainer_t *t = self;
    crt_object_t *object;
    crt_tensor_t weights;
    crt_status_t status = crti_spec_answer(t->model, &object, &weights);

    if (status != CRT_OK)
        return status;
    status = crt_model_copy_tensor(t->model, crt_model_weights(t->model), &weights);
    if (status == CRT_OK)
        return crt_return(call, object);
    crt_object_abort(&object);
    return status;
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

CRTI_SPEC_METHOD(crti_trainer_fit, .name = "fit", .run = fit,
                 .signature = "int, int, int, int, bool")
CRTI_SPEC_METHOD(crti_trainer_evaluate, .name = "evaluate", .run = evaluate,
                 .signature = "ref, ref, int, int, int")
CRTI_SPEC_METHOD(crti_trainer_hello, .name = "hello", .run = hello, .signature = "")
CRTI_SPEC_METHOD(crti_trainer_get_all, .name = "get_all", .run = get_all, .signature = "")
CRTI_SPEC_METHOD(crti_trainer_save, .name = "save", .run = save,
                 .signature = "string, string, int, bool, int, int")

CRTI_SPEC_CLASS(
    crt_trainer, .name = "Trainer", .size = sizeof(trainer_t), .create = create,
    .signature = "list, float, int, ref, ref, int, int, int, int, map",
    .destroy = destroy,
    .methods = CRT_METHODS(&crt_trainer_join_method, &crt_trainer_train_method,
                           &crt_trainer_get_weights_method,
                           &crt_trainer_set_weights_method, &crti_trainer_fit_method,
                           &crti_trainer_evaluate_method, &crti_trainer_save_method,
                           &crti_trainer_get_all_method, &crti_trainer_hello_method))

static const char *text_or_none(const char *text)
{
    return text ? text : "";
}

static crt_actor_t *new_trainer(const crt_actor_options_t *options,
                                const crt_model_spec_t *model,
                                const crt_data_spec_t *data,
                                const crt_replica_options_t *r, const crti_numbered_t *n,
                                crt_arg_t items[CRTI_SPEC_OPTIMIZER_ITEMS + OWN_ITEMS])
{
    crt_arg_t room[CRTI_SPEC_ITEMS_MAX];
    const crt_arg_t own[OWN_ITEMS] = {
        crt_arg_string("clip"),         crt_arg_float(r->clip),
        crt_arg_string("sharded"),      crt_arg_bool(r->sharded),
        crt_arg_string("at_end"),       crt_arg_bool(r->at_end),
        crt_arg_string("bfloat16"),     crt_arg_bool(r->bfloat16),
        crt_arg_string("sync_norms"),   crt_arg_bool(r->sync_norms),
        crt_arg_string("bucket_bytes"), crt_arg_unsigned(r->bucket_bytes),
        crt_arg_string("checkpoint"),   crt_arg_string(text_or_none(r->checkpoint)),
        crt_arg_string("network"),      crt_arg_string(text_or_none(r->network)),
        crt_arg_string("accumulate"),   crt_arg_int(n->accumulate),
        crt_arg_string("ahead"),        crt_arg_int(n->ahead),
        crt_arg_string("limit_ms"),     crt_arg_int(n->limit_ms),
        crt_arg_string("format"),       crt_arg_string(text_or_none(n->format)),
        crt_arg_string("precision"),    crt_arg_string(text_or_none(n->precision)),
        crt_arg_string("by_host"),      crt_arg_bool(n->by_host)};

    memcpy(items + CRTI_SPEC_OPTIMIZER_ITEMS, own, sizeof(own));
    return crt_actor_new(&crt_trainer_descriptor, options, crti_spec_widths(model, room),
                         model->dropout, model->seed, data->features, data->labels,
                         data->classes, data->shard, data->shards, data->batch_size,
                         crt_map(items, CRTI_SPEC_OPTIMIZER_ITEMS + OWN_ITEMS));
}

crt_actor_t *crti_trainer_new_numbered(const crt_actor_options_t *options,
                                       const crt_model_spec_t *model,
                                       const crt_data_spec_t *data,
                                       const crt_replica_options_t *replica,
                                       const crti_numbered_t *numbered)
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
    return status == CRT_OK ? new_trainer(options, &spec, &feed, &mine, numbered, items)
                            : crti_spec_refuse(&crt_trainer_descriptor, options, status);
}

crt_actor_t *crt_trainer_new(const crt_actor_options_t *options,
                             const crt_model_spec_t *model, const crt_data_spec_t *data,
                             const crt_replica_options_t *replica)
{
    static const crti_numbered_t none = {.format = NULL};

    return crti_trainer_new_numbered(options, model, data, replica, &none);
}
