/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of a look for resource deadlocks. See deadlock_facts.h.
 *
 * Where it sits
 *     control_deadlock.c -> [ deadlock_facts.c ] -> tables; resource_deadlock.h
 * Rules
 *     A job may go on unless the contrary is known: its driver has attached and answered; all of
 *     its processes are at rest, on every node, as in the look before, with nothing done between;
 *     no actor of it begins or pauses, no group of it is being reserved. What waits for room in a
 *     bundle that is reserved counts as going on: whoever is in the bundle may be of other jobs.
 *     Actors and processes that a job awaits are looked for among those of other jobs; one that is
 *     not known goes on.
 * Cost
 *     Linear in what waits, in the jobs and nodes that it concerns, and in actors when one begins.
 */
#include "runtime/control/deadlock_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/control/control_deadlock.h"
#include "runtime/control/control_state.h"
#include "runtime/control/resource_deadlock.h"

#define WANTS_MAX 16 /* of each job; one with more shapes is not judged */

/* What the look before has seen of a job. */
typedef struct seen {
    uint64_t processes, activity;
} seen_t;

typedef struct fact {
    const crti_job_entry_t *job;
    size_t index;
    bool may_go_on, has_driver;
    uint64_t processes, activity;
    crti_deadlock_want_t *wants[WANTS_MAX];
    size_t want_count;
    crti_buffer_t parts;  /* crti_stuck_part_t */
    crti_buffer_t awaits; /* ids; later size_t */
    crti_stuck_request_t requests[WANTS_MAX];
} fact_t;

struct crti_deadlock_facts {
    crti_buffer_t nodes; /* crti_placement_node_t */
    size_t node_count;
    crti_map_t node_index; /* id -> number + 1 */
    crti_resources_t *available;
    fact_t **facts;
    size_t count;
    crti_map_t by_job; /* -> fact_t */
    crti_stuck_job_t *jobs;
};

static void free_want(crti_deadlock_want_t *want)
{
    if (want && want->bundles != &want->one)
        free(want->bundles);
    free(want);
}

static void free_fact(fact_t *fact)
{
    for (size_t i = 0; i < fact->want_count; i++)
        free_want(fact->wants[i]);
    crti_buffer_fini(&fact->parts);
    crti_buffer_fini(&fact->awaits);
    free(fact);
}

void crti_deadlock_facts_free(crti_deadlock_facts_t *f)
{
    if (f == NULL)
        return;
    for (size_t i = 0; i < f->count; i++)
        free_fact(f->facts[i]);
    crti_buffer_fini(&f->nodes);
    crti_map_fini(&f->node_index);
    crti_map_fini(&f->by_job);
    free(f->available);
    free(f->facts);
    free(f->jobs);
    free(f);
}

/* ---------------------------------------------------------------- whom it concerns */

/* Not a pause after deaths, nor a fence: those end by themselves. */
static bool is_paused(const crti_control_t *c, const crti_actor_entry_t *actor)
{
    return actor->unsaved || (actor->retry_ns > c->now_ns && actor->refusals == 0);
}

typedef struct jobs {
    crti_map_t known;
    crti_buffer_t *out;
    crt_status_t status;
} jobs_t;

static void add_job(jobs_t *jobs, crti_id_t id)
{
    char hex[CRTI_ID_HEX];

    if (jobs->status != CRT_OK || crti_map_get(&jobs->known, &id))
        return;
    jobs->status = crti_map_put(&jobs->known, &id, jobs);
    crti_id_hex(id, hex);
    hex[CRTI_ID_HEX - 1] = ' ';
    if (jobs->status == CRT_OK)
        jobs->status = crti_buffer_append(jobs->out, hex, CRTI_ID_HEX);
}

static void add_demand(jobs_t *jobs, const crti_node_entry_t *node)
{
    crti_span_t rest = crti_span(node->demand.data, node->demand.size), entry;
    crti_message_t m;

    while (crti_list_unpack(&rest, &entry) == CRT_OK)
        if (crti_message_decode(entry.data, entry.size, &m) == CRT_OK &&
            m.kind == CRTI_MSG_LEASE_REQUEST)
            add_job(jobs, m.lease_request.job);
}

