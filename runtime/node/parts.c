/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a node: what each of them begins with, and who hears of what comes up from below.
 *
 * Where it sits
 *     node.c -> [ node/parts.c ] -> all modules. tests/sim and tests/fuzz make their nodes by it, too.
 */
#include <stdlib.h>

#include "runtime/node/node.h"

#define MAX_WORKERS 64 /* of tasks, at least */

void crti_node_init_parts(crti_node_t *node)
{
    crti_map_t *by_id[] = {&node->processes.by_id,    &node->jobs.by_id,
                           &node->actors.by_id,       &node->peers.by_id,
                           &node->watches.by_process, &node->actors.watches,
                           &node->leases.askers,      &node->actors.ended,
                           &node->submissions.by_job, &node->owners.died};

    for (size_t i = 0; i < sizeof(by_id) / sizeof(by_id[0]); i++)
        crti_map_init(by_id[i], sizeof(crti_id_t));
    crti_map_init(&node->processes.by_pid, sizeof(pid_t));
    crti_map_init(&node->locals.by_number, sizeof(uint64_t));
    crti_pull_init(node);
    crti_list_init(&node->jobs.looks);
    crti_list_init(&node->locals.all);
    crti_list_init(&node->actors.ended_order);
    crti_list_init(&node->peers.inbound);
    crti_list_init(&node->logs.readers);
    crti_log_quota_init(&node->log_quota, node->options.log_total);
    crti_head_init(node);
    crti_death_init(node);
    crti_local_dispatch_init(node);
    crti_peer_dispatch_init(node);
    crti_job_workers_init(node);
    crti_lease_act_init(node);
    node->on_progress = crti_node_check_stopped;
}

crt_status_t crti_node_make_tables(crti_node_t *node)
{
    int64_t cpus =
        crti_resources_get(&node->options.resources, "CPU") / CRTI_RESOURCE_ONE;
    size_t workers = (size_t)cpus * 8 > MAX_WORKERS ? (size_t)cpus * 8 : MAX_WORKERS;
    crt_status_t status = crti_lease_table_new(node->id, &node->options.resources,
                                               workers, &node->leases.table);

    node->processes.slots = calloc(CRTI_NODE_SLOTS, 1);
    if (node->processes.slots == NULL)
        status = crt_raise(CRT_ERR_NO_MEMORY, "slots");
    if (status == CRT_OK)
        status = crti_worker_table_new(cpus > 4 ? (size_t)cpus * 2 : 8, &node->workers);
    if (status == CRT_OK)
        status = crti_pull_table_new(&node->pulls.table);
    if (status == CRT_OK)
        status = crti_share_table_new(&node->pulls.shares);
    return status;
}
