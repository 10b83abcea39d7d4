/* SPDX-License-Identifier: Apache-2.0 */
/* Control: links, dispatch, and what the store answers. See control.h. */
#include "runtime/control/control.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/control/control_actor.h"
#include "runtime/control/control_autoscale.h"
#include "runtime/control/control_drain.h"
#include "runtime/control/control_forward.h"
#include "runtime/control/control_job.h"
#include "runtime/control/control_load.h"
#include "runtime/control/control_machine_names.h"
#include "runtime/control/control_node.h"
#include "runtime/control/control_placement_group.h"
#include "runtime/control/control_resource_request.h"
#include "runtime/control/control_revoke.h"
#include "runtime/control/control_save.h"
#include "runtime/control/control_state.h"
#include "runtime/control/control_views.h"
#include "runtime/control/control_watch.h"
#include "runtime/control/kv.h"
#include "runtime/control/outbox.h"
#include "runtime/control/rows/state_rows.h"

#define LOG_QUEUE ((size_t)8 << 20) /* of a link with logs: more waits */
#define AWAY_NS   (2 * CRTI_S) /* longer than between two events of a head with nodes */
#define LATE_NS   (200 * CRTI_MS) /* later than it meant to look is who was held up */

/* ---------------------------------------------------------------- life */

crt_status_t crti_control_new(const crti_control_config_t *config,
                              crti_control_t **control_out)
{
    crti_control_t *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "control");
    c->config = *config;
    c->cluster = config->cluster;
    c->random = config->seed;
    c->dirty_retry_ns = UINT64_MAX;
    c->address = strdup(config->address);
    crti_views_init(&c->views);
    crti_node_table_init(&c->nodes);
    crti_actor_table_init(&c->actors, crti_control_on_actor, c);
    crti_placement_group_table_init(&c->placement_groups);
    crti_job_table_init(&c->jobs, crti_control_on_job, c);
    crti_job_levels_init(&c->job_levels);
    crti_deadlocks_init(&c->deadlocks);
    crti_map_init(&c->owners, sizeof(crti_id_t));
    crti_map_init(&c->links, sizeof(uint64_t));
    crti_map_init(&c->request_map, sizeof(uint64_t));
    crti_map_init(&c->death_map, sizeof(crti_id_t));
    crti_map_init(&c->revoked, sizeof(crti_id_t));
    c->on_link_ended = crti_control_closed;
    c->scale_due_ns = UINT64_MAX;
    crti_list_init(&c->link_list);
    crti_list_init(&c->outbox);
    crti_list_init(&c->in_flight);
    crti_list_init(&c->dirty);
    crti_list_init(&c->requests);
    crti_list_init(&c->deaths);
    crti_list_init(&c->unanswered_deaths);
    crti_list_init(&c->pending_watches);
    crti_list_init(&c->machine_names);
    crti_map_init(&c->machine_of, 0);
    crti_map_init(&c->machines, 0);
    crti_list_init(&c->resource_requests);
    if (c->address == NULL) {
        crti_control_free(c);
        return crt_raise(CRT_ERR_NO_MEMORY, "control");
    }
    *control_out = c;
    return CRT_OK;
}

crti_id_t crti_control_cluster(const crti_control_t *c)
{
    return c->cluster;
}

void crti_control_free(crti_control_t *c)
{
    crti_list_t *item;

    if (c == NULL)
        return;
    crti_control_autoscale_end(c);
    crti_control_machines_free(c);
    crti_control_resource_requests_free(c);
    crti_control_requests_free(c);
    crti_control_forget_deaths(c);
    crti_control_watches_free(c);
    while (!crti_list_is_empty(&c->outbox))
        crti_control_outgoing_free(
            c, CRTI_CONTAINER(c->outbox.next, crti_outgoing_t, in_outbox));
    while ((item = crti_list_pop(&c->in_flight)))
        free(CRTI_CONTAINER(item, crti_inflight_t, in_flight));
    while ((item = crti_list_pop(&c->dirty)))
        free(CRTI_CONTAINER(item, crti_dirty_t, in_dirty));
    while ((item = crti_list_pop(&c->link_list))) {
        crti_map_fini(&CRTI_CONTAINER(item, crti_control_link_t, in_links)->watched);
        free(CRTI_CONTAINER(item, crti_control_link_t, in_links));
    }
    crti_node_table_fini(&c->nodes);
    crti_actor_table_fini(&c->actors);
    crti_placement_group_table_fini(&c->placement_groups);
    crti_job_table_fini(&c->jobs);
    crti_job_levels_fini(&c->job_levels);
    crti_deadlocks_fini(&c->deadlocks);
    crti_map_fini(&c->machine_of);
    crti_map_fini(&c->machines);
    crti_map_fini(&c->owners);
    crti_map_fini(&c->links);
    crti_map_fini(&c->request_map);
    crti_map_fini(&c->death_map);
    crti_map_fini(&c->revoked);
    crti_buffer_fini(&c->placement_nodes);
    free(c->address);
    free(c);
}

