/* SPDX-License-Identifier: Apache-2.0 */
/* Node links: the connections to other node daemons (theirs to this one: inbound.c).
 *
 * Where it sits
 *     lease.c, watch.c, transfer.c, program.c -> [ node/links/peer.c ] <-> net/stream.c <->
 *     crt-node
 *     crt-node <-> net/stream.c <-> [ node/links/inbound.c ] -> peer_dispatch.c, by handlers
 * Rules
 *     Each node makes its own links for what it asks, two to a node: one for control, one for
 *     bulk bytes, so that a lease never waits behind an object. Links are made when they are
 *     first needed, and again RETRY_NS after they broke while something is watched over there.
 *     Questions under way when a link breaks fail; their askers decide (bounce, next source).
 *     What must be heard (a lease given back, objects freed) is answered by DONE; it is said again,
 *     in its order and before anything else, whenever the link is made again, until the node dies.
 *     A node that others speak of may be newer than the last word of the head: unknown is not
 *     gone. The head is asked (NODE_FIND, again after each reconnect); what is to be said to
 *     that node is kept meanwhile. It ends by NODE_VIEW, by the answer that there is none, or by
 *     NODE_DIED.
 * Trust
 *     Only holders of the cluster key get this far. NODE_HELLO must come first and its node id
 *     must be the one that was meant: an address may have been taken over by another node.
 */
#ifndef CRTI_NODE_PEER_H
#define CRTI_NODE_PEER_H

#include "runtime/node/types.h"

typedef enum crti_priority {
    CRTI_PRIORITY_CONTROL,
    CRTI_PRIORITY_BULK,
    CRTI_PRIORITIES
} crti_priority_t;

/* A request to another node, and what becomes of it. */
typedef struct crti_peer_ask crti_peer_ask_t;
typedef struct crti_peer_answers {
    crti_message_kind_t kind; /* the answer, when it is neither an error nor a payload */
    /* The payload is there (both NULL), `answer` came, or (`text`) why there is none. */
    void (*on_answer)(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *ask,
                      const crti_message_t *answer, const char *text);
    /* Where the payload behind `m` goes, so many bytes as `ask->length` says then; NULL:
     * nowhere. */
    void *(*place)(crti_node_t *node, crti_peer_ask_t *ask, const crti_message_t *m);
    /* The link broke; on_answer follows. */
    void (*on_unreachable)(crti_node_t *node, crti_id_t from, const crti_peer_ask_t *ask);
} crti_peer_answers_t;

struct crti_peer_ask {
    crti_message_kind_t kind;
    const crti_peer_answers_t *answers;
    crti_id_t id;            /* lease, job or process */
    crti_object_id_t object; /* OBJECT_GET */
    uint64_t offset, length;
    uint32_t attempt;
};

/* What happens on links that this node made, and on those of others (peer_dispatch.c). */
typedef struct crti_peer_handlers {
    bool (*on_notice)(crti_node_t *node, const crti_message_t *m); /* false: it is none */
    void (*on_view)(crti_node_t *node,
                    const crti_msg_node_view_t *view); /* of one that was sought */
    void (*on_unknown)(crti_node_t *node, crti_id_t id, const char *text);
    void (*on_retry)(crti_node_t *node, crti_id_t id); /* its link was broken */
    void (*on_silent)(crti_node_t *node,
                      crti_id_t id); /* asked for objects, says nothing */
    /* A link of another node; false: it does not belong there. */
    bool (*on_message)(crti_node_t *node, crti_id_t from, crti_stream_t *stream,
                       const crti_message_t *m);
    void (*on_closed)(crti_node_t *node, crti_stream_t *stream); /* before it is freed */
} crti_peer_handlers_t;

void crti_peer_init(crti_node_t *node, const crti_peer_handlers_t *handlers);
/* A notice to another node. What is said to one that this node has not heard of waits until the
 * head has told who it is, and is dropped when there is no such node. */
void crti_node_send(crti_node_t *node, crti_id_t to, crti_message_kind_t kind,
                    const void *body);
/* As a notice, and said again on every new link until it was heard or the node is dead. To hear it
 * twice is to hear it once. */
void crti_node_send_reliable(crti_node_t *node, crti_id_t to, crti_message_kind_t kind,
                             const void *body);
/* A request; it fails by its answer when there is no such node. Waits like a notice. */
crt_status_t crti_node_ask(crti_node_t *node, crti_id_t to, crti_priority_t priority,
                           const crti_peer_ask_t *ask, const void *body);
/* Asks every node to which there is a link; how many that are. */
size_t crti_node_ask_linked(crti_node_t *node, crti_priority_t priority,
                            const crti_peer_ask_t *ask, const void *body);
/* A notice that follows what was asked at that priority; dropped when there is no link. */
void crti_node_send_ordered(crti_node_t *node, crti_id_t to, crti_priority_t priority,
                            crti_message_kind_t kind, const void *body);
/* The memory is given up: a payload on its way into it is thrown away. */
void crti_node_discard(crti_node_t *node, const void *memory, size_t size);
/* The node that a process id names, if it is one that this node has heard of. */
bool crti_peer_of_process(crti_node_t *node, crti_id_t process, crti_id_t *id_out);
/* The head shows a node. False: it is not known by that. */
bool crti_peer_view(crti_node_t *node, const crti_msg_node_view_t *view);
/* It begins to name all; one that it has named before, and not since. False: there is none. */
void crti_peer_name_anew(crti_node_t *node);
bool crti_peer_unnamed(crti_node_t *node, crti_id_t *id_out);
void crti_node_forget(crti_node_t *node, crti_id_t id);
/* Tells of nodes that were asked for objects and of which nothing came for a while. */
void crti_peer_look_for_silence(crti_node_t *node);
void crti_peer_free_all(crti_node_t *node);

/* inbound.c */
crt_status_t crti_peer_listen(crti_node_t *node);
/* On the same port, with the streams of other nodes encrypted or not, as the cluster has it. */
crt_status_t crti_peer_listen_again(crti_node_t *node, bool encrypt);
bool crti_peer_is_listening(const crti_node_t *node);
/* Where other nodes connect, once it is listened there; are their streams encrypted? */
const char *crti_peer_endpoint(const crti_node_t *node);
bool crti_peer_encrypts(const crti_node_t *node);
void crti_node_answer_error(crti_stream_t *stream, uint64_t request, crt_status_t status,
                            const char *text);
/* What it sends is wrong from now on: the connection ends at once. */
void crti_inbound_cut(crti_node_t *node, crti_stream_t *stream);
void crti_inbound_free_all(crti_node_t *node);

#endif
