/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of actors/, which its own files see. */
#ifndef CRTI_NODE_ACTORS_INT_H
#define CRTI_NODE_ACTORS_INT_H

#include "runtime/node/actors/actor.h"
#include "runtime/node/process/context.h"

struct crti_actors {
    crti_map_t by_id;
    crti_map_t ended;        /* id -> what ended last */
    crti_list_t ended_order; /* the same, oldest first */
};

#define CRTI_NODE_BEATS                                                                  \
    128 /* heartbeats whose acknowledgement may still count: over 6 s of them */

struct crti_node_fence {
    uint64_t sent_ns[CRTI_NODE_BEATS]; /* heartbeats, by sequence */
    uint64_t last_sent;                /* sequence */
    uint64_t head_ns;    /* when the last acknowledged one was sent, 0: none was */
    crti_list_t workers; /* processes of fenced actors */
};

#endif
