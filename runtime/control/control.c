/* SPDX-License-Identifier: Apache-2.0 */
/* Control: links, dispatch, the outbox and the store's tickets. See control.h. */
#include "runtime/control/control.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/control/control_int.h"

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
    c->view_ns = UINT64_MAX;
    c->dirty_retry_ns = UINT64_MAX;
    c->address = strdup(config->address);
    crti_node_table_init(&c->nodes);
    crti_actor_table_init(&c->actors, crti_control_on_actor, c);
    crti_job_table_init(&c->jobs, crti_control_on_job, c);
    crti_map_init(&c->owners, sizeof(crti_id_t));
    crti_map_init(&c->links, sizeof(uint64_t));
    crti_map_init(&c->request_map, sizeof(uint64_t));
    crti_map_init(&c->death_map, sizeof(crti_id_t));
    crti_map_init(&c->revoked, sizeof(crti_id_t));
    crti_list_init(&c->link_list);
    crti_list_init(&c->outbox);
    crti_list_init(&c->in_flight);
    crti_list_init(&c->dirty);
    crti_list_init(&c->requests);
    crti_list_init(&c->deaths);
    crti_list_init(&c->early);
    if (c->address == NULL) {
        crti_control_free(c);
        return crt_raise(CRT_ERR_NO_MEMORY, "control");
    }
    *control_out = c;
    return CRT_OK;
}

static void free_outgoing(crti_control_t *c, crti_outgoing_t *out)
{
    crti_list_remove(&out->in_outbox);
    c->outbox_count--;
    crti_buffer_fini(&out->message);
    free(out->text);
    free(out);
}

void crti_control_free(crti_control_t *c)
{
    crti_list_t *item;

    if (c == NULL)
        return;
    crti_control_requests_free(c);
    crti_control_forget_deaths(c);
    crti_control_early_free(c);
    while (!crti_list_is_empty(&c->outbox))
        free_outgoing(c, CRTI_CONTAINER(c->outbox.next, crti_outgoing_t, in_outbox));
    while ((item = crti_list_pop(&c->in_flight)))
        free(CRTI_CONTAINER(item, crti_inflight_t, in_flight));
    while ((item = crti_list_pop(&c->dirty)))
        free(CRTI_CONTAINER(item, crti_dirty_t, in_dirty));
    while ((item = crti_list_pop(&c->link_list)))
        free(CRTI_CONTAINER(item, crti_control_link_t, in_links));
    crti_node_table_fini(&c->nodes);
    crti_actor_table_fini(&c->actors);
    crti_job_table_fini(&c->jobs);
    crti_map_fini(&c->owners);
    crti_map_fini(&c->links);
    crti_map_fini(&c->request_map);
    crti_map_fini(&c->death_map);
    crti_map_fini(&c->revoked);
    crti_buffer_fini(&c->places);
    free(c->address);
    free(c);
}

/* Every event begins here: rows stored from now on belong to it. */
static void begin(crti_control_t *c, uint64_t now_ns)
{
    crti_control_be_patient(c, now_ns);
    c->now_ns = now_ns;
    c->event_first = c->ticket + 1;
}

/* ---------------------------------------------------------------- sending */

void crti_control_send(crti_control_t *c, uint64_t link, crti_message_kind_t kind,
                       uint64_t request, const void *body)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t message = {0};

    if (crti_message_encode(kind, request, body, &message) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "control", "%s", crt_error_detail());
        c->config.actions.drop(c->config.actions.user, link, crt_error_detail());
        return;
    }
    c->config.actions.send(c->config.actions.user, link, message.data, message.size);
}

void crti_control_broadcast(crti_control_t *c, crti_message_kind_t kind, const void *body,
                            uint64_t except)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t message = {0};

    if (crti_message_encode(kind, 0, body, &message) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "control", "%s", crt_error_detail());
        return;
    }
    CRTI_LIST_FOREACH (item, &c->nodes.living) {
        const crti_node_entry_t *node = CRTI_NODE_OF(item);

        if (node->state == CRTI_NODE_ALIVE && node->link && node->link != except)
            c->config.actions.send(c->config.actions.user, node->link, message.data,
                                   message.size);
    }
}

/* ---------------------------------------------------------------- the outbox */

static void complete(crti_control_t *c, crti_outgoing_t *out)
{
    if (out->after) {
        out->after(c, out);
        return;
    }
    if (out->status != CRT_OK && out->request) {
        crti_msg_error_t error = {.status = out->status,
                                  .text = crti_str(out->text ? out->text : "")};

        crti_control_send(c, out->link, CRTI_MSG_ERROR, out->request, &error);
        return;
    }
    c->config.actions.send(c->config.actions.user, out->link, out->message.data,
                           out->message.size);
}

