/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for room.
 *
 * Where it sits
 *     actor_table.h, job_table.h, placement_group_table.h, HEARTBEAT -> [ control_demand.c ]
 *         -> demand.h
 * Tasks wait at nodes, which tell of some of those of each driver.
 */
#include "runtime/control/control_demand.h"

#include <stdio.h>

#include "runtime/control/control_resource_request.h"

void crti_control_demand_actor(crti_demand_t *demand, const crti_actor_entry_t *actor)
{
    crti_demand_entry_t entry = {.kind = CRTI_DEMAND_ACTOR,
                                 .need = actor->made->resources,
                                 .how = *actor->how,
                                 .reason = actor->text ? actor->text : "",
                                 .count = 1};

    snprintf(entry.name, sizeof(entry.name), "%s",
             crti_copied_text(actor->made->class_name));
    crti_demand_add(demand, &entry);
}

void crti_control_demand_group(crti_demand_t *demand,
                               const crti_placement_group_entry_t *group)
{
    for (size_t i = 0; i < group->bundle_count; i++) {
        const crti_bundle_entry_t *bundle = &group->bundles[i];
        crti_demand_entry_t entry = {.kind = CRTI_DEMAND_BUNDLE,
                                     .need = bundle->resources,
                                     .how = bundle->how,
                                     .group = group->id,
                                     .strategy = group->strategy,
                                     .reason = group->text ? group->text : "",
                                     .count = 1};

        snprintf(entry.name, sizeof(entry.name), "%s", group->name);
        if (bundle->state == CRTI_BUNDLE_UNPLACED)
            crti_demand_add(demand, &entry);
        else
            crti_demand_add_place(demand, group->id, bundle->node);
    }
}

void crti_control_demand_job(crti_demand_t *demand, const crti_job_entry_t *job)
{
    crti_demand_entry_t entry = {.kind = CRTI_DEMAND_JOB,
                                 .need = job->made->resources,
                                 .how = crti_scheduling_default,
                                 .reason = job->text ? job->text : "",
                                 .count = 1};

    snprintf(entry.name, sizeof(entry.name), "%s",
             crti_copied_text(job->made->submission));
    snprintf(entry.how.selector, sizeof(entry.how.selector), "%s",
             crti_copied_text(job->made->selector));
    crti_demand_add(demand, &entry);
}

static void add_tasks(crti_demand_t *demand, const crti_node_entry_t *node)
{
    crti_span_t rest = crti_span(node->demand.data, node->demand.size), one;
    crti_message_t m;

    while (crti_list_unpack(&rest, &one) == CRT_OK) {
        crti_demand_entry_t entry = {.kind = CRTI_DEMAND_TASK, .count = 1};

        if (crti_message_decode(one.data, one.size, &m) != CRT_OK ||
            m.kind != CRTI_MSG_LEASE_REQUEST ||
            crti_scheduling_read(CRTI_SCHEDULING_SAID(&m.lease_request),
                                 m.lease_request.selector.data,
                                 m.lease_request.selector.size, &entry.how) != CRT_OK)
            continue;
        entry.need = m.lease_request.resources;
        crti_text(m.lease_request.function, entry.name, sizeof(entry.name));
        crti_demand_add(demand, &entry);
    }
}

/* It has room as soon as a node has; others wait for their turn. */
static bool waits_for_room(const crti_control_t *c, const crti_job_entry_t *job,
                           size_t running)
{
    return job->state == CRTI_JOB_PENDING && !job->unsaved && !job->start_sent &&
           !job->stopping && crti_job_entry_asks_for_node(job) &&
           (c->config.max_jobs == 0 || running < c->config.max_jobs);
}

static void add_jobs(const crti_control_t *c, crti_demand_t *demand)
{
    size_t running = 0;

    CRTI_LIST_FOREACH (item, &c->jobs.running) {
        const crti_job_entry_t *job = CRTI_JOB_OF(item);

        running += crti_job_entry_is_submission(job) &&
                   (job->state == CRTI_JOB_RUNNING || job->start_sent);
    }
    CRTI_LIST_FOREACH (item, &c->jobs.running)
        if (waits_for_room(c, CRTI_JOB_OF(item), running)) {
            crti_control_demand_job(demand, CRTI_JOB_OF(item));
            running++;
        }
}

void crti_control_demand(const crti_control_t *c, crti_demand_t *demand)
{
    CRTI_LIST_FOREACH (item, &c->actors.waiting)
        crti_control_demand_actor(demand, CRTI_ACTOR_OF(item));
    CRTI_LIST_FOREACH (item, &c->placement_groups.waiting)
        crti_control_demand_group(demand, CRTI_PLACEMENT_GROUP_OF(item));
    add_jobs(c, demand);
    CRTI_LIST_FOREACH (item, &c->nodes.living)
        add_tasks(demand, CRTI_NODE_OF(item));
    crti_control_resource_requests_add(c, demand);
}
