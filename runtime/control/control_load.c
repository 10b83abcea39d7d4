/* SPDX-License-Identifier: Apache-2.0 */
/* Recovery: the tables from the rows of the store, and rows written again. The rules are in
 * docs/design/recovery.md; what nodes report is joined in control_node.c. A row may come twice:
 * that is how redis scans a table that is getting smaller. */
#include "runtime/control/control_load.h"
#include "runtime/base/log.h"
#include "runtime/control/control_actor.h"
#include "runtime/control/control_autoscale.h"
#include "runtime/control/control_placement_group.h"
#include "runtime/control/control_resource_request.h"
#include "runtime/control/control_revoke.h"
#include "runtime/control/control_save.h"
#include "runtime/control/control_state.h"
#include "runtime/control/kv.h"
#include "runtime/control/outbox.h"

/* ---------------------------------------------------------------- loading */

static crt_status_t load_meta(crti_control_t *c, const crti_message_t *m)
{
    c->cluster = m->row_meta.cluster;
    c->head_incarnation = m->row_meta.head_incarnation;
    c->jobs.last_number = m->row_meta.jobs;
    return CRT_OK;
}

static crt_status_t load_node(crti_control_t *c, const crti_message_t *m)
{
    crti_resource_names_note(&c->resource_names, &m->row_node.resources);
    return crti_node_table_load(&c->nodes, &m->row_node, c->now_ns);
}

static crt_status_t load_actor(crti_control_t *c, const crti_message_t *m)
{
    return crti_control_is_revoked(c, m->actor_create.actor)
               ? CRT_OK
               : crti_actor_table_load_new(&c->actors, &m->actor_create);
}

static crt_status_t load_actor_state(crti_control_t *c, const crti_message_t *m)
{
    crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, m->row_actor.actor);

    if (actor == NULL) { /* its first row could not be stored, or is deleted */
        crti_control_delete(c, CRTI_STORE_ACTOR_STATES, m->row_actor.actor);
        return CRT_OK;
    }
    return crti_actor_table_load(&c->actors, actor, &m->row_actor, c->now_ns);
}

static crt_status_t load_job(crti_control_t *c, const crti_message_t *m)
{
    crti_job_entry_t *job = NULL;
    crt_status_t status;

    if (crti_control_is_revoked(c, m->row_job.job))
        return CRT_OK;
    status = crti_job_table_load(&c->jobs, &m->row_job, &job);
    if (status == CRT_OK)
        job->unsaved = true; /* until its second row comes */
    return status;
}

static crt_status_t load_job_state(crti_control_t *c, const crti_message_t *m)
{
    crti_job_entry_t *job = crti_job_table_get(&c->jobs, m->row_job_state.job);

    if (job == NULL) {
        crti_control_delete(c, CRTI_STORE_JOB_STATES, m->row_job_state.job);
        return CRT_OK;
    }
    job->unsaved = false;
    return crti_job_table_load_state(&c->jobs, job, &m->row_job_state, c->now_ns);
}

static crt_status_t load_placement_group(crti_control_t *c, const crti_message_t *m)
{
    return crti_control_is_revoked(c, m->row_placement_group.group)
               ? CRT_OK
               : crti_placement_group_table_load(&c->placement_groups,
                                                 &m->row_placement_group);
}

static crt_status_t load_actor_save(crti_control_t *c, const crti_message_t *m)
{
    return crti_control_load_save(c, &m->actor_save);
}

static crt_status_t load_resource_request(crti_control_t *c, const crti_message_t *m)
{
    return crti_control_load_resource_request(c, &m->resource_request);
}

