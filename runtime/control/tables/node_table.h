/* SPDX-License-Identifier: Apache-2.0 */
/* Node table: which nodes the cluster has, and when one is dead. Pure: time is passed in.
 *
 * Where it sits
 *     links, heartbeats -> control/control_node.c -> [ control/tables/node_table.c ]
 * Rules
 *     A link that breaks makes its node SUSPECT; back within SUSPECT_NS it is ALIVE as if
 *     nothing had happened. (It has EXPECTED_NS when the head itself was away: stopped, or its
 *     host asleep.) A node that is silent for SILENT_NS is DEAD. A node that the
 *     store knows from before a restart of the head is EXPECTED for EXPECTED_NS.
 *     A dead node's incarnation never comes back: the same node may register again with a
 *     higher one.
 * Ownership
 *     The table owns its entries. Dead ones stay to be shown: at most DEAD_MAX, for
 *     DEAD_KEEP_NS; then crti_node_table_expired returns them to the table's user.
 */
#ifndef CRTI_CONTROL_NODE_TABLE_H
#define CRTI_CONTROL_NODE_TABLE_H

#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/base/resources.h"
#include "runtime/control/placement/placement_index.h"
#include "runtime/control/views.h"
#include "runtime/net/deadlines.h"
#include "runtime/net/message.h"

/* For a node that a new head knows from the store. */
#define CRTI_NODE_EXPECTED_NS (2 * CRTI_LIMIT(heartbeat_timeout))

/*                link broke              back in time
 *    ALIVE -----------------> SUSPECT ----------------> ALIVE
 *     |  ^                       |
 *     |  | registered again      | not back in time
 *     |  |                       v
 *     |  +------ EXPECTED ----> DEAD     (EXPECTED: not back in time)
 *     +---- silent, left, -------^
 *           replaced by a newer incarnation
 */
typedef enum crti_node_state {
    CRTI_NODE_EXPECTED, /* loaded from the store */
    CRTI_NODE_ALIVE,
    CRTI_NODE_SUSPECT,
    CRTI_NODE_DEAD, /* nothing follows but a new entry for a higher incarnation */
    CRTI_NODE_STATES
} crti_node_state_t;

typedef struct crti_node_entry {
    crti_id_t id;
    uint64_t incarnation;
    crti_node_state_t state;
    uint64_t link;       /* number of its connection, 0: none */
    uint64_t heard_ns;   /* when it was last heard of, or later */
    crti_deadline_t due; /* living: when it is dead, unless something comes */
    uint64_t expires_ns; /* DEAD */
    char *ip, *hostname, *endpoint, *text, *labels;
    int64_t pid;
    bool is_head_host;
    crti_resources_t resources, available;
    uint64_t store_bytes, store_used, workers;
    uint64_t memory_bytes, memory_used;
    uint64_t memory_ended; /* workers that were ended for lack of memory */
    uint64_t spilled_objects, spilled_bytes;
    uint64_t lineage_bytes, lineage_limit, lineage_forgotten; /* base/blackboard.h */
    char spill_trouble[200];  /* why it can't spill; "": it can */
    int64_t spill_trouble_ms; /* since when, also when it is over; 0: never */
    crti_buffer_t demand;     /* list of encoded LEASE_REQUEST that wait there */
    crti_list_t actors;       /* on it, STARTING or ALIVE (control_actor.c) */
    unsigned idle_actors;     /* of these: that hold nothing */
    bool is_busy;             /* tasks, actors, drivers or jobs are there, as it says */
    int64_t start_ms, end_ms;
    /* it is drained, and ends by itself at that moment at the latest; 0: it is not */
    uint64_t drain_ns;
    bool was_heard; /* by this head; else `heard_ns` is only "or later" */
    bool is_guess;  /* EXPECTED without a row: any incarnation is welcome */
    crti_list_t link_in_list;
    crti_news_t news;            /* what the other nodes hear of it, and it of them */
    crti_placement_slot_t place; /* in `offers` while it may be given work */
} crti_node_entry_t;