crt_status_t crti_deadlock_jobs(const crti_control_t *c, crti_buffer_t *out)
{
    jobs_t jobs = {.out = out};

    crti_map_init(&jobs.known, sizeof(crti_id_t));
    CRTI_LIST_FOREACH (item, &c->actors.waiting)
        add_job(&jobs, CRTI_ACTOR_OF(item)->made->job);
    CRTI_LIST_FOREACH (item, &c->placement_groups.waiting)
        add_job(&jobs, CRTI_PLACEMENT_GROUP_OF(item)->job);
    CRTI_LIST_FOREACH (item, &c->nodes.living)
        add_demand(&jobs, CRTI_NODE_OF(item));
    crti_map_fini(&jobs.known);
    return jobs.status;
}

/* ---------------------------------------------------------------- nodes */

/* One that is drained takes nothing more. */
static crt_status_t take_nodes(const crti_control_t *c, crti_deadlock_facts_t *f)
{
    crt_status_t status = CRT_OK;

    CRTI_LIST_FOREACH (item, &c->nodes.living) {
        const crti_node_entry_t *node = CRTI_NODE_OF(item);
        crti_placement_node_t place = {
            .node = node->id, .labels = node->labels, .total = &node->resources};

        if (node->drain_ns || status != CRT_OK)
            continue;
        status = crti_buffer_append(&f->nodes, &place, sizeof(place));
        if (status == CRT_OK)
            status = crti_map_put(&f->node_index, &node->id,
                                  (void *)(uintptr_t)++f->node_count);
    }
    f->available = calloc(f->node_count + 1, sizeof(*f->available));
    for (size_t i = 0; f->available && i < f->node_count; i++)
        ((crti_placement_node_t *)(void *)f->nodes.data)[i].available = &f->available[i];
    return f->available ? status : crt_raise(CRT_ERR_NO_MEMORY, "a look");
}

/* ---------------------------------------------------------------- requests */

static crti_deadlock_want_t *new_want(crti_deadlock_want_kind_t kind, crti_id_t id)
{
    crti_deadlock_want_t *want = calloc(1, sizeof(*want));

    if (want == NULL)
        return NULL;
    want->kind = kind;
    want->id = id;
    want->how = crti_scheduling_default;
    want->bundles = &want->one;
    want->bundle_count = 1;
    return want;
}

/* Of a task or an actor: anywhere, when it only prefers a node. */
static void be_single(crti_deadlock_want_t *want, const crti_resources_t *resources,
                      const crti_scheduling_t *how)
{
    want->resources = *resources;
    want->how = *how;
    if (how->is_soft)
        want->how.strategy = CRTI_STRATEGY_DEFAULT;
    want->one =
        (crti_bundle_choice_t){.need = &want->resources, .how = &want->how, .node = -1};
}

static bool is_alike(const crti_deadlock_want_t *a, const crti_deadlock_want_t *b)
{
    return a->kind == b->kind && a->kind != CRTI_WANT_GROUP &&
           crti_resources_equal(&a->resources, &b->resources) &&
           crti_scheduling_equal(&a->how, &b->how);
}

/* Takes it; NULL: no memory. */
static void add_want(fact_t *fact, crti_deadlock_want_t *want)
{
    size_t at = 0;

    while (want && at < fact->want_count && !is_alike(fact->wants[at], want))
        at++;
    if (want == NULL || at == WANTS_MAX) {
        fact->may_go_on = true;
        free_want(want);
    } else if (at == fact->want_count) {
        fact->wants[fact->want_count++] = want;
    } else {
        free_want(fact->wants[at]); /* later ones are younger */
        fact->wants[at] = want;
    }
}

static void take_actor(const crti_control_t *c, fact_t *fact,
                       const crti_actor_entry_t *actor)
{
    const crti_placement_group_entry_t *group;
    crti_deadlock_want_t *want;

    if (is_paused(c, actor)) {
        fact->may_go_on = true;
    } else if (!crti_id_is_zero(actor->how->group)) {
        group = crti_placement_group_table_get(&c->placement_groups, actor->how->group);
        fact->may_go_on |= !group || group->state == CRTI_PLACEMENT_GROUP_CREATED ||
                           !crti_id_equal(group->job, actor->made->job);
    } else {
        want = new_want(CRTI_WANT_ACTOR, actor->id);
        if (want) {
            be_single(want, &actor->made->resources, actor->how);
            want->since_ns = actor->waits_ns;
            snprintf(want->name, sizeof(want->name), "actor %.80s",
                     crti_copied_text(actor->made->class_name));
        }
        add_want(fact, want);
    }
}

