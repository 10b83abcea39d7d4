/* SPDX-License-Identifier: Apache-2.0 */
/* Node links: the connections to and from other node daemons.
 *
 * Where it sits
 *     lease.c, watch.c, transfer.c, program.c -> [ node/peer.c ] <-> net/stream.c <-> crt-node
 * Rules
 *     Each node makes its own links for what it asks, two to a node: one for control, one for
 *     bulk bytes, so that a lease never waits behind an object. What others ask comes in on
 *     theirs and is answered there. Links are made when they are first needed, and again
 *     RETRY_NS after they broke while something is watched over there.
 *     Questions under way when a link breaks fail; their askers decide (bounce, next source).
 *     A node that others speak of may be newer than the last word of the head: unknown is not
 *     gone. The head is asked (NODE_FIND, again after each reconnect); what is to be said to
 *     that node is kept meanwhile. It ends by NODE_VIEW, by the answer that there is none, or by
 *     NODE_DIED.
 * Trust
 *     Only holders of the cluster key get this far. NODE_HELLO must come first and its node id
 *     must be the one that was meant: an address may have been taken over by another node.
 */
#include <string.h>

#include "runtime/node/node.h"

#define CONNECT_MS   2000
#define RETRY_NS     (200 * CRTI_MS)
#define KEPT_MAX     ((size_t)1 << 20)
#define SILENT_LOOKS 3 /* once a second */

typedef struct asked {
    crti_peer_ask_t ask;
    uint64_t number;
    void *place; /* where the payload in progress goes */
    uint64_t length;
    crti_list_t link;
} asked_t;

typedef struct peer peer_t;

typedef struct lane {
    peer_t *peer;
    crti_lane_t number;
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
    lane_t lanes[CRTI_LANES];
    crti_timer_t retry;
};

typedef struct guest {
    crti_node_t *node;
    crti_stream_t *stream;
    crti_id_t id; /* zero before NODE_HELLO */
    crti_list_t link;
} guest_t;

/* ---------------------------------------------------------------- answers to what we asked */

static void finish(lane_t *lane, asked_t *a, const crti_message_t *answer,
                   const char *text)
{
    crti_node_t *node = lane->peer->node;
    crti_id_t from = lane->peer->id;
    asked_t copy = *a;

    crti_map_remove(&lane->pending, &a->number);
    crti_list_remove(&a->link);
    if (lane->receiving == a)
        lane->receiving = NULL;
    free(a);
    switch (copy.ask.kind) {
    case CRTI_MSG_LEASE_REQUEST: crti_lease_answered(node, copy.ask.id, answer); break;
    case CRTI_MSG_OBJECT_GET:
        if (answer && answer->kind == CRTI_MSG_OBJECT_ELSEWHERE)
            crti_pull_elsewhere(node, from, &copy.ask, &answer->object_elsewhere);
        else
            crti_pull_part(node, from, &copy.ask, text);
        break;
    case CRTI_MSG_PROGRAM_GET:
        crti_program_part(node, copy.ask.id, copy.length, text);
        break;
    default: break;
    }
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
        const asked_t *a = CRTI_CONTAINER(item, asked_t, link);

        if (a->ask.kind == CRTI_MSG_OBJECT_GET)
            crti_pull_unreachable(lane->peer->node, a->ask.object, lane->peer->id);
    }
}

/* An answer that a payload follows: it goes straight to its place. */
static void begin_payload(lane_t *lane, asked_t *a, const crti_message_t *m)
{
    crti_node_t *node = lane->peer->node;

    if (m->kind == CRTI_MSG_OBJECT_DATA && a->ask.kind == CRTI_MSG_OBJECT_GET &&
        crti_object_id_equal(m->object_data.object, a->ask.object) &&
        m->object_data.offset == a->ask.offset &&
        m->object_data.length == a->ask.length) {
        a->length = a->ask.length;
        a->place = crti_pull_place(node, &a->ask, m->object_data.size);
    } else if (m->kind == CRTI_MSG_PROGRAM_DATA && a->ask.kind == CRTI_MSG_PROGRAM_GET) {
        a->length = m->program_data.length;
        a->place = crti_program_place(node, a->ask.id, m->program_data.offset, a->length,
                                      m->program_data.size);
    }
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
    else if ((m->kind == CRTI_MSG_LEASE_GRANTED &&
              a->ask.kind == CRTI_MSG_LEASE_REQUEST) ||
             (m->kind == CRTI_MSG_OBJECT_ELSEWHERE && a->ask.kind == CRTI_MSG_OBJECT_GET))
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
    fail_all(lane, why);
    if (!peer->node->stopping)
        crti_loop_start(peer->node->loop, &peer->retry,
                        crti_node_now(peer->node) + RETRY_NS);
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
    } else if (m->kind == CRTI_MSG_LEASE_WAITING) {
        crti_lease_waiting(peer->node, &m->lease_waiting);
    } else {
        on_answer(lane, m);
    }
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
    status = crti_stream_connect(node->loop, node->context, peer->endpoint, CONNECT_MS,
                                 &handlers, &lane->stream);
    if (status == CRT_OK)
        status = crti_stream_send(lane->stream, CRTI_MSG_NODE_HELLO, 0, &hello);
    return status;
}

