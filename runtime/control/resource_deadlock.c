/* SPDX-License-Identifier: Apache-2.0 */
/* Resource deadlock. See resource_deadlock.h. */
#include "runtime/control/resource_deadlock.h"

typedef struct world {
    const crti_placement_node_t *nodes;
    size_t node_count;
    crti_stuck_job_t *jobs;
} world_t;

/* A task's or an actor's: no search is needed. */
static bool has_room_for_one(const world_t *w, const crti_bundle_choice_t *bundle,
                             bool were_idle)
{
    for (size_t i = 0; i < w->node_count; i++) {
        const crti_placement_node_t *node = &w->nodes[i];

        if (crti_scheduling_feasible(were_idle ? node->total : node->available,
                                     node->node, node->labels, bundle->need, bundle->how))
            return true;
    }
    return false;
}

/* Also when a search was given up. */
static bool has_room(const world_t *w, const crti_stuck_request_t *request,
                     bool were_idle)
{
    if (request->bundle_count == 1 && !request->bundles[0].is_fixed)
        return has_room_for_one(w, request->bundles, were_idle);
    return crti_bundle_placement(w->nodes, w->node_count, request->bundles,
                                 request->bundle_count, request->strategy,
                                 were_idle) != CRTI_BUNDLES_IMPOSSIBLE;
}

/* By a request that has room now. One that no idle cluster has room for waits for a node, which may
 * come. */
static bool has_way_by_room(const world_t *w, const crti_stuck_job_t *job)
{
    for (size_t i = 0; i < job->request_count; i++)
        if (has_room(w, &job->requests[i], false) ||
            !has_room(w, &job->requests[i], true))
            return true;
    return false;
}

static bool has_way_by_others(const world_t *w, const crti_stuck_job_t *job)
{
    for (size_t i = 0; i < job->await_count; i++)
        if (!w->jobs[job->awaits[i]].is_stuck)
            return true;
    return false;
}

static void give_back(crti_resources_t *available, const crti_stuck_job_t *job)
{
    for (size_t i = 0; i < job->part_count; i++)
        crti_resources_give(&available[job->parts[i].node], &job->parts[i].held);
}

static void begin(const crti_placement_node_t *nodes, crti_resources_t *available,
                  size_t node_count, crti_stuck_job_t *jobs, size_t job_count)
{
    for (size_t i = 0; i < node_count; i++)
        available[i] = *nodes[i].total;
    for (size_t i = 0; i < job_count; i++) {
        jobs[i].is_stuck = !jobs[i].may_go_on && jobs[i].request_count > 0;
        for (size_t k = 0; jobs[i].is_stuck && k < jobs[i].part_count; k++)
            crti_resources_take(&available[jobs[i].parts[k].node],
                                &jobs[i].parts[k].held);
    }
}

size_t crti_resource_deadlock_find(const crti_placement_node_t *nodes,
                                   crti_resources_t *available, size_t node_count,
                                   crti_stuck_job_t *jobs, size_t job_count)
{
    world_t w = {nodes, node_count, jobs};
    size_t stuck, gone;

    begin(nodes, available, node_count, jobs, job_count);
    do {
        stuck = gone = 0;
        for (size_t i = 0; i < job_count; i++) {
            if (!jobs[i].is_stuck)
                continue;
            stuck++;
            if (!has_way_by_others(&w, &jobs[i]) && !has_way_by_room(&w, &jobs[i]))
                continue;
            jobs[i].is_stuck = false;
            give_back(available, &jobs[i]);
            gone++;
        }
    } while (gone && gone < stuck);
    return stuck - gone;
}
