/* SPDX-License-Identifier: Apache-2.0 */
/* Demand: what waits for room in the cluster, as entries of one shape each. Pure.
 *
 * Where it sits
 *     control_demand.c (the tables, what nodes tell) -> [ control/autoscale/demand.c ]
 *         -> rows/state_json.c (what crt status shows), autoscale/pack.c (which nodes it needs)
 * Ownership
 *     Entries belong to the demand. Reasons are borrowed from the tables, and live until they
 *     change.
 */
#ifndef CRTI_CONTROL_AUTOSCALE_DEMAND_H
#define CRTI_CONTROL_AUTOSCALE_DEMAND_H

#include "runtime/base/map.h"
#include "runtime/base/resources.h"
#include "runtime/base/scheduling.h"

#define CRTI_DEMAND_MAX  4000 /* entries; what is more is counted together */
#define CRTI_DEMAND_NAME 128

typedef enum crti_demand_kind {
    CRTI_DEMAND_TASK,
    CRTI_DEMAND_ACTOR,
    CRTI_DEMAND_BUNDLE, /* of a placement group: all of its entries have room, or none */
    CRTI_DEMAND_JOB,
    CRTI_DEMAND_REQUEST, /* what users ask the cluster to have, in use or not */
    CRTI_DEMAND_KINDS
} crti_demand_kind_t;

/* What is alike, and how often. */
typedef struct crti_demand_entry {
    crti_demand_kind_t kind;
    char name[CRTI_DEMAND_NAME];
    crti_resources_t need;
    crti_scheduling_t how;
    crti_id_t group;    /* of BUNDLE */
    uint64_t strategy;  /* of it: CRTI_PLACEMENT_ */
    const char *reason; /* why it waits; NULL: nobody has said so */
    uint64_t count;
} crti_demand_entry_t;

/* A bundle of a group that has its place, while others of the group wait. */
typedef struct crti_demand_place {
    crti_id_t group, node;
} crti_demand_place_t;

typedef struct crti_demand {
    crti_demand_entry_t *entries;
    size_t count, room;
    crti_demand_place_t *places;
    size_t place_count;
    uint64_t others;    /* what found no entry */
    crti_map_t by_what; /* what tells entries apart -> index + 1 */
} crti_demand_t;

void crti_demand_init(crti_demand_t *demand);
void crti_demand_fini(crti_demand_t *demand);
static inline void crti_demand_fini_auto(crti_demand_t *demand)
{
    crti_demand_fini(demand);
}

/* `entry->count` more of what is like it. Out of memory: they are counted in `others`. */
void crti_demand_add(crti_demand_t *demand, const crti_demand_entry_t *entry);
void crti_demand_add_place(crti_demand_t *demand, crti_id_t group, crti_id_t node);

/* "task", "actor", "bundle", "job", "request". */
const char *crti_demand_kind_name(crti_demand_kind_t kind);

#endif