/* Users' values stay where they are. */
static const struct {
    crti_message_kind_t kind;
    crt_status_t (*load)(crti_control_t *c, const crti_message_t *m);
} rows[CRTI_STORE_KV] = {
    [CRTI_STORE_META] = {CRTI_MSG_ROW_META, load_meta},
    [CRTI_STORE_NODES] = {CRTI_MSG_ROW_NODE, load_node},
    [CRTI_STORE_ACTORS] = {CRTI_MSG_ACTOR_CREATE, load_actor},
    [CRTI_STORE_ACTOR_STATES] = {CRTI_MSG_ROW_ACTOR, load_actor_state},
    [CRTI_STORE_ACTOR_SAVES] = {CRTI_MSG_ACTOR_SAVE, load_actor_save},
    [CRTI_STORE_JOBS] = {CRTI_MSG_ROW_JOB, load_job},
    [CRTI_STORE_JOB_STATES] = {CRTI_MSG_ROW_JOB_STATE, load_job_state},
    [CRTI_STORE_PLACEMENT_GROUPS] = {CRTI_MSG_ROW_PLACEMENT_GROUP, load_placement_group},
    [CRTI_STORE_RESOURCE_REQUESTS] = {CRTI_MSG_RESOURCE_REQUEST, load_resource_request},
};

static crt_status_t load_row(crti_control_t *c, crti_store_table_t table,
                             const crti_message_t *m)
{
    if (table >= CRTI_STORE_KV)
        return CRT_OK;
    if (m->kind != rows[table].kind)
        return crt_raise(CRT_ERR_CORRUPT, "a row holds %s instead of %s",
                         crti_message_name(m->kind), crti_message_name(rows[table].kind));
    return rows[table].load(c, m);
}

void crti_control_load(crti_control_t *c, crti_store_table_t table, crti_span_t key,
                       crti_span_t value, uint64_t now_ns)
{
    crti_message_t m;
    crt_status_t status;

    c->now_ns = now_ns;
    status = crti_message_decode(value.data, value.size, &m);
    if (status == CRT_OK)
        status = load_row(c, table, &m);
    if (status == CRT_OK)
        return;
    c->rows_unreadable++;
    crti_log(CRTI_LOG_WARN, "control", "row %.*s of table %d: %s", (int)key.size,
             key.size ? (const char *)key.data : "", (int)table, crt_error_detail());
}

/* ---------------------------------------------------------------- after loading */

/* First rows without a second: nobody was told that the creation succeeded. */
static void drop_halves(crti_control_t *c)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->actors.waiting) {
        crti_actor_entry_t *actor = CRTI_ACTOR_OF(item);

        if (!actor->unsaved)
            continue;
        crti_control_delete(c, CRTI_STORE_ACTORS, actor->id);
        crti_actor_table_undo(&c->actors, actor);
    }
    CRTI_LIST_FOREACH_SAFE (item, &c->jobs.running) {
        crti_job_entry_t *job = CRTI_JOB_OF(item);

        if (!job->unsaved)
            continue;
        crti_control_delete(c, CRTI_STORE_JOBS, job->id);
        crti_job_table_undo(&c->jobs, job);
    }
}

/* Jobs and owners know how many actors they have; jobs are loaded after actors. */
static void count_actors(crti_control_t *c)
{
    crti_list_t *lists[] = {&c->actors.waiting, &c->actors.placed};

    for (size_t i = 0; i < 2; i++)
        CRTI_LIST_FOREACH (item, lists[i])
            crti_control_actor_loaded(c, CRTI_ACTOR_OF(item));
}

static void expect_bundles(crti_control_t *c, const crti_list_t *groups)
{
    CRTI_LIST_FOREACH (item, groups) {
        const crti_placement_group_entry_t *group = CRTI_PLACEMENT_GROUP_OF(item);

        for (size_t i = 0; i < group->bundle_count; i++)
            if (group->bundles[i].state == CRTI_BUNDLE_RESERVED)
                crti_node_table_expect(&c->nodes, group->bundles[i].node, c->now_ns);
    }
}

/* A node that no row knows, but an actor or a job is on: its row could not be stored. It is waited
 * for like the others. */
