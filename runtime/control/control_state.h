/* SPDX-License-Identifier: Apache-2.0 */
/* What the head decides on: its tables, its links, and what is under way. Each file that decides
 * has a header of its own name with what it does for the others. */
#ifndef CRTI_CONTROL_CONTROL_STATE_H
#define CRTI_CONTROL_CONTROL_STATE_H

#include "runtime/base/clock.h"
#include "runtime/control/control.h"
#include "runtime/control/control_deadlock.h"
#include "runtime/control/placement/placement.h"
#include "runtime/control/tables/actor_table.h"
#include "runtime/control/tables/job_levels.h"
#include "runtime/control/tables/job_table.h"
#include "runtime/control/tables/node_table.h"
#include "runtime/control/tables/placement_group_table.h"

typedef struct crti_outgoing crti_outgoing_t; /* outbox.h */
typedef struct crti_inflight crti_inflight_t;
typedef struct crti_request crti_request_t; /* control_request.h */

/* A connection. */
typedef struct crti_control_link {
    uint64_t number;
    bool is_admin;
    crti_node_entry_t *node; /* NULL: not registered */
    crti_map_t watched;      /* ids of actors of whose changes it hears */
    crti_list_t in_links;
} crti_control_link_t;

struct crti_control {
    crti_control_config_t config;
    char *address;
    crti_id_t cluster;
    uint64_t head_incarnation;
    int64_t start_ms;
    bool serving, joining; /* joining: nodes of before the restart are still expected */
    uint64_t random;
    uint64_t now_ns;    /* of the event that is handled */
    uint64_t ticked_ns; /* of the last tick: what came due since then was not looked at */
    /* control.c's; for the files below it that end a link. */
    void (*on_link_ended)(crti_control_t *control, uint64_t link, const char *text,
                          uint64_t now_ns);
    /* the head itself was suspended: nodes may reconnect until then */
    uint64_t grace_until_ns;

    crti_node_table_t nodes;
    crti_resource_names_t resource_names; /* that any node has ever had */
    crti_actor_table_t actors;
    crti_placement_group_table_t placement_groups;
    crti_job_levels_t job_levels; /* what each job has used of all nodes */
    crti_job_table_t jobs;
    crti_map_t owners; /* process -> number of living actors that end with it */

    crti_map_t links; /* number -> crti_control_link_t */
    crti_list_t link_list;

    uint64_t ticket, acked,
        event_first; /* last given, last acknowledged, first of this event */
    crti_list_t outbox, in_flight, dirty;
    crti_map_t revoked; /* id -> which of its rows are deleted */
    size_t outbox_count, dirty_count;
    uint64_t dirty_retry_ns;

    uint64_t last_request;
    crti_map_t request_map; /* number -> crti_request_t */
    crti_list_t requests;

    crti_map_t death_map; /* process -> crti_death_t */
    crti_list_t deaths;
    crti_list_t unanswered_deaths; /* PEER_DIED, until rows that failed are stored */

    crti_list_t pending_watches; /* of actors that do not exist yet */

    crti_buffer_t placement_nodes; /* crti_placement_node_t, while actors are placed */

    struct crti_autoscaler *autoscaler; /* NULL: there is none */
    uint64_t scale_due_ns, scale_looked_ns;
    uint64_t scale_logged; /* decisions that are in the log */

    crti_list_t machine_names;       /* control_machine_names.c */
    crti_map_t machine_of, machines; /* by instance, by the provider's name */

    crti_list_t resource_requests; /* control_resource_request.c */
    size_t resource_request_count;

    crti_views_t views; /* what nodes hear of each other */
    crti_deadlocks_t deadlocks;
    bool tells_facts;   /* notices wait for no row of this event */
    bool starting_jobs; /* the same of crti_control_start_jobs */
    bool placing;       /* try_place_all runs: what it causes does not start it again */
    bool place_again;
    uint64_t rows_unreadable, messages_refused;
};

static inline int64_t crti_control_wall(const crti_control_t *c)
{
    return (int64_t)(c->now_ns / CRTI_MS) + c->config.wall_offset_ms;
}

#endif