/* Lets everything go whose rows are acknowledged. */
static void release(crti_control_t *c)
{
    while (!crti_list_is_empty(&c->outbox)) {
        crti_outgoing_t *out = CRTI_CONTAINER(c->outbox.next, crti_outgoing_t, in_outbox);

        if (out->last > c->acked)
            return;
        crti_list_remove(&out->in_outbox);
        begin(c, c->now_ns); /* what it causes has rows of its own */
        complete(c, out);
        free_outgoing(c, out);
    }
}

static crti_outgoing_t *hold(crti_control_t *c, bool is_change)
{
    crti_outgoing_t *out = calloc(1, sizeof(*out));

    if (out == NULL) {
        crti_log(CRTI_LOG_ERROR, "control", "out of memory: an answer is lost");
        return NULL;
    }
    out->first = is_change ? c->event_first : c->ticket + 1;
    out->last = c->ticket;
    crti_list_append(&c->outbox, &out->in_outbox);
    c->outbox_count++;
    return out;
}

void crti_control_answer(crti_control_t *c, uint64_t link, crti_message_kind_t kind,
                         uint64_t request, const void *body, bool is_change)
{
    crti_outgoing_t *out;

    if (crti_list_is_empty(&c->outbox) && c->acked == c->ticket) {
        crti_control_send(c, link, kind, request, body);
        return;
    }
    out = hold(c, is_change);
    if (out == NULL)
        return;
    out->link = link;
    out->request = is_change ? request : 0;
    if (crti_message_encode(kind, request, body, &out->message) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "control", "%s", crt_error_detail());
        free_outgoing(c, out);
    }
}

void crti_control_tell(crti_control_t *c, uint64_t link, crti_message_kind_t kind,
                       const void *body)
{
    uint64_t before = c->event_first - 1;
    crti_outgoing_t *out;

    if (crti_list_is_empty(&c->outbox) && c->acked >= before) {
        crti_control_send(c, link, kind, 0, body);
        return;
    }
    out = hold(c, false);
    if (out == NULL)
        return;
    out->last = before;
    out->link = link;
    if (crti_message_encode(kind, 0, body, &out->message) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "control", "%s", crt_error_detail());
        free_outgoing(c, out);
    }
}

void crti_control_refuse(crti_control_t *c, uint64_t link, uint64_t request,
                         crt_status_t status)
{
    crti_msg_error_t error = {.status = status, .text = crti_str(crt_error_detail())};

    if (request)
        crti_control_answer(c, link, CRTI_MSG_ERROR, request, &error, false);
}

static void hold_after(crti_control_t *c, const crti_outgoing_t *from)
{
    crti_outgoing_t *out = hold(c, true);

    if (out == NULL)
        return;
    out->after = from->after;
    out->id = from->id;
    out->number = from->number;
    out->link = from->link;
    out->request = from->request;
    if (c->outbox.next == &out->in_outbox)
        release(c); /* nothing is to be waited for */
}

void crti_control_after(crti_control_t *c, crti_after_t *after, crti_id_t id,
                        uint64_t number)
{
    hold_after(c, &(crti_outgoing_t){.after = after, .id = id, .number = number});
}

void crti_control_after_for(crti_control_t *c, crti_after_t *after, crti_id_t id,
                            uint64_t link, uint64_t request)
{
    hold_after(c, &(crti_outgoing_t){
                      .after = after, .id = id, .link = link, .request = request});
}

/* ---------------------------------------------------------------- the store */

static crti_inflight_t *give_ticket(crti_control_t *c, crti_store_verb_t verb,
                                    crti_store_table_t table, crti_id_t id)
{
    crti_inflight_t *operation = calloc(1, sizeof(*operation));

    if (operation == NULL) {
        crti_log(CRTI_LOG_ERROR, "control", "out of memory: a row is not stored");
        return NULL;
    }
    operation->ticket = ++c->ticket;
    operation->verb = verb;
    operation->table = table;
    operation->id = id;
    crti_list_append(&c->in_flight, &operation->in_flight);
    return operation;
}

static void store(crti_control_t *c, const crti_inflight_t *operation, crti_span_t key,
                  crti_span_t value, crti_span_t expected)
{
    crti_store_operation_t out = {.ticket = operation->ticket,
                                  .verb = operation->verb,
                                  .table = operation->table,
                                  .key = key,
                                  .value = value,
                                  .expected = expected};

    c->config.actions.store(c->config.actions.user, &out);
}

