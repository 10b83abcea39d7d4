/* SPDX-License-Identifier: Apache-2.0 */
/* Lease table: who holds which resources of this node, who waits for some, and which node a
 * request is sent to when another one is better. Pure: events in, actions out.
 *
 * Where it sits
 *     node/leases/lease.c (local link, node link, head's views) -> [ node/leases/lease_table.c ] ->
 *     actions
 * Policy
 *     A request goes to the node that holds its arguments (`prefer`) when it has room. Else a
 *     node that is less than half full after it counts as empty, and ties go to this node, then
 *     to the smallest id: work packs until half full, then spreads to the emptiest node. With
 *     no room anywhere it waits here, in order of arrival; smaller requests may pass larger
 *     ones, but not once those have waited PATIENCE (then room is kept for them).
 *     Only the owner's node sends a request on. Another node serves it, lets it wait, or gives it
 *     back when it has no room and somebody else has: its owner's node above all, to which it could
 *     not be sent, since that one waits for the answer. So a request is at one place, which alone
 *     decides, and none waits where room never comes. Where a request may run (base/scheduling.h)
 *     comes before all that; SPREAD takes one node with room after the other. A request for a
 *     bundle of a placement group is for the node that the owner says it is on. It waits there for
 *     what the bundle has, apart from the shares of jobs; a node without the bundle gives it back.
 *     A request that does not wait for what no node has, and one for a single node, fails when it
 *     comes, or when the last node that had it dies; not while the head is away, which knows of
 *     others.
 * Views
 *     What is known of other nodes: node_views.h. While the head is away every node may have room:
 *     a request is sent there, and waits there if it has not.
 * Ownership
 *     The table copies what it is given. Actions are read with crti_lease_table_action until it
 *     returns false; their texts are valid until the next event.
 * Invariants
 *     What is free, and of whom it is taken: room.h. A GPU goes to another process only when the
 *     one that had it is gone, as its memory is free only then. A lease is in one state; nothing
 *     follows its end.
 */
#ifndef CRTI_NODE_LEASE_TABLE_H
#define CRTI_NODE_LEASE_TABLE_H

#include "runtime/base/cleanup.h"
#include "runtime/base/crt_base.h"
#include "runtime/base/id.h"
#include "runtime/base/resources.h"
#include "runtime/base/scheduling.h"
#include "runtime/node/leases/gpu_table.h"
#include "runtime/node/leases/job_shares.h"

#define CRTI_LEASE_FUNCTION 64
#define CRTI_NO_BUNDLE      "its bundle of the placement group is not there"

/*                 room here                worker there
 *   WAITING ------------------> STARTING ----------------> GRANTED
 *     |   ^                        |  |                       |
 *     |   | node lost,             |  | no worker             | returned, owner or
 *     |   | given back             |  +-----------+           | worker died
 *     |   +------- SPILLBACK       |              v           v
 *     +--------------> |           +----------> (gone) <------+
 *      room elsewhere  +-- answered, cancelled ---^
 *
 *  WAITING also ends when it is given back to the node that asked.
 */
typedef enum crti_lease_state {
    CRTI_LEASE_WAITING,   /* in the queue of this node */
    CRTI_LEASE_STARTING,  /* holds resources, a worker is being found or made */
    CRTI_LEASE_GRANTED,   /* holds resources, the owner uses the worker */
    CRTI_LEASE_SPILLBACK, /* another node decides */
    CRTI_LEASE_GONE,      /* freed right after */
    CRTI_LEASE_STATES
} crti_lease_state_t;

typedef struct crti_lease {
    crti_id_t id;
    crti_id_t job;
    crti_id_t owner;      /* process */
    crti_id_t owner_node; /* of that process */
    crti_id_t prefer;
    crti_resources_t resources;
    crti_job_quota_t quota; /* of its job */
    crti_scheduling_t how;  /* where it may run */
    char function[CRTI_LEASE_FUNCTION];
    uint64_t spillbacks;      /* 0: of this node; else another one sent it here */
    bool fails_if_infeasible; /* it does not wait for what no node has */
    /* it was sent to a node without room, where a job has used more than its own */
    bool awaits_turn;

    /* Written by the table. */
    crti_lease_state_t state;
    crti_gpu_share_t gpus;      /* STARTING, GRANTED: which it has */
    struct crti_bundle *bundle; /* the same: whose resources they are; NULL: the node's */
    crti_id_t worker;           /* GRANTED */
    crti_id_t node;             /* SPILLBACK: where */
    bool is_blocked;            /* its CPUs are lent */
    uint64_t since_ns;
    uint64_t granted_ns;
    bool is_yielding; /* its owner was asked to give it back, for others; */
    bool is_wanted;   /* the same: as soon as it has nothing to run */
} crti_lease_t;

