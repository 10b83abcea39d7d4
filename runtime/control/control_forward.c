/* SPDX-License-Identifier: Apache-2.0 */
/* What the head passes on to nodes, and their answers. See control.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/control/control_forward.h"
#include "runtime/control/control_placement_group.h"
#include "runtime/control/control_request.h"
#include "runtime/control/control_state.h"
#include "runtime/control/outbox.h"
#include "runtime/control/rows/state_rows.h"

#define PATIENCE_NS                                                                      \
    (5 * CRTI_S) /* for the answer of a node to what somebody else waits for */

#define WAIT_MAX_MS 60000 /* of a reader of a log */

static void free_gather(crti_gather_t *gather)
{
    crti_buffer_fini(&gather->rows);
    free(gather->filter);
    free(gather->json);
    free(gather->refusal);
    free(gather);
}

/* ---------------------------------------------------------------- logs */

static void note_reader(crti_request_t *request, const crti_request_t *like)
{
    request->from_link = like->from_link;
    request->from_request = like->from_request;
    request->name = strdup(like->name);
    request->offset = like->offset;
    request->limit = like->limit;
    request->wait_ms = like->wait_ms;
}

static void send_log_read(crti_control_t *c, const crti_node_entry_t *node,
                          const crti_request_t *like)
{
    crti_request_t *request =
        crti_control_new_request(c, node, CRTI_MSG_LOG_READ, (crti_id_t){0, 0});
    crti_msg_log_read_t body = {.name = crti_str(like->name),
                                .offset = like->offset,
                                .limit = like->limit,
                                .wait_ms = like->wait_ms};

    if (request == NULL)
        return;
    note_reader(request, like);
    request->subject = like->subject;
    crti_request_set_deadline(c, request,
                              c->now_ns + PATIENCE_NS + like->wait_ms * CRTI_MS);
    crti_control_send(c, node->link, CRTI_MSG_LOG_READ, request->number, &body);
}

/* The living node behind `after` (zero: the first) in the order of the table. */
static crti_node_entry_t *next_node(const crti_control_t *c, crti_id_t after)
{
    bool passed = crti_id_is_zero(after);

    CRTI_LIST_FOREACH (item, &c->nodes.living) {
        crti_node_entry_t *node = CRTI_NODE_OF(item);

        if (passed && node->state == CRTI_NODE_ALIVE)
            return node;
        passed = passed || crti_id_equal(node->id, after);
    }
    return NULL;
}

/* A node that is not there now but is not given up has not said what it knows. */
static bool is_away(const crti_node_entry_t *node)
{
    return node->state == CRTI_NODE_EXPECTED || node->state == CRTI_NODE_SUSPECT;
}

static bool has_node_away(const crti_control_t *c)
{
    CRTI_LIST_FOREACH (item, &c->nodes.living)
        if (is_away(CRTI_NODE_OF(item)))
            return true;
    return false;
}

/* No node can be asked for it. */
static void refuse_log(crti_control_t *c, uint64_t link, uint64_t request,
                       const char *name, bool may_come_back)
{
    crt_status_t status = may_come_back ? CRT_ERR_UNREACHABLE : CRT_ERR_NOT_FOUND;

    crt_raise(status, "%s: the node that has this log is not in the cluster%s", name,
              may_come_back ? " just now" : "");
    crti_control_refuse(c, link, request, status);
}

#define JOB_LOG (sizeof("job:") - 1 + CRTI_ID_HEX)

/* Zero: of no job. By the job's id: an earlier one may have had the submission id. */
static crti_id_t job_log_owner(const crti_control_t *c, const char *submission,
                               char own_name[JOB_LOG])
{
    const crti_job_entry_t *job = crti_job_table_find(&c->jobs, crti_str(submission));
    const crti_node_entry_t *host = crti_node_table_head_host(&c->nodes);
    crti_id_t id;

    if (job == NULL && crti_id_parse(submission, &id)) /* of one attempt */
        job = crti_job_table_get(&c->jobs, id);
    if (job == NULL)
        return (crti_id_t){0, 0};
    crti_id_hex(job->id, stpcpy(own_name, "job:"));
    if (!crti_id_is_zero(job->node))
        return job->node;
    return host ? host->id : (crti_id_t){0, 0};
}

/* "node:HEX" is asked of that node; "head:" and "http:" of one on the head's host, with the port of
 * the head. */
