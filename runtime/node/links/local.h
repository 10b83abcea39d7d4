/* SPDX-License-Identifier: Apache-2.0 */
/* Local link: connections of drivers, workers and the command on node.sock.
 *
 * Where it sits
 *     core of a driver or worker, the command -> net/channel.c -> [ node/links/local.c ]
 *         -> local_dispatch.c, by handlers
 * Trust
 *     The peer is a process of this user, but may be mad: a message that does not fit closes its
 *     connection with one line in the log; a worker is ended for it.
 */
#ifndef CRTI_NODE_LOCAL_H
#define CRTI_NODE_LOCAL_H

#include "runtime/node/types.h"

/* One connection on node.sock. Without a process until ATTACH, and for the command always. */
struct crti_local {
    crti_node_t *node;
    uint64_t number; /* names it in answers that come later */
    crti_channel_t *channel;
    crti_process_t *process;
    bool attaching; /* a driver whose job is being recorded by the head */
    crti_list_t link;
};

/* What happens on local connections (local_dispatch.c). */
typedef struct crti_local_handlers {
    void (*on_message)(crti_local_t *local, const crti_message_t *message);
    void (*on_close)(
        crti_local_t *local); /* whatever waits for an answer on it is dropped */
} crti_local_handlers_t;

void crti_local_init(crti_node_t *node, const crti_local_handlers_t *handlers);
crt_status_t crti_local_listen(crti_node_t *node);
void crti_local_listen_no_more(crti_node_t *node);
void crti_local_free_all(crti_node_t *node);
crti_local_t *crti_local_get(crti_node_t *node, uint64_t number);
/* Sends to a process if it is attached. */
void crti_local_send(crti_process_t *process, crti_message_kind_t kind, uint64_t request,
                     const void *body);
/* Lines that were left out because a driver took none for too long: it hears of that when it does
 * again, or now. */
void crti_local_tell_not_shown(crti_process_t *driver);
/* True while something is on its way to an attached process. */
bool crti_local_has_queued(const crti_node_t *node);
/* To all attached processes. */
void crti_local_broadcast(crti_node_t *node, crti_message_kind_t kind, const void *body);
/* With what is raised. */
void crti_local_answer_error(crti_local_t *local, uint64_t request, crt_status_t status);
/* The peer misbehaved: the reason is raised already. */
void crti_local_refuse(crti_local_t *local, const crti_message_t *message);
/* The process has attached by it. */
void crti_local_bind(crti_local_t *local, crti_process_t *process);
void crti_local_close(crti_local_t *local);
/* What has arrived is handled now; its process has ended. NULL is fine. */
void crti_local_hear(crti_local_t *local);

#endif
