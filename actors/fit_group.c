/* SPDX-License-Identifier: Apache-2.0 */
/* Fit in a group: trainers that sum their gradients among themselves, and those that come and go.
 *
 * Where it sits
 *     fit.c -> [ actors/fit_group.c ] -> trainer.c
 * How
 *     A member is a trainer. One that died is replaced at once when the number of members is fixed:
 *     the survivors wait for the new one in the step that failed. Else they go on without it, and a
 *     new one, which waits for room in the cluster as a spare, joins between two stretches.
 * Invariants
 *     Members whose `is_in` is set are in the group, or were when they died; others are on their
 *     way in, which may last until the next stretch. Spares are not in `members`.
 * Failure
 *     When nobody is in the group any more a new group begins at the last checkpoint.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "actors/fit.h"
#include "actors/trainer.h"
#include "runtime/base/clock.h"

#define SUSPECT_MS 10000 /* for the cluster to say whether an actor died */
#define FRUITLESS  20    /* new members that find no place, before a step is made */
#define BEGINS     5     /* attempts to begin, when members die meanwhile */

typedef struct member {
    crt_actor_t *actor;
    crt_ref_t *joining; /* NULL: it is in, or was not called */
    crt_ref_t *ref;     /* the call that it carries out */
    bool is_in;
} member_t;

typedef struct group {
    char name[64];
    int begins;
    char why[512]; /* members could not begin, the last time */
    member_t members[CRTI_FIT_MEMBERS_MAX];
    int count;
    member_t spares[CRTI_FIT_MEMBERS_MAX]; /* `ref`: says that it is ready */
    int spare_count;
} group_t;

static bool is_fixed(const crti_fit_t *f)
{
    return f->o.devices_most == f->o.devices;
}

/* ---------------------------------------------------------------- members */

static crt_actor_t *new_trainer(const crti_fit_t *f, const char *checkpoint)
{
    crt_actor_options_t options = crti_fit_actor(f);
    const crti_numbered_t numbered = {.format = f->format,
                                      .ahead = f->o.ahead,
                                      .accumulate = f->o.accumulate,
                                      .limit_ms = f->o.limit_ms,
                                      .precision = f->precision,
                                      .by_host = f->by_host};
    const crt_data_spec_t data =
        CRT_DATA_SPEC(.features = f->train.features, .labels = f->train.labels,
                      .classes = f->train.classes, .batch_size = f->o.batch_size);

    return crti_trainer_new_numbered(
        &options, &f->spec, &data,
        CRT_REPLICA_OPTIONS(.optimizer = &f->optimizer, .clip = f->o.clip,
                            .sharded = f->o.strategy == CRT_FIT_SHARDED,
                            .bfloat16 = f->o.bfloat16, .sync_norms = f->o.sync_norms,
                            .checkpoint = checkpoint, .network = f->name),
        &numbered);
}

static void add_spare(crti_fit_t *f, const char *checkpoint)
{
    group_t *g = f->state;

    member_t spare = {.actor = new_trainer(f, checkpoint)};

    spare.ref = crt_call(spare.actor, crti_trainer_hello());
    g->spares[g->spare_count++] = spare;
}

static void end_actor(crt_actor_t **actor)
{
    (void)crt_actor_kill(*actor, NULL); /* it may be dead, or never have come */
    crt_actor_drop(actor);
}

static void remove_member(group_t *g, int index)
{
    member_t *m = &g->members[index];

    crt_ref_drop(&m->joining);
    crt_ref_drop(&m->ref);
    end_actor(&m->actor);
    memmove(m, m + 1, (size_t)(g->count - index - 1) * sizeof(*m));
    g->count--;
}

static void end_all(group_t *g)
{
    while (g->count > 0)
        remove_member(g, g->count - 1);
    while (g->spare_count > 0) {
        member_t *spare = &g->spares[--g->spare_count];

        crt_ref_drop(&spare->ref);
        end_actor(&spare->actor);
    }
}

static bool anybody_in(const group_t *g)
{
    for (int i = 0; i < g->count; i++)
        if (g->members[i].is_in)
            return true;
    return false;
}

/* Whether the actor itself died: else `error` is what its method says, of another one perhaps. */
static bool is_dead(const member_t *m, const crt_error_t *error)
{
    crt_status_t status;

    if (!crti_fit_is_death(error))
        return false;
    status = crt_actor_ready(m->actor, SUSPECT_MS);
    return status != CRT_OK && status != CRT_ERR_TIMED_OUT;
}