static bool daemon_log_owner(const crti_control_t *c, const char *name,
                             crti_id_t *node_out, char own_name[JOB_LOG])
{
    const char *port = c->address ? strrchr(c->address, ':') : NULL;
    const char *id = name + sizeof("node:") - 1;
    bool is_head = strcmp(name, "head:") == 0 || strcmp(name, "http:") == 0;
    char hex[CRTI_ID_HEX];

    if (!is_head && strncmp(name, "node:", 5) != 0)
        return false;
    *node_out = (crti_id_t){0, 0};
    snprintf(own_name, JOB_LOG, "%s%s", name, is_head && port ? port + 1 : "");
    CRTI_MAP_FOREACH (const crti_node_entry_t, node, &c->nodes.by_id) {
        if (is_head ? node->is_head_host && node->link != 0
                    : strncmp(crti_id_hex(node->id, hex), id, strlen(id)) == 0)
            *node_out = node->id;
    }
    return true;
}

/* Which node has that log, under which name; false: it can't be told from the name. */
static bool log_owner(const crti_control_t *c, const char *name, crti_id_t *node_out,
                      char own_name[JOB_LOG])
{
    const crti_actor_entry_t *actor;
    crti_id_t id;

    if (strncmp(name, "job:", 4) == 0) {
        *node_out = job_log_owner(c, name + 4, own_name);
        return true;
    }
    if (daemon_log_owner(c, name, node_out, own_name))
        return true;
    actor = crti_id_parse(name, &id) ? crti_actor_table_get(&c->actors, id)
                                     : crti_actor_table_find_any(&c->actors, name);
    if (actor == NULL)
        return false;
    *node_out = actor->node;
    crti_id_hex(actor->id, own_name);
    return true;
}

/* Those who wait for the log of a job that has not begun are requests to no node. */
static bool is_held(const crti_request_t *request)
{
    return request->kind == CRTI_MSG_LOG_READ && request->link == 0;
}

static bool hold_until_begun(crti_control_t *c, const crti_request_t *like)
{
    static const crti_node_entry_t nowhere;
    const crti_job_entry_t *job =
        like->wait_ms && strncmp(like->name, "job:", 4) == 0
            ? crti_job_table_find(&c->jobs, crti_str(like->name + 4))
            : NULL;
    crti_request_t *request;

    if (job == NULL || job->state != CRTI_JOB_PENDING ||
        (job->start_sent && job->is_set_up))
        return false;
    request = crti_control_new_request(c, &nowhere, CRTI_MSG_LOG_READ, job->id);
    if (request == NULL)
        return false;
    note_reader(request, like);
    crti_request_set_deadline(c, request, c->now_ns + like->wait_ms * CRTI_MS);
    return true;
}

void crti_control_job_begun(crti_control_t *c, const crti_job_entry_t *job)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->requests) {
        crti_request_t *held = CRTI_CONTAINER(item, crti_request_t, in_requests);
        uint64_t left = held->deadline_ns > c->now_ns ? held->deadline_ns - c->now_ns : 0;
        crti_msg_log_read_t m = {.name = crti_str(held->name),
                                 .offset = held->offset,
                                 .limit = held->limit,
                                 .wait_ms = left / CRTI_MS};

        if (!crti_request_has_deadline(held))
            break;
        if (!is_held(held) || !crti_id_equal(held->subject, job->id))
            continue;
        crti_request_unlink(c, held);
        if (held->from_link)
            crti_control_log_read(c, held->from_link, held->from_request, &m);
        crti_request_free(held);
    }
}

void crti_control_log_read(crti_control_t *c, uint64_t link, uint64_t request,
                           const crti_msg_log_read_t *m)
{
    CRTI_AUTO(free) char *name = crti_str_dup(m->name);
    char own_name[JOB_LOG] = "";
    crti_node_entry_t *node = NULL;
    crti_id_t id = {0, 0};
    crti_request_t like = {.from_link = link,
                           .from_request = request,
                           .offset = m->offset,
                           .limit = m->limit,
                           .wait_ms = m->wait_ms < WAIT_MAX_MS ? m->wait_ms : WAIT_MAX_MS,
                           .name = name};

    if (name == NULL || hold_until_begun(c, &like))
        return;
    if (log_owner(c, name, &id, own_name)) {
        node = crti_node_table_get(&c->nodes, id);
    } else {
        node = next_node(c, id); /* a worker: whichever node knows it */
        like.subject = (crti_id_t){0, 1};
    }
    if (node == NULL || node->link == 0) {
        refuse_log(c, link, request, name, node ? is_away(node) : has_node_away(c));
        return;
    }
    like.name = *own_name ? own_name : name;
    send_log_read(c, node, &like);
}