/* With nodes there is a heartbeat or a deadline well within AWAY_NS. */
static bool was_away(const crti_control_t *c, uint64_t now_ns)
{
    uint64_t due;

    if (!c->serving || now_ns - c->now_ns < AWAY_NS)
        return false;
    due = crti_control_deadline(c);
    return now_ns > due && now_ns - due > LATE_NS;
}

/* Before an event at `now_ns`: when the head or its host was suspended since the last event,
 * messages of the nodes are still to be read, or the nodes closed their links and are about to
 * reconnect. They get time for that. */
static void grant_grace(crti_control_t *c, uint64_t now_ns)
{
    if (!was_away(c, now_ns))
        return;
    c->grace_until_ns = now_ns + CRTI_NODE_EXPECTED_NS;
    crti_node_table_wait(&c->nodes, now_ns + CRTI_LIMIT(heartbeat_timeout));
}

/* Every event begins here: rows stored from now on belong to it. */
static void begin(crti_control_t *c, uint64_t now_ns)
{
    grant_grace(c, now_ns);
    c->now_ns = now_ns;
    c->event_first = c->ticket + 1;
}

void crti_control_worked(crti_control_t *c, crti_control_work_t *work, uint64_t now_ns)
{
    begin(c, now_ns);
    crti_control_rows_joined(c, work);
}

/* ---------------------------------------------------------------- the store */

void crti_control_stored(crti_control_t *c, uint64_t ticket, crt_status_t status,
                         const char *text, bool found, crti_span_t value, uint64_t now_ns)
{
    crti_inflight_t *operation;

    begin(c, now_ns);
    assert(!crti_list_is_empty(&c->in_flight));
    operation = CRTI_CONTAINER(crti_list_pop(&c->in_flight), crti_inflight_t, in_flight);
    assert(operation->ticket == ticket && ticket > c->acked);
    c->acked = ticket;
    if (status != CRT_OK)
        crti_control_note_failure(c, ticket, status, text);
    if (operation->table != CRTI_STORE_KV || operation->verb == CRTI_STORE_CLEAR)
        crti_control_note_row(c, operation, status, text);
    else
        crti_control_kv_done(c, operation, status, text, found, value);
    if (operation->verb == CRTI_STORE_DELETE && status == CRT_OK)
        crti_control_row_deleted(c, operation->table, operation->id);
    if (operation->verb == CRTI_STORE_CLEAR && status == CRT_OK)
        crti_control_job_cleared(c, operation->id);
    free(operation);
    crti_control_release(c);
    if (c->dirty_count == 0)
        crti_control_answer_deaths(c);
}

/* One at a time: a store that can't write should not get all of them again. */
static void retry_dirty(crti_control_t *c)
{
    c->dirty_retry_ns = UINT64_MAX;
    CRTI_LIST_FOREACH (item, &c->dirty) {
        crti_dirty_t *dirty = CRTI_CONTAINER(item, crti_dirty_t, in_dirty);

        if (dirty->waiting)
            continue;
        dirty->waiting = true;
        crti_control_rewrite(c, dirty->table, dirty->id);
        if (c->dirty_count > 1)
            c->dirty_retry_ns = c->now_ns + CRTI_DIRTY_RETRY_NS / 100;
        return;
    }
}

