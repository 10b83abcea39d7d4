/* SPDX-License-Identifier: Apache-2.0 */
/* Node links: the connections that this node makes to others. See peer.h. */
#include "runtime/node/links/peer.h"

#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/node/links/links_int.h"

#define KEPT_MAX     ((size_t)1 << 20)
#define SILENT_LOOKS 3 /* once a second */

typedef struct asked {
    crti_peer_ask_t ask;
    uint64_t number;
    void *place;         /* where the payload in progress goes */
    crti_buffer_t again; /* what must be heard: the message; empty: of other questions */
    bool is_said;        /* on the present link */
    crti_list_t link;
} asked_t;

typedef struct peer peer_t;

typedef struct lane {
    peer_t *peer;
    crti_priority_t number;
    crti_stream_t *stream; /* NULL: none */
    bool known;            /* NODE_HELLO came */
    uint64_t requests;
    crti_map_t pending; /* request number -> asked_t */
    crti_list_t order;
    crti_buffer_t kept; /* encoded messages for a node that is sought */
    asked_t *receiving; /* its payload is on the way */
    uint64_t heard;     /* bytes, at the last look for silence */
    int silent;         /* looks since then */
} lane_t;

struct peer {
    crti_node_t *node;
    crti_id_t id;
    char endpoint[CRTI_STREAM_ADDRESS]; /* "": sought, the head is being asked */
    lane_t lanes[CRTI_PRIORITIES];
    crti_timer_t retry;
    uint64_t named; /* crti_peers_t.naming, when the head named it last */
};

/* ---------------------------------------------------------------- answers to what we asked */

static void free_asked(asked_t *a)
{
    crti_buffer_fini(&a->again);
    free(a);
}

static void finish(lane_t *lane, asked_t *a, const crti_message_t *answer,
                   const char *text)
{
    crti_node_t *node = lane->peer->node;
    crti_id_t from = lane->peer->id;
    crti_peer_ask_t ask = a->ask;

    crti_map_remove(&lane->pending, &a->number);
    crti_list_remove(&a->link);
    if (lane->receiving == a)
        lane->receiving = NULL;
    free_asked(a);
    if (ask.answers)
        ask.answers->on_answer(node, from, &ask, answer, text);
}

static asked_t *first_question(const lane_t *lane)
{
    CRTI_LIST_FOREACH (item, &lane->order) {
        asked_t *a = CRTI_CONTAINER(item, asked_t, link);

        if (a->again.size == 0)
            return a;
    }
    return NULL;
}

/* All but what is said again on the next link. */
static void fail_questions(lane_t *lane, const char *text)
{
    asked_t *a;

    while ((a = first_question(lane)))
        finish(lane, a, NULL, text);
}

static void fail_all(lane_t *lane, const char *text)
{
    while (!crti_list_is_empty(&lane->order))
        finish(lane, CRTI_CONTAINER(lane->order.next, asked_t, link), NULL, text);
}

/* The node may live: what it has is not lost. */
static void note_unreachable(lane_t *lane)
{
    CRTI_LIST_FOREACH (item, &lane->order) {
        const crti_peer_ask_t *ask = &CRTI_CONTAINER(item, asked_t, link)->ask;

        if (ask->answers && ask->answers->on_unreachable)
            ask->answers->on_unreachable(lane->peer->node, lane->peer->id, ask);
    }
}

/* An answer that a payload follows: it goes straight to its place. */
static void begin_payload(lane_t *lane, asked_t *a, const crti_message_t *m)
{
    const crti_peer_answers_t *answers = a->ask.answers;

    if (answers && answers->place)
        a->place = answers->place(lane->peer->node, &a->ask, m);
    if (a->place == NULL) {
        finish(lane, a, NULL, "the answer does not fit the question");
        return; /* the stream throws the payload away */
    }
    lane->receiving = a;
    crti_stream_receive(lane->stream, a->place);
}