/* ---------------------------------------------------------------- questions to all nodes */

/* What nodes said, as one answer. Caller frees it. `c` may be NULL for what is made of rows
 * only. */
static char *join(const crti_control_t *c, const crti_gather_t *gather)
{
    crti_span_t rows = crti_span(gather->rows.data, gather->rows.size);
    const char *filter = gather->filter ? gather->filter : "", *what = gather->what;

    if (strcmp(what, "tasks") == 0)
        return crti_task_rows_join(rows, crti_str(filter), gather->silent);
    if (strcmp(what, "metrics") == 0)
        return crti_state_metrics(c, rows, gather->silent);
    if (strcmp(what, "actors_detail") == 0)
        return crti_actor_rows_join(c, rows, crti_str(filter));
    if (strcmp(what, "stacks") == 0)
        return crti_stack_rows_join(rows, gather->silent);
    if (strcmp(what, "objects") == 0)
        return crti_object_rows_join(rows, crti_str(filter));
    if (strcmp(what, "refs") == 0)
        return crti_ref_rows_join(rows, crti_str(filter), gather->silent);
    return crti_state_join(rows, "worker_id", filter);
}

/* The error is this thread's: its text goes with the answer. */
static void make_answer(const crti_control_t *c, crti_gather_t *gather)
{
    gather->json = join(c, gather);
    if (!gather->json)
        gather->refusal = strdup(crt_error_detail());
}

static void answer_gather(crti_control_t *c, crti_gather_t *gather)
{
    crti_msg_state_answer_t answer = {.json = crti_str(gather->json ? gather->json : "")};

    if (gather->json)
        crti_control_answer(c, gather->from_link, CRTI_MSG_STATE_ANSWER,
                            gather->from_request, &answer, false);
    else
        crti_control_refuse(c, gather->from_link, gather->from_request,
                            crt_raise(CRT_ERR_TOO_LARGE, "%s",
                                      gather->refusal ? gather->refusal : "a list"));
    free_gather(gather);
}

/* Thousands of rows: nothing else is decided meanwhile, when there is a thread for it. */
static void run_join(crti_control_work_t *work)
{
    make_answer(NULL, CRTI_CONTAINER(work, crti_gather_t, work));
}

void crti_control_rows_joined(crti_control_t *c, crti_control_work_t *work)
{
    answer_gather(c, CRTI_CONTAINER(work, crti_gather_t, work));
}

static bool is_of_rows_only(const char *what)
{
    return strcmp(what, "metrics") != 0 && strcmp(what, "actors_detail") != 0;
}

static void finish_gather(crti_control_t *c, crti_gather_t *gather)
{
    const crti_control_actions_t *actions = &c->config.actions;

    if (gather->on_told) {
        gather->on_told(c, gather);
        free_gather(gather);
        return;
    }
    gather->work.run = run_join;
    if (is_of_rows_only(gather->what) && actions->work &&
        actions->work(actions->user, &gather->work))
        return;
    make_answer(c, gather);
    answer_gather(c, gather);
}

static void gather_one(crti_control_t *c, crti_gather_t *gather, crti_span_t json)
{
    if (json.size)
        crti_list_pack(&gather->rows, json.data, json.size);
    else
        gather->silent++;
    if (--gather->open == 0)
        finish_gather(c, gather);
}

/* Of calls each node tells its part of what is told in all. */
static crti_span_t rows_of_each(const crti_control_t *c, char *text, size_t size)
{
    size_t nodes = 0;

    CRTI_LIST_FOREACH (item, &c->nodes.living)
        nodes += CRTI_NODE_OF(item)->state == CRTI_NODE_ALIVE;
    snprintf(text, size, "%zu", CRTI_TASK_ROWS / (nodes ? nodes : 1) + 1);
    return crti_str(text);
}

/* For what nodes say: processes are asked for some of it, and their stacks are read. */
static uint64_t patience_ns(crti_span_t what)
{
    return crti_str_equal(what, "stacks")                                    ? 12 * CRTI_S
           : crti_str_equal(what, "objects") || crti_str_equal(what, "refs") ? 3 * CRTI_S
                                                                             : 2 * CRTI_S;
}