static crt_status_t take_bundles(const crti_deadlock_facts_t *f,
                                 const crti_placement_group_entry_t *group,
                                 crti_deadlock_want_t *want)
{
    want->bundles = calloc(group->bundle_count, sizeof(*want->bundles));
    if (want->bundles == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "a look");
    want->bundle_count = group->bundle_count;
    want->strategy = group->strategy;
    for (size_t i = 0; i < group->bundle_count; i++) {
        const crti_bundle_entry_t *bundle = &group->bundles[i];
        bool is_placed = bundle->state != CRTI_BUNDLE_UNPLACED;

        want->bundles[i] = (crti_bundle_choice_t){
            .need = &bundle->resources, .how = &bundle->how, .node = -1};
        if (is_placed) {
            want->bundles[i].is_fixed = true;
            want->bundles[i].node =
                (int)(uintptr_t)crti_map_get(&f->node_index, &bundle->node) - 1;
        } else {
            crti_resources_give(&want->resources, &bundle->resources);
        }
    }
    return CRT_OK;
}

static void take_group(const crti_deadlock_facts_t *f, fact_t *fact,
                       const crti_placement_group_entry_t *group)
{
    crti_deadlock_want_t *want;

    if (group->unsaved || group->reserving) {
        fact->may_go_on = true;
        return;
    }
    want = new_want(CRTI_WANT_GROUP, group->id);
    if (want && take_bundles(f, group, want) != CRT_OK) {
        free_want(want);
        want = NULL;
    }
    if (want) {
        want->since_ns = group->waits_ns;
        snprintf(want->name, sizeof(want->name), "a placement group of %zu bundles",
                 group->bundle_count);
    }
    add_want(fact, want);
}

static void take_lease(fact_t *fact, crti_id_t node, const crti_msg_lease_request_t *m)
{
    crti_deadlock_want_t *want;
    crti_scheduling_t how;
    char function[CRTI_ID_HEX * 2];

    if (crti_scheduling_read(CRTI_SCHEDULING_SAID(m), m->selector.data, m->selector.size,
                             &how) != CRT_OK ||
        !crti_id_is_zero(how.group)) {
        fact->may_go_on = true;
        return;
    }
    want = new_want(CRTI_WANT_LEASE, m->lease);
    if (want) {
        be_single(want, &m->resources, &how);
        want->node = node;
        snprintf(want->name, sizeof(want->name), "task %s",
                 crti_text(m->function, function, sizeof(function)));
    }
    add_want(fact, want);
}

static void take_requests(const crti_control_t *c, crti_deadlock_facts_t *f)
{
    fact_t *fact;

    CRTI_LIST_FOREACH (item, &c->actors.waiting) {
        const crti_actor_entry_t *actor = CRTI_ACTOR_OF(item);

        if ((fact = crti_map_get(&f->by_job, &actor->made->job)) != NULL)
            take_actor(c, fact, actor);
    }
    CRTI_LIST_FOREACH (item, &c->placement_groups.waiting) {
        const crti_placement_group_entry_t *group = CRTI_PLACEMENT_GROUP_OF(item);

        if ((fact = crti_map_get(&f->by_job, &group->job)) != NULL)
            take_group(f, fact, group);
    }
    if (c->actors.counts[CRTI_ACTOR_STARTING] == 0)
        return;
    CRTI_LIST_FOREACH (item, &c->actors.placed) {
        const crti_actor_entry_t *actor = CRTI_ACTOR_OF(item);

        if (actor->state == CRTI_ACTOR_STARTING &&
            (fact = crti_map_get(&f->by_job, &actor->made->job)) != NULL)
            fact->may_go_on = true;
    }
}

/* ---------------------------------------------------------------- what nodes say */

