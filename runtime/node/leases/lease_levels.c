/* SPDX-License-Identifier: Apache-2.0 */
/* What jobs use here, for the head, and what it says of all nodes.
 *
 * Where it sits
 *     dispatch/head_link.c (HEARTBEAT), head_dispatch.c (HEARTBEAT_ACK) -> [ leases/lease_levels.c
 *     ] -> job_shares.h
 */
#include "runtime/node/leases/job_shares.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/links/head.h"
#include "runtime/node/process/context.h"

#define USES_MAX 1000 /* in one heartbeat, the others are in the next one */
#define KEPT_NEW                                                                         \
    200 /* jobs here, of which all levels are asked for while requests wait; of more than that those
                         * that change */

crt_status_t crti_lease_uses(crti_node_t *node, crti_buffer_t *list)
{
    crti_job_shares_t *shares = crti_lease_table_change_shares(node->lease_table);
    bool all = crti_lease_table_waiting(node->lease_table) > 0 &&
               shares->by_job.count <= KEPT_NEW;
    crt_status_t status = CRT_OK;
    crti_job_use_t use;
    size_t cursor = 0, count = 0;

    while (status == CRT_OK && count++ < USES_MAX &&
           crti_job_shares_tell(shares, &cursor, all, crti_node_now(node), &use)) {
        crti_msg_job_use_t entry = {.job = use.job,
                                    .weight = use.weight,
                                    .spent = use.spent,
                                    .level = use.level,
                                    .held = use.held,
                                    .is_alone = use.is_alone,
                                    .is_here = use.is_here};

        status = crti_head_pack(list, CRTI_MSG_JOB_USE, &entry);
    }
    return status;
}

void crti_lease_levels(crti_node_t *node, const crti_msg_heartbeat_ack_t *ack)
{
    crti_job_shares_t *shares = crti_lease_table_change_shares(node->lease_table);
    crti_span_t rest = ack->levels, one;
    crti_message_t m;

    shares->ahead = ack->ahead;
    shares->jobs = ack->jobs;
    while (crti_list_unpack(&rest, &one) == CRT_OK) {
        crti_job_level_t level;

        if (crti_message_decode(one.data, one.size, &m) != CRT_OK ||
            m.kind != CRTI_MSG_JOB_LEVEL)
            continue;
        level = (crti_job_level_t){.job = m.job_level.job,
                                   .level = m.job_level.level,
                                   .spent = m.job_level.spent,
                                   .elsewhere = m.job_level.elsewhere};
        crti_job_shares_told(shares, &level, crti_node_now(node));
    }
}