void crti_control_put(crti_control_t *c, crti_store_table_t table, crti_id_t id,
                      crti_message_kind_t kind, const void *row)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t value = {0};
    crti_inflight_t *operation;
    char key[CRTI_ID_HEX];

    if (crti_message_encode(kind, 0, row, &value) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "control", "row: %s", crt_error_detail());
        return;
    }
    operation = give_ticket(c, CRTI_STORE_PUT, table, id);
    if (operation)
        store(c, operation, crti_str(crti_id_hex(id, key)),
              crti_span(value.data, value.size), crti_span(NULL, 0));
}

void crti_control_delete(crti_control_t *c, crti_store_table_t table, crti_id_t id)
{
    crti_inflight_t *operation = give_ticket(c, CRTI_STORE_DELETE, table, id);
    char key[CRTI_ID_HEX];

    if (operation)
        store(c, operation, crti_str(crti_id_hex(id, key)), crti_span(NULL, 0),
              crti_span(NULL, 0));
}

/* The second row goes first: a first row alone is known as a half (control_load.c). */
void crti_control_delete_actor(crti_control_t *c, crti_id_t id)
{
    crti_control_delete(c, CRTI_STORE_ACTOR_STATES, id);
    crti_control_delete(c, CRTI_STORE_ACTORS, id);
}

void crti_control_put_meta(crti_control_t *c)
{
    crti_msg_row_meta_t row = {.cluster = c->cluster,
                               .head_incarnation = c->head_incarnation,
                               .jobs = c->jobs.last_number};

    crti_control_put(c, CRTI_STORE_META, (crti_id_t){0, 0}, CRTI_MSG_ROW_META, &row);
}

void crti_control_store_value(crti_control_t *c, crti_store_verb_t verb, crti_span_t key,
                              crti_span_t value, crti_span_t expected, uint64_t link,
                              uint64_t request)
{
    crti_inflight_t *operation = give_ticket(c, verb, CRTI_STORE_KV, (crti_id_t){0, 0});

    if (operation == NULL)
        return;
    operation->link = link;
    operation->request = request;
    store(c, operation, key, value, expected);
}

void crti_control_clear_values(crti_control_t *c, crti_span_t prefix, crti_id_t job)
{
    crti_inflight_t *operation = give_ticket(c, CRTI_STORE_CLEAR, CRTI_STORE_KV, job);

    if (operation)
        store(c, operation, prefix, crti_span(NULL, 0), crti_span(NULL, 0));
}

static crti_dirty_t *find_dirty(const crti_control_t *c, crti_store_table_t table,
                                crti_id_t id)
{
    CRTI_LIST_FOREACH (item, &c->dirty) {
        crti_dirty_t *dirty = CRTI_CONTAINER(item, crti_dirty_t, in_dirty);

        if (dirty->table == table && crti_id_equal(dirty->id, id))
            return dirty;
    }
    return NULL;
}

/* A row was stored, or not: then it is tried again later. */
static void note_row(crti_control_t *c, const crti_inflight_t *operation,
                     crt_status_t status, const char *text)
{
    crti_dirty_t *dirty =
        c->dirty_count ? find_dirty(c, operation->table, operation->id) : NULL;

    if (status == CRT_OK && dirty) {
        crti_list_remove(&dirty->in_dirty);
        c->dirty_count--;
        free(dirty);
    }
    if (status == CRT_OK)
        return;
    crti_log(CRTI_LOG_WARN, "control", "a row can't be stored: %s", text);
    if (dirty == NULL) {
        dirty = calloc(1, sizeof(*dirty));
        if (dirty == NULL)
            return;
        dirty->table = operation->table;
        dirty->id = operation->id;
        crti_list_append(&c->dirty, &dirty->in_dirty);
        c->dirty_count++;
    }
    dirty->waiting = false;
    if (c->dirty_retry_ns == UINT64_MAX)
        c->dirty_retry_ns = c->now_ns + CRTI_DIRTY_RETRY_NS;
}

/* Everything in the outbox that waits for this row hears that it failed. */
static void note_failure(crti_control_t *c, uint64_t ticket, crt_status_t status,
                         const char *text)
{
    CRTI_LIST_FOREACH (item, &c->outbox) {
        crti_outgoing_t *out = CRTI_CONTAINER(item, crti_outgoing_t, in_outbox);

        if (out->first > ticket || out->last < ticket || out->status != CRT_OK)
            continue;
        out->status = status;
        out->text = strdup(text);
    }
}

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
        note_failure(c, ticket, status, text);
    if (operation->table != CRTI_STORE_KV || operation->verb == CRTI_STORE_CLEAR)
        note_row(c, operation, status, text);
    else
        crti_control_kv_done(c, operation, status, text, found, value);
    if (operation->verb == CRTI_STORE_DELETE && status == CRT_OK)
        crti_control_row_deleted(c, operation->table, operation->id);
    if (operation->verb == CRTI_STORE_CLEAR && status == CRT_OK)
        crti_control_job_cleared(c, operation->id);
    free(operation);
    release(c);
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