static void on_answer(lane_t *lane, const crti_message_t *m)
{
    asked_t *a = crti_map_get(&lane->pending, &m->request);
    char text[256];

    if (a == NULL)
        return; /* given up meanwhile */
    if (m->kind == CRTI_MSG_ERROR)
        finish(lane, a, m, crti_text(m->error.text, text, sizeof(text)));
    else if (m->kind == CRTI_MSG_OBJECT_DATA || m->kind == CRTI_MSG_PROGRAM_DATA)
        begin_payload(lane, a, m);
    else if (a->ask.answers && a->ask.answers->kind == m->kind)
        finish(lane, a, m, NULL);
    else
        finish(lane, a, NULL, "unexpected answer");
}

static void on_payload(void *user, crti_stream_t *stream, void *buffer, size_t size)
{
    lane_t *lane = user;

    if (lane->receiving)
        finish(lane, lane->receiving, NULL, NULL);
}

/* ---------------------------------------------------------------- our links */

static void close_lane(lane_t *lane, const char *why)
{
    peer_t *peer = lane->peer;

    crti_stream_free(lane->stream);
    lane->stream = NULL;
    lane->known = false;
    lane->receiving = NULL;
    crti_log(CRTI_LOG_DEBUG, "peer", "link %d to %s closed: %s", (int)lane->number,
             peer->endpoint, why);
    note_unreachable(lane);
    fail_questions(lane, why);
    if (!peer->node->stopping)
        crti_loop_start(peer->node->loop, &peer->retry,
                        crti_node_now(peer->node) + CRTI_LIMIT(reconnect_pause));
}

static void on_lane_closed(void *user, crti_stream_t *stream, crt_status_t status,
                           const char *text)
{
    close_lane(user, text);
}

static void on_lane_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    lane_t *lane = user;
    peer_t *peer = lane->peer;

    if (m->kind == CRTI_MSG_NODE_HELLO) {
        lane->known = crti_id_equal(m->node_hello.node, peer->id);
        if (!lane->known)
            close_lane(lane, "another node is at that address now");
    } else if (!lane->known) {
        close_lane(lane, "the node did not say who it is");
    } else if (!peer->node->peers->handlers->on_notice(peer->node, m)) {
        on_answer(lane, m);
    }
}

/* What must be heard; `all`: the link is new. False: not all of it could be said. */
static bool say_again(lane_t *lane, bool all)
{
    bool is_said = true;

    CRTI_LIST_FOREACH (item, &lane->order) {
        asked_t *a = CRTI_CONTAINER(item, asked_t, link);

        if (a->again.size && (all || !a->is_said))
            a->is_said = crti_stream_send_bytes(lane->stream, a->again.data,
                                                a->again.size) == CRT_OK;
        is_said &= a->again.size == 0 || a->is_said;
    }
    return is_said;
}

static crt_status_t open_lane(lane_t *lane)
{
    peer_t *peer = lane->peer;
    crti_node_t *node = peer->node;
    crti_stream_handlers_t handlers = {.user = lane,
                                       .on_message = on_lane_message,
                                       .on_payload = on_payload,
                                       .on_closed = on_lane_closed};
    crti_msg_node_hello_t hello = {.protocol = CRTI_PROTOCOL_VERSION,
                                   .node = node->id,
                                   .incarnation = node->incarnation};
    crt_status_t status;

    if (lane->stream)
        return CRT_OK;
    status = crti_stream_connect(node->loop, node->context, peer->endpoint,
                                 (int)(CRTI_LIMIT(peer_connect_timeout) / CRTI_MS),
                                 &handlers, &lane->stream);
    if (status == CRT_OK)
        status = crti_stream_send(lane->stream, CRTI_MSG_NODE_HELLO, 0, &hello);
    if (status == CRT_OK)
        say_again(lane, true);
    return status;
}

static bool is_unresolved(const peer_t *peer)
{
    return peer->endpoint[0] == '\0';
}

/* Watches, and what else must reach the node, are said again. */
static void on_retry(void *user)
{
    peer_t *peer = user;
    lane_t *lane = &peer->lanes[CRTI_PRIORITY_CONTROL];

    if (is_unresolved(peer))
        return; /* found says it */
    if (!crti_list_is_empty(&lane->order) &&
        (open_lane(lane) != CRT_OK || !say_again(lane, false)))
        crti_loop_start(peer->node->loop, &peer->retry,
                        crti_node_now(peer->node) + CRTI_LIMIT(reconnect_pause));
    peer->node->peers->handlers->on_retry(peer->node, peer->id);
}

