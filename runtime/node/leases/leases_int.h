/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of leases/, which its own files see. Its tables know no node. */
#ifndef CRTI_NODE_LEASES_INT_H
#define CRTI_NODE_LEASES_INT_H

#include "runtime/node/leases/lease.h"
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/leases/worker_table.h"
#include "runtime/node/process/context.h"

struct crti_leases {
    void (*carry_out)(crti_node_t *node); /* lease_act.c */
    bool is_acting;
    bool fails_if_infeasible; /* requests that say nothing of it */
    bool may_grow;            /* nodes may come that have what they need */
    crti_map_t askers;        /* lease id -> who asked */
};

/* Leases in bundles that are returned end, their workers too: `text` says why. */
void crti_lease_end_returned(crti_node_t *node, const char *text);

#endif
