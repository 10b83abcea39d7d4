/* SPDX-License-Identifier: Apache-2.0 */
/* Node daemon: its parts, what all of them know, and its start and end.
 *
 * Where it sits (docs/architecture.md draws the modules)
 *     main.c -> node.c (start) -> one loop (net/loop.c) that serves
 *         local.h       connections of drivers, workers and the command
 *         head.h        the link to the head: registration, questions, its orders
 *         peer.h        links from and to other node daemons; transfer.h object parts over them
 *         tick.c        the time of the tables
 *     and calls
 *         process.h     records of processes; death.h the end of one; watch.h who wants to hear of it
 *         job.h         programs, zygotes, workers; actor.h actors; submission.h submitted jobs
 *         lease.h       carries out what lease_table.h and worker_table.h decide
 *         fence.h, memory.h, owner.h, logs.h
 * Threads
 *     One: everything here belongs to the loop's thread. program.c hashes and copies
 *     executables in a thread of its own that shares nothing and posts its result.
 * Ownership
 *     Each member that is a struct belongs to the module that declares it, which alone changes it.
 * Invariants
 *     Calls go downward, from those who serve a link to records and tables. What comes up from below
 *     goes by handlers, which parts.c sets.
 *     A table is never changed while its actions are being carried out: events that come up
 *     then are carried out by the same loop in lease_act.c or transfer.c.
 */
#ifndef CRTI_NODE_NODE_H
#define CRTI_NODE_NODE_H

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/rundir.h"
#include "runtime/net/key.h"
#include "runtime/node/actor.h"
#include "runtime/node/death.h"
#include "runtime/node/fence.h"
#include "runtime/node/head.h"
#include "runtime/node/host.h"
#include "runtime/node/job.h"
#include "runtime/node/lease.h"
#include "runtime/node/local.h"
#include "runtime/node/log_quota.h"
#include "runtime/node/logs.h"
#include "runtime/node/memory.h"
#include "runtime/node/old_logs.h"
#include "runtime/node/options.h"
#include "runtime/node/owner.h"
#include "runtime/node/peer.h"
#include "runtime/node/process.h"
#include "runtime/node/submission.h"
#include "runtime/node/transfer.h"
#include "runtime/node/watch.h"
#include "runtime/node/watchdog.h"
#include "runtime/store/store.h"

#define CRTI_NODE_PATH 256

struct crti_node {
    crti_options_t options;
    crti_loop_t *loop;
    crti_id_t id;
    crti_id_t cluster;
    uint64_t incarnation;
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
    size_t store_bytes;
    crti_watch_t lifeline_watch;

    crti_worker_table_t *workers;
    crti_processes_t processes;
    crti_locals_t locals;
    crti_head_t head;
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
    crti_timer_t stall_timer;

    bool ready; /* told the parent */
    bool stopping;
    void (*on_progress)(crti_node_t *node); /* of what is to stop */
    crti_timer_t stop_timer;
    uint64_t flush_until_ns; /* all are gone; the last words go out */
    bool
        is_clash; /* its id is another node's: the process begins anew with another one */
    int exit_status;
    char start_error[512];
    crti_timer_t start_timer;
};

/* Starts everything that does not need the head, and begins to connect. `run` the loop then. */
crt_status_t crti_node_new(const crti_options_t *options, crti_node_t **node_out);
/* Serves until it is stopped; the exit status of the process. */
int crti_node_run(crti_node_t *node);
void crti_node_free(crti_node_t *node);

/* parts.c: what each part begins with, and the tables, when the options are known. */
void crti_node_init_parts(crti_node_t *node);
crt_status_t crti_node_make_tables(crti_node_t *node);

/* ready.c. The end before `ready`: the parent hears why. */
void crti_node_fail_start(crti_node_t *node, const char *text);
/* NODE_REGISTERED came: node.info is written, and the first time the parent told. */
void crti_node_registered(crti_node_t *node, const crti_msg_node_registered_t *m);
void crti_node_tell_parent(crti_node_t *node, const char *line);

/* stop.c. Begins the orderly end. */
void crti_node_stop(crti_node_t *node, const char *why);
/* The head can't tell its processes from another node's: it ends, and begins anew with another id. */
void crti_node_clash(crti_node_t *node, const char *why);
/* After the run: is the process to make another node, with `options_out`, when this one is freed? */
bool crti_node_begins_anew(const crti_node_t *node, crti_options_t *options_out);
/* While stopping: are all gone? */
void crti_node_check_stopped(crti_node_t *node);

/* reaper.c: processes that were left to this daemon and that nobody waits for. */
void crti_node_reap_orphans(crti_node_t *node);

/* tick.c. */
void crti_node_start_ticks(crti_node_t *node);

/* stall.c: begins to look for processes that hold the store up. */
crt_status_t crti_stall_start(crti_node_t *node);

/* ---------------------------------------------------------------- called from everywhere */

static inline uint64_t crti_node_now(const crti_node_t *node)
{
    return crti_loop_now(node->loop);
}

/* The tables' time moved or their deadlines may have. */
static inline void crti_node_schedule_tick(crti_node_t *node, uint64_t at_ns)
{
    /* At the end of this turn at the earliest: many events need one tick. */
    if (node->tick.place == 0 || node->tick.deadline_ns > at_ns)
        crti_loop_start(node->loop, &node->tick, at_ns);
}

/* Carries out what the tables of leases and workers, or of pulls, decided; safe to call from anywhere. */
static inline void crti_lease_act(crti_node_t *node)
{
    node->leases.act(node);
}

static inline void crti_pull_act(crti_node_t *node)
{
    node->pulls.act(node);
}

/* A process, zygote or submission ended: a stop may go on. */
static inline void crti_node_progress(crti_node_t *node)
{
    node->on_progress(node);
}

#endif
