/* SPDX-License-Identifier: Apache-2.0 */
/* Node daemon: its parts, what all of them know, and its start and end.
 *
 * Modules; calls and includes go downward, what must go up goes by a handler that parts.c sets:
 *     dispatch/   what comes in on a link, what tables decided, the end of a process: who serves it
 *     lifecycle/  the start as others see it, the end, orphans
 *     jobs/       programs, zygotes, workers from a wish to a process; submitted jobs
 *     logs/       who reads logs
 *     actors/     actors of this node, fences
 *     objects/    parts of objects from and to other nodes; objects of dead owners
 *     leases/     who asked for workers, the tables of leases and of workers
 *     watches/    who wants to hear of the end of a process, or of an actor's life
 *     links/      connections: processes of this node, the head, other nodes
 *     process/    records of processes, how their end is noticed, memory, stalls
 *     host/       what knows no node: fork and exec, pipes and log files, limits of the host
 *     main.c -> node.c (start, end) -> one loop (net/loop.c); tick.c is the time of the tables
 * Threads
 *     One: everything here belongs to the loop's thread. program.c hashes and copies
 *     executables in a thread of its own that shares nothing and posts its result.
 * Ownership
 *     Each member that is a struct belongs to the module that declares it, which alone changes it.
 * Invariants
 *     A table is never changed while its actions are being carried out: events that come up
 *     then are carried out by the same loop in lease_act.c or transfer.c.
 */
#ifndef CRTI_NODE_NODE_H
#define CRTI_NODE_NODE_H

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/rundir.h"
#include "runtime/net/key.h"
#include "runtime/node/actors/actor.h"
#include "runtime/node/dispatch/dispatch.h"
#include "runtime/node/host/host.h"
#include "runtime/node/host/log_quota.h"
#include "runtime/node/host/old_logs.h"
#include "runtime/node/host/watchdog.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/leases/bundle.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/lifecycle/drain.h"
#include "runtime/node/lifecycle/lifecycle.h"
#include "runtime/node/links/head.h"
#include "runtime/node/links/local.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/logs/logs.h"
#include "runtime/node/objects/transfer.h"
#include "runtime/node/options.h"
#include "runtime/node/process/process.h"
#include "runtime/node/watches/watch.h"
#include "runtime/store/store.h"

#define CRTI_NODE_PATH 256

struct crti_node {
    crti_options_t options;
    crti_loop_t *loop;
    crti_id_t id;
    char hex[CRTI_ID_HEX];
    char run_dir[CRTI_NODE_PATH];
    /* The first directories that were missing: a start that fails takes them back. */
    char made_run[CRTI_NODE_PATH], made_state[CRTI_NODE_PATH];
    char state_dir[CRTI_NODE_PATH]; /* of all nodes */
    char own_state[CRTI_NODE_PATH]; /* state_dir/node-HEX8 */
    char head_address[CRTI_STREAM_ADDRESS];
    char http[288], http_pin[56]; /* of the dashboard, as the head says */
    char ip[64];
    char hostname[64];
    int lock_fd, state_lock_fd; /* of run_dir, own_state */
    crti_watchdog_t watchdog;
    crti_key_t key;
    crti_stream_context_t *context;
    crti_store_t *store;
    crti_drain_t drain;
    size_t store_bytes;
    uint64_t memory_bytes; /* of the host, for this node, without its store */
    crti_watch_t lifeline_watch;

    crti_processes_t processes;
    crti_locals_t locals;
    crti_head_t head;
    crti_registration_t registration;
    crti_questions_t questions;
    crti_peers_t peers;
    crti_jobs_t jobs;
    crti_actors_t actors;
    crti_submissions_t submissions;
    crti_leases_t leases;
    crti_pulls_t pulls;
    crti_watches_t watches;
    crti_owners_t owners;
    crti_node_fence_t fence;
    crti_node_memory_t memory;
    crti_logs_t logs;
    crti_log_quota_t log_quota;
    crti_old_logs_t old_logs;
    crti_timer_t tick;
    uint64_t orphans_ns; /* when orphans and silent peers were looked for last */

    bool ready; /* told the parent */
    bool stopping;
    /* the loop has ended: what tables decide is not carried out any more */
    bool is_ending;
    void (*on_progress)(crti_node_t *node); /* of what is to stop */
    crti_timer_t stop_timer;
    uint64_t flush_until_ns; /* all are gone; the last words go out */
    /* its id is another node's: the process begins anew with another one */
    bool is_clash;
    int exit_status;
    char start_error[512];
    crti_timer_t start_timer;
};

/* Starts everything that does not need the head, and begins to connect. `run` the loop then. */
crt_status_t crti_node_new(const crti_options_t *options, crti_node_t **node_out);
/* Serves until it is stopped; the exit status of the process. */
int crti_node_run(crti_node_t *node);
void crti_node_free(crti_node_t *node);

/* parts.c: what each module begins with, when id and options are known. */
crt_status_t crti_node_init_parts(crti_node_t *node);

/* tick.c. */
void crti_node_start_ticks(crti_node_t *node);

/* ---------------------------------------------------------------- called from everywhere */

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
