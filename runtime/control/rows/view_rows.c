/* SPDX-License-Identifier: Apache-2.0 */
/* The cluster as rows for programs: nodes, named actors, jobs (crt_cluster_view.h, crt_job.h).
 *
 * Where it sits
 *     core/client/cluster_view.c, job_api.c -> VIEW_QUERY -> [ rows/view_rows.c ] -> VIEW_ANSWER
 * State as JSON, for people and for HTTP, is state_json.c's.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/control/control_state.h"
#include "runtime/control/outbox.h"
#include "runtime/control/rows/state_rows.h"
#include "runtime/crt.h"

#define TEXT_MAX ((size_t)1024) /* of a text that may be long */

static crti_span_t cut(const char *text)
{
    size_t size = text ? strnlen(text, TEXT_MAX) : 0;

    return crti_span(text ? text : "", size);
}

static crt_status_t add(crti_buffer_t *rows, crti_message_kind_t kind, const void *row)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t encoded = {0};
    crt_status_t status = crti_message_encode(kind, 0, row, &encoded);

    return status == CRT_OK ? crti_list_pack(rows, encoded.data, encoded.size) : status;
}

/* ---------------------------------------------------------------- nodes */

static uint64_t state_of_node(const crti_node_entry_t *node)
{
    return node->state == CRTI_NODE_DEAD ? CRT_NODE_DEAD
           : node->drain_ns              ? CRT_NODE_DRAINING
                                         : CRT_NODE_ALIVE;
}

static crt_status_t add_node(crti_buffer_t *rows, const crti_node_entry_t *node)
{
    const bool is_dead = node->state == CRTI_NODE_DEAD;
    crti_msg_view_node_t row = {.node = node->id,
                                .state = state_of_node(node),
                                .ip = cut(node->ip),
                                .hostname = cut(node->hostname),
                                .labels = cut(node->labels),
                                .is_head_host = node->is_head_host,
                                .store_bytes = node->store_bytes,
                                .store_used = node->store_used,
                                .start_ms = node->start_ms,
                                .end_ms = is_dead ? node->end_ms : 0};

    if (!is_dead) {
        row.resources = node->resources;
        row.available = node->available;
    }
    return add(rows, CRTI_MSG_VIEW_NODE, &row);
}

static crt_status_t view_nodes(const crti_control_t *c, const char *filter,
                               crti_buffer_t *rows)
{
    const crti_list_t *lists[] = {&c->nodes.living, &c->nodes.dead};
    crt_status_t status = CRT_OK;
    crti_id_t id = {0};

    if (*filter && !crti_id_parse(filter, &id))
        return crt_raise(CRT_ERR_INVALID, "\"%s\" is no node id of 32 hex digits",
                         filter);
    for (size_t i = 0; i < 2; i++)
        CRTI_LIST_FOREACH (item, lists[i])
            if (status == CRT_OK &&
                (!*filter || crti_id_equal(CRTI_NODE_OF(item)->id, id)))
                status = add_node(rows, CRTI_NODE_OF(item));
    return status;
}

/* ---------------------------------------------------------------- actors */

static const uint64_t actor_states[CRTI_ACTOR_STATES] = {
    [CRTI_ACTOR_PENDING] = CRT_ACTOR_PENDING,
    [CRTI_ACTOR_STARTING] = CRT_ACTOR_STARTING,
    [CRTI_ACTOR_ALIVE] = CRT_ACTOR_ALIVE,
    [CRTI_ACTOR_RESTARTING] = CRT_ACTOR_RESTARTING,
    [CRTI_ACTOR_DEAD] = CRT_ACTOR_DEAD};

static crt_status_t add_actor(crti_buffer_t *rows, const crti_actor_entry_t *actor)
{
    const bool is_placed = crti_actor_entry_is_placed(actor);
    crti_msg_view_actor_t row = {.actor = actor->id,
                                 .name = actor->made->name,
                                 .name_space = actor->made->name_space,
                                 .class_name = actor->made->class_name,
                                 .job = actor->made->job,
                                 .node = is_placed ? actor->node : (crti_id_t){0, 0},
                                 .state = actor_states[actor->state],
                                 .is_detached = actor->made->detached,
                                 .pid = actor->state == CRTI_ACTOR_ALIVE ? actor->pid : 0,
                                 .restarts = actor->restarts};

    return add(rows, CRTI_MSG_VIEW_ACTOR, &row);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const crti_actor_entry_t *const *)a)->full_name,
                  (*(const crti_actor_entry_t *const *)b)->full_name);
}

/* `filter`: "" or "/" and a namespace. */
static bool is_named(const crti_actor_entry_t *actor, const char *filter)
{
    return actor->made->name.size && actor->full_name &&
           (!*filter || crti_str_equal(actor->made->name_space, filter + 1));
}

static size_t gather_actors(const crti_control_t *c, const char *filter,
                            const crti_actor_entry_t **list)
{
    const crti_list_t *lists[] = {&c->actors.waiting, &c->actors.placed};
    size_t count = 0;

    for (size_t i = 0; i < 2; i++)
        CRTI_LIST_FOREACH (item, lists[i]) {
            const crti_actor_entry_t *actor = CRTI_ACTOR_OF(item);

            if (!is_named(actor, filter))
                continue;
            if (list)
                list[count] = actor;
            count++;
        }
    return count;
}

