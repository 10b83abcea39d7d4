/* SPDX-License-Identifier: Apache-2.0 */
/* Inbound links: connections of other node daemons, what they ask and say.
 *
 * Where it sits
 *     crt-node (its peer.c) -> net/stream.c -> [ node/inbound.c ] -> lease.c, watch.c, transfer.c, program.c
 * Rules
 *     What comes in on a link is answered on it. What is said until it is heard
 *     (crti_node_send_reliable) gets DONE, and may come twice.
 *     Answers are made only as fast as they are read: a link that asks on and reads nothing is read no
 *     more while ANSWERS bytes wait for it.
 * Trust
 *     Only holders of the cluster key get this far. NODE_HELLO must come first. A message that does
 *     not belong here closes the link.
 */
#include <string.h>

#include "runtime/node/node.h"

/* More than a fast link has under way in the time that the next question takes. */
#define ANSWERS ((size_t)16 << 20)

typedef struct inbound {
    crti_node_t *node;
    crti_stream_t *stream;
    crti_id_t id; /* zero before NODE_HELLO */
    crti_list_t link;
} inbound_t;

void crti_node_answer_error(crti_stream_t *stream, uint64_t request, crt_status_t status,
                            const char *text)
{
    crti_msg_error_t error = {.status = status, .text = crti_str(text)};

    crti_stream_send(stream, CRTI_MSG_ERROR, request, &error);
}

static void drop_inbound(inbound_t *inbound)
{
    crti_lease_stream_closed(inbound->node, inbound->stream);
    crti_object_stream_closed(inbound->node, inbound->stream);
    crti_list_remove(&inbound->link);
    crti_stream_free(inbound->stream);
    free(inbound);
}

static void on_inbound_closed(void *user, crti_stream_t *stream, crt_status_t status,
                              const char *text)
{
    drop_inbound(user);
}

void crti_inbound_cut(crti_node_t *node, crti_stream_t *stream)
{
    CRTI_LIST_FOREACH_SAFE (item, &node->inbound_links) {
        inbound_t *inbound = CRTI_CONTAINER(item, inbound_t, link);

        if (inbound->stream == stream)
            drop_inbound(inbound);
    }
}

static void on_log(crti_node_t *node, const crti_msg_log_t *log)
{
    crti_job_t *job = crti_job_find(node, log->job);

    if (job && crti_job_logs(job))
        crti_local_send(crti_process_get(node, crti_job_driver(job)), CRTI_MSG_LOG, 0,
                        log);
}

static bool on_inbound_asks(inbound_t *inbound, const crti_message_t *m)
{
    crti_node_t *node = inbound->node;

    switch (m->kind) {
    case CRTI_MSG_LEASE_REQUEST:
        crti_lease_asked(node, 0, inbound->stream, m->request, &m->lease_request);
        return true;
    case CRTI_MSG_WATCH: crti_watch_add_node(node, inbound->id, &m->watch); return true;
    case CRTI_MSG_UNWATCH:
        crti_watch_remove_node(node, inbound->id, m->unwatch.process);
        return true;
    case CRTI_MSG_PEER_DIED:
        if (!crti_id_equal(m->peer_died.node, node->id)) /* of ours we know best */
            crti_process_died(node, &m->peer_died);
        return true;
    case CRTI_MSG_LOG: on_log(node, &m->log); return true;
    case CRTI_MSG_LOG_FLUSH: /* what came before it went to the driver */
        crti_stream_send(inbound->stream, CRTI_MSG_DONE, m->request, NULL);
        return true;
    case CRTI_MSG_OBJECT_GET:
        crti_object_serve(node, inbound->id, inbound->stream, m->request, &m->object_get);
        return true;
    case CRTI_MSG_OBJECT_LEAVE:
        crti_object_left(node, inbound->id, &m->object_leave);
        return true;
    case CRTI_MSG_PROGRAM_GET:
        crti_program_serve(node, inbound->stream, m->request, &m->program_get);
        return true;
    default: return false;
    }
}

/* crti_node_send_reliable of the other side. */
static bool on_inbound_informs(inbound_t *inbound, const crti_message_t *m)
{
    crti_node_t *node = inbound->node;

    if (m->kind != CRTI_MSG_LEASE_RETURN && m->kind != CRTI_MSG_LEASE_CANCEL &&
        m->kind != CRTI_MSG_FREE)
        return false;
    crti_stream_send(inbound->stream, CRTI_MSG_DONE, m->request, NULL);
    if (m->kind == CRTI_MSG_LEASE_RETURN)
        crti_lease_returned(node, &m->lease_return);
    else if (m->kind == CRTI_MSG_LEASE_CANCEL)
        crti_lease_cancelled(node, m->lease_cancel.lease);
    else
        crti_object_free(node, m->free.objects);
    return true;
}

static void on_inbound_message(void *user, crti_stream_t *stream, const crti_message_t *m)
{
    inbound_t *inbound = user;
    crti_node_t *node = inbound->node;
    crti_msg_node_hello_t hello = {.protocol = CRTI_PROTOCOL_VERSION,
                                   .node = node->id,
                                   .incarnation = node->incarnation};

    if (m->kind == CRTI_MSG_NODE_HELLO && crti_id_is_zero(inbound->id) &&
        m->node_hello.protocol == CRTI_PROTOCOL_VERSION) {
        inbound->id = m->node_hello.node;
        crti_stream_send(stream, CRTI_MSG_NODE_HELLO, 0, &hello);
        return;
    }
    if (!crti_id_is_zero(inbound->id) &&
        (on_inbound_asks(inbound, m) || on_inbound_informs(inbound, m)))
        return;
    crti_log(CRTI_LOG_WARN, "peer", "%s from %s: closed", crti_message_name(m->kind),
             crti_stream_peer_address(stream));
    drop_inbound(inbound);
}

static void on_accept(void *user, crti_stream_t *stream)
{
    crti_node_t *node = user;
    inbound_t *inbound = calloc(1, sizeof(*inbound));
    crti_stream_handlers_t handlers = {.user = inbound,
                                       .on_message = on_inbound_message,
                                       .on_closed = on_inbound_closed};

    if (inbound == NULL) {
        crti_stream_free(stream);
        return;
    }
    inbound->node = node;
    inbound->stream = stream;
    crti_list_append(&node->inbound_links, &inbound->link);
    crti_stream_set_handlers(stream, &handlers);
    crti_stream_answer_within(stream, ANSWERS);
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

void crti_inbound_free_all(crti_node_t *node)
{
    while (!crti_list_is_empty(&node->inbound_links)) {
        inbound_t *inbound =
            CRTI_CONTAINER(crti_list_pop(&node->inbound_links), inbound_t, link);

        crti_stream_free(inbound->stream);
        free(inbound);
    }
    crti_stream_listener_free(node->listener);
    node->listener = NULL;
}