/* Its answer is made when all have answered, at once perhaps. */
static void ask_each(crti_control_t *c, crti_gather_t *gather,
                     const crti_msg_state_query_t *query, uint64_t patience)
{
    gather->open = 1; /* this loop's own, so that it does not end inside */
    CRTI_LIST_FOREACH (item, &c->nodes.living) {
        const crti_node_entry_t *node = CRTI_NODE_OF(item);
        crti_request_t *question;

        if (node->state != CRTI_NODE_ALIVE)
            continue;
        question =
            crti_control_new_request(c, node, CRTI_MSG_STATE_QUERY, (crti_id_t){0, 0});
        if (question == NULL)
            continue;
        question->gather = gather;
        crti_request_set_deadline(c, question, c->now_ns + patience);
        gather->open++;
        crti_control_send(c, node->link, CRTI_MSG_STATE_QUERY, question->number, query);
    }
    gather->silent--; /* that is not a node */
    gather_one(c, gather, crti_span(NULL, 0));
}

static void ask_all(crti_control_t *c, uint64_t link, uint64_t request,
                    const crti_msg_state_query_t *m)
{
    crti_gather_t *gather = calloc(1, sizeof(*gather));
    crti_msg_state_query_t to_node = *m;
    char limit[24];

    if (gather == NULL)
        return;
    crti_text(m->what, gather->what, sizeof(gather->what));
    if (strcmp(gather->what, "refs") == 0) /* nodes tell both at once */
        to_node.what = crti_str("objects");
    if (strcmp(gather->what, "tasks") == 0 || crti_str_equal(to_node.what, "objects"))
        to_node.filter = rows_of_each(c, limit, sizeof(limit));
    gather->from_link = link;
    gather->from_request = request;
    gather->filter = crti_str_dup(m->filter);
    ask_each(c, gather, &to_node, patience_ns(m->what));
}

void crti_control_ask_nodes(crti_control_t *c, const char *what, crti_span_t filter,
                            uint64_t patience,
                            void (*on_told)(crti_control_t *control,
                                            const crti_gather_t *gather))
{
    static const crti_gather_t nothing = {.silent = 1};
    crti_gather_t *gather = calloc(1, sizeof(*gather));
    crti_msg_state_query_t query = {.what = crti_str(what), .filter = filter};

    if (gather == NULL) {
        on_told(c, &nothing);
        return;
    }
    gather->on_told = on_told;
    ask_each(c, gather, &query, patience);
}

/* What the head does not know itself. */
static bool is_for_nodes(crti_span_t what)
{
    return crti_str_equal(what, "workers") || crti_str_equal(what, "tasks") ||
           crti_str_equal(what, "objects") || crti_str_equal(what, "metrics") ||
           crti_str_equal(what, "actors_detail") || crti_str_equal(what, "stacks") ||
           crti_str_equal(what, "refs");
}

/* Nobody is asked for what could not be answered. */
static crt_status_t check_query(const crti_msg_state_query_t *m)
{
    static const struct {
        const char *what;
        crt_status_t (*check)(crti_span_t filter); /* NULL: it takes no query */
    } known[] = {{"cluster", NULL},
                 {"nodes", NULL},
                 {"actors", crti_actor_rows_check},
                 {"actors_detail", crti_actor_rows_check},
                 {"jobs", crti_job_rows_check},
                 {"placement_groups", NULL},
                 {"events", crti_state_events_check},
                 {"tasks", crti_task_rows_check},
                 {"objects", crti_object_rows_check},
                 {"refs", crti_ref_rows_check},
                 {"workers", NULL},
                 {"stacks", NULL},
                 {"metrics", NULL}};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (crti_str_equal(m->what, known[i].what))
            return known[i].check ? known[i].check(m->filter) : CRT_OK;
    return crt_raise(CRT_ERR_INVALID,
                     "nothing is known of \"%.*s\" (cluster, nodes, actors, jobs, "
                     "placement_groups, "
                     "events, actors_detail, tasks, objects, workers, metrics)",
                     (int)(m->what.size < 64 ? m->what.size : 64),
                     m->what.size ? (const char *)m->what.data : "");
}

