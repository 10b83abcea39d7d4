/* SPDX-License-Identifier: Apache-2.0 */
/* Leases of workers. See lease.h. */
#include "runtime/core/calls/lease.h"

#include <assert.h>

#include "runtime/base/arrow.h"
#include "runtime/base/limit.h"

#define TO(state) (1u << CRTI_LEASE_##state)

static const crti_state_row_t states[CRTI_LEASE_STATES] = {
    [CRTI_LEASE_WANTED_STATE] = {"wanted", TO(HELD) | TO(ENDED)},
    [CRTI_LEASE_HELD] = {"held", TO(STUCK) | TO(CLOSING) | TO(ENDED)},
    [CRTI_LEASE_STUCK] = {"stuck", TO(HELD) | TO(CLOSING) | TO(ENDED)},
    [CRTI_LEASE_CLOSING] = {"closing", TO(ENDED)},
    [CRTI_LEASE_ENDED] = {"ended", 0},
};

bool crti_lease_may_follow(crti_lease_state_t state, crti_lease_state_t next)
{
    return states[state].next >> next & 1;
}

static void set_state(crti_lease_t *lease, crti_lease_state_t next)
{
    assert(crti_lease_may_follow(lease->state, next));
    CRTI_ARROW("task lease", states, lease->state, next);
    lease->state = next;
}

static crti_lease_t *lease_of(crti_list_t *item)
{
    return CRTI_CONTAINER(item, crti_lease_t, link);
}

void crti_lease_pool_init(crti_lease_pool_t *pool)
{
    *pool = (crti_lease_pool_t){.queued = 0};
    crti_list_init(&pool->leases);
}

/* ------------------------------------------------------------------ asking */

bool crti_lease_should_want(const crti_lease_pool_t *pool)
{
    return pool->wanted < pool->queued + pool->wants_one_more &&
           pool->wanted < CRTI_LIMIT(lease_requests);
}

void crti_lease_want(crti_lease_pool_t *pool, crti_lease_t *lease)
{
    *lease = (crti_lease_t){.state = CRTI_LEASE_WANTED_STATE};
    crti_list_append(&pool->leases, &lease->link);
    pool->wanted++;
}

crti_lease_t *crti_lease_unwanted(const crti_lease_pool_t *pool)
{
    if (pool->wanted <= pool->queued + pool->wants_one_more)
        return NULL;
    CRTI_LIST_FOREACH (item, &pool->leases)
        if (lease_of(item)->state == CRTI_LEASE_WANTED_STATE)
            return lease_of(item);
    return NULL;
}

void crti_lease_granted(crti_lease_pool_t *pool, crti_lease_t *lease, uint64_t now_ns)
{
    set_state(lease, CRTI_LEASE_HELD);
    lease->since_ns = now_ns;
    pool->wanted--;
    pool->held++;
}

void crti_lease_end(crti_lease_pool_t *pool, crti_lease_t *lease)
{
    if (lease->state == CRTI_LEASE_WANTED_STATE)
        pool->wanted--;
    else if (lease->state != CRTI_LEASE_ENDED)
        pool->held--;
    set_state(lease, CRTI_LEASE_ENDED);
    crti_list_remove(&lease->link);
}

/* ------------------------------------------------------------------ running */

static unsigned depth(const crti_lease_pool_t *pool)
{
    uint64_t tasks;

    if (pool->service_ns == 0)
        return 1;
    tasks = 1 + CRTI_LIMIT(lease_work) / pool->service_ns;
    return tasks < CRTI_LIMIT(lease_depth) ? (unsigned)tasks
                                           : (unsigned)CRTI_LIMIT(lease_depth);
}

crti_lease_t *crti_lease_pick(const crti_lease_pool_t *pool)
{
    unsigned least = depth(pool);
    crti_lease_t *best = NULL;

    CRTI_LIST_FOREACH (item, &pool->leases) {
        crti_lease_t *lease = lease_of(item);

        if (lease->state == CRTI_LEASE_HELD && lease->in_flight < least) {
            best = lease;
            least = lease->in_flight;
        }
    }
    return best;
}

