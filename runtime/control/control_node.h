/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: they register, live, and die with their processes. */
#ifndef CRTI_CONTROL_CONTROL_NODE_H
#define CRTI_CONTROL_CONTROL_NODE_H

#include "runtime/control/control_state.h"

#define CRTI_DEATHS_MAX 4096 /* processes whose death is remembered */

typedef struct crti_death {
    crti_id_t process;
    uint64_t incarnation;
    crti_id_t node;
    crt_status_t status;
    int64_t pid;
    bool ran_no_call; /* this and the next two as of PEER_DIED */
    crti_id_t caller;
    uint64_t unbegun;
    char *text;
    crti_list_t in_deaths;
} crti_death_t;

void crti_control_register(crti_control_t *c, crti_control_link_t *link,
                           const crti_msg_node_register_t *m, uint64_t request);
bool crti_control_heartbeat(crti_control_t *c, crti_control_link_t *link,
                            const crti_msg_heartbeat_t *m);
void crti_control_node_lost(crti_control_t *c, crti_node_entry_t *node);
void crti_control_node_died(crti_control_t *c, crti_node_entry_t *node, const char *text);
/* `request` 0: it has made no actors, and nobody waits for an answer. */
void crti_control_peer_died(crti_control_t *c, crti_control_link_t *link,
                            uint64_t request, const crti_msg_peer_died_t *m);
void crti_control_node_find(crti_control_t *c, uint64_t link, uint64_t request,
                            crti_id_t id);
void crti_control_watch_peer(crti_control_t *c, crti_control_link_t *link,
                             const crti_msg_watch_t *m);
/* All rows are stored. */
void crti_control_answer_deaths(crti_control_t *c);
void crti_control_forget_deaths(crti_control_t *c);

#endif