static crt_status_t view_actors(const crti_control_t *c, const char *filter,
                                crti_buffer_t *rows)
{
    size_t count = gather_actors(c, filter, NULL);
    const crti_actor_entry_t **list = malloc((count + 1) * sizeof(*list));
    crt_status_t status = CRT_OK;

    if (!list)
        return crt_raise(CRT_ERR_NO_MEMORY, "a list of %zu actors", count);
    gather_actors(c, filter, list);
    qsort(list, count, sizeof(*list), by_name);
    for (size_t i = 0; i < count && status == CRT_OK; i++)
        status = add_actor(rows, list[i]);
    free(list);
    return status;
}

/* ---------------------------------------------------------------- jobs */

static const uint64_t job_states[CRTI_JOB_STATES] = {[CRTI_JOB_PENDING] = CRT_JOB_PENDING,
                                                     [CRTI_JOB_RUNNING] = CRT_JOB_RUNNING,
                                                     [CRTI_JOB_STOPPED] = CRT_JOB_STOPPED,
                                                     [CRTI_JOB_SUCCEEDED] =
                                                         CRT_JOB_SUCCEEDED,
                                                     [CRTI_JOB_FAILED] = CRT_JOB_FAILED};

static crt_status_t add_job(crti_buffer_t *rows, const crti_job_entry_t *job)
{
    char text[TEXT_MAX];
    crti_msg_view_job_t row = {.job = job->id,
                               .submission = job->made->submission,
                               .entrypoint = cut(crti_copied_text(job->made->entrypoint)),
                               .node = job->node,
                               .state = job_states[job->state],
                               .has_exit = job->has_exit,
                               .exit_code = job->exit_code,
                               .pid = job->pid,
                               .start_ms = job->start_ms,
                               .end_ms = crti_job_entry_is_ended(job) ? job->end_ms : 0};

    crti_job_entry_message(job, text, sizeof(text));
    row.text = crti_str(text);
    return add(rows, CRTI_MSG_VIEW_JOB, &row);
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = (*(const crti_job_entry_t *const *)a)->made->number,
             y = (*(const crti_job_entry_t *const *)b)->made->number;

    return (x > y) - (x < y);
}

static const crti_job_entry_t *find_job(const crti_control_t *c, const char *name)
{
    const crti_job_entry_t *job = crti_job_table_find(&c->jobs, crti_str(name));
    crti_id_t id;

    if (!job && crti_id_parse(name, &id))
        job = crti_job_table_get(&c->jobs, id);
    return job;
}

static crt_status_t view_one_job(const crti_control_t *c, const char *name,
                                 crti_buffer_t *rows)
{
    const crti_job_entry_t *job = find_job(c, name);

    return job ? add_job(rows, job)
               : crt_raise(CRT_ERR_NOT_FOUND, "job %s does not exist", name);
}

static crt_status_t view_jobs(const crti_control_t *c, const char *filter,
                              crti_buffer_t *rows)
{
    const crti_list_t *lists[] = {&c->jobs.running, &c->jobs.ended};
    const crti_job_entry_t **list;
    crt_status_t status = CRT_OK;
    size_t count = 0;

    if (*filter)
        return view_one_job(c, filter, rows);
    for (size_t i = 0; i < 2; i++)
        CRTI_LIST_FOREACH (item, lists[i])
            count++;
    list = malloc((count + 1) * sizeof(*list));
    if (!list)
        return crt_raise(CRT_ERR_NO_MEMORY, "a list of %zu jobs", count);
    count = 0;
    for (size_t i = 0; i < 2; i++)
        CRTI_LIST_FOREACH (item, lists[i])
            list[count++] = CRTI_JOB_OF(item);
    qsort(list, count, sizeof(*list), by_number);
    for (size_t i = 0; i < count && status == CRT_OK; i++)
        status = add_job(rows, list[i]);
    free(list);
    return status;
}

/* ---------------------------------------------------------------- questions */

static crt_status_t view(const crti_control_t *c, const crti_msg_view_query_t *m,
                         crti_buffer_t *rows)
{
    char filter[TEXT_MAX];

    if (m->filter.size >= sizeof(filter))
        return crt_raise(CRT_ERR_INVALID, "a filter of %zu bytes", m->filter.size);
    crti_text(m->filter, filter, sizeof(filter));
    if (crti_str_equal(m->what, "nodes"))
        return view_nodes(c, filter, rows);
    if (crti_str_equal(m->what, "named_actors"))
        return view_actors(c, filter, rows);
    if (crti_str_equal(m->what, "jobs"))
        return view_jobs(c, filter, rows);
    return crt_raise(CRT_ERR_UNSUPPORTED, "this head has no view of \"%.*s\"",
                     (int)(m->what.size < 40 ? m->what.size : 40),
                     m->what.size ? (const char *)m->what.data : "");
}

void crti_control_view(crti_control_t *c, uint64_t link, uint64_t request,
                       const crti_msg_view_query_t *m)
{
    CRTI_AUTO(crti_buffer_fini) crti_buffer_t rows = {0};
    crti_msg_view_answer_t answer = {0};
    crt_status_t status = view(c, m, &rows);

    if (status == CRT_OK && rows.size > CRTI_MESSAGE_MAX - 1024)
        status = crt_raise(CRT_ERR_TOO_LARGE, "the answer has %zu bytes", rows.size);
    answer.rows = crti_span(rows.data, rows.size);
    if (status != CRT_OK)
        crti_control_refuse(c, link, request, status);
    else
        crti_control_answer(c, link, CRTI_MSG_VIEW_ANSWER, request, &answer, false);
}
