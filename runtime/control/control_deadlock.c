/* SPDX-License-Identifier: Apache-2.0 */
/* Resource deadlocks: jobs of which each holds what another one waits for (docs/design/control.md).
 *
 * Where it sits
 *     control_actor.c, control_placement_group.c, control_node.c (something waits) ->
 *     [ control_deadlock.c ] -> STATE_QUERY "rest" to nodes (node/dispatch/rest.c)
 *     JOB_REST -> deadlock_facts.c -> resource_deadlock.h (decides) -> [ control_deadlock.c ] ->
 *     LOG to drivers, reports
 * Rules
 *     Nobody is asked while nothing waits. Then every deadlock_interval nodes say whether what runs
 *     for the jobs that wait is at rest. A job is taken to be stuck when that was so in two looks,
 *     with nothing done between them. While a node is away, or does not answer, nothing is decided,
 *     and what was told stays. A head that was started again finds it anew.
 */
#include "runtime/control/control_deadlock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/limit.h"
#include "runtime/base/log.h"
#include "runtime/control/control_actor.h"
#include "runtime/control/control_forward.h"
#include "runtime/control/control_placement_group.h"
#include "runtime/control/control_request.h"
#include "runtime/control/control_state.h"
#include "runtime/control/deadlock_facts.h"
#include "runtime/control/outbox.h"

#define PATIENCE_NS (1 * CRTI_S) /* for nodes, which answer when their processes have */
#define REPORTS_MAX 100
#define NAMED       4 /* jobs in a text */
#define TEXT        2048

/* ---------------------------------------------------------------- reports */

static void free_report(crti_deadlock_report_t *report)
{
    free(report->text);
    free(report->members);
    free(report);
}

void crti_deadlocks_init(crti_deadlocks_t *deadlocks)
{
    *deadlocks = (crti_deadlocks_t){.due_ns = UINT64_MAX};
    crti_map_init(&deadlocks->last, sizeof(crti_id_t));
    crti_list_init(&deadlocks->reports);
}

static void forget_last(crti_deadlocks_t *deadlocks)
{
    CRTI_MAP_FOREACH (void, seen, &deadlocks->last)
        free(seen);
    crti_map_fini(&deadlocks->last);
    crti_map_init(&deadlocks->last, sizeof(crti_id_t));
}

void crti_deadlocks_fini(crti_deadlocks_t *deadlocks)
{
    crti_list_t *item;

    while ((item = crti_list_pop(&deadlocks->reports)))
        free_report(CRTI_CONTAINER(item, crti_deadlock_report_t, link));
    forget_last(deadlocks);
    crti_map_fini(&deadlocks->last);
}

static void end_report(crti_control_t *c)
{
    crti_deadlock_report_t *report = crti_deadlocks_now(&c->deadlocks);

    if (report == NULL)
        return;
    report->end_ms = crti_control_wall(c);
    crti_log(CRTI_LOG_INFO, "control", "the resource deadlock has ended");
}

static void add_report(crti_control_t *c, crti_deadlock_report_t *report)
{
    crti_deadlocks_t *d = &c->deadlocks;

    end_report(c);
    report->id = crti_id_random();
    report->start_ms = crti_control_wall(c);
    crti_list_append(&d->reports, &report->link);
    if (++d->report_count <= REPORTS_MAX)
        return;
    d->report_count--;
    free_report(CRTI_CONTAINER(crti_list_pop(&d->reports), crti_deadlock_report_t, link));
}

/* ---------------------------------------------------------------- what is told */

static char *tell(const crti_deadlock_member_t *members, size_t count)
{
    char text[TEXT];
    int used =
        snprintf(text, sizeof(text), "resource deadlock: %s: ",
                 count == 1 ? "a job waits for what only itself holds"
                            : "none of these jobs can go on before another one ends");

    for (size_t i = 0; i < count && i < NAMED && (size_t)used < sizeof(text); i++)
        used += snprintf(text + used, sizeof(text) - (size_t)used,
                         "%s%s holds %s and waits for %s", i ? "; " : "", members[i].name,
                         members[i].holds, members[i].wants);
    if (count > NAMED && (size_t)used < sizeof(text))
        snprintf(text + used, sizeof(text) - (size_t)used, "; and %zu more",
                 count - NAMED);
    return strdup(text);
}

static void tell_driver(crti_control_t *c, crti_id_t id, const char *text)
{
    const crti_job_entry_t *job = crti_job_table_get(&c->jobs, id);
    const crti_node_entry_t *node =
        job ? crti_node_table_get(&c->nodes, job->node) : NULL;
    char line[TEXT + 8];
    crti_msg_log_t log = {.job = id, .prefix = crti_str("(crt)"), .is_stderr = true};

    if (node == NULL || node->link == 0)
        return;
    snprintf(line, sizeof(line), "%s\n", text);
    log.driver_node = node->id;
    log.lines = crti_str(line);
    crti_control_send(c, node->link, CRTI_MSG_LOG, 0, &log);
}

