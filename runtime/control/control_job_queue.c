/* SPDX-License-Identifier: Apache-2.0 */
/* Which submitted job begins next, and on which node.
 *
 * Where it sits
 *     control_job.c, control_node.c, control_actor.c (there is more room) -> [
 *     control/control_job_queue.c ] -> JOB_START
 * Rules
 *     The highest priority first, then the oldest. A job that finds no room lets others pass that
 *     find some. One that asks for nothing runs on a node of the head's host, whatever that holds;
 *     any other is placed like an actor, and its process holds what it asked for. No more than
 *     `max_jobs` run at a time, where that is given.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/job_variables.h"
#include "runtime/control/control_forward.h"
#include "runtime/control/control_job.h"
#include "runtime/control/control_request.h"
#include "runtime/control/control_state.h"
#include "runtime/control/control_views.h"
#include "runtime/control/outbox.h"
#include "runtime/control/placement/placement.h"

static void put_state(crti_control_t *c, const crti_job_entry_t *job)
{
    crti_msg_row_job_state_t row = crti_job_entry_state_row(job);

    crti_control_put(c, CRTI_STORE_JOB_STATES, job->id, CRTI_MSG_ROW_JOB_STATE, &row);
}

/* Its node runs something for it before its program, which may take long and print. */
static bool needs_setup(const crti_job_entry_t *job)
{
    static const char *const names[] = {CRTI_JOB_SETUP "=", CRTI_JOB_PIP "=",
                                        CRTI_JOB_UV "="};
    crti_span_t list = job->made->environment, entry;

    while (crti_list_unpack(&list, &entry) == CRT_OK)
        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
            if (entry.size > strlen(names[i]) &&
                memcmp(entry.data, names[i], strlen(names[i])) == 0)
                return true;
    return false;
}

/* ---------------------------------------------------------------- its node */

void crti_control_stop_process(crti_control_t *c, const crti_job_entry_t *job,
                               uint64_t from_link, uint64_t from_request)
{
    const crti_node_entry_t *node = crti_node_table_get(&c->nodes, job->node);
    crti_msg_job_stop_t body = {.job = job->id, .submission = job->made->submission};
    crti_request_t *request;

    if (node == NULL ||
        node->link == 0) { /* told when it is back, or has ended with it */
        if (from_link)
            crti_control_answer(c, from_link, CRTI_MSG_DONE, from_request, NULL, true);
        return;
    }
    request = crti_control_new_request(c, node, CRTI_MSG_JOB_STOP, job->id);
    if (request == NULL)
        return;
    request->from_link = from_link;
    request->from_request = from_request;
    crti_control_send(c, node->link, CRTI_MSG_JOB_STOP, request->number, &body);
}

void crti_control_stop_again(crti_control_t *c, const crti_node_entry_t *node)
{
    CRTI_LIST_FOREACH (item, &c->jobs.running) {
        const crti_job_entry_t *job = CRTI_JOB_OF(item);

        if (job->state == CRTI_JOB_RUNNING && job->stopping &&
            crti_id_equal(job->node, node->id))
            crti_control_stop_process(c, job, 0, 0);
    }
}

/* The row that says which node may have begun is durable: so it is never begun twice. */
static void after_start(crti_control_t *c, const crti_outgoing_t *out)
{
    crti_job_entry_t *job = crti_job_table_get(&c->jobs, out->id);
    const crti_node_entry_t *node, *host = crti_node_table_head_host(&c->nodes);
    crti_msg_job_start_t body;
    crti_request_t *request;

    if (job == NULL || job->state != CRTI_JOB_PENDING || !job->start_sent)
        return;
    if (out->status != CRT_OK) {
        crti_job_entry_waits(&c->jobs, job, out->text ? out->text : "");
        job->start_sent = false;
        job->node = (crti_id_t){0, 0};
        return;
    }
    node = crti_node_table_get(&c->nodes, job->node);
    request = node && node->link
                  ? crti_control_new_request(c, node, CRTI_MSG_JOB_START, out->id)
                  : NULL;
    if (request == NULL)
        return; /* asked again when the node is back */
    body = (crti_msg_job_start_t){
        .submission = job->made->submission,
        .job = job->id,
        .entrypoint = job->made->entrypoint,
        .argv = job->made->argv,
        .sha = job->made->sha,
        .environment = job->made->environment,
        .resources = job->made->resources,
        .source = host ? host->id : node->id,
    };
    crti_control_send(c, node->link, CRTI_MSG_JOB_START, request->number, &body);
    if (job->stopping) /* asked for since, or not heard: the node may have begun */
        crti_control_stop_process(c, job, 0, 0);
    job->is_set_up = needs_setup(job);
    if (job->is_set_up) /* who reads its log sees how that goes */
        crti_control_job_begun(c, job);
}

static void start_job(crti_control_t *c, crti_job_entry_t *job, crti_node_entry_t *node)
{
    job->start_sent = true;
    job->node = node->id;
    job->node_incarnation = node->incarnation;
    if (job->made->resources.count) {
        crti_resources_take(&node->available, &job->made->resources);
        crti_control_room_changed(c, node);
    }
    put_state(c, job);
    crti_control_after(c, after_start, job->id, 0);
}

