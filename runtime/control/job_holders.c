/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the programs of submitted jobs hold what tasks wait for: then these wait until one of
 * them ends, for ever when it waits for its tasks.
 *
 * Where it sits
 *     state_json.c ("cluster": why something waits) -> [ control/job_holders.c ] -> job_table.h
 */
#include <stdio.h>
#include <string.h>

#include "runtime/control/control_job.h"
#include "runtime/control/control_state.h"

#define NAMED 3 /* jobs that are named */

static const crti_job_entry_t *holder_on(const crti_list_t *item, crti_id_t node)
{
    const crti_job_entry_t *job = CRTI_CONTAINER(item, crti_job_entry_t, in_state);

    return job->state == CRTI_JOB_RUNNING && job->made->resources.count &&
                   crti_id_equal(job->node, node)
               ? job
               : NULL;
}

/* What the programs of jobs leave of a node has no room for it, though the node has. */
static bool is_held(const crti_control_t *c, const crti_node_entry_t *node,
                    const crti_resources_t *need)
{
    crti_resources_t left = node->resources;

    CRTI_LIST_FOREACH (item, &c->jobs.running) {
        const crti_job_entry_t *job = holder_on(item, node->id);

        if (job)
            crti_resources_take(&left, &job->made->resources);
    }
    return !crti_resources_fit(&left, need);
}

static void name_holders(const crti_control_t *c, char *text, size_t size)
{
    unsigned count = 0;
    size_t used = 0;

    CRTI_LIST_FOREACH (item, &c->jobs.running) {
        const crti_job_entry_t *job = CRTI_CONTAINER(item, crti_job_entry_t, in_state);

        if (job->state != CRTI_JOB_RUNNING || job->made->resources.count == 0 ||
            used >= size)
            continue;
        if (count++ < NAMED)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s", count > 1 ? ", " : "",
                                 crti_copied_text(job->made->submission));
    }
    if (count > NAMED && used < size)
        snprintf(text + used, size - used, " and %u more", count - NAMED);
}

bool crti_control_drivers_hold(const crti_control_t *c, const crti_resources_t *need,
                               char *text, size_t size)
{
    char names[200] = "";
    bool is_any = false;

    CRTI_LIST_FOREACH (item, &c->nodes.living) {
        const crti_node_entry_t *node = CRTI_NODE_OF(item);

        if (node->state != CRTI_NODE_ALIVE || !crti_resources_fit(&node->resources, need))
            continue;
        if (!is_held(c, node, need))
            return false;
        is_any = true;
    }
    if (!is_any)
        return false;
    name_holders(c, names, sizeof(names));
    snprintf(text, size,
             "the programs of jobs hold it until they end (--entrypoint-num-cpus and the "
             "like): %s",
             names);
    return true;
}
