/* SPDX-License-Identifier: Apache-2.0 */
/* Fair share. See fair_share.h. */
#include "runtime/node/leases/fair_share.h"

/* What runs in a bundle of a placement group is reserved, and nobody's share. */
static bool is_shared(const crti_lease_t *lease)
{
    return crti_id_is_zero(lease->how.group);
}

static bool is_held(const crti_lease_t *lease)
{
    return (lease->state == CRTI_LEASE_STARTING || lease->state == CRTI_LEASE_GRANTED) &&
           !lease->is_blocked && !lease->is_yielding;
}

static double used_by(const crti_lease_table_t *table, crti_id_t job, uint64_t now_ns)
{
    return crti_job_shares_used(crti_lease_table_shares(table), job, now_ns);
}

static int find(const crti_fair_shares_t *shares, crti_id_t job)
{
    for (unsigned i = 0; i < shares->count; i++)
        if (crti_id_equal(shares->job[i], job))
            return (int)i;
    return -1;
}

bool crti_fair_shares_collect(const crti_lease_table_t *table, crti_fair_shares_t *shares,
                              uint64_t now_ns)
{
    const crti_lease_t *lease;
    size_t cursor = 0;

    shares->count = 0;
    while ((lease = crti_lease_table_next(table, &cursor)) &&
           shares->count < CRTI_FAIR_JOBS)
        if (lease->state == CRTI_LEASE_WAITING && is_shared(lease) &&
            find(shares, lease->job) < 0)
            shares->job[shares->count++] = lease->job;
    if (shares->count < 2)
        return false;
    for (unsigned i = 0; i < shares->count; i++) {
        shares->used[i] = used_by(table, shares->job[i], now_ns);
        shares->is_done[i] = false;
    }
    return true;
}

bool crti_fair_shares_next(crti_fair_shares_t *shares)
{
    bool found = false;

    for (unsigned i = 0; i < shares->count; i++)
        if (!shares->is_done[i] &&
            (!found || shares->used[i] < shares->used[shares->next])) {
            shares->next = i;
            found = true;
        }
    return found;
}

bool crti_fair_shares_is_next(const crti_fair_shares_t *shares, crti_id_t job)
{
    return crti_id_equal(shares->job[shares->next], job);
}

void crti_fair_shares_served(crti_fair_shares_t *shares, const crti_lease_table_t *table,
                             bool is_served)
{
    if (is_served)
        shares->used[shares->next] += crti_job_shares_turn(
            crti_lease_table_shares(table), shares->job[shares->next], CRTI_RESOURCE_ONE);
    else
        shares->is_done[shares->next] = true;
}

/* Whether the end of `lease` brings the request nearer to what it needs. */
static bool helps(const crti_lease_table_t *table, const crti_lease_t *lease,
                  const crti_lease_t *request)
{
    const crti_resources_t *available = crti_lease_table_available(table);
    bool lacks = false;

    for (unsigned i = 0; i < request->resources.count; i++) {
        const struct crti_resource *need = &request->resources.item[i];

        if (crti_resources_get(available, need->name) >= need->amount)
            continue;
        lacks = true;
        if (crti_resources_get(&lease->resources, need->name) > 0)
            return true;
    }
    return !lacks; /* it waits for a worker: there are as many as there may be */
}

/* The oldest turn of the job that has used most, of those whose end helps. Jobs that are less than a quarter of a
 * turn ahead leave each other alone: workers would change hands for nothing. */
static const crti_lease_t *find_turn(const crti_lease_table_t *table,
                                     const crti_lease_t *request, uint64_t now_ns)
{
    const crti_job_shares_t *shares = crti_lease_table_shares(table);
    const crti_lease_t *lease, *best = NULL;
    double mine = used_by(table, request->job, now_ns), most = 0;
    size_t cursor = 0;

    while ((lease = crti_lease_table_next(table, &cursor))) {
        double used;

        if (lease->state != CRTI_LEASE_GRANTED || !is_held(lease) || !is_shared(lease) ||
            crti_id_equal(lease->job, request->job) ||
            now_ns - lease->granted_ns < CRTI_FAIR_TURN_NS ||
            !helps(table, lease, request))
            continue;
        used = used_by(table, lease->job, now_ns);
        if (used <=
            mine + crti_job_shares_turn(shares, lease->job, crti_lease_weight(lease)) / 4)
            continue;
        if (best &&
            (used < most || (used == most && lease->granted_ns >= best->granted_ns)))
            continue;
        most = used;
        best = lease;
    }
    return best;
}

static bool is_wanted_by_another(const crti_lease_table_t *table,
                                 const crti_lease_t *lease)
{
    const crti_lease_t *request;
    size_t cursor = 0;

    while ((request = crti_lease_table_next(table, &cursor)))
        if (request->state == CRTI_LEASE_WAITING && is_shared(request) &&
            !crti_id_equal(request->owner, lease->owner) && helps(table, lease, request))
            return true;
    return false;
}

void crti_fair_share_want_back(crti_lease_table_t *table)
{
    const crti_lease_t *lease;
    size_t cursor = 0;

    if (crti_lease_table_waiting(table) == 0)
        return;
    while ((lease = crti_lease_table_next(table, &cursor)))
        if (lease->state == CRTI_LEASE_GRANTED && !lease->is_wanted && is_shared(lease) &&
            is_wanted_by_another(table, lease))
            crti_lease_table_yield(table, lease->id, true);
}

static bool is_first_of_its_job(const crti_lease_table_t *table,
                                const crti_lease_t *request)
{
    const crti_lease_t *lease;
    size_t cursor = 0;

    while ((lease = crti_lease_table_next(table, &cursor)) && lease != request)
        if (lease->state == CRTI_LEASE_WAITING && is_shared(lease) &&
            crti_id_equal(lease->job, request->job))
            return false;
    return true;
}

static bool is_allowed(const crti_lease_table_t *table, const crti_lease_t *request)
{
    return crti_job_shares_allow(
        crti_lease_table_shares(table), request->job, crti_lease_weight(request),
        crti_resources_get(crti_lease_table_resources(table), "CPU"));
}

static size_t count_yielding(const crti_lease_table_t *table)
{
    const crti_lease_t *lease;
    size_t cursor = 0, count = 0;

    while ((lease = crti_lease_table_next(table, &cursor)))
        count += lease->is_yielding;
    return count;
}

uint64_t crti_fair_share_tick(crti_lease_table_t *table, uint64_t now_ns)
{
    const crti_lease_t *request, *turn;
    size_t cursor = 0, yielding, jobs = 0;
    bool is_any = false;

    if (crti_lease_table_waiting(table) == 0)
        return UINT64_MAX;
    yielding = count_yielding(table);
    while ((request = crti_lease_table_next(table, &cursor))) {
        if (request->state != CRTI_LEASE_WAITING || !is_shared(request))
            continue;
        is_any = true;
        if (now_ns - request->since_ns < CRTI_FAIR_TURN_NS ||
            !is_allowed(table, request) || !is_first_of_its_job(table, request) ||
            ++jobs <= yielding)
            continue;
        turn = find_turn(table, request, now_ns);
        if (turn)
            crti_lease_table_yield(table, turn->id, false);
    }
    return is_any ? now_ns + CRTI_FAIR_TURN_NS / 4 : UINT64_MAX;
}