/* ---------------------------------------------------------------- where */

/* Whether a node could run it, were it idle. */
static bool is_feasible(const crti_control_t *c, const crti_job_entry_t *job,
                        const crti_scheduling_t *how)
{
    CRTI_LIST_FOREACH (item, &c->nodes.living) {
        const crti_node_entry_t *node = CRTI_NODE_OF(item);

        if (node->is_guess ||
            crti_scheduling_feasible(&node->resources, node->id, node->labels,
                                     &job->made->resources, how))
            return true;
    }
    return false;
}

/* NULL: it waits, or has failed when it never will have one. */
static crti_node_entry_t *place(crti_control_t *c, crti_job_entry_t *job)
{
    const crti_node_entry_t *host = crti_node_table_head_host(&c->nodes);
    crti_scheduling_t how = crti_scheduling_default;
    const crti_placement_node_t *best;
    char text[256];

    snprintf(how.selector, sizeof(how.selector), "%s",
             crti_copied_text(job->made->selector));
    best = crti_placement_pick(&c->nodes.offers, &job->made->resources,
                               host ? host->id : (crti_id_t){0, 0}, &how);
    if (best)
        return crti_node_table_get(&c->nodes, best->node);
    crti_placement_reason(&c->nodes.offers, &job->made->resources, &how,
                          &c->resource_names, text, sizeof(text));
    if (c->config.fail_if_infeasible && !is_feasible(c, job, &how))
        crti_job_entry_end(&c->jobs, job, CRTI_JOB_FAILED,
                           "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE", text, c->now_ns,
                           crti_control_wall(c));
    else
        crti_job_entry_waits(&c->jobs, job, text);
    return NULL;
}

/* The node that was asked before, which may have begun it; NULL: none, or it is gone. */
static crti_node_entry_t *asked_node(const crti_control_t *c, const crti_job_entry_t *job)
{
    crti_node_entry_t *asked = crti_node_table_get(&c->nodes, job->node);

    return asked && asked->state == CRTI_NODE_ALIVE ? asked : NULL;
}

/* That one, or a good one. */
static crti_node_entry_t *find_node(crti_control_t *c, crti_job_entry_t *job)
{
    crti_node_entry_t *asked = asked_node(c, job), *host;

    if (asked)
        return asked;
    if (crti_job_entry_asks_for_node(job))
        return place(c, job);
    host = crti_node_table_head_host(&c->nodes);
    if (host == NULL)
        crti_job_entry_waits(&c->jobs, job, "It waits for the node of the head's host.");
    return host;
}

/* ---------------------------------------------------------------- which */

static int by_turn(const void *a, const void *b)
{
    const crti_job_entry_t *x = *(crti_job_entry_t *const *)a;
    const crti_job_entry_t *y = *(crti_job_entry_t *const *)b;

    if (x->made->priority != y->made->priority)
        return x->made->priority < y->made->priority ? 1 : -1;
    return x->made->number < y->made->number ? -1 : 1;
}

/* Those that may begin, in the order of their turns; `*busy_out`: how many have begun. The caller
 * frees it. */
static crti_job_entry_t **find_waiting(crti_control_t *c, size_t *count_out,
                                       size_t *busy_out)
{
    crti_job_entry_t **waiting =
        calloc(c->jobs.counts[CRTI_JOB_PENDING] + 1, sizeof(*waiting));
    size_t count = 0;

    *busy_out = 0;
    CRTI_LIST_FOREACH_SAFE (item, &c->jobs.running) {
        crti_job_entry_t *job = CRTI_JOB_OF(item);

        if (job->state == CRTI_JOB_PENDING && !job->unsaved && !job->start_sent &&
            waiting)
            waiting[count++] = job;
        else if (crti_job_entry_is_submission(job) && !job->unsaved)
            ++*busy_out;
    }
    if (count > 1)
        qsort(waiting, count, sizeof(*waiting), by_turn);
    *count_out = count;
    return waiting;
}

void crti_control_start_jobs(crti_control_t *c)
{
    CRTI_AUTO(free) crti_job_entry_t **waiting = NULL;
    size_t count, busy, most = c->config.max_jobs ? c->config.max_jobs : SIZE_MAX;
    char text[96];

    if (c->jobs.counts[CRTI_JOB_PENDING] == 0 || c->starting_jobs)
        return;
    c->starting_jobs = true; /* what ends here frees room, and asks to begin others */
    waiting = find_waiting(c, &count, &busy);
    for (size_t i = 0; i < count; i++) {
        crti_job_entry_t *job = waiting[i];
        crti_node_entry_t *node;

        if (job->stopping && !asked_node(c, job)) { /* no node has begun it */
            crti_job_entry_stop(&c->jobs, job, c->now_ns, crti_control_wall(c));
        } else if (busy >= most && !job->stopping) {
            snprintf(text, sizeof(text), "It waits: %zu jobs run, and no more may.",
                     busy);
            crti_job_entry_waits(&c->jobs, job, text);
        } else if ((node = find_node(c, job)) != NULL) {
            start_job(c, job, node);
            busy++;
        }
    }
    c->starting_jobs = false;
}