typedef enum crti_lease_verb {
    CRTI_LEASE_FIND_WORKER, /* resources are reserved: find or make one, then _granted */
    CRTI_LEASE_FORWARD,     /* send the request on to `node` */
    CRTI_LEASE_GIVE_BACK, /* who asked may ask elsewhere, `text` says why; the lease is gone */
    CRTI_LEASE_TELL,      /* tell the owner `text`: why it waits */
    CRTI_LEASE_REFUSE, /* no node has what it needs, `text` says what; the lease is gone */
    CRTI_LEASE_YIELD,  /* ask the owner to give it back when what runs there has ended, */
    CRTI_LEASE_WHEN_IDLE, /* or as soon as it has nothing to run */
    CRTI_LEASE_CHANGED    /* available resources changed: tell the head */
} crti_lease_verb_t;

typedef struct crti_lease_action {
    crti_lease_verb_t verb;
    crti_id_t lease;
    crti_id_t node;
    char text[160];
} crti_lease_action_t;

typedef struct crti_lease_table crti_lease_table_t;

/* `resources` is what this node has; `max_workers` bounds the leases that are granted or starting,
 * blocked ones included, so that nested tasks can't fill the host with processes. Caller owns
 * the result and frees it with crti_lease_table_free. */
crt_status_t crti_lease_table_new(crti_id_t self, const crti_resources_t *resources,
                                  size_t max_workers, crti_lease_table_t **table_out);
void crti_lease_table_free(crti_lease_table_t *table);
/* From now on leases begin elsewhere, but those of bundles that are here. */
void crti_lease_table_drain(crti_lease_table_t *table, uint64_t now_ns);
/* The labels of this node; none at first. Borrowed. */
void crti_lease_table_labels(crti_lease_table_t *table, const char *labels);
CRTI_DEFINE_AUTO(crti_lease_table_t *, crti_lease_table_free)

/* The next action, taken out. False: none. */
bool crti_lease_table_action(crti_lease_table_t *table, crti_lease_action_t *action_out);

/* Borrowed: valid until the next event. NULL: no such lease. */
const crti_lease_t *crti_lease_table_get(const crti_lease_table_t *table, crti_id_t id);
const crti_resources_t *crti_lease_table_resources(const crti_lease_table_t *table);
const crti_resources_t *crti_lease_table_available(const crti_lease_table_t *table);

/* Walks the leases; `*cursor` starts at 0, NULL at the end. No event during the walk. */
const crti_lease_t *crti_lease_table_next(const crti_lease_table_t *table,
                                          size_t *cursor);

/* What a lease counts among the shares of jobs: its CPUs; one that needs none counts a little, as
 * it holds a worker. */
static inline int64_t crti_lease_weight(const crti_lease_t *lease)
{
    return crti_resources_get(&lease->resources, "CPU") + 1;
}
const crti_job_shares_t *crti_lease_table_shares(const crti_lease_table_t *table);
/* For lease_levels.c: what is used on other nodes. */
crti_job_shares_t *crti_lease_table_change_shares(crti_lease_table_t *table);
/* What there is here, and who holds what of it. */
const struct crti_room *crti_lease_table_room(const crti_lease_table_t *table);
/* For lease_holders.c: the same, about to change; and when there is more, who waits is served. */
struct crti_room *crti_lease_table_change_room(crti_lease_table_t *table);
void crti_lease_table_serve(crti_lease_table_t *table, uint64_t now_ns);

/* What other nodes have. */
const struct crti_node_views *crti_lease_table_views(const crti_lease_table_t *table);
size_t crti_lease_table_nodes(const crti_lease_table_t *table); /* how many those are */
/* How many are WAITING. */
size_t crti_lease_table_waiting(const crti_lease_table_t *table);