/* Watches, and what else must reach the node, are said again. */
static void on_retry(void *user)
{
    peer_t *peer = user;

    crti_watch_again(peer->node, peer->id);
}

/* ---------------------------------------------------------------- nodes that are sought */

static void free_peer(peer_t *peer)
{
    for (int i = 0; i < CRTI_LANES; i++) {
        lane_t *lane = &peer->lanes[i];

        crti_stream_free(lane->stream);
        while (!crti_list_is_empty(&lane->order))
            free(CRTI_CONTAINER(crti_list_pop(&lane->order), asked_t, link));
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
    for (int i = 0; i < CRTI_LANES; i++) {
        lane_t *lane = &peer->lanes[i];

        lane->peer = peer;
        lane->number = (crti_lane_t)i;
        crti_map_init(&lane->pending, sizeof(uint64_t));
        crti_list_init(&lane->order);
    }
    if (crti_map_put(&node->peers, &id, peer) == CRT_OK)
        return peer;
    free_peer(peer);
    return NULL;
}

static peer_t *find(crti_node_t *node, crti_id_t id)
{
    return crti_map_get(&node->peers, &id);
}

static bool is_sought(const peer_t *peer)
{
    return peer->endpoint[0] == '\0';
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
    crti_head_drop(peer->node, peer->id);
    for (int i = 0; i < CRTI_LANES; i++) {
        lane_t *lane = &peer->lanes[i];
        crti_span_t rest = crti_span(lane->kept.data, lane->kept.size), entry;
        crti_message_t m;

        if (rest.size && open_lane(lane) != CRT_OK)
            fail_all(lane, crt_error_detail());
        while (lane->stream && crti_list_unpack(&rest, &entry) == CRT_OK)
            if (crti_message_decode(entry.data, entry.size, &m) == CRT_OK)
                crti_stream_send(lane->stream, m.kind, m.request, &m.error);
        crti_buffer_fini(&lane->kept);
    }
}

static void end_peer(peer_t *peer, const char *why)
{
    crti_map_remove(&peer->node->peers, &peer->id);
    if (is_sought(peer))
        crti_head_drop(peer->node, peer->id);
    for (int i = 0; i < CRTI_LANES; i++)
        fail_all(&peer->lanes[i], why);
    free_peer(peer);
}

static void on_sought(crti_node_t *node, crti_id_t id, uint64_t token,
                      const crti_message_t *answer)
{
    char text[512] = "the head does not know that node";
    peer_t *peer = find(node, id);

    if (answer && answer->kind == CRTI_MSG_NODE_VIEW &&
        crti_id_equal(answer->node_view.node, id)) {
        crti_node_view(node, &answer->node_view);
        return;
    }
    if (answer == NULL || peer == NULL || !is_sought(peer))
        return;
    if (answer->kind == CRTI_MSG_ERROR)
        crti_text(answer->error.text, text, sizeof(text));
    end_peer(peer, text);
    crti_watch_no_node(node, id, text);
    crti_lease_act(node);
    crti_pull_act(node);
}

static peer_t *find_or_seek(crti_node_t *node, crti_id_t id)
{
    peer_t *peer = find(node, id);

    if (peer)
        return peer;
    peer = add_peer(node, id);
    if (peer == NULL ||
        crti_head_ask(node, CRTI_MSG_NODE_FIND, &(crti_msg_node_find_t){.node = id},
                      on_sought, id, 0) == CRT_OK)
        return peer;
    crti_map_remove(&node->peers, &id);
    free_peer(peer);
    return NULL;
}

/* ---------------------------------------------------------------- notices and questions */

static crt_status_t say(lane_t *lane, crti_message_kind_t kind, uint64_t request,
                        const void *body)
{
    crt_status_t status;

    if (is_sought(lane->peer))
        return keep(lane, kind, request, body);
    status = open_lane(lane);
    return status == CRT_OK ? crti_stream_send(lane->stream, kind, request, body)
                            : status;
}

void crti_node_notify(crti_node_t *node, crti_id_t to, crti_message_kind_t kind,
                      const void *body)
{
    peer_t *peer = kind == CRTI_MSG_LOG ? find(node, to) : find_or_seek(node, to);

    if (peer)
        say(&peer->lanes[CRTI_LANE_CONTROL], kind, 0, body);
}

crt_status_t crti_node_ask(crti_node_t *node, crti_id_t to, crti_lane_t number,
                           const crti_peer_ask_t *ask, const void *body)
{
    peer_t *peer = find_or_seek(node, to);
    lane_t *lane = peer ? &peer->lanes[number] : NULL;
    asked_t *a = peer ? calloc(1, sizeof(*a)) : NULL;
    crt_status_t status;

    if (a == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "question to a node");
    a->ask = *ask;
    a->number = ++lane->requests;
    crti_list_append(&lane->order, &a->link);
    status = crti_map_put(&lane->pending, &a->number, a);
    if (status == CRT_OK)
        status = say(lane, ask->kind, a->number, body);
    if (status != CRT_OK) {
        crti_map_remove(&lane->pending, &a->number);
        crti_list_remove(&a->link);
        free(a);
    }
    return status;
}

void crti_node_remark(crti_node_t *node, crti_id_t to, crti_lane_t lane,
                      crti_message_kind_t kind, const void *body)
{
    peer_t *peer = find(node, to);

    if (peer && peer->lanes[lane].stream)
        crti_stream_send(peer->lanes[lane].stream, kind, 0, body);
}

void crti_peer_look_for_silence(crti_node_t *node)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->peers, &cursor, NULL, &value)) {
        peer_t *peer = value;
        lane_t *lane = &peer->lanes[CRTI_LANE_BULK];
        uint64_t heard = lane->stream ? crti_stream_received(lane->stream) : 0;

        if (crti_list_is_empty(&lane->order) || heard != lane->heard)
            lane->silent = 0;
        else if (++lane->silent == SILENT_LOOKS)
            crti_pull_table_silent(node->pulls, peer->id);
        lane->heard = heard;
    }
}

