/* SPDX-License-Identifier: Apache-2.0 */
/* Job levels. See job_levels.h. */
#include "runtime/control/tables/job_levels.h"

#include <stdlib.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/resources.h"

#define REMEMBER_NS (10 * CRTI_S)
#define BEHIND      5 /* turns of a CPU that a job may begin behind the last of the others */

typedef struct job {
    crti_id_t id;
    double weight, used; /* until `since_ns` */
    int64_t held;
    uint64_t since_ns;
    unsigned parts;
} job_t;

typedef struct key {
    crti_id_t node, job;
} part_key_t;

typedef struct part {
    part_key_t key;
    double spent;
    int64_t held;
    uint64_t since_ns;
} part_t;

void crti_job_levels_init(crti_job_levels_t *levels)
{
    *levels = (crti_job_levels_t){.present = 0};
    crti_map_init(&levels->jobs, sizeof(crti_id_t));
    crti_map_init(&levels->parts, sizeof(part_key_t));
}

void crti_job_levels_fini(crti_job_levels_t *levels)
{
    CRTI_MAP_FOREACH (job_t, job, &levels->jobs)
        free(job);
    CRTI_MAP_FOREACH (part_t, part, &levels->parts)
        free(part);
    crti_map_fini(&levels->jobs);
    crti_map_fini(&levels->parts);
}

static double used_by(const job_t *job, uint64_t now_ns)
{
    return job->used + (double)job->held * (double)(now_ns - job->since_ns) / job->weight;
}

static void settle(job_t *job, uint64_t now_ns)
{
    job->used = used_by(job, now_ns);
    job->since_ns = now_ns;
}

/* ---------------------------------------------------------------- jobs */

static void forget_old(crti_job_levels_t *levels, uint64_t now_ns)
{
    job_t *old;

    do {
        old = NULL;
        CRTI_MAP_FOREACH (job_t, job, &levels->jobs)
            if (job->parts == 0 && now_ns - job->since_ns > REMEMBER_NS)
                old = job;
        if (old)
            crti_map_remove(&levels->jobs, &old->id);
        free(old);
    } while (old);
}

static job_t *add_job(crti_job_levels_t *levels, const crti_job_use_t *use,
                      uint64_t now_ns)
{
    job_t *job;

    forget_old(levels, now_ns);
    job = calloc(1, sizeof(*job));
    if (job == NULL || crti_map_put(&levels->jobs, &use->job, job) != CRT_OK) {
        free(job);
        return NULL;
    }
    job->id = use->job;
    job->weight =
        use->weight >= 1 && use->weight <= CRTI_JOB_WEIGHT_MAX ? (double)use->weight : 1;
    job->used = use->level;
    job->since_ns = now_ns;
    return job;
}

/* Where a job begins that was nowhere. Its node may know of no other job, and so not how far these
 * are. */
static void begin(const crti_job_levels_t *levels, job_t *job, const crti_job_use_t *use,
                  uint64_t now_ns)
{
    double turn =
        (double)CRTI_RESOURCE_ONE * (double)CRTI_LIMIT(share_turn) / job->weight;
    double least = -1;
    bool is_first = true;

    CRTI_MAP_FOREACH (const job_t, other, &levels->jobs) {
        double used = used_by(other, now_ns);

        if (other->parts == 0 || other == job || (!is_first && used >= least))
            continue;
        is_first = false;
        least = used;
    }
    job->used = use->level > job->used ? use->level : job->used;
    if (!is_first && job->used < least - BEHIND * turn)
        job->used = least - turn;
}

/* ---------------------------------------------------------------- parts */

static part_t *add_part(crti_job_levels_t *levels, job_t *job, crti_id_t node,
                        const crti_job_use_t *use, uint64_t now_ns)
{
    part_key_t key = {node, use->job};
    part_t *part = calloc(1, sizeof(*part));

    if (part == NULL || crti_map_put(&levels->parts, &key, part) != CRT_OK) {
        free(part);
        return NULL;
    }
    part->key = key;
    if (job->parts++ == 0) {
        levels->present++;
        begin(levels, job, use, now_ns);
    } else {
        job->used += use->spent / job->weight;
    }
    return part;
}

static void remove_part(crti_job_levels_t *levels, part_t *part, uint64_t now_ns)
{
    job_t *job = crti_map_get(&levels->jobs, &part->key.job);

    settle(job, now_ns);
    job->held -= part->held;
    if (--job->parts == 0)
        levels->present--;
    crti_map_remove(&levels->parts, &part->key);
    free(part);
}

/* What it has used there since the last word, beyond what was expected. */
static void correct(job_t *job, const part_t *part, const crti_job_use_t *use,
                    uint64_t now_ns)
{
    double expected =
        part->spent + (double)part->held * (double)(now_ns - part->since_ns);

    if (job->parts == 1 && use->is_alone)
        job->used = use->level;
    else
        job->used += (use->spent - expected) / job->weight;
}

bool crti_job_levels_note(crti_job_levels_t *levels, crti_id_t node,
                          const crti_job_use_t *use, uint64_t now_ns,
                          crti_job_level_t *level_out)
{
    part_key_t key = {node, use->job};
    part_t *part = crti_map_get(&levels->parts, &key);
    job_t *job = crti_map_get(&levels->jobs, &use->job);

    if (job == NULL)
        job = add_job(levels, use, now_ns);
    if (job == NULL)
        return false;
    settle(job, now_ns);
    if (part)
        correct(job, part, use, now_ns);
    else
        part = add_part(levels, job, node, use, now_ns);
    if (part == NULL)
        return false;
    job->held += use->held - part->held;
    part->held = use->held;
    part->spent = use->spent;
    part->since_ns = now_ns;
    *level_out = (crti_job_level_t){.job = use->job,
                                    .level = job->used,
                                    .spent = part->spent,
                                    .elsewhere = job->held - part->held};
    if (use->is_here)
        return true;
    remove_part(levels, part, now_ns);
    return false;
}

void crti_job_levels_forget(crti_job_levels_t *levels, crti_id_t node, uint64_t now_ns)
{
    part_t *found;

    do {
        found = NULL;
        CRTI_MAP_FOREACH (part_t, part, &levels->parts)
            if (crti_id_equal(part->key.node, node))
                found = part;
        if (found)
            remove_part(levels, found, now_ns);
    } while (found);
}

double crti_job_levels_ahead(const crti_job_levels_t *levels, uint64_t now_ns)
{
    double most = 0;
    bool is_first = true;

    CRTI_MAP_FOREACH (const job_t, job, &levels->jobs) {
        double used = used_by(job, now_ns) +
                      (double)job->held * (double)CRTI_LIMIT(share_turn) / job->weight;

        if (job->held <= 0 || (!is_first && used <= most))
            continue;
        is_first = false;
        most = used;
    }
    return most;
}
