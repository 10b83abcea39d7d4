/* SPDX-License-Identifier: Apache-2.0 */
/* Death: the end of a process of this node, noticed by its pidfd, reported once, and everything
 * it held taken back.
 *
 * Where it sits
 *     pidfd, zygote (REAPED), local link -> [ node/dispatch/death.c ] -> tables, store, watch.c,
 *     head
 * Rules
 *     The rest of a worker's process group is killed before its last output is read, so that a
 *     grandchild can't hold the report up. The report waits at most REAP_NS for the wait
 *     status: a zygote reaps its workers, this node reaps what it executed and orphans.
 *     The store's slot is taken back first, when no thread of the process runs any more: others may
 *     wait for a lock that it had.
 */
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/log.h"
#include "runtime/base/rundir.h"
#include "runtime/node/actors/actor.h"
#include "runtime/node/dispatch/dispatch_int.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/leases/lease_table.h"
#include "runtime/node/lifecycle/drain.h"
#include "runtime/node/links/head.h"
#include "runtime/node/logs/logs.h"
#include "runtime/node/objects/pull_table.h"
#include "runtime/node/objects/share_table.h"
#include "runtime/node/objects/transfer.h"
#include "runtime/node/watches/watch.h"

#define REAP_NS (500 * CRTI_MS)

/* ---------------------------------------------------------------- the report */

static void add(char *text, size_t size, const char *format, ...) CRT_PRINTF(3, 4);

