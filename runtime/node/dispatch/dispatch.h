/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch: what comes in on a link, what the tables of leases and workers decided, and the end of
 * a process go from here to the modules that serve them.
 *
 * Where it sits
 *     links, jobs, by handlers -> [ dispatch ] -> all modules below
 */
#ifndef CRTI_NODE_DISPATCH_H
#define CRTI_NODE_DISPATCH_H

#include "runtime/node/types.h"

/* head_link.c */
void crti_registration_init(crti_node_t *node);
/* Connects and registers, now and whenever the link broke. */
void crti_registration_start(crti_node_t *node);
/* Why the last attempt failed, before the first success; "": not known. */
const char *crti_registration_why(const crti_node_t *node);
/* When the last heartbeat was sent. */
uint64_t crti_registration_beat_ns(const crti_node_t *node);
void crti_head_changed(crti_node_t *node); /* heartbeat soon */

/* lease_act.c: carries out what the tables of leases and workers decided. */
void crti_lease_carry_out(crti_node_t *node);

/* questions.c */
void crti_questions_init(crti_node_t *node);
void crti_questions_free(crti_node_t *node);
void crti_rest_free(crti_node_t *node);

/* death.c. A process somewhere in the cluster ended. */
void crti_process_died(crti_node_t *node, const crti_msg_peer_died_t *died);
void crti_node_died(crti_node_t *node, const crti_msg_node_died_t *died);

#endif