/* That job's entry; NULL: none that is worth one. */
static fact_t *fact_of(const crti_control_t *c, crti_deadlock_facts_t *f, crti_id_t id)
{
    fact_t *fact = crti_map_get(&f->by_job, &id);
    const crti_job_entry_t *job = crti_job_table_get(&c->jobs, id);
    fact_t **facts;

    if (fact || job == NULL || job->state != CRTI_JOB_RUNNING)
        return fact;
    facts = realloc(f->facts, (f->count + 1) * sizeof(fact_t *));
    fact = facts ? calloc(1, sizeof(*fact)) : NULL;
    f->facts = facts ? facts : f->facts;
    if (fact == NULL || crti_map_put(&f->by_job, &id, fact) != CRT_OK) {
        free(fact);
        return NULL;
    }
    fact->job = job;
    fact->index = f->count;
    f->facts[f->count++] = fact;
    return fact;
}

static void take_row(const crti_control_t *c, crti_deadlock_facts_t *f,
                     const crti_msg_job_rest_t *m)
{
    fact_t *fact = fact_of(c, f, m->job);
    crti_stuck_part_t part = {.held = m->held};
    uintptr_t number = (uintptr_t)crti_map_get(&f->node_index, &m->node);
    crti_span_t requests = m->requests, entry;
    crti_message_t request;

    if (fact == NULL)
        return;
    fact->may_go_on |= !m->is_at_rest;
    fact->processes += m->processes;
    fact->activity += m->activity;
    fact->has_driver |= m->processes && crti_id_equal(m->node, fact->job->node);
    part.node = number - 1;
    if ((number && m->held.count &&
         crti_buffer_append(&fact->parts, &part, sizeof(part)) != CRT_OK) ||
        crti_buffer_append(&fact->awaits, m->awaits.data, m->awaits.size) != CRT_OK)
        fact->may_go_on = true;
    while (crti_list_unpack(&requests, &entry) == CRT_OK) {
        if (crti_message_decode(entry.data, entry.size, &request) == CRT_OK &&
            request.kind == CRTI_MSG_LEASE_REQUEST)
            take_lease(fact, m->node, &request.lease_request);
    }
}

static bool are_amounts(const crti_resources_t *held)
{
    for (unsigned i = 0; i < held->count; i++)
        if (held->item[i].amount < 0)
            return false;
    return true;
}

static void take_rows(const crti_control_t *c, crti_deadlock_facts_t *f, crti_span_t rows)
{
    crti_span_t of_node, entry;
    crti_message_t m;

    while (crti_list_unpack(&rows, &of_node) == CRT_OK)
        while (crti_list_unpack(&of_node, &entry) == CRT_OK)
            if (crti_message_decode(entry.data, entry.size, &m) == CRT_OK &&
                m.kind == CRTI_MSG_JOB_REST && are_amounts(&m.job_rest.held))
                take_row(c, f, &m.job_rest);
}

/* The oldest first, so that two looks tell the same in one order. */
static int by_age(const void *a, const void *b)
{
    uint64_t x = (*(fact_t *const *)a)->job->made->number,
             y = (*(fact_t *const *)b)->job->made->number;

    return (x > y) - (x < y);
}

static void put_in_order(crti_deadlock_facts_t *f)
{
    if (f->count)
        qsort(f->facts, f->count, sizeof(fact_t *), by_age);
    for (size_t i = 0; i < f->count; i++)
        f->facts[i]->index = i;
}

/* ---------------------------------------------------------------- who awaits whom */

/* Processes of actors -> the actor. */
static void map_processes(const crti_control_t *c, crti_map_t *processes)
{
    CRTI_LIST_FOREACH (item, &c->actors.placed) {
        crti_actor_entry_t *actor = CRTI_ACTOR_OF(item);

        if (actor->state == CRTI_ACTOR_ALIVE)
            (void)crti_map_put(processes, &actor->process, actor); /* else: not known */
    }
}

/* The job of an actor or a process; false: not known. */
static bool find_job(const crti_control_t *c, const crti_map_t *processes, crti_id_t id,
                     const fact_t *asker, crti_id_t *job_out)
{
    const crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, id);

    if (crti_id_equal(asker->job->driver, id)) {
        *job_out = asker->job->id;
        return true;
    }
    if (actor == NULL)
        actor = crti_map_get(processes, &id);
    if (actor)
        *job_out = actor->made->job;
    return actor != NULL;
}

