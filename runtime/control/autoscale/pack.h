/* SPDX-License-Identifier: Apache-2.0 */
/* Packing: which nodes what waits needs, beside the room that there is. Pure.
 *
 * Where it sits
 *     autoscale/autoscaler.c -> [ control/autoscale/pack.c ] -> demand.h, base/scheduling.h
 * Policy
 *     Placement groups first, then what is largest. Each goes to the first bin with room: nodes
 *     that are there, nodes that were asked for, new nodes of this plan, in this order. A new node
 *     is of the type that leaves the least unused: of those without resources that the demand does
 *     not want (a GPU), the one that it fills best. A placement group has room for all that waits
 *     of it, or takes none.
 *     What is tied to one node or to a bundle that is there needs no new one.
 * Ownership
 *     A plan has its bins until crti_pack_fini; it borrows types and demand.
 */
#ifndef CRTI_CONTROL_PACK_H
#define CRTI_CONTROL_PACK_H

#include "runtime/base/buffer.h"
#include "runtime/control/autoscale/demand.h"

#define CRTI_NODE_TYPES_MAX 32
#define CRTI_NODE_TYPE_NAME 32

/* Nodes that are alike, of which a provider can start some. */
typedef struct crti_node_type {
    char name[CRTI_NODE_TYPE_NAME];
    crti_resources_t resources; /* of a node, as far as it is known */
    char labels[CRTI_LABELS_SIZE];
    size_t min, max;
} crti_node_type_t;

/* A node, or one that will be. */
typedef struct crti_pack_bin {
    crti_id_t node; /* zero: it is not there */
    const char *labels;
    crti_resources_t free;
    int type;    /* of a node that is not there; else -1 */
    bool is_new; /* planned here, for the entry before `wanted_by`; 0: whatever waits */
    size_t wanted_by;
    bool is_used; /* something goes there */
    size_t gang;  /* the last one of which something goes there */
} crti_pack_bin_t;

typedef enum crti_pack_outcome {
    CRTI_PACK_ROOM,   /* all of it has room, with the new nodes */
    CRTI_PACK_TIED,   /* it waits for a node or a bundle, which no new node is */
    CRTI_PACK_NEVER,  /* no type has what it needs */
    CRTI_PACK_AT_MAX, /* those that have it are as many as they may be */
    CRTI_PACK_LATER /* those that have it could not be started, and are tried again later */
} crti_pack_outcome_t;

typedef struct crti_pack {
    const crti_node_type_t *types;
    size_t type_count;
    size_t more[CRTI_NODE_TYPES_MAX];    /* that there may be of each type */
    bool is_closed[CRTI_NODE_TYPES_MAX]; /* no more of it is asked for */
    crti_pack_bin_t *bins;
    size_t bin_count, bin_room, gangs;
    crti_buffer_t steps; /* of the group that is looked at: what goes where */
    bool is_short;       /* out of memory: the plan may lack nodes */
} crti_pack_t;

void crti_pack_init(crti_pack_t *pack, const crti_node_type_t *types, size_t type_count);
void crti_pack_fini(crti_pack_t *pack);

/* A node that is there (type -1), or one of a type that is not there yet. */
void crti_pack_add(crti_pack_t *pack, crti_id_t node, const char *labels, int type,
                   const crti_resources_t *available);

/* Room for what is wanted of the kinds whose bits (1 << kind) are in `kinds`. `outcomes`: one for
 * each entry; those of other kinds stay as they are. */
void crti_pack_demand(crti_pack_t *pack, const crti_demand_t *demand, unsigned kinds,
                      crti_pack_outcome_t *outcomes);

/* One more node of the type; `wanted_by` as of the bin. */
void crti_pack_open(crti_pack_t *pack, size_t type, size_t wanted_by);

/* Whether a node of that type, empty, has room for one of it. */
bool crti_pack_type_fits(const crti_node_type_t *type, const crti_demand_entry_t *entry);

#endif