void crti_control_query(crti_control_t *c, uint64_t link, uint64_t request,
                        const crti_msg_state_query_t *m)
{
    CRTI_AUTO(free) char *json = NULL;
    crti_msg_state_answer_t answer;

    if (check_query(m) != CRT_OK) {
        crti_control_refuse(c, link, request, CRT_ERR_INVALID);
        return;
    }
    if (is_for_nodes(m->what)) {
        ask_all(c, link, request, m);
        return;
    }
    json = crti_state_json(c, m->what, m->filter);
    if (json == NULL) {
        crti_control_refuse(c, link, request, CRT_ERR_TOO_LARGE);
        return;
    }
    answer = (crti_msg_state_answer_t){.json = crti_str(json)};
    crti_control_reply(c, link, CRTI_MSG_STATE_ANSWER, request, &answer);
}

/* ---------------------------------------------------------------- answers */

/* The request comes to nothing: no node answers it any more. */
static void fail(crti_control_t *c, crti_request_t *request, crt_status_t status,
                 const char *text)
{
    crti_request_unlink(c, request);
    if (request->gather)
        gather_one(c, request->gather, crti_span(NULL, 0));
    if (request->kind == CRTI_MSG_BUNDLE_RESERVE)
        crti_control_bundle_answered(c, request, false, text);
    if (request->from_link) {
        crt_raise(status, "%s", text);
        crti_control_refuse(c, request->from_link, request->from_request, status);
    }
    crti_request_free(request);
}

void crti_control_forwarded(crti_control_t *c, crti_request_t *request,
                            const crti_message_t *m)
{
    crti_node_entry_t *next;

    if (request->kind == CRTI_MSG_STATE_QUERY) {
        gather_one(c, request->gather,
                   m->kind == CRTI_MSG_STATE_ANSWER ? m->state_answer.json
                                                    : crti_span(NULL, 0));
        return;
    }
    if (!request->from_link)
        return;
    if (m->kind == CRTI_MSG_ERROR && m->error.status == CRT_ERR_NOT_FOUND &&
        request->kind == CRTI_MSG_LOG_READ && request->subject.low) {
        next = next_node(c, request->node);
        if (next) {
            send_log_read(c, next, request);
            return;
        }
        if (has_node_away(c)) {
            refuse_log(c, request->from_link, request->from_request, request->name, true);
            return;
        }
    }
    crti_control_answer(c, request->from_link, m->kind, request->from_request, &m->error,
                        false);
}

void crti_control_requests_lost(crti_control_t *c, uint64_t link, const char *text)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->requests) {
        crti_request_t *request = CRTI_CONTAINER(item, crti_request_t, in_requests);

        if (request->link == link)
            fail(c, request, CRT_ERR_UNREACHABLE, text);
    }
}

/* The one who asked is gone. */
void crti_control_requests_of(crti_control_t *c, uint64_t from_link)
{
    CRTI_LIST_FOREACH (item, &c->requests) {
        crti_request_t *request = CRTI_CONTAINER(item, crti_request_t, in_requests);

        if (request->from_link == from_link)
            request->from_link = 0;
    }
}

void crti_control_requests_overdue(crti_control_t *c)
{
    CRTI_LIST_FOREACH_SAFE (item, &c->requests) {
        crti_request_t *request = CRTI_CONTAINER(item, crti_request_t, in_requests);

        if (!crti_request_has_deadline(request))
            break;
        if (request->deadline_ns > c->now_ns)
            continue;
        if (is_held(request))
            fail(c, request, CRT_ERR_NOT_FOUND, "the job has not begun: there is no log");
        else
            fail(c, request, CRT_ERR_TIMED_OUT, "the node does not answer");
    }
}

uint64_t crti_control_requests_deadline(const crti_control_t *c)
{
    uint64_t earliest = UINT64_MAX;

    CRTI_LIST_FOREACH (item, &c->requests) {
        const crti_request_t *request = CRTI_CONTAINER(item, crti_request_t, in_requests);

        if (!crti_request_has_deadline(request))
            break;
        if (request->deadline_ns < earliest)
            earliest = request->deadline_ns;
    }
    return earliest;
}

void crti_control_requests_free(crti_control_t *c)
{
    while (!crti_list_is_empty(&c->requests)) {
        crti_request_t *request =
            CRTI_CONTAINER(c->requests.next, crti_request_t, in_requests);

        if (request->gather && --request->gather->open == 0)
            free_gather(request->gather);
        crti_request_forget(c, request);
    }
}