/* Ids become the indices of other jobs. */
static void resolve(const crti_control_t *c, const crti_deadlock_facts_t *f,
                    const crti_map_t *processes, fact_t *fact)
{
    size_t count = fact->awaits.size / 16;
    crti_buffer_t indices = {0};

    for (size_t i = 0; i < count && !fact->may_go_on; i++) {
        crti_id_t id = crti_id_unpack(fact->awaits.data + i * 16), job;
        const fact_t *other;

        if (!find_job(c, processes, id, fact, &job)) {
            fact->may_go_on = true;
        } else if (!crti_id_equal(job, fact->job->id)) {
            other = crti_map_get(&f->by_job, &job);
            if (!other || crti_buffer_append(&indices, &other->index, sizeof(size_t)))
                fact->may_go_on = true;
        }
    }
    crti_buffer_fini(&fact->awaits);
    fact->awaits = indices;
}

static void resolve_all(const crti_control_t *c, const crti_deadlock_facts_t *f)
{
    crti_map_t processes;
    bool is_asked = false;

    for (size_t i = 0; i < f->count; i++)
        is_asked |= !f->facts[i]->may_go_on && f->facts[i]->awaits.size;
    crti_map_init(&processes, sizeof(crti_id_t));
    if (is_asked)
        map_processes(c, &processes);
    for (size_t i = 0; i < f->count; i++)
        resolve(c, f, &processes, f->facts[i]);
    crti_map_fini(&processes);
}

/* ---------------------------------------------------------------- two looks */

/* The same as in the look before; and what the next one is compared with. */
static bool is_as_before(fact_t *fact, const crti_map_t *last, crti_map_t *now)
{
    const seen_t *before = crti_map_get(last, &fact->job->id);
    seen_t *seen = malloc(sizeof(*seen));

    if (seen)
        *seen = (seen_t){fact->processes, fact->activity};
    if (seen && crti_map_put(now, &fact->job->id, seen) != CRT_OK)
        free(seen);
    return before && before->processes == fact->processes &&
           before->activity == fact->activity;
}

static void compare(crti_deadlock_facts_t *f, crti_map_t *last)
{
    crti_map_t now;

    crti_map_init(&now, sizeof(crti_id_t));
    for (size_t i = 0; i < f->count; i++) {
        fact_t *fact = f->facts[i];

        fact->may_go_on |= !fact->has_driver || crti_id_is_zero(fact->job->driver) ||
                           fact->job->stopping;
        if (!fact->may_go_on)
            fact->may_go_on = !is_as_before(fact, last, &now);
    }
    CRTI_MAP_FOREACH (void, seen, last)
        free(seen);
    crti_map_fini(last);
    *last = now;
}

/* ---------------------------------------------------------------- called from outside */

crt_status_t crti_deadlock_facts_new(const crti_control_t *c, crti_span_t rows,
                                     crti_map_t *last, crti_deadlock_facts_t **facts_out)
{
    crti_deadlock_facts_t *f = calloc(1, sizeof(*f));
    crt_status_t status;

    if (f == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "a look");
    crti_map_init(&f->node_index, sizeof(crti_id_t));
    crti_map_init(&f->by_job, sizeof(crti_id_t));
    status = take_nodes(c, f);
    if (status != CRT_OK) {
        crti_deadlock_facts_free(f);
        return status;
    }
    take_rows(c, f, rows);
    put_in_order(f);
    take_requests(c, f);
    compare(f, last);
    resolve_all(c, f);
    f->jobs = calloc(f->count + 1, sizeof(*f->jobs));
    if (f->jobs == NULL) {
        crti_deadlock_facts_free(f);
        return crt_raise(CRT_ERR_NO_MEMORY, "a look");
    }
    *facts_out = f;
    return CRT_OK;
}

static void put_job(crti_deadlock_facts_t *f, size_t i)
{
    fact_t *fact = f->facts[i];

    for (size_t k = 0; k < fact->want_count; k++)
        fact->requests[k] =
            (crti_stuck_request_t){fact->wants[k]->bundles, fact->wants[k]->bundle_count,
                                   fact->wants[k]->strategy};
    f->jobs[i] = (crti_stuck_job_t){
        .may_go_on = fact->may_go_on,
        .requests = fact->requests,
        .request_count = fact->want_count,
        .parts = (const crti_stuck_part_t *)(const void *)fact->parts.data,
        .part_count = fact->parts.size / sizeof(crti_stuck_part_t),
        .awaits = (const size_t *)(const void *)fact->awaits.data,
        .await_count = fact->awaits.size / sizeof(size_t),
    };
}

