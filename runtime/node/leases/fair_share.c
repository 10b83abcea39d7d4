/* SPDX-License-Identifier: Apache-2.0 */
/* Fair share. See fair_share.h. */
#include "runtime/node/leases/fair_share.h"

#include "runtime/base/limit.h"
#include "runtime/node/leases/lease_table_int.h"

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

/* The oldest turn of the job that has used most, of those whose end helps. Jobs that are less than
 * a quarter of a turn ahead leave each other alone: workers would change hands for nothing. */
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
            now_ns - lease->granted_ns < CRTI_LIMIT(share_turn) ||
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

/* ---------------------------------------------------------------- turns on other nodes */

/* Whether a turn may end here soon, for a request that came from another node to wait for one. A
 * task whose turn is over may run for long: then its job is asked elsewhere, too. */
static bool may_yield(const crti_lease_table_t *table, const crti_lease_t *request,
                      uint64_t now_ns)
{
    uint64_t waited = now_ns - request->since_ns;
    const crti_lease_t *lease;
    size_t cursor = 0;

    while ((lease = crti_lease_table_next(table, &cursor))) {
        uint64_t patience = lease->is_yielding ? CRTI_FAIR_YIELD_NS : CRTI_FAIR_AWAY_NS;

        if ((is_held(lease) || lease->is_yielding) && is_shared(lease) &&
            waited < patience && !crti_id_equal(lease->job, request->job) &&
            helps(table, lease, request))
            return true;
    }
    return false;
}

bool crti_fair_share_judge(crti_lease_table_t *table, crti_id_t id, uint64_t now_ns)
{
    entry_t *e = crti_map_get(&table->leases, &id);

    return e && e->lease.state == CRTI_LEASE_WAITING && e->lease.awaits_turn &&
           !may_yield(table, &e->lease, now_ns) &&
           crti_lease_entry_give_back(table, e, "no turn of another job ends here",
                                      now_ns);
}

void crti_fair_share_bounced(crti_lease_table_t *table, const crti_lease_t *request,
                             uint64_t now_ns)
{
    crti_node_view_t *view = crti_node_views_get(&table->views, request->node);

    if (view)
        view->turnless_ns = now_ns + CRTI_FAIR_AGAIN_NS;
}

static bool seeks(const crti_lease_t *lease, crti_id_t job)
{
    return lease->state == CRTI_LEASE_SPILLBACK && lease->awaits_turn &&
           crti_id_equal(lease->job, job);
}

static size_t count_sought(const crti_lease_table_t *table, crti_id_t job)
{
    const crti_lease_t *lease;
    size_t cursor = 0, count = 0;

    while ((lease = crti_lease_table_next(table, &cursor)))
        count += seeks(lease, job);
    return count;
}

/* One request of a job waits on a node: what ends there serves one. */
static bool is_asked(const crti_lease_table_t *table, crti_id_t node, crti_id_t job)
{
    const crti_lease_t *lease;
    size_t cursor = 0;

    while ((lease = crti_lease_table_next(table, &cursor)))
        if (seeks(lease, job) && crti_id_equal(lease->node, node))
            return true;
    return false;
}

/* The next one behind the node that was asked last, in the order of ids; not one that gave a
 * request back just now. */
static crti_node_view_t *next_node(const crti_lease_table_t *table,
                                   const crti_lease_t *lease, uint64_t now_ns)
{
    crti_id_t last = table->views.turn_last;
    crti_node_view_t *best = NULL;

    CRTI_MAP_FOREACH (crti_node_view_t, view, &table->views.map) {
        if (view->turnless_ns > now_ns ||
            (best && !crti_node_is_sooner(view->id, best->id, last)) ||
            !crti_scheduling_feasible(&view->resources, view->id, view->labels,
                                      &lease->resources, &lease->how) ||
            is_asked(table, view->id, lease->job))
            continue;
        best = view;
    }
    return best;
}

