/* SPDX-License-Identifier: Apache-2.0 */
/* Context: what each module sees of this node. Its parts are opaque: a part's inside is in the
 * header of its module (links/links_int.h, leases/leases_int.h, ...), and only parts.c, which makes
 * them, knows them all. What must go up goes by a handler that is set there.
 *
 * Threads
 *     One: everything here belongs to the loop's thread. program.c hashes and copies
 *     executables in a thread of its own that shares nothing and posts its result.
 */
#ifndef CRTI_NODE_CONTEXT_H
#define CRTI_NODE_CONTEXT_H

#include "runtime/daemon/lifeline.h"
#include "runtime/net/key.h"
#include "runtime/node/options.h"
#include "runtime/node/types.h"
#include "runtime/store/store.h"

#define CRTI_NODE_PATH 256

struct crti_node {
    crti_options_t options;
    crti_loop_t *loop;
    crti_id_t id;
    uint64_t incarnation; /* the next when the head took it for dead */
    char hex[CRTI_ID_HEX];
    char run_dir[CRTI_NODE_PATH];
    /* The first directories that were missing: a start that fails takes them back. */
    char made_run[CRTI_NODE_PATH], made_state[CRTI_NODE_PATH];
    char state_dir[CRTI_NODE_PATH]; /* of all nodes */
    char own_state[CRTI_NODE_PATH]; /* state_dir/node-HEX8 */
    char head_address[CRTI_STREAM_ADDRESS];
    bool has_head_cache; /* what is uploaded to the head lies in state_dir/programs */
    char ip[64];
    char hostname[64];
    int lock_fd, state_lock_fd; /* of run_dir, own_state */
    crti_key_t key;
    crti_stream_context_t *context;
    crti_store_t *store;
    size_t store_bytes;
    uint64_t memory_bytes; /* of the host, for this node, without its store */

    struct crti_watchdog *watchdog;
    struct crti_log_quota *log_quota;
    struct crti_old_logs *old_logs;
    crti_processes_t *processes;
    crti_node_memory_t *memory;
    crti_locals_t *locals;
    crti_head_t *head;
    crti_peers_t *peers;
    crti_watches_t *watches;
    crti_leases_t *leases;
    struct crti_lease_table *lease_table;
    struct crti_worker_table *workers;
    crti_pulls_t *pulls;
    crti_spill_t *spill;
    struct crti_pull_table *pull_table;
    struct crti_share_table *share_table;
    crti_owners_t *owners;
    crti_actors_t *actors;
    crti_node_fence_t *fence;
    crti_logs_t *logs;
    crti_jobs_t *jobs;
    crti_submissions_t *submissions;
    crti_lifecycle_t *lifecycle;
    crti_drain_t *drain;
    crti_registration_t *registration;
    crti_questions_t *questions;
    crti_rest_t *rest;

    crti_timer_t tick;
    uint64_t orphans_ns; /* when orphans and silent peers were looked for last */
    crti_lifeline_t lifeline;

    bool ready; /* told the parent */
    bool stopping;
    /* the loop has ended: what tables decide is not carried out any more */
    bool is_ending;
    void (*on_progress)(crti_node_t *node); /* of what is to stop */
    int exit_status;
    char start_error[512];
    crti_timer_t start_timer;
};

static inline uint64_t crti_node_now(const crti_node_t *node)
{
    return crti_loop_now(node->loop);
}

/* The tables' time moved or their deadlines may have. */
static inline void crti_node_schedule_tick(crti_node_t *node, uint64_t at_ns)
{
    /* At the end of this turn at the earliest: many events need one tick. */
    if (!crti_timer_is_started(&node->tick) || node->tick.deadline.at > at_ns)
        crti_loop_start(node->loop, &node->tick, at_ns);
}

/* A process, zygote or submission ended: a stop may go on. */
static inline void crti_node_progress(crti_node_t *node)
{
    node->on_progress(node);
}

#endif