size_t crti_deadlock_facts_judge(crti_deadlock_facts_t *f)
{
    for (size_t i = 0; i < f->count; i++)
        put_job(f, i);
    return crti_resource_deadlock_find(
        (const crti_placement_node_t *)(const void *)f->nodes.data, f->available,
        f->node_count, f->jobs, f->count);
}

/* ---------------------------------------------------------------- who holds and wants what */

/* What it has in all of what those that are stuck want. */
static crti_resources_t held_of(const crti_deadlock_facts_t *f, size_t job)
{
    crti_resources_t all = {.count = 0}, wanted = {.count = 0};

    for (size_t i = 0; i < f->jobs[job].part_count; i++)
        crti_resources_give(&all, &f->jobs[job].parts[i].held);
    for (size_t i = 0; i < f->count; i++)
        for (size_t k = 0; f->jobs[i].is_stuck && k < f->facts[i]->want_count; k++)
            crti_resources_give(&wanted, &f->facts[i]->wants[k]->resources);
    for (unsigned i = all.count; i > 0; i--)
        if (crti_resources_get(&wanted, all.item[i - 1].name) == 0)
            crti_resources_set(&all, all.item[i - 1].name, 0);
    return all;
}

static void name_job(const crti_control_t *c, const crti_job_entry_t *job,
                     char name[static 80])
{
    const crti_node_entry_t *node = crti_node_table_get(&c->nodes, job->node);
    char hex[CRTI_ID_HEX], id[40];

    snprintf(id, sizeof(id), "%.32s", crti_copied_text(job->made->submission));
    if (id[0] == '\0')
        snprintf(id, sizeof(id), "%.8s", crti_id_hex(job->id, hex));
    snprintf(name, 80, "job %s (pid %lld on %.20s)", id, (long long)job->pid,
             node ? node->ip : "?");
}

static void say_wants(const fact_t *fact, char text[static 128])
{
    const crti_deadlock_want_t *want = fact->wants[fact->want_count - 1];
    char amount[64];

    snprintf(text, 128, "%s (%.40s)%s",
             crti_resources_format(&want->resources, amount, sizeof(amount)), want->name,
             fact->want_count > 1 ? ", and more" : "");
}

static void describe(const crti_control_t *c, const crti_deadlock_facts_t *f, size_t i,
                     const crti_resources_t *held, crti_deadlock_member_t *member)
{
    member->job = f->facts[i]->job->id;
    name_job(c, f->facts[i]->job, member->name);
    crti_resources_format(held, member->holds, sizeof(member->holds));
    say_wants(f->facts[i], member->wants);
}

size_t crti_deadlock_facts_members(const crti_control_t *c,
                                   const crti_deadlock_facts_t *f,
                                   crti_deadlock_member_t **members_out)
{
    crti_deadlock_member_t *members = calloc(f->count + 1, sizeof(*members));
    size_t count = 0, holders = 0;

    for (int pass = 0; members && pass < 2; pass++) {
        for (size_t i = 0; i < f->count; i++) {
            crti_resources_t held;

            if (!f->jobs[i].is_stuck)
                continue;
            held = held_of(f, i);
            if ((held.count > 0) == (pass == 0))
                describe(c, f, i, &held, &members[count++]);
        }
        if (pass == 0)
            holders = count;
    }
    if (holders == 0) {
        free(members);
        return 0;
    }
    *members_out = members;
    return count;
}

const crti_deadlock_want_t *crti_deadlock_facts_youngest(const crti_deadlock_facts_t *f)
{
    const crti_deadlock_want_t *youngest = NULL;

    for (size_t i = 0; i < f->count; i++) {
        if (!f->jobs[i].is_stuck || held_of(f, i).count == 0)
            continue;
        for (size_t k = 0; k < f->facts[i]->want_count; k++) {
            const crti_deadlock_want_t *want = f->facts[i]->wants[k];

            if (youngest == NULL || want->since_ns >= youngest->since_ns)
                youngest = want;
        }
    }
    return youngest;
}
