/* SPDX-License-Identifier: Apache-2.0 */
/* What is said to the head: questions that survive reconnects, notices, deaths. See head.h. */
#include "runtime/node/links/head.h"

#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/node/links/links_int.h"

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

/* ---------------------------------------------------------------- what the link takes */

static void on_breaking(void *user)
{
    crti_node_t *node = user;
    crti_head_t *head = node->head;

    head->on_closed(node, head->stream, head->break_status, head->why);
}

/* At the end of the turn: who says something does not expect that the link is lost inside. */
static void break_link(crti_node_t *node, crt_status_t status)
{
    crti_head_t *head = node->head;

    if (status == CRT_ERR_CLOSED || crti_timer_is_started(&head->breaking))
        return;
    head->break_status = status;
    snprintf(head->why, sizeof(head->why), "%s", crt_error_detail());
    crti_loop_start(node->loop, &head->breaking, 0);
}

/* A notice or an answer. What the link does not take must not be missing between what comes before
 * and behind it: the link breaks, and the next registration tells how things are. */
static crt_status_t say(crti_node_t *node, crti_message_kind_t kind, uint64_t request,
                        const void *body)
{
    crti_head_t *head = node->head;
    crt_status_t status;

    if (crti_timer_is_started(&head->breaking))
        return CRT_ERR_CLOSED;
    status = crti_stream_send(head->stream, kind, request, body);
    if (status == CRT_ERR_TOO_LARGE) { /* on another link, too */
        crti_log(CRTI_LOG_ERROR, "head", "%s is not said: %s", crti_message_name(kind),
                 crt_error_detail());
        status = request ? crti_stream_send_error(head->stream, request, status) : CRT_OK;
    }
    if (status != CRT_OK)
        break_link(node, status);
    return status;
}

/* ---------------------------------------------------------------- questions */

static void free_question(crti_node_t *node, question_t *q)
{
    crti_map_remove(&node->head->pending, &q->number);
    if (node->head->unsaid == &q->link)
        node->head->unsaid = q->link.next;
    crti_list_remove(&q->link);
    crti_buffer_fini(&q->bytes);
    free(q);
}

static void add_question(crti_head_t *head, question_t *q)
{
    crti_list_append(&head->order, &q->link);
    if (head->unsaid == &head->order)
        head->unsaid = &q->link;
}

/* Questions wait here, so that the rest of the link's queue is there for notices, which don't. */
static bool has_room(const crti_head_t *head, const question_t *q)
{
    size_t queued = crti_stream_queued(head->stream);

    return queued == 0 || queued + q->bytes.size <= CRTI_LIMIT(link_queue) / 2;
}

/* In their order, as many as there is room for; on_drained goes on. */
static void say_questions(crti_node_t *node)
{
    crti_head_t *head = node->head;

    while (head->open && head->unsaid != &head->order) {
        const question_t *q = CRTI_CONTAINER(head->unsaid, question_t, link);
        crt_status_t status;

        if (!has_room(head, q))
            return;
        status = crti_stream_send_bytes(head->stream, q->bytes.data, q->bytes.size);
        if (status != CRT_OK) {
            break_link(node, status);
            return;
        }
        head->unsaid = head->unsaid->next;
    }
}

static void on_drained(void *user, crti_stream_t *stream)
{
    say_questions(user);
}

static crt_status_t encode_question(question_t *q, const void *body)
{
    crt_status_t status = crti_message_encode(q->kind, q->number, body, &q->bytes);

    if (status == CRT_OK && q->bytes.size > CRTI_MESSAGE_MAX)
        status = crt_raise(CRT_ERR_TOO_LARGE, "question of %zu bytes, at most %u fit",
                           q->bytes.size, CRTI_MESSAGE_MAX);
    return status;
}

crt_status_t crti_head_ask(crti_node_t *node, crti_message_kind_t kind, const void *body,
                           crti_head_answer_t *on_answer, crti_id_t id, uint64_t token)
{
    question_t *q = calloc(1, sizeof(*q));
    crt_status_t status;

    if (q == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "question to the head");
    q->number = ++node->head->requests;
    q->kind = kind;
    q->on_answer = on_answer;
    q->id = id;
    q->token = token;
    add_question(node->head, q);
    status = encode_question(q, body);
    if (status == CRT_OK)
        status = crti_map_put(&node->head->pending, &q->number, q);
    if (status != CRT_OK) {
        free_question(node, q);
        return status;
    }
    say_questions(node);
    return CRT_OK;
}

void crti_head_answered(crti_node_t *node, const crti_message_t *message)
{
    question_t *q = crti_map_get(&node->head->pending, &message->request);
    question_t copy;

    if (q == NULL)
        return; /* asked twice across a reconnect */
    copy = *q;
    free_question(node, q);
    copy.on_answer(node, copy.id, copy.token, message);
}

void crti_head_drop(crti_node_t *node, crti_message_kind_t kind, crti_id_t id)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->head->order) {
        question_t *q = CRTI_CONTAINER(item, question_t, link);

        if (q->kind == kind && crti_id_equal(q->id, id))
            free_question(node, q);
    }
}

void crti_head_drop_asker(crti_node_t *node, crti_head_answer_t *on_answer, crti_id_t id)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->head->order) {
        question_t *q = CRTI_CONTAINER(item, question_t, link);

        if (q->on_answer == on_answer && crti_id_equal(q->id, id))
            free_question(node, q);
    }
}