/* ---------------------------------------------------------------- nodes that are sought */

static void free_peer(peer_t *peer)
{
    for (int i = 0; i < CRTI_PRIORITIES; i++) {
        lane_t *lane = &peer->lanes[i];

        crti_stream_free(lane->stream);
        while (!crti_list_is_empty(&lane->order))
            free_asked(CRTI_CONTAINER(crti_list_pop(&lane->order), asked_t, link));
        crti_map_fini(&lane->pending);
        crti_buffer_fini(&lane->kept);
    }
    crti_loop_cancel(peer->node->loop, &peer->retry);
    free(peer);
}

static peer_t *add_peer(crti_node_t *node, crti_id_t id)
{
    peer_t *peer = calloc(1, sizeof(*peer));

    if (peer == NULL)
        return NULL;
    peer->node = node;
    peer->id = id;
    peer->retry = (crti_timer_t){.on_expired = on_retry, .user = peer};
    for (int i = 0; i < CRTI_PRIORITIES; i++) {
        lane_t *lane = &peer->lanes[i];

        lane->peer = peer;
        lane->number = (crti_priority_t)i;
        crti_map_init(&lane->pending, sizeof(uint64_t));
        crti_list_init(&lane->order);
    }
    if (crti_map_put(&node->peers->by_id, &id, peer) == CRT_OK)
        return peer;
    free_peer(peer);
    return NULL;
}

static peer_t *find(crti_node_t *node, crti_id_t id)
{
    return crti_map_get(&node->peers->by_id, &id);
}

/* Said when the node is found. */
static crt_status_t keep(lane_t *lane, crti_message_kind_t kind, uint64_t request,
                         const void *body)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t message = {0};
    crt_status_t status = crti_message_encode(kind, request, body, &message);

    if (status == CRT_OK && lane->kept.size + message.size > KEPT_MAX)
        status = crt_raise(CRT_ERR_UNREACHABLE,
                           "the head has not told yet who that node is, and %zu bytes "
                           "wait for it",
                           lane->kept.size);
    if (status == CRT_OK)
        status = crti_list_pack(&lane->kept, message.data, message.size);
    return status;
}

static void found(peer_t *peer)
{
    crti_head_drop(peer->node, CRTI_MSG_NODE_FIND, peer->id);
    for (int i = 0; i < CRTI_PRIORITIES; i++) {
        lane_t *lane = &peer->lanes[i];
        crti_span_t rest = crti_span(lane->kept.data, lane->kept.size), entry;
        crti_message_t m;

        if ((rest.size || !crti_list_is_empty(&lane->order)) && open_lane(lane) != CRT_OK)
            close_lane(lane, crt_error_detail());
        while (lane->stream && crti_list_unpack(&rest, &entry) == CRT_OK)
            if (crti_message_decode(entry.data, entry.size, &m) == CRT_OK)
                crti_stream_send(lane->stream, m.kind, m.request, &m.error);
        crti_buffer_fini(&lane->kept);
    }
}

static void end_peer(peer_t *peer, const char *why)
{
    crti_map_remove(&peer->node->peers->by_id, &peer->id);
    if (is_unresolved(peer))
        crti_head_drop(peer->node, CRTI_MSG_NODE_FIND, peer->id);
    for (int i = 0; i < CRTI_PRIORITIES; i++)
        fail_all(&peer->lanes[i], why);
    free_peer(peer);
}

static void on_resolved(crti_node_t *node, crti_id_t id, uint64_t token,
                        const crti_message_t *answer)
{
    char text[512] = "the head does not know that node";
    peer_t *peer = find(node, id);

    if (answer && answer->kind == CRTI_MSG_NODE_VIEW &&
        crti_id_equal(answer->node_view.node, id)) {
        node->peers->handlers->on_view(node, &answer->node_view);
        return;
    }
    if (answer == NULL || peer == NULL || !is_unresolved(peer))
        return;
    if (answer->kind == CRTI_MSG_ERROR)
        crti_text(answer->error.text, text, sizeof(text));
    end_peer(peer, text);
    node->peers->handlers->on_unknown(node, id, text);
}