/* ---------------------------------------------------------------- events */

/* A request arrived; the first twelve fields of `lease` are read. The same id again is the same
 * lease and changes nothing. */
crt_status_t crti_lease_table_request(crti_lease_table_t *table,
                                      const crti_lease_t *lease, uint64_t now_ns);

/* STARTING -> GRANTED. False when the lease is gone (cancelled): the worker is free. */
bool crti_lease_table_granted(crti_lease_table_t *table, crti_id_t id, crti_id_t worker,
                              uint64_t now_ns);

/* Its turn is over (fair_share.h), at once or when it is idle. Nothing when it is not GRANTED, or
 * was asked before. */
void crti_lease_table_yield(crti_lease_table_t *table, crti_id_t id, bool when_idle);

/* Ends a lease in any state and gives its resources back: returned, cancelled, its worker can't
 * be made, or it was answered by another node. False: there was none. */
bool crti_lease_table_end(crti_lease_table_t *table, crti_id_t id, uint64_t now_ns);

/* The node that a request was sent to did not take it (link broke, node died) or gave it back: it
 * waits here again, at its old place in the queue. */
void crti_lease_table_bounced(crti_lease_table_t *table, crti_id_t id, uint64_t now_ns);

/* A worker's main thread waits / goes on. Unknown workers are ignored. */
void crti_lease_table_blocked(crti_lease_table_t *table, crti_id_t worker, bool blocked,
                              uint64_t now_ns);

/* An actor's process needs resources here. CRT_ERR_BACKPRESSURE: not now. CRT_ERR_EXISTS: it
 * has them. The second: of bundle `index`, or of CRTI_ANY_BUNDLE, of a placement group. */
crt_status_t crti_lease_table_take(crti_lease_table_t *table, crti_id_t actor,
                                   crti_id_t job, const crti_resources_t *resources);
crt_status_t crti_lease_table_take_of_bundle(crti_lease_table_t *table, crti_id_t actor,
                                             crti_id_t job, crti_id_t group,
                                             int64_t index,
                                             const crti_resources_t *resources);
/* Gives back what an actor has, or a worker whose lease ended and that had GPUs; its process is
 * gone. */
void crti_lease_table_give(crti_lease_table_t *table, crti_id_t holder, uint64_t now_ns);

/* The GPUs that it has, bit i: GPU i. False: it holds nothing. */
bool crti_lease_table_gpus(const crti_lease_table_t *table, crti_id_t holder,
                           uint64_t *gpus_out);

/* A placement group reserves a bundle; the first five fields of `bundle` are read.
 * CRT_ERR_BACKPRESSURE: there is no room. The same incarnation again changes nothing; an older one
 * is returned first. */
crt_status_t crti_lease_table_reserve(crti_lease_table_t *table,
                                      const struct crti_bundle *bundle, uint64_t now_ns);
/* It is given up, unless a later incarnation is there: who waits for it hears that it is gone; what
 * holds some of it is to be ended, and with that its resources come back. False: there is none. */
bool crti_lease_table_return(crti_lease_table_t *table, crti_id_t group, uint64_t index,
                             uint64_t incarnation, uint64_t now_ns);

/* The head's view of a node (this one's own is ignored), or of what it has free only: noted, for
 * crti_lease_table_serve behind the last of them. */
crt_status_t crti_lease_table_view(crti_lease_table_t *table, crti_id_t node,
                                   const char *labels, const crti_resources_t *resources,
                                   const crti_resources_t *available);
void crti_lease_table_view_room(crti_lease_table_t *table, crti_id_t node,
                                const crti_resources_t *available);
/* A node's end: what was sent there waits here again. */
void crti_lease_table_node_died(crti_lease_table_t *table, crti_id_t node,
                                uint64_t now_ns);

/* The head went away, or is back. Without it the views grow old: they still say which nodes there
 * are, but no node counts as full for longer than a moment. */
void crti_lease_table_head(crti_lease_table_t *table, bool is_away, uint64_t now_ns);

/* Time passed: whoever waits longer than 1 s hears why. The moment of the next tick that is
 * needed, UINT64_MAX for none. */
uint64_t crti_lease_table_tick(crti_lease_table_t *table, uint64_t now_ns);

#endif
