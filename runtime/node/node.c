/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end of the node daemon. See node.h.
 *
 * Start: directories and lock, key, store, local socket; then the head (connect, register); then
 * node.info and `ready`. Whatever fails before is told in one sentence, and everything that was
 * made is undone.
 * Another node's id (its first 48 bits): the head says so, everything is undone, and the process
 * begins again as a node with another id; who waits for `ready` hears of that one.
 * End: when the loop has stopped (lifecycle.c) all is freed, and the directory removed.
 */
#include "runtime/node/node.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "runtime/base/clock.h"
#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/base/rundir.h"
#include "runtime/daemon/ready.h"
#include "runtime/node/actors/actor.h"
#include "runtime/node/dispatch/dispatch.h"
#include "runtime/node/host/host.h"
#include "runtime/node/host/log_quota.h"
#include "runtime/node/host/old_logs.h"
#include "runtime/node/host/watchdog.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/lifecycle/drain.h"
#include "runtime/node/lifecycle/lifecycle.h"
#include "runtime/node/links/head.h"
#include "runtime/node/links/local.h"
#include "runtime/node/links/peer.h"
#include "runtime/node/logs/logs.h"
#include "runtime/node/objects/keep.h"
#include "runtime/node/objects/spill.h"
#include "runtime/node/objects/transfer.h"
#include "runtime/node/process/context.h"
#include "runtime/node/process/process.h"
#include "runtime/node/watches/watch.h"

#define START_NS (6 * CRTI_S) /* for the head to answer */
/* More, where nothing has failed: its host or ours may be busy. */
#define BUSY_NS (18 * CRTI_S)

/* ---------------------------------------------------------------- directories */

static crt_status_t make_dirs(crti_node_t *node)
{
    char run[CRTI_NODE_PATH], logs[CRTI_NODE_PATH + 8];
    const char *private_dir = node->options.given.private_dir;
    crt_status_t status = CRT_OK;

    if (private_dir[0]) {
        snprintf(run, sizeof(run), "%s", private_dir);
        snprintf(node->state_dir, sizeof(node->state_dir), "%s", private_dir);
    } else {
        status = crti_run_dir(run, sizeof(run));
        if (status == CRT_OK)
            status = crti_state_dir(node->state_dir, sizeof(node->state_dir));
    }
    if (status != CRT_OK)
        return status;
    if (strlen(run) + 16 > sizeof(node->run_dir) ||
        strlen(node->state_dir) + 32 > sizeof(node->own_state))
        return crt_raise(CRT_ERR_TOO_LARGE,
                         "the path of the directory is too long; set "
                         "CRT_RUN_DIR and CRT_STATE_DIR to short ones");
    snprintf(node->run_dir, sizeof(node->run_dir), "%.200s/node-%.8s", run, node->hex);
    snprintf(node->own_state, sizeof(node->own_state), "%.200s/node-%.8s",
             node->state_dir, node->hex);
    crti_dir_first_missing(node->run_dir, node->made_run, sizeof(node->made_run));
    crti_dir_first_missing(node->own_state, node->made_state, sizeof(node->made_state));
    status = crti_dir_make(run);
    if (status == CRT_OK)
        crti_watchdog_sweep(run);
    if (status == CRT_OK)
        status = crti_dir_make(node->run_dir);
    if (status == CRT_OK)
        status = crti_dir_lock(node->run_dir, &node->lock_fd);
    snprintf(logs, sizeof(logs), "%s/logs", node->own_state);
    if (status == CRT_OK)
        status = crti_dir_make(logs);
    if (status != CRT_OK || private_dir[0])
        return status;
    if (crti_dir_lock(node->own_state, &node->state_lock_fd) != CRT_OK)
        crti_log(CRTI_LOG_WARN, "node", "its logs are not locked: %s",
                 crt_error_detail());
    crti_old_logs_start(node->old_logs, node->state_dir, node->own_state,
                        CRTI_LIMIT(log_total));
    return CRT_OK;
}

static void unmake_dirs(const crti_node_t *node)
{
    if (node->made_state[0])
        crti_dir_remove(node->own_state);
    crti_dir_unmake(node->own_state, node->made_state);
    crti_dir_unmake(node->run_dir, node->made_run);
}

static void remove_own_dirs(crti_node_t *node)
{
    char lock[CRTI_NODE_PATH + 8];

    crti_dir_remove(node->run_dir);
    snprintf(lock, sizeof(lock), "%s/lock", node->own_state);
    unlink(lock);
    snprintf(lock, sizeof(lock), "%s/logs", node->own_state);
    rmdir(lock);
    rmdir(node->own_state); /* without a log nothing is left to keep */
    if (node->options.given.private_dir[0]) {
        crti_dir_remove(node->own_state);
        crti_dir_remove_private(node->options.given.private_dir);
    }
    close(node->lock_fd);
    node->lock_fd = -1;
    crti_close_auto(&node->state_lock_fd);
}