crti_control_link_t *crti_control_link(const crti_control_t *c, uint64_t number)
{
    return crti_map_get(&c->links, &number);
}

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
    crti_list_append(&c->link_list, &link->in_links);
}

static void forget_watches(crti_control_t *c, uint64_t link)
{
    crti_list_t *lists[] = {&c->actors.waiting, &c->actors.placed, &c->actors.dead};

    for (size_t i = 0; i < 3; i++)
        CRTI_LIST_FOREACH (item, lists[i])
            crti_actor_unwatch(CRTI_ACTOR_OF(item), link);
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
    free(link);
    forget_watches(c, number);
    crti_control_early_closed(c, number);
    crti_control_requests_of(c, number);
    crti_control_requests_lost(c, number, text);
    if (node && node->link == number)
        crti_control_node_lost(c, node);
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

/* What a node's link may say besides requests; false: nothing of that, or it can't be true. */
static bool node_message(crti_control_t *c, crti_control_link_t *link,
                         const crti_message_t *m)
{
    switch (m->kind) {
    case CRTI_MSG_HEARTBEAT: return crti_control_heartbeat(c, link, &m->heartbeat);
    case CRTI_MSG_PEER_DIED: crti_control_peer_died(c, link, &m->peer_died); return true;
    case CRTI_MSG_WATCH: crti_control_watch_peer(c, link, &m->watch); return true;
    case CRTI_MSG_NODE_FIND:
        crti_control_node_find(c, link->number, m->request, m->node_find.node);
        return true;
    case CRTI_MSG_UNWATCH: return true; /* deaths are told to every node anyway */
    case CRTI_MSG_ACTOR_DIED:
        crti_control_actor_died(c, link, m->request, &m->actor_died);
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
            c->config.actions.queued(c->config.actions.user, to->link) < CRTI_LOG_QUEUE)
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
    default: return crti_control_answered(c, link, m);
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
        crti_control_actor_find(c, link, m->request, m->actor_find.name);
        return true;
    case CRTI_MSG_ACTOR_KILL:
        crti_control_actor_kill(c, link, m->request, &m->actor_kill);
        return true;
    case CRTI_MSG_KV_PUT:
    case CRTI_MSG_KV_GET:
    case CRTI_MSG_KV_DELETE:
    case CRTI_MSG_KV_SWAP:
    case CRTI_MSG_KV_KEYS: crti_control_kv(c, link, m); return true;
    case CRTI_MSG_STATE_QUERY:
        crti_control_query(c, link, m->request, &m->state_query);
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
    if (link->node)
        crti_node_heard(link->node, now_ns);
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
    crti_actor_t *actor;
    crti_job_t *job;

    while ((node = crti_node_table_expired(&c->nodes, c->now_ns))) {
        crti_control_delete(c, CRTI_STORE_NODES, node->id);
        crti_node_table_forget(&c->nodes, node);
    }
    while ((actor = crti_actor_table_expired(&c->actors, c->now_ns))) {
        crti_control_delete_actor(c, actor->id);
        crti_actor_table_forget(&c->actors, actor);
    }
    while ((job = crti_job_table_expired(&c->jobs, c->now_ns)))
        crti_control_forget_job(c, job);
}

void crti_control_tick(crti_control_t *c, uint64_t now_ns)
{
    crti_node_entry_t *node;
    const char *text;

    begin(c, now_ns);
    while ((node = crti_node_table_overdue(&c->nodes, now_ns, &text)))
        crti_control_node_died(c, node, text);
    crti_control_requests_overdue(c);
    crti_control_early_overdue(c);
    expire(c);
    if (c->view_ns <= now_ns)
        crti_control_send_views(c);
    if (c->dirty_retry_ns <= now_ns) {
        retry_dirty(c);
        crti_control_start_jobs(c); /* what waited for the store too */
    }
    if (!crti_list_is_empty(&c->actors.waiting))
        crti_control_place_all(c);
    release(c);
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t crti_control_deadline(const crti_control_t *c, uint64_t now_ns)
{
    uint64_t next = earlier(c->view_ns, c->dirty_retry_ns);

    next = earlier(next, crti_node_table_deadline(&c->nodes));
    next = earlier(next, crti_actor_table_deadline(&c->actors, now_ns));
    next = earlier(next, crti_job_table_deadline(&c->jobs));
    next = earlier(next, crti_control_early_deadline(c));
    return earlier(next, crti_control_requests_deadline(c));
}