static peer_t *find_or_resolve(crti_node_t *node, crti_id_t id)
{
    peer_t *peer = find(node, id);

    if (peer)
        return peer;
    peer = add_peer(node, id);
    if (peer == NULL ||
        crti_head_ask(node, CRTI_MSG_NODE_FIND, &(crti_msg_node_find_t){.node = id},
                      on_resolved, id, 0) == CRT_OK)
        return peer;
    crti_map_remove(&node->peers->by_id, &id);
    free_peer(peer);
    return NULL;
}

/* ---------------------------------------------------------------- notices and questions */

static crt_status_t say(lane_t *lane, crti_message_kind_t kind, uint64_t request,
                        const void *body)
{
    crt_status_t status;

    if (is_unresolved(lane->peer))
        return keep(lane, kind, request, body);
    status = open_lane(lane);
    return status == CRT_OK ? crti_stream_send(lane->stream, kind, request, body)
                            : status;
}

void crti_node_send(crti_node_t *node, crti_id_t to, crti_message_kind_t kind,
                    const void *body)
{
    peer_t *peer = kind == CRTI_MSG_LOG ? find(node, to) : find_or_resolve(node, to);

    if (peer)
        say(&peer->lanes[CRTI_PRIORITY_CONTROL], kind, 0, body);
}

static asked_t *add_asked(lane_t *lane, const crti_peer_ask_t *ask)
{
    asked_t *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return NULL;
    a->ask = *ask;
    a->number = ++lane->requests;
    crti_list_append(&lane->order, &a->link);
    if (crti_map_put(&lane->pending, &a->number, a) == CRT_OK)
        return a;
    crti_list_remove(&a->link);
    free(a);
    return NULL;
}

static void drop_asked(lane_t *lane, asked_t *a)
{
    crti_map_remove(&lane->pending, &a->number);
    crti_list_remove(&a->link);
    free_asked(a);
}

crt_status_t crti_node_ask(crti_node_t *node, crti_id_t to, crti_priority_t number,
                           const crti_peer_ask_t *ask, const void *body)
{
    peer_t *peer = find_or_resolve(node, to);
    lane_t *lane = peer ? &peer->lanes[number] : NULL;
    asked_t *a = peer ? add_asked(lane, ask) : NULL;
    crt_status_t status;

    if (a == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "question to a node");
    status = say(lane, ask->kind, a->number, body);
    if (status != CRT_OK)
        drop_asked(lane, a);
    return status;
}

size_t crti_node_ask_linked(crti_node_t *node, crti_priority_t number,
                            const crti_peer_ask_t *ask, const void *body)
{
    size_t asked = 0;

    CRTI_MAP_FOREACH (peer_t, peer, &node->peers->by_id) {
        lane_t *lane = &peer->lanes[number];
        asked_t *a = lane->stream ? add_asked(lane, ask) : NULL;

        if (a == NULL)
            continue;
        if (say(lane, ask->kind, a->number, body) == CRT_OK)
            asked++;
        else
            drop_asked(lane, a);
    }
    return asked;
}

void crti_node_send_reliable(crti_node_t *node, crti_id_t to, crti_message_kind_t kind,
                             const void *body)
{
    peer_t *peer = find_or_resolve(node, to);
    lane_t *lane = peer ? &peer->lanes[CRTI_PRIORITY_CONTROL] : NULL;
    asked_t *a = peer ? add_asked(lane, &(crti_peer_ask_t){.kind = kind}) : NULL;

    if (a == NULL || crti_message_encode(kind, a->number, body, &a->again) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "peer", "no memory: %s is not told",
                 crti_message_name(kind));
        if (a)
            drop_asked(lane, a);
        return;
    }
    if (is_unresolved(peer))
        return; /* found says it */
    if (lane->stream)
        a->is_said =
            crti_stream_send_bytes(lane->stream, a->again.data, a->again.size) == CRT_OK;
    else
        (void)open_lane(lane); /* which says all */
    if (!a->is_said)
        crti_loop_start(node->loop, &peer->retry,
                        crti_node_now(node) + CRTI_LIMIT(reconnect_pause));
}

