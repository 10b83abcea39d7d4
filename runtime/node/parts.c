/* SPDX-License-Identifier: Apache-2.0 */
/* The modules of a node: what each begins with, and who hears of what comes up from below.
 *
 * Where it sits
 *     node.c -> [ node/parts.c ] -> all modules. tests/sim and tests/fuzz make their nodes by it,
 *     too.
 */
#include "runtime/node/node.h"

crt_status_t crti_node_init_parts(crti_node_t *node)
{
    crt_status_t status;

    crti_log_quota_init(&node->log_quota, node->options.log_total);
    crti_process_init(node, &crti_death_dispatch);
    crti_local_init(node, &crti_local_dispatch);
    crti_head_init(node);
    crti_peer_init(node, &crti_peer_dispatch);
    crti_watch_init(node);
    crti_owner_init(node);
    crti_fence_init(node);
    crti_actor_init(node);
    crti_logs_init(node, crti_submission_log);
    crti_job_init(node);
    crti_submission_init(node);
    crti_registration_init(node);
    crti_questions_init(node);
    node->on_progress = crti_node_check_stopped;
    status = crti_lease_init(node, crti_lease_carry_out);
    return status == CRT_OK ? crti_pull_init(node) : status;
}