void crti_node_discard(crti_node_t *node, const void *memory, size_t size)
{
    const char *low = memory;
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->peers, &cursor, NULL, &value)) {
        lane_t *lane = &((peer_t *)value)->lanes[CRTI_LANE_BULK];
        const char *place = lane->receiving ? lane->receiving->place : NULL;

        if (place == NULL || place < low || place >= low + size)
            continue;
        crti_stream_discard(lane->stream);
        crti_map_remove(&lane->pending, &lane->receiving->number);
        crti_list_remove(&lane->receiving->link);
        free(lane->receiving);
        lane->receiving = NULL;
    }
}

/* ---------------------------------------------------------------- nodes come and go */

void crti_node_view(crti_node_t *node, const crti_msg_node_view_t *view)
{
    char endpoint[CRTI_STREAM_ADDRESS];
    peer_t *peer = find(node, view->node);

    crti_text(view->endpoint, endpoint, sizeof(endpoint));
    if (crti_id_equal(view->node, node->id) || endpoint[0] == '\0')
        return;
    crti_owner_node_lives(node, view->node);
    if (peer == NULL)
        peer = add_peer(node, view->node);
    if (peer == NULL)
        return;
    if (is_sought(peer)) {
        memcpy(peer->endpoint, endpoint, sizeof(endpoint));
        found(peer);
    } else if (strcmp(endpoint, peer->endpoint) != 0) {
        memcpy(peer->endpoint, endpoint, sizeof(endpoint));
        for (int i = 0; i < CRTI_LANES; i++)
            if (peer->lanes[i].stream)
                close_lane(&peer->lanes[i], "the node has a new address");
    }
    crti_lease_table_view(node->leases, view->node, &view->resources, &view->available,
                          crti_node_now(node));
    crti_lease_act(node);
}

bool crti_peer_of_process(crti_node_t *node, crti_id_t process, crti_id_t *id_out)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->peers, &cursor, NULL, &value)) {
        const peer_t *peer = value;

        if (is_sought(peer) || !crti_id_is_of_node(process, peer->id))
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

/* ---------------------------------------------------------------- what others ask */

void crti_node_answer_error(crti_stream_t *stream, uint64_t request, crt_status_t status,
                            const char *text)
{
    crti_msg_error_t error = {.status = status, .text = crti_str(text)};

    crti_stream_send(stream, CRTI_MSG_ERROR, request, &error);
}

static void drop_guest(guest_t *guest)
{
    crti_lease_stream_closed(guest->node, guest->stream);
    crti_object_stream_closed(guest->node, guest->stream);
    crti_list_remove(&guest->link);
    crti_stream_free(guest->stream);
    free(guest);
}

static void on_guest_closed(void *user, crti_stream_t *stream, crt_status_t status,
                            const char *text)
{
    drop_guest(user);
}

void crti_guest_cut(crti_node_t *node, crti_stream_t *stream)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->guests) {
        guest_t *guest = CRTI_CONTAINER(item, guest_t, link);

        if (guest->stream == stream)
            drop_guest(guest);
    }
}

