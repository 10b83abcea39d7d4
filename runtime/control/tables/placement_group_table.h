/* SPDX-License-Identifier: Apache-2.0 */
/* Placement group table: every placement group of the cluster, its name, its bundles, and its life.
 * Pure: time is passed in.
 *
 * Where it sits
 *     requests, node reports -> control/control_placement_group.c -> [
 *     control/tables/placement_group_table.c ]
 * Rules
 *     All bundles that have no place are reserved together, or none: when a node refuses one, those
 *     of the attempt are returned, and the next attempt comes after a pause (RETRY_NS, half as long
 *     again each time, up to RETRY_MAX_NS). Each reservation has an incarnation of its own, counted
 *     up, by which nodes and reports know it. There is no second round to the nodes, as in a
 *     two-phase commit: nobody but the head tells where a bundle is, and it does so when all are
 *     reserved and that is durable. `version` changes with every state and reason: who waits hears
 *     when it is another one than the one it knows.
 * Ownership
 *     The table owns its entries. Removed ones have no bundles any more; at most REMOVED_MAX are
 *     kept, to be asked about.
 */
#ifndef CRTI_CONTROL_PLACEMENT_GROUP_TABLE_H
#define CRTI_CONTROL_PLACEMENT_GROUP_TABLE_H

#include "runtime/base/buffer.h"
#include "runtime/base/clock.h"
#include "runtime/base/list.h"
#include "runtime/base/map.h"
#include "runtime/base/scheduling.h"
#include "runtime/net/message.h"

#define CRTI_BUNDLES_MAX             1000
#define CRTI_PLACEMENT_GROUP_WAIT_NS (30 * CRTI_S) /* an answer comes then anyhow */
#define CRTI_PLACEMENT_GROUP_STATES  4 /* CRTI_PLACEMENT_GROUP_* of protocol.h */

/*            asked          the node: DONE
 *   UNPLACED -----> RESERVING -----------> RESERVED
 *      ^               | refused, link lost    |
 *      +---------------+-----------------------+  node died, another of the attempt was refused
 */
typedef enum crti_bundle_state {
    CRTI_BUNDLE_UNPLACED,
    CRTI_BUNDLE_RESERVING,
    CRTI_BUNDLE_RESERVED
} crti_bundle_state_t;

typedef struct crti_bundle_entry {
    crti_resources_t resources;
    crti_scheduling_t how; /* its label selector */
    crti_bundle_state_t state;
    crti_id_t node;       /* unless UNPLACED */
    uint64_t incarnation; /* the same */
    bool is_new;          /* of the attempt that is going on */
    uint64_t request;     /* RESERVING: to the node */
    /* of actors that were placed in it, as far as the head knows */
    crti_resources_t used;
} crti_bundle_entry_t;

/*             all reserved            a node died
 *   PENDING ----------------> CREATED ------------> RESCHEDULING
 *      |                        |  ^ all reserved again  |
 *      |                        |  +---------------------+
 *      +---- removed, its job ended, no node could ever have it ----> REMOVED
 */
typedef struct crti_placement_group_entry {
    crti_id_t id, job;
    char *name, *name_space;
    char *full_name; /* "namespace/name", by which it is found; "" without a name */
    uint64_t strategy, serial;
    bool detached;
    int64_t if_infeasible; /* CRTI_INFEASIBLE */
    size_t bundle_count;
    crti_bundle_entry_t *bundles;

    unsigned state;
    uint64_t version;     /* 0: nobody was told of it yet */
    uint64_t incarnation; /* the last one that was given to a reservation */
    crt_status_t status;  /* REMOVED: CRT_OK when it was meant to end */
    char *text;           /* PENDING, RESCHEDULING: what it waits for; REMOVED: why */
    unsigned reserving;   /* bundles without an answer */
    bool is_refused;      /* one of the attempt was */
    bool unsaved;         /* no row of it is durable */
    bool is_stored;       /* a row is, or is on the way */
    uint64_t retry_ns;    /* not tried before */
    uint64_t waits_ns;    /* when it found no room first; 0: it has not */
    unsigned refusals;    /* in a row */
    crti_list_t waiters;  /* crti_placement_group_waiter_t */
    crti_list_t in_state; /* waiting, created or removed list */
} crti_placement_group_entry_t;

/* Who wants to hear of a version that it does not know. */
typedef struct crti_placement_group_waiter {
    crti_list_t in_group, in_all;
    crti_placement_group_entry_t *group;
    uint64_t link, request, version;
    uint64_t deadline_ns;
} crti_placement_group_waiter_t;

#define CRTI_PLACEMENT_GROUP_OF(item)                                                    \
    CRTI_CONTAINER(item, crti_placement_group_entry_t, in_state)

typedef struct crti_placement_group_table {
    crti_map_t by_id, by_name;
    crti_list_t waiting; /* PENDING, RESCHEDULING: the longest first */
    crti_list_t created;
    crti_list_t removed; /* oldest first */
    crti_list_t waiters; /* in the order of their deadlines */
    size_t counts[CRTI_PLACEMENT_GROUP_STATES];
    size_t removed_count;
    uint64_t last_serial;
} crti_placement_group_table_t;

