/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to the head: questions that survive reconnects, notices, deaths. See head.h. */
#include <string.h>

#include "runtime/node/node.h"

#define GATHER_NS  (50 * CRTI_MS)
#define UNTOLD_MAX 4096 /* deaths that are kept for the head, as many as it keeps */

typedef struct question {
    uint64_t number;
    crti_message_kind_t kind;
    crti_buffer_t bytes; /* the encoded message */
    crti_head_answer_t *on_answer;
    crti_id_t id;
    uint64_t token;
    crti_list_t link;
} question_t;

/* ---------------------------------------------------------------- questions */

static void free_question(crti_node_t *node, question_t *q)
{
    crti_map_remove(&node->head.pending, &q->number);
    crti_list_remove(&q->link);
    crti_buffer_fini(&q->bytes);
    free(q);
}

static void put_on_link(crti_node_t *node, const question_t *q)
{
    crti_message_t message;

    if (crti_message_decode(q->bytes.data, q->bytes.size, &message) == CRT_OK)
        crti_stream_send(node->head.stream, message.kind, q->number, &message.error);
}

crt_status_t crti_head_ask(crti_node_t *node, crti_message_kind_t kind, const void *body,
                           crti_head_answer_t *on_answer, crti_id_t id, uint64_t token)
{
    question_t *q = calloc(1, sizeof(*q));
    crt_status_t status;

    if (q == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "question to the head");
    q->number = ++node->head.requests;
    q->kind = kind;
    q->on_answer = on_answer;
    q->id = id;
    q->token = token;
    crti_list_append(&node->head.order, &q->link);
    status = crti_message_encode(kind, q->number, body, &q->bytes);
    if (status == CRT_OK)
        status = crti_map_put(&node->head.pending, &q->number, q);
    if (status != CRT_OK) {
        free_question(node, q);
        return status;
    }
    if (node->head.open)
        put_on_link(node, q);
    return CRT_OK;
}

void crti_head_answered(crti_node_t *node, const crti_message_t *message)
{
    question_t *q = crti_map_get(&node->head.pending, &message->request);
    question_t copy;

    if (q == NULL)
        return; /* asked twice across a reconnect */
    copy = *q;
    free_question(node, q);
    copy.on_answer(node, copy.id, copy.token, message);
}

void crti_head_drop(crti_node_t *node, crti_message_kind_t kind, crti_id_t id)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->head.order) {
        question_t *q = CRTI_CONTAINER(item, question_t, link);

        if (q->kind == kind && crti_id_equal(q->id, id))
            free_question(node, q);
    }
}

void crti_head_drop_asker(crti_node_t *node, crti_head_answer_t *on_answer, crti_id_t id)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->head.order) {
        question_t *q = CRTI_CONTAINER(item, question_t, link);

        if (q->on_answer == on_answer && crti_id_equal(q->id, id))
            free_question(node, q);
    }
}

void crti_head_ask_again(crti_node_t *node)
{
    CRTI_LIST_FOREACH (item, &node->head.order) {
        put_on_link(node, CRTI_CONTAINER(item, question_t, link));
    }
}

void crti_head_send(crti_node_t *node, crti_message_kind_t kind, uint64_t request,
                    const void *body)
{
    /* An answer belongs to the link that the request came on. */
    if (node->head.open || (node->head.registering && request == 0))
        crti_stream_send(node->head.stream, kind, request, body);
}

/* ---------------------------------------------------------------- deaths */

typedef struct untold {
    crti_buffer_t bytes; /* the encoded PEER_DIED */
    crti_list_t link;
} untold_t;

/* The oldest. */
static void forget_untold(crti_node_t *node)
{
    crti_list_t *item = crti_list_pop(&node->head.untold);
    untold_t *u;

    if (item == NULL)
        return;
    u = CRTI_CONTAINER(item, untold_t, link);
    node->head.untold_count--;
    crti_buffer_fini(&u->bytes);
    free(u);
}

void crti_head_tell_death(crti_node_t *node, const crti_msg_peer_died_t *died)
{
    untold_t *u;

    if (node->head.open || node->head.registering) {
        crti_head_send(node, CRTI_MSG_PEER_DIED, 0, died);
        return;
    }
    u = calloc(1, sizeof(*u));
    if (u == NULL ||
        crti_message_encode(CRTI_MSG_PEER_DIED, 0, died, &u->bytes) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "head", "out of memory: a death is not told");
        free(u);
        return;
    }
    crti_list_append(&node->head.untold, &u->link);
    if (++node->head.untold_count > UNTOLD_MAX)
        forget_untold(node);
}

void crti_head_tell_deaths(crti_node_t *node)
{
    while (!crti_list_is_empty(&node->head.untold)) {
        const untold_t *u = CRTI_CONTAINER(node->head.untold.next, untold_t, link);
        crti_message_t message;

        if (crti_message_decode(u->bytes.data, u->bytes.size, &message) == CRT_OK)
            crti_head_send(node, CRTI_MSG_PEER_DIED, 0, &message.peer_died);
        forget_untold(node);
    }
}

void crti_head_send_error(crti_node_t *node, uint64_t request, crt_status_t status,
                          const char *text)
{
    crti_msg_error_t error = {.status = status, .text = crti_str(text)};

    if (request)
        crti_head_send(node, CRTI_MSG_ERROR, request, &error);
}

/* ---------------------------------------------------------------- the link */

void crti_head_changed(crti_node_t *node)
{
    uint64_t at = node->head.beat_ns + GATHER_NS;

    if (!node->head.open || node->head.changed)
        return;
    node->head.changed = true;
    crti_loop_start(node->loop, &node->head.beat, at);
}

void crti_head_leave(crti_node_t *node, const char *why)
{
    crti_msg_node_leave_t leave = {.text = crti_str(why)};

    crti_loop_cancel(node->loop, &node->head.retry);
    crti_loop_cancel(node->loop, &node->head.beat);
    if (node->head.open)
        crti_stream_send(node->head.stream, CRTI_MSG_NODE_LEAVE, 0, &leave);
}

void crti_head_free(crti_node_t *node)
{
    crti_stream_free(node->head.stream);
    node->head.stream = NULL;
    while (!crti_list_is_empty(&node->head.order))
        free_question(node, CRTI_CONTAINER(node->head.order.next, question_t, link));
    crti_map_fini(&node->head.pending);
    while (!crti_list_is_empty(&node->head.untold))
        forget_untold(node);
}
