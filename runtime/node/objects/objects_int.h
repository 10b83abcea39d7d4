/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of objects/, which its own files see. */
#ifndef CRTI_NODE_OBJECTS_INT_H
#define CRTI_NODE_OBJECTS_INT_H

#include "runtime/node/objects/pull_table.h"
#include "runtime/node/objects/share_table.h"
#include "runtime/node/objects/spill_threads.h"
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
    crti_map_t keeps; /* number -> a copy that this node is to have, keep.c; */
    uint64_t last_keep;
    crti_id_t keep_last; /* the other node that was asked to have one last */
    /* The pull of such a copy, whose requester is no process, has ended. */
    void (*on_keep_pulled)(crti_node_t *node, uint64_t number, crt_status_t status,
                           const char *text);
};

struct crti_owners {
    crti_buffer_t dead_nodes; /* crti_id_t, oldest first */
    crti_map_t died;          /* ids: their objects go with the next tick */
    uint64_t died_ns;         /* when such went last */
    uint64_t sweep_ns;        /* when owners of objects were looked at */
    uint64_t sweep;           /* counts that */
};

#define CRTI_SPILL_LOSSES 64

/* Why an object that was on disk is not any more. */
typedef struct crti_spill_loss {
    crti_object_id_t object;
    char text[600]; /* "": nothing */
} crti_spill_loss_t;

struct crti_spill {
    crti_spill_files_t *files; /* NULL: nothing is spilled */
    crti_spill_threads_t *threads;
    char dirs[4096]; /* the texts of places */
    const char *places[CRTI_SPILL_PLACES];
    size_t place_count;
    crti_map_t restores; /* object id -> who waits for it here */
    crti_map_t parts;    /* object id, offset -> which nodes wait for it */
    crti_spill_loss_t losses[CRTI_SPILL_LOSSES];
    size_t loss_count;
    uint64_t look_ns;
    bool is_stalled;
};

/* spill.c */
void crti_spill_init(crti_node_t *node);

/* transfer.c: the nodes of a list that are others than this one; how many. In an order that differs
 * from node to node. */
size_t crti_pull_sources(const crti_node_t *node, crti_object_id_t object,
                         crti_span_t list, crti_id_t nodes[CRTI_PULL_SOURCES]);
/* transfer.c: the answer to a PULL. */
void crti_pull_tell(crti_node_t *node, crti_pull_requester_t requester,
                    crt_status_t status, const char *text);

/* pull_retry.c: the link to `from` broke under a question for a part of the object, or there was
 * none to put it by. */
void crti_pull_unreachable(crti_node_t *node, crti_object_id_t object, crti_id_t from);
/* True: this ANSWER is not told, its requester waits for another attempt. */
bool crti_pull_begins_again(crti_node_t *node, crti_pull_action_t *answer);
void crti_pull_retry_free(crti_node_t *node);

#endif
