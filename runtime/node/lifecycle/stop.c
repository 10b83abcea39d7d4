/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the node daemon: submitted jobs and workers are told to end, killed after KILL_NS; then the
 * zygotes; when the last is gone the loop stops.
 *
 * Where it sits
 *     signals, head_link.c, head_dispatch.c -> [ node/lifecycle/stop.c ] -> submission.c, worker_table.c, job_end.c
 */
#include "runtime/node/node.h"

#define KILL_NS    (1 * CRTI_S)
#define GIVE_UP_NS (4 * CRTI_S) /* of being killed; the kernel may hang */
#define FLUSH_NS   (200 * CRTI_MS)
#define MAX_IDS    8 /* drawn in a row; that two clash has a chance of 2^-47 per node */

/* Before what may end the last worker: with that the stop goes on, and sets the timer anew. */
static void set_stop_timer(crti_node_t *node, void (*on_expired)(void *user),
                           uint64_t deadline_ns)
{
    crti_loop_cancel(node->loop, &node->stop_timer);
    node->stop_timer = (crti_timer_t){.on_expired = on_expired, .user = node};
    crti_loop_start(node->loop, &node->stop_timer, deadline_ns);
}

static void flush_and_stop(void *user)
{
    crti_node_t *node = user;
    uint64_t now = crti_node_now(node);

    if (node->head.stream && crti_stream_queued(node->head.stream) &&
        now < node->flush_until_ns)
        crti_loop_start(node->loop, &node->stop_timer, now + CRTI_MS);
    else
        crti_loop_stop(node->loop);
}

void crti_node_check_stopped(crti_node_t *node)
{
    if (!node->stopping || node->flush_until_ns)
        return;
    if (crti_worker_table_count(node->leases.workers) || crti_submission_any(node))
        return;
    if (crti_job_any_zygote(node)) {
        crti_job_stop_all(node);
        return;
    }
    node->flush_until_ns = crti_node_now(node) + FLUSH_NS;
    set_stop_timer(node, flush_and_stop, 0);
}

static void on_give_up(void *user)
{
    crti_node_t *node = user;

    crti_log(CRTI_LOG_ERROR, "node", "%zu workers were killed and do not go",
             crti_worker_table_count(node->leases.workers));
    crti_loop_stop(node->loop);
}

static void end_workers(crti_node_t *node, bool at_once)
{
    CRTI_MAP_FOREACH (void, value, &node->jobs.by_id)
        crti_worker_table_end_job(node->leases.workers, crti_job_id(value), true, at_once,
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
    node->is_clash = false;
    if (node->stopping)
        return;
    if (!node->ready) {
        crti_node_fail_start(node, why);
        return;
    }
    node->stopping = true;
    crti_log(CRTI_LOG_INFO, "node", "stops: %s", why);
    crti_head_leave(node, why);
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
    node->is_clash = true;
}

bool crti_node_begins_anew(const crti_node_t *node, crti_options_t *options_out)
{
    if (!node->is_clash || node->exit_status)
        return false;
    options_out->ready_fd = node->options.ready_fd;
    options_out->ids_tried = node->ready ? 0 : node->options.ids_tried + 1;
    return true;
}
