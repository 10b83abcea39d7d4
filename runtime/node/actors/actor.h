/* SPDX-License-Identifier: Apache-2.0 */
/* Actors of this node: each is a worker process of its own that the head asked for.
 *
 * Where it sits
 *     head_dispatch.c (ACTOR_START, ACTOR_STOP) -> [ node/actors/actor.c ] -> lease_table.c
 *     (resources), worker_table.c (process) -> ACTOR_STARTED, ACTOR_DIED
 * Rules
 *     ACTOR_START and ACTOR_STOP may come again after a reconnect: the newest request is the one
 *     that is answered. An actor's death is told to the head once; what was not told because
 *     the link was down is seen by the head in NODE_REGISTER, where the actor is missing. One that
 *     still starts is listed there too, without a process: the head may not want it any more.
 *     An incarnation runs once: what ended is remembered (ENDED_MAX actors), and asked for again,
 *     because the answer was lost with a link, it is answered with how it ended.
 */
#ifndef CRTI_NODE_ACTOR_H
#define CRTI_NODE_ACTOR_H

#include "runtime/node/types.h"

void crti_actor_init(crti_node_t *node);
void crti_actor_start(crti_node_t *node, uint64_t request,
                      const crti_msg_actor_start_t *start);
void crti_actor_stop(crti_node_t *node, uint64_t request,
                     const crti_msg_actor_stop_t *stop);
void crti_actor_end_id(crti_node_t *node, crti_id_t id, const char *text);
/* False: it is not wanted any more. */
bool crti_actor_assigned(crti_node_t *node, crti_worker_t *worker);
void crti_actor_failed(crti_node_t *node, crti_id_t actor, crt_status_t status,
                       const char *text);
void crti_actor_create_failed(crti_process_t *process,
                              const crti_msg_actor_failed_t *failed);
void crti_actor_process_died(crti_process_t *process, crt_status_t status,
                             const char *text);
/* What ATTACHED tells the worker of an actor. */
void crti_actor_fill(crti_node_t *node, crti_id_t actor, crti_msg_attached_t *attached);
/* Why it was told to end, or could not begin; "": nobody told it, as far as is known here. */
const char *crti_actor_end_reason(crti_node_t *node, crti_id_t actor);
const char *crti_actor_class(crti_node_t *node, crti_id_t actor, char *text, size_t size);
size_t crti_actor_count(const crti_node_t *node);
crt_status_t crti_actor_list(crti_node_t *node, crti_buffer_t *list);
/* Requests of a link that broke are not answered on the next one. */
void crti_actor_head_lost(crti_node_t *node);
void crti_actor_free_all(crti_node_t *node);

/* ---------------------------------------------------------------- fence.c */

void crti_fence_init(crti_node_t *node);
/* A heartbeat is about to be sent. */
void crti_fence_sent(crti_node_t *node, uint64_t sequence);
/* The head has answered it: workers of fenced actors may start calls for a while from its
 * sending. */
void crti_fence_acknowledged(crti_node_t *node, uint64_t sequence);
/* The worker, which has a blackboard, will serve a fenced actor. */
void crti_fence_add(crti_process_t *process);
/* It is to end: it starts no call any more, whatever the head acknowledges. */
void crti_fence_shut(crti_process_t *process);

#endif
