/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a node, made and bound together: what each begins with, and who hears of what comes
 * up from below. See process/context.h.
 *
 * Where it sits
 *     node.c -> [ node/parts.c ] -> all modules. tests/sim and tests/fuzz make their nodes by it,
 *     too.
 */
#include <stdlib.h>

#include "runtime/base/limit.h"
#include "runtime/node/actors/actors_int.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/host/log_quota.h"
#include "runtime/node/host/old_logs.h"
#include "runtime/node/host/watchdog.h"
#include "runtime/node/jobs/submission_int.h"
#include "runtime/node/leases/leases_int.h"
#include "runtime/node/lifecycle/lifecycle.h"
#include "runtime/node/lifecycle/lifecycle_int.h"
#include "runtime/node/links/links_int.h"
#include "runtime/node/logs/logs_int.h"
#include "runtime/node/node.h"
#include "runtime/node/objects/keep.h"
#include "runtime/node/objects/objects_int.h"
#include "runtime/node/process/process_int.h"
#include "runtime/node/watches/watches_int.h"

/* All of it. */
typedef struct whole {
    crti_node_t node; /* first: what the modules see */
    crti_watchdog_t watchdog;
    crti_log_quota_t log_quota;
    crti_old_logs_t old_logs;
    crti_processes_t processes;
    crti_node_memory_t memory;
    crti_locals_t locals;
    crti_head_t head;
    crti_peers_t peers;
    crti_watches_t watches;
    crti_leases_t leases;
    crti_pulls_t pulls;
    crti_spill_t spill;
    crti_owners_t owners;
    crti_actors_t actors;
    crti_node_fence_t fence;
    crti_logs_t logs;
    crti_jobs_t jobs;
    crti_submissions_t submissions;
    crti_lifecycle_t lifecycle;
    crti_drain_t drain;
    crti_registration_t registration;
    crti_questions_t questions;
    crti_rest_t rest;
} whole_t;

crti_node_t *crti_node_make(void)
{
    whole_t *whole = calloc(1, sizeof(*whole));
    crti_node_t *node;

    if (!whole)
        return NULL;
    node = &whole->node;
    node->watchdog = &whole->watchdog;
    node->log_quota = &whole->log_quota;
    node->old_logs = &whole->old_logs;
    node->processes = &whole->processes;
    node->memory = &whole->memory;
    node->locals = &whole->locals;
    node->head = &whole->head;
    node->peers = &whole->peers;
    node->watches = &whole->watches;
    node->leases = &whole->leases;
    node->pulls = &whole->pulls;
    node->spill = &whole->spill;
    node->owners = &whole->owners;
    node->actors = &whole->actors;
    node->fence = &whole->fence;
    node->logs = &whole->logs;
    node->jobs = &whole->jobs;
    node->submissions = &whole->submissions;
    node->lifecycle = &whole->lifecycle;
    node->drain = &whole->drain;
    node->registration = &whole->registration;
    node->questions = &whole->questions;
    node->rest = &whole->rest;
    node->lock_fd = node->state_lock_fd = node->watchdog->fd = -1;
    return node;
}

crt_status_t crti_node_init_parts(crti_node_t *node)
{
    crt_status_t status;

    crti_log_quota_init(node->log_quota, CRTI_LIMIT(log_total));
    crti_process_init(node, &crti_death_dispatch);
    crti_local_init(node, &crti_local_dispatch);
    crti_head_init(node);
    crti_peer_init(node, &crti_peer_dispatch);
    crti_watch_init(node);
    crti_owner_init(node);
    crti_keep_init(node);
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
