/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of objects/, which its own files see. */
#ifndef CRTI_NODE_OBJECTS_INT_H
#define CRTI_NODE_OBJECTS_INT_H

#include "runtime/node/objects/pull_table.h"
#include "runtime/node/objects/share_table.h"
#include "runtime/node/objects/transfer.h"
#include "runtime/node/objects/transfer_log.h"
#include "runtime/node/process/context.h"

/* What transfer.c knows of a store that had no room. */
typedef struct crti_node_full {
    uint64_t size; /* for an object of so many bytes */
    uint64_t until_ns;
    char text[600];
} crti_node_full_t;

struct crti_pulls {
    bool is_acting;
    crti_map_t places; /* object id -> memory of an object being pulled */
    crti_node_full_t full;
    crti_transfer_log_t log;
    crti_map_t again; /* object id -> a pull that is begun again, pull_retry.c */
};

struct crti_owners {
    crti_buffer_t dead_nodes; /* crti_id_t, oldest first */
    crti_map_t died;          /* ids: their objects go with the next tick */
    uint64_t died_ns;         /* when such went last */
    uint64_t sweep_ns;        /* when owners of objects were looked at */
    uint64_t sweep;           /* counts that */
};

/* pull_retry.c: the link to `from` broke under a question for a part of the object. */
void crti_pull_unreachable(crti_node_t *node, crti_object_id_t object, crti_id_t from);
/* True: this ANSWER is not told, its requester waits for another attempt. */
bool crti_pull_begins_again(crti_node_t *node, crti_pull_action_t *answer);
void crti_pull_retry_free(crti_node_t *node);

#endif