typedef struct crti_node_table {
    crti_map_t by_id;
    crti_list_t living; /* EXPECTED, ALIVE, SUSPECT, in the order they came */
    crti_list_t dead;   /* oldest first */
    size_t living_count, dead_count;
    /* of ids, by which processes are told apart -> number of entries */
    crti_map_t prefixes;
    crti_deadlines_t due;          /* of living ones */
    crti_placement_index_t offers; /* those that may be given work: ALIVE, not drained */
} crti_node_table_t;

#define CRTI_NODE_OF(item) CRTI_CONTAINER(item, crti_node_entry_t, link_in_list)

void crti_node_table_init(crti_node_table_t *table);
void crti_node_table_fini(crti_node_table_t *table);

crti_node_entry_t *crti_node_table_get(const crti_node_table_t *table, crti_id_t id);
/* The first living one on the head's host, where jobs run; NULL: there is none now. */
crti_node_entry_t *crti_node_table_head_host(const crti_node_table_t *table);

/* What a NODE_REGISTER means. */
typedef enum crti_node_join {
    CRTI_NODE_JOIN_NEW, /* a new entry */
    CRTI_NODE_JOIN_BACK, /* the same node again: after a broken link or the head's restart */
    CRTI_NODE_JOIN_REPLACE, /* a living entry of a lower incarnation must die first */
    CRTI_NODE_JOIN_REFUSE,  /* that incarnation is dead, or older than one we know */
    CRTI_NODE_JOIN_CLASH    /* a new one whose processes would be taken for another's */
} crti_node_join_t;
crti_node_join_t crti_node_table_judge(const crti_node_table_t *table, crti_id_t id,
                                       uint64_t incarnation);

/* Takes in a node that was judged NEW or BACK; `*entry_out` is ALIVE with `link`. */
crt_status_t crti_node_table_register(crti_node_table_t *table,
                                      const crti_msg_node_register_t *message,
                                      uint64_t link, uint64_t now_ns, int64_t wall_ms,
                                      crti_node_entry_t **entry_out);

/* Takes in a row of the store: EXPECTED, or DEAD. */
crt_status_t crti_node_table_load(crti_node_table_t *table,
                                  const crti_msg_row_node_t *row, uint64_t now_ns);

/* A node without a row that other rows name: EXPECTED. Fine when it is known, or zero. */
void crti_node_table_expect(crti_node_table_t *table, crti_id_t id, uint64_t now_ns);

/* Something came from the node. */
void crti_node_heard(crti_node_table_t *table, crti_node_entry_t *node, uint64_t now_ns);

/* What it has free, its idle actors or whether it is drained has changed: `offers` follows. */
void crti_node_table_offer(crti_node_table_t *table, crti_node_entry_t *node);

/* Its link broke: it has SUSPECT_NS, and at least until `least_ns`. */
void crti_node_table_suspect(crti_node_table_t *table, crti_node_entry_t *node,
                             uint64_t now_ns, uint64_t least_ns);

/* No living node is dead before that. */
void crti_node_table_wait(crti_node_table_t *table, uint64_t until_ns);

/* It is dead; `text` says why. */
void crti_node_table_kill(crti_node_table_t *table, crti_node_entry_t *node,
                          const char *text, uint64_t now_ns, int64_t wall_ms);

#define CRTI_NODE_WHY 80 /* bytes of the text of an end */

/* The next living node whose time is over, NULL: none. `why` is the reason. */
crti_node_entry_t *crti_node_table_overdue(const crti_node_table_t *table,
                                           uint64_t now_ns, char why[CRTI_NODE_WHY]);

/* The oldest dead entry when there are too many or it is too old, else NULL. */
crti_node_entry_t *crti_node_table_expired(const crti_node_table_t *table,
                                           uint64_t now_ns);
void crti_node_table_forget(crti_node_table_t *table, crti_node_entry_t *node);

/* The earliest moment at which overdue or expired may find one; UINT64_MAX: none. */
uint64_t crti_node_table_deadline(const crti_node_table_t *table);

/* The row to store; borrows from the entry. */
crti_msg_row_node_t crti_node_row(const crti_node_entry_t *node);

#endif