/* A spare has come, or could not be made, which fails the training, unless it died. */
static crt_status_t take_spare(crti_fit_t *f, int index)
{
    group_t *g = f->state;
    member_t spare = g->spares[index];
    const crt_error_t *error = crt_ref_error(spare.ref);
    crt_status_t status = CRT_OK;

    if (error && !crti_fit_is_death(error))
        return crt_raise(error->status, "%s", error->text);
    memmove(&g->spares[index], &g->spares[index + 1],
            (size_t)(g->spare_count - index - 1) * sizeof(spare));
    g->spare_count--;
    if (error) {
        status = crti_fit_count_death(f, "member", error);
        end_actor(&spare.actor);
        add_spare(f, NULL);
    } else {
        g->members[g->count++] = (member_t){.actor = spare.actor};
    }
    crt_ref_drop(&spare.ref);
    return status;
}

/* Spares that are ready become members that are not in. Waits so long for the first one. */
static crt_status_t take_spares(crti_fit_t *f, int64_t wait_ms)
{
    group_t *g = f->state;
    crt_ref_t *refs[CRTI_FIT_MEMBERS_MAX];
    size_t ready[CRTI_FIT_MEMBERS_MAX], count = 0;
    crt_status_t status;

    if (g->spare_count == 0)
        return CRT_OK;
    for (int i = 0; i < g->spare_count; i++)
        refs[i] = g->spares[i].ref;
    status = crt_wait(refs, (size_t)g->spare_count, 1, wait_ms, ready, &count);
    if (status == CRT_ERR_TIMED_OUT)
        return CRT_OK;
    while (status == CRT_OK && count > 0)
        status = take_spare(f, (int)ready[--count]);
    return status;
}

/* Waits for the least number of members; with a fixed number for all. */
static crt_status_t wait_for_members(crti_fit_t *f)
{
    group_t *g = f->state;
    int64_t end_ms = 0;
    crt_status_t status = CRT_OK;

    while (status == CRT_OK && g->count < f->o.devices) {
        int64_t now_ms = crti_now_ms();

        end_ms = end_ms ? end_ms : now_ms + f->o.limit_ms;
        if (now_ms >= end_ms)
            return crti_fit_not_there(f, "%d of %d members were there", g->count,
                                      f->o.devices);
        status = take_spares(f, end_ms - now_ms);
    }
    return status;
}

/* ---------------------------------------------------------------- beginning */

static void name_group(group_t *g)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(g->name, sizeof(g->name), "fit-%d-%" PRIx64 "-%d", (int)getpid(),
             (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, g->begins++);
}

/* What another member's failure looks like. */
static bool is_of_another(crt_status_t status)
{
    return status == CRT_ERR_CANCELLED || status == CRT_ERR_CLOSED ||
           (status <= CRT_ERR_ACTOR_DIED && status > CRT_ERR_HEAD_LOST);
}

/* Why a member could not join. A reason of its own fails the training; else all begin again. */
static crt_status_t judge_joining(crti_fit_t *f, const member_t *m, bool *joined)
{
    group_t *g = f->state;
    const crt_error_t *error = crt_ref_error(m->joining);

    if (!error)
        return CRT_OK;
    if (!is_of_another(error->status))
        return crt_raise(error->status, "%s", error->text);
    if (*joined || is_dead(m, error))
        snprintf(g->why, sizeof(g->why), "%s", error->text);
    *joined = false;
    return is_dead(m, error) ? crti_fit_count_death(f, "member", error) : CRT_OK;
}

/* All members into a new group. False: one died, and all are to begin again. */
static crt_status_t join_all(crti_fit_t *f, bool *joined_out)
{
    group_t *g = f->state;
    const char *backend =
        *f->precision && !f->by_host ? "nccl" : NULL; /* of Trainer.join */
    crt_actor_t *actors[CRTI_FIT_MEMBERS_MAX];
    crt_status_t status;

    *joined_out = true;
    name_group(g);
    for (int i = 0; i < g->count; i++)
        actors[i] = g->members[i].actor;
    /* One that dies before it joins ends the joining of the others. */
    status = crt_group_declare(actors, NULL, g->count,
                               CRT_GROUP_OPTIONS(.name = g->name, .backend = backend));
    for (int i = 0; i < g->count && status == CRT_OK; i++)
        g->members[i].joining =
            crt_call(g->members[i].actor, crt_trainer_join(), g->name, g->count, i);
    for (int i = 0; i < g->count && status == CRT_OK; i++)
        status = crti_fit_wait(g->members[i].joining);
    for (int i = 0; i < g->count && status == CRT_OK; i++)
        status = judge_joining(f, &g->members[i], joined_out);
    for (int i = 0; i < g->count; i++) {
        crt_ref_drop(&g->members[i].joining);
        g->members[i].is_in = true;
    }
    return status;
}