static bool is_known(const crti_deadlock_report_t *report,
                     const crti_deadlock_member_t *members, size_t count)
{
    if (report == NULL || report->count != count)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!crti_id_equal(report->members[i].job, members[i].job))
            return false;
    return true;
}

/* ---------------------------------------------------------------- what is done */

/* Its caller hears CRT_ERR_RESOURCE_DEADLOCK, and why. */
static void fail_request(crti_control_t *c, const crti_deadlock_want_t *want,
                         const char *text)
{
    crti_actor_entry_t *actor;
    const crti_node_entry_t *node;
    crti_msg_lease_refuse_t refuse = {
        .lease = want->id, .status = CRT_ERR_RESOURCE_DEADLOCK, .text = crti_str(text)};

    switch (want->kind) {
    case CRTI_WANT_ACTOR:
        actor = crti_actor_table_get(&c->actors, want->id);
        if (actor)
            crti_control_actor_end(c, actor, CRT_ERR_RESOURCE_DEADLOCK, text);
        break;
    case CRTI_WANT_GROUP:
        crti_control_placement_group_fail(c, want->id, CRT_ERR_RESOURCE_DEADLOCK, text);
        break;
    case CRTI_WANT_LEASE:
        node = crti_node_table_get(&c->nodes, want->node);
        if (node && node->link)
            crti_control_send(c, node->link, CRTI_MSG_LEASE_REFUSE, 0, &refuse);
    }
    crti_control_place_all(c);
}

/* Two looks follow before another one fails. */
static void act(crti_control_t *c, const crti_deadlock_facts_t *facts, const char *text)
{
    const crti_deadlock_want_t *youngest = crti_deadlock_facts_youngest(facts);
    CRTI_AUTO(free) char *copy = strdup(text); /* the report may go meanwhile */

    if (!c->config.fail_youngest || youngest == NULL || copy == NULL)
        return;
    crti_log(CRTI_LOG_WARN, "control", "the youngest request of the deadlock fails: %s",
             youngest->name);
    fail_request(c, youngest, copy);
    forget_last(&c->deadlocks);
}

static void found(crti_control_t *c, const crti_deadlock_facts_t *facts)
{
    crti_deadlock_report_t *report = crti_deadlocks_now(&c->deadlocks), *next;
    crti_deadlock_member_t *members = NULL;
    size_t count = crti_deadlock_facts_members(c, facts, &members);

    if (count == 0 || is_known(report, members, count)) {
        free(members);
        if (count)
            act(c, facts, report->text);
        else
            end_report(c);
        return;
    }
    next = calloc(1, sizeof(*next));
    if (next)
        next->text = tell(members, count);
    if (!next || !next->text) {
        free(next);
        free(members);
        return; /* told after the next look */
    }
    next->members = members;
    next->count = count;
    add_report(c, next);
    crti_log(CRTI_LOG_WARN, "control", "%s", next->text);
    for (size_t i = 0; i < count; i++)
        tell_driver(c, members[i].job, next->text);
    act(c, facts, next->text);
}

/* ---------------------------------------------------------------- looks */

/* Of every node that lives it must be known what it runs. */
static bool are_all_there(const crti_control_t *c)
{
    if (!c->serving || c->joining)
        return false;
    CRTI_LIST_FOREACH (item, &c->nodes.living)
        if (CRTI_NODE_OF(item)->state != CRTI_NODE_ALIVE)
            return false;
    return true;
}

static void on_told(crti_control_t *c, const crti_gather_t *gather)
{
    crti_deadlock_facts_t *facts = NULL;

    c->deadlocks.is_asking = false;
    c->deadlocks.due_ns = c->now_ns + CRTI_LIMIT(deadlock_interval);
    if (gather->silent || !are_all_there(c) ||
        crti_deadlock_facts_new(c, crti_span(gather->rows.data, gather->rows.size),
                                &c->deadlocks.last, &facts) != CRT_OK) {
        forget_last(&c->deadlocks);
        return;
    }
    if (crti_deadlock_facts_judge(facts))
        found(c, facts);
    else
        end_report(c);
    crti_deadlock_facts_free(facts);
}

void crti_control_deadlock_look(crti_control_t *c)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t jobs = {0};

    if (!are_all_there(c)) {
        forget_last(&c->deadlocks);
        c->deadlocks.due_ns = c->now_ns + CRTI_LIMIT(deadlock_interval);
        return;
    }
    c->deadlocks.due_ns = UINT64_MAX;
    if (crti_deadlock_jobs(c, &jobs) != CRT_OK || jobs.size == 0) {
        forget_last(&c->deadlocks);
        end_report(c);
        return;
    }
    c->deadlocks.is_asking = true;
    crti_control_ask_nodes(c, "rest", crti_span(jobs.data, jobs.size), PATIENCE_NS,
                           on_told);
}