static void expect_nodes(crti_control_t *c)
{
    CRTI_LIST_FOREACH (item, &c->actors.placed) {
        crti_node_table_expect(&c->nodes, CRTI_ACTOR_OF(item)->node, c->now_ns);
        crti_control_actor_found_node(c, CRTI_ACTOR_OF(item));
    }
    CRTI_LIST_FOREACH (item, &c->jobs.running)
        crti_node_table_expect(&c->nodes, CRTI_JOB_OF(item)->node, c->now_ns);
    expect_bundles(c, &c->placement_groups.created);
    expect_bundles(c, &c->placement_groups.waiting);
}

/* What is said to be on a node that is dead is not there. */
static void end_homeless(crti_control_t *c)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->actors.placed) {
        crti_actor_entry_t *actor = CRTI_ACTOR_OF(item);
        const crti_node_entry_t *node = crti_node_table_get(&c->nodes, actor->node);

        if (!node || node->state != CRTI_NODE_DEAD)
            continue;
        crti_control_fence(c, actor);
        crti_actor_entry_died(&c->actors, actor, CRT_ERR_NODE_LOST,
                              "its node died while the head was away", true, c->now_ns,
                              crti_control_wall(c));
    }
    CRTI_LIST_FOREACH (item, &c->nodes.dead)
        crti_control_placement_groups_of_node(c, CRTI_NODE_OF(item),
                                              "its node died while the head was away");
    CRTI_LIST_FOREACH_SAFE (item, &c->jobs.running) {
        crti_job_entry_t *job = CRTI_JOB_OF(item);
        const crti_node_entry_t *node = crti_node_table_get(&c->nodes, job->node);

        if ((job->state == CRTI_JOB_RUNNING || job->start_sent) && node &&
            node->state == CRTI_NODE_DEAD)
            crti_job_entry_end(&c->jobs, job, CRTI_JOB_FAILED, "", "its node died",
                               c->now_ns, crti_control_wall(c));
    }
}

/* Actors whose name was given to a later one: they had died. */
static void end_superseded(crti_control_t *c)
{
    crti_list_t *lists[] = {&c->actors.waiting, &c->actors.placed};

    for (size_t i = 0; i < 2; i++)
        CRTI_LIST_FOREACH_SAFE (item, lists[i]) {
            crti_actor_entry_t *actor = CRTI_ACTOR_OF(item);

            if (!actor->superseded)
                continue;
            crti_control_fence(c, actor);
            crti_actor_entry_end(&c->actors, actor, CRT_ERR_ACTOR_DIED,
                                 "it died before its name was given to another actor",
                                 c->now_ns, crti_control_wall(c));
        }
}

/* Who has the name of an actor that may still take calls waits, as if he had just been made. */
static void wait_for_names(crti_control_t *c)
{
    CRTI_LIST_FOREACH (item, &c->actors.waiting)
        crti_actor_entry_wait_for_name(&c->actors, CRTI_ACTOR_OF(item), c->now_ns);
}

/* Actors whose job has ended; with `unknown` also those whose job nobody knows. */
static void end_orphans(crti_control_t *c, bool unknown)
{
    crti_list_t *lists[] = {&c->actors.waiting, &c->actors.placed};

    for (size_t i = 0; i < 2; i++)
        CRTI_LIST_FOREACH_SAFE (item, lists[i]) {
            crti_actor_entry_t *actor = CRTI_ACTOR_OF(item);
            const crti_job_entry_t *job = crti_job_table_get(&c->jobs, actor->made->job);

            if (!actor->made->detached && (job ? crti_job_entry_is_ended(job) : unknown))
                crti_control_actor_end(c, actor, CRT_OK, "its job ended");
        }
}

void crti_control_joined(crti_control_t *c)
{
    if (!c->joining)
        return;
    CRTI_LIST_FOREACH (item, &c->nodes.living)
        if (CRTI_NODE_OF(item)->state == CRTI_NODE_EXPECTED)
            return;
    /* Every node that may come back has said which drivers it has. */
    c->joining = false;
    end_orphans(c, true);
    crti_control_placement_group_orphans(c, true);
    crti_control_resource_requests_end(c, true);
}

