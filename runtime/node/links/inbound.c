/* SPDX-License-Identifier: Apache-2.0 */
/* Inbound links: connections of other node daemons, what they ask and say.
 *
 * Where it sits
 *     crt-node (its peer.c) -> net/stream.c -> [ node/links/inbound.c ] -> lease.c, watch.c,
 *     transfer.c, program.c
 * Rules
 *     What comes in on a link is answered on it. What is said until it is heard
 *     (crti_node_send_reliable) gets DONE, and may come twice.
 *     Answers are made only as fast as they are read: a link that asks on and reads nothing is read
 *     no more while ANSWERS bytes wait for it.
 * Trust
 *     Only holders of the cluster key get this far. NODE_HELLO must come first. A message that does
 *     not belong here closes the link.
 */
#include <string.h>

#include "runtime/base/log.h"
#include "runtime/node/links/links_int.h"

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
    inbound->node->peers->handlers->on_closed(inbound->node, inbound->stream);
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
    CRTI_LIST_FOREACH_SAFE (item, &node->peers->inbound) {
        inbound_t *inbound = CRTI_CONTAINER(item, inbound_t, link);

        if (inbound->stream == stream)
            drop_inbound(inbound);
    }
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
        node->peers->handlers->on_message(node, inbound->id, stream, m))
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
    crti_list_append(&node->peers->inbound, &inbound->link);
    crti_stream_set_handlers(stream, &handlers);
    crti_stream_limit_replies(stream, ANSWERS);
}

crt_status_t crti_peer_listen(crti_node_t *node)
{
    crt_status_t status = crti_stream_listen(node->loop, node->context, node->ip, 0,
                                             on_accept, node, &node->peers->listener);

    if (status == CRT_OK)
        snprintf(node->peers->endpoint, sizeof(node->peers->endpoint),
                 strchr(node->ip, ':') ? "[%s]:%u" : "%s:%u", node->ip,
                 (unsigned)crti_stream_listener_port(node->peers->listener));
    return status;
}

crt_status_t crti_peer_listen_again(crti_node_t *node, bool encrypt)
{
    CRTI_AUTO(crti_stream_context_free) crti_stream_context_t *context = NULL;
    uint16_t port = crti_stream_listener_port(node->peers->listener);
    crt_status_t status = crti_stream_context_new(&node->key, encrypt, &context);

    if (status != CRT_OK)
        return status;
    crti_stream_listener_free(node->peers->listener);
    node->peers->listener = NULL;
    node->peers->encrypt = encrypt;
    return crti_stream_listen(node->loop, context, node->ip, port, on_accept, node,
                              &node->peers->listener);
}

void crti_inbound_free_all(crti_node_t *node)
{
    while (!crti_list_is_empty(&node->peers->inbound)) {
        inbound_t *inbound =
            CRTI_CONTAINER(crti_list_pop(&node->peers->inbound), inbound_t, link);

        crti_stream_free(inbound->stream);
        free(inbound);
    }
    crti_stream_listener_free(node->peers->listener);
    node->peers->listener = NULL;
}

bool crti_peer_is_listening(const crti_node_t *node)
{
    return node->peers->listener != NULL;
}

const char *crti_peer_endpoint(const crti_node_t *node)
{
    return node->peers->endpoint;
}

bool crti_peer_encrypts(const crti_node_t *node)
{
    return node->peers->encrypt;
}