/* ---------------------------------------------------------------- links */

void crti_control_opened(crti_control_t *c, uint64_t number, bool is_admin,
                         uint64_t now_ns)
{
    crti_control_link_t *link = calloc(1, sizeof(*link));

    begin(c, now_ns);
    if (link == NULL || crti_map_put(&c->links, &number, link) != CRT_OK) {
        free(link);
        c->config.actions.drop(c->config.actions.user, number, "out of memory");
        return;
    }
    link->number = number;
    link->is_admin = is_admin;
    crti_map_init(&link->watched, sizeof(crti_id_t));
    crti_list_append(&c->link_list, &link->in_links);
}

void crti_control_closed(crti_control_t *c, uint64_t number, const char *text,
                         uint64_t now_ns)
{
    crti_control_link_t *link = crti_control_link(c, number);
    crti_node_entry_t *node;

    begin(c, now_ns);
    if (link == NULL)
        return;
    node = link->node;
    crti_map_remove(&c->links, &number);
    crti_list_remove(&link->in_links);
    crti_control_watches_closed(c, link);
    free(link);
    crti_placement_group_link_ended(&c->placement_groups, number);
    crti_control_requests_of(c, number);
    crti_control_requests_lost(c, number, text);
    if (node && node->link == number)
        crti_control_node_lost(c, node);
    crti_control_autoscale_touch(c);
}

/* ---------------------------------------------------------------- dispatch */

/* A message that nobody may send here, or not in this state: the link ends. */
static void refuse_link(crti_control_t *c, crti_control_link_t *link,
                        const crti_message_t *m)
{
    char text[128];

    c->messages_refused++;
    snprintf(text, sizeof(text), "unexpected message %s", crti_message_name(m->kind));
    crti_log(CRTI_LOG_WARN, "control", "link %llu: %s", (unsigned long long)link->number,
             text);
    if (m->request) {
        crt_raise(CRT_ERR_PROTOCOL, "%s", text);
        crti_control_refuse(c, link->number, m->request, CRT_ERR_PROTOCOL);
    }
    if (!link->is_admin) {
        uint64_t number = link->number;

        c->config.actions.drop(c->config.actions.user, number, text);
        crti_control_closed(c, number, text, c->now_ns);
    }
}

static void bundle_answer(crti_control_t *c, const crti_request_t *request,
                          const crti_message_t *m)
{
    char text[512];

    crti_text(m->kind == CRTI_MSG_ERROR ? m->error.text : crti_str(""), text,
              sizeof(text));
    crti_control_bundle_answered(c, request, m->kind == CRTI_MSG_DONE, text);
}

/* An answer came; false: to no request of ours. */
static bool answered(crti_control_t *c, crti_control_link_t *link,
                     const crti_message_t *m)
{
    crti_request_t *request = crti_map_get(&c->request_map, &m->request);

    if (request == NULL || request->link != link->number) {
        if (m->kind == CRTI_MSG_ACTOR_STARTED) /* too late: is it still wanted? */
            crti_control_actor_started(c, link->node, &m->actor_started);
        return m->kind == CRTI_MSG_DONE || m->kind == CRTI_MSG_ERROR ||
               m->kind == CRTI_MSG_LOG_DATA || m->kind == CRTI_MSG_STATE_ANSWER ||
               m->kind == CRTI_MSG_ACTOR_STARTED;
    }
    crti_request_unlink(c, request);
    switch (request->kind) {
    case CRTI_MSG_ACTOR_START: crti_control_actor_answer(c, request, m); break;
    case CRTI_MSG_ACTOR_STOP:
        if (m->kind == CRTI_MSG_DONE)
            crti_control_actor_stopped(c, request);
        break;
    case CRTI_MSG_JOB_START: crti_control_job_answer(c, request, m); break;
    case CRTI_MSG_BUNDLE_RESERVE: bundle_answer(c, request, m); break;
    default: crti_control_forwarded(c, request, m);
    }
    crti_request_free(request);
    return true;
}

