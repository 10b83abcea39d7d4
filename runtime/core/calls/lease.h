/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: which worker runs the next task, when to ask for another worker and when to give one
 * back.
 *
 * Where it sits
 *     submit.c (events: tasks, grants, replies, time) -> [ lease ] -> what to do now
 *     One pool for each shape of resources.
 * Threads
 *     None; pure: no I/O, no globals; the caller reads the clock. The caller's lock covers it.
 * Ownership
 *     A lease is a member of the caller's struct; the pool links it until it has ended.
 * Policy
 *     Tasks go to the lease with the fewest in flight. How many a lease may have in flight follows
 *     from how long tasks take (about 2 ms of work), so that short tasks are pipelined and
 *     long ones spread. When a worker is stuck on one task, another is asked for; once there is an
 *     idle one, the tasks behind the long one are asked back and go there.
 */
#ifndef CRTI_CORE_LEASE_H
#define CRTI_CORE_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/limit.h"
#include "runtime/base/list.h"

#define CRTI_LEASE_WANTED_IDLE_NS                                                        \
    UINT64_C(200000) /* or, when others wait for one, after it */
#define CRTI_LEASE_STUCK_NS                                                              \
    UINT64_C(20000000) /* tasks behind one that runs as long come back */
#define CRTI_LEASE_CLOSING_NS                                                            \
    UINT64_C(1000000000) /* for a worker to end as it was told */

/*           granted            tasks came back         answer
 *  WANTED ----------> HELD ----------------------> STUCK ------> HELD
 *    |                  | idle, worker died          | worker died
 *    +------------------+--------> ENDED <-----------+
 *     cancelled, refused
 *  HELD and STUCK go to CLOSING when others wait for the worker, or it is to end with its task, and
 *  that to ENDED.
 */
typedef enum crti_lease_state {
    CRTI_LEASE_WANTED_STATE,
    CRTI_LEASE_HELD,
    CRTI_LEASE_STUCK, /* its running task takes long: nothing is sent to it */
    CRTI_LEASE_CLOSING, /* it is given back when nothing is in flight: nothing is sent to it */
    CRTI_LEASE_ENDED,
    CRTI_LEASE_STATES
} crti_lease_state_t;

typedef struct crti_lease {
    crti_list_t link; /* in the pool */
    crti_lease_state_t state;
    bool was_asked; /* to give tasks back, since the last answer */
    bool is_killed; /* CLOSING: its worker ends with it */
    bool is_wanted; /* others wait for its worker */
    /* tasks that are to end so and have not answered: they have CLOSING_NS */
    unsigned forced;
    unsigned in_flight;
    /* of the last answer, or of the first task after idleness, or idle since */
    uint64_t since_ns;
} crti_lease_t;

typedef struct crti_lease_pool {
    crti_list_t leases;
    unsigned queued; /* tasks that wait for a worker */
    unsigned wanted, held;
    bool wants_one_more; /* for tasks that are stuck behind a long one */
    uint64_t service_ns; /* how long a task takes: moving mean, 0 unknown */
} crti_lease_pool_t;

bool crti_lease_may_follow(crti_lease_state_t state, crti_lease_state_t next);

void crti_lease_pool_init(crti_lease_pool_t *pool);

/* Should another worker be asked for? Then crti_lease_want. */
bool crti_lease_should_want(const crti_lease_pool_t *pool);
void crti_lease_want(crti_lease_pool_t *pool, crti_lease_t *lease);
/* A request that waits and is not needed any more, or NULL; the caller cancels and ends it. */
crti_lease_t *crti_lease_unwanted(const crti_lease_pool_t *pool);

void crti_lease_granted(crti_lease_pool_t *pool, crti_lease_t *lease, uint64_t now_ns);
/* The end, for whatever reason; unlinked. */
void crti_lease_end(crti_lease_pool_t *pool, crti_lease_t *lease);

/* Where the next task goes; NULL: nowhere now. Then crti_lease_sent. */
crti_lease_t *crti_lease_pick(const crti_lease_pool_t *pool);
void crti_lease_sent(crti_lease_pool_t *pool, crti_lease_t *lease, uint64_t now_ns);
/* A task ended; `given_back`: it had not started. */
void crti_lease_answered(crti_lease_pool_t *pool, crti_lease_t *lease, bool given_back,
                         uint64_t now_ns);

/* Nothing more is sent to its worker: others wait for it, or with `kill` it has been told to
 * end. */
void crti_lease_close(crti_lease_t *lease, bool kill, uint64_t now_ns);
/* Others wait for its worker: it is idle for a moment only. */
static inline void crti_lease_wanted_by_others(crti_lease_t *lease)
{
    lease->is_wanted = true;
}
static inline uint64_t crti_lease_idle_ns(const crti_lease_t *lease)
{
    return lease->is_wanted ? CRTI_LEASE_WANTED_IDLE_NS : CRTI_LIMIT(lease_idle);
}
/* A task that was to end with its worker has ended: what else runs there by now has the time it
 * needs. */
void crti_lease_forced(crti_lease_t *lease);

/* What time asks for. Call again, with `*next_ns` for the moment to come back, until it says
 * NOTHING. */
typedef enum crti_lease_due {
    CRTI_LEASE_DUE_NOTHING,
    CRTI_LEASE_DUE_RETURN,   /* give *lease_out back (crti_lease_end) */
    CRTI_LEASE_DUE_KILL,     /* the same; its worker is of no use any more */
    CRTI_LEASE_DUE_GIVE_BACK /* ask its worker to give tasks back */
} crti_lease_due_t;
crti_lease_due_t crti_lease_due(crti_lease_pool_t *pool, uint64_t now_ns,
                                crti_lease_t **lease_out, uint64_t *next_ns);

#endif
