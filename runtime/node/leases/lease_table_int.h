/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the lease table: for lease_table.c, lease_reason.c and fair_share.c. */
#ifndef CRTI_NODE_LEASE_TABLE_INT_H
#define CRTI_NODE_LEASE_TABLE_INT_H

#include "runtime/base/buffer.h"
#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/leases/node_views.h"
#include "runtime/node/leases/room.h"

typedef struct entry {
    crti_lease_t lease;
    crti_list_t link;      /* in `queue` while WAITING */
    uint64_t arrival;      /* order in the queue */
    uint64_t explained_ns; /* when was last found out why it waits; at first since_ns */
    char told[160];        /* the reason that its owner heard last */
} entry_t;

struct crti_lease_table {
    crti_id_t self;
    const char *labels;
    crti_room_t room;
    crti_map_t leases;  /* id -> entry_t */
    crti_map_t workers; /* worker id -> entry_t, GRANTED */
    crti_job_shares_t shares;
    crti_node_views_t views;
    crti_list_t queue; /* entry_t by arrival */
    size_t waiting;
    size_t running; /* STARTING and GRANTED */
    size_t max_workers;
    uint64_t arrivals;
    crti_buffer_t actions; /* crti_lease_action_t */
    size_t action_done;
    bool told_changed; /* a CHANGED is in `actions` */
    bool is_drained;
};

/* This node, as one of those that may serve. */
static inline crti_node_self_t crti_lease_table_self(const crti_lease_table_t *table)
{
    static const crti_resources_t none;
    bool is_none = table->is_drained;

    return (crti_node_self_t){.id = table->self,
                              .labels = table->labels,
                              .resources = is_none ? &none : &table->room.resources,
                              .available = is_none ? &none : &table->room.available};
}

/* Whether any node could serve it, were all idle. */
static inline bool crti_lease_feasible(const crti_lease_table_t *table,
                                       const crti_lease_t *lease)
{
    crti_node_self_t self = crti_lease_table_self(table);

    return crti_node_views_feasible(&table->views, &self, &lease->resources, &lease->how);
}

/* Sends a request that waits here to another node. False: out of memory, it waits on. */
bool crti_lease_entry_forward(crti_lease_table_t *table, entry_t *e,
                              crti_node_view_t *view, uint64_t now_ns);
/* Gives a request back to the node that asked. `text` says why. False: out of memory, it waits
 * on. */
bool crti_lease_entry_give_back(crti_lease_table_t *table, entry_t *e, const char *text,
                                uint64_t now_ns);

#endif