/* What a node's link may say besides requests; false: nothing of that, or it can't be true. */
static bool node_message(crti_control_t *c, crti_control_link_t *link,
                         const crti_message_t *m)
{
    switch (m->kind) {
    case CRTI_MSG_HEARTBEAT: return crti_control_heartbeat(c, link, &m->heartbeat);
    case CRTI_MSG_PEER_DIED:
        crti_control_peer_died(c, link, m->request, &m->peer_died);
        return true;
    case CRTI_MSG_WATCH: crti_control_watch_peer(c, link, &m->watch); return true;
    case CRTI_MSG_NODE_FIND:
        crti_control_node_find(c, link->number, m->request, m->node_find.node);
        return true;
    case CRTI_MSG_UNWATCH: return true; /* deaths are told to every node anyway */
    case CRTI_MSG_ACTOR_DIED:
        crti_control_actor_died(c, link, m->request, &m->actor_died);
        return true;
    case CRTI_MSG_ACTOR_SAVE:
        crti_control_actor_save(c, link, m->request, &m->actor_save);
        return true;
    case CRTI_MSG_JOB_ADD:
        crti_control_job_add(c, link->number, m->request, &m->job_add);
        return true;
    case CRTI_MSG_JOB_END: crti_control_job_end(c, link, &m->job_end); return true;
    case CRTI_MSG_JOB_EXITED:
        crti_control_job_exited(c, link->number, m->request, &m->job_exited);
        return true;
    case CRTI_MSG_JOB_GET:
        crti_control_job_get(c, link->number, m->request, m->job_get.job);
        return true;
    case CRTI_MSG_LOG: {
        const crti_node_entry_t *to = crti_node_table_get(&c->nodes, m->log.driver_node);

        if (to && to->link &&
            c->config.actions.queued(c->config.actions.user, to->link) < LOG_QUEUE)
            crti_control_send(c, to->link, CRTI_MSG_LOG, 0, &m->log);
        return true;
    }
    case CRTI_MSG_NODE_LEAVE: {
        char text[256], reason[300];

        snprintf(reason, sizeof(reason), "it was stopped: %s",
                 crti_text(m->node_leave.text, text, sizeof(text)));
        crti_control_node_died(c, link->node, reason);
        return true;
    }
    default: return answered(c, link, m);
    }
}

/* Requests that a node forwards and the admin link makes; false: none. */
static bool request_message(crti_control_t *c, uint64_t link, const crti_message_t *m)
{
    switch (m->kind) {
    case CRTI_MSG_ACTOR_CREATE:
        crti_control_actor_create(c, link, m->request, &m->actor_create);
        return true;
    case CRTI_MSG_ACTOR_WATCH:
        crti_control_actor_watch(c, link, m->request, m->actor_watch.actor);
        return true;
    case CRTI_MSG_ACTOR_UNWATCH:
        crti_control_actor_unwatch(c, link, m->actor_unwatch.actor);
        return true;
    case CRTI_MSG_ACTOR_FIND:
        crti_control_actor_find(c, link, m->request, &m->actor_find);
        return true;
    case CRTI_MSG_ACTOR_KILL:
        crti_control_actor_kill(c, link, m->request, &m->actor_kill);
        return true;
    case CRTI_MSG_PLACEMENT_GROUP_CREATE:
        crti_control_placement_group_create(c, link, m->request,
                                            &m->placement_group_create);
        return true;
    case CRTI_MSG_PLACEMENT_GROUP_GET:
        crti_control_placement_group_get(c, link, m->request, &m->placement_group_get);
        return true;
    case CRTI_MSG_PLACEMENT_GROUP_REMOVE:
        crti_control_placement_group_remove(c, link, m->request,
                                            m->placement_group_remove.group);
        return true;
    case CRTI_MSG_RESOURCE_REQUEST:
        crti_control_resource_request(c, link, m->request, &m->resource_request);
        return true;
    case CRTI_MSG_KV_PUT:
    case CRTI_MSG_KV_GET:
    case CRTI_MSG_KV_DELETE:
    case CRTI_MSG_KV_SWAP:
    case CRTI_MSG_KV_KEYS: crti_control_kv(c, link, m); return true;
    case CRTI_MSG_NODE_DRAIN:
        crti_control_drain(c, link, m->request, &m->node_drain);
        return true;
    case CRTI_MSG_STATE_QUERY:
        crti_control_query(c, link, m->request, &m->state_query);
        return true;
    case CRTI_MSG_VIEW_QUERY:
        crti_control_view(c, link, m->request, &m->view_query);
        return true;
    case CRTI_MSG_LOG_READ:
        crti_control_log_read(c, link, m->request, &m->log_read);
        return true;
    case CRTI_MSG_JOB_SUBMIT:
        crti_control_job_submit(c, link, m->request, &m->job_submit);
        return true;
    case CRTI_MSG_JOB_STOP:
        crti_control_job_stop(c, link, m->request, &m->job_stop);
        return true;
    case CRTI_MSG_JOB_DELETE:
        crti_control_job_delete(c, link, m->request, &m->job_delete);
        return true;
    default: return false;
    }
}