static bool seek_turn(crti_lease_table_t *table, crti_id_t id, uint64_t now_ns)
{
    entry_t *e = crti_map_get(&table->leases, &id);
    crti_node_view_t *view;

    if (e == NULL || e->lease.state != CRTI_LEASE_WAITING || e->lease.spillbacks ||
        table->views.is_headless)
        return false;
    view = next_node(table, &e->lease, now_ns);
    if (view == NULL)
        return false;
    e->lease.awaits_turn = true;
    if (!crti_lease_entry_forward(table, e, view, now_ns)) {
        e->lease.awaits_turn = false;
        return false;
    }
    table->views.turn_last = view->id;
    return true;
}

/* Turns that a job seeks on other nodes. */
typedef struct seeker {
    crti_id_t job;
    const crti_lease_t *home; /* its request that stays here */
    double more; /* so many turns are to bring it level with the job that is ahead */
} seeker_t;

/* Of the turns that it is behind it seeks half, but one in any case: each takes one from the job
 * that is ahead, too, and others that are behind seek theirs. */
static double turns_behind(const crti_lease_table_t *table, const crti_lease_t *request,
                           uint64_t now_ns)
{
    const crti_job_shares_t *shares = crti_lease_table_shares(table);
    double turn = crti_job_shares_turn(shares, request->job, crti_lease_weight(request));
    double behind = (shares->ahead - used_by(table, request->job, now_ns)) / turn - 0.25;

    return (behind > 1 ? (behind + 1) / 2 : behind) -
           (double)count_sought(table, request->job);
}

static bool may_leave(const crti_lease_t *request, uint64_t now_ns)
{
    return request->state == CRTI_LEASE_WAITING && is_shared(request) &&
           request->spillbacks == 0 &&
           now_ns - request->since_ns >= CRTI_LIMIT(share_turn);
}

static seeker_t *find_seeker(seeker_t *seekers, unsigned *count, crti_id_t job)
{
    for (unsigned i = 0; i < *count; i++)
        if (crti_id_equal(seekers[i].job, job))
            return &seekers[i];
    if (*count == CRTI_FAIR_JOBS)
        return NULL;
    seekers[*count] = (seeker_t){.job = job};
    return &seekers[(*count)++];
}

/* The first request of a job stays at home, unless nobody here gives way to it. */
static void seek_turns(crti_lease_table_t *table, uint64_t now_ns)
{
    seeker_t seekers[CRTI_FAIR_JOBS], *seeker;
    const crti_lease_t *request;
    unsigned count = 0;
    size_t cursor = 0;

    if (crti_lease_table_shares(table)->jobs < 2)
        return;
    while ((request = crti_lease_table_next(table, &cursor))) {
        seeker = may_leave(request, now_ns) ? find_seeker(seekers, &count, request->job)
                                            : NULL;
        if (seeker && !seeker->home) {
            seeker->home = request;
            seeker->more = turns_behind(table, request, now_ns);
        } else if (seeker && seeker->more > 0 && seek_turn(table, request->id, now_ns)) {
            seeker->more--;
        }
    }
    for (unsigned i = 0; i < count; i++)
        if (seekers[i].more > 0 && count_yielding(table) == 0 &&
            !find_turn(table, seekers[i].home, now_ns))
            seek_turn(table, seekers[i].home->id, now_ns);
}

/* Those that came here for a turn which did not end. */
static void judge_turns(crti_lease_table_t *table, uint64_t now_ns)
{
    const crti_lease_t *request;
    size_t cursor = 0;

    while ((request = crti_lease_table_next(table, &cursor)))
        if (crti_fair_share_judge(table, request->id, now_ns))
            cursor = 0; /* it is gone, and the walk begins anew */
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
        if (now_ns - request->since_ns < CRTI_LIMIT(share_turn) ||
            !is_allowed(table, request) || !is_first_of_its_job(table, request) ||
            ++jobs <= yielding)
            continue;
        turn = find_turn(table, request, now_ns);
        if (turn)
            crti_lease_table_yield(table, turn->id, false);
    }
    judge_turns(table, now_ns);
    seek_turns(table, now_ns);
    return is_any ? now_ns + CRTI_LIMIT(share_turn) / 4 : UINT64_MAX;
}