static void on_log(crti_node_t *node, const crti_msg_log_t *log)
{
    crti_job_t *job = crti_job_find(node, log->job);

    if (job && crti_job_logs(job))
        crti_local_send(crti_process_get(node, crti_job_driver(job)), CRTI_MSG_LOG, 0,
                        log);
}

static bool on_guest_asks(guest_t *guest, const crti_message_t *m)
{
    crti_node_t *node = guest->node;

    switch (m->kind) {
    case CRTI_MSG_LEASE_REQUEST:
        crti_lease_asked(node, 0, guest->stream, m->request, &m->lease_request);
        return true;
    case CRTI_MSG_LEASE_RETURN: crti_lease_returned(node, &m->lease_return); return true;
    case CRTI_MSG_LEASE_CANCEL:
        crti_lease_cancelled(node, m->lease_cancel.lease);
        return true;
    case CRTI_MSG_WATCH: crti_watch_add_node(node, guest->id, &m->watch); return true;
    case CRTI_MSG_UNWATCH:
        crti_watch_remove_node(node, guest->id, m->unwatch.process);
        return true;
    case CRTI_MSG_PEER_DIED: crti_process_died(node, &m->peer_died); return true;
    case CRTI_MSG_FREE: crti_object_free(node, m->free.objects); return true;
    case CRTI_MSG_LOG: on_log(node, &m->log); return true;
    case CRTI_MSG_OBJECT_GET:
        crti_object_serve(node, guest->id, guest->stream, m->request, &m->object_get);
        return true;
    case CRTI_MSG_OBJECT_LEAVE:
        crti_object_left(node, guest->id, &m->object_leave);
        return true;
    case CRTI_MSG_PROGRAM_GET:
        crti_program_serve(node, guest->stream, m->request, &m->program_get);
        return true;
    default: return false;
    }
}

static void on_guest_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    guest_t *guest = user;
    crti_node_t *node = guest->node;
    crti_msg_node_hello_t hello = {.protocol = CRTI_PROTOCOL_VERSION,
                                   .node = node->id,
                                   .incarnation = node->incarnation};

    if (m->kind == CRTI_MSG_NODE_HELLO && crti_id_is_zero(guest->id) &&
        m->node_hello.protocol == CRTI_PROTOCOL_VERSION) {
        guest->id = m->node_hello.node;
        crti_stream_send(stream, CRTI_MSG_NODE_HELLO, 0, &hello);
        return;
    }
    if (!crti_id_is_zero(guest->id) && on_guest_asks(guest, m))
        return;
    crti_log(CRTI_LOG_WARN, "peer", "%s from %s: closed", crti_message_name(m->kind),
             crti_stream_peer_address(stream));
    drop_guest(guest);
}

static void on_accept(void *user, crti_stream_t *stream)
{
    crti_node_t *node = user;
    guest_t *guest = calloc(1, sizeof(*guest));
    crti_stream_handlers_t handlers = {
        .user = guest, .on_message = on_guest_message, .on_closed = on_guest_closed};

    if (guest == NULL) {
        crti_stream_free(stream);
        return;
    }
    guest->node = node;
    guest->stream = stream;
    crti_list_append(&node->guests, &guest->link);
    crti_stream_set_handlers(stream, &handlers);
}

crt_status_t crti_peer_listen(crti_node_t *node)
{
    crt_status_t status = crti_stream_listen(node->loop, node->context, node->ip, 0,
                                             on_accept, node, &node->listener);

    if (status == CRT_OK)
        snprintf(node->endpoint, sizeof(node->endpoint),
                 strchr(node->ip, ':') ? "[%s]:%u" : "%s:%u", node->ip,
                 (unsigned)crti_stream_listener_port(node->listener));
    return status;
}

crt_status_t crti_peer_listen_again(crti_node_t *node, bool encrypt)
{
    CRTI_AUTO(crti_stream_context_free) crti_stream_context_t *context = NULL;
    uint16_t port = crti_stream_listener_port(node->listener);
    crt_status_t status = crti_stream_context_new(&node->key, encrypt, &context);

    if (status != CRT_OK)
        return status;
    crti_stream_listener_free(node->listener);
    node->listener = NULL;
    node->encrypt = encrypt;
    return crti_stream_listen(node->loop, context, node->ip, port, on_accept, node,
                              &node->listener);
}

void crti_peer_free_all(crti_node_t *node)
{
    size_t cursor = 0;
    void *value;

    while (crti_map_next(&node->peers, &cursor, NULL, &value))
        free_peer(value);
    crti_map_fini(&node->peers);
    while (!crti_list_is_empty(&node->guests)) {
        guest_t *guest = CRTI_CONTAINER(crti_list_pop(&node->guests), guest_t, link);

        crti_stream_free(guest->stream);
        free(guest);
    }
    crti_stream_listener_free(node->listener);
    node->listener = NULL;
}