/* Where the group is: a stretch of no steps tells. */
static crt_status_t find_position(crti_fit_t *f)
{
    crti_fit_sums_t none = {.count = 0};

    f->devices = ((group_t *)f->state)->count;
    f->step = f->batches = 0;
    return crti_fit_group.train(f, 0, true, &none);
}

static crt_status_t begin(crti_fit_t *f, const char *checkpoint)
{
    group_t *g = f->state;
    crt_status_t status = CRT_OK;
    bool joined = false;

    if (!g)
        g = f->state = calloc(1, sizeof(*g));
    if (!g)
        return crt_raise(CRT_ERR_NO_MEMORY, "members of a training");
    for (int i = 0; i < BEGINS && !joined && status == CRT_OK; i++) {
        end_all(g);
        for (int k = 0; k < f->o.devices_most; k++)
            add_spare(f, k == 0 ? checkpoint : NULL);
        status = wait_for_members(f);
        if (status == CRT_OK)
            status = join_all(f, &joined);
    }
    if (status == CRT_OK && !joined)
        status = crt_raise(CRT_ERR_ACTOR_DIED,
                           "members died in each of %d attempts to begin; the last one: "
                           "%s",
                           BEGINS, g->why);
    return status == CRT_OK ? find_position(f) : status;
}

/* Nobody has the weights any more. */
static crt_status_t begin_again(crti_fit_t *f)
{
    char path[4096];
    bool is_there =
        *f->folder && crt_checkpoint_latest(f->folder, path, sizeof(path)) == CRT_OK;

    crti_fit_tell(f, "no member is left: the training goes on from %s",
                  is_there ? path : "its beginning");
    return begin(f, is_there ? path : NULL);
}

/* ---------------------------------------------------------------- a stretch */

typedef struct stretch {
    uint64_t steps;
    bool compares;
    int size; /* of the group, that all are told */
    crti_fit_sums_t sums;
} stretch_t;

static void call_fit(crti_fit_t *f, member_t *m, const stretch_t *s)
{
    int on_death = is_fixed(f) ? CRT_DEATH_REPLACES : CRT_DEATH_SHRINKS;

    m->ref = crt_call(m->actor, crti_trainer_fit(), s->steps, on_death, s->size,
                      f->o.devices, s->compares);
}

/* A member that is not in takes any place, and trains when it has one. */
static void send_in(crti_fit_t *f, member_t *m, const stretch_t *s)
{
    group_t *g = f->state;

    if (m->is_in)
        call_fit(f, m, s);
    else if (!m->joining)
        m->joining =
            crt_call(m->actor, crt_trainer_join(), g->name, s->size, CRT_RANK_ANY);
}

static crt_status_t read_answer(crti_fit_t *f, member_t *m, stretch_t *s)
{
    const crt_value_t *map;
    double loss;
    uint64_t batches, samples, taken, hash = 0;
    const char *text;
    crt_status_t status = crt_get(m->ref, &map);

    if (status == CRT_OK)
        status = crt_value_read(crt_value_find(map, "loss"), &loss);
    if (status == CRT_OK)
        status = crt_value_read(crt_value_find(map, "steps"), &f->step);
    if (status == CRT_OK)
        status = crt_value_read(crt_value_find(map, "batches"), &batches);
    if (status == CRT_OK)
        status = crt_value_read(crt_value_find(map, "samples"), &samples);
    if (status == CRT_OK)
        status = crt_value_read(crt_value_find(map, "taken"), &taken);
    if (status == CRT_OK)
        status = crt_value_read(crt_value_find(map, "size"), &f->devices);
    if (status == CRT_OK)
        status = crt_value_read(crt_value_find(map, "hash"), &text);
    if (status != CRT_OK)
        return status;
    if (s->compares)
        sscanf(text, "%" SCNx64, &hash);
    f->result.hash = s->compares ? hash : f->result.hash;
    f->batches = batches;
    s->sums.samples += samples;
    s->sums.loss += loss * (double)taken; /* it is the mean of the member's batches */
    s->sums.count += taken;
    return CRT_OK;
}

/* One that is not in the group yet. */
static member_t *add_member(crti_fit_t *f)
{
    group_t *g = f->state;

    g->members[g->count] = (member_t){.actor = new_trainer(f, NULL)};
    return &g->members[g->count++];
}

/* A member died in a stretch, or outside of one. Its successor is a member of this stretch when the
 * number is fixed and there is a group to come into. */