void crti_head_send(crti_node_t *node, crti_message_kind_t kind, uint64_t request,
                    const void *body)
{
    /* An answer belongs to the link that the request came on. */
    if (node->head->open || (node->head->registering && request == 0))
        say(node, kind, request, body);
}

crt_status_t crti_head_pack(crti_buffer_t *list, crti_message_kind_t kind,
                            const void *body)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t bytes = {0};
    crt_status_t status = crti_message_encode(kind, 0, body, &bytes);

    return status == CRT_OK ? crti_list_pack(list, bytes.data, bytes.size) : status;
}

/* ---------------------------------------------------------------- deaths */

static void keep_death(crti_head_t *head, const crti_msg_peer_died_t *died)
{
    crti_span_t rest, oldest;

    if (crti_head_pack(&head->untold, CRTI_MSG_PEER_DIED, died) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "head", "out of memory: a death is not told");
    } else if (++head->untold_count > UNTOLD_MAX) {
        rest = crti_span(head->untold.data, head->untold.size);
        crti_list_unpack(&rest, &oldest);
        crti_buffer_consume(&head->untold, head->untold.size - rest.size);
        head->untold_count--;
    }
}

void crti_head_tell_death(crti_node_t *node, const crti_msg_peer_died_t *died)
{
    crti_head_t *head = node->head;

    if ((!head->open && !head->registering) ||
        say(node, CRTI_MSG_PEER_DIED, 0, died) != CRT_OK)
        keep_death(head, died);
}

/* Those that this link does not take are told on the next one. */
static void tell_deaths(crti_node_t *node)
{
    crti_head_t *head = node->head;
    crti_span_t rest = crti_span(head->untold.data, head->untold.size), entry;
    size_t left = rest.size;
    crti_message_t message;

    while (crti_list_unpack(&rest, &entry) == CRT_OK) {
        if (crti_message_decode(entry.data, entry.size, &message) == CRT_OK &&
            say(node, CRTI_MSG_PEER_DIED, 0, &message.peer_died) != CRT_OK)
            break;
        left = rest.size;
        head->untold_count--;
    }
    crti_buffer_consume(&head->untold, head->untold.size - left);
    if (left == 0)
        crti_buffer_fini(&head->untold);
}

void crti_head_open(crti_node_t *node)
{
    node->head->open = true;
    tell_deaths(node); /* before any question */
}

void crti_head_registered(crti_node_t *node)
{
    say_questions(node);
}

void crti_head_send_error(crti_node_t *node, uint64_t request, crt_status_t status,
                          const char *text)
{
    crti_msg_error_t error = {.status = status, .text = crti_str(text)};

    if (request)
        crti_head_send(node, CRTI_MSG_ERROR, request, &error);
}

/* ---------------------------------------------------------------- the link */

void crti_head_init(crti_node_t *node)
{
    crti_map_init(&node->head->pending, sizeof(uint64_t));
    crti_list_init(&node->head->order);
    node->head->unsaid = &node->head->order;
    node->head->breaking = (crti_timer_t){.on_expired = on_breaking, .user = node};
    node->head->requests = CRTI_REGISTER_REQUEST;
}

crt_status_t crti_head_connect(crti_node_t *node, uint64_t timeout_ms,
                               const crti_stream_handlers_t *handlers)
{
    crti_stream_handlers_t all = *handlers;

    all.on_drained = on_drained;
    node->head->on_closed = handlers->on_closed;
    return crti_stream_connect(node->loop, node->context, node->head_address, timeout_ms,
                               &all, &node->head->stream);
}

bool crti_head_is_linked(const crti_node_t *node)
{
    return node->head->stream != NULL;
}

bool crti_head_is_registering(const crti_node_t *node)
{
    return node->head->registering;
}

bool crti_head_is_open(const crti_node_t *node)
{
    return node->head->open;
}

bool crti_head_has_queued(const crti_node_t *node)
{
    return node->head->stream && crti_stream_queued(node->head->stream);
}

void crti_head_close(crti_node_t *node)
{
    crti_head_t *head = node->head;

    crti_loop_cancel(node->loop, &head->breaking);
    crti_stream_free(head->stream);
    head->stream = NULL;
    head->open = head->registering = false;
    head->unsaid = head->order.next;
}

crt_status_t crti_head_register(crti_node_t *node,
                                const crti_msg_node_register_t *message)
{
    crt_status_t status = crti_stream_send(node->head->stream, CRTI_MSG_NODE_REGISTER,
                                           CRTI_REGISTER_REQUEST, message);

    node->head->registering = status == CRT_OK;
    return status;
}

void crti_head_leave(crti_node_t *node, const char *why)
{
    crti_msg_node_leave_t leave = {.text = crti_str(why)};

    if (node->head->open)
        crti_stream_send(node->head->stream, CRTI_MSG_NODE_LEAVE, 0, &leave);
}

void crti_head_free(crti_node_t *node)
{
    crti_head_close(node);
    while (!crti_list_is_empty(&node->head->order))
        free_question(node, CRTI_CONTAINER(node->head->order.next, question_t, link));
    crti_map_fini(&node->head->pending);
    crti_buffer_fini(&node->head->untold);
}