static void remove_dirs(crti_node_t *node)
{
    crti_old_logs_fini(node->old_logs);
    if (node->lock_fd >= 0)
        remove_own_dirs(node);
    if (!node->ready)
        unmake_dirs(node);
}

static void fail_late_start(void *user)
{
    crti_node_t *node = user;
    const char *why = crti_registration_why(node);
    char text[512];

    snprintf(text, sizeof(text), "the head at %s can't be reached: %s",
             node->head_address, *why ? why : "it does not answer");
    crti_node_fail_start(node, text);
}

static void on_start_late(void *user)
{
    crti_node_t *node = user;

    node->start_timer.on_expired = fail_late_start;
    if (*crti_registration_why(node) ||
        crti_loop_start(node->loop, &node->start_timer, crti_node_now(node) + BUSY_NS) !=
            CRT_OK)
        fail_late_start(node);
}

/* ---------------------------------------------------------------- events */

static void on_signal(void *user, int number)
{
    crti_node_stop(user, number == SIGINT ? "interrupted" : "stopped by its user");
}

static void on_child(void *user, int number)
{
    crti_node_reap_orphans(user);
}

static void on_lifeline_end(void *user)
{
    crti_node_stop(user, "its driver has ended");
}

/* ---------------------------------------------------------------- life */

static crt_status_t make_store(crti_node_t *node)
{
    uint64_t total = crti_host_memory() / node->options.given.share;
    uint64_t available = crti_host_available() / node->options.given.share;

    node->store_bytes = node->options.given.object_store_memory;
    if (node->store_bytes == 0) {
        node->store_bytes = total / 10 * 3;
        if (node->store_bytes > available / 2)
            node->store_bytes = available / 2;
    }
    node->memory_bytes = total > node->store_bytes ? total - node->store_bytes : 0;
    return crti_store_new(node->store_bytes, CRTI_NODE_SLOTS, &node->store);
}

/* Before anything is made: from now on a signal does not end the process, it is read. */
static crt_status_t make_loop(crti_node_t *node)
{
    crt_status_t status = crti_loop_new(&node->loop);

    signal(SIGPIPE, SIG_IGN); /* of a parent that does not wait for `ready` any more */
    if (status == CRT_OK)
        status = crti_loop_signal(node->loop, SIGTERM, on_signal, node);
    if (status == CRT_OK)
        status = crti_loop_signal(node->loop, SIGINT, on_signal, node);
    if (status == CRT_OK)
        status = crti_loop_signal(node->loop, SIGCHLD, on_child, node);
    return status;
}

static crt_status_t start_loop(crti_node_t *node)
{
    crt_status_t status;

    crti_node_start_ticks(node);
    node->start_timer = (crti_timer_t){.on_expired = on_start_late, .user = node};
    status = crti_lifeline_watch(&node->lifeline, node->loop,
                                 node->options.given.lifeline_fd, on_lifeline_end, node);
    if (status == CRT_OK)
        status = crti_loop_start(node->loop, &node->start_timer,
                                 crti_node_now(node) + START_NS);
    if (status == CRT_OK)
        status = crti_stall_start(node);
    if (status == CRT_OK)
        status = crti_memory_start(node);
    return status;
}

/* Whether the head runs here, and what is uploaded to it lies in our cache: a node of its host may
 * have another state directory, unless both are of a private cluster. Without its info file it is
 * not taken for another one. */
static bool has_head_cache(const crti_node_t *node)
{
    char path[CRTI_NODE_PATH + 16], state[CRTI_NODE_PATH], *end;
    CRTI_AUTO(free) char *text = NULL;

    if (!node->options.given.head_dir[0] || node->options.given.private_dir[0])
        return node->options.given.head_dir[0];
    snprintf(path, sizeof(path), "%s/head.info", node->options.given.head_dir);
    if (crti_info_read(path, &text) != CRT_OK)
        return true;
    crti_info_get(text, "state_dir", state, sizeof(state));
    end = strrchr(state, '/'); /* it is STATE/head-PORT */
    if (end)
        *end = '\0';
    return crti_dir_is_same(state, node->state_dir);
}