static crt_status_t replace(crti_fit_t *f, int index, const stretch_t *s)
{
    group_t *g = f->state;
    member_t *m = &g->members[index];
    crt_status_t status = crti_fit_count_death(
        f, "member", crt_ref_error(m->joining ? m->joining : m->ref));

    remove_member(g, index);
    if (status != CRT_OK || !anybody_in(g))
        return status;
    if (!is_fixed(f)) {
        add_spare(f, NULL);
        return CRT_OK;
    }
    m = add_member(f);
    if (s)
        send_in(f, m, s);
    return CRT_OK;
}

/* One on its way in did not find a place: the others went on without it, or failed meanwhile, and
 * wait for another one. */
static crt_status_t send_another(crti_fit_t *f, int index, const stretch_t *s)
{
    group_t *g = f->state;
    const crt_error_t *error = crt_ref_error(g->members[index].joining);
    bool waits = is_fixed(f) && error->status != CRT_ERR_TIMED_OUT;
    crt_status_t status = CRT_OK;

    crti_fit_tell(f, "a new member found no place: %s", error->text);
    if (++f->fruitless > FRUITLESS)
        status = crt_raise(CRT_ERR_TIMED_OUT, "%d new members found no place: %s",
                           f->fruitless, error->text);
    remove_member(g, index);
    if (status == CRT_OK && waits)
        send_in(f, add_member(f), s);
    else if (status == CRT_OK)
        add_spare(f, NULL);
    return status;
}

/* A member has joined, or has not. */
static crt_status_t judge_newcomer(crti_fit_t *f, int index, const stretch_t *s)
{
    group_t *g = f->state;
    member_t *m = &g->members[index];
    const crt_error_t *error = crt_ref_error(m->joining);

    if (!error) {
        crt_ref_drop(&m->joining);
        m->is_in = true;
        f->joined++;
        call_fit(f, m, s);
        return CRT_OK;
    }
    if (is_dead(m, error))
        return replace(f, index, s);
    if (error->status == CRT_ERR_TIMED_OUT || is_of_another(error->status))
        return send_another(f, index, s);
    return crt_raise(error->status, "%s", error->text);
}

/* Why the group ended: it waited for a member that the cluster has no room for, perhaps. */
static crt_status_t raise_failure(crti_fit_t *f, const crt_error_t *error)
{
    const group_t *g = f->state;

    for (int i = 0; i < g->count && error->status == CRT_ERR_TIMED_OUT; i++)
        if (g->members[i].joining &&
            crt_actor_ready(g->members[i].actor, 0) == CRT_ERR_TIMED_OUT)
            return crti_fit_not_there(f, "nobody came in place of a member that died");
    return crt_raise(error->status, "%s", error->text);
}

/* A call of a member has ended. */
static crt_status_t judge(crti_fit_t *f, int index, stretch_t *s)
{
    group_t *g = f->state;
    member_t *m = &g->members[index];
    const crt_error_t *error;
    crt_status_t status;

    if (m->joining)
        return judge_newcomer(f, index, s);
    error = crt_ref_error(m->ref);
    if (error && is_dead(m, error))
        return replace(f, index, s);
    if (error)
        return raise_failure(f, error);
    status = read_answer(f, m, s);
    crt_ref_drop(&m->ref);
    return status;
}

/* Until all that are in the group have answered. Others may be on their way in still: those in the
 * group had made the last step when one died, and take them in at the next. */
static crt_status_t wait_for_all(crti_fit_t *f, stretch_t *s)
{
    group_t *g = f->state;
    crt_status_t status = CRT_OK;

    while (status == CRT_OK) {
        crt_ref_t *refs[CRTI_FIT_MEMBERS_MAX];
        int who[CRTI_FIT_MEMBERS_MAX];
        size_t count = 0, ready[CRTI_FIT_MEMBERS_MAX], ready_count;
        bool is_over = true;

        for (int i = 0; i < g->count; i++) {
            member_t *m = &g->members[i];

            is_over = is_over && !m->ref;
            if (m->ref || m->joining) {
                who[count] = i;
                refs[count++] = m->ref ? m->ref : m->joining;
            }
        }
        if (is_over)
            return CRT_OK;
        status = crt_wait(refs, count, 1, -1, ready, &ready_count);
        if (status == CRT_OK)
            status = judge(f, who[ready[0]], s);
    }
    return status;
}

