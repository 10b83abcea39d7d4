/* SPDX-License-Identifier: Apache-2.0 */
/* Node link: what this process says to its node daemon, and the answers.
 *
 * Where it sits
 *     all modules -> [ node_link.c, node_ask.c ] -> unix socket -> crt-node ->
 *     client/node_messages.c
 * Threads
 *     The core's lock.
 * Invariants
 *     Every request is answered once: by the daemon, or with NULL when the link has ended.
 */
#ifndef CRTI_CORE_PROCESS_NODE_LINK_H
#define CRTI_CORE_PROCESS_NODE_LINK_H

#include <sys/types.h>

#include "runtime/core/types.h"
#include "runtime/core/values/numbers.h"
#include "runtime/net/channel.h"

struct crti_node_link {
    crti_channel_t *channel;
    ino_t inode;             /* of its socket; 0: none yet */
    int fd;                  /* as added to the net; -1: not added */
    crti_numbers_t requests; /* number -> its handler */
    bool head_is_away;       /* the node has no link to it */
};

/* An answer of the node daemon. `message` is NULL when the link broke. */
typedef void crti_answer_handler_t(void *user, const crti_message_t *message);

void crti_node_link_init(crti_node_link_t *link);
void crti_node_link_fini(crti_node_link_t *link);
/* The channel has its socket. */
void crti_node_link_opened(crti_core_t *core);
/* The daemon's link to the head has come or gone. */
void crti_node_head_link(crti_core_t *core, bool is_up);
crt_status_t crti_node_link_start(crti_core_t *core);
void crti_node_link_stop(crti_core_t *core);
/* A request; `on_answer` is called once. */
crt_status_t crti_node_request(crti_core_t *core, crti_message_kind_t kind,
                               const void *body, crti_answer_handler_t *on_answer,
                               void *user);
/* What ends what the node can't be asked for: the reason for which this process is in no cluster
 * any more, or CRT_ERR_NODE_LOST. */
crt_status_t crti_node_loss(const crti_core_t *core);
void crti_node_notice(crti_core_t *core, crti_message_kind_t kind, const void *body);
/* The answer to a request came; the link has ended, so that none comes any more. */
void crti_node_answered(crti_core_t *core, const crti_message_t *message);
void crti_node_requests_end(crti_core_t *core);

/* A request and its answer, waited for. The answer's spans are copied to `storage`. */
crt_status_t crti_node_ask(crti_core_t *core, crti_message_kind_t kind, const void *body,
                           int64_t timeout_ms, crti_message_t *answer_out,
                           crti_buffer_t *storage);

#endif
