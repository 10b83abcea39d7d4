/* SPDX-License-Identifier: Apache-2.0 */
/* Actors: where they are placed, and what becomes of them. */
#ifndef CRTI_CONTROL_CONTROL_ACTOR_H
#define CRTI_CONTROL_CONTROL_ACTOR_H

#include "runtime/control/control_state.h"

/* The living nodes as crti_placement_node_t, in a buffer that is reused; their number. */
size_t crti_control_placement_nodes(const crti_control_t *c, crti_buffer_t *places);
void crti_control_on_actor(void *user, crti_actor_entry_t *actor, unsigned before,
                           bool stored);
void crti_control_actor_create(crti_control_t *c, uint64_t link, uint64_t request,
                               const crti_msg_actor_create_t *m);
void crti_control_actor_kill(crti_control_t *c, uint64_t link, uint64_t request,
                             const crti_msg_actor_kill_t *m);
/* Its process ends in an orderly way, and another one follows, which costs no restart. */
void crti_control_actor_move(crti_control_t *c, crti_actor_entry_t *actor,
                             const char *text);
void crti_control_actor_died(crti_control_t *c, crti_control_link_t *link,
                             uint64_t request, const crti_msg_actor_died_t *m);
/* A process of an actor is there; it ends unless it is the one that is wanted. */
void crti_control_actor_started(crti_control_t *c, const crti_node_entry_t *node,
                                const crti_msg_actor_started_t *m);
/* The answer to ACTOR_START. */
void crti_control_actor_answer(crti_control_t *c, const crti_request_t *request,
                               const crti_message_t *answer);
void crti_control_place_all(crti_control_t *c);
/* Sends every ACTOR_START again that a node which is back has not answered. */
void crti_control_start_again(crti_control_t *c, const crti_node_entry_t *node);
/* Its process is gone: a fact, of which those who wait for it hear before a disk that is slow. */
void crti_control_actor_process_died(crti_control_t *c, crti_actor_entry_t *actor,
                                     crt_status_t status, const char *text, bool created);
/* Dead for good; its process is ended. */
void crti_control_actor_end(crti_control_t *c, crti_actor_entry_t *actor,
                            crt_status_t status, const char *text);
/* Every living one for which `is_meant` holds. */
void crti_control_actors_end_where(
    crti_control_t *c, bool (*is_meant)(const crti_actor_entry_t *, const void *),
    const void *subject, crt_status_t status, const char *text);
/* A node reports that it runs this actor; false: it should not. */
bool crti_control_actor_running(crti_control_t *c, const crti_node_entry_t *node,
                                const crti_msg_actor_running_t *m);
/* The actor is about to be taken from a node that may still run it: base/fence.h says how long it,
 * and its name, are not placed. Nothing without `.fenced`. */
void crti_control_fence(crti_control_t *c, crti_actor_entry_t *actor);
/* The answer to ACTOR_STOP: that process is gone. */
void crti_control_actor_stopped(crti_control_t *c, const crti_request_t *request);
/* Counts an entry that was loaded. */
void crti_control_actor_loaded(crti_control_t *c, crti_actor_entry_t *actor);
/* A placed one whose node was not known then, and is now. */
void crti_control_actor_found_node(crti_control_t *c, crti_actor_entry_t *actor);
/* Actors, placement groups or submitted jobs wait for room. */
static inline bool crti_control_has_waiting(const crti_control_t *c)
{
    return !crti_list_is_empty(&c->actors.waiting) ||
           !crti_list_is_empty(&c->placement_groups.waiting) ||
           c->jobs.counts[CRTI_JOB_PENDING] > 0;
}
void crti_control_actors_of_node(crti_control_t *c, const crti_node_entry_t *node,
                                 const char *text);
void crti_control_actors_of_job(crti_control_t *c, crti_id_t job, const char *text);
void crti_control_actors_of_owner(crti_control_t *c, crti_id_t process,
                                  crt_status_t status, const char *text);

#endif