static crt_status_t train(crti_fit_t *f, uint64_t steps, bool compares,
                          crti_fit_sums_t *sums)
{
    group_t *g = f->state;
    stretch_t s = {.steps = steps, .compares = compares};
    int before = g->count;
    crt_status_t status = take_spares(f, 0);

    if (status != CRT_OK)
        return status;
    s.size = g->count;
    if (g->count > before)
        crti_fit_tell(f, "%d more: the group has %d members now", g->count - before,
                      g->count);
    for (int i = 0; i < g->count && anybody_in(g); i++)
        send_in(f, &g->members[i], &s);
    status = wait_for_all(f, &s);
    if (status == CRT_OK && !anybody_in(g))
        return begin_again(f);
    sums->loss += s.sums.loss;
    sums->count += s.sums.count;
    sums->samples += s.sums.samples;
    if (f->step > f->furthest) {
        f->furthest = f->step;
        f->fruitless = 0;
    }
    return status;
}

/* ---------------------------------------------------------------- other calls of all */

/* The calls of all have ended: buries the dead. False: one had died. */
static crt_status_t bury(crti_fit_t *f, bool *all_live_out)
{
    group_t *g = f->state;
    crt_status_t status = CRT_OK;

    *all_live_out = true;
    for (int i = 0; i < g->count && status == CRT_OK;) {
        member_t *m = &g->members[i];
        const crt_error_t *error = m->ref ? crt_ref_error(m->ref) : NULL;

        if (error && crti_fit_is_death(error)) {
            *all_live_out = false;
            if (is_dead(m, error)) {
                status = replace(f, i, NULL);
                continue;
            }
        } else if (error) {
            status = crt_raise(error->status, "%s", error->text);
        }
        crt_ref_drop(&m->ref);
        i++;
    }
    return status;
}

static crt_status_t save(crti_fit_t *f, bool is_last, bool *is_saved_out)
{
    group_t *g = f->state;
    crt_status_t status = CRT_OK;

    for (int i = 0; i < g->count; i++)
        if (g->members[i].is_in)
            g->members[i].ref = crt_call(g->members[i].actor, crti_trainer_save(),
                                         (const char *)f->folder, f->name, f->spec.seed,
                                         is_last, f->o.keep, f->o.batch_size);
    for (int i = 0; i < g->count && status == CRT_OK; i++)
        if (g->members[i].ref)
            status = crti_fit_wait(g->members[i].ref);
    return status == CRT_OK ? bury(f, is_saved_out) : status;
}

/* Each member has a part of the data. When one dies all parts are asked for again. */
static crt_status_t evaluate(crti_fit_t *f, const crti_fit_data_t *data,
                             crti_fit_sums_t *sums)
{
    group_t *g = f->state;
    bool all_live = false;
    crt_status_t status = CRT_OK;

    while (!all_live && status == CRT_OK) {
        crti_fit_sums_t now = {.count = 0};
        int parts = 0, part = 0;

        for (int i = 0; i < g->count; i++)
            parts += g->members[i].is_in;
        parts = parts < (int)data->count ? parts : (int)data->count;
        if (parts == 0)
            return begin_again(f);
        for (int i = 0; i < g->count && part < parts; i++)
            if (g->members[i].is_in)
                g->members[i].ref =
                    crt_call(g->members[i].actor, crti_trainer_evaluate(), data->features,
                             data->labels, data->classes, part++, parts);
        for (int i = 0; i < g->count && status == CRT_OK; i++) {
            crt_ref_t *ref = g->members[i].ref;

            status = ref ? crti_fit_wait(ref) : CRT_OK;
            if (status == CRT_OK && ref && !crt_ref_error(ref))
                status = crti_fit_add_score(ref, &now);
        }
        if (status == CRT_OK)
            status = bury(f, &all_live);
        if (all_live)
            *sums = now;
    }
    return status;
}

/* The weights are the same everywhere: from any member that lives. */
static crt_status_t fetch(crti_fit_t *f, crt_ref_t **weights_out)
{
    group_t *g = f->state;
    crt_status_t status =
        crt_raise(CRT_ERR_ACTOR_DIED, "no member lives that has the weights");

    for (int i = 0; i < g->count; i++) {
        if (!g->members[i].is_in)
            continue;
        *weights_out = crt_call(g->members[i].actor, crti_trainer_get_all());
        status = crt_get(*weights_out, NULL);
        if (status == CRT_OK)
            return CRT_OK;
        crt_ref_drop(weights_out);
    }
    return status;
}

static void end(crti_fit_t *f)
{
    group_t *g = f->state;

    if (g)
        end_all(g);
    free(g);
    f->state = NULL;
}

const crti_fit_strategy_t crti_fit_group = {begin, train, evaluate, save, fetch, end};
