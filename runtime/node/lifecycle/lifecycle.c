/* SPDX-License-Identifier: Apache-2.0 */
/* Lifecycle of the node daemon. See lifecycle.h. */
#include "runtime/node/lifecycle/lifecycle.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/log.h"
#include "runtime/base/rundir.h"
#include "runtime/daemon/ready.h"
#include "runtime/node/host/watchdog.h"
#include "runtime/node/jobs/job.h"
#include "runtime/node/leases/lease.h"
#include "runtime/node/leases/worker_table.h"
#include "runtime/node/lifecycle/lifecycle_int.h"
#include "runtime/node/links/head.h"
#include "runtime/node/links/local.h"
#include "runtime/node/process/process.h"

#define KILL_NS    (1 * CRTI_S)
#define GIVE_UP_NS (4 * CRTI_S) /* of being killed; the kernel may hang */
#define FLUSH_NS   (200 * CRTI_MS)
#define MAX_IDS    8 /* drawn in a row; that two clash has a chance of 2^-47 per node */

/* ---------------------------------------------------------------- the start */

static crt_status_t write_info(crti_node_t *node)
{
    char pid[24], start[24], path[CRTI_NODE_PATH + 16];
    uint64_t started = 0;
    crt_status_t status = crti_process_start(getpid(), &started);

    if (status != CRT_OK)
        return status;
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    snprintf(start, sizeof(start), "%llu", (unsigned long long)started);
    snprintf(path, sizeof(path), "%s/node.info", node->run_dir);
    return crti_info_write(
        path,
        (const crti_info_entry_t[]){
            {"pid", pid},
            {"start", start},
            {"node", node->hex},
            {"node_name", node->hostname},
            {"address", node->head_address},
            {"node_ip", node->ip},
            {"head_dir", node->options.given.head_dir},
            {"http", node->lifecycle->http},
            {"http_pin", node->lifecycle->http_pin},
            {"key_file", node->options.given.key_file},
            {"state_dir", node->own_state},
            {"private", node->options.given.private_dir[0] ? "1" : "0"},
            {"leaving", node->lifecycle->is_leaving ? "1" : "0"}},
        13);
}

void crti_node_tell_leaving(crti_node_t *node)
{
    node->lifecycle->is_leaving = true;
    if (node->ready && write_info(node) != CRT_OK)
        crti_log(CRTI_LOG_WARN, "node", "%s", crt_error_detail());
}

/* True when it is another one. */
static bool take_text(char *text, size_t size, crti_span_t given)
{
    char before[288];

    snprintf(before, sizeof(before), "%s", text);
    snprintf(text, size, "%.*s", given.size < size ? (int)given.size : 0,
             given.size ? (const char *)given.data : "");
    return strcmp(before, text) != 0;
}

void crti_node_registered(crti_node_t *node, const crti_msg_node_registered_t *m)
{
    crti_lifecycle_t *l = node->lifecycle;
    bool is_new = take_text(l->http, sizeof(l->http), m->http);
    char line[3 * CRTI_NODE_PATH + 128] = "ready";

    is_new = take_text(l->http_pin, sizeof(l->http_pin), m->http_pin) || is_new;
    if (node->ready) {
        if (is_new && write_info(node) != CRT_OK)
            crti_log(CRTI_LOG_WARN, "node", "%s", crt_error_detail());
        return;
    }
    crti_loop_cancel(node->loop, &node->start_timer);
    if (write_info(node) != CRT_OK) {
        crti_node_fail_start(node, crt_error_detail());
        return;
    }
    node->ready = true;
    crti_node_schedule_tick(node, crti_node_now(node));
    crti_ready_add(line, sizeof(line) - 1, "node", node->hex);
    crti_ready_add(line, sizeof(line) - 1, "run_dir", node->run_dir);
    strcat(line, "\n");
    crti_ready_tell(&node->options.given.ready_fd, line);
}

void crti_node_fail_start(crti_node_t *node, const char *text)
{
    if (node->exit_status)
        return;
    snprintf(node->start_error, sizeof(node->start_error), "%s", text);
    crti_log(CRTI_LOG_ERROR, "node", "%s", text);
    node->exit_status = 1;
    crti_loop_stop(node->loop);
}

/* ---------------------------------------------------------------- the end */

/* Before what may end the last worker: with that the stop goes on, and sets the timer anew. */
static void set_stop_timer(crti_node_t *node, void (*on_expired)(void *user),
                           uint64_t deadline_ns)
{
    crti_loop_cancel(node->loop, &node->lifecycle->stop_timer);
    node->lifecycle->stop_timer = (crti_timer_t){.on_expired = on_expired, .user = node};
    crti_loop_start(node->loop, &node->lifecycle->stop_timer, deadline_ns);
}