static void add(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* Where the kernel wrote the core; only patterns that are plain file names are followed. */
static void add_core(char *text, size_t size, const crti_process_t *p)
{
    char pattern[128] = "", path[300];
    FILE *file = fopen("/proc/sys/kernel/core_pattern", "re");

    if (file && fgets(pattern, sizeof(pattern), file))
        pattern[strcspn(pattern, "\n")] = '\0';
    if (file)
        fclose(file);
    if (pattern[0] == '|' || pattern[0] == '\0' || strchr(pattern, '%')) {
        add(text, size, "; core dumped (kernel.core_pattern is %s)", pattern);
        return;
    }
    snprintf(path, sizeof(path), "%s/%s.%d", crti_job_directory(p->job), pattern,
             (int)p->pid);
    if (access(path, F_OK) != 0)
        snprintf(path, sizeof(path), "%s/%s", crti_job_directory(p->job), pattern);
    if (access(path, F_OK) == 0)
        add(text, size, "; core: %s", path);
    else
        add(text, size, "; core dumped");
}

static void add_how(char *text, size_t size, const crti_process_t *p)
{
    if (!p->reaped)
        add(text, size, " ended");
    else if (WIFSIGNALED(p->wait_status))
        add(text, size, " killed by signal %d (%s)", WTERMSIG(p->wait_status),
            strsignal(WTERMSIG(p->wait_status)));
    else
        add(text, size, " exited with status %d", WEXITSTATUS(p->wait_status));
}

/* "worker 3f2a.. (Counter, pid 4711) on node 9c.. killed by signal 11 (Segmentation fault) in
 * Counter.add; core: /path; last output of the process: ..."; of one that runs tasks "last output",
 * which is that since the last one that printed has ended. */
static void make_report(crti_process_t *p, char *text, size_t size)
{
    char hex[CRTI_ID_HEX], name[96] = "", method[CRTI_BLACKBOARD_TEXT + 1], last[500];
    const char *reason = p->end_text;

    if (!crti_id_is_zero(p->actor)) {
        crti_actor_class(p->node, p->actor, name, sizeof(name));
        if (!reason[0])
            reason = crti_actor_end_reason(p->node, p->actor);
    }
    snprintf(text, size, "worker %.8s.. (%s%spid %d) on node %.8s.. (%s)",
             crti_id_hex(p->id, hex), name, name[0] ? ", " : "", (int)p->pid,
             p->node->hex, p->node->ip);
    add_how(text, size, p);
    if (p->board && crti_blackboard_read(p->board, method))
        add(text, size, " in %s", method);
    if (reason[0])
        add(text, size, " (%s)", reason);
    else if (p->reaped && !p->told_to_end && WIFSIGNALED(p->wait_status) &&
             WTERMSIG(p->wait_status) == SIGKILL && crti_memory_kernel_killed(p->node))
        add(text, size,
            " (out of memory: the kernel killed a process at that time; run fewer at a "
            "time "
            "or give the node more memory)");
    if (p->reaped && WIFSIGNALED(p->wait_status) && WCOREDUMP(p->wait_status))
        add_core(text, size, p);
    crti_log_file_last(&p->log, last, sizeof(last));
    if (last[0])
        add(text, size, "; last output%s: %s",
            crti_id_is_zero(p->actor) ? "" : " of the process", last);
}

/* ---------------------------------------------------------------- the end of a worker */

static void on_death_heard(crti_node_t *node, crti_id_t id, uint64_t number,
                           const crti_message_t *answer)
{
}

/* Actors end with their maker: that end is said until the head has stored theirs, as one that is
 * lost with a link would leave them to the end of their job. */
static void tell_head(crti_process_t *p, const crti_msg_peer_died_t *died)
{
    if (!p->has_made_actors || crti_head_ask(p->node, CRTI_MSG_PEER_DIED, died,
                                             on_death_heard, p->id, 0) != CRT_OK)
        crti_head_tell_death(p->node, died);
}

static void publish(crti_process_t *p, crt_status_t status, const char *text)
{
    crti_msg_peer_died_t died = {.process = p->id,
                                 .incarnation = p->incarnation,
                                 .node = p->node->id,
                                 .status = status,
                                 .pid = p->pid,
                                 .text = crti_str(text),
                                 .ran_no_call = crti_process_ran_no_call(p)};

    died.unbegun = crti_process_unbegun(p, &died.caller);
    crti_log(status == CRT_OK ? CRTI_LOG_DEBUG : CRTI_LOG_WARN, "death", "%s", text);
    crti_dead_add(p->node, &died);
    crti_watch_drop(p->node, p->id);
    crti_actor_watch_drop(p->node, p->id);
    crti_pull_table_requester_died(p->node->pull_table, p->id);
    if (p->incarnation) { /* it had attached: others may know it */
        tell_head(p, &died);
        crti_process_died(p->node, &died);
    }
}

static void finish_worker(crti_process_t *p)
{
    crti_node_t *node = p->node;
    bool expected;
    crt_status_t status;
    char text[1000];

    crti_loop_cancel(node->loop, &p->reap_timer);
    crti_offload_take_out(&p->offloaded);
    for (int i = 0; i < 2; i++)
        crti_output_close(&p->output[i]);
    make_report(p, text, sizeof(text));
    expected = p->told_to_end && p->end_text[0] == '\0';
    status = expected ? CRT_OK : CRT_ERR_WORKER_DIED;
    crti_lease_worker_died(p, status == CRT_OK ? CRT_ERR_CANCELLED : status, text);
    publish(p, status, text);
    crti_memory_gone(p);
    if (!crti_id_is_zero(p->actor))
        crti_actor_process_died(p, CRT_ERR_WORKER_DIED, text);
    crti_process_free(p);
    crti_lease_act(node);
    crti_pull_act(node);
    crti_logs_wake(node);
    crti_node_progress(node);
}

static void on_reap_late(void *user)
{
    finish_worker(user);
}

/* True when the wait status is known: the process is ours, or has become ours. */
static bool try_reap(crti_process_t *p)
{
    /* Only we reap our children: until then a number is not used again. */
    bool by_pid = p->pidfd < 0 && p->is_watched && p->is_child;
    siginfo_t info = {0};

    if (p->reaped)
        return true;
    if ((p->pidfd < 0 && !by_pid) ||
        waitid(by_pid ? P_PID : P_PIDFD, (id_t)(by_pid ? p->pid : p->pidfd), &info,
               WEXITED | WNOHANG) < 0 ||
        info.si_pid == 0)
        return false;
    p->reaped = true;
    p->wait_status = info.si_code == CLD_EXITED   ? (info.si_status & 255) << 8
                     : info.si_code == CLD_DUMPED ? info.si_status | 128
                                                  : info.si_status;
    return true;
}

static void end_driver(crti_process_t *p);

static void on_ended(crti_process_t *process)
{
    if (process->dying)
        return;
    process->dying = true;
    if (process->role == CRTI_ROLE_WORKER)
        crti_local_hear(process->local); /* that it was ready, why `create` failed */
    crti_slot_give(process);
    if (process->role == CRTI_ROLE_DRIVER) {
        end_driver(process);
        return;
    }
    kill(-process->pid, SIGKILL);
    if (try_reap(process)) {
        finish_worker(process);
        return;
    }
    if (crti_process_await(process, on_reap_late, REAP_NS) != CRT_OK)
        finish_worker(process);
}

static void on_reaped(crti_process_t *process, int wait_status)
{
    process->reaped = true;
    process->wait_status = wait_status;
    if (process->dying)
        finish_worker(process);
    else if (process->pidfd < 0)
        on_ended(process); /* it was gone before it could be watched */
}

static void on_zygote_gone(crti_process_t *process)
{
    /* Its parent-death signal ends it; this only makes sure. */
    crti_process_kill(process);
    if (process->dying && crti_timer_is_started(&process->reap_timer))
        crti_loop_start(process->node->loop, &process->reap_timer,
                        crti_node_now(process->node) + 20 * CRTI_MS);
}

/* ---------------------------------------------------------------- drivers, and cuts */

/* `how` "" is a driver that left the cluster in an orderly way. */
static void driver_left(crti_process_t *p, const char *how)
{
    char text[300], hex[CRTI_ID_HEX];

    if (p->told_to_end)
        return; /* it was told already */
    crti_process_expect_end(p);
    snprintf(text, sizeof(text), "driver %.8s.. (pid %d) on node %.8s.. (%s) %s",
             crti_id_hex(p->id, hex), (int)p->pid, p->node->hex, p->node->ip,
             how[0] ? how : "ended");
    crti_head_drop(p->node, CRTI_MSG_JOB_ADD, p->id);
    publish(p, how[0] ? CRT_ERR_WORKER_DIED : CRT_OK, text);
    if (p->job)
        crti_job_driver_gone(p, how[0] ? text : "");
}

static void finish_driver(crti_process_t *p, const char *how)
{
    crti_node_t *node = p->node;

    driver_left(p, how);
    crti_process_free(p);
    crti_lease_act(node);
    crti_pull_act(node);
    crti_node_progress(node);
}

/* How one ended that did not leave; it is no child of this daemon, as a rule. */
static void end_driver(crti_process_t *p)
{
    char how[200] = "";

    if (!p->leaves && !p->reaped && p->pidfd >= 0)
        p->reaped = crti_process_wait_status(p->pid, p->pidfd, &p->wait_status);
    if (!p->leaves && p->reaped) {
        add_how(how, sizeof(how), p);
        if (WIFEXITED(p->wait_status))
            add(how, sizeof(how), " without crt_shutdown");
    }
    finish_driver(p, p->leaves ? "" : how[0] ? how + 1 : "died");
}

static void on_end_late(void *user)
{
    end_driver(user);
}

/* Its link closed because its process ends: in a moment the kernel tells how. */
static bool await_end(crti_process_t *p)
{
    if (p->leaves || p->told_to_end || p->pidfd < 0 || !crti_process_is_ending(p->pid))
        return false;
    return crti_process_await(p, on_end_late, REAP_NS) == CRT_OK;
}

static void leave(crti_process_t *process)
{
    crti_node_t *node = process->node;

    driver_left(process, "");
    crti_lease_act(node);
    crti_pull_act(node);
    crti_job_await_end(process, process->leave_request);
}

void crti_death_driver_leaves(crti_process_t *process, uint64_t request,
                              const crti_msg_shutdown_t *message)
{
    if (process->role != CRTI_ROLE_DRIVER || process->leaves)
        return;
    process->leaves = true;
    if (message->has_exit) { /* of a program that ends by itself: no signal */
        process->reaped = true;
        process->wait_status = (int)(message->wait_status & 0xff00);
    }
    process->leave_request = request;
    if (request != 0) /* else its link closes next */
        crti_job_drain(process, leave);
}

void crti_death_driver_closed(crti_process_t *process)
{
    if (!await_end(process))
        finish_driver(process, process->leaves ? "" : "died");
}

/* Its link is closed as a rule because it ends; then the report says how. */
static const char *why_cut(const crti_process_t *process, const char *why)
{
    if (strcmp(why, "channel: the peer closed") != 0)
        return why;
    return crti_process_is_ending(process->pid)
               ? ""
               : "the program closed the descriptors of the runtime (it closes all: "
                 "closefrom, close_range, daemon?)";
}

static void on_cut(crti_process_t *process, const char *why)
{
    if (process->role == CRTI_ROLE_DRIVER) {
        /* It is the user's program: it is not killed, and its slot stays taken until it ends. */
        if (process->local)
            crti_local_close(process->local);
        if (await_end(process))
            return;
        driver_left(process, why);
        crti_lease_act(process->node);
        return;
    }
    if (process->end_text[0] == '\0' && !process->told_to_end)
        crti_process_explain(process, "%s", why_cut(process, why));
    if (process->local)
        crti_local_close(process->local);
    crti_process_kill(process);
}

const crti_process_handlers_t crti_death_dispatch = {.on_ended = on_ended,
                                                     .on_reaped = on_reaped,
                                                     .on_zygote_gone = on_zygote_gone,
                                                     .on_cut = on_cut,
                                                     .on_driver_closed =
                                                         crti_death_driver_closed};

/* ---------------------------------------------------------------- deaths anywhere */

void crti_process_died(crti_node_t *node, const crti_msg_peer_died_t *died)
{
    crti_watch_fire(node, died);
    crti_lease_owner_died(node, died->process, died->node);
    crti_owner_died(node, died->process);
    crti_pull_table_owner_died(node->pull_table, died->process);
    if (!crti_id_equal(died->node, node->id)) {
        crti_dead_add(node, died);
        crti_lease_act(node);
        crti_pull_act(node);
    }
}

void crti_node_died(crti_node_t *node, const crti_msg_node_died_t *died)
{
    char text[256];

    crti_text(died->text, text, sizeof(text));
    crti_local_broadcast(node, CRTI_MSG_NODE_DIED, died);
    crti_watch_node_died(node, died->node);
    crti_owner_node_died(node, died->node);
    crti_drain_other(node, died->node, false);
    crti_lease_owner_died(node, (crti_id_t){0}, died->node);
    crti_lease_table_node_died(node->lease_table, died->node, crti_node_now(node));
    crti_pull_retry_node_died(node, died->node);
    crti_pull_table_node_lost(node->pull_table, died->node, text);
    crti_share_table_node_lost(node->share_table, died->node);
    crti_job_node_died(node, died->node);
    crti_node_forget(node, died->node);
    crti_lease_act(node);
    crti_pull_act(node);
}
