/* SPDX-License-Identifier: Apache-2.0 */
/* Node views: what this node knows of the resources of the others. Pure.
 *
 * Where it sits
 *     lease_table.c (what the head says, what is sent there) -> [ node/leases/node_views.c ] ->
 *     which node has room
 * What is known
 *     The head's last word, less what was sent there since, so that a burst spreads; if the head
 *     says nothing new, because what the node gave out came back at once, its last word holds again
 *     after half a second. While the head is away every node may have room.
 * Ownership
 *     The views own their entries; a pointer is valid until its node is forgotten.
 */
#ifndef CRTI_NODE_NODE_VIEWS_H
#define CRTI_NODE_NODE_VIEWS_H

#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"
#include "runtime/base/map.h"
#include "runtime/base/resource_names.h"
#include "runtime/base/resources.h"
#include "runtime/base/scheduling.h"

typedef struct crti_node_view {
    crti_id_t id;
    crti_resources_t resources;
    crti_resources_t said;      /* available, by the head's last word */
    crti_resources_t available; /* less what was sent there since */
    uint64_t suspect_ns;        /* until when it is less, 0: it is not */
    uint64_t turnless_ns;       /* until when no turn of a job is sought there */
    char labels[CRTI_LABELS_SIZE];
} crti_node_view_t;

typedef struct crti_node_views {
    crti_map_t map; /* id -> crti_node_view_t */
    bool is_headless;
    crti_id_t spread_last;       /* where SPREAD was last */
    crti_id_t turn_last;         /* where a turn was sought last */
    crti_resource_names_t names; /* that any node has ever had, this one too */
} crti_node_views_t;

/* `own`: what this node has. */
void crti_node_views_init(crti_node_views_t *views, const crti_resources_t *own);
void crti_node_views_fini(crti_node_views_t *views);

/* This node, which takes part in each choice. */
typedef struct crti_node_self {
    crti_id_t id;
    const char *labels;
    const crti_resources_t *resources, *available;
    bool has_room; /* now, for what is needed */
} crti_node_self_t;

/* What a request needs of a node. */
typedef struct crti_node_need {
    const crti_resources_t *resources;
    const crti_scheduling_t *how;
    crti_id_t prefer;
    bool stays; /* another node sent it here: it is served here if there is room */
} crti_node_need_t;

/* The head's word of a node. */
crt_status_t crti_node_views_note(crti_node_views_t *views, crti_id_t node,
                                  const char *labels, const crti_resources_t *resources,
                                  const crti_resources_t *available);
/* Of what it has free only; nothing when the node is not known. */
void crti_node_views_note_room(crti_node_views_t *views, crti_id_t node,
                               const crti_resources_t *available);
void crti_node_views_forget(crti_node_views_t *views, crti_id_t node);
/* NULL: no such node, or this one. */
crti_node_view_t *crti_node_views_get(const crti_node_views_t *views, crti_id_t node);
/* The head went away, or is back. */
void crti_node_views_head(crti_node_views_t *views, bool is_away);

/* A request was sent there, or (`is_refused`) what is known of it is not true: it has no room
 * now. */
void crti_node_view_expect_less(crti_node_view_t *view, const crti_resources_t *need,
                                uint64_t now_ns);
void crti_node_views_refused(crti_node_views_t *views, crti_id_t node, uint64_t now_ns);
/* Time passed; `*next_ns` is brought down to the moment of the next doubt that ends. */
void crti_node_views_tick(crti_node_views_t *views, uint64_t now_ns, uint64_t *next_ns);

/* The node with room that the policy prefers (lease_table.h). NULL: this node, or (with *found_out
 * false) none. */
crti_node_view_t *crti_node_views_choose(const crti_node_views_t *views,
                                         const crti_node_self_t *self,
                                         const crti_node_need_t *need, bool *found_out);
/* `a` comes before `b` in the round of ids that begins behind `last`. */
bool crti_node_is_sooner(crti_id_t a, crti_id_t b, crti_id_t last);
/* Whether any node could serve it when it were idle. */
bool crti_node_views_feasible(const crti_node_views_t *views,
                              const crti_node_self_t *self,
                              const crti_resources_t *resources,
                              const crti_scheduling_t *how);
/* The largest amount of `name` that one node has and the sum over all, from those of this node
 * on. */
void crti_node_views_survey(const crti_node_views_t *views, const char *name,
                            int64_t *largest, int64_t *sum);

#endif