static void flush_and_stop(void *user)
{
    crti_node_t *node = user;
    uint64_t now = crti_node_now(node);

    bool has_more = crti_head_has_queued(node) || crti_local_has_queued(node);

    if (has_more && now < node->lifecycle->flush_until_ns)
        crti_loop_start(node->loop, &node->lifecycle->stop_timer, now + CRTI_MS);
    else
        crti_loop_stop(node->loop);
}

void crti_node_check_stopped(crti_node_t *node)
{
    if (!node->stopping || node->lifecycle->flush_until_ns)
        return;
    if (crti_worker_table_count(node->workers) || crti_submission_count(node))
        return;
    if (crti_job_any_zygote(node)) {
        crti_job_stop_all(node);
        return;
    }
    node->lifecycle->flush_until_ns = crti_node_now(node) + FLUSH_NS;
    set_stop_timer(node, flush_and_stop, 0);
}

static void on_give_up(void *user)
{
    crti_node_t *node = user;

    crti_log(CRTI_LOG_ERROR, "node", "%zu workers were killed and do not go",
             crti_worker_table_count(node->workers));
    crti_loop_stop(node->loop);
}

static void end_workers(crti_node_t *node, bool at_once)
{
    const crti_job_t *job;
    size_t cursor = 0;

    while ((job = crti_job_next(node, &cursor)) != NULL)
        crti_worker_table_end_job(node->workers, crti_job_id(job), true, at_once,
                                  crti_node_now(node));
    crti_lease_act(node);
}

static void on_kill(void *user)
{
    crti_node_t *node = user;

    set_stop_timer(node, on_give_up, crti_node_now(node) + GIVE_UP_NS);
    crti_job_stop_all(node); /* a zygote's death ends its workers, attached or not */
    end_workers(node, true);
    crti_submission_kill_all(node);
    crti_node_check_stopped(node);
}

void crti_node_stop(crti_node_t *node, const char *why)
{
    node->lifecycle->is_clash = false;
    if (node->stopping)
        return;
    if (!node->ready) {
        crti_node_fail_start(node, why);
        return;
    }
    node->stopping = true;
    crti_log(CRTI_LOG_INFO, "node", "stops: %s", why);
    crti_head_leave(node, why);
    crti_node_tell_leaving(node);
    crti_local_listen_no_more(node);
    set_stop_timer(node, on_kill, crti_node_now(node) + KILL_NS);
    crti_submission_stop_all(node);
    end_workers(node, false);
    crti_node_check_stopped(node);
}

void crti_node_clash(crti_node_t *node, const char *why)
{
    if (!node->ready && node->options.ids_tried + 1 >= MAX_IDS) {
        crti_node_fail_start(node, why);
        return;
    }
    crti_log(CRTI_LOG_WARN, "node", "it begins anew with another id: %s", why);
    if (node->ready)
        crti_node_stop(node, "its id is another node's");
    else
        crti_loop_stop(node->loop);
    node->lifecycle->is_clash = true;
}

bool crti_node_begins_anew(const crti_node_t *node, crti_options_t *options_out)
{
    if (!node->lifecycle->is_clash || node->exit_status)
        return false;
    options_out->given.ready_fd = node->options.given.ready_fd;
    options_out->ids_tried = node->ready ? 0 : node->options.ids_tried + 1;
    return true;
}

/* ---------------------------------------------------------------- orphans */

/* True when a record of this daemon waits for that child's end. */
static bool has_child(crti_node_t *node, pid_t pid)
{
    if (crti_process_of_pid(node, pid))
        return true;
    return crti_job_has_zygote(node, pid) || crti_submission_has(node, pid) ||
           crti_package_has(node, pid) || crti_stack_reader_has(node, pid);
}

/* It was killed. Without one, what workers left behind would outlive a kill of this daemon. */
static void replace_watchdog(crti_node_t *node)
{
    pid_t old = node->watchdog->pid;

    crti_watchdog_end(node->watchdog);
    if (crti_watchdog_start(node->watchdog, node->run_dir, node->lock_fd) != CRT_OK)
        crti_log(CRTI_LOG_ERROR, "node", "crt-watchdog (pid %d) was killed: %s", (int)old,
                 crt_error_detail());
    else
        crti_log(CRTI_LOG_WARN, "node",
                 "crt-watchdog (pid %d) was killed; %d is the next", (int)old,
                 (int)node->watchdog->pid);
}

/* Orphans of user code become this daemon's children; whoever has a record is reaped by its
 * pidfd, the others here. A child with a record stands in the way of those behind it until it
 * is reaped: the tick looks again. */
void crti_node_reap_orphans(crti_node_t *node)
{
    siginfo_t info = {0};
    bool more = true;

    while (more && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid) {
        more = !has_child(node, info.si_pid);
        if (info.si_pid == node->watchdog->pid)
            replace_watchdog(node);
        else if (more)
            waitpid(info.si_pid, NULL, WNOHANG);
        info.si_pid = 0;
    }
}
