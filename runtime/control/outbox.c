/* SPDX-License-Identifier: Apache-2.0 */
/* Outbox: what control says and stores. An answer that depends on rows leaves when they are
 * durable.
 *
 * Where it sits
 *     control.c and what it calls -> [ control/outbox.c ] -> actions: head_links.c, redis.c
 * Invariants
 *     Rows and answers leave in the order of their events; what is in the outbox knows the first
 *     and the last ticket that it waits for.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/control/control_state.h"
#include "runtime/control/outbox.h"

#define LARGE_ANSWER ((size_t)1 << 20)
#define ANSWERS_QUEUE                                                                    \
    ((size_t)64 << 20) /* that wait on a link before a large one is refused */

crti_control_link_t *crti_control_link(const crti_control_t *c, uint64_t number)
{
    return crti_map_get(&c->links, &number);
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

/* An answer that can't be sent becomes an error to the asker, and never the end of its link. */
static crt_status_t encode_answer(const crti_control_t *c, uint64_t link,
                                  crti_message_kind_t kind, uint64_t request,
                                  const void *body, crti_buffer_t *message)
{
    crt_status_t status = crti_message_encode(kind, request, body, message);
    crti_msg_error_t error;

    if (status == CRT_OK && message->size > LARGE_ANSWER &&
        c->config.actions.queued(c->config.actions.user, link) > ANSWERS_QUEUE)
        status =
            crt_raise(CRT_ERR_BACKPRESSURE,
                      "answers of more than %zu bytes have not been read", ANSWERS_QUEUE);
    if (status == CRT_OK && message->size > CRTI_MESSAGE_MAX)
        status = crt_raise(CRT_ERR_TOO_LARGE,
                           "the answer has %zu bytes, at most %u are sent: ask for a "
                           "part of it",
                           message->size, CRTI_MESSAGE_MAX);
    if (status == CRT_OK)
        return CRT_OK;
    crti_log(CRTI_LOG_ERROR, "control", "%s", crt_error_detail());
    error = (crti_msg_error_t){.status = status, .text = crti_str(crt_error_detail())};
    message->size = 0;
    return request ? crti_message_encode(CRTI_MSG_ERROR, request, &error, message)
                   : status;
}

void crti_control_reply(crti_control_t *c, uint64_t link, crti_message_kind_t kind,
                        uint64_t request, const void *body)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t message = {0};

    if (encode_answer(c, link, kind, request, body, &message) == CRT_OK)
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

void crti_control_outgoing_free(crti_control_t *c, crti_outgoing_t *out)
{
    crti_list_remove(&out->in_outbox);
    c->outbox_count--;
    crti_buffer_fini(&out->message);
    free(out->text);
    free(out);
}

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
void crti_control_release(crti_control_t *c)
{
    while (!crti_list_is_empty(&c->outbox)) {
        crti_outgoing_t *out = CRTI_CONTAINER(c->outbox.next, crti_outgoing_t, in_outbox);

        if (out->last > c->acked)
            return;
        crti_list_remove(&out->in_outbox);
        c->event_first = c->ticket + 1; /* what it causes has rows of its own */
        complete(c, out);
        crti_control_outgoing_free(c, out);
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
        crti_control_reply(c, link, kind, request, body);
        return;
    }
    out = hold(c, is_change);
    if (out == NULL)
        return;
    out->link = link;
    out->request = is_change ? request : 0;
    if (encode_answer(c, link, kind, request, body, &out->message) != CRT_OK)
        crti_control_outgoing_free(c, out);
}

void crti_control_notify(crti_control_t *c, uint64_t link, crti_message_kind_t kind,
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
        crti_control_outgoing_free(c, out);
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
        crti_control_release(c); /* nothing is to be waited for */
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
                  crti_span_t value)
{
    crti_store_operation_t out = {.ticket = operation->ticket,
                                  .verb = operation->verb,
                                  .table = operation->table,
                                  .key = key,
                                  .value = value};

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
              crti_span(value.data, value.size));
}

void crti_control_delete(crti_control_t *c, crti_store_table_t table, crti_id_t id)
{
    crti_inflight_t *operation = give_ticket(c, CRTI_STORE_DELETE, table, id);
    char key[CRTI_ID_HEX];

    if (operation)
        store(c, operation, crti_str(crti_id_hex(id, key)), crti_span(NULL, 0));
}

/* The second row goes first: a first row alone is known as a half (control_load.c). */
void crti_control_delete_actor(crti_control_t *c, crti_id_t id)
{
    crti_control_delete(c, CRTI_STORE_ACTOR_STATES, id);
    crti_control_delete(c, CRTI_STORE_ACTORS, id);
}

void crti_control_delete_job(crti_control_t *c, crti_id_t id)
{
    crti_control_delete(c, CRTI_STORE_JOB_STATES, id);
    crti_control_delete(c, CRTI_STORE_JOBS, id);
}

void crti_control_put_meta(crti_control_t *c)
{
    crti_msg_row_meta_t row = {.cluster = c->cluster,
                               .head_incarnation = c->head_incarnation,
                               .jobs = c->jobs.last_number};

    crti_control_put(c, CRTI_STORE_META, (crti_id_t){0, 0}, CRTI_MSG_ROW_META, &row);
}

void crti_control_store_value(crti_control_t *c, const crti_store_operation_t *what,
                              uint64_t link, uint64_t request)
{
    crti_inflight_t *operation =
        give_ticket(c, what->verb, CRTI_STORE_KV, (crti_id_t){0, 0});
    crti_store_operation_t out = *what;

    if (operation == NULL)
        return;
    operation->link = link;
    operation->request = request;
    out.ticket = operation->ticket;
    out.table = CRTI_STORE_KV;
    c->config.actions.store(c->config.actions.user, &out);
}

void crti_control_clear_values(crti_control_t *c, crti_span_t prefix, crti_id_t job)
{
    crti_inflight_t *operation = give_ticket(c, CRTI_STORE_CLEAR, CRTI_STORE_KV, job);

    if (operation)
        store(c, operation, prefix, crti_span(NULL, 0));
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

bool crti_control_is_dirty(const crti_control_t *c, crti_store_table_t table,
                           crti_id_t id)
{
    return c->dirty_count && find_dirty(c, table, id) != NULL;
}

/* A row was stored, or not: then it is tried again later. */
void crti_control_note_row(crti_control_t *c, const crti_inflight_t *operation,
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
void crti_control_note_failure(crti_control_t *c, uint64_t ticket, crt_status_t status,
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
