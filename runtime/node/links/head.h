/* SPDX-License-Identifier: Apache-2.0 */
/* The head: registration, heartbeats, questions that survive reconnects, and its orders.
 *
 * Where it sits
 *     all modules -> [ node/links/head.c ] -> net/stream.c -> crt-head
 *     crt-head -> net/stream.c -> [ node/dispatch/head_link.c -> head_dispatch.c ] -> all modules
 * Rules
 *     Questions wait while there is no link, and are sent again in their order once NODE_REGISTERED
 *     came, behind the deaths that were not told; those of a process that ended are dropped. They
 *     take half of the link's queue at most, and wait for room. What does not wait (a notice, an
 *     answer, a death) has the other half; one that the link does not take breaks it.
 */
#ifndef CRTI_NODE_HEAD_H
#define CRTI_NODE_HEAD_H

#include "runtime/node/types.h"

/* Who asked the head something: what to do with its answer. `answer` is NULL when the daemon
 * stops. */
typedef void crti_head_answer_t(crti_node_t *node, crti_id_t id, uint64_t number,
                                const crti_message_t *answer);

#define CRTI_REGISTER_REQUEST 1 /* request number of NODE_REGISTER */

void crti_head_init(crti_node_t *node);
crt_status_t crti_head_connect(crti_node_t *node, uint64_t timeout_ms,
                               const crti_stream_handlers_t *handlers);
void crti_head_close(crti_node_t *node);
/* There is a stream, it may not have been answered yet; NODE_REGISTER went out on it;
 * NODE_REGISTERED came on it. */
bool crti_head_is_linked(const crti_node_t *node);
bool crti_head_is_registering(const crti_node_t *node);
bool crti_head_is_open(const crti_node_t *node);
/* True while something is on its way to it. */
bool crti_head_has_queued(const crti_node_t *node);
/* NODE_REGISTER. CRT_ERR_TOO_LARGE: what runs here can't be told in one message. */
crt_status_t crti_head_register(crti_node_t *node,
                                const crti_msg_node_register_t *message);
/* It was answered, and the deaths are told that had to wait; then what had to wait is asked. */
void crti_head_open(crti_node_t *node);
void crti_head_registered(crti_node_t *node);
/* Asks the head; sent again after each reconnect until it is answered. CRT_ERR_TOO_LARGE: no
 * link would ever take it. */
crt_status_t crti_head_ask(crti_node_t *node, crti_message_kind_t kind, const void *body,
                           crti_head_answer_t *on_answer, crti_id_t id, uint64_t number);
/* The questions of that kind asked with that id are asked no more, and their answers not heard:
 * whoever asked them is gone, and would not end what they make. */
void crti_head_drop(crti_node_t *node, crti_message_kind_t kind, crti_id_t id);
/* The same of those who are told by `on_answer`. */
void crti_head_drop_asker(crti_node_t *node, crti_head_answer_t *on_answer, crti_id_t id);
/* An answer came. */
void crti_head_answered(crti_node_t *node, const crti_message_t *message);
/* A notice, or an answer to a request of the head. Lost without a link, or with one that breaks:
 * what must not be lost is part of NODE_REGISTER, a question, or a death. Notices go out as soon as
 * NODE_REGISTER went: what ends after it is still in that report. */
void crti_head_send(crti_node_t *node, crti_message_kind_t kind, uint64_t request,
                    const void *body);
/* Adds a message to a list of such. */
crt_status_t crti_head_pack(crti_buffer_t *list, crti_message_kind_t kind,
                            const void *body);
void crti_head_send_error(crti_node_t *node, uint64_t request, crt_status_t status,
                          const char *text);
/* A process of this node ended: told when there is a link. */
void crti_head_tell_death(crti_node_t *node, const crti_msg_peer_died_t *died);
void crti_head_leave(crti_node_t *node, const char *why);
void crti_head_free(crti_node_t *node);

#endif