void crti_control_message(crti_control_t *c, uint64_t number,
                          const crti_message_t *message, uint64_t now_ns)
{
    crti_control_link_t *link = crti_control_link(c, number);

    begin(c, now_ns);
    if (link == NULL)
        return;
    crti_control_autoscale_touch(c);
    if (link->node)
        crti_node_heard(&c->nodes, link->node, now_ns);
    if (!link->is_admin && link->node == NULL &&
        message->kind == CRTI_MSG_NODE_REGISTER) {
        crti_control_register(c, link, &message->node_register, message->request);
        return;
    }
    if ((link->is_admin || link->node) && request_message(c, number, message))
        return;
    if (link->node && node_message(c, link, message))
        return;
    refuse_link(c, link, message);
}

/* ---------------------------------------------------------------- time */

static void expire(crti_control_t *c)
{
    crti_node_entry_t *node;
    crti_actor_entry_t *actor;
    crti_job_entry_t *job;

    while ((node = crti_node_table_expired(&c->nodes, c->now_ns))) {
        crti_control_delete(c, CRTI_STORE_NODES, node->id);
        crti_node_table_forget(&c->nodes, node);
    }
    while ((actor = crti_actor_table_expired(&c->actors, c->now_ns))) {
        crti_control_delete_actor(c, actor->id);
        crti_control_forget_save(c, actor);
        crti_control_watches_forget(c, actor);
        crti_actor_table_forget(&c->actors, actor);
    }
    while ((job = crti_job_table_expired(&c->jobs, c->now_ns)))
        crti_control_forget_job(c, job);
}

void crti_control_tick(crti_control_t *c, uint64_t now_ns)
{
    crti_node_entry_t *node;
    char why[CRTI_NODE_WHY];

    begin(c, now_ns);
    while ((node = crti_node_table_overdue(&c->nodes, now_ns, why)))
        crti_control_node_died(c, node, why);
    crti_control_requests_overdue(c);
    crti_control_watches_overdue(c);
    crti_control_placement_groups_overdue(c);
    expire(c);
    if (c->views.due_ns <= now_ns)
        crti_control_send_views(c);
    if (c->dirty_retry_ns <= now_ns) {
        retry_dirty(c);
        crti_control_start_jobs(c); /* what waited for the store too */
    }
    if (crti_control_has_waiting(c)) {
        crti_control_place_all(c);
        crti_control_start_jobs(c);
    }
    if (c->deadlocks.due_ns <= now_ns)
        crti_control_deadlock_look(c);
    crti_control_autoscale_tick(c);
    c->ticked_ns = now_ns;
    crti_control_release(c);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t crti_control_deadline(const crti_control_t *c)
{
    uint64_t next = earlier(c->views.due_ns, c->dirty_retry_ns);

    next = earlier(next, c->deadlocks.due_ns);
    next = earlier(next, c->scale_due_ns);
    next = earlier(next, crti_node_table_deadline(&c->nodes));
    next = earlier(next, crti_actor_table_deadline(&c->actors, c->ticked_ns));
    next = earlier(next, crti_job_table_deadline(&c->jobs));
    next = earlier(
        next, crti_placement_group_table_deadline(&c->placement_groups, c->ticked_ns));
    next = earlier(next, crti_control_watches_deadline(c));
    return earlier(next, crti_control_requests_deadline(c));
}
