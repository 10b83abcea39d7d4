/* SPDX-License-Identifier: Apache-2.0 */
/* Watches: who wants to hear when a process ends, and the memory of recent deaths for those who
 * ask late.
 *
 * Where it sits
 *     local_dispatch.c, peer_dispatch.c (WATCH), lease.c -> [ node/watches/watch.c ] <- death.c
 * Rules
 *     A process of this node is watched here. One of another node is watched there, by this
 *     node: one WATCH per process over the node link, said again when the link comes back, and
 *     every AGAIN_NS: a break can take the word of a death along that came on the other node's
 *     link, and that of the head on its own. The head's PEER_DIED and NODE_DIED end it too,
 *     whichever is first, and so does its word that there is no such node.
 */
#ifndef CRTI_NODE_WATCH_H
#define CRTI_NODE_WATCH_H

#include "runtime/node/types.h"

void crti_watch_init(crti_node_t *node);
void crti_watch_add(crti_process_t *watcher, const crti_msg_watch_t *watch);
void crti_watch_add_node(crti_node_t *node, crti_id_t from,
                         const crti_msg_watch_t *watch);
/* The same for a worker that another node granted: that node tells without being asked. */
void crti_watch_note(crti_node_t *node, crti_id_t watcher, const crti_msg_watch_t *watch);
void crti_watch_remove(crti_process_t *watcher, crti_id_t target);
void crti_watch_remove_node(crti_node_t *node, crti_id_t from, crti_id_t target);
void crti_watch_drop(crti_node_t *node, crti_id_t watcher); /* it ended itself */
void crti_watch_fire(crti_node_t *node, const crti_msg_peer_died_t *died);
void crti_watch_node_died(crti_node_t *node, crti_id_t target_node);
/* The head does not know that node: whoever watches its processes hears that they are gone. */
void crti_watch_no_node(crti_node_t *node, crti_id_t target_node, const char *text);
/* What this node watches there, said again after a reconnect. */
void crti_watch_again(crti_node_t *node, crti_id_t target_node);
void crti_watch_tick(crti_node_t *node, uint64_t now_ns);
/* Remembers deaths for those who ask late. */
void crti_dead_add(crti_node_t *node, const crti_msg_peer_died_t *died);
/* True when that process is among them. */
bool crti_dead_is(const crti_node_t *node, crti_id_t process);
/* This node itself wants to hear of the end of a process that owns objects here; the watch ends
 * when a `sweep` of owner.c has not asked for it. */
void crti_watch_owner(crti_node_t *node, const crti_msg_watch_t *watch, uint64_t sweep);
void crti_watch_owners_seen(crti_node_t *node, uint64_t sweep);
void crti_watch_free(crti_node_t *node);

/* actor_watch.c: ACTOR_WATCH of local processes. */
crt_status_t crti_actor_watch(crti_process_t *watcher, crti_id_t actor);
void crti_actor_unwatch(crti_node_t *node, crti_id_t process, crti_id_t actor);
void crti_actor_watch_drop(crti_node_t *node, crti_id_t process);
void crti_actor_watch_again(crti_node_t *node);
void crti_actor_state(crti_node_t *node, const crti_msg_actor_state_t *state);
void crti_actor_watch_free(crti_node_t *node);

#endif