void crti_node_send_ordered(crti_node_t *node, crti_id_t to, crti_priority_t priority,
                            crti_message_kind_t kind, const void *body)
{
    peer_t *peer = find(node, to);

    if (peer && peer->lanes[priority].stream)
        crti_stream_send(peer->lanes[priority].stream, kind, 0, body);
}

void crti_peer_look_for_silence(crti_node_t *node)
{
    CRTI_MAP_FOREACH (peer_t, peer, &node->peers->by_id) {
        lane_t *lane = &peer->lanes[CRTI_PRIORITY_BULK];
        uint64_t heard = lane->stream ? crti_stream_received(lane->stream) : 0;

        if (crti_list_is_empty(&lane->order) || heard != lane->heard)
            lane->silent = 0;
        else if (++lane->silent == SILENT_LOOKS)
            node->peers->handlers->on_silent(node, peer->id);
        lane->heard = heard;
    }
}

void crti_node_discard(crti_node_t *node, const void *memory, size_t size)
{
    const char *low = memory;

    CRTI_MAP_FOREACH (peer_t, peer, &node->peers->by_id) {
        lane_t *lane = &peer->lanes[CRTI_PRIORITY_BULK];
        const char *place = lane->receiving ? lane->receiving->place : NULL;

        if (place == NULL || place < low || place >= low + size)
            continue;
        crti_stream_discard(lane->stream);
        crti_map_remove(&lane->pending, &lane->receiving->number);
        crti_list_remove(&lane->receiving->link);
        free_asked(lane->receiving);
        lane->receiving = NULL;
    }
}

/* ---------------------------------------------------------------- nodes come and go */

bool crti_peer_view(crti_node_t *node, const crti_msg_node_view_t *view)
{
    char endpoint[CRTI_STREAM_ADDRESS];
    peer_t *peer = find(node, view->node);

    crti_text(view->endpoint, endpoint, sizeof(endpoint));
    if (crti_id_equal(view->node, node->id) || endpoint[0] == '\0')
        return false;
    if (peer == NULL)
        peer = add_peer(node, view->node);
    if (peer == NULL)
        return false;
    peer->named = node->peers->naming;
    if (is_unresolved(peer)) {
        memcpy(peer->endpoint, endpoint, sizeof(endpoint));
        found(peer);
    } else if (strcmp(endpoint, peer->endpoint) != 0) {
        memcpy(peer->endpoint, endpoint, sizeof(endpoint));
        for (int i = 0; i < CRTI_PRIORITIES; i++)
            if (peer->lanes[i].stream)
                close_lane(&peer->lanes[i], "the node has a new address");
    }
    return true;
}

void crti_peer_name_anew(crti_node_t *node)
{
    node->peers->naming++;
}

bool crti_peer_unnamed(crti_node_t *node, crti_id_t *id_out)
{
    CRTI_MAP_FOREACH (const peer_t, peer, &node->peers->by_id) {
        if (is_unresolved(peer) || peer->named == node->peers->naming)
            continue;
        *id_out = peer->id;
        return true;
    }
    return false;
}

bool crti_peer_of_process(crti_node_t *node, crti_id_t process, crti_id_t *id_out)
{
    CRTI_MAP_FOREACH (const peer_t, peer, &node->peers->by_id) {
        if (is_unresolved(peer) || !crti_id_is_of_node(process, peer->id))
            continue;
        *id_out = peer->id;
        return true;
    }
    return false;
}

void crti_node_forget(crti_node_t *node, crti_id_t id)
{
    peer_t *peer = find(node, id);

    if (peer)
        end_peer(peer, "the node died");
}

void crti_peer_free_all(crti_node_t *node)
{
    CRTI_MAP_FOREACH (void, value, &node->peers->by_id)
        free_peer(value);
    crti_map_fini(&node->peers->by_id);
}

void crti_peer_init(crti_node_t *node, const crti_peer_handlers_t *handlers)
{
    node->peers->handlers = handlers;
    node->peers->encrypt = true; /* until the head says otherwise */
    crti_map_init(&node->peers->by_id, sizeof(crti_id_t));
    crti_list_init(&node->peers->inbound);
}