void crti_lease_sent(crti_lease_pool_t *pool, crti_lease_t *lease, uint64_t now_ns)
{
    if (lease->in_flight++ == 0)
        lease->since_ns = now_ns;
    pool->queued--;
}

void crti_lease_answered(crti_lease_pool_t *pool, crti_lease_t *lease, bool given_back,
                         uint64_t now_ns)
{
    uint64_t took = now_ns - lease->since_ns;

    assert(lease->in_flight > 0);
    lease->in_flight--;
    if (lease->state == CRTI_LEASE_CLOSING) {
        pool->queued += given_back;
        return;
    }
    if (given_back) {
        pool->queued++;
        if (lease->state == CRTI_LEASE_HELD && lease->in_flight)
            set_state(lease, CRTI_LEASE_STUCK);
        else if (lease->state == CRTI_LEASE_STUCK && !lease->in_flight)
            set_state(lease, CRTI_LEASE_HELD); /* the running one had answered before */
        return;
    }
    /* A first task may have waited for its process to warm up: the mean starts high and falls
     * within a few answers. */
    took = took ? took : 1;
    pool->service_ns = pool->service_ns ? (pool->service_ns * 7 + took) / 8 + 1 : took;
    lease->since_ns = now_ns;
    lease->was_asked = false;
    if (lease->state == CRTI_LEASE_STUCK)
        set_state(lease, CRTI_LEASE_HELD);
}

void crti_lease_close(crti_lease_t *lease, bool kill, uint64_t now_ns)
{
    if (lease->state != CRTI_LEASE_CLOSING)
        set_state(lease, CRTI_LEASE_CLOSING);
    lease->is_killed |= kill;
    lease->forced += kill;
    lease->since_ns = now_ns;
}

void crti_lease_forced(crti_lease_t *lease)
{
    if (lease->forced)
        lease->forced--;
}

/* ------------------------------------------------------------------ time */

static bool has_idle(const crti_lease_pool_t *pool)
{
    CRTI_LIST_FOREACH (item, &pool->leases)
        if (lease_of(item)->state == CRTI_LEASE_HELD && lease_of(item)->in_flight == 0)
            return true;
    return false;
}

/* Until nothing is in flight; a worker that was told to end and is stopped gets so long. */
static bool is_closed(const crti_lease_t *lease, uint64_t now_ns, uint64_t *next_ns)
{
    uint64_t at = lease->since_ns + CRTI_LEASE_CLOSING_NS;

    if (lease->in_flight == 0 || !lease->forced)
        return lease->in_flight == 0;
    if (at <= now_ns)
        return true;
    if (at < *next_ns)
        *next_ns = at;
    return false;
}

crti_lease_due_t crti_lease_due(crti_lease_pool_t *pool, uint64_t now_ns,
                                crti_lease_t **lease_out, uint64_t *next_ns)
{
    bool is_idle_there = has_idle(pool);

    pool->wants_one_more = false;
    CRTI_LIST_FOREACH (item, &pool->leases) {
        crti_lease_t *lease = lease_of(item);
        bool is_idle = lease->in_flight == 0;
        uint64_t at =
            lease->since_ns + (is_idle ? crti_lease_idle_ns(lease) : CRTI_LEASE_STUCK_NS);

        if (lease->state == CRTI_LEASE_CLOSING && is_closed(lease, now_ns, next_ns)) {
            *lease_out = lease;
            return lease->is_killed ? CRTI_LEASE_DUE_KILL : CRTI_LEASE_DUE_RETURN;
        }
        if (lease->state != CRTI_LEASE_HELD || (is_idle && pool->queued) ||
            (!is_idle && (lease->in_flight < 2 || lease->was_asked)))
            continue;
        if (at <= now_ns && !is_idle && !is_idle_there) {
            pool->wants_one_more = true;
            at = now_ns + CRTI_LEASE_STUCK_NS;
        }
        if (at > now_ns) {
            if (at < *next_ns)
                *next_ns = at;
            continue;
        }
        *lease_out = lease;
        lease->was_asked = true;
        return is_idle ? CRTI_LEASE_DUE_RETURN : CRTI_LEASE_DUE_GIVE_BACK;
    }
    return CRTI_LEASE_DUE_NOTHING;
}