void crti_placement_group_table_init(crti_placement_group_table_t *table);
void crti_placement_group_table_fini(crti_placement_group_table_t *table);

crti_placement_group_entry_t *
crti_placement_group_table_get(const crti_placement_group_table_t *table, crti_id_t id);
/* That is not removed; NULL: none. */
crti_placement_group_entry_t *
crti_placement_group_table_find(const crti_placement_group_table_t *table,
                                crti_span_t name_space, crti_span_t name);
const char *crti_placement_group_state_name(unsigned state);

/* A new one, PENDING and unsaved; what it says is checked. CRT_ERR_EXISTS: the name is taken. */
crt_status_t
crti_placement_group_table_create(crti_placement_group_table_t *table,
                                  const crti_msg_placement_group_create_t *message,
                                  crti_placement_group_entry_t **group_out);
/* A row of the store. */
crt_status_t crti_placement_group_table_load(crti_placement_group_table_t *table,
                                             const crti_msg_row_placement_group_t *row);
/* As if it had never been. */
void crti_placement_group_table_forget(crti_placement_group_table_t *table,
                                       crti_placement_group_entry_t *group);

/* ---------------------------------------------------------------- events */

/* An attempt begins: the bundle is asked for on `node`. */
void crti_placement_group_reserving(crti_placement_group_entry_t *group,
                                    crti_bundle_entry_t *bundle, crti_id_t node);
/* The answer. False: others of the attempt have none yet. */
bool crti_placement_group_answered(crti_placement_group_entry_t *group,
                                   crti_bundle_entry_t *bundle, bool is_reserved);
/* The bundle has no place any more. */
void crti_placement_group_unplaced(crti_bundle_entry_t *bundle);
/* The attempt has failed, and its bundles are unplaced: the next one comes after a pause. */
void crti_placement_group_refused(crti_placement_group_entry_t *group, uint64_t now_ns);
/* All are reserved. */
void crti_placement_group_created(crti_placement_group_table_t *table,
                                  crti_placement_group_entry_t *group);
/* What it waits for. False: that is known. */
bool crti_placement_group_waits(crti_placement_group_entry_t *group, const char *text);
/* CREATED -> RESCHEDULING: some are unplaced. */
void crti_placement_group_reschedules(crti_placement_group_table_t *table,
                                      crti_placement_group_entry_t *group,
                                      const char *text);
/* -> REMOVED; bundles are forgotten. */
void crti_placement_group_removed(crti_placement_group_table_t *table,
                                  crti_placement_group_entry_t *group,
                                  crt_status_t status, const char *text);

/* ---------------------------------------------------------------- who waits */

crt_status_t crti_placement_group_wait(crti_placement_group_table_t *table,
                                       crti_placement_group_entry_t *group, uint64_t link,
                                       uint64_t request, uint64_t version,
                                       uint64_t now_ns);
/* Takes out the next one that is to hear now: NULL, none. The caller frees it. */
crti_placement_group_waiter_t *
crti_placement_group_next_waiter(crti_placement_group_entry_t *group);
/* The same over all groups, of those whose time is over. */
crti_placement_group_waiter_t *
crti_placement_group_overdue(crti_placement_group_table_t *table, uint64_t now_ns);
void crti_placement_group_link_ended(crti_placement_group_table_t *table, uint64_t link);

/* The earliest moment after `done_ns` at which something is due; UINT64_MAX: none. */
uint64_t crti_placement_group_table_deadline(const crti_placement_group_table_t *table,
                                             uint64_t done_ns);

/* The oldest removed one when there are too many, else NULL. */
crti_placement_group_entry_t *
crti_placement_group_table_expired(const crti_placement_group_table_t *table);

/* ---------------------------------------------------------------- actors inside */

/* Whether bundle `index`, or with -1 any, could have so much. CRT_ERR_INVALID,
 * CRT_ERR_UNSCHEDULABLE: it never can. */
crt_status_t crti_placement_group_could_serve(const crti_placement_group_entry_t *group,
                                              const crti_resources_t *resources,
                                              int64_t index);
/* The reserved bundle that has room, and most CPUs that no actor was given; -1: there is none as
 * far as the head knows. */
int64_t crti_placement_group_pick(const crti_placement_group_entry_t *group,
                                  const crti_resources_t *resources, int64_t index);
/* The next one behind bundle `after` that has room, as far as the head knows: the node of that one
 * says that tasks have it. */
int64_t crti_placement_group_pick_next(const crti_placement_group_entry_t *group,
                                       const crti_resources_t *resources, int64_t after);
/* An actor is placed in it, or not any more. */
void crti_placement_group_count(crti_placement_group_entry_t *group, int64_t index,
                                const crti_resources_t *resources, bool is_placed);

/* ---------------------------------------------------------------- messages and rows */

/* The list of encoded BUNDLE, for messages and rows. */
crt_status_t crti_placement_group_pack(const crti_placement_group_entry_t *group,
                                       crti_buffer_t *list);

#endif
