/* SPDX-License-Identifier: Apache-2.0 */
/* Job shares. See job_shares.h. */
#include "runtime/node/leases/job_shares.h"

#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/resources.h"

#define REMEMBER_NS (10 * CRTI_S)
#define SLACK       100 /* a lease counts a little more than its CPUs */

typedef struct account {
    crti_id_t job;
    double weight;
    int64_t max_share; /* 0: all */
    int64_t held, elsewhere;
    double used;  /* until `since_ns` */
    double spent; /* the same, here, and not by its weight */
    bool is_changed;
    uint64_t since_ns;
    unsigned leases;
} account_t;

void crti_job_shares_init(crti_job_shares_t *shares)
{
    *shares = (crti_job_shares_t){.ahead = 0};
    crti_map_init(&shares->by_job, sizeof(crti_id_t));
}

void crti_job_shares_fini(crti_job_shares_t *shares)
{
    CRTI_MAP_FOREACH (account_t, a, &shares->by_job)
        free(a);
    crti_map_fini(&shares->by_job);
}

static account_t *find(const crti_job_shares_t *shares, crti_id_t job)
{
    return crti_map_get(&shares->by_job, &job);
}

static double used_by(const account_t *a, uint64_t now_ns)
{
    uint64_t passed = now_ns > a->since_ns ? now_ns - a->since_ns : 0;

    return a->used + (double)(a->held + a->elsewhere) * (double)passed / a->weight;
}

static void settle(account_t *a, uint64_t now_ns)
{
    uint64_t passed = now_ns > a->since_ns ? now_ns - a->since_ns : 0;

    a->used = used_by(a, now_ns);
    a->spent += (double)a->held * (double)passed;
    a->since_ns = now_ns;
}

/* What the job that has used least, of those that are here, has used. */
static double least_used(const crti_job_shares_t *shares, uint64_t now_ns)
{
    double least = -1;

    CRTI_MAP_FOREACH (const account_t, a, &shares->by_job) {
        double used = used_by(a, now_ns);

        if (a->leases && (least < 0 || used < least))
            least = used;
    }
    return least < 0 ? 0 : least;
}

static account_t *find_forgotten(const crti_job_shares_t *shares, uint64_t now_ns)
{
    CRTI_MAP_FOREACH (account_t, a, &shares->by_job) {
        if (a->leases == 0 && now_ns - a->since_ns > REMEMBER_NS)
            return a;
    }
    return NULL;
}

static account_t *add(crti_job_shares_t *shares, crti_id_t job, uint64_t now_ns)
{
    account_t *a;

    while ((a = find_forgotten(shares, now_ns))) {
        crti_map_remove(&shares->by_job, &a->job);
        free(a);
    }
    a = calloc(1, sizeof(*a));
    if (a == NULL || crti_map_put(&shares->by_job, &job, a) != CRT_OK) {
        free(a);
        return NULL;
    }
    a->job = job;
    return a;
}

/* Of who was away: before all others by a turn of one CPU, or by what it has used less than they.
 * Without that it would be level with those that hold nothing just now, and wait for the task of
 * each. */
static double begin_at(const crti_job_shares_t *shares, const account_t *a,
                       uint64_t now_ns)
{
    double credit =
        (double)CRTI_RESOURCE_ONE * (double)CRTI_LIMIT(share_turn) / a->weight;
    double least = least_used(shares, now_ns) - credit;

    return a->used > least ? a->used : least;
}

void crti_job_shares_join(crti_job_shares_t *shares, crti_id_t job,
                          const crti_job_quota_t *quota, uint64_t now_ns)
{
    account_t *a = find(shares, job);
    bool is_known = quota->weight >= 1 && quota->weight <= CRTI_JOB_WEIGHT_MAX;

    if (a == NULL)
        a = add(shares, job, now_ns);
    if (a == NULL)
        return;
    if (a->leases == 0) {
        a->weight = is_known ? (double)quota->weight : 1;
        a->max_share =
            quota->max_share < CRTI_JOB_SHARE_ONE ? (int64_t)quota->max_share : 0;
        a->used = begin_at(shares, a, now_ns);
        a->since_ns = now_ns;
        a->is_changed = true;
    }
    a->leases++;
}

void crti_job_shares_leave(crti_job_shares_t *shares, crti_id_t job, uint64_t now_ns)
{
    account_t *a = find(shares, job);

    if (a == NULL || a->leases == 0)
        return;
    settle(a, now_ns);
    a->leases--;
    if (a->leases)
        return;
    a->elsewhere = 0; /* nobody tells any more */
    a->is_changed = true;
}

void crti_job_shares_hold(crti_job_shares_t *shares, crti_id_t job, int64_t change,
                          uint64_t now_ns)
{
    account_t *a = find(shares, job);

    if (a == NULL)
        return;
    settle(a, now_ns);
    a->held += change;
    a->is_changed = true;
}

bool crti_job_shares_tell(crti_job_shares_t *shares, size_t *cursor, bool all,
                          uint64_t now_ns, crti_job_use_t *use_out)
{
    void *value;

    while (crti_map_next(&shares->by_job, cursor, NULL, &value)) {
        account_t *a = value;

        if (!a->is_changed && !(all && a->leases))
            continue;
        settle(a, now_ns);
        a->is_changed = false;
        *use_out = (crti_job_use_t){.job = a->job,
                                    .weight = (uint64_t)a->weight,
                                    .spent = a->spent,
                                    .level = a->used,
                                    .held = a->held,
                                    .is_alone = a->elsewhere == 0,
                                    .is_here = a->leases > 0};
        if (a->leases == 0)
            a->spent = 0;
        return true;
    }
    return false;
}

void crti_job_shares_told(crti_job_shares_t *shares, const crti_job_level_t *level,
                          uint64_t now_ns)
{
    account_t *a = find(shares, level->job);

    if (a == NULL || a->leases == 0)
        return;
    settle(a, now_ns);
    if (level->spent > a->spent) /* of before it was away */
        return;
    a->used = level->level + (a->spent - level->spent) / a->weight;
    a->elsewhere = level->elsewhere > 0 ? level->elsewhere : 0;
}

void crti_job_shares_reset(crti_job_shares_t *shares, uint64_t now_ns)
{
    shares->ahead = 0;
    shares->jobs = 0;
    CRTI_MAP_FOREACH (account_t, a, &shares->by_job) {
        settle(a, now_ns);
        a->elsewhere = 0;
        a->spent = 0;
        a->is_changed = a->leases > 0;
    }
}

double crti_job_shares_used(const crti_job_shares_t *shares, crti_id_t job,
                            uint64_t now_ns)
{
    const account_t *a = find(shares, job);

    return a ? used_by(a, now_ns) + (double)(a->held + a->elsewhere) *
                                        (double)CRTI_LIMIT(share_turn) / a->weight
             : 0;
}

double crti_job_shares_turn(const crti_job_shares_t *shares, crti_id_t job,
                            int64_t amount)
{
    const account_t *a = find(shares, job);

    return (double)amount * (double)CRTI_LIMIT(share_turn) / (a ? a->weight : 1);
}

bool crti_job_shares_allow(const crti_job_shares_t *shares, crti_id_t job, int64_t amount,
                           int64_t cpus)
{
    const account_t *a = find(shares, job);

    return a == NULL || a->max_share == 0 || a->held == 0 ||
           (double)(a->held + amount) <=
               (double)cpus * (double)a->max_share / CRTI_JOB_SHARE_ONE + SLACK;
}
