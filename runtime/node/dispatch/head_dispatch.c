/* SPDX-License-Identifier: Apache-2.0 */
/* The head's orders and news: each kind goes to the module that serves it.
 *
 * Where it sits
 *     head_link.c -> [ node/dispatch/head_dispatch.c ] -> actor.c, bundle.c, submission.c, death.c,
 *     peer.c, job_end.c, logs.c
 */
#include "runtime/node/actors/actor.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/leases/bundle.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/lifecycle/drain.h"
#include "runtime/node/lifecycle/lifecycle.h"
#include "runtime/node/logs/logs.h"
#include "runtime/node/watches/watch.h"

bool crti_head_dispatch_order(crti_node_t *node, const crti_message_t *m)
{
    switch (m->kind) {
    case CRTI_MSG_ACTOR_START:
        crti_actor_start(node, m->request, &m->actor_start);
        return true;
    case CRTI_MSG_ACTOR_STOP:
        crti_actor_stop(node, m->request, &m->actor_stop);
        return true;
    case CRTI_MSG_JOB_FORGET:
        crti_submission_forget(node, m->job_forget.job);
        return true;
    case CRTI_MSG_JOB_START:
        crti_submission_start(node, m->request, &m->job_start);
        return true;
    case CRTI_MSG_JOB_STOP:
        crti_submission_stop(node, m->request, m->job_stop.job);
        return true;
    case CRTI_MSG_BUNDLE_RESERVE:
        crti_bundle_reserve(node, m->request, &m->bundle_reserve);
        return true;
    case CRTI_MSG_LOG_READ:
        crti_logs_read(node, 0, m->request, &m->log_read);
        return true;
    case CRTI_MSG_STATE_QUERY:
        crti_state_asked(node, m->request, &m->state_query);
        return true;
    default: return false;
    }
}

bool crti_head_dispatch_news(crti_node_t *node, const crti_message_t *m)
{
    char text[256];

    switch (m->kind) {
    case CRTI_MSG_HEARTBEAT_ACK:
        crti_fence_acknowledged(node, m->heartbeat_ack.sequence);
        crti_lease_levels(node, &m->heartbeat_ack);
        return true;
    case CRTI_MSG_NODE_DRAIN:
        if (m->node_drain.left_ms && m->node_drain.left_ms <= CRTI_DRAIN_MAX_MS)
            crti_drain_begin(node, m->node_drain.left_ms);
        return true;
    case CRTI_MSG_NODE_VIEWS: crti_node_views(node, &m->node_views); return true;
    case CRTI_MSG_NODE_DIED: crti_node_died(node, &m->node_died); return true;
    case CRTI_MSG_PEER_DIED:
        if (!crti_id_equal(m->peer_died.node, node->id)) /* our own come back */
            crti_process_died(node, &m->peer_died);
        return true;
    case CRTI_MSG_ACTOR_STATE: crti_actor_state(node, &m->actor_state); return true;
    case CRTI_MSG_JOB_END:
        crti_job_end(node, m->job_end.job,
                     crti_text(m->job_end.text, text, sizeof(text)));
        return true;
    case CRTI_MSG_BUNDLE_RETURN: crti_bundle_return(node, &m->bundle_return); return true;
    case CRTI_MSG_LOG: crti_job_log(node, &m->log); return true;
    case CRTI_MSG_LEASE_REFUSE: crti_lease_refused(node, &m->lease_refuse); return true;
    case CRTI_MSG_SHUTDOWN:
        crti_node_stop(node, crti_text(m->shutdown.text, text, sizeof(text)));
        return true;
    default: return false;
    }
}