void crti_control_loaded(crti_control_t *c, uint64_t now_ns)
{
    c->now_ns = now_ns;
    c->event_first = c->ticket + 1;
    c->start_ms = crti_control_wall(c);
    c->head_incarnation++;
    crti_control_put_meta(c);
    crti_control_delete_revoked(c);
    drop_halves(c);
    count_actors(c);
    end_superseded(c);
    expect_nodes(c);
    end_homeless(c);
    end_orphans(c, false);
    crti_control_placement_group_orphans(c, false);
    crti_control_resource_requests_end(c, false);
    wait_for_names(c);
    CRTI_LIST_FOREACH (item, &c->jobs.ended) /* what the head before had begun */
        crti_control_clear_groups(c, CRTI_JOB_OF(item));
    crti_control_autoscale_begin(c);
    c->serving = c->joining = true;
    crti_control_joined(c);
    crti_log(CRTI_LOG_INFO, "control", "serving: %zu nodes, %zu actors, %zu jobs known",
             c->nodes.by_id.count, c->actors.by_id.count, c->jobs.by_id.count);
}

/* ---------------------------------------------------------------- rows again */

/* Rows of what is unsaved are on their way, perhaps behind a deletion that failed: what comes of
 * them decides whether there is a row, and nothing is deleted behind them. */

static void rewrite_actor(crti_control_t *c, crti_store_table_t table, crti_id_t id)
{
    const crti_actor_entry_t *actor = crti_actor_table_get(&c->actors, id);

    if (actor && actor->unsaved)
        return;
    if (actor == NULL) {
        crti_control_delete(c, table, id);
    } else if (table == CRTI_STORE_ACTOR_STATES) {
        crti_control_put_actor_state(c, actor);
    } else {
        crti_control_put(c, table, id, CRTI_MSG_ACTOR_CREATE, actor->made);
    }
}

static void rewrite_job(crti_control_t *c, crti_store_table_t table, crti_id_t id)
{
    const crti_job_entry_t *job = crti_job_table_get(&c->jobs, id);

    if (job && job->unsaved)
        return;
    if (job == NULL) {
        crti_control_delete(c, table, id);
    } else if (table == CRTI_STORE_JOBS) {
        crti_control_put(c, table, id, CRTI_MSG_ROW_JOB, job->made);
    } else {
        crti_msg_row_job_state_t row = crti_job_entry_state_row(job);

        crti_control_put(c, table, id, CRTI_MSG_ROW_JOB_STATE, &row);
    }
}

static void rewrite_placement_group(crti_control_t *c, crti_id_t id)
{
    const crti_placement_group_entry_t *group =
        crti_placement_group_table_get(&c->placement_groups, id);

    if (group && group->state != CRTI_PLACEMENT_GROUP_REMOVED)
        crti_control_put_placement_group(c, group);
    else
        crti_control_delete(c, CRTI_STORE_PLACEMENT_GROUPS, id);
}

void crti_control_rewrite(crti_control_t *c, crti_store_table_t table, crti_id_t id)
{
    const crti_node_entry_t *node;

    switch (table) {
    case CRTI_STORE_META: crti_control_put_meta(c); break;
    case CRTI_STORE_NODES:
        node = crti_node_table_get(&c->nodes, id);
        if (node) {
            crti_msg_row_node_t row = crti_node_row(node);

            crti_control_put(c, table, id, CRTI_MSG_ROW_NODE, &row);
        } else {
            crti_control_delete(c, table, id);
        }
        break;
    case CRTI_STORE_ACTORS:
    case CRTI_STORE_ACTOR_STATES: rewrite_actor(c, table, id); break;
    case CRTI_STORE_ACTOR_SAVES: crti_control_put_save(c, id); break;
    case CRTI_STORE_JOBS:
    case CRTI_STORE_JOB_STATES: rewrite_job(c, table, id); break;
    case CRTI_STORE_PLACEMENT_GROUPS: rewrite_placement_group(c, id); break;
    case CRTI_STORE_RESOURCE_REQUESTS: crti_control_put_resource_request(c, id); break;
    case CRTI_STORE_KV: crti_control_clear_groups_of(c, id); break;
    default: break;
    }
}
