/* SPDX-License-Identifier: Apache-2.0 */
/* Bundle table: what placement groups have reserved on this node, and how much of each bundle is
 * free. Pure.
 *
 * Where it sits
 *     room.c -> [ node/leases/bundle_table.c ]
 * States
 *     reserved ----------> returned ----------> (gone)
 *               the head             nobody holds anything of it any more
 * Invariants
 *     One bundle of a group and an index is reserved at a time; returned ones are found by their
 *     holders only. available = resources - what holders have, CPUs of blocked workers excepted;
 *     `holders` counts them.
 */
#ifndef CRTI_NODE_BUNDLE_TABLE_H
#define CRTI_NODE_BUNDLE_TABLE_H

#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"
#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/base/resources.h"
#include "runtime/node/leases/gpu_table.h"

#define CRTI_ANY_BUNDLE (-1) /* an index: whichever has room */

typedef struct crti_bundle {
    crti_id_t group;
    uint64_t index, incarnation;
    crti_id_t job;
    crti_resources_t resources;

    /* Written by the table and by room.c. */
    crti_resources_t available;
    crti_gpu_share_t share; /* of the node's GPUs */
    crti_gpu_table_t gpus;  /* of these, what is free */
    unsigned holders;
    bool is_returned;
    crti_list_t link; /* those of a group, or those that are returned */
} crti_bundle_t;

typedef struct crti_bundle_table {
    crti_map_t by_group; /* -> crti_list_t of bundles */
    crti_list_t returned;
} crti_bundle_table_t;

void crti_bundle_table_init(crti_bundle_table_t *table);
void crti_bundle_table_fini(crti_bundle_table_t *table);

/* A reserved bundle: the first five fields of `bundle` and its share are read, none of that group
 * and index is reserved. */
crt_status_t crti_bundle_table_add(crti_bundle_table_t *table,
                                   const crti_bundle_t *bundle);
/* reserved -> returned. */
void crti_bundle_table_return(crti_bundle_table_t *table, crti_bundle_t *bundle);
/* Frees a returned one that has no holders. */
void crti_bundle_table_forget(crti_bundle_t *bundle);

/* The reserved one with that index, NULL: none. CRTI_ANY_BUNDLE: one in which `need` is free, or
 * else the first; `need` NULL: the first. */
crti_bundle_t *crti_bundle_table_get(const crti_bundle_table_t *table, crti_id_t group,
                                     int64_t index, const crti_resources_t *need);
bool crti_bundle_fits(const crti_bundle_t *bundle, const crti_resources_t *need);

/* Walks the reserved ones; `*group` and `*at` start as 0 and NULL, NULL at the end. No change
 * during the walk. */
crti_bundle_t *crti_bundle_table_next(const crti_bundle_table_t *table, size_t *group,
                                      crti_list_t **at);

#endif