static crt_status_t start(crti_node_t *node)
{
    crt_status_t status =
        crti_stream_resolve(node->options.given.address, node->head_address);

    if (status == CRT_OK)
        status = crti_key_load(node->options.given.key_file, &node->key);
    if (status == CRT_OK)
        status = make_loop(node);
    if (status == CRT_OK)
        status = make_dirs(node);
    node->has_head_cache = status == CRT_OK && has_head_cache(node);
    if (status == CRT_OK)
        status = crti_watchdog_start(node->watchdog, node->run_dir, node->lock_fd);
    if (status == CRT_OK)
        status = make_store(node);
    if (status == CRT_OK)
        status = crti_spill_start(node);
    if (status == CRT_OK)
        status =
            crti_stream_context_new(&node->key, crti_peer_encrypts(node), &node->context);
    if (status == CRT_OK)
        status = crti_local_listen(node);
    if (status == CRT_OK)
        status = start_loop(node);
    return status;
}

crt_status_t crti_node_new(const crti_options_t *options, crti_node_t **node_out)
{
    crti_node_t *node = crti_node_make();
    crt_status_t status;

    if (node == NULL)
        return crt_raise(CRT_ERR_NO_MEMORY, "node");
    node->options = *options;
    node->id = crti_id_random();
    crti_id_hex(node->id, node->hex);
    snprintf(node->ip, sizeof(node->ip), "%s", options->node_ip);
    if (options->given.node_name)
        snprintf(node->hostname, sizeof(node->hostname), "%s", options->given.node_name);
    else
        gethostname(node->hostname, sizeof(node->hostname) - 1);
    crti_host_raise_limits();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    status = crti_node_init_parts(node);
    if (status == CRT_OK)
        status = start(node);
    if (status == CRT_OK) {
        *node_out = node;
        return CRT_OK;
    }
    snprintf(node->start_error, sizeof(node->start_error), "%s", crt_error_detail());
    node->exit_status = 1;
    crti_node_free(node);
    return status;
}

/* Why there are fewer than the user thinks, or no type to select them by. */
static void tell_gpus(const crti_options_t *o)
{
    char names[CRTI_GPU_TEXT];

    if (*o->gpu_trouble)
        crti_log(o->gpus.count > 0 || getenv("CRT_NVML_LIBRARY") ? CRTI_LOG_WARN
                                                                 : CRTI_LOG_INFO,
                 "gpu", "%s; this node has %u GPUs, of unknown type", o->gpu_trouble,
                 o->gpus.count);
    else if (o->gpus.count > 0)
        crti_log(CRTI_LOG_INFO, "gpu", "GPUs %s, labels \"%s\"",
                 crti_gpus_format(&o->gpus, UINT64_MAX, names), o->labels);
}

int crti_node_run(crti_node_t *node)
{
    tell_gpus(&node->options);
    crti_registration_start(node);
    if (crti_loop_run(node->loop) != CRT_OK) {
        crti_log(CRTI_LOG_ERROR, "node", "%s", crt_error_detail());
        node->exit_status = 1;
    }
    return node->exit_status;
}

static void free_processes(crti_node_t *node)
{
    size_t cursor = 0;
    crti_process_t *p;

    node->is_ending = true;
    /* What goes may move another one to a place that was passed: the next round finds it. */
    for (; crti_process_count(node) > 0; cursor = 0)
        while ((p = crti_process_next(node, &cursor)) != NULL) {
            crti_process_kill(p);
            crti_process_free(p);
        }
}

static void free_parts(crti_node_t *node)
{
    if (node->loop) {
        crti_questions_free(node);
        crti_rest_free(node);
        free_processes(node);
        crti_local_free_all(node);
        crti_logs_free(node);
        crti_submission_free_all(node);
        crti_job_free_all(node);
        crti_peer_free_all(node);
        crti_inbound_free_all(node);
        crti_head_free(node);
    }
    crti_process_fini(node);
    crti_actor_free_all(node);
    crti_watch_free(node);
    crti_owner_free(node);
    crti_actor_watch_free(node);
    crti_lease_free(node);
    crti_drain_fini(node);
    crti_keep_free(node);
    crti_pull_free(node);
    crti_log_quota_fini(node->log_quota);
}

void crti_node_free(crti_node_t *node)
{
    bool is_store_free;

    crti_wake_with_parent(false);
    node->stopping = true;
    free_parts(node);
    is_store_free = crti_spill_stop(node);
    crti_stream_context_free(node->context);
    if (is_store_free) /* else a thread waits for a disk with its bytes; the end takes it */
        crti_store_detach(node->store);
    crti_loop_free(node->loop);
    crti_watchdog_end(node->watchdog);
    remove_dirs(node);
    crti_key_wipe(&node->key, sizeof(node->key));
    if (node->exit_status) /* after everything was undone */
        crti_ready_fail(&node->options.given.ready_fd, node->start_error);
    free(node);
}
